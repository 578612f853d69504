"""Pools of a system: spaces side by side in one space, each with the names of its own.

A pool is a design space for the machines of one role, and a number of machines. The space of the
system has the parameters of every pool, each with the pool's name in front, the pools' numbers of
machines, and what joins them.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from codesign.base.columns import (
    MACHINES,
    Fields,
    JsonObject,
    StringDict,
    StringList,
    Strings,
    StringTuple,
    parameters_of_pool,
)
from codesign.base.errors import InputError, UnknownNameError, check_known
from codesign.base.records import drop_keys, frozen, select_keys
from codesign.base.schema import Document, KeyPath, parse_record
from codesign.space.pool_records import LINK_PARAMETERS, ROLES, LinkRecord, PoolRecord, Role
from codesign.space.space_records import SpaceRecord

if TYPE_CHECKING:
    from codesign.space.space import DesignSpace

_Origin = tuple[Document, KeyPath]
"""A document and the place of a key in it."""
_SECTIONS = ("parameters", "repeated", "derived", "constraints", "fixed", "designs", "sources")
_EXPRESSIONS = ("when", "order", "value", "condition")
"""Keys of a space's file whose values name parameters."""
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@frozen
class LinkEnds:
    """Pools that a link joins; its parameters begin with its name."""

    name: str
    sender: str
    receiver: str


@frozen
class Pool:
    """Machines of one role in a system.

    Attributes:
        name: Stands before the names of its parameters.
        machine: What a machine is, in words: the space that it is a design of, or devices.
        parameter_names: The parameters of one machine, without the pool's name.
        load: Reads the pool's own space, the designs of one machine.
    """

    name: str
    role: Role
    machine: str
    parameter_names: StringTuple
    load: Callable[[], DesignSpace]

    @cached_property
    def space(self) -> DesignSpace:
        """The designs of one machine."""
        return self.load()

    def full_name(self, parameter: str) -> str:
        """The name that a parameter of the pool has in the system."""
        return f"{self.name}_{parameter}"


@frozen
class PoolDefinition:
    """A pool as its file states it.

    Attributes:
        record: Its keys.
    """

    name: str
    record: PoolRecord
    document: Document

    @property
    def role(self) -> Role:
        """Work of its machines."""
        return self.record.role or cast(Role, self.name)  # which is one, as read_system has seen

    def parameter_names(self, names: Strings) -> StringTuple:
        """Parameters of one machine among the system's, by the pool's own names."""
        return tuple(parameters_of_pool(self.name, dict.fromkeys(names)))


_KEYS_OF_POOLS: dict[KeyPath, KeyPath] = {
    ("based_on",): ("space",),
    ("parameters", "device"): ("device",),
}
"""Keys of a pool's own space, as they stand in the file of the system."""


@frozen
class PoolDocument(Document):
    """Content of a file for a pool's own space; places are those in the file of the system."""

    owner: Document | None = None
    place: KeyPath = ()

    def origin(self, path: KeyPath) -> _Origin:
        """The key in the pool's entry, or the place in the space that the pool takes."""
        assert self.owner is not None  # given with the place
        document, key = super().origin(path)
        if document is not self:
            return document, key
        return self.owner.origin((*self.place, *_KEYS_OF_POOLS.get(path[:2], path)))


@frozen
class SystemDocument(Document):
    """A space that several documents make together, each key with the place it comes from."""

    origins: Mapping[KeyPath, _Origin] | None = None

    def origin(self, path: KeyPath) -> _Origin:
        """The document that the key comes from, and its path there."""
        origin = (self.origins or {}).get(path[:2])
        if origin is None:
            return super().origin(path)
        document, place = origin
        is_short = place[0] in ("pools", "links")  # of which a value stands for a parameter
        return document.origin((*place, *(() if is_short else path[2:])))


@frozen
class SystemDefinition:
    """A space with pools: the space of the whole, the pools and what joins them."""

    document: Document
    pools: tuple[PoolDefinition, ...]
    links: tuple[LinkEnds, ...]


def read_system(document: Document, overlay: Callable[[Document], Document]) -> SystemDefinition:
    """The space of a system from a document that lists pools.

    Args:
        overlay: Completes a document by the space that it is based on.

    Raises:
        InputError: A pool or a link that cannot be read.
    """
    if not document.data["pools"]:
        raise InputError("expected pools with keys, got none", document.where("pools"))
    sections = {key: value for key, value in document.data.items() if key in _SECTIONS}
    parse_record(
        replace(document, data={**sections, "parameters": sections.get("parameters", _SOME)}),
        SpaceRecord,
    )
    pools = tuple(_pools(document, overlay))
    roles: StringDict = {}
    for pool in pools:
        if pool.role in roles:
            raise InputError(
                f"the role {pool.role!r} is that of pool {roles[pool.role]!r} already",
                document.where("pools", pool.name),
            )
        roles[pool.role] = pool.name
    links = tuple(_links(document, [pool.name for pool in pools]))
    _check_names(document, pools, [ends.name for ends, _ in links])
    return SystemDefinition(
        _joined(document, pools, links), pools, tuple(ends for ends, _ in links)
    )


_SOME = {"any": [1]}
"""Parameters in the place of those that the pools bring."""


def _check_names(document: Document, pools: Sequence[PoolDefinition], links: Strings) -> None:
    """Refuse names that cannot stand before those of parameters, or that are not told apart."""
    places = {("pools", pool.name): pool.name for pool in pools}
    places |= {("links", link): link for link in links}
    places |= {
        (section, name): name
        for section in ("parameters", "repeated")
        for name in document.data.get(section, {})
    }
    for place, name in places.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise InputError(
                f"{name!r} cannot be a name: use letters, digits and underscores, a letter first",
                document.where(*place),
            )
        for pool in pools:
            is_same = name == pool.name and place[0] != "pools"
            if is_same or name.startswith(f"{pool.name}_"):
                raise InputError(
                    f"{name!r} begins with the name of pool {pool.name!r}, as its parameters do: "
                    "expected another name",
                    document.where(*place),
                )


def _section(document: Document, key: str) -> Iterator[tuple[str, JsonObject]]:
    section = document.data.get(key, {})
    if not isinstance(section, dict):
        raise InputError(f"expected names with keys, got {section!r}", document.where(key))
    for name, stated in section.items():
        if not isinstance(stated, dict):
            raise InputError(
                f"expected keys with values, got {stated!r}", document.where(key, name)
            )
        yield name, stated


def _pools(document: Document, overlay: Callable[[Document], Document]) -> Iterator[PoolDefinition]:
    for name, stated in _section(document, "pools"):
        path = ("pools", name)
        own_stated = drop_keys(stated, _SECTIONS)
        record = parse_record(document, PoolRecord, own_stated, path)
        if record.role is None and name not in ROLES:
            raise UnknownNameError("role", name, ROLES, document.where(*path))
        own_space = _space_of_pool(document, name, stated, record)
        complete = overlay(own_space)
        if "pools" in complete.data:
            where = document.where(*path, "space")
            raise InputError(
                f"expected a space of machines, got {record.space!r} with pools", where
            )
        parse_record(complete, SpaceRecord)
        # Complete: what the pool takes out of its base must not come back.
        whole_space = {key: value for key, value in complete.data.items() if key != "based_on"}
        yield PoolDefinition(name, record, replace(complete, data=whole_space))


def _space_of_pool(
    document: Document, name: str, stated: Fields, record: PoolRecord
) -> PoolDocument:
    """The pool's own space as the file of the system states it, without what it is based on."""
    path = ("pools", name)
    owner = document
    while path not in owner.lines and owner.base is not None:
        owner = owner.base
    data = select_keys(stated, _SECTIONS)
    lines = {place[2:]: line for place, line in owner.lines.items() if place[:2] == path}
    if record.device is not None:
        if record.space:
            where = document.where(*path, "device")
            raise InputError("expected either space or device, got both", where)
        if isinstance(parameters := data.get("parameters", {}), dict):  # else refused with the rest
            data["parameters"] = {"device": record.device} | parameters
    if record.space:
        data["based_on"] = record.space
        lines[("based_on",)] = owner.lines.get((*path, "space"), 1)
    return PoolDocument(owner.source, data, lines, owner=owner, place=path)


def _links(document: Document, pools: StringList) -> Iterator[tuple[LinkEnds, LinkRecord]]:
    for name, stated in _section(document, "links"):
        record = parse_record(document, LinkRecord, stated, ("links", name))
        for key, pool in (("from", record.sender), ("to", record.receiver)):
            check_known("pool", pool, pools, document.where("links", name, key))
        yield LinkEnds(name, record.sender, record.receiver), record


def _joined(
    document: Document,
    pools: tuple[PoolDefinition, ...],
    links: tuple[tuple[LinkEnds, LinkRecord], ...],
) -> Document:
    """The space of the whole: what each pool and each link becomes, then what the file adds."""
    data = drop_keys(document.data, ("pools", "links"))
    data |= {key: dict(data.get(key, {})) for key in _SECTIONS if key != "constraints"}
    data["constraints"] = []
    origins: dict[KeyPath, _Origin] = {}
    for pool in pools:
        _add_pool(data, origins, pool, document)
    for ends, link in links:
        for key, parameter in LINK_PARAMETERS.items():
            name = f"{ends.name}_{parameter}"
            values = getattr(link, key)
            if values is None:
                continue
            data["parameters"][name] = {"values": values}
            origins["parameters", name] = (document, ("links", ends.name, key))
    for number, condition in enumerate(document.data.get("constraints", [])):
        origins["constraints", len(data["constraints"])] = (document, ("constraints", number))
        data["constraints"].append(condition)
    data["designs"] = {
        name: _expanded_design(design, pools, partial(document.where, "designs", name, "values"))
        for name, design in data["designs"].items()
    }
    return SystemDocument(
        document.source, data, document.lines, base=document.base, origins=origins
    )


class _Names:
    """The names of a pool's own, and how they read in the system."""

    def __init__(self, pool: str, content: Fields) -> None:
        self._pool = pool
        names = {*content.get("parameters", {}), *content.get("derived", {})}
        for repeated_name, repeated in content.get("repeated", {}).items():
            names.add(repeated_name)
            if isinstance(repeated, dict) and isinstance(repeated.get("maximum"), int):
                for number in range(1, repeated["maximum"] + 1):
                    names |= {
                        f"{repeated_name}{number}_{short}"
                        for short in repeated.get("parameters", {})
                    }
        self._own = names

    def full(self, name: str) -> str:
        """The name with the pool's in front."""
        return f"{self._pool}_{name}"

    def renamed(self, value: Any) -> Any:
        """An expression, or a list of them, with the full names."""
        if isinstance(value, list):
            return [self.renamed(element) for element in value]
        if not isinstance(value, str):
            return value
        return _NAME.sub(lambda m: self.full(m[0]) if m[0] in self._own else m[0], value)

    def renamed_in(self, value: Any) -> Any:
        """A section's entry with the full names where an expression stands."""
        if not isinstance(value, dict):
            return value
        renamed = {}
        for key, entry in value.items():
            if key in _EXPRESSIONS:
                renamed[key] = self.renamed(entry)
            elif key == "parameters":
                renamed[key] = {name: self.renamed_in(member) for name, member in entry.items()}
            else:
                renamed[key] = entry
        return renamed


def _add_pool(
    data: JsonObject,
    origins: dict[KeyPath, _Origin],
    pool: PoolDefinition,
    document: Document,
) -> None:
    content = pool.document.data
    names = _Names(pool.name, content)

    def add(section: str, name: str, value: Any) -> None:
        data[section][names.full(name)] = value
        origins[section, names.full(name)] = (pool.document, (section, name))

    for section in ("parameters", "repeated", "derived"):
        for name, stated in content.get(section, {}).items():
            is_short = section == "derived" and isinstance(stated, str)
            add(section, name, names.renamed(stated) if is_short else names.renamed_in(stated))
    for section in ("fixed", "sources"):
        for name, value in content.get(section, {}).items():
            if names.full(name) not in data[section]:
                add(section, name, value)
    for number, stated in enumerate(content.get("constraints", [])):
        origins["constraints", len(data["constraints"])] = (pool.document, ("constraints", number))
        is_short = isinstance(stated, str)
        data["constraints"].append(names.renamed(stated) if is_short else names.renamed_in(stated))
    add("parameters", MACHINES, pool.record.machines | {"description": "Machines of the pool"})
    origins["parameters", names.full(MACHINES)] = (document, ("pools", pool.name, MACHINES))


def _expanded_design(
    design: Any, pools: tuple[PoolDefinition, ...], where: Callable[[str], str]
) -> Any:
    """A design of the system whose values name designs of its pools, with these written out."""
    by_name = {pool.name: pool for pool in pools}
    values = {}
    for key, value in design.get("values", {}).items():
        if key not in by_name:
            values[key] = value
            continue
        listed = by_name[key].document.data.get("designs", {})
        if not isinstance(value, str) or value not in listed:
            raise UnknownNameError(f"design of pool {key}", str(value), listed, where(key))
        own_design_values = _design_values(listed, value, where(key))
        values |= {f"{key}_{name}": element for name, element in own_design_values.items()}
    return {**design, "values": values}


def _design_values(listed: Fields, name: str, where: str) -> JsonObject:
    """The values of a design over those of the design that it is based on."""
    base = listed[name].get("based_on")
    if base and base not in listed:
        raise UnknownNameError("design", base, listed, where)
    inherited = listed[base].get("values", {}) if base else {}
    return {**inherited, **listed[name].get("values", {})}
