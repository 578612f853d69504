"""Names that the shell completes: read from folders, without loading what they name.

A shell waits for the answer, so nothing heavy is imported. A name is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from codesign.base.resources import listed


def _completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completion function of a flag: the names that begin with the typed text."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def _bundled(pattern: str) -> list[str]:
    return sorted(path.stem for path in Path(__file__).parents[1].glob(pattern))


campaigns = _completing(lambda: listed("runs"))
comparisons = _completing(lambda: listed("comparisons"))
spaces = _completing(lambda: listed("spaces"))
technologies = _completing(lambda: listed("memtech"))
models = _completing(lambda: _bundled("models/workload/models/*.yaml"))
devices = _completing(lambda: _bundled("models/hardware/devices/*.yaml"))
public_problems = _completing(lambda: _bundled("search/problems/published/*.json"))


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
