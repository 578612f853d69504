"""Expressions of design spaces and campaigns: a small closed grammar, checked for dimension.

::

    condition   = conjunction {"or" conjunction}
    conjunction = negation {"and" negation}
    negation    = "not" negation | comparison
    comparison  = sum {("<=" | "<" | ">=" | ">" | "==" | "!=") sum | ["not"] "in" list}
    sum         = product {("+" | "-") product}
    product     = signed {("*" | "/") signed}
    signed      = {"-" | "+"} primary
    primary     = number [unit] | name | call | "(" condition ")" | list | "text"
    list        = "[" [sum {"," sum}] "]"
    call        = function "(" condition {"," condition} ")"
                | ("sum" | "count") "(" repeated part "," condition ")"

A name is a parameter, a derived quantity, an attribute (``tier1_technology.bandwidth``) or an
entry of a tuple (``pe_array[0]``). A word that is none of these is a value to compare with, as
in ``dataflow == ws``; ``none`` means absent. Over a repeated part, as in
``sum(tier, technology.bandwidth * stacks)``, names are those of one part. A number stands
directly before its unit, which has no spaces inside: ``2 GB/s`` is a rate, ``2 GB / s`` divides
by ``s``. Nothing is ever handed to Python's own evaluator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn, TypeAlias

import numpy as np

from codesign.columns import FloatArray, Value
from codesign.errors import InputError, describe_unknown
from codesign.space import nodes
from codesign.space.nodes import Constant, Node
from codesign.units import BASES, DIMENSIONLESS, Unit, parse_unit

MAX_LENGTH = 4000
"""Characters in an expression."""
MAX_NESTING = 24
"""Parentheses, functions and ``not`` inside one another."""

PRESENT = ".present"
"""Ending of the key under which a number that may be absent says whether it is there."""

KEYWORDS = frozenset({"and", "or", "not", "in", "none", "true", "false"})
"""Words that name nothing else."""

Kind: TypeAlias = Literal["number", "condition", "category", "word", "list"]


@dataclass(frozen=True)
class Category:
    """What a parameter may be compared with.

    Attributes:
        values: Its values; an expression sees their positions.
        declared: Values it had before it was fixed: known words, though never met.
    """

    values: tuple[Value, ...]
    declared: tuple[Value, ...] = ()

    def code(self, value: Value) -> int | None:
        """Position of a value, -1 for absence, -2 for one that was fixed away, None if unknown."""
        if value is None:
            return -1
        if (position := position_of(value, self.values)) is not None:
            return position
        return None if position_of(value, self.declared) is None else -2


def position_of(value: object, values: Sequence[Value]) -> int | None:
    """Where an equal value of the same kind stands: ``true`` is not 1, but 1.0 is."""
    for position, known in enumerate(values):
        if isinstance(value, bool) == isinstance(known, bool) and value == known:
            return position
    return None


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    Attributes:
        text: As it was written.
        node: What computes it.
        names: Keys that ``evaluate`` and ``violation`` look up in their values.
        unit: Dimension of a number; None for a condition.
    """

    text: str
    node: Node
    names: frozenset[str]
    unit: Unit | None

    @property
    def is_condition(self) -> bool:
        return self.unit is None

    def evaluate(self, values: Mapping[str, FloatArray]) -> FloatArray:
        """The value for each design; 1 or 0 for a condition."""
        if self.unit is None:
            return np.asarray(self.violation(values) <= 0, dtype=np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(self.node.evaluate(values), dtype=np.float64)

    def violation(self, values: Mapping[str, FloatArray]) -> FloatArray:
        """For a condition, how far each design is from meeting it; ``<= 0`` meets it.

        A comparison gives its relative excess, ``and`` the largest, ``or`` the smallest,
        ``not`` the negative. An undefined number (0/0) is violated: NaN is not ``<= 0``.
        """
        if self.unit is not None:
            raise InputError(f"expected a condition, got the number {self.text!r}")
        with np.errstate(all="ignore"):
            return np.asarray(self.node.evaluate(values), dtype=np.float64)


def parse_expression(
    text: str,
    units: Mapping[str, Unit],
    where: str | None = None,
    *,
    categories: Mapping[str, Category] | None = None,
    parts: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
    aliases: Mapping[str, str] | None = None,
    unit_in_name: Container[str] | None = None,
) -> Expression:
    """Parse an expression and check its names, kinds and dimensions.

    Args:
        text: The expression.
        units: Unit of every named number. Its values are given in that unit.
        where: ``file:line: key``, put before a problem.
        categories: What each parameter may be compared with.
        parts: For each repeated part, the names inside it, mapped to those of each repetition.
        aliases: Short names that stand for known ones.
        unit_in_name: Names that say their unit (``tdp_watts``), next to which a bare number is
            in that unit; all without a dot if None. Any other number with a dimension must be
            compared with a quantity.

    Raises:
        InputError: With the column and, for an unknown name, the nearest known one.
    """
    bare = _Undotted() if unit_in_name is None else unit_in_name
    scope = _Scope(units, categories or {}, parts or {}, aliases or {}, bare)
    try:
        return _Parser(text, scope).parse()
    except InputError as error:
        raise InputError(error.problems, where) from None


class _Undotted:
    """The default for names that say their unit: all but attributes."""

    def __contains__(self, name: object) -> bool:
        return "." not in str(name)


@dataclass(frozen=True)
class _Scope:
    units: Mapping[str, Unit]
    categories: Mapping[str, Category]
    parts: Mapping[str, Sequence[Mapping[str, str]]]
    aliases: Mapping[str, str]
    unit_in_name: Container[str]

    def known(self) -> set[str]:
        return {*self.units, *self.categories, *self.aliases}


_UNIT_WORD = r"[A-Za-zµ%]+(?:\^-?\d+)?"
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<mark><=|>=|==|!=|[-+*/()\[\],<>])",
    re.ASCII,
)
_UNIT = re.compile(rf"\s*(?P<unit>{_UNIT_WORD}(?:[*/]{_UNIT_WORD})*)(?!\w)")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int
    value: float = math.nan
    unit: Unit | None = None


def _fail(problem: str, column: int) -> NoReturn:
    raise InputError(f"column {column}: {problem}")


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            # As =< or = for a comparison, the likeliest slip.
            hint = "; comparisons are <, <=, ==, !=, >=, >" if text[position] == "=" else ""
            _fail(f"unexpected character {text[position]!r}{hint}", position + 1)
        position = match.end()
        if match.lastgroup == "number":
            token, position = _number(match, text)
            yield token
        elif match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match[0], match.start() + 1)
    yield _Token("end", "the end", len(text) + 1)


def _number(match: re.Match[str], text: str) -> tuple[_Token, int]:
    """A number with the unit that follows it, and where the text goes on."""
    column = match.start() + 1
    value, unit, end = float(match[0].replace("_", "")), None, match.end()
    following = _UNIT.match(text, end)
    if following is not None and following["unit"] not in KEYWORDS:
        try:
            unit = parse_unit(following["unit"])
        except InputError as error:
            _fail(f"{error} after {match[0]}", following.start("unit") + 1)
        value, end = value * unit.scale, following.end()
    if not math.isfinite(value):
        _fail(f"the number {match[0]} is too large", column)
    return _Token("number", text[match.start() : end], column, value, unit), end


@dataclass(frozen=True)
class _Operand:
    """A parsed part with what is known of it.

    Attributes:
        kind: What it is: only numbers are computed with, only conditions are joined.
        is_bare: A number written without a unit.
        key: The parameter that it is, if it is one, for comparing it with words.
        carries_unit: Every name in it says its unit.
    """

    kind: Kind
    column: int
    text: str
    node: Node = Constant(0.0)  # noqa: RUF009 (a frozen record; words and lists have no node)
    unit: Unit = DIMENSIONLESS
    is_bare: bool = False
    key: str = ""
    value: Value = None
    items: tuple[_Operand, ...] = ()
    names: frozenset[str] = field(default=frozenset())
    carries_unit: bool = False

    @property
    def is_zero(self) -> bool:
        return isinstance(self.node, Constant) and self.node.value == 0


class _Parser:
    """One expression being read, by recursive descent."""

    def __init__(self, text: str, scope: _Scope) -> None:
        if len(text) > MAX_LENGTH:
            raise InputError(f"the expression has {len(text)} characters; at most {MAX_LENGTH}")
        self.text = text
        self.scope = scope
        self.tokens = list(_tokens(text))
        self.position = 0
        self.nesting = 0

    def parse(self) -> Expression:
        operand = self._condition()
        if self._next.kind != "end":
            _fail(f"unexpected {self._next.text!r}", self._next.column)
        if operand.kind == "category" and _is_truth(self.scope.categories[operand.key]):
            operand = self._truth(operand)
        if operand.kind == "condition":
            return Expression(self.text, operand.node, operand.names, None)
        operand = self._number_from(operand)
        unit = Unit(1.0, operand.unit.exponents)
        return Expression(self.text, operand.node, operand.names, unit)

    # Tokens

    @property
    def _next(self) -> _Token:
        return self.tokens[self.position]

    def _take(self, *texts: str) -> _Token | None:
        token = self._next
        if token.kind in ("mark", "name") and token.text in texts:
            self.position += 1
            return token
        return None

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            _fail(f"expected {text!r}, got {self._next.text!r}", self._next.column)

    def _nested(self, parse: Callable[[], _Operand]) -> _Operand:
        if self.nesting >= MAX_NESTING:
            _fail(f"more than {MAX_NESTING} levels of nesting", self._next.column)
        self.nesting += 1
        operand = parse()
        self.nesting -= 1
        return operand

    # Conditions

    def _condition(self) -> _Operand:
        return self._joined(self._conjunction, "or", nodes.AnyOf)

    def _conjunction(self) -> _Operand:
        return self._joined(self._negation, "and", nodes.AllOf)

    def _joined(
        self, parse: Callable[[], _Operand], word: str, join: Callable[[tuple[Node, ...]], Node]
    ) -> _Operand:
        operands = [parse()]
        while self._take(word):
            operands.append(parse())
        if len(operands) == 1:
            return operands[0]
        conditions = [self._truth(operand) for operand in operands]
        return _condition(join(tuple(part.node for part in conditions)), *conditions)

    def _negation(self) -> _Operand:
        if self._take("not") is None:
            return self._comparison()
        operand = self._truth(self._nested(self._negation))
        return _condition(nodes.Not(operand.node), operand)

    def _truth(self, operand: _Operand) -> _Operand:
        """The operand as a condition; a true/false parameter is one."""
        if operand.kind == "condition":
            return operand
        if operand.kind == "category" and _is_truth(self.scope.categories[operand.key]):
            return self._has_level(operand, [True], operand.column)
        if operand.kind == "word":
            self._unknown(operand)
        _fail(f"expected a condition, got {operand.text!r}", operand.column)

    def _comparison(self) -> _Operand:
        left = self._sum()
        compared: list[_Operand] = []
        while True:
            if operator := self._take("<=", ">=", "==", "!=", "<", ">"):
                right = self._sum()
                compared.append(self._compare(operator, left, right))
                left = right
            elif self._is_membership():
                is_negated = self._take("not") is not None
                self._expect("in")
                compared.append(self._membership(left, self._primary(), is_negated))
            else:
                break
        if len(compared) < 2:
            return compared[0] if compared else left
        return _condition(nodes.AllOf(tuple(part.node for part in compared)), *compared)

    def _is_membership(self) -> bool:
        following = self.tokens[min(self.position + 1, len(self.tokens) - 1)]
        return self._next.text == "in" or (self._next.text == "not" and following.text == "in")

    def _compare(self, operator: _Token, left: _Operand, right: _Operand) -> _Operand:
        if "number" in (left.kind, right.kind) and not _is_none(left) and not _is_none(right):
            left, right = self._reconciled(left, right)
            return _condition(nodes.Compare(operator.text, left.node, right.node), left, right)
        if operator.text not in ("==", "!="):
            _fail(f"{operator.text!r} compares numbers; names are equal or not", operator.column)
        same = self._same(left, right)
        return _negated(same) if operator.text == "!=" else same

    def _same(self, left: _Operand, right: _Operand) -> _Operand:
        if left.kind == "category" and right.kind == "category":
            return self._same_value(left, right)
        if right.kind in ("category", "number"):
            left, right = right, left
        if left.kind not in ("category", "number"):
            self._unknown(left)
        return self._has_level(left, [self._literal(right)], right.column)

    def _same_value(self, left: _Operand, right: _Operand) -> _Operand:
        known, compared = self.scope.categories[left.key], self.scope.categories[right.key]
        positions = [position_of(value, known.values) for value in compared.values]
        codes = [-3 if position is None else position for position in positions]
        return _condition(nodes.SameValue(left.key, right.key, (*codes, -1)), left, right)

    def _membership(self, left: _Operand, choices: _Operand, is_negated: bool) -> _Operand:
        if choices.kind != "list":
            _fail(f"expected a list such as [a, b], got {choices.text!r}", choices.column)
        if not choices.items:
            _fail("the list is empty: nothing is in it", choices.column)
        if left.kind == "number":
            same = [self._compare(_EQUAL, left, choice) for choice in choices.items]
            result = _condition(nodes.AnyOf(tuple(part.node for part in same)), *same)
        elif left.kind == "category":
            values = [self._literal(choice) for choice in choices.items]
            result = self._has_level(left, values, choices.column)
        else:
            self._unknown(left)
        return _negated(result) if is_negated else result

    def _has_level(self, operand: _Operand, values: Sequence[Value], column: int) -> _Operand:
        category = self.scope.categories.get(operand.key)
        if category is None:
            _fail(f"{operand.text!r} is always there and cannot be compared with none", column)
        if operand.kind == "number":  # only ``none`` gets here: compared by its presence
            key = operand.key + PRESENT
            return replace(_condition(nodes.HasLevel(key, (0,)), operand), names=frozenset({key}))
        codes = [category.code(value) for value in values]
        for code, value in zip(codes, values, strict=True):
            if code is None:
                known = [format_value(choice) for choice in (*category.values, None)]
                label = f"value of {operand.key}"
                _fail(describe_unknown(label, format_value(value), known), column)
        levels = tuple(code for code in codes if code is not None)
        return _condition(nodes.HasLevel(operand.key, levels), operand)

    def _literal(self, operand: _Operand) -> Value:
        """What an operand says as a value to compare with."""
        if operand.kind == "word":
            return operand.value
        if operand.kind == "number" and operand.is_bare and isinstance(operand.node, Constant):
            return _plain(operand.node.value)
        if operand.kind == "list":
            numbers = [self._literal(item) for item in operand.items]
            integers = [number for number in numbers if isinstance(number, int)]
            if len(integers) == len(numbers):
                return tuple(integers)
        _fail(f"expected a value to compare with, got {operand.text!r}", operand.column)

    # Numbers

    def _sum(self) -> _Operand:
        terms = [(1.0, self._product())]
        while sign := self._take("+", "-"):
            terms.append((-1.0 if sign.text == "-" else 1.0, self._product()))
        if len(terms) == 1:
            return terms[0][1]
        operands = self._reconciled(*(operand for _, operand in terms))
        signs = (sign for sign, _ in terms)
        pairs = tuple((sign, part.node) for sign, part in zip(signs, operands, strict=True))
        return _number_of(nodes.Sum(pairs), operands, operands[0].unit)

    def _product(self) -> _Operand:
        factors = [(False, self._signed())]
        while operator := self._take("*", "/"):
            factors.append((operator.text == "/", self._signed()))
        if len(factors) == 1:
            return factors[0][1]
        numbers = [(is_divisor, self._number_from(part)) for is_divisor, part in factors]
        unit = DIMENSIONLESS
        for is_divisor, part in numbers:
            unit = unit / part.unit if is_divisor else unit * part.unit
            if max(abs(exponent) for exponent in unit.exponents) > 99:
                _fail("the dimension has an exponent above 99", part.column)
        node = nodes.Product(tuple((is_divisor, part.node) for is_divisor, part in numbers))
        return _number_of(node, [part for _, part in numbers], unit)

    def _signed(self) -> _Operand:
        sign, signs = 1.0, 0
        while mark := self._take("-", "+"):
            sign, signs = (-sign if mark.text == "-" else sign), signs + 1
        operand = self._primary()
        if not signs:
            return operand
        operand = self._number_from(operand)
        return _number_of(nodes.Sum(((sign, operand.node),)), [operand], operand.unit)

    def _primary(self) -> _Operand:
        token = self._next
        self.position += 1
        if token.kind == "number":
            unit = token.unit or DIMENSIONLESS
            node, is_bare = Constant(token.value), token.unit is None
            return _Operand("number", token.column, token.text, node, unit, is_bare)
        if token.kind == "text":
            return _Operand("word", token.column, token.text, value=token.text[1:-1])
        if token.kind == "name" and token.text not in _RESERVED:
            return self._call(token) if self._take("(") else self._name(token)
        if token.text == "(":
            operand = self._nested(self._condition)
            self._expect(")")
            return operand
        if token.text == "[":
            return self._nested(lambda: self._list(token))
        _fail(f"expected a number or a name, got {token.text!r}", token.column)

    def _list(self, start: _Token) -> _Operand:
        items: list[_Operand] = []
        while not self._take("]"):
            if items:
                self._expect(",")
            items.append(self._sum())
        text = self.text[start.column - 1 : self._next.column - 1].strip()
        return _Operand("list", start.column, text, items=tuple(items))

    def _name(self, token: _Token) -> _Operand:
        key = self.scope.aliases.get(token.text, token.text)
        head, dot, attribute = key.partition(".")
        if dot:
            key = f"{self.scope.aliases.get(head, head)}.{attribute}"
        key = self._entry(key)
        names, column = frozenset({key}), token.column
        if key in self.scope.units:
            unit = self.scope.units[key]
            carries_unit = key in self.scope.unit_in_name
            node = nodes.Name(key, unit.scale)
            return _Operand(
                "number", column, token.text, node, unit, key=key, names=names,
                carries_unit=carries_unit,
            )  # fmt: skip
        if key in self.scope.categories:
            return _Operand("category", column, token.text, key=key, names=names)
        value: Value = {"none": None, "true": True, "false": False}.get(token.text, token.text)
        return _Operand("word", column, token.text, value=value)

    def _entry(self, key: str) -> str:
        """The key of ``name[0]`` where the name is a tuple, the name itself elsewhere."""
        if f"{key}[0]" not in self.scope.units or not self._take("["):
            return key
        token = self._next
        self.position += 1
        entry = f"{key}[{token.text}]"
        if entry not in self.scope.units:
            _fail(f"{key} has no entry {token.text!r}; entries count from 0", token.column)
        self._expect("]")
        return entry

    def _call(self, token: _Token) -> _Operand:
        if token.text not in nodes.FUNCTIONS and token.text != "count":
            known = [*nodes.FUNCTIONS, "count"]
            _fail(describe_unknown("function", token.text, known), token.column)
        arguments = self._arguments(token)
        if token.text == "count":
            conditions = [self._truth(argument) for argument in arguments]
            count = nodes.Count(tuple(part.node for part in conditions))
            return _number_of(count, conditions, DIMENSIONLESS)
        numbers = self._reconciled(*arguments)
        is_single = token.text in ("abs", "ceil", "floor")
        if is_single and len(numbers) != 1:
            _fail(f"{token.text} takes one argument, got {len(numbers)}", token.column)
        if token.text in ("ceil", "floor") and not numbers[0].unit.is_dimensionless:
            _fail(
                f"{token.text} needs a plain number, got one in {describe_unit(numbers[0].unit)}; "
                "divide by a unit first",
                token.column,
            )
        call = nodes.call(token.text, tuple(part.node for part in numbers))
        return _number_of(call, numbers, numbers[0].unit)

    def _arguments(self, function: _Token) -> list[_Operand]:
        part = self.scope.parts.get(self._next.text)
        if part is not None and function.text in ("sum", "count"):
            return self._repeated(part)
        arguments = [self._nested(self._condition)]
        while self._take(","):
            arguments.append(self._nested(self._condition))
        self._expect(")")
        return arguments

    def _repeated(self, part: Sequence[Mapping[str, str]]) -> list[_Operand]:
        """The argument, read once for every repetition with the names of that one."""
        self.position += 1
        self._expect(",")
        start, outer, arguments = self.position, self.scope, []
        for aliases in part:
            self.position = start
            # Without ``parts``: repetitions inside repetitions would multiply.
            self.scope = replace(outer, aliases={**outer.aliases, **aliases}, parts={})
            arguments.append(self._nested(self._condition))
        self.scope = outer
        self._expect(")")
        return arguments

    def _number_from(self, operand: _Operand) -> _Operand:
        if operand.kind == "number":
            return operand
        if operand.kind == "word":
            self._unknown(operand)
        kind = {"category": "a name", "condition": "a condition", "list": "a list"}[operand.kind]
        _fail(f"expected a number, but {operand.text!r} is {kind}", operand.column)

    def _reconciled(self, *operands: _Operand) -> list[_Operand]:
        """Numbers of one dimension; a bare one takes the unit that the names beside it say."""
        numbers = [self._number_from(operand) for operand in operands]
        leader = next((number for number in numbers if not number.is_bare), numbers[0])
        return [_in_unit_of(leader, number) for number in numbers]

    def _unknown(self, operand: _Operand) -> NoReturn:
        if operand.kind != "word" or operand.text[0] in "'\"" or operand.text in KEYWORDS:
            _fail(f"expected a name, got {operand.text!r}", operand.column)
        _fail(describe_unknown("name", operand.text, self.scope.known()), operand.column)


_EQUAL = _Token("mark", "==", 0)
_RESERVED = KEYWORDS - {"none", "true", "false"}


def _is_none(operand: _Operand) -> bool:
    return operand.kind == "word" and operand.value is None


def _is_truth(category: Category) -> bool:
    return all(isinstance(value, bool) for value in (*category.values, *category.declared))


def _condition(node: Node, *parts: _Operand) -> _Operand:
    names = frozenset().union(*(part.names for part in parts))
    return _Operand("condition", parts[0].column, parts[0].text, node, names=names)


def _negated(operand: _Operand) -> _Operand:
    return replace(operand, node=nodes.Not(operand.node))


def _number_of(node: Node, parts: Sequence[_Operand], unit: Unit) -> _Operand:
    """A number computed from parts; one without names is a constant."""
    names = frozenset().union(*(part.names for part in parts))
    column, text = parts[0].column, parts[0].text
    if not names:
        with np.errstate(all="ignore"):
            value = float(node.evaluate({}))
        if not math.isfinite(value):
            _fail("the constant is not a finite number", column)
        node = Constant(value)
    is_bare = all(part.is_bare for part in parts)
    carries_unit = all(part.carries_unit or part.is_bare for part in parts) and bool(names)
    return _Operand(
        "number", column, text, node, unit, is_bare, names=names, carries_unit=carries_unit
    )


def _in_unit_of(leader: _Operand, number: _Operand) -> _Operand:
    if number.unit.exponents == leader.unit.exponents:
        if number.is_bare and leader.carries_unit:  # shoreline_percent <= 5
            return _scaled(number, leader.unit)
        return number
    if number.is_bare and number.is_zero:
        return replace(number, unit=leader.unit)
    if number.is_bare and leader.carries_unit:
        return _scaled(number, leader.unit)
    left, right = describe_unit(leader.unit), describe_unit(number.unit)
    if number.is_bare:
        _fail(f"{leader.text!r} is in {left}: write {number.text!r} with its unit", number.column)
    _fail(
        f"{leader.text!r} is in {left} but {number.text!r} is in {right}: they cannot be "
        "compared or added",
        number.column,
    )


def _scaled(number: _Operand, unit: Unit) -> _Operand:
    node = nodes.Product(((False, number.node), (False, Constant(unit.scale))))
    return _number_of(node, [replace(number, unit=unit)], unit)


def _plain(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def format_value(value: Value) -> str:
    """A value as it is written in a file: ``none`` for absence, ``[64, 128]`` for a tuple."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def describe_unit(unit: Unit) -> str:
    """A dimension in coherent SI units, such as ``B/s``; ``plain numbers`` without one."""
    powers = list(zip(BASES, unit.exponents, strict=True))
    exponents = dict(powers)
    if exponents["J"] >= 1 and exponents["s"] <= -1:  # a watt is more familiar than J/s
        powers = [
            ("W", 1),
            *((exponents | {"J": exponents["J"] - 1, "s": exponents["s"] + 1}).items()),
        ]
    above = [base if power == 1 else f"{base}^{power}" for base, power in powers if power > 0]
    below = [base if power == -1 else f"{base}^{-power}" for base, power in powers if power < 0]
    if not above and not below:
        return "plain numbers"
    return "/".join(["*".join(above) or "1", *below])
