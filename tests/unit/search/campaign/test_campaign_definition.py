"""A definition says what it means, and where, when it makes no sense."""

import re

import pytest

from codesign.base.errors import InputError
from codesign.search.campaign import Campaign, Run, load_definition


def test_a_definition_resolves_to_problem_optimizers_and_runs(write):
    resolved = load_definition(write(workload={"scale": 2.0}))
    assert resolved.definition.runs == (
        Run("toy-climb", 0), Run("toy-climb", 1), Run("toy-random", 0), Run("toy-random", 1),
    )  # fmt: skip
    assert [str(objective) for objective in resolved.problem.objectives] == [
        "maximize gain_tokens", "minimize power_watts",
    ]  # fmt: skip
    assert resolved.problem.evaluator.workload.scale == 2.0
    assert resolved.problem.space.size == 900
    assert resolved.optimizers[0].options.population == 7


def test_a_name_is_looked_up_in_the_runs_of_the_working_folder(write, folder):
    write()
    assert load_definition("toys").path == folder / "runs" / "toys.yaml"
    assert Campaign.load("toys").folder == folder / "runs" / "toys"
    assert Campaign.load("toys", "elsewhere").folder.as_posix() == "elsewhere/toys"


def test_what_is_not_said_has_the_papers_values(write):
    said = load_definition(write(initial=None, seeds=None, reference_sample=None)).definition
    assert (said.initial, said.seeds, said.reference_sample, said.batch) == (20, (0,), None, None)


def test_a_campaign_without_a_name_has_that_of_its_file(write):
    assert load_definition(write(name=None)).definition.name == "nameless"


def test_seeds_are_a_number_or_a_list(write):
    assert load_definition(write(seeds=3)).definition.seeds == (0, 1, 2)
    assert load_definition(write(seeds=[7, 5])).definition.seeds == (7, 5)


def test_one_optimizer_may_be_used_twice_under_labels(write):
    resolved = load_definition(
        write(
            optimizers=[
                "toy-random",
                {"name": "toy-random", "label": "toy-random-wide", "population": 30},
            ]
        )
    )
    assert [item.label for item in resolved.optimizers] == ["toy-random", "toy-random-wide"]
    assert [item.options.population for item in resolved.optimizers] == [7, 30]
    assert resolved.optimizer_of(Run("toy-random-wide", 1)) is resolved.optimizers[1]


def test_the_identity_is_what_results_depend_on(write):
    plain = load_definition(write()).identity()
    assert load_definition(write(description="x", workers=3, name="other")).identity() == plain
    for change in (
        {"budget": 41}, {"initial": 11}, {"seeds": 3}, {"batch": 2}, {"reference_sample": 65},
        {"constraints": []}, {"objectives": ["minimize power_watts"]}, {"fixed": {"x": 3}},
        {"workload": {"scale": 2.0}}, {"evaluator": {"name": "toy", "delay_s": 0.1}},
        {"optimizers": ["toy-random"]}, {"reference_point": {"gain_tokens": 1, "power_watts": 2}},
        {"optimizers": ["toy-climb", {"name": "toy-random", "population": 8}]},
        {"metrics": {"twice": TWICE}},
    ):  # fmt: skip
        assert load_definition(write(**change)).identity() != plain, change


TWICE = {"value": "2 * gain_tokens", "sense": "maximize", "unit": "token"}


def test_a_derived_metric_is_stored_with_the_definition_and_its_description_may_change(write):
    resolved = load_definition(write(metrics={"twice": TWICE}))
    described = load_definition(write(metrics={"twice": {**TWICE, "description": "twice as much"}}))
    assert described.identity() == resolved.identity()
    assert described.problem.metrics[-1].meaning == "twice as much"
    assert resolved.definition.model_dump()["metrics"] == {"twice": {**TWICE, "description": ""}}
    plain = load_definition(write())
    assert "metrics" not in plain.definition.model_dump()
    assert "metrics" not in plain.identity()["problem"]


BAD = [
    ({"budget": None}, "budget: the key is required"),
    ({"budget": "many"}, "budget: .*got 'many'"),
    ({"name": "../escape"}, "name: expected letters, digits, .* got '../escape'"),
    ({"seeds": 0}, "seeds: expected a number of seeds from 1 to 10000, or a list of them, got 0"),
    ({"seeds": []}, r"seeds: expected a list of at least 1, got \[\]$"),
    ({"seeds": "three"}, "seeds: expected a number of seeds or a list of them, got 'three'"),
    ({"seeds": [-1]}, "seeds.0: [^\n]*, got -1$"),
    ({"space": "no/such.yaml"}, r"space: no such file: no/such\.yaml"),
    ({"evaluator": 3}, "evaluator: expected a name or a mapping with 'name', got 3"),
    ({"evaluator": {"delay_s": 1}}, "evaluator.name: the key is required"),
    ({"evaluator": {"name": "toy", "delay": 1}}, "evaluator.delay: .*Did you mean 'delay_s'"),
    ({"evaluator": {"name": "toy", "label": "a"}}, "evaluator.label: only optimizers have a label"),
    (
        {"optimizers": [{"name": "toy-climb", "populaton": 3}]},
        "optimizers.0.populaton: .*Did you mean 'population'",
    ),
    ({"optimizers": [{"name": "toy-climb", "label": "a/b"}]}, "optimizers.0.label: .*'a/b'"),
    (
        {"optimizers": ["toy-bare"]},
        "optimizers.0: the class of optimizer 'toy-bare' has no Options",
    ),
    (
        {"metrics": {"own": {**TWICE, "sense": "maximise"}}},
        "metrics.own.sense: unknown choice 'maximise'. Did you mean 'maximize'",
    ),
    ({"metrics": {"own": {**TWICE, "unit": "W"}}}, "metrics.own.unit: .* is in token, got the un"),
    ({"metrics": {"spare": TWICE}}, "metrics.spare: the evaluator has a metric 'spare'"),
    ({"metrics": {"area": TWICE}}, "metrics.area: the space has a quantity 'area'"),
    ({"hints": "of"}, "hints: unknown choice 'of'. Did you mean 'off'"),
    (
        {"optimizers": [{"name": "toy-climb", "hints": False}]},
        "optimizers.0.hints: unknown choice 'False'. Known: off, on",
    ),
    (
        {"optimizers": [{"name": "toy-climb", "start": "hint"}]},
        "optimizers.0.start: unknown choice 'hint'. Did you mean 'hints'",
    ),
    (
        {"optimizers": [{"name": "toy-climb", "hint": "off"}]},
        "optimizers.0.hint: unknown key 'hint'. Did you mean 'hints'",
    ),
    (
        {"optimizers": ["toy-random", {"name": "toy-climb", "start": "hints"}], "hints": "off"},
        "optimizers.1.start: expected 'spread' without hints, got 'hints'",
    ),
    ({"evaluator": {"name": "toy", "hints": "off"}}, "evaluator.hints: unknown key 'hints'"),
    (
        {"reference_point": {"gain_tokens": 1, "power_watts": "3 GB"}},
        "reference_point.power_watts: expected a quantity in W, got '3 GB'",
    ),
    ({"reference_point": {"gain_tokens": 1, "power_watts": [1]}}, "reference_point.power_watts: "),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_what_makes_no_sense_is_refused_with_file_line_and_key(write, changes, message):
    path = write(**changes)
    with pytest.raises(InputError, match=message) as caught:
        load_definition(path)
    for line in caught.value.problems:
        assert re.match(r"runs/\w+\.yaml:\d+", line), line


TOGETHER = [
    (
        {
            "initial": "many", "optimizers": ["toy-randm"], "space": "no-such", "budget": 0,
            "workload": {"no": 1}, "objectives": ["minimise cost"],
        },
        ["initial: input", "budget: input", "'toy-randm'", "'no-such'", "unknown key 'no'",
         "unknown sense 'minimise'"],
    ),
    (  # contradictions, and names that need the space and the evaluator
        {
            "name": "other", "budget": 9, "bugdet": 3, "seeds": [1, 1], "fixed": {"kinds": "plain"},
            "optimizers": ["toy-random"] * 2, "objectives": ["maximize gain", "minimize cost"],
            "constraints": ["pwr <= 3", "cost <= 3"], "reference_point": {"gain": 1, "no": 1},
            "metrics": {"cost": {**TWICE, "value": "2 * gain_token"}},
            "screening": {"name": "toy", "cost": "1 s", "target_cost": "9 s", "options": {"no": 1}},
        },
        ["expected the name of the file", "bugdet: unknown key 'bugdet'. Did you mean 'budget'",
         "at least the 10 initial", "distinct",
         "optimizers.1: 'toy-random' is used twice; tell them", "'kinds'",
         "cost.value: column 5: unknown name 'gain_token'",
         "unknown metric 'gain'", "unknown name 'pwr'", "unknown objective 'no'",
         "reference_point.cost: the key is required", "screening.options.no: unknown"],
    ),
    (  # the metrics' own names need no space; constraints, and all of a system, wait for it
        {"space": "no-such", "objectives": ["maximize gain"], "constraints": ["pwr <= 3"]},
        ["'no-such'", "unknown metric 'gain'. Did you mean 'gain_tokens'"],
    ),
    (  # names of metrics wait for the evaluator, and limits for objectives that can be read
        {"evaluator": "toi", "objectives": ["maximize gain"], "constraints": ["pwr <= 3"]},
        ["unknown evaluator 'toi'. Did you mean 'toy'"],
    ),
    (
        {"objectives": 3, "metrics": {"cost": 3}, "constraints": ["cost <= 3", "pwr <= 3"]},
        ["metrics.cost: ", "objectives: "],
    ),
    ({"workload": 3, "evaluator": {"name": "toy", "no": 3}}, ["workload: "]),
    (  # names wait for no evaluator of this package, pools only for what it needs
        {
            "evaluator": {"name": "system", "pools": {"no": {}}}, "space": "system-pd",
            "workload": {"model": "llama-3-8b", "trace": "gsm8k", "no": 1},
            "objectives": ["minimize tdp_wats"], "fixed": {"no": 1}, "constraints": ["no_w <= 1"],
        },
        ["unknown key 'no'", "unknown pool 'no'", "unknown metric 'tdp_wats'. Did you mean 'tdp_w",
         "fixed: unknown parameter 'no'", "unknown name 'no_w'"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "messages"), TOGETHER)
def test_all_that_can_be_known_of_a_file_is_told_together(write, changes, messages):
    path = write(**changes)
    if "name" in changes:
        path = path.rename(path.with_name("toys.yaml"))
    with pytest.raises(InputError) as caught:
        load_definition(path)
    for line in caught.value.problems:
        assert re.match(r"runs/\w+\.yaml:\d+", line), line
    told = "\n".join(caught.value.problems)
    assert [words for words in messages if words not in told] == [], told
    assert len(caught.value.problems) == len(messages), told


def test_the_line_is_that_of_the_key(write):
    path = write()
    lines = path.read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line == "- toy-random")
    path.write_text("\n".join(lines).replace("- toy-random", "- toy-rand"))
    with pytest.raises(InputError, match=rf"toys\.yaml:{number}: optimizers\.1: unknown"):
        load_definition(path)


def test_a_repeated_key_is_refused(write):
    path = write()
    path.write_text(path.read_text() + "budget: 41\n")
    with pytest.raises(InputError, match="budget: the key is given twice"):
        load_definition(path)


def test_an_unknown_campaign_is_offered_the_nearest(write):
    write()
    with pytest.raises(InputError, match=r"unknown campaign 'toyz'\. Did you mean 'toys'"):
        load_definition("toyz")
