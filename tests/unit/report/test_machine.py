"""The machine that an evaluated design describes."""

import dataclasses

import codesign
from codesign.report.machine import machine_of


def test_a_simulated_design_is_the_same_machine_as_a_computed_one():
    def machine(evaluator):
        evaluated = codesign.evaluate(
            space="memexplorer",
            design="P1",
            model="qwen3-32b",
            workload="gsm8k",
            phase="decode",
            evaluator=evaluator,
        )
        return dataclasses.asdict(machine_of(evaluated))

    assert machine("simulation") == machine("npu")
