"""Cycles of the systolic array against SCALE-Sim's kept answers."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError
from codesign.models.hardware.array import systolic_cycles
from codesign.report.simulators import environments
from validation.studies import scalesim_study


def test_our_cycles_are_those_that_scale_sim_counts():
    study = scalesim_study.run()
    assert all(target["is_met"] for target in study.targets)
    assert max(abs(row["error"]) for row in study.rows) <= scalesim_study.TOLERANCE
    assert {row["dataflow"] for row in study.rows} == {"ws", "is", "os"}


def test_a_formula_that_is_off_by_a_fill_would_show(monkeypatch):
    def wrong(m, k, n, rows, columns, flow, drain):  # type: ignore[no-untyped-def]  # a fault
        return systolic_cycles(m, k, n, rows, columns, flow, drain) + columns

    monkeypatch.setattr(scalesim_study, "systolic_cycles", wrong)
    assert not scalesim_study.run().targets[0]["is_met"]


def test_the_kept_answers_are_those_of_seed_zero():
    kept = scalesim_study.read_results(scalesim_study.KEPT)
    expected = scalesim_study.cases(0, scalesim_study.N_PRODUCTS)
    np.testing.assert_array_equal(kept.cases, np.array(expected, dtype=float))
    assert kept.version.startswith("3.")


def test_another_seed_gives_other_products_of_all_sizes():
    first, second = (
        {case[:3] for case in scalesim_study.cases(seed, 60)} - set(scalesim_study._EDGES)
        for seed in (0, 1)
    )
    assert not first & second
    assert len(first) == 60 - len(scalesim_study._EDGES)


def test_the_drain_is_the_only_difference_and_only_under_output_stationary():
    size = np.array([40.0])
    for flow, less in (("ws", 0), ("is", 0), ("os", 16)):
        shifted = systolic_cycles(size, size, size, 8.0, 32.0, flow, "shifted")
        direct = systolic_cycles(size, size, size, 8.0, 32.0, flow)
        folds = 5 * 2
        assert float((shifted - direct)[0]) == (8 * folds if less else 0)


def test_a_failing_simulation_says_what_went_wrong(tmp_path, monkeypatch):
    # This interpreter has no SCALE-Sim.
    monkeypatch.setattr(environments, "interpreter_of", lambda name: Path(sys.executable))
    with pytest.raises(JobError, match=r"^SCALE-Sim failed: .*scalesim"):
        scalesim_study.simulate([(1, 1, 1, 8, 8)])
    monkeypatch.setattr(environments, "interpreter_of", lambda name: tmp_path / "nowhere")
    with pytest.raises(JobError, match=r"^SCALE-Sim cannot be run: .*nowhere"):
        scalesim_study.simulate([(1, 1, 1, 8, 8)])
    with pytest.raises(InputError, match="positive"):
        scalesim_study.run(size=0)


def test_the_cycles_of_the_program_are_asked_for_array_by_array(
    monkeypatch,
):
    stalls = [0]

    def run_with(name, program, configuration, *products, folder):
        text = (folder / configuration).read_text("utf-8")
        (rows,) = re.findall(r"ArrayHeight *[:=] *(\d+)", text)
        return {
            "version": "3.0.0",
            "cycles": [int(rows) * 1000 + int(product.split(",")[1]) for product in products],
            "stalls": stalls,
        }

    monkeypatch.setattr(scalesim_study, "run_with", run_with)
    simulated = scalesim_study.simulate([(1, 2, 3, 8, 8), (4, 5, 6, 16, 8), (7, 8, 9, 8, 8)])
    # The program takes m, n, k and counts from 1.
    assert simulated.reported[:, 0].tolist() == [8002.0, 16005.0, 8008.0]
    assert simulated.cases[1].tolist() == [4, 5, 6, 16, 8] and simulated.version == "3.0.0"
    stalls[0] = 1
    with pytest.raises(JobError, match="stalled on a 8 x 8 array under ws"):
        scalesim_study.simulate([(1, 2, 3, 8, 8)])


def test_a_file_that_is_no_result_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("m,k\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.csv: expected results of SCALE-Sim"):
        scalesim_study.read_results(tmp_path / "x.csv")
