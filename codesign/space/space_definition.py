"""Construction of a design space from its YAML file, with its pools and named designs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from types import MappingProxyType

from codesign.base.catalog import Catalogs
from codesign.base.columns import Fields, JsonObject, parameters_of_pool
from codesign.base.errors import InputError, ProblemList, check_known, mistakes_at
from codesign.base.records import frozen
from codesign.base.resources import find
from codesign.base.schema import (
    Document,
    parse_document,
    parse_record,
    read_document,
)
from codesign.space.inheritance import overlay_base
from codesign.space.plain_definition import plain_definition
from codesign.space.pools import Pool, PoolDefinition, SystemDefinition, read_system
from codesign.space.space import DesignSpace
from codesign.space.space_records import SpaceRecord
from codesign.space.structure_builder import StructureBuilder

_MOST_DIGITS = 4000
"""Digits of the number of rows, absent values included; Python prints no longer numbers."""


def load_space(name_or_path: str, catalogs: Catalogs, where: str | None = None) -> DesignSpace:
    """Read a design space.

    Args:
        name_or_path: A file, or the name of one in the working folder's ``spaces/`` or among
            those that come with codesign.
        catalogs: What ``from:`` may name.
        where: Where the name was written, for messages.

    Raises:
        InputError: With every problem of the file, each with its line and key; also if no
            design meets the constraints.
    """
    path = find("spaces", name_or_path, where)
    return _space_of(path.stem, read_document(path), catalogs)


def parse_space(text: str, catalogs: Catalogs | None = None, source: str = "space") -> DesignSpace:
    """Parse a space from text, like :func:`load_space`; ``source`` names it in messages."""
    return _space_of(source, parse_document(text, source), catalogs or {})


@frozen
class _Definition:
    """Definition of a space before anything is fixed."""

    name: str
    document: Document
    record: SpaceRecord
    catalogs: Catalogs
    system: SystemDefinition | None = None
    revalued: Mapping[str, Sequence[object]] = field(default_factory=dict)


def _space_of(name: str, document: Document, catalogs: Catalogs) -> DesignSpace:
    complete = overlay_base(document)
    system = read_system(complete, overlay_base) if "pools" in complete.data else None
    if system is not None:
        complete = system.document
    record = parse_record(complete, SpaceRecord)
    return _build(_Definition(name, complete, record, catalogs, system), {}, {}, None)


def _build(
    definition: _Definition,
    earlier: Fields,
    overrides: Fields,
    where: str | None,
) -> DesignSpace:
    """The space with some parameters fixed, by the file and then by overrides."""
    name = definition.name
    document = definition.document
    catalogs = definition.catalogs
    record = definition.record
    builder = StructureBuilder(document, record, catalogs)
    builder.read_parameters()
    fixed = {**earlier, **overrides}
    builder.fix({**record.fixed, **fixed}, where if overrides else None)
    structure = builder.structure()
    digits = sum(math.log10(len(parameter.values) + 1) for parameter in structure.parameters)
    if digits > _MOST_DIGITS:
        raise InputError(
            f"expected at most 1e{_MOST_DIGITS} combinations of values, got 1e{digits:.0f}",
            document.where("parameters"),
        )
    space = DesignSpace(
        structure,
        name=name,
        source=document.source,
        description=record.description.strip(),
        refix=partial(_build, definition, fixed),
        definition=plain_definition(name, record, structure, {**record.fixed, **fixed}, catalogs),
    )
    space.where = document.where
    space.with_values = partial(_revalued, definition, fixed)
    if definition.system is not None:
        _add_pools(space, definition, definition.system, fixed)
    for component in space.components:
        with mistakes_at(where or document.source):
            component.check()
    _add_designs(space, document, record, is_fixed=bool(fixed))
    return space


def _revalued(
    definition: _Definition,
    fixed: Fields,
    name: str,
    values: Sequence[object],
    catalogs: Catalogs = MappingProxyType({}),
) -> DesignSpace:
    """The space, without named designs, in which a parameter has other values.

    Args:
        name: The parameter; ``tier technology`` of all repetitions of a part.
        values: Values, in the notation of a space's file.
        catalogs: Catalogs that replace those of the space.
    """
    record = definition.record
    part, _, member = name.rpartition(" ")
    parameters = record.repeated[part].parameters if part else record.parameters
    members = {**parameters, member: parameters[member].model_copy(
        update={"values": list(values), "low": None, "high": None})}  # fmt: skip
    update: JsonObject = {"designs": {}, "parameters": members}
    if part:
        repeated = record.repeated[part].model_copy(update={"parameters": members})
        update = {"designs": {}, "repeated": {**record.repeated, part: repeated}}
    changed = replace(
        definition,
        record=record.model_copy(update=update),
        catalogs={**definition.catalogs, **catalogs},
        revalued={**definition.revalued, name: values},
    )
    return _build(changed, fixed, {}, None)


def _add_pools(
    space: DesignSpace,
    definition: _Definition,
    system: SystemDefinition,
    fixed: Fields,
) -> None:
    """Give a system its pools, each with its changed values and fixed parameters."""

    def load(pool: PoolDefinition) -> DesignSpace:
        pool_space = _space_of(pool.name, pool.document, definition.catalogs)
        for name, changed in parameters_of_pool(pool.name, definition.revalued).items():
            assert pool_space.with_values is not None
            pool_space = pool_space.with_values(name, changed)
        values = parameters_of_pool(pool.name, fixed)
        return pool_space.fix(values) if values else pool_space

    space.links = system.links
    space.pools = {
        pool.name: Pool(
            pool.name,
            pool.role,
            pool.record.machine_words,
            pool.parameter_names(space.names),
            partial(load, pool),
        )
        for pool in system.pools
    }


def _add_designs(
    space: DesignSpace, document: Document, record: SpaceRecord, is_fixed: bool
) -> None:
    """Check the named designs and give them to the space.

    Fixing drops those that it excludes, and a file those of its base that lack a parameter of its
    own or break a constraint of its own.
    """
    problems = ProblemList()
    designs = {}
    for name, design in record.designs.items():
        where = document.where("designs", name)
        is_optional = is_fixed or not where.startswith(f"{document.source}:")
        with problems.caught():
            try:
                if design.based_on:
                    check_known("design", design.based_on, record.designs, where)
                base = record.designs[design.based_on].values if design.based_on else {}
                row = space.encode({**base, **design.values}, where)
            except InputError:
                if is_optional:
                    continue
                raise
            broken = [text for text, v in space.violations(row).items() if not v[0] <= 0]
            if broken and not design.outside:
                if is_optional:
                    continue
                raise InputError(
                    "the design does not meet "
                    + " and ".join(map(repr, broken))
                    + "; say why it is listed with 'outside: reason'",
                    where,
                )
            designs[name] = space.decode(row)[0]
    problems.raise_any()
    space.designs = designs
