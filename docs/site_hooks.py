"""Hooks of MkDocs: pages from the root of the repository and from the code, and links that leave
``docs/``.

Nothing that is built here is kept in the repository.
"""

from __future__ import annotations

import importlib
import posixpath
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

import codesign

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

reference_pages = importlib.import_module("reference_pages")
findings = importlib.import_module("validation.findings")

_AT_ROOT = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Pages that GitHub shows at the root, and where the site has them."""
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
_LAYER = re.compile(r'^ +layer\d+\["(.*)"\]$', re.MULTILINE)
_DIAGRAM = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)


def on_config(config: Any) -> Any:
    """Show the version beside the name of the site."""
    config.site_name = f"{config.site_name} {codesign.__version__}"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages of the root, the code and the findings, and source files that pages name."""
    for name, place in _AT_ROOT.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text("utf-8")))
    with tempfile.TemporaryDirectory() as drawings:
        stored = findings.site_files(findings.FOLDER, Path(drawings))
    for place, content in (reference_pages.pages() | stored).items():
        files.append(File.generated(config, place, content=content))
    named = {path for page in files.documentation_pages() for path in _source_files(page)}
    for path in sorted(named):
        place = f"source/{path}"
        content = (ROOT / path).read_bytes()
        level = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, place, content=content, inclusion=level))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text with its links led to where the site has their targets."""
    place = page.file.src_uri
    text = _LINK.sub(lambda link: _site_link(link[1], place), markdown)
    return _DIAGRAM.sub(lambda diagram: _as_list(diagram[1]), text)


def _source_files(page: File) -> Iterator[str]:
    """Files outside ``docs/`` to which a page links; a missing one is left to MkDocs to report."""
    for link in _LINK.findall(page.content_string):
        path = _in_repository(link, page.src_uri)
        outside = not path.startswith("docs/") and path not in _AT_ROOT
        if outside and (ROOT / path).is_file():
            yield path


def _in_repository(link: str, place: str) -> str:
    """The path, from the root of the repository, to which a page of the site links."""
    at_root = place in _AT_ROOT.values()
    folder = "" if at_root else posixpath.dirname(f"docs/{place}")
    return posixpath.normpath(posixpath.join(folder, link))


def _site_link(link: str, place: str) -> str:
    path = _in_repository(link, place)
    if path in _AT_ROOT:
        target = _AT_ROOT[path]
    elif path.startswith("docs/"):
        target = path.removeprefix("docs/")
    elif (ROOT / path).is_file():
        target = f"source/{path}"
    else:
        return link
    return posixpath.relpath(target, posixpath.dirname(place) or ".")


def _as_list(diagram: str) -> str:
    """The layers from top to bottom; a browser would fetch the program that draws them."""
    return "\n".join(f"1. `{layer}`" for layer in _LAYER.findall(diagram)) + "\n"
