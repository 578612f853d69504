"""The library of memory technologies: every file of ``memtech/`` by its name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache

from codesign.base.catalog import Catalog
from codesign.base.columns import StringDict
from codesign.base.errors import InputError, entry_named
from codesign.base.resources import find, listed
from codesign.base.schema import parse_document, parse_record, read_text
from codesign.models.memtech.technology import Level, MemoryTechnology

_ATTRIBUTES = {
    "latency": "s",
    "capacity": "B",
    "bandwidth": "B/s",
    "shoreline": "m",
    "background_power": "W/B",
    "read_energy": "J/B",
    "write_energy": "J/B",
}


def load_technology(name_or_path: str, where: str | None = None) -> MemoryTechnology:
    """One technology, by name or by the path of its file.

    Raises:
        InputError: No such file, or something in it is wrong; with file, line and key.
    """
    path = find("memtech", name_or_path, where)
    return _technology(path.stem, *read_text(path))


@cache
def _technology(key: str, text: str, source: str) -> MemoryTechnology:
    """A technology from the text of its file; a library is loaded often, and its files stay."""
    document = parse_document(text, source)
    return parse_record(document, MemoryTechnology, {"key": key, **document.data})


class TechnologyLibrary(Mapping[str, MemoryTechnology]):
    """Technologies by name.

    Args:
        technologies: Technologies by name.
        level: End of the published ranges that ``catalog`` gives.
        broken: Mistakes of the files that cannot be used; raised where one is named.
    """

    def __init__(
        self,
        technologies: Mapping[str, MemoryTechnology],
        level: Level = "typical",
        broken: Mapping[str, InputError] | None = None,
    ):
        self._technologies = dict(technologies)
        self._broken = broken or {}
        self.level = level

    def __getitem__(self, name: str) -> MemoryTechnology:
        if name in self._broken:
            raise self._broken[name]
        return entry_named("memory technology", name, self._technologies)

    def __contains__(self, name: object) -> bool:
        return name in self._technologies

    def __iter__(self) -> Iterator[str]:
        return iter(self._technologies)

    def __len__(self) -> int:
        return len(self._technologies)

    def catalog(self) -> Catalog:
        """The attributes that expressions of a design space may use."""
        entries = {
            name: {attribute: item.value_at(attribute, self.level) for attribute in _ATTRIBUTES}
            | ({} if item.available is None else {"available": float(item.available)})
            for name, item in self.items()
        }
        words: dict[str, StringDict] = {
            "family": {name: item.family for name, item in self.items()},
            "status": {name: item.status or "" for name, item in self.items()},
        }
        return Catalog(
            units=_ATTRIBUTES | {"available": "1"},
            entries=entries,
            words=words,
            broken=self._broken,
        )

    def filtered(self, status: Collection[str], year: int | None) -> TechnologyLibrary:
        """The technologies of some statuses that can be bought by a year.

        Args:
            status: Statuses; any if empty.
            year: Latest year; a technology without a year of its own does not count. None: any.
        """
        usable = {
            name: item
            for name, item in self.items()
            if (not status or item.status in status)
            and (year is None or (item.available is not None and item.available <= year))
        }
        return TechnologyLibrary(usable, self.level)


def load_library() -> TechnologyLibrary:
    """Every technology found in the working folder's ``memtech/`` and in the package.

    A file with mistakes stops only what names it.
    """
    technologies = {}
    broken = {}
    for name, path in listed("memtech").items():
        try:
            technologies[name] = _technology(name, *read_text(path))
        except InputError as error:
            broken[name] = error
    return TechnologyLibrary(technologies, broken=broken)


def shipped_catalog() -> Catalog:
    """Attributes of the library's technologies, as a design space sees them."""
    return load_library().catalog()
