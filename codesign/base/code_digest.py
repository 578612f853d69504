"""A digest of the code that a result depends on: modules, and what they import.

The imports are read from the text, so nothing is executed, and imports inside functions count too.
What is imported under a name that is only known at run time is not seen: the caller names it.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>[\w.]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]+)"
    r"|import[ \t]+(?P<modules>[^\n]+))",
    re.MULTILINE,
)
_NAMED = re.compile(r"[\"'](?P<module>[\w]+(?:\.\w+)+):\w+[\"']")
"""An object named in a text as ``package.module:object``."""
_DATA = frozenset({".yaml", ".json", ".csv", ".npz"})


@cache
def code_digest(modules: tuple[str, ...]) -> str:
    """SHA-256 over the source of modules and of all that they import from their own packages.

    Data files beside the modules of a package, and in a folder ``constants`` there, count as
    source; libraries from which inputs are chosen by name do not, for whoever chooses records them.

    Args:
        modules: Full names. Those without a source file, such as a notebook's, count as nothing.
    """
    digest = hashlib.sha256()
    for name, path in sorted(imported_files(modules).items()):
        digest.update(f"{name}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def imported_files(modules: Iterable[str]) -> dict[str, Path]:
    """The source and data files behind modules, by the module's or the file's name."""
    files = {}
    waiting = list(modules)
    looked_at = set[str]()
    while waiting:
        name = waiting.pop()
        if name in looked_at:
            continue
        looked_at.add(name)
        path = _source(name)
        if path is None:
            continue
        files[name] = path
        if path.name == "__init__.py":
            entries = (*path.parent.glob("*"), *path.parent.glob("constants/*"))
            data = sorted(entry for entry in entries if entry.suffix in _DATA)
            files |= {f"{name}/{entry.name}": entry for entry in data}
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        top = name.partition(".")[0]
        text = path.read_text(encoding="utf-8")
        for candidate in _imports(text, package):
            # The top package is a door to everything, and its parts are imported by name.
            names = candidate.split(".")
            if names[0] == top:
                waiting += [".".join(names[:n]) for n in range(2, len(names) + 1)]
    return files


def _imports(text: str, package: str) -> Iterator[str]:
    """Full names of the modules, and of what may be modules, that a source text imports."""
    for match in _IMPORT.finditer(text):
        if match["modules"]:
            yield from (
                module_name.split()[0]
                for module_name in match["modules"].split(",")
                if module_name.split()
            )
            continue
        source = match["source"]
        level = len(source) - len(source.lstrip("."))
        if level:
            base = package.split(".")
            source = ".".join([*base[: len(base) - level + 1], source.lstrip(".")]).rstrip(".")
        yield source
        names = re.sub(r"#[^\n]*", "", match["names"]).strip("() \t")
        yield from (
            f"{source}.{module_name.split()[0]}"
            for module_name in names.split(",")
            if module_name.split()
        )
    yield from (match["module"] for match in _NAMED.finditer(text))


def _source(name: str) -> Path | None:
    """The file of a module of a package that is imported already; None if it has none."""
    top, *rest = name.split(".")
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None:
        return None
    if not rest:
        return Path(file)
    place = Path(file).parent.joinpath(*rest)
    choices = (place / "__init__.py", place.with_name(place.name + ".py"))
    return next((path for path in choices if path.is_file()), None)
