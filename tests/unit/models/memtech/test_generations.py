"""The memory library by generation: status, year, payload and efficiency by access pattern."""

import numpy as np
import pytest

from codesign.base.columns import Column
from codesign.cli.app import main
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.evaluators.simulation.simulation_evaluator import (
    SimulationEvaluator,
    SimulationOptions,
)
from codesign.models.memtech import load_library
from codesign.models.memtech.technology import EFFICIENCIES, Range
from codesign.models.workload import Request
from codesign.space import load_space

LIBRARY = load_library()
PAPER = {name for name, item in LIBRARY.items() if item.edition}
GENERATIONS = {
    "hbm3e_12h", "hbm4_12h_jedec", "hbm4_12h_shipped", "hbm4_16h", "hbm4e_12h", "hbf_gen1",
    "socamm2_lpddr5x", "lpddr6_10667", "lpddr6_14400", "gddr7_28", "gddr7_32", "bonded_dram",
    "ddr5_rdimm", "ddr5_mrdimm", "cxl_ddr5",
}  # fmt: skip


def test_the_paper_keeps_an_edition_of_its_own():
    assert len(PAPER) == 9
    assert all(getattr(LIBRARY[name], number) is None for name in PAPER for number in EFFICIENCIES)
    assert all(LIBRARY[name].status is None for name in PAPER)


def test_every_technology_of_a_generation_says_how_far_it_is_and_what_it_sustains():
    for name in GENERATIONS:
        item = LIBRARY[name]
        assert item.status and item.available and item.date, name
        assert all(getattr(item, number) is not None for number in EFFICIENCIES), name


def test_technologies_are_filtered_by_status_and_year(capsys):
    found = set(LIBRARY.filtered(["ships"], 2026))
    assert {"hbm3e_12h", "hbm4_12h_shipped"} <= found
    assert not found & {"hbm4_16h", "hbf_gen1", "lpddr6_14400", *PAPER}
    assert main(["list", "memories", "--year", "2027"]) == 0
    listed = capsys.readouterr().out
    assert "hbf_gen1" in listed and "lpddr6_14400" not in listed and "hbm3e_8h  " not in listed
    assert main(["list", "memories", "--status", "sold"]) == 2


def test_payload_is_what_the_wires_leave():
    assert LIBRARY["lpddr6_14400"].bandwidth.typical == 4 * 38.4e9
    assert LIBRARY["lpddr6_10667"].bandwidth.typical == pytest.approx(4 * 28.45e9, rel=1e-3)


def test_flash_at_rest_draws_less_than_its_kin():
    """The power envelope of HBM4 is announced for it."""
    stack = LIBRARY["hbf_gen1"]
    idle = stack.background_power.typical * stack.capacity.typical
    assert idle < 10.0
    hbm = LIBRARY["hbm4_12h_shipped"]
    peak = [x.read_energy.typical * x.bandwidth.typical for x in (stack, hbm)]
    assert peak[0] < 1.5 * peak[1]


def design(**changes):
    space = load_space("memexplorer", {"memtech": LIBRARY.catalog()})
    columns = dict(space.columns(space.encode(space.designs["D2"])))
    for name, value in changes.items():
        columns[name] = Column((value,), np.zeros(1, dtype=np.int64))
    return columns


@pytest.mark.parametrize("topology", ["staged", "parallel"])
@pytest.mark.parametrize(
    ("pattern", "model"),
    [("paged", "llama-3-8b"), ("gathered", "mixtral-8x7b"), ("written", "llama-3-8b")],
)
def test_a_slower_pattern_takes_longer_and_its_bound_is_kept(pattern, model, topology):
    half = Range(low=0.5, typical=0.5, high=0.5)
    patterns = {name: Range(low=1, typical=1, high=1) for name in EFFICIENCIES}
    slow = {**patterns, f"{pattern}_efficiency": half}
    request = Request(model=model, trace="gsm8k", phase="decode", batch=32)
    seconds, simulated = [], []
    for stated in (patterns, slow):
        library = {name: item.model_copy(update=stated) for name, item in LIBRARY.items()}
        options = {"topology": topology, "score_path": "local", "bandwidth_sharing": "shared"}
        one = NpuEvaluator(request, NpuOptions(**options), library=library)
        columns = design(pe_array=(8192, 512))
        value = one.evaluate(columns, ["phase_time_s"]).metrics["phase_time_s"][0]
        assert one.best_case(columns, {}, ["phase_time_s"])["phase_time_s"][0] <= value
        seconds.append(value)
        twin = SimulationEvaluator(request, SimulationOptions(**options), library=library)
        simulated.append(twin.evaluate(columns, ["phase_time_s"]).metrics["phase_time_s"][0])
    # Few bytes are written: beside other tiers they may take no time of their own.
    assert seconds[0] <= seconds[1] < 2 * seconds[0]
    assert pattern == "written" or seconds[0] < seconds[1]
    assert simulated[1] / simulated[0] == pytest.approx(seconds[1] / seconds[0], rel=0.1)


def test_a_pattern_faster_than_a_stream_is_refused():
    faster = {"paged_efficiency": Range(low=1, typical=1, high=1)}
    item = LIBRARY["hbm3e_12h"].model_copy(update=faster)
    with pytest.raises(ValueError, match="0 < paged_efficiency <= streamed_efficiency <= 1"):
        item._check_efficiencies()
