"""Laws of counting, on random grammars of conditions that are also worked out by brute force."""

import itertools
import math
import random
import re

import numpy as np
import pytest
from scipy.stats import chisquare

from codesign.base.errors import InputError
from codesign.space import parse_space
from codesign.space.axes import axes_of
from codesign.space.design_rules import rules_of
from codesign.space.diagram import diagram_of

WORDS = ("x", "y", "z")
SMALL = 3000
"""Combinations of a grammar that are looked at one by one."""
UNDEFINED = None
"""Of a condition on 0/0: not met, and neither is its opposite."""


# Conditions as nested tuples, written as text and judged here without any of the space's code.


def text_of(node):
    kind, *rest = node
    if kind in ("and", "or", "+", "*", "/"):
        return "(" + f" {kind} ".join(map(text_of, rest)) + ")"
    if kind in ("<=", ">=", "==", "!=", "<"):
        return f"({text_of(rest[0])} {kind} {text_of(rest[1])})"
    if kind == "not":
        return f"(not {text_of(rest[0])})"
    if kind in ("max", "min", "count"):
        return f"{kind}({', '.join(map(text_of, rest))})"
    if kind == "in":
        return f"({rest[0]} in [{', '.join(rest[1])}])"
    if kind == "same":
        return f"({rest[0]} == {rest[1]})"
    return str(rest[0])  # a name or a number


def number_of(node, design):
    kind, *rest = node
    if kind == "name":
        return float(design[rest[0]] or 0)
    if kind == "number":
        return float(rest[0])
    if kind == "count":
        return float(sum(verdict_of(part, design) is True for part in rest))
    values = [number_of(part, design) for part in rest]
    if kind == "/":
        return float(np.divide(*map(np.float64, values)))
    return {"+": sum, "*": math.prod, "max": max, "min": min}[kind](values)


def verdict_of(node, design):
    kind, *rest = node
    if kind in ("and", "or", "not"):
        verdicts = [verdict_of(part, design) for part in rest]
        if UNDEFINED in verdicts:
            return UNDEFINED
        return {"and": all(verdicts), "or": any(verdicts), "not": not verdicts[0]}[kind]
    if kind == "in":
        return design[rest[0]] in rest[1]
    if kind == "same":
        return design[rest[0]] == design[rest[1]]
    with np.errstate(all="ignore"):
        left, right = (number_of(part, design) for part in rest)
    if math.isnan(left) or math.isnan(right):
        return UNDEFINED
    return {"<=": left <= right, ">=": left >= right, "<": left < right,
            "==": left == right, "!=": left != right}[kind]  # fmt: skip


class Grammar:
    """Random parameters, some of which exist on a condition, and random constraints."""

    def __init__(self, seed, prefix="p", divides=True):
        self.rng, self.divides = random.Random(seed), divides
        self.values, self.optional, self.when = {}, {}, {}
        n = self.rng.randint(2, 7)
        names = [f"{prefix}{i}" for i in range(n)]
        for name in names:
            kind = self.rng.choice(["words", "numbers", "numbers"])
            size = self.rng.randint(1, 4)
            words = list(WORDS[: min(size, 3)])
            self.values[name] = words if kind == "words" else list(range(1, size + 1))
            self.optional[name] = self.rng.random() < 0.2
        # In an order that is not the file's, so that conditions name later parameters too.
        order = self.rng.sample(names, n)
        for place, name in enumerate(order):
            if place and self.rng.random() < 0.5:
                self.when[name] = self.condition(order[:place], 2)
        self.constraints = [
            self.condition(names, self.rng.randint(1, 3)) for _ in range(self.rng.randint(0, 3))
        ]

    def is_word(self, name):
        return isinstance(self.values[name][0], str)

    def condition(self, names, depth):
        if depth > 1 and self.rng.random() < 0.6:
            kind = self.rng.choice(["and", "or", "or", "not"])
            n = 1 if kind == "not" else self.rng.randint(2, 3)
            return (kind, *(self.condition(names, depth - 1) for _ in range(n)))
        words = [name for name in names if self.is_word(name)]
        if len(words) > 1 and self.rng.random() < 0.2:
            return ("same", *self.rng.sample(words, 2))
        name = self.rng.choice(names)
        if self.is_word(name):
            own = self.values[name]
            return ("in", name, self.rng.sample(own, self.rng.randint(1, len(own))))
        kind = self.rng.choice(["<=", ">=", "<=", ">=", "==", "!=", "<"])
        return (kind, self.quantity(names), ("number", self.rng.randint(1, 6)))

    def quantity(self, names):
        numbers = [name for name in names if not self.is_word(name)]
        chosen = [("name", name) for name in self.rng.choices(numbers, k=self.rng.randint(1, 4))]
        if len(chosen) == 1:
            return chosen[0]
        kind = self.rng.choice(["+", "+", "*", "max", "min", "count", "/"])
        if kind == "/" and self.divides:
            return (kind, *chosen[:2])
        if kind == "count":
            return (kind, *((">=", part, ("number", 2)) for part in chosen))
        return ("+" if kind == "/" else kind, *chosen)

    def lines(self, family=None):
        """Lines of parameters, and of constraints; all only in a family, if it has one."""
        parameters = []
        for name, values in self.values.items():
            conditions = [f"family == {family}"] if family else []
            if name in self.when:
                conditions.append(text_of(self.when[name]))
            when = f', when: "{" and ".join(conditions)}"' if conditions else ""
            optional = ", optional: true" if self.optional[name] else ""
            parameters.append(f"  {name}: {{values: {values}{optional}{when}}}")
        constraints = [text_of(node) for node in self.constraints]
        if family:
            constraints = [f"family != {family} or {text}" for text in constraints]
        return parameters, [f'  - "{text}"' for text in constraints]

    def choices(self):
        """What each parameter may be, absence included."""
        return [
            [*values, *([None] if self.optional[name] or name in self.when else [])]
            for name, values in self.values.items()
        ]

    @property
    def n_combinations(self):
        return math.prod(map(len, self.choices()))

    def designs(self):
        """The designs, as tuples of values."""
        return {
            combination
            for combination in itertools.product(*self.choices())
            if self.is_design(dict(zip(self.values, combination, strict=True)))
        }

    def is_design(self, design):
        for name, node in self.when.items():
            is_active = verdict_of(node, design) is True
            if design[name] is None and is_active and not self.optional[name]:
                return False
            if design[name] is not None and not is_active:
                return False
        return all(verdict_of(node, design) is True for node in self.constraints)


def document(parameters, constraints):
    rules = ["constraints:", *dict.fromkeys(constraints)] if constraints else []
    return "\n".join(["parameters:", *parameters, *rules]).replace("'", "")


def small_grammars(n, first=0, **options):
    grammars = (Grammar(seed, **options) for seed in itertools.count(first))
    return list(itertools.islice((g for g in grammars if g.n_combinations <= SMALL), n))


@pytest.fixture(params=["listed", "walked"])
def access(request, monkeypatch):
    """Rows looked up in a list, and rows worked out from their numbers."""
    if request.param == "walked":
        monkeypatch.setattr("codesign.space.components._TABULATED", 0)
        monkeypatch.setattr("codesign.space.components._ONE_COORDINATE", 0)


def decoded(space, rows):
    return [tuple(design.values()) for design in space.decode(rows)]


@pytest.mark.parametrize("first", [0, 1000, 2000])
def test_the_designs_of_a_random_grammar_are_those_of_brute_force(access, first):
    n_feasible = 0
    for grammar in small_grammars(24, first):
        designs, text = grammar.designs(), document(*grammar.lines())
        if not designs:
            with pytest.raises(InputError, match="no design meets the constraints"):
                parse_space(text)
            continue
        n_feasible += 1
        space = parse_space(text)
        assert space.size == len(designs), text
        rows = space.rows(np.arange(space.size))
        listed = decoded(space, rows)
        assert len(listed) == len(set(listed)) == len(designs)
        assert set(listed) == designs, text
        assert (space.numbers(rows) == np.arange(space.size)).all()
        levels = [range(-1, len(values)) for values in grammar.values.values()]
        candidates = np.array(list(itertools.islice(itertools.product(*levels), SMALL)))
        is_in = [design in designs for design in decoded(space, candidates)]
        assert space.contains(candidates).tolist() == is_in
        spread = space.sobol_rows(np.random.default_rng(0).random((50, space.n_coordinates)))
        assert space.contains(spread).all()
        for row in rows[:: max(len(rows) // 3, 1)]:
            assert space.contains(space.neighbors(row)).all()
        for component in space.components:
            for column in component.columns.tolist():
                assert (component.possible_codes(column) == np.unique(rows[:, column])).all()
    assert n_feasible > 12


def test_designs_are_numbered_in_the_order_of_the_file():
    text = """
parameters:
  a: {low: 1, high: 3}
  b: {values: [x, y], optional: true}
  c: {low: 1, high: 2, when: b == y}
constraints: [a != 2 or b != x]
"""
    space = parse_space(text)
    rows = space.rows(np.arange(space.size)).tolist()
    assert rows == sorted(rows)
    assert rows[:3] == [[0, -1, -1], [0, 0, -1], [0, 1, 0]]


def test_what_a_condition_names_comes_first_in_the_order():
    text = "parameters: {a: {values: [1, 2], when: b == y}, b: [x, y, z], c: [p, q]}"
    rows = parse_space(text).rows(np.arange(8)).tolist()
    assert [row[:2] for row in rows[::2]] == [[-1, 0], [0, 1], [1, 1], [-1, 2]]


@pytest.mark.parametrize("seed", range(6))
def test_designs_of_a_random_grammar_are_drawn_uniformly(access, seed):
    grammar = next(
        g for g in small_grammars(400, 5000 + 700 * seed) if 12 <= len(g.designs()) <= 300
    )
    space = parse_space(document(*grammar.lines()))
    rows = space.sample(np.random.default_rng(seed), 100 * space.size)
    counts = np.bincount(space.numbers(rows), minlength=space.size)
    assert chisquare(counts).pvalue > 1e-3


def families(seed, n_families, n_pieces):
    """A space of families, each of several independent grammars, and the sizes of its families."""
    known = iter(small_grammars(400, 20_000 * (seed + 1), divides=False))
    parameters, constraints, sizes = [], [], []
    for family in range(n_families):
        size = 1
        for piece in range(n_pieces):
            n = 0
            while not n:
                source = next(known)
                n = len(source.designs())
            size *= n
            renamed = renamed_lines(source, f"f{family}", f"f{family}q{piece}_")
            parameters += renamed[0]
            constraints += renamed[1]
        sizes.append(size)
    values = ", ".join(f"f{family}" for family in range(n_families))
    return document([f"  family: [{values}]", *parameters], constraints), sizes


def renamed_lines(grammar, family, prefix):
    """The lines of a grammar with its parameters renamed."""
    return [
        [re.sub(r"\bp(?=\d)", prefix + "p", line) for line in lines]
        for lines in grammar.lines(family)
    ]


@pytest.mark.parametrize(("n_families", "n_pieces"), [(2, 3), (3, 16), (10, 4)])
def test_a_large_space_is_the_sum_over_its_families_of_products(n_families, n_pieces):
    text, sizes = families(n_families, n_families, n_pieces)
    space = parse_space(text)
    assert space.size == sum(sizes)
    rng = random.Random(0)
    numbers = [0, space.size - 1, *(rng.randrange(space.size) for _ in range(50))]
    rows = space.rows(np.array(numbers, dtype=object))
    assert space.contains(rows).all()
    assert space.numbers(rows).tolist() == numbers
    ends = np.cumsum(np.array(sizes, dtype=object)).tolist()
    assert rows[:, 0].tolist() == [sum(end <= number for end in ends) for number in numbers]
    drawn = space.sample(np.random.default_rng(1), 4000)
    assert space.contains(drawn).all()
    eighths = [number * 8 // space.size for number in space.numbers(drawn).tolist()]
    assert chisquare(np.bincount(eighths, minlength=8)).pvalue > 1e-3
    shares = np.array([size / space.size for size in sizes])
    counts = np.bincount(drawn[:, 0], minlength=n_families)
    largest = int(shares.argmax())
    if 0.01 < shares[largest] < 0.99:
        observed = [counts[largest], 4000 - counts[largest]]
        assert (
            chisquare(observed, 4000 * np.array([shares[largest], 1 - shares[largest]])).pvalue
            > 1e-3
        )


def test_independent_grammars_multiply_up_to_1e30_designs():
    size, number, parameters, constraints = 1, 0, [], []
    for grammar in small_grammars(200, 90_000, divides=False):
        n = len(grammar.designs())
        if n and size * n <= 10**30:
            size, number = size * n, number + 1
            lines = renamed_lines(grammar, "", f"q{number}_")
            parameters += lines[0]
            constraints += lines[1]
    space = parse_space(document(parameters, constraints))
    assert 10**28 < space.size == size <= 10**30
    rng = random.Random(0)
    numbers = [0, size - 1, *(rng.randrange(size) for _ in range(50))]
    rows = space.rows(np.array(numbers, dtype=object))
    assert space.contains(rows).all()
    assert space.numbers(rows).tolist() == numbers


@pytest.mark.parametrize("first", [300_000, 400_000])
def test_the_order_in_which_choices_are_made_does_not_change_the_count(first):
    for grammar in small_grammars(60, first):
        designs = grammar.designs()
        if not designs:
            continue
        size, rng = 1, random.Random(first)
        for component in parse_space(document(*grammar.lines())).components:
            axes = list(axes_of(component.structure, component.columns.tolist()))
            rng.shuffle(axes)
            rules = rules_of(component.structure, axes, component.constraints)
            size *= diagram_of(component.structure, axes, rules, 10**6).size
        assert size == len(designs), document(*grammar.lines())
