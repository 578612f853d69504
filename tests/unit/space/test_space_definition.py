"""Files of design spaces: what they may say, and the one clear line for what they may not."""

import numpy as np
import pytest

from codesign.base.catalog import Catalog
from codesign.base.errors import InputError
from codesign.space import parse_space

MEMORIES = Catalog(
    units={"bandwidth": "GB/s", "capacity": "GB"},
    entries={
        "fast": {"bandwidth": 4e12, "capacity": 1e9},
        "wide": {"bandwidth": 4e12, "capacity": 2e9},
        "slow": {"bandwidth": 1e12, "capacity": 8e9},
    },
)


def space_of(text):
    return parse_space(text, {"memory": MEMORIES}, "s.yaml")


ALL_KINDS = """
parameters:
  clock_hz: {values: [1 GHz, 1.5 GHz, 2 GHz]}
  array: [[64, 128], [128, 64]]
  ports: {low: 2, high: 8, step: 3}
  cached: [true, false]
  cache_size: {values: [1 MiB, 4 MiB], scale: log, when: cached}
  policy: {values: [lru, fifo], when: cached and cache_size >= 2 MiB}
  extra: {from: memory, optional: true}
derived:
  peak: {value: "array[0] * clock_hz", unit: GHz, feature: true}
  room: extra.capacity
constraints:
  - room <= 4 GB or peak > 100 GHz
"""


def test_every_kind_of_parameter_is_counted_by_hand():
    space = space_of(ALL_KINDS)
    # cached: 1 MiB without policy, 4 MiB with one of 2, or not cached at all.
    caching = 1 + 2 + 1
    # 6 pairs of array and clock; 64 x 1 and 64 x 1.5 GHz stay at or below 100 GHz and so
    # exclude the one memory above 4 GB, of 3 and none.
    machines = 6 * 4 - 2
    assert space.size == machines * 3 * caching
    kinds = {parameter.name: parameter.kind for parameter in space.parameters}
    assert kinds["clock_hz"] == "ordinal"
    assert kinds["ports"] == "integer"
    assert kinds["cached"] == kinds["array"] == kinds["extra"] == "categorical"
    rows = space.rows(np.arange(space.size))
    assert len(np.unique(space.keys(rows))) == space.size
    assert space.contains(rows).all()


def test_what_is_inactive_is_absent_and_counts_as_nothing():
    space = space_of(ALL_KINDS)
    design = {"clock_hz": "1 GHz", "array": "64x128", "ports": 2, "cached": False,
              "cache_size": "4 MiB", "policy": "lru"}  # fmt: skip
    row = space.encode(design)
    decoded = space.decode(row)[0]
    assert decoded["cache_size"] is None
    assert decoded["policy"] is None
    assert decoded["clock_hz"] == 1e9
    assert decoded["array"] == (64, 128)
    derived = space.derived(row)
    assert derived["room"] == 0
    assert derived["peak"] == 64e9


def test_a_value_is_matched_as_it_was_meant():
    space = space_of("parameters: {a: [true, false], b: [1, 2], c: [1 GHz, 2 GHz], d: [x, y]}")
    given = {"a": "true", "b": np.int64(2), "c": 1000000000.0000001, "d": "y"}
    assert space.decode(space.encode(given))[0] == {"a": True, "b": 2, "c": 1e9, "d": "y"}
    for wrong in (
        {"a": 1},
        {"b": True},
        {"c": "1 GB"},
        {"c": "1"},
        {"d": 1},
        {"d": [1]},
        {"a": {}},
    ):
        with pytest.raises(InputError, match="unknown value of"):
            space.encode(given | wrong)


def test_a_missing_value_is_named_and_a_single_one_is_filled_in():
    space = space_of("parameters: {a: [5], b: [1, 2], c: {values: [1, 2], when: b == 2}}")
    assert space.decode(space.encode({"b": 1}))[0] == {"a": 5, "b": 1, "c": None}
    with pytest.raises(InputError, match=r"^x\.yaml:3: no value for b$"):
        space.encode({}, "x.yaml:3")
    with pytest.raises(InputError, match="no value for c"):
        space.encode({"b": 2})
    with pytest.raises(InputError, match=r"unknown parameter of s\.yaml 'bb'\. Did you mean 'b'"):
        space.encode({"bb": 2})


PARTS = """
repeated:
  tier:
    minimum: 1
    maximum: 3
    parameters:
      technology: {from: memory}
      stacks: [1, 2]
      mirrored: {values: [yes, no], when: technology != slow}
    order: [technology.bandwidth * stacks, technology.capacity]
"""


def test_ties_in_the_order_fall_to_the_next_key():
    space = space_of(PARTS)
    row = space.encode(
        {
            "tier1_technology": "slow", "tier1_stacks": 2,
            "tier2_technology": "fast", "tier2_stacks": 1, "tier2_mirrored": "no",
            "tier3_technology": "wide", "tier3_stacks": 1, "tier3_mirrored": "yes",
        }
    )  # fmt: skip
    design = space.decode(row)[0]
    assert [design[f"tier{k}_technology"] for k in "123"] == ["wide", "fast", "slow"]
    assert [design[f"tier{k}_mirrored"] for k in "123"] == ["yes", "no", None]


def test_multisets_of_repetitions_are_counted_by_formula():
    # 2 + 4 + 4 variants; multisets of 1, 2, 3 of 10: 10 + 55 + 220.
    space = space_of(PARTS)
    assert space.size == 10 + 55 + 220
    rows = space.rows(np.arange(space.size))
    assert len(np.unique(rows, axis=0)) == space.size
    assert space.contains(rows).all()
    shuffled = rows[:, [6, 7, 8, 0, 1, 2, 3, 4, 5]]
    assert (space.canonical(shuffled) == rows).all()


def test_a_repetition_with_something_missing_is_not_in_the_space():
    space = space_of(PARTS)
    assert not space.contains(np.array([[0, -1, 0, -1, -1, -1, -1, -1, -1]])).any()
    assert not space.contains(np.full((1, 9), -1)).any()
    assert not space.contains(np.full((1, 9), 99)).any()
    assert not space.contains(np.full((1, 9), -7)).any()


def test_a_sum_over_many_parameters_is_counted_without_listing_them():
    names = [f"p{i}" for i in range(8)]
    text = "parameters:\n" + "".join(f"  {name}: {{low: 1, high: 10}}\n" for name in names)
    space = space_of(text + "constraints: ['" + " + ".join(names) + " <= 20']\n")
    # Solutions with 8 values of 1 to 10 and a sum of at most 20: C(20, 8), less those with an
    # 11 or more, 8 * C(10, 8).
    assert space.size == 125_970 - 8 * 45
    rows = space.sample(np.random.default_rng(0), 500)
    assert rows.shape == (500, 8)
    assert space.contains(rows).all()
    assert space.contains(space.sobol_rows(np.array([[0.0], [0.999]]))).all()


def test_absence_is_counted_only_where_a_parameter_can_be_absent():
    """28 parameters of 4 levels: 2^56 designs, though 5^28 rows are beyond 64 bits."""
    space = space_of("parameters:\n" + "".join(f"  p{i}: [1, 2, 3, 4]\n" for i in range(28)))
    assert space.size == 2**56
    rows = space.sample(np.random.default_rng(0), 100)
    assert (space.rows(space.numbers(rows)) == rows).all()
    assert len(np.unique(space.keys(rows))) == len(np.unique(rows, axis=0)) == 100


def test_a_design_counts_as_feasible_where_it_is_also_when_it_is_looked_at_alone():
    """0.3 + 0.2 + 0.1 is 0.6, but 0.1 + 0.2 + 0.3 is above it: the written order decides."""
    text = "parameters: {a: [0.1, 0.7], b: [0.2, 0.8], c: [0.3, 0.9]}\nconstraints: "
    assert space_of(text + "[ceil(10 * (c + b + a)) <= 6]").size == 1
    with pytest.raises(InputError, match="no design meets the constraints"):
        space_of(text + "[ceil(10 * (a + b + c)) <= 6]")


JOINT = (
    "parameters:\n"
    + "".join(f"  p{i}: [{i}.1, {i}.3, {i}.7, {i}.9]\n" for i in range(1, 31))
    + "constraints:\n  - p1 < 40\n  - "
    + " * ".join(f"p{i}" for i in range(1, 31))
    + " <= 1e34\n"
)


def test_what_cannot_be_counted_is_refused_and_names_the_constraint(monkeypatch):
    for name in ("MAX_STEPS", "_STEPS_IN_FILE_ORDER", "_STEPS_OF_CHECK"):
        monkeypatch.setattr(f"codesign.space.components.{name}", 100_000)
    space = space_of(JOINT)
    assert space.contains(np.zeros((1, 30), dtype=np.int64)).all()
    with pytest.raises(InputError) as caught:
        _ = space.size
    (line,) = str(caught.value).splitlines()
    assert line.startswith("s.yaml:34: constraints.1: the constraint 'p1 * p2 * p3")
    assert "joins 30 parameters (p1, p2, p3, " in line
    assert line.endswith("than can be counted in 100,000 steps: split it, or list fewer values")


def test_too_many_rows_to_list_are_refused_by_their_number():
    space = space_of("parameters: {a: {low: 1, high: 60000}, b: {low: 1, high: 60000}}\n"
                     "constraints: [a != b or a > 2]")  # fmt: skip
    (component,) = space.components
    assert component.size == 60_000**2 - 2
    with pytest.raises(InputError, match="the 3,599,999,998 choices of a, b are too many to be"):
        _ = component.rows


def test_more_parameters_than_can_be_numbered_are_refused():
    text = "parameters:\n" + "".join(f"  p{i}: [1, 2]\n" for i in range(9000))
    with pytest.raises(InputError, match="space:1: parameters: expected at most 1e4000 comb"):
        parse_space(text)


def test_design_numbers_out_of_range_are_refused():
    space = space_of("parameters: {a: [1, 2]}")
    for number in (-1, 2):
        with pytest.raises(InputError, match="go from 0 to 1"):
            space.rows(np.array([number]))


def test_a_named_design_must_be_in_the_space_unless_a_reason_is_given():
    text = """
parameters: {a: [1, 2, 3]}
constraints: [a <= 2]
designs:
  Three: {values: {a: 3}%s}
"""
    with pytest.raises(InputError, match=r"s.yaml:5: designs.Three: .* does not meet 'a <= 2'"):
        space_of(text % "")
    space = space_of(text % ", outside: the paper's own exceeds it")
    assert space.designs["Three"] == {"a": 3}


def test_fixed_values_of_a_file_hold_and_words_that_went_are_still_known():
    space = space_of("parameters: {a: [x, y], b: {values: [1, 2], when: a == y}}\nfixed: {a: x}")
    assert space.size == 1
    assert space.fix({"a": "y"}).size == 2


def test_an_optional_number_can_be_fixed_to_a_value_or_to_absence():
    space = space_of("parameters: {a: {values: [0, 1], optional: true}, b: [1, 2]}")
    assert space.size == 6
    assert space.fix({"a": None}).size == 2
    assert space.fix({"a": "none"}).size == 2
    assert space.fix({"a": 0}).size == 2
    assert space.fix({"a": 0}).decode(space.fix({"a": 0}).rows(np.array([0])))[0]["a"] == 0


def test_the_empty_one_of_several_constraints_is_told_by_its_count():
    with pytest.raises(InputError) as caught:
        space_of("parameters: {a: [1, 2, 3], b: [1, 2]}\nconstraints: [a + b >= 9, a <= 2]")
    assert str(caught.value) == (
        "s.yaml: no design meets the constraints on a, b: of 6 combinations, "
        "'a + b >= 9' is met by 0; 'a <= 2' is met by 4"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parameters: {a: []}", "s.yaml:1: parameters.a.values: the list of values is empty"),
        ("parameters: {a: [1, 1]}", "parameters.a.values: 1 is listed twice"),
        ("parameters: {a: [1 GHz, 1000 MHz]}", "is listed twice"),
        ("parameters: {a: [2, 1]}", "numbers must increase"),
        ("parameters: {a: [1 GHz, 2]}", "the values differ in dimension: 'GHz', 'no unit'"),
        ("parameters: {a: [1 GHz, 2 GB]}", "the values differ in dimension: 'GHz', 'GB'"),
        ("parameters: {a: [1 gigahertz]}", "unknown unit 'gigahertz'"),
        ("parameters: {a: [none, x]}", "write 'optional: true'"),
        ("parameters: {a: {low: 3, high: 1}}", "s.yaml:1: parameters.a: low 3 is above high 1"),
        ("parameters: {a: {low: 3}}", "an integer needs both 'low' and 'high'"),
        ("parameters: {a: {low: 0, high: 5, step: 2}}", "steps of 2 from 0 do not reach 5"),
        ("parameters: {a: {low: 0, high: 5, step: 0}}", "greater than 0"),
        ("parameters: {a: {low: 0, high: 999999}}", "use a larger step"),
        ("parameters: {a: {low: 0, high: 1, values: [1]}}", "not both"),
        ("parameters: {a: {}}", "give 'values', 'low' and 'high', or 'from'"),
        ("parameters: {a: {value: [1]}}", "unknown key 'value'. Did you mean 'values'?"),
        ("parameters: {a: {values: [x], kind: ordinal}}", "an ordinal parameter needs numbers"),
        ("parameters: {a: {values: [0, 1], scale: log}}", "needs values above 0, got 0"),
        ("parameters: {a: {values: [x, y], scale: log}}", "only numbers have a logarithm"),
        ("parameters: {a: {from: memry}}", "unknown catalog 'memry'. Did you mean 'memory'?"),
        ("parameters: {a: {from: memory, values: [fst]}}", "Did you mean 'fast'?"),
        ("parameters: {a: {from: memory, values: [[1]]}}", "unknown entry of memory '[1]'"),
        ("parameters: {a: {from: memory, kind: ordinal}}", "a catalog are categorical"),
        ("parameters: {a-b: [1]}", "'a-b' cannot be a name"),
        ("parameters: {and: [1]}", "'and' cannot be a name"),
        ("parameters: {}", "the space is empty: it has no parameters"),
        ("parameters: {a: [1]}\nparametrs: {}", "unknown key 'parametrs'. Did you mean"),
        ("parameters: {a: {values: [1, 2], when: b > 1}}", "unknown name 'b'"),
        (
            "parameters:\n  a: {values: [1, 2], when: b > 1}\n  b: {values: [1, 2], when: a > 1}",
            "s.yaml:2: parameters.a: the conditions go in a circle: a -> b -> a",
        ),
        ("parameters: {a: {values: [1, 2], when: 1 < 2}}", "names no parameter"),
        ("parameters: {a: [1], b: {values: [1], when: a + 1}}", "expected a condition"),
        ("parameters: {a: [1, 2]}\nconstraints: [a]", "s.yaml:2: constraints.0: expected a cond"),
        ("parameters: {a: [1, 2]}\nconstraints: [1 < 2]", "names no parameter"),
        ("parameters: {a: [1, 2]}\nconstraints: [a < 2, a < 2]", "is listed twice"),
        ("parameters: {a: [1, 2]}\nconstraints: [a < 2 GB]", "'a' is in plain numbers but"),
        ("parameters: {a: [1 m, 2 m]}\nconstraints: [a < 2]", "write '2' with its unit"),
        ("parameters: {a: [1, 2]}\nderived: {a: a + 1}", "there are two parameters 'a'"),
        ("parameters: {a: [1, 2]}\nderived: {b: a < 1}", "expected a quantity, got a condition"),
        ("parameters: {a: [1, 2]}\nderived: {b: {value: a, unit: GB}}", "plain numbers, not in GB"),
        ("parameters: {a: [1, 2]}\nderived: {b: c + 1, c: a}", "unknown name 'c'"),
        ("parameters: {a: [1, 2]}\ndesigns: {X: {values: {a: 3}}}", "unknown value of a '3'"),
        ("parameters: {a: [1, 2]}\nfixed: {b: 3}", "s.yaml:2: fixed.b: unknown parameter 'b'"),
        ("parameters: {a: [1, 2], a: [1]}", "the key is given twice"),
        ("parameters: {a: [[1, x]]}", "expected names, numbers"),
        ("parameters: {a: [1e999]}", "got inf"),
        (
            "repeated: {t: {maximum: 2, minimum: 3, parameters: {a: [1]}}}",
            "minimum 3 is above maximum 2",
        ),
        ("repeated: {t: {maximum: 2, parameters: {}}}", "s.yaml:1: repeated.t.parameters"),
        (
            "repeated: {t: {maximum: 2, parameters: {a: {values: [1], optional: true}}}}",
            "it has neither 'optional' nor 'when'",
        ),
        (
            "parameters: {x: [1, 2]}\nrepeated: {t: {maximum: 2, order: x, parameters: {a: [1]}}}",
            "repeated.t.order.0: the order of a part may use its own parameters only",
        ),
        (
            "repeated: {t: {maximum: 2, parameters: {a: [1], b: {values: [1], when: t1_a == 1}}}}",
            "may not use another repetition (t1_a)",
        ),
        (
            "parameters: {t1_a: [1]}\nrepeated: {t: {maximum: 1, parameters: {a: [1]}}}",
            "there are two parameters 't1_a'",
        ),
        (
            "repeated: {t: {maximum: 1, parameters: {a: {low: 1, high: 999},"
            " b: {low: 1, high: 999}}}}",
            "variants of one repetition",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named_with_its_place(text, message):
    with pytest.raises(InputError) as caught:
        space_of(text)
    assert message in str(caught.value)
    assert all(line.startswith("s.yaml") for line in str(caught.value).splitlines())


def test_all_mistakes_of_a_stage_are_reported_together():
    with pytest.raises(InputError) as caught:
        space_of("parameters: {a: [], b: [1, 1]}")
    assert len(caught.value.problems) == 2
    with pytest.raises(InputError) as caught:
        space_of(
            "parameters: {a: [1, 2], b: {values: [1], when: c == 1}}\nfixed: {a: 3, e: 1}\n"
            "derived: {d: e}\nconstraints: [b > z, d > 1, a > q]"
        )
    assert len(caught.value.problems) == 6  # "d > 1" waits for d


BASE = """
description: The base
parameters:
  a: [1, 2, 3]
  b: [x, y]
derived: {double: 2 * a}
constraints: [double <= 4]
designs:
  small: {values: {a: 1, b: x}}
  large: {values: {a: 2, b: y}}
"""


@pytest.fixture
def base_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spaces" / "base.yaml"
    path.parent.mkdir()
    path.write_text(BASE)
    return path


def test_a_space_has_of_its_base_what_it_does_not_state(base_path):
    space = space_of(
        "based_on: base\n"
        "parameters: {b: null, c: [p, q, r]}\n"
        "derived: {double: 3 * a}\n"
        "designs: {large: null, small: {values: {a: 1, c: q}}}\n"
    )
    assert space.description == "The base"
    assert space.names == ("a", "c")  # 3 x 1 <= 4 only
    assert space.size == 3
    assert list(space.designs) == ["small"]


@pytest.mark.parametrize(
    ("change", "designs"),
    [
        ("parameters: {c: [p, q]}", []),  # they have no value for c
        ("parameters: {b: null}", []),
        ("parameters: {b: [y, z]}", ["large"]),
        ("constraints: [a < 2]", ["small"]),
        ("parameters: {c: [p, q]}\ndesigns: {small: {values: {c: q}}}", None),
    ],
)
def test_designs_of_a_base_that_do_not_fit_are_dropped_but_no_own_ones(base_path, change, designs):
    if designs is None:
        with pytest.raises(InputError, match=r"s\.yaml:3: designs\.small"):
            space_of(f"based_on: base\n{change}")
    else:
        assert list(space_of(f"based_on: base\n{change}").designs) == designs


def test_a_space_may_be_based_on_one_that_is_based_on_another(base_path):
    base_path.with_name("middle.yaml").write_text("based_on: base\nconstraints: [a <= 3]\n")
    assert space_of("based_on: base").size == 2 * 2
    assert space_of("based_on: middle").size == 3 * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("based_on: bose", "s.yaml:1: based_on: unknown space 'bose'. Did you mean 'base'?"),
        ("based_on: [base]", "s.yaml:1: based_on: input should be a valid string, got ['base']"),
        ("based_on: circle", "spaces/circle.yaml:1: based_on: circle is based on itself"),
        (
            "based_on: base\ndesigns:\n  lurge: null",
            "s.yaml:3: designs.lurge: unknown key of designs in spaces/base.yaml 'lurge'. "
            "Did you mean 'large'?",
        ),
        # What is wrong is looked up where it was written, in the base too.
        (
            "based_on: base\nparameters:\n  a: [1, 1]",
            "s.yaml:3: parameters.a.values: 1 is listed twice",
        ),
        (
            "based_on: base\nderived:\n  double: null",
            "spaces/base.yaml:7: constraints.0: column 1: unknown name 'double'",
        ),
    ],
)
def test_a_base_that_does_not_fit_is_refused_where_it_was_written(base_path, text, message):
    base_path.with_name("circle.yaml").write_text("based_on: circle\n")
    with pytest.raises(InputError) as caught:
        space_of(text)
    assert message in str(caught.value)
