"""Figures from the command line, and the live view of a campaign."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import codesign
from codesign.api import choose_design
from codesign.base.text import duration_words
from codesign.cli import main
from codesign.evaluators.npu.npu_options import account_constants
from codesign.report.campaign_charts import front_chart, front_picture
from codesign.report.chart import Label
from codesign.report.machine_charts import die_plan
from codesign.report.paper import design_chart
from codesign.report.watch_frame import sparkline

_CAMPAIGN = """\
name: NAME
space: memexplorer
evaluator: {name: npu, profile: memexplorer}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 700]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8}
optimizers: [random, {name: random, label: again}]
initial: 4
budget: BUDGET
batch: 4
seeds: 1
reference_point: {throughput_tokens_per_s: 0, tdp_watts: 700}
workers: 1
"""


_FEW = "kv_format: mxint8, vector_length: 2048, tier3_technology: none, storage_priority: equal, \
dataflow: os, bandwidth_priority: equal, tier2_technology: lpddr5x"
"""So few designs that the exact front is found at once."""


_SQUARE = "parameters: {x: {low: 0, high: 999}, y: {low: 0, high: 999}}\n"
_LONG = """\
space: square
evaluator: {name: toy, delay_s: 0.05}
execution: {isolated: false}
objectives: [maximize gain_tokens, minimize power_watts]
reference_point: {gain_tokens: 0, power_watts: 1000}
optimizers: [random]
initial: 2
batch: 1
budget: 200_000
workers: 1
"""
_PLUGINS = Path(__file__).parents[1] / "unit" / "search" / "campaign" / "plugins"


def _define(folder, name, budget):
    text = _CAMPAIGN.replace("NAME", name).replace("BUDGET", str(budget))
    (folder / "runs" / f"{name}.yaml").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    _define(folder, "trial", 40)
    (folder / "spaces").mkdir()
    (folder / "spaces" / "square.yaml").write_text(_SQUARE, encoding="utf-8")
    (folder / "runs" / "long.yaml").write_text(_LONG, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        codesign.load_campaign("trial").run()
        few = folder / "runs" / "trial-few.yaml"
        _define(folder, "trial-few", 12)
        text = few.read_text(encoding="utf-8").replace("kv_format: mxint8", _FEW)
        few.write_text(text.replace("seeds: 1", "seeds: 2"), encoding="utf-8")
        codesign.load_campaign("trial-few").run()
    return folder


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("codesign.report.paper._USUAL_DPI", 160.0)


_KINDS = ("convergence", "front", "roofline", "breakdown", "hierarchy")
_ELSEWHERE = ("front", "breakdown", "hierarchy")


def _arguments(kind, name="trial"):
    of_design = [] if kind in ("convergence", "front") else ["--design", "P1"]
    return ["report", "figure", kind, name, *of_design]


@pytest.fixture(scope="module")
def elsewhere(folder):
    """Where another process with other hashes drew figures: of every library, with every format."""
    place = folder / "elsewhere"
    drawn = [(kind, "pdf") for kind in _ELSEWHERE]
    drawn += [("front", "svg"), ("hierarchy", "svg"), ("convergence", "png")]
    commands = [
        [*_arguments(kind), "--output", str(place / f"{kind}.{form}")] for kind, form in drawn
    ]
    code = "import json, sys; from codesign.cli import main; [*map(main, json.loads(sys.argv[1]))]"
    subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)], stdout=subprocess.DEVNULL,
        cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}, check=True,
    )  # fmt: skip
    return place


def _drawn_as_elsewhere(elsewhere, folder, kind, form):
    path = folder / f"{kind}.{form}"
    assert main([*_arguments(kind), "--output", str(path)]) == 0
    assert path.read_bytes() == (elsewhere / path.name).read_bytes()
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["front", "hierarchy"])
def test_an_svg_has_the_same_bytes_in_every_process(elsewhere, tmp_path, kind):
    content = _drawn_as_elsewhere(elsewhere, tmp_path, kind, "svg")
    assert content.startswith(b"<svg") and b"data-" not in content and b"var(" not in content


def test_a_png_has_the_same_bytes_in_every_process(elsewhere, tmp_path):
    _drawn_as_elsewhere(elsewhere, tmp_path, "convergence", "png")


@pytest.mark.parametrize("kind", _ELSEWHERE)
def test_a_pdf_has_the_same_bytes_in_every_process_and_its_fonts_inside(elsewhere, tmp_path, kind):
    content = _drawn_as_elsewhere(elsewhere, tmp_path, kind, "pdf")
    assert b"/CreationDate" not in content
    fonts = content.count(b"/Type /FontDescriptor")
    assert fonts > 0
    assert len(re.findall(rb"/FontFile[23]? ", content)) == fonts
    assert b"/Subtype /Type3" not in content


@pytest.mark.parametrize(
    ("kind", "width", "expected_mm"),
    [*((kind, "89 mm", 89.0) for kind in _KINDS),
     ("roofline", "3.5in", 88.9), ("roofline", "18.3 cm", 183.0)],
)  # fmt: skip
def test_a_figure_is_drawn_for_a_width(overprinted_texts, tmp_path, kind, width, expected_mm):
    path = tmp_path / "a.pdf"
    assert main([*_arguments(kind), "--output", str(path), "--width", width]) == 0
    box = re.search(rb"/MediaBox \[ *0 0 ([\d.]+)", path.read_bytes())
    assert float(box[1]) / 72 * 25.4 == pytest.approx(expected_mm, abs=0.05)
    assert main([*_arguments(kind), "--output", str(tmp_path / "a.svg"), "--width", width]) == 0
    assert overprinted_texts(tmp_path / "a.svg") == []


def test_a_png_goes_to_the_folder_of_the_campaign(folder, capsys):
    assert main(["report", "figure", "roofline", "trial", "--design", "1", "--format", "png"]) == 0
    assert "runs/trial/roofline-1.png" in capsys.readouterr().out
    assert (folder / "runs" / "trial" / "roofline-1.png").stat().st_size > 10_000


def _crossing_bytes(traffic_bytes):
    """Between off-chip and on-chip memory: a staged tier's port carries x_i + x_(i+1)."""
    tiers = [moved for level, moved in traffic_bytes.items() if level != "on_chip"]
    return sum(tiers[::2]) - sum(tiers[1::2])


@pytest.mark.parametrize("name", ["P1", "P2", "D2", "H3", "Base"])
def test_the_roofline_counts_the_bytes_that_the_metric_counts(name):
    # offchip_bytes_per_token comes from another place of the evaluator.
    chosen = choose_design(codesign.load_campaign("trial").results(), name)
    crossing = sum(_crossing_bytes(row["traffic_bytes"]) for row in chosen.evaluated.operators)
    tokens = 90_000  # of an OSWorld prompt (MemExplorer, section 5.1)
    expected = chosen.evaluated.metrics["offchip_bytes_per_token"] * tokens
    assert crossing == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["P1", "H3", "D1", "Base"])
def test_the_blocks_of_a_die_have_the_areas_of_the_account(name):
    evaluated = choose_design(codesign.load_campaign("trial").results(), name).evaluated
    plan = die_plan(evaluated)
    rows = [row for row in evaluated.costs if row["area_mm2"]]
    areas = {row["part"]: row["area_mm2"] for row in rows if row["part"] != "stacked layers"}
    drawn = dict.fromkeys((block.name for block in plan.blocks), 0.0)
    for block in plan.blocks:
        drawn[block.name] += block.area_mm2
    assert drawn == pytest.approx({name: areas[name] for name in drawn}, rel=1e-9)
    assert areas.keys() - drawn.keys() <= {"uncore", "filler", "die to die"}
    assert plan.width_mm * plan.height_mm == pytest.approx(sum(areas.values()))
    layers = [row for row in rows if row["part"] == "stacked layers"]
    stacked = sum(layer.area_mm2 for layer in plan.layers)
    assert stacked == pytest.approx(sum(row["area_mm2"] for row in layers))
    for level in filter(lambda level: level["package_mm2"], evaluated.levels):
        footprint = sum(x.area_mm2 for x in plan.memories if x.name == level["name"])
        assert footprint == pytest.approx(level["package_mm2"], rel=0.01)


@pytest.mark.parametrize("name", ["P1", "H3", "D1", "Base"])
def test_an_interposer_is_drawn_with_the_area_that_is_paid_for(name):
    evaluated = choose_design(codesign.load_campaign("trial").results(), name).evaluated
    blocks = die_plan(evaluated).interposer
    xs, ys = (sorted({end for block in blocks for end in getattr(block, x)}) for x in "xy")
    drawn_mm2 = sum(
        (x1 - x0) * (y1 - y0)
        for x0, x1 in pairwise(xs)
        for y0, y1 in pairwise(ys)
        if any(b.x[0] <= x0 and x1 <= b.x[1] and b.y[0] <= y0 and y1 <= b.y[1] for b in blocks)
    )
    (usd,) = [row["usd"] for row in evaluated.costs if row["part"] == "package"]
    paid_mm2 = usd / account_constants(evaluated.options).interposer_usd_per_mm2
    assert drawn_mm2 == pytest.approx(paid_mm2, rel=0.01)


def test_interfaces_and_memories_have_the_published_lengths_along_the_edge():
    """MemExplorer, Table 1: HBM4 15 mm, HBF 8.25 mm; P1 has two and one of them."""
    evaluated = choose_design(codesign.load_campaign("trial").results(), "P1").evaluated
    plan = die_plan(evaluated)
    ends = [(stack.name, stack.x[1] - stack.x[0], stack.y[1] - stack.y[0])
            for stack in plan.memories]  # fmt: skip
    assert sorted(name for name, _, _ in ends) == ["tier1", "tier1", "tier2"]
    lengths = {"tier1": pytest.approx(15.0), "tier2": pytest.approx(8.25)}
    assert all(lengths[name] in (x, y) for name, x, y in ends)
    _, notes = design_chart("hierarchy", _chosen("P1"), False)
    assert "edge for memory: 38.25 of 66 mm" in notes
    _, notes = design_chart("hierarchy", _chosen("P2"), False)
    assert "edge for memory: 30 of 66 mm; 65.6 mm of LPDDR not charged" in notes


def _chosen(name):
    return choose_design(codesign.load_campaign("trial").results(), name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["report", "figure", "rooflin", "trial"],
            "unknown figure 'rooflin'. Did you mean 'roofline'?",
        ),
        (
            ["report", "figure", "front", "trial", "--format", "pfd"],
            "unknown figure format 'pfd'. Did you",
        ),
        (["report", "figure", "roofline", "trial"], "--design: roofline shows one design"),
        (
            ["report", "figure", "front", "trial", "--design", "1"],
            "--design: front shows the whole",
        ),
        (["report", "figure", "roofline", "trial", "--design", "P7"], "unknown design 'P7'"),
        (["report", "figure", "front", "nothing"], "unknown campaign 'nothing'"),
        (
            ["report", "figure", "front", "trial", "--format", "pdf", "--output", "a.svg"],
            "ends in .pdf",
        ),
        (["report", "figure", "front", "smoke"], "has no results yet"),
        (
            ["report", "figure", "trial", "--design", "1"],
            "--design: expected a kind of figure before 'trial'",
        ),
        (
            ["report", "figure", "roofline", "trial", "--pick", "kne"],
            "unknown pick 'kne'. Did you mean 'knee'",
        ),
        (
            ["report", "figure", "front", "trial", "--width", "89"],
            "--width: expected a quantity in mm",
        ),
        (
            ["report", "figure", "front", "trial", "--width", "1cm"],
            "expected 60 to 400 mm, got 10 mm; near",
        ),
        (
            ["report", "figure", "front", "trial", "--width", "3.5inch"],
            "--width: unknown unit 'inch'",
        ),
        (["status", "watch", "smoke"], "has no results yet; 'codesign run smoke' starts it"),
        (
            ["status", "watch", "trial", "--json"],
            "--json: one document is one frame; expected --once",
        ),
        (["status", "watch", "trail"], "unknown campaign 'trail'"),
    ],
)
def test_what_cannot_be_shown_is_one_line(folder, capsys, arguments, message):
    before = sorted(path.name for path in folder.rglob("*"))
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and len(err.splitlines()) == 1
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_watching_a_complete_campaign_ends_with_one_frame(capsys):
    assert main(["status", "watch", "trial"]) == 0
    out = capsys.readouterr().out
    for part in (
        "trial (npu, profile memexplorer): complete, 80 of 80 evaluated (100 %)",
        "again",
        "█",
        "Pareto front",
    ):
        assert part in out


def test_one_frame_as_json_has_rates_and_the_front(capsys):
    assert main(["status", "watch", "trial", "--once", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["left_s"] for run in document["runs"]] == [0.0, 0.0]
    assert all(run["designs_per_s"] > 0 for run in document["runs"])
    assert document["front_size"] == len(document["observations"])


def test_watching_does_not_disturb_the_run_and_ends_on_ctrl_c(folder, capsys, monkeypatch):
    command = [sys.executable, "-m", "codesign"]
    places = [str(_PLUGINS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    monkeypatch.syspath_prepend(str(_PLUGINS))
    run = subprocess.Popen([*command, "run", "long"], cwd=folder, env=environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        frames = {}
        while len(frames) < 2:  # it goes on
            assert run.poll() is None
            is_there = main(["status", "watch", "long", "--once", "--json"]) == 0
            shown = capsys.readouterr().out
            document = json.loads(shown) if is_there else {"done": 0}
            if document["done"] and document["state"] == "running":
                frames[document["done"]] = document
            time.sleep(0.1)
        assert frames[max(frames)]["runs"][0]["left_s"] > 0
        words = [*command, "status", "watch", "long", "--interval", "0.2"]
        watch = subprocess.Popen(words, cwd=folder,
                                 env=environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)  # fmt: skip
        # Into a pipe goes a line per frame.
        lines = [watch.stdout.readline().decode() for _ in range(3)]
        assert all(line.startswith("long (toy, delay s 0.05): running, ") for line in lines)
        assert len(set(lines)) == 3
        assert watch.poll() is None
        watch.send_signal(signal.SIGINT)
        _, error = watch.communicate()
        assert watch.returncode == 130
        assert b"Traceback" not in error
        assert run.poll() is None
    finally:
        run.send_signal(signal.SIGINT)
        run.wait()
    assert main(["status", "watch", "long"]) == 0


def test_a_broken_off_campaign_is_said_to_be_stopped(folder, break_off, capsys, tmp_path):
    _define(folder, "half", 40)
    break_off(codesign.load_campaign("half"))
    assert main(["status", "watch", "half", "--once"]) == 0
    out, err = capsys.readouterr()
    assert (
        "half (npu, profile memexplorer): stopped" in out and "'codesign run half' goes on" in err
    )
    path = tmp_path / "front.csv"
    assert main(["export", "half", "--output", str(path)]) == 2
    assert "half: is stopped" in capsys.readouterr().err
    draw = ["report", "figure", "convergence", "half", "--output", str(tmp_path / "a.svg")]
    assert main(draw) == 2
    assert re.fullmatch(
        r"error: half: is stopped, [\d,]+ of 80 evaluated; finish it by 'codesign run half', "
        r"or draw what is stored by --partial\n",
        capsys.readouterr().err,
    )
    assert not list(tmp_path.iterdir())
    assert main([*draw, "--partial"]) == 0
    assert "note: half is stopped" in capsys.readouterr().out


def test_a_watched_campaign_has_the_observations_of_an_unwatched_one(folder):
    for name in ("seen", "unseen"):
        _define(folder, name, 40)
    codesign.load_campaign("unseen").run()
    code = "import codesign; codesign.load_campaign('seen').run()"  # no figures
    run = subprocess.Popen([sys.executable, "-c", code], cwd=folder,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    n_frames = 0
    while run.poll() is None:
        if n_frames < 3 and (folder / "runs" / "seen" / "campaign.sqlite").exists():
            assert main(["status", "watch", "seen", "--once", "--json"]) == 0
            n_frames += 1
        time.sleep(0.1)
    _, said = run.communicate()
    assert run.returncode == 0 and "locked" not in said, said
    assert n_frames > 0
    seen, unseen = (codesign.load_campaign(name).results() for name in ("seen", "unseen"))
    assert len(seen) == 80
    np.testing.assert_array_equal(seen.rows, unseen.rows)
    np.testing.assert_array_equal(seen.objectives, unseen.objectives)
    np.testing.assert_array_equal(seen.hypervolume, unseen.hypervolume)


def test_a_sparkline_goes_from_nothing_to_the_highest():
    assert sparkline(np.array([0.0, 0.5, 1.0]), 1.0) == "▁▅█"
    assert sparkline(np.array([]), 1.0) == ""
    assert len(sparkline(np.arange(1000.0), 999.0)) == 32


def test_times_to_wait_are_in_words():
    assert [duration_words(seconds) for seconds in (0.4, 59.6, 3599.0, 3600.0, 90061.0)] == [
        "0 s", "1 min 00 s", "59 min 59 s", "1 h 00 min", "25 h 01 min",
    ]  # fmt: skip


def test_no_label_of_any_figure_overprints_another_and_a_sheet_shows_them(
    overprinted_texts, folder, capsys
):
    assert main(["enumerate", "trial-few", "--json"]) == 0
    path = folder / "runs" / "trial-few" / "contact-sheet.svg"
    assert (
        main(["report", "figure", "all", "trial-few", "--design", "1", "--format", "svg", "--json"])
        == 0
    )
    assert path.stat().st_size > 20_000
    assert overprinted_texts(path) == []
    capsys.readouterr()


def test_a_label_on_another_is_found(overprinted_texts, tmp_path):
    path = tmp_path / "a.svg"
    path.write_text('<svg xmlns="http://www.w3.org/2000/svg"><text x="0" y="10">one</text>'
                    '<text x="5" y="12">two</text></svg>', encoding="utf-8")  # fmt: skip
    assert overprinted_texts(path) == ["'one' on 'two'"]


def test_where_the_exact_front_is_known_it_is_the_front(folder):
    assert main(["enumerate", "trial-few", "--json"]) == 0
    campaign = codesign.load_campaign("trial-few")
    chart = front_chart(front_picture(campaign.front_results()), is_narrow=False)
    named = {mark.name: mark for mark in chart.panels[0].marks if getattr(mark, "name", "")}
    assert set(named) == {"front", "choices"}
    front = campaign.exact_front().objectives
    np.testing.assert_allclose(np.sort(named["front"].x), np.sort(front[:, 1]))
    labels = {mark.text.partition("\n")[0] for mark in chart.panels[0].marks
              if isinstance(mark, Label)}  # fmt: skip
    assert {"Frugal", "Fastest", "TDP at most 700 W"} <= labels
