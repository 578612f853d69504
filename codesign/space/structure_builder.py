"""Construction of a structure from the records of a space's file.

Parameters come first, then what names them: the order of repeated parts, conditions, derived
quantities, constraints. The problems of all parameters are reported together, and then those of
all that names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise

import numpy as np

from codesign.base.catalog import Catalogs
from codesign.base.columns import Fields, StringList, StringMap, Value, ValueTuple
from codesign.base.errors import InputError, ProblemList, UnknownNameError, check_known, mistakes_at
from codesign.base.records import frozen
from codesign.base.schema import (
    Document,
    KeyPath,
)
from codesign.base.units import Unit, parse_unit
from codesign.space import nodes
from codesign.space.expression_parser import parse_expression
from codesign.space.expression_tokens import KEYWORDS
from codesign.space.expressions import PRESENT, Category, Expression, describe_unit
from codesign.space.parameters import (
    MAX_LEVELS,
    Kind,
    Parameter,
    RepeatedPart,
    contents_of,
    is_number,
    numbers_of,
    read_values,
    repeated_part,
)
from codesign.space.space_records import ParameterRecord, RepeatedRecord, SpaceRecord
from codesign.space.structure import Derived, RowBatch, SpaceConstraint, Step, Structure, Symbols


@frozen
class _Draft:
    """A parameter, where it was written, and the names that stand beside it."""

    parameter: Parameter
    path: KeyPath
    aliases: StringMap = field(default_factory=dict)


class StructureBuilder:
    """Builds the structure of one space, stage by stage."""

    def __init__(self, document: Document, record: SpaceRecord, catalogs: Catalogs) -> None:
        self.where = document.where
        self.record = record
        self.catalogs = catalogs
        self.drafts: dict[str, _Draft] = {}
        self.fixes: list[SpaceConstraint] = []
        self.symbols = Symbols()
        self.problems = ProblemList()
        self.unread: set[str] = set()
        """Derived quantities with mistakes: texts that name one are not checked."""

    # Parameters

    def read_parameters(self) -> None:
        """Read every parameter, the repeated ones once for each repetition."""
        for name, record in self.record.parameters.items():
            with self.problems.caught():
                path = ("parameters", name)
                where = self.where(*path)
                self._check_name(name, where)
                self.drafts[name] = _Draft(self._parameter(name, record, path), path)
        for part_name, repeated in self.record.repeated.items():
            for number in range(1, repeated.maximum + 1):
                with self.problems.caught():
                    self._add_repetition(part_name, number, repeated)
        self.problems = ProblemList(dict.fromkeys(self.problems))
        self.problems.raise_any()

    def _check_name(self, name: str, where: str) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in KEYWORDS:
            raise InputError(
                f"{name!r} cannot be a name: use letters, digits and underscores, and none of "
                + ", ".join(sorted(KEYWORDS)),
                where,
            )
        if name in self.drafts:
            raise InputError(f"there are two parameters {name!r}", where)

    def _add_repetition(self, part: str, number: int, repeated: RepeatedRecord) -> None:
        aliases = {short: f"{part}{number}_{short}" for short in repeated.parameters}
        first = next(iter(repeated.parameters))
        for short, record in repeated.parameters.items():
            path = ("repeated", part, "parameters", short)
            where = self.where(*path)
            self._check_name(aliases[short], where)
            parameter = self._parameter(aliases[short], record, path)
            if short == first and (record.optional or record.when):
                raise InputError(
                    "the first parameter of a repeated part says whether the part is there: "
                    "it has neither 'optional' nor 'when'",
                    where,
                )
            if short == first:
                parameter = replace(parameter, optional=number > repeated.minimum, part=part)
            else:
                presence = f"{aliases[first]} != none" if number > repeated.minimum else ""
                condition = " and ".join(filter(None, [presence, record.when]))
                parameter = replace(parameter, when=condition, part=part)
            self.drafts[aliases[short]] = _Draft(parameter, path, aliases)

    def _parameter(self, name: str, record: ParameterRecord, path: KeyPath) -> Parameter:
        kind, values, unit = self._values(name, record, path)
        parameter = Parameter(
            name, kind, values, record.optional, record.scale, record.when, unit,
            record.catalog or "", description=record.description, declared=values,
        )  # fmt: skip
        if record.scale == "log":
            if not parameter.is_numeric:
                raise InputError("only numbers have a logarithm", self.where(*path, "scale"))
            if min(numbers_of(values)) <= 0:
                raise InputError(
                    f"a logarithmic scale needs values above 0, got {values[0]}",
                    self.where(*path, "scale"),
                )
        return parameter

    def _values(
        self, name: str, record: ParameterRecord, path: KeyPath
    ) -> tuple[Kind, ValueTuple, str]:
        if record.catalog is not None:
            return "categorical", self._names(record, record.catalog, path), ""
        low = record.low
        high = record.high
        if low is not None and high is not None:
            where = self.where(*path)
            if low > high:
                raise InputError(f"low {low} is above high {high}", where)
            if (high - low) % record.step:
                raise InputError(f"steps of {record.step} from {low} do not reach {high}", where)
            if (high - low) // record.step >= MAX_LEVELS:
                raise InputError(f"more than {MAX_LEVELS} values: use a larger step", where)
            if record.kind not in (None, "integer"):
                raise InputError(f"low and high make an integer, not {record.kind}", where)
            return "integer", tuple(range(low, high + 1, record.step)), ""
        where = self.where(*path, "values")
        with mistakes_at(where):
            values, unit = read_values(record.values or [], name)
        return _kind_of(values, record.kind, where), values, unit

    def _names(self, record: ParameterRecord, catalog: str, path: KeyPath) -> ValueTuple:
        if catalog not in self.catalogs:
            where = self.where(*path, "from")
            raise UnknownNameError("catalog", catalog, self.catalogs, where)
        known_entries = self.catalogs[catalog].entries
        broken = self.catalogs[catalog].broken
        where = self.where(*path, "values")
        names = [*known_entries, *broken] if record.values is None else record.values
        problems = ProblemList()
        for name in names:
            with problems.caught():
                if isinstance(name, str) and name in broken:
                    raise broken[name]
                if not isinstance(name, str) or name not in known_entries:
                    raise UnknownNameError(f"entry of {catalog}", name, known_entries, where)
        problems.raise_any()
        if record.kind not in (None, "categorical"):
            raise InputError(f"entries of a catalog are categorical, not {record.kind}", where)
        with mistakes_at(where):
            return read_values(names, path[-1] if isinstance(path[-1], str) else "")[0]

    # Fixing

    def fix(self, overrides: Fields, where: str | None) -> None:
        """Leave one value of each of these parameters."""
        for name, value in overrides.items():
            here = where or self.where("fixed", name)
            with self.problems.caught():
                check_known("parameter", name, self.drafts, here)
                with mistakes_at(here):
                    self._fix(self.drafts[name], value)

    def _fix(self, draft: _Draft, value: object) -> None:
        parameter = draft.parameter
        declared = replace(parameter, values=parameter.declared)
        is_absent = value is None or (isinstance(value, str) and value == "none")
        if is_absent and not (parameter.optional or parameter.when):
            raise InputError(f"{parameter.name} cannot be absent")
        fixed_value = None if is_absent else declared.values[declared.code_of(value)]
        if is_absent or parameter.part:
            # The repetitions of a part keep equal values, so that they can still be sorted.
            self.fixes.append(SpaceConstraint(_is_fixed_to(declared, fixed_value), "fixed"))
            fixed = declared
        else:
            fixed = replace(parameter, values=(fixed_value,), optional=False)
        self.drafts[parameter.name] = replace(draft, parameter=fixed)

    # What names the parameters

    def structure(self) -> Structure:
        """The whole structure; raises the problems of all that names parameters together."""
        parameters = tuple(draft.parameter for draft in self.drafts.values())
        for column, parameter in enumerate(parameters):
            self.symbols.add_parameter(column, parameter)
            if not parameter.catalog:
                continue
            catalog = self.catalogs[parameter.catalog]
            for attribute, unit in catalog.units.items():
                entries = [catalog.entries[str(name)] for name in parameter.values]
                if not all(attribute in entry for entry in entries):
                    continue  # one of them does not state it
                numbers = [entry[attribute] for entry in entries]
                key = f"{parameter.name}.{attribute}"
                self.symbols.units[key] = _coherent(unit)
                self.symbols.tabulate(key, column, numbers)
            for attribute, by_name in catalog.words.items():
                words = sorted(set(by_name.values()))
                key = f"{parameter.name}.{attribute}"
                self.symbols.categories[key] = Category(tuple(words))
                codes = [words.index(by_name[str(name)]) for name in parameter.values]
                self.symbols.tabulate(key, column, codes, absent=-1.0)
        for label, catalog in self.catalogs.items():
            for entry, attributes in catalog.entries.items():
                for attribute, number in attributes.items():
                    key = f"{label}.{entry}.{attribute}"
                    self.symbols.units[key] = _coherent(catalog.units[attribute])
                    self.symbols.constants[key] = number
        for part_name, repeated in self.record.repeated.items():
            self.symbols.parts[part_name] = [
                {short: f"{part_name}{number}_{short}" for short in repeated.parameters}
                for number in range(1, repeated.maximum + 1)
            ]
        repeated_parts = self._parts(parameters)
        conditions = self._conditions(parameters)
        structure = Structure(parameters, repeated_parts, conditions, (), {}, (), self.symbols)
        with self.problems.caught():
            structure = replace(structure, steps=tuple(self._steps(structure)))
        structure = replace(structure, derived=self._derived())
        structure = replace(structure, constraints=self._constraints(structure))
        self.problems.raise_any()
        return structure

    def _parse(self, text: str, where: str, aliases: StringMap | None = None) -> Expression:
        if any(name in text for name in self.unread):
            raise InputError(())
        return parse_expression(
            text,
            self.symbols.units,
            where,
            categories=self.symbols.categories,
            parts=self.symbols.parts,
            aliases=aliases,
            unit_in_name=(),
        )

    def _parts(self, parameters: Sequence[Parameter]) -> tuple[RepeatedPart, ...]:
        repeated_parts = []
        for name, repeated in self.record.repeated.items():
            with self.problems.caught():
                position = {parameter.name: column for column, parameter in enumerate(parameters)}
                repetitions = self.symbols.parts[name]
                columns = np.array(
                    [[position[full] for full in names.values()] for names in repetitions]
                )
                members = [
                    (short, parameters[position[full]]) for short, full in repetitions[0].items()
                ]
                with mistakes_at(self.where("repeated", name)):
                    contents = contents_of([len(parameter.values) for _, parameter in members])
                rows = np.full((len(contents), len(parameters)), -1, np.int64)
                rows[:, columns[0]] = contents
                batch = RowBatch(rows, self.symbols)
                keys = []
                for number, text in enumerate(repeated.order):
                    where = self.where("repeated", name, "order", number)
                    key = self._parse(text, where, repetitions[0])
                    if not self._columns_of(key) <= set(columns[0].tolist()):
                        raise InputError(
                            "the order of a part may use its own parameters only", where
                        )
                    keys.append(np.broadcast_to(key.evaluate(batch), (len(rows),)))
                repeated_parts.append(
                    repeated_part(
                        name, members, columns, repeated.minimum, tuple(repeated.order), keys
                    )
                )
        return tuple(repeated_parts)

    def _columns_of(self, expression: Expression) -> set[int]:
        tables = self.symbols.tables
        return {tables[name][0] for name in expression.names if name in tables}

    def _conditions(self, parameters: Sequence[Parameter]) -> dict[int, Expression]:
        conditions = {}
        for column, draft in enumerate(self.drafts.values()):
            written = draft.parameter.when
            if draft.parameter.part:
                # That a member goes with its part is known; sorting the part sees to it.
                written = (
                    self.record.repeated[draft.parameter.part].parameters[str(draft.path[-1])].when
                )
            if not written:
                continue
            with self.problems.caught():
                where = self.where(*draft.path, "when")
                condition = self._parse(written, where, draft.aliases)
                _require_condition(condition, where)
                self._check_condition(condition, draft, parameters, where)
                conditions[column] = condition
        return conditions

    def _check_condition(
        self, condition: Expression, draft: _Draft, parameters: Sequence[Parameter], where: str
    ) -> None:
        used = [parameters[column] for column in self._columns_of(condition)]
        if not used:
            raise InputError(f"{condition.text!r} names no parameter", where)
        own_aliases = set(draft.aliases.values())
        for parameter in used:
            is_sibling = parameter.part != "" and parameter.part == draft.parameter.part
            if is_sibling and parameter.name not in own_aliases:
                raise InputError(
                    "a condition inside a repeated part may not use another repetition "
                    f"({parameter.name})",
                    where,
                )

    def _steps(self, structure: Structure) -> Iterator[Step]:
        """Conditions and parts in an order in which each comes after what it depends on."""
        done = set()
        path: StringList = []

        def visit(step: Step) -> Iterator[Step]:
            label = step.name if isinstance(step, RepeatedPart) else structure.parameters[step].name
            if label in path:
                circle = " -> ".join([*path[path.index(label) :], label])
                names = self.drafts[label].path if label in self.drafts else ("repeated", label)
                raise InputError(f"the conditions go in a circle: {circle}", self.where(*names))
            if label in done:
                return
            path.append(label)
            for earlier in _prerequisites(structure, step):
                yield from visit(earlier)
            path.pop()
            done.add(label)
            yield step

        steps: list[Step] = [*structure.conditions, *structure.parts]
        for step in steps:
            yield from visit(step)

    def _derived(self) -> dict[str, Derived]:
        derived = {}
        for name, record in self.record.derived.items():
            with self.problems.caught():
                where = self.where("derived", name)
                self._check_name(name, where)
                expression = self._parse(record.value, where)
                if expression.unit is None:
                    raise InputError("expected a quantity, got a condition", where)
                with mistakes_at(self.where("derived", name, "unit")):
                    unit = parse_unit(record.unit)
                if record.unit and unit.exponents != expression.unit.exponents:
                    got = describe_unit(expression.unit)
                    raise InputError(f"the value is in {got}, not in {record.unit}", where)
                self.symbols.units[name] = expression.unit
                derived[name] = Derived(
                    name, expression, record.unit, record.feature, record.description
                )
            self.unread |= {name} - derived.keys()
        return derived

    def _constraints(self, structure: Structure) -> tuple[SpaceConstraint, ...]:
        constraints = {}
        for number, record in enumerate(self.record.constraints):
            with self.problems.caught():
                where = self.where("constraints", number)
                expression = self._parse(record.condition, where)
                _require_condition(expression, where)
                if expression.text in constraints:
                    raise InputError(f"{expression.text!r} is listed twice", where)
                if not structure.roots(expression.names):
                    raise InputError(f"{expression.text!r} names no parameter", where)
                constraints[expression.text] = SpaceConstraint(
                    expression, record.description, where
                )
        for rule in self.fixes:
            constraints.setdefault(rule.text, rule)
        return tuple(constraints.values())


def _kind_of(values: ValueTuple, stated_kind: Kind | None, where: str) -> Kind:
    is_numeric = all(map(is_number, values))
    if stated_kind == "categorical" or (stated_kind is None and not is_numeric):
        return "categorical"
    if not is_numeric:
        raise InputError(f"an {stated_kind} parameter needs numbers", where)
    if any(after <= before for before, after in pairwise(numbers_of(values))):
        raise InputError("numbers must increase; else say 'kind: categorical'", where)
    if stated_kind == "integer" and not all(isinstance(value, int) for value in values):
        raise InputError("an integer parameter needs whole numbers", where)
    return stated_kind or "ordinal"


def _require_condition(expression: Expression, where: str) -> None:
    if not expression.is_condition:
        raise InputError(
            f"expected a condition such as 'a <= 3', got the quantity {expression.text!r}", where
        )


def _coherent(unit: str) -> Unit:
    """A catalog's numbers are in coherent SI units, whatever unit gives their dimension."""
    return Unit(1.0, parse_unit(unit).exponents)


def _prerequisites(structure: Structure, step: Step) -> Iterator[Step]:
    if isinstance(step, RepeatedPart):
        columns = [int(column) for column in step.columns.flat]
        yield from (column for column in columns if column in structure.conditions)
        return
    repeated_step = structure.columns_in_parts.get(step)
    for column in sorted(structure.roots(structure.conditions[step].names)):
        repeated_part = structure.columns_in_parts.get(column)
        if repeated_part is not None and repeated_part is not repeated_step:
            yield repeated_part
        elif column in structure.conditions:
            yield column


def _is_fixed_to(parameter: Parameter, value: Value) -> Expression:
    """The condition that a parameter has one value."""
    name = parameter.name
    text = f"{parameter.name} == {parameter.show(value)}"
    if not parameter.is_numeric:
        code = -1 if value is None else parameter.code_of(value)
        return Expression(
            text, nodes.HasLevel((nodes.Name(name),), (code,)), frozenset({name}), None
        )
    presence = nodes.HasLevel((nodes.Name(name + PRESENT),), (int(value is not None),))
    if value is None:
        return Expression(text, presence, frozenset({name + PRESENT}), None)
    (number,) = numbers_of([value])
    same = nodes.Compare((nodes.Name(name), nodes.Constant(number)), "==")
    conjunction = nodes.FoldedCall((presence, same), "and")
    return Expression(text, conjunction, frozenset({name, name + PRESENT}), None)
