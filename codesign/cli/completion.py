"""Names that the shell completes: read from folders, without loading what they name.

A shell waits for the answer, so nothing heavy is imported. A name is not checked.
"""

from __future__ import annotations

from pathlib import Path

from codesign.base.resources import Kind, listed


def campaigns(incomplete: str) -> list[str]:
    """Campaigns by the names of their files."""
    return _beginning("runs", incomplete)


def comparisons(incomplete: str) -> list[str]:
    """Comparisons by the names of their files."""
    return _beginning("comparisons", incomplete)


def public_problems(incomplete: str) -> list[str]:
    """Problems of the public set by the names of their files."""
    files = (Path(__file__).parents[1] / "search" / "problems" / "published").glob("*.json")
    return sorted(path.stem for path in files if path.stem.startswith(incomplete))


def spaces(incomplete: str) -> list[str]:
    """Design spaces by the names of their files."""
    return _beginning("spaces", incomplete)


def technologies(incomplete: str) -> list[str]:
    """Memory technologies by the names of their files."""
    return _beginning("memtech", incomplete)


def models(incomplete: str) -> list[str]:
    """Bundled language models."""
    return _stems("models/workload/models", incomplete)


def devices(incomplete: str) -> list[str]:
    """Bundled devices."""
    return _stems("models/hardware/devices", incomplete)


def catalogue_names(incomplete: str) -> list[str]:
    """Technologies, models, devices and spaces by the names of their files."""
    kinds = (technologies, models, devices, spaces)
    return [name for names in kinds for name in names(incomplete)]


def designs(incomplete: str) -> list[str]:
    """Recommended designs of a front, and those that the default space names."""
    from codesign.base.errors import CodesignError
    from codesign.base.resources import find
    from codesign.base.schema import read_document

    try:
        named = read_document(find("spaces", "memexplorer")).data.get("designs", {})
    except CodesignError:
        named = {}
    return [name for name in ("knee", "frugal", "fastest", *named) if name.startswith(incomplete)]


def _beginning(folder: Kind, incomplete: str) -> list[str]:
    return [name for name in listed(folder) if name.startswith(incomplete)]


def _stems(folder: str, incomplete: str) -> list[str]:
    files = (Path(__file__).parents[1] / folder).glob("*.yaml")
    return sorted(path.stem for path in files if path.stem.startswith(incomplete))
