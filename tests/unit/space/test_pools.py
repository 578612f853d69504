"""Spaces with pools: what a file may say, the names that it becomes, the place of every mistake."""

import json

import pytest

from codesign.base.errors import InputError
from codesign.models.memtech import load_library
from codesign.space import parse_space

MACHINE = """\
    parameters:
      width: [1, 2, 4]
      memory: {from: memtech, values: [hbf, gddr7]}
      stacks: {low: 1, high: 3}
      cache: {values: [1, 2], optional: true, when: "width >= 2"}
    derived:
      lanes: {value: width * stacks, description: All of them}
    constraints:
      - lanes <= 8
    designs:
      small: {source: ours, values: {width: 1, memory: hbf, stacks: 1}}
      tall: {based_on: small, source: ours, values: {stacks: 3}}
"""
LINK = "{from: prefill, to: decode, bandwidth: 450 GB/s, latency: 1 us, energy: 1.3 pJ/bit}"
SYSTEM = f"""\
pools:
  prefill:
    machines: [1, 2]
{MACHINE}
  decode:
    machines: {{low: 1, high: 3}}
{MACHINE}
links:
  handover: {LINK}
designs:
  both:
    source: ours
    values: {{prefill: tall, decode: small, prefill_machines: 2, decode_machines: 1}}
"""


def read(text):
    return parse_space(text, {"memtech": load_library().catalog()}, "a.yaml")


def problem(text):
    with pytest.raises(InputError) as caught:
        read(text)
    return str(caught.value)


def test_a_pool_brings_its_parameters_under_its_name():
    space = read(SYSTEM)
    pool = space.pools["decode"]
    assert pool.role == "decode"
    assert set(pool.parameter_names) == {"width", "memory", "stacks", "cache"}
    assert {pool.full_name(name) for name in pool.parameter_names} < set(space.names)
    assert {"prefill_machines", "handover_latency_s"} < set(space.names)
    assert pool.space.size == space.fix({"prefill_machines": 1}).pools["prefill"].space.size


def test_a_system_has_as_many_designs_as_all_combinations():
    space = read(SYSTEM)
    machines = [pool.space.size for pool in space.pools.values()]
    assert space.size == machines[0] * machines[1] * 2 * 3


def test_expressions_of_a_pool_name_what_is_its_own():
    space = read(SYSTEM)
    texts = [rule.text for rule in space.constraints]
    assert texts == ["prefill_lanes <= 8", "decode_lanes <= 8"]
    (cache,) = [x for x in space.parameters if x.name == "decode_cache"]
    assert cache.when == "decode_width >= 2"


def test_the_words_of_conditions_that_are_no_names_stay_as_they_are():
    space = read(SYSTEM.replace('"width >= 2"', '"memory in [hbf] and width >= 2"'))
    (cache,) = [x for x in space.parameters if x.name == "decode_cache"]
    assert cache.when == "decode_memory in [hbf] and decode_width >= 2"


def test_a_design_of_the_system_may_name_those_of_its_pools():
    design = read(SYSTEM).designs["both"]
    assert (design["prefill_width"], design["prefill_stacks"]) == (1, 3)
    assert (design["decode_stacks"], design["prefill_machines"]) == (1, 2)


def test_a_mapping_may_name_the_designs_of_pools_and_overrides_them():
    space = read(SYSTEM)
    named = {"prefill": "tall", "decode": "small", "prefill_machines": 2, "decode_machines": 1}
    assert space.decode(space.encode(named))[0] == space.designs["both"]
    changed = space.decode(space.encode({**named, "prefill_stacks": 2}))[0]
    assert changed == {**space.designs["both"], "prefill_stacks": 2}
    with pytest.raises(InputError, match=r"unknown design of pool prefill 'smal'\. Did you mean"):
        space.encode({**named, "prefill": "smal"})


def test_what_is_fixed_in_the_system_is_fixed_in_its_pools():
    space = read(SYSTEM).fix({"decode_width": 4, "decode_machines": 2})
    assert {x.name: x.values for x in space.pools["decode"].space.parameters}["width"] == (4,)
    assert {x.name: x.values for x in space.pools["prefill"].space.parameters}["width"] == (1, 2, 4)


def test_a_pool_may_change_the_space_that_it_takes():
    text = "pools: {decode: {space: memexplorer, fixed: {vector_length: 128}, machines: 3}}"
    space = read(text)
    parameters = {x.name: x.values for x in space.parameters}
    assert parameters["decode_vector_length"] == (128,)
    assert parameters["decode_machines"] == (3,)
    assert space.pools["decode"].space.size == space.size


def test_what_a_pool_takes_out_of_the_space_that_it_takes_stays_out():
    more = {"parameters": {"batch_size": [1, 2]}, "designs": {"H100": None}}
    space = read(json.dumps({"pools": {"decode": {"space": "h100", **more}}}))
    assert not space.pools["decode"].space.designs


MISTAKES = {
    "pools: 5": "a.yaml:1: pools: expected names with keys, got 5",
    "pools: {}": "a.yaml:1: pools: expected pools with keys, got none",
    "pools: {prefill: 5}": "a.yaml:1: pools.prefill: expected keys with values, got 5",
    "pools: {first: {space: h100}}": "a.yaml:1: pools.first: unknown role 'first'",
    "pools: {prefill: {}}": "a.yaml:1: pools.prefill: the space is empty",
    "pools: {prefill: {space: h10}}": "a.yaml:1: pools.prefill.space: unknown space 'h10'",
    "pools: {prefill: {space: 5}}": "a.yaml:1: pools.prefill.space: input should be a valid string",
    "pools: {prefill: {space: system-pd}}": "pools.prefill.space: expected a space of machines",
    "pools: {prefill: {space: h100, device: h100-sxm}}": "expected either space or device",
    "pools: {prefill: {space: h100, machine: 1}}": "pools.prefill.machine: unknown key 'machine'",
    "pools: {prefill: {device: []}}": "pools.prefill.device: the list of values is empty",
    "pools: {prefill: {parameters: [1]}}": "pools.prefill.parameters: expected keys",
    "pools: {prefill: {space: h100, constraints: 5}}": "pools.prefill.constraints: input should be",
    "pools: {prefill: {space: h100, repeated: 5}}": "pools.prefill.repeated: expected keys",
    "pools: {prefill: {space: h100, designs: 5}}": "pools.prefill.designs: expected keys",
    "pools: {prefill: {space: h100, fixed: {a: 1}}}": "pools.prefill.fixed.a: unknown parameter",
    "pools: {a-b: {role: late, space: h100}}": "pools.a-b: 'a-b' cannot be a name",
    "pools: {prefill: {space: h100}, more: {role: prefill, space: h100}}": "pools.more: the role "
    "'prefill' is that of pool 'prefill' already",
    "pools: {prefill: {space: h100}, prefill_b: {role: decode, space: h100}}": "pools.prefill_b: "
    "'prefill_b' begins with the name of pool 'prefill'",
    "{parameters: {prefill_x: [1]}, pools: {prefill: {space: h100}}}": "parameters.prefill_x: "
    "'prefill_x' begins with the name of pool 'prefill'",
    "{designs: {a: {source: x, values: {prefill: [H100]}}}, pools: {prefill: {space: h100}}}": (
        "a.yaml:1: designs.a.values.prefill: unknown design of pool prefill"
    ),
    "{designs: 5, pools: {prefill: {space: h100}}}": "designs: expected keys with values",
    "{links: 5, pools: {prefill: {space: h100}}}": "links: expected names with keys, got 5",
    "{links: {a: 5}, pools: {prefill: {space: h100}}}": "links.a: expected keys with values, got 5",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_with_its_place(text):
    assert MISTAKES[text] in problem(text)


@pytest.mark.parametrize(
    "machines", ["0", "[0]", "-1", "two", "[]", "true", "1.5", "{low: 1}", "{low: 0, high: 2}"]
)
def test_numbers_of_machines_are_whole_and_at_least_one(machines):
    text = f"pools: {{prefill: {{space: h100, machines: {machines}}}}}"
    assert problem(text).startswith("a.yaml:1: pools.prefill.machines: expected numbers of machine")


@pytest.mark.parametrize("machines", ["[3, 1]", "[1, 1]", "{low: 3, high: 1}"])
def test_numbers_of_machines_increase(machines):
    text = f"pools: {{prefill: {{space: h100, machines: {machines}}}}}"
    assert problem(text).startswith("a.yaml:1: pools.prefill.machines: ")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("450 GB/s", "450 GB"), "links.handover.bandwidth: expected a quantity in GB/s"),
        (("450 GB/s", "0 GB/s"), "links.handover.bandwidth: expected more than 0, got '0 GB/s'"),
        (("450 GB/s", "fast"), "links.handover.bandwidth: expected a number with a unit"),
        (("450 GB/s", "[[1, 2]]"), "links.handover.bandwidth: expected a quantity in GB/s"),
        (("1 us", "-1 us"), "links.handover.latency: expected 0 or more, got '-1 us'"),
        (("latency: 1 us, ", ""), "links.handover.latency: the key is required"),
        (("energy", "energi"), "links.handover.energi: unknown key 'energi'"),
        (("to: decode", "to: decod"), "links.handover.to: unknown pool 'decod'"),
        (("handover:", "prefill:"), "links.prefill: 'prefill' begins with the name of pool"),
        (("handover:", "prefill_out:"), "links.prefill_out: 'prefill_out' begins with the name"),
    ],
)
def test_a_mistake_in_a_link_is_told_with_its_place(change, expected):
    text = SYSTEM.replace(f"handover: {LINK}", f"handover: {LINK}".replace(*change))
    line = 1 + text[: text.index("links:")].count("\n") + 1
    assert f"a.yaml:{line}: {expected}" in problem(text)


def test_a_mistake_in_an_inherited_key_is_told_where_it_stands():
    text = json.dumps({"pools": {"decode": {"space": "memexplorer", "derived": {"shoreline": 5}}}})
    assert "a.yaml:1: pools.decode.derived.shoreline" in problem(text)
    lost = {"decode": {"space": "memexplorer", "parameters": {"pe_array": None}}}
    assert "memexplorer.yaml:" in problem(json.dumps({"pools": lost}))
