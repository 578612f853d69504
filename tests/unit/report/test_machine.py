"""The machine that an evaluated design describes."""

import dataclasses

import codesign
from codesign.report.machine import machine_of
from codesign.report.machine_charts import way_panels
from codesign.report.system_picture import SystemPicture, TimelineBar


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


def test_the_way_to_the_second_token_ends_with_the_first_step():
    bar = TimelineBar("decode", "decode", 1.0, 1.0, 9.0, 2.0, 0.5, "8 s")
    first, whole, _ = way_panels(SystemPicture((), (), (bar,), 2.0, "decode"))
    assert [(x.marks[0].length, x.marks[0].labels) for x in (first, whole)] == [
        ([1.0], [""]),
        ([8.0], ["8 s"]),
    ]
