"""Reads expressions of design spaces and campaigns: a small closed grammar, checked for dimension.

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

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from codesign.base.columns import StringMap, Value
from codesign.base.errors import InputError, describe_unknown, mistakes_at
from codesign.base.records import frozen
from codesign.base.units import DIMENSIONLESS, Unit
from codesign.space import nodes
from codesign.space.expression_operands import (
    Operand,
    condition_of,
    convert_unit,
    folded,
    negated,
    number_of,
)
from codesign.space.expression_tokens import KEYWORDS, Token, problem_at, tokens_of
from codesign.space.expressions import (
    PRESENT,
    Category,
    Expression,
    describe_unit,
    format_value,
    position_of,
)
from codesign.space.nodes import Constant

MAX_LENGTH = 4000
"""Characters in an expression."""
MAX_NESTING = 24
"""Parentheses, functions and ``not`` inside one another."""


def parse_expression(
    text: str,
    units: Mapping[str, Unit],
    where: str | None = None,
    *,
    categories: Mapping[str, Category] | None = None,
    parts: Mapping[str, Sequence[StringMap]] | None = None,
    aliases: StringMap | None = None,
    unit_in_name: Container[str] | None = None,
) -> Expression:
    """Parse an expression and check its names, kinds and dimensions.

    Args:
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
    bare = [name for name in units if "." not in name] if unit_in_name is None else unit_in_name
    scope = _Scope(units, categories or {}, parts or {}, aliases or {}, bare)
    with mistakes_at(where):
        return _Parser(text, scope).parse()


@frozen
class _Scope:
    units: Mapping[str, Unit]
    categories: Mapping[str, Category]
    parts: Mapping[str, Sequence[StringMap]]
    aliases: StringMap
    unit_in_name: Container[str]

    def known(self) -> set[str]:
        return {*self.units, *self.categories, *self.aliases}


class _Parser:
    """One expression being read, by recursive descent."""

    def __init__(self, text: str, scope: _Scope) -> None:
        if len(text) > MAX_LENGTH:
            raise InputError(f"the expression has {len(text)} characters; at most {MAX_LENGTH}")
        self.text = text
        self.scope = scope
        self.tokens = list(tokens_of(text))
        self.position = 0
        self.nesting = 0

    def parse(self) -> Expression:
        operand = self._condition()
        if self._next.kind != "end":
            raise problem_at(f"unexpected {self._next.text!r}", self._next.column)
        if operand.kind == "category" and _is_truth(self.scope.categories[operand.key]):
            operand = self._truth(operand)
        if operand.kind == "condition":
            return Expression(self.text, operand.node, operand.names, None)
        operand = self._number_from(operand)
        unit = Unit(1.0, operand.unit.exponents)
        return Expression(self.text, operand.node, operand.names, unit)

    # Tokens

    @property
    def _next(self) -> Token:
        return self.tokens[self.position]

    def _take(self, *texts: str) -> Token | None:
        token = self._next
        if token.kind in ("mark", "name") and token.text in texts:
            self.position += 1
            return token
        return None

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            raise problem_at(f"expected {text!r}, got {self._next.text!r}", self._next.column)

    def _nested(self, parse: Callable[[], Operand]) -> Operand:
        if self.nesting >= MAX_NESTING:
            raise problem_at(f"more than {MAX_NESTING} levels of nesting", self._next.column)
        self.nesting += 1
        operand = parse()
        self.nesting -= 1
        return operand

    # Conditions

    def _condition(self) -> Operand:
        return self._joined(partial(self._joined, self._negation, "and"), "or")

    def _joined(self, parse: Callable[[], Operand], word: str) -> Operand:
        operands = [parse()]
        while self._take(word):
            operands.append(parse())
        if len(operands) == 1:
            return operands[0]
        return folded(word, [self._truth(operand) for operand in operands])

    def _negation(self) -> Operand:
        if self._take("not") is None:
            left = self._sum()
            compared = []
            while True:
                if operator := self._take("<=", ">=", "==", "!=", "<", ">"):
                    right = self._sum()
                    compared.append(self._compare(operator, left, right))
                    left = right
                elif self._next.text in ("in", "not"):
                    is_negated = self._take("not") is not None
                    self._expect("in")
                    compared.append(self._membership(left, self._primary(), is_negated))
                else:
                    break
            if len(compared) < 2:
                return compared[0] if compared else left
            return folded("and", compared)
        return negated(self._truth(self._nested(self._negation)))

    def _truth(self, operand: Operand) -> Operand:
        """The operand as a condition; a true/false parameter is one."""
        if operand.kind == "condition":
            return operand
        if operand.kind == "category" and _is_truth(self.scope.categories[operand.key]):
            return self._has_level(operand, [True], operand.column)
        if operand.kind == "word":
            self._unknown(operand)
        raise problem_at(f"expected a condition, got {operand.text!r}", operand.column)

    def _compare(self, operator: Token, left: Operand, right: Operand) -> Operand:
        values = self._value_beside(left, right), self._value_beside(right, left)
        if left.kind == right.kind == "category" and values != (left, right):
            raise problem_at(
                f"{left.text!r} and {right.text!r} are parameters, and one is a value of the "
                "other: write the value in quotes",
                right.column,
            )
        left, right = values
        if "number" in (left.kind, right.kind) and not _is_none(left) and not _is_none(right):
            left, right = self._reconciled(left, right)
            return condition_of(nodes.Compare((left.node, right.node), operator.text), left, right)
        if operator.text not in ("==", "!="):
            raise problem_at(
                f"{operator.text!r} compares numbers; names are equal or not", operator.column
            )
        same = self._same(left, right)
        return negated(same) if operator.text == "!=" else same

    def _value_beside(self, operand: Operand, category: Operand) -> Operand:
        """The operand, or the value of a category that has the name of this parameter.

        ``kind == lanes`` compares with the value ``lanes``: nothing else can be meant if the
        parameter ``lanes`` is a number, and in a list.
        """
        if category.kind != "category" or not operand.key:
            return operand
        is_value = operand.text in self.scope.categories[category.key].values
        return replace(operand, kind="word", value=operand.text) if is_value else operand

    def _same(self, left: Operand, right: Operand) -> Operand:
        if left.kind == "category" and right.kind == "category":
            category_of_left = self.scope.categories[left.key]
            compared = self.scope.categories[right.key]
            positions = [position_of(value, category_of_left.values) for value in compared.values]
            codes = [-3 if position is None else position for position in positions]
            names = nodes.Name(left.key), nodes.Name(right.key)
            return condition_of(nodes.SameValue(names, (*codes, -1)), left, right)
        if right.kind in ("category", "number"):
            left, right = right, left
        if left.kind not in ("category", "number"):
            self._unknown(left)
        return self._has_level(left, [self._literal(right)], right.column)

    def _membership(self, left: Operand, choices: Operand, is_negated: bool) -> Operand:
        if choices.kind != "list":
            raise problem_at(
                f"expected a list such as [a, b], got {choices.text!r}", choices.column
            )
        if not choices.items:
            raise problem_at("the list is empty: nothing is in it", choices.column)
        if left.kind == "number":
            result = folded("or", [self._compare(_EQUAL, left, x) for x in choices.items])
        elif left.kind == "category":
            values = [self._literal(self._value_beside(choice, left)) for choice in choices.items]
            result = self._has_level(left, values, choices.column)
        else:
            self._unknown(left)
        return negated(result) if is_negated else result

    def _has_level(self, operand: Operand, values: Sequence[Value], column: int) -> Operand:
        category = self.scope.categories.get(operand.key)
        if category is None:
            raise problem_at(
                f"{operand.text!r} is always there and cannot be compared with none", column
            )
        if operand.kind == "number":  # only ``none`` gets here: compared by its presence
            key = operand.key + PRESENT
            is_absent = condition_of(nodes.HasLevel((nodes.Name(key),), (0,)), operand)
            return replace(is_absent, names=frozenset({key}))
        codes = [category.code(value) for value in values]
        for code, value in zip(codes, values, strict=True):
            if code is None:
                choices_in_words = [format_value(choice) for choice in (*category.values, None)]
                label = f"value of {operand.key}"
                raise problem_at(
                    describe_unknown(label, format_value(value), choices_in_words), column
                )
        levels = tuple(code for code in codes if code is not None)
        return condition_of(nodes.HasLevel((nodes.Name(operand.key),), levels), operand)

    def _literal(self, operand: Operand) -> Value:
        """Value of an operand to compare with."""
        if operand.kind == "word":
            return operand.value
        if operand.kind == "number" and operand.is_bare and isinstance(operand.node, Constant):
            return (
                int(operand.node.value) if operand.node.value.is_integer() else operand.node.value
            )
        if operand.kind == "list":
            numbers = [self._literal(member) for member in operand.items]
            integers = [number for number in numbers if isinstance(number, int)]
            if len(integers) == len(numbers):
                return tuple(integers)
        raise problem_at(f"expected a value to compare with, got {operand.text!r}", operand.column)

    # Numbers

    def _sum(self) -> Operand:
        terms = [(1.0, self._product())]
        while sign := self._take("+", "-"):
            terms.append((-1.0 if sign.text == "-" else 1.0, self._product()))
        if len(terms) == 1:
            return terms[0][1]
        operands = self._reconciled(*(operand for _, operand in terms))
        signs = tuple(sign for sign, _ in terms)
        total = nodes.Sum(tuple(operand.node for operand in operands), signs)
        return number_of(total, operands, operands[0].unit)

    def _product(self) -> Operand:
        factors = [(False, self._signed())]
        while operator := self._take("*", "/"):
            factors.append((operator.text == "/", self._signed()))
        if len(factors) == 1:
            return factors[0][1]
        numbers = [(is_divisor, self._number_from(operand)) for is_divisor, operand in factors]
        unit = DIMENSIONLESS
        for is_divisor, factor in numbers:
            unit = unit / factor.unit if is_divisor else unit * factor.unit
            if max(map(abs, unit.exponents)) > 99:
                raise problem_at("the dimension has an exponent above 99", factor.column)
        are_divisors = tuple(is_divisor for is_divisor, _ in numbers)
        node = nodes.Product(tuple(factor.node for _, factor in numbers), are_divisors)
        return number_of(node, [factor for _, factor in numbers], unit)

    def _signed(self) -> Operand:
        sign = 1.0
        signs = 0
        while mark := self._take("-", "+"):
            sign = -sign if mark.text == "-" else sign
            signs = signs + 1
        operand = self._primary()
        if not signs:
            return operand
        operand = self._number_from(operand)
        return number_of(nodes.Sum((operand.node,), (sign,)), [operand], operand.unit)

    def _primary(self) -> Operand:
        token = self._next
        self.position += 1
        if token.kind == "number":
            unit = token.unit or DIMENSIONLESS
            node = Constant(token.value)
            is_bare = token.unit is None
            return Operand("number", token.column, token.text, node, unit, is_bare)
        if token.kind == "text":
            return Operand("word", token.column, token.text, value=token.text[1:-1])
        if token.kind == "name" and token.text not in _RESERVED:
            return self._call(token) if self._take("(") else self._name(token)
        if token.text == "(":
            operand = self._nested(self._condition)
            self._expect(")")
            return operand
        if token.text == "[":
            return self._nested(lambda: self._list(token))
        raise problem_at(f"expected a number or a name, got {token.text!r}", token.column)

    def _list(self, start: Token) -> Operand:
        items: list[Operand] = []
        while not self._take("]"):
            if items:
                self._expect(",")
            items.append(self._sum())
        text = self.text[start.column - 1 : self._next.column - 1].strip()
        return Operand("list", start.column, text, items=tuple(items))

    def _name(self, token: Token) -> Operand:
        key = self.scope.aliases.get(token.text, token.text)
        head, dot, attribute = key.partition(".")
        if dot:
            key = f"{self.scope.aliases.get(head, head)}.{attribute}"
        key = self._entry(key)
        names = frozenset({key})
        column = token.column
        if key in self.scope.units:
            unit = self.scope.units[key]
            carries_unit = key in self.scope.unit_in_name
            node = nodes.Name(key, unit.scale)
            return Operand(
                "number", column, token.text, node, unit, key=key, names=names,
                carries_unit=carries_unit,
            )  # fmt: skip
        if key in self.scope.categories:
            return Operand("category", column, token.text, key=key, names=names)
        value: Value = {"none": None, "true": True, "false": False}.get(token.text, token.text)
        return Operand("word", column, token.text, value=value)

    def _entry(self, key: str) -> str:
        """The key of ``name[0]`` where the name is a tuple, the name itself elsewhere."""
        if f"{key}[0]" not in self.scope.units or not self._take("["):
            return key
        token = self._next
        self.position += 1
        entry = f"{key}[{token.text}]"
        if entry not in self.scope.units:
            raise problem_at(
                f"{key} has no entry {token.text!r}; entries count from 0", token.column
            )
        self._expect("]")
        return entry

    def _call(self, token: Token) -> Operand:
        if token.text not in nodes.FUNCTIONS and token.text != "count":
            functions = [*nodes.FUNCTIONS, "count"]
            raise problem_at(describe_unknown("function", token.text, functions), token.column)
        arguments = self._arguments(token)
        if token.text == "count":
            conditions = [self._truth(argument) for argument in arguments]
            count = nodes.FoldedCall(tuple(condition.node for condition in conditions), "count")
            return number_of(count, conditions, DIMENSIONLESS)
        numbers = self._reconciled(*arguments)
        is_single = token.text in ("abs", "ceil", "floor")
        if is_single and len(numbers) != 1:
            raise problem_at(f"{token.text} takes one argument, got {len(numbers)}", token.column)
        if token.text in ("ceil", "floor") and not numbers[0].unit.is_dimensionless:
            raise problem_at(
                f"{token.text} needs a plain number, got one in {describe_unit(numbers[0].unit)}; "
                "divide by a unit first",
                token.column,
            )
        call = nodes.Call if is_single else nodes.FoldedCall
        node = call(tuple(number.node for number in numbers), token.text)
        return number_of(node, numbers, numbers[0].unit)

    def _arguments(self, function: Token) -> list[Operand]:
        operand = self.scope.parts.get(self._next.text)
        if operand is not None and function.text in ("sum", "count"):
            return self._repeated(operand)
        arguments = [self._nested(self._condition)]
        while self._take(","):
            arguments.append(self._nested(self._condition))
        self._expect(")")
        return arguments

    def _repeated(self, operand: Sequence[StringMap]) -> list[Operand]:
        """The argument, read once for every repetition with the names of that one."""
        self.position += 1
        self._expect(",")
        start = self.position
        outer = self.scope
        arguments = []
        for aliases in operand:
            self.position = start
            # Without ``parts``: repetitions inside repetitions would multiply.
            self.scope = replace(outer, aliases={**outer.aliases, **aliases}, parts={})
            arguments.append(self._nested(self._condition))
        self.scope = outer
        self._expect(")")
        return arguments

    def _number_from(self, operand: Operand) -> Operand:
        if operand.kind == "number":
            return operand
        if operand.kind == "word":
            self._unknown(operand)
        kind = {"category": "a name", "condition": "a condition", "list": "a list"}[operand.kind]
        raise problem_at(f"expected a number, but {operand.text!r} is {kind}", operand.column)

    def _reconciled(self, *operands: Operand) -> list[Operand]:
        """Numbers of one dimension; a bare one takes the unit that the names beside it say."""
        numbers = [self._number_from(operand) for operand in operands]
        leader = next((number for number in numbers if not number.is_bare), numbers[0])
        return [convert_unit(leader, number) for number in numbers]

    def _unknown(self, operand: Operand) -> NoReturn:
        if operand.kind != "word" or operand.text[0] in "'\"" or operand.text in KEYWORDS:
            raise problem_at(f"expected a name, got {operand.text!r}", operand.column)
        raise problem_at(describe_unknown("name", operand.text, self.scope.known()), operand.column)


_EQUAL = Token("mark", "==", 0)
_RESERVED = KEYWORDS - {"none", "true", "false"}


def _is_none(operand: Operand) -> bool:
    return operand.kind == "word" and operand.value is None


def _is_truth(category: Category) -> bool:
    return all(isinstance(value, bool) for value in (*category.values, *category.declared))
