"""Uncertainty from the command line: intervals, tornado, robust fronts, bad input."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import yaml

from codesign import api
from codesign.base import resources
from codesign.cli import main
from codesign.insight.uncertainty import uncertainty
from codesign.insight.uncertainty.uncertainty import SAMPLES, design_uncertainty, robust_front
from tests.e2e.test_cli_enumerate import _json

EVALUATE = [
    "evaluate", "--space", "memexplorer", "--design", "Base", "--model", "llama-3.3-70b",
    "--workload", "osworld", "--phase", "prefill", "--uncertainty", "--samples", "25",
]  # fmt: skip

_CAMPAIGN = """\
name: trial
space: memexplorer
evaluator: {name: npu, profile: memexplorer}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 700]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8}
optimizers: [random]
initial: 4
budget: 30
seeds: 1
reference_sample: 32
workers: 1
"""

_TOY_SPACE = """\
parameters:
  x: {low: 0, high: 29}
  y: {low: 0, high: 29}
"""

_TOY_CAMPAIGN = {
    "space": "square",
    "evaluator": "toy",
    "objectives": ["maximize gain_tokens", "minimize power_watts"],
    "optimizers": ["toy-random"],
    "initial": 4,
    "budget": 8,
    "reference_sample": 16,
    "workers": 1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder in which the campaign ``trial`` was run."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    (folder / "runs" / "trial.yaml").write_text(_CAMPAIGN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        api.load_campaign("trial").run()
    return folder


def _refused(capsys, *arguments):
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    return err


_DRAWN = []
"""Intervals of the design of ``EVALUATE``, which every width prints."""


def _draw_once(result, **draws):
    if not _DRAWN:
        _DRAWN.append(design_uncertainty(result, **draws))
    return _DRAWN[0]


@pytest.fixture(scope="module")
def evaluated(folder):
    """The document of the design with its draws."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.chdir(folder)
        patch.setattr(uncertainty, "design_uncertainty", _draw_once)
        assert main([*EVALUATE, "--json"]) == 0
    return json.loads(out.getvalue())


@pytest.mark.parametrize("width", [80, 160])
def test_evaluate_prints_intervals_and_a_tornado_that_fit(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(uncertainty, "design_uncertainty", _draw_once)
    assert main(EVALUATE) == 0
    out, err = capsys.readouterr()
    assert err == ""
    if width == 160:
        _headings_have_the_units_of_intervals(out)
    assert max(len(line) for line in out.splitlines()) <= width
    shown = out[out.index("Uncertainty") :]
    assert "…" not in shown
    for text in ("5-95 % of the draws", "lowest", "no range stated", "Tornado", "25 draws, seed 0"):
        assert text in shown
    # 2048 x 128 MACs between 0.3 and 1.3 pJ at 1 GHz: 262 W of 304.1 W.
    tornado = shown[shown.index("Tornado") :]
    assert "86.2 %" in next(line for line in tornado.splitlines() if line.startswith("TDP W"))


def test_the_json_has_every_metric_and_where_its_corners_are(evaluated, capsys):
    document = evaluated
    found = document["uncertainty"]
    assert found.keys() == {
        "samples", "seed", "distribution", "numbers", "feasible_share", "metrics", "tornado",
    }  # fmt: skip
    assert found["metrics"].keys() == found["tornado"].keys() == document["metrics"].keys()
    assert (found["samples"], found["seed"], found["feasible_share"]) == (25, 0, 1.0)
    for name, value in document["metrics"].items():
        assert found["metrics"][name]["typical"] == value
    tdp = found["metrics"]["tdp_watts"]
    assert (tdp["minimum_at"], tdp["maximum_at"]) == ("all low", "all high")
    # Background and reads of SRAM (4 TB/s) and HBM3E (4 TB/s), MACs, and lanes of six stages.
    memories = 0.256e9 * 40e-9 + 96e9 * 50e-12 + 4e12 * 8 * (0.17e-12 + 1.2e-12)
    units = 2048 * 128 * 1e9 * 1.0e-12 + 2048 * 6 * 1e9 * 1.53e-12
    assert tdp["maximum"] - tdp["minimum"] == pytest.approx(memories + units)
    ranged = {(item["technology"], item["number"]) for item in found["numbers"]}
    assert ("hbm3e_8h", "background_power") in ranged
    assert "uncertainty" not in _json(capsys, *EVALUATE[: EVALUATE.index("--uncertainty")])


def test_the_seed_decides_the_draws(evaluated, capsys):
    first, again, other = (
        document["uncertainty"]["metrics"]["tdp_watts"]
        for document in (
            evaluated, *(_json(capsys, *EVALUATE, "--seed", seed) for seed in ("0", "5"))
        )
    )  # fmt: skip
    assert first == again
    assert first["p5"] != other["p5"]
    assert first["minimum"] == other["minimum"]


def test_a_range_in_a_file_of_the_working_folder_is_used(capsys, folder):
    text = resources.find("memtech", "hbm3e_8h").read_text(encoding="utf-8")
    said = "bandwidth: 1 TB/s"
    assert said in text
    path = folder / "memtech" / "hbm3e_8h.yaml"
    path.parent.mkdir()
    ranged = "bandwidth: {low: 0.5 TB/s, typical: 1 TB/s, high: 1 TB/s}"
    path.write_text(text.replace(said, ranged), encoding="utf-8")
    try:
        found = _json(capsys, *EVALUATE, "--phase", "decode")["uncertainty"]
    finally:
        path.unlink()
        path.parent.rmdir()
    bandwidth = found["metrics"]["offchip_bandwidth_bytes_per_s"]
    assert (bandwidth["minimum"], bandwidth["maximum"]) == (2e12, 4e12)
    swings = found["tornado"]["throughput_tokens_per_s"]
    assert [(item["technology"], item["number"]) for item in swings] == [("hbm3e_8h", "bandwidth")]


@pytest.mark.parametrize("width", [80, 140])
def test_pareto_prints_how_robust_the_front_is(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["status", "front", "trial", "--robust", "--samples", "20"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(len(line) for line in out.splitlines()) <= width
    assert "Robust front" in out
    assert "in every draw all of 30 evaluated designs are compared" in " ".join(out.split())
    assert "designs of the front keep every limit over all ranges" in " ".join(out.split())


def test_every_design_of_the_front_has_its_share(capsys):
    document = _json(capsys, "status", "front", "trial", "--robust", "--samples", "20")
    found = document["uncertainty"]
    assert (found["samples"], found["seed"]) == (20, 0)
    assert (found["n_compared"], found["n_distinct"]) == (30, 30)
    numbers = [item["front_number"] for item in found["designs"] if item["front_number"]]
    assert sorted(numbers) == list(range(1, document["front_size"] + 1))
    shares = [item["non_dominated_share"] for item in found["designs"]]
    assert shares == sorted(shares, reverse=True)
    for item in found["designs"]:
        assert 0 <= item["non_dominated_share"] <= item["feasible_share"] <= 1
        assert item["front_number"] or item["non_dominated_share"] >= found["often"]
    # The design that is best in what no range touches stays on the front while it is allowed.
    first = next(item for item in found["designs"] if item["front_number"] == 1)
    assert first["non_dominated_share"] == first["feasible_share"]
    limited = _json(
        capsys, "status", "front", "trial", "--robust", "--samples", "20", "--limit", "1"
    )
    assert limited["uncertainty"] == {**found, "designs": found["designs"][:1]}
    assert "uncertainty" not in _json(capsys, "status", "front", "trial")


def test_of_too_many_designs_the_front_and_its_neighbors_are_compared():
    results = api.load_campaign("trial").results()
    front = results.front().tolist()
    found = robust_front(results, 10, most=len(front) + 2)
    assert (found.n_compared, found.n_distinct) == (len(front) + 2, 30)
    assert {item.position for item in found.designs if item.front_number} == set(front)
    assert robust_front(results, 3, most=1).n_compared == len(front)


def test_the_help_states_the_number_of_draws_that_is_used(capsys):
    for command in ("evaluate", "status front"):
        assert main([command, "--help"]) == 0
        assert f"Draws from the ranges. [{SAMPLES}]" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", [EVALUATE[:-2], ["status", "front", "trial", "--robust"]])
@pytest.mark.parametrize(
    ("option", "value"), [("--samples", "0"), ("--seed", "-1"), ("--samples", "many")]
)
def test_bad_draws_are_refused_in_one_line(command, option, value, capsys):
    assert option in _refused(capsys, *command, option, value)


@pytest.mark.parametrize(
    ("command", "flag"),
    [(EVALUATE[: EVALUATE.index("--uncertainty")], "--uncertainty"),
     (["status", "front", "trial"], "--robust")],
)  # fmt: skip
def test_draws_without_a_use_for_them_are_refused(command, flag, capsys):
    line = _refused(capsys, *command, "--seed", "3")
    assert line == f"error: --seed is of use only with {flag}\n"


def test_an_evaluator_without_technologies_is_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(
        str(Path(__file__).parents[1] / "unit" / "search" / "campaign" / "plugins")
    )
    monkeypatch.chdir(tmp_path)
    for path, text in {
        "spaces/square.yaml": _TOY_SPACE,
        "runs/toys.yaml": yaml.safe_dump(_TOY_CAMPAIGN),
    }.items():
        Path(path).parent.mkdir()
        Path(path).write_text(text, encoding="utf-8")
    toy = ["evaluate", "--space", "square", "--evaluator", "toy", "--set", "x=1", "--set", "y=2"]
    assert main(toy) == 0
    api.load_campaign("toys").run()
    capsys.readouterr()
    for command in ([*toy, "--uncertainty"], ["status", "front", "toys", "--robust"]):
        line = _refused(capsys, *command)
        assert "evaluator 'toy' has no technologies with ranges to vary" in line


def _headings_have_the_units_of_intervals(out):
    metrics, intervals = out.split("\nUncertainty", 1)
    (row,) = [line.split() for line in metrics.splitlines() if line.startswith("power density")]
    interval = next(line for line in intervals.splitlines() if line.startswith("power density"))
    assert row[2:4] == [interval.split()[3], interval.split()[2]]  # such as 549.6 and mW/mm²
