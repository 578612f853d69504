"""The study of MemExplorer's tables."""

from __future__ import annotations

import pytest

from codesign.evaluators.npu import NpuEvaluator
from codesign.memtech import load_library
from codesign.space import load_space
from codesign.validation.published import generated_tokens_per_s, load_cells, run
from codesign.validation.study import Study
from codesign.workload import Request

WORKLOAD = {"model": "llama-3.3-70b", "trace": "osworld"}


@pytest.fixture(scope="module")
def study() -> Study:
    return run()


def test_every_cell_is_a_row_with_both_profiles_and_their_errors(study: Study) -> None:
    assert len(study.rows) == sum(len(cells) for cells in load_cells().values())
    for row in study.rows:
        assert row["error"] == pytest.approx(row["ours"] / row["reference"] - 1)
        assert row["plain_error"] == pytest.approx(row["plain"] / row["reference"] - 1)


def test_batch_and_power_come_out_as_promised(study: Study) -> None:
    assert [target["is_met"] for target in study.targets] == [True, True]


def test_calibration_brings_the_ratios_closer_than_plain_physics(study: Study) -> None:
    by_group = {line["group"]: line["median_absolute_error"] for line in study.summary}
    assert by_group["all 14 ratios, calibrated"] < by_group["all 14 ratios, plain"]


def test_the_notes_carry_the_arithmetic_of_what_cannot_come_out(study: Study) -> None:
    text = " ".join(study.notes)
    # A block: 4096 tokens x 856 M weights and 2 x 8192 x 4096^2 of attention, 262,144 a cycle.
    assert "14.4 ms" in text
    # 70.55 GB of weights and 98,000 or 119,000 tokens of 163,840 bytes.
    assert "86.6 GB (osworld), 90.1 GB (bfcl)" in text
    # 1.44 x 257.4 / 239.27 and 1.44 x 300.1 / 249.90.
    assert "1.55 (D1 by average), 1.73 (D1 by TDP)" in text


def test_tokens_of_both_phases_take_the_time_of_both() -> None:
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    base = space.columns(space.encode(space.designs["Base"]))
    rate = {
        phase: NpuEvaluator(Request(phase=phase, **WORKLOAD)).evaluate(base).metrics
        for phase in ("prefill", "decode")
    }
    seconds = 90_000 / rate["prefill"]["throughput_tokens_per_s"][0]
    seconds += 8_000 / rate["decode"]["throughput_tokens_per_s"][0]
    whole = generated_tokens_per_s(WORKLOAD, "plain", "Base", {})
    assert whole == pytest.approx(8_000 / seconds, rel=1e-12)
