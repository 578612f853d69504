"""The simulator of the tests as a campaign file describes it."""

import copy
from pathlib import Path

import pytest

from codesign.evaluators.command import CommandEvaluator, CommandOptions, CommandWorkload
from codesign.space import parse_space

SIMULATOR = Path(__file__).parent / "simulator.py"

BLOCK = {
    "run": ["${python}", "-S", "-E", "simulator.py", "design.json"],
    "files": [str(SIMULATOR)],
    "write": {"design.json": "json"},
    "metrics": {
        "latency_s": {
            "sense": "minimize", "unit": "s",
            "from": {"json": "result.json", "key": "time.latency"},
        },
        "energy_joules": {
            "sense": "minimize", "unit": "J",
            "from": {"json": "result.json", "key": "energy.1.total", "unit": "mJ"},
        },
        "cycles": {
            "sense": "minimize", "unit": "",
            "from": {"csv": "report.csv", "column": "Total Cycles"},
        },
        "power_watts": {
            "sense": "minimize", "unit": "W", "from": {"regex": r"power: (\S+ \S+)"},
        },
    },
    "limits": {"too large": {"json": "result.json", "key": "energy.0"}},
    "infeasible_exit_codes": [4],
}  # fmt: skip


@pytest.fixture
def block():
    return copy.deepcopy(BLOCK)


@pytest.fixture
def build(block):
    """The evaluator for the space of x and y, with some keys changed."""

    def build(**changes):
        options = CommandOptions.model_validate({**block, **changes})
        evaluator = CommandEvaluator(CommandWorkload.model_validate({"scale": 3.0}), options)
        return evaluator.use_parameters(("x", "y"))

    return build


@pytest.fixture
def space():
    return parse_space("parameters: {x: {low: 0, high: 29}, y: {low: 0, high: 9}}", {}, "xy")
