"""The sliders of the page: the front that the browser filters is that of Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from codesign import api
from codesign.campaign.exact import front_results
from codesign.cli import main
from codesign.report.labels import format_setting
from codesign.report.page.limits import limit_document
from codesign.report.picks import picks_of
from codesign.report.plateaus import fold_positions, folded_front

_CAMPAIGN = """\
space: memexplorer
evaluator: {name: npu, profile: plain}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 400]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, vector_length: 2048,
        tier3_technology: none, storage_priority: equal, dataflow: os, bandwidth_priority: equal}
optimizers: [random]
initial: 4
budget: 8
reference_sample: 32
workers: 1
"""
_HANG_MS = 600_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Of ``kept`` the usual metrics are kept."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _build(folder, "kept", "--keep", "usual")
    return folder


def _build(folder: Path, name: str, *keep: str) -> None:
    (folder / "runs" / f"{name}.yaml").write_text(_CAMPAIGN, encoding="utf-8")
    assert main(["run", name, "--json"]) == 0
    assert main(["enumerate", name, *keep, "--json"]) == 0
    assert main(["report", name, "--samples", "0", "--json"]) == 0


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def _open(browser, folder: Path, name: str, width: int = 1280):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(_HANG_MS)
    page.goto((folder / f"runs/{name}/report.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    return page


@pytest.fixture(scope="module")
def page(browser, folder):
    page = _open(browser, folder, "kept")
    yield page
    page.close()


_SET = """(bounds) => {
  document.getElementById("limits-reset").click();
  for (const [name, bound] of Object.entries(bounds)) {
    const slider = document.getElementById(`limit-${name}`);
    slider.value = bound;
    bounds[name] = slider.value === slider.dataset.loosest ? null : Number(slider.value);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const frame = () => new Promise(requestAnimationFrame);
  return frame().then(frame).then(() => bounds);
}"""


def _front(page) -> list[int]:
    return [int(number) for number in page.get_attribute("#limits", "data-front").split()]


def test_the_front_that_the_browser_draws_is_the_filter_of_python(page, folder):
    campaign = api.load_campaign("kept")
    kept = campaign.stored_kept_front()
    assert kept is not None
    columns = {
        item.metric.name: item.sign * kept.front.objectives[:, column]
        for column, item in enumerate(kept.problem.objectives)
    }
    assert page.locator("#limits-sliders input").count() == len(columns) == 7
    rng, fronts = np.random.default_rng(4), []
    for _ in range(40):
        names = rng.permutation(list(columns))[: rng.integers(1, 4)].tolist()
        wanted = {name: float(rng.choice(columns[name])) for name in names}
        bounds = page.evaluate(_SET, wanted)
        front = kept.within({name: x for name, x in bounds.items() if x is not None})
        assert _front(page) == front.tolist(), bounds
        assert _cards(page) == _picks(campaign, kept, front)
        fronts.append(len(front))
    assert min(fronts) == 0 and max(fronts) > 5
    drawn = page.evaluate(
        """() => { const t = document.getElementById("limits-chart")._fullData
             .find((item) => item.name === "front"); return t.x.length; }"""
    )
    assert drawn == fronts[-1]


def test_no_value_of_an_exact_point_is_said_to_be_on_no_design_of_the_front(page):
    campaign = api.load_campaign("kept")
    shown = campaign.front_results(campaign.results())
    folded = folded_front(shown)
    representatives = shown.rows[folded.positions[folded.kept]]
    points = shown.problem.space.keys(shown.exact.representatives())
    is_kept = np.isin(points, shown.problem.space.keys(representatives))[shown.exact.point]

    def values(rows):
        designs = shown.problem.space.decode(rows)
        return {
            f"{name.replace('_', ' ')} {'none' if value is None else format_setting(value)}"
            for design in designs
            for name, value in design.items()
        }

    absent = page.locator("#misses [data-absent] [data-value]").all_text_contents()
    only_folded = page.locator("#misses [data-folded] [data-value]").all_text_contents()
    assert absent and only_folded
    assert values(shown.exact.rows).isdisjoint(absent)
    assert set(only_folded) <= values(shown.exact.rows[~is_kept])
    assert values(shown.exact.rows[is_kept]).isdisjoint(only_folded)
    assert "Values on no design of the exact front" in page.inner_text("#misses")


def _cards(page) -> list[list[str]]:
    return page.evaluate(
        """() => [...document.querySelectorAll("#limits-cards article")].map((card) =>
             [card.querySelector("h3").firstChild.textContent.trim().toLowerCase(),
              card.querySelector("p").textContent])"""
    )


def _picks(campaign, kept, front) -> list[list[str]]:
    """What the first screen would recommend of the same designs."""
    if not len(front):
        return []
    results = front_results(
        kept.front,
        kept.front.representatives()[front],
        campaign.definition,
        campaign.problem,
        {"throughput_tokens_per_s": 0.0, "tdp_watts": 1000.0},
        {},
    )
    folded = fold_positions(results, np.arange(len(front)), 0.02)
    words = limit_document(campaign.results(), kept)["words"]
    return [[pick.key, words[front[pick.place]]] for pick in picks_of(results, folded)]


def test_a_slider_moves_by_keyboard_and_says_what_it_costs(page):
    page.evaluate(_SET, {})
    assert "Without tighter limits, " in page.inner_text("#limits-change")
    everything = _front(page)
    slider = page.locator("#limit-tdp_watts")
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        f"document.getElementById('limits').dataset.front.split(' ').length < {len(everything)}"
    )
    bound = float(slider.input_value())
    page.wait_for_function(  # the last of the keys is drawn a moment later
        "text => document.getElementById('limit-tdp_watts').getAttribute('aria-valuetext') == text",
        arg=f"≤ {bound:g} W",
    )
    text = page.inner_text("#limits-change")
    assert f"TDP ≤ {bound:g} W ({400 - bound:g} W less)" in text
    page.click("#limits-reset")
    page.wait_for_function("document.getElementById('limits-reset').disabled")
    assert _front(page) == everything


def test_limits_that_nothing_keeps_say_how_near_a_design_comes(page):
    page.evaluate(_SET, {"throughput_tokens_per_s": 2000, "tdp_watts": 100})
    assert page.wait_for_function(
        "document.getElementById('limits-change').textContent.includes('no design keeps')"
    )
    assert "Within the others, TDP is " in page.inner_text("#limits-change")
    assert page.locator("#limits-cards article").count() == 0


def test_the_sliders_shut_no_reader_out_and_fit_the_width(page):
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(_SET, {"tdp_watts": 200})
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"document.querySelector('#limits-chart svg').clientWidth < {width}")
        audit = Axe().run(page, context="#limits")
        assert audit.violations_count == 0, audit.generate_report()
        assert page.evaluate(_RIGHT_END) <= width


_RIGHT_END = """() => Math.max(...[...document.querySelectorAll("#limits *")]
  .filter((item) => !item.closest(".chart")).map((item) => item.getBoundingClientRect().right))"""


@pytest.mark.slow
def test_without_kept_metrics_the_objectives_have_sliders_and_a_line_tells_more(browser, folder):
    _build(folder, "plain")
    page = _open(browser, folder, "plain")
    assert page.locator("#limits-sliders input").count() == 2
    hint = page.inner_text("#limits-hint")
    assert hint.endswith("come with “codesign enumerate plain --keep usual”.")
    assert "area" in hint
    page.close()


def test_the_page_stays_small_and_its_bytes_are_the_same_again(folder, capsys):
    path = folder / "runs/kept/report.html"
    before = path.read_bytes()
    assert main(["report", "kept", "--samples", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] < 6e6
    assert path.read_bytes() == before
