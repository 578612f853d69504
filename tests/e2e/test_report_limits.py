"""The sliders of the page: the front that the browser filters is that of Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from codesign import api
from codesign.cli import main
from codesign.insight.plateaus import fold_positions, folded_front
from codesign.insight.uncertainty.uncertainty import metric_quantiles
from codesign.report.labels import format_setting
from codesign.report.page.tighter_limits import limit_document
from codesign.report.picks import picks_of
from codesign.search.campaign.exact_results import front_results

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
    assert main(["report", name, "--samples", "60", "--json"]) == 0


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


def _settled(page) -> None:
    """Charts out of sight are drawn after the last move."""
    page.wait_for_selector("#limits[data-settled]", state="attached")


def _front(page) -> list[int]:
    return [int(number) for number in page.get_attribute("#limits", "data-front").split()]


def test_the_front_that_the_browser_draws_is_the_filter_of_python(page, folder):
    campaign = api.load_campaign("kept")
    kept = campaign.stored_kept_front()
    assert kept is not None
    columns = {
        item.metric.name: item.flipped(kept.front.objectives[:, column])
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
    _settled(page)
    drawn = page.evaluate(
        """() => { const t = document.getElementById("front-chart")._fullData
             .find((item) => item.name === "front"); return t.x.length; }"""
    )
    assert drawn == fronts[-1]
    assert page.locator("#cards").count() == page.locator("#bands").count() == 1


_LOOK = """() => {
  const bands = [...document.querySelectorAll("#bands .bands")].map((row) => row.ariaLabel);
  const drawn = document.getElementById("front-chart")._fullData.map((item) => item.name);
  return { bands, drawn, cards: document.getElementById("cards").innerText };
}"""


def test_one_set_of_cards_one_front_and_one_set_of_bands_follow_the_sliders(page):
    page.evaluate(_SET, {})
    _settled(page)
    loose = page.evaluate(_LOOK)
    assert "without tighter limits" not in loose["drawn"] and "How sure" in loose["cards"]
    page.evaluate(_SET, {"tdp_watts": 200})
    _settled(page)
    tight = page.evaluate(_LOOK)
    assert tight["bands"] != loose["bands"] and tight["bands"]
    assert {"front", "without tighter limits"} <= set(tight["drawn"])
    assert "How sure" in tight["cards"] and "junction temperature" in tight["cards"]
    assert "Without tighter limits: #" in tight["cards"]
    labels = page.locator("#front-chart .annotation-text")
    labels.filter(has_text="TDP at most 200 W").wait_for()  # after the last move
    assert "TDP at most 400 W" not in labels.all_text_contents()
    page.evaluate(_SET, {})
    _settled(page)
    assert page.evaluate(_LOOK) == loose


def test_a_card_within_tighter_limits_says_in_how_many_draws_they_are_kept(page):
    campaign = api.load_campaign("kept")
    kept = campaign.stored_kept_front()
    drawn = metric_quantiles(
        campaign.problem, kept.front.representatives(), ["tdp_watts"], range(101), 60
    )["tdp_watts"]
    tdp = kept.problem.flipped(kept.front.objectives)[:, 1]
    compared = 0
    for bound in np.quantile(tdp, [0.3, 0.5, 0.7, 0.9]):
        bounds = page.evaluate(_SET, {"tdp_watts": float(bound)})
        front = kept.within(bounds)
        fastest = int(front[np.argmax(kept.problem.flipped(kept.front.objectives)[front, 0])])
        card = page.locator("#cards .card").last.inner_text()
        (share,) = re.findall(r"TDP ≤ \S+ W: kept in (.*) of 60 draws", card)
        words = {"all": 100.0, "none": 0.0}
        shown = words.get(share) or float(share.removeprefix("about ").removesuffix(" %") or 0)
        if tdp[fastest] == pytest.approx(float(re.search(r"([\d.]+) W", card)[1]), rel=0.005):
            exact = float((drawn[fastest] <= bounds["tdp_watts"]).mean() * 100)
            assert shown == pytest.approx(exact, abs=6)
            compared += 1
    assert compared > 0
    assert "of 60 of them" in page.locator("#cards-note").inner_text()


def test_a_design_that_the_page_does_not_explain_has_the_command_that_does(page, capsys):
    kept = api.load_campaign("kept").stored_kept_front()
    is_found = False
    for point in kept.front.objectives[::7].tolist():
        pairs = zip(kept.problem.objectives, point, strict=True)
        page.evaluate(_SET, {item.metric.name: item.flipped(value) for item, value in pairs})
        if is_found := page.locator("#cards .card-links code").count() > 0:
            break
    assert is_found
    command = page.locator("#cards .card-links code").first.inner_text()
    capsys.readouterr()
    assert main([*command.split()[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["feasible"]


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
        """() => [...document.querySelectorAll("#cards article")].map((card) =>
             [card.querySelector("h3").firstChild.textContent.trim().toLowerCase(),
              [...card.querySelectorAll("p.short-words, p.card-words")].at(-1).textContent])"""
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
    assert page.inner_text("#limits-change") == ""
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
    assert page.locator(".untightened:visible").count() >= 5  # what the sliders do not redraw
    page.click("#limits-reset")
    page.wait_for_function("document.getElementById('limits-reset').hidden")
    assert _front(page) == everything


def test_a_metric_that_repeats_another_is_not_compared(page):
    names = page.locator("#compare tbody td:first-child").all_inner_texts()
    assert "time to first token" in names  # of a single request, that is the time of the phase
    assert "phase time" not in names and "throughput per user" not in names


def test_limits_that_nothing_keeps_say_how_near_a_design_comes(page):
    page.evaluate(_SET, {"throughput_tokens_per_s": 2000, "tdp_watts": 100})
    assert page.wait_for_function(
        "document.getElementById('limits-change').textContent.includes('no design keeps')"
    )
    assert "Within the others, TDP is " in page.inner_text("#limits-change")
    assert page.locator("#cards article").count() == 0


def test_the_sliders_shut_no_reader_out_and_fit_the_width(page):
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(_SET, {"tdp_watts": 200})
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"document.querySelector('#front-chart svg').clientWidth < {width}")
        audit = Axe().run(page, context="#answer")
        assert audit.violations_count == 0, audit.generate_report()
        assert page.evaluate(_RIGHT_END) <= width


_RIGHT_END = """() => Math.max(...[...document.querySelectorAll("#answer *")]
  .filter((item) => !item.closest(".chart")).map((item) => item.getBoundingClientRect().right))"""


@pytest.mark.slow
def test_without_kept_metrics_the_objectives_have_sliders_and_a_line_tells_more(browser, folder):
    _build(folder, "plain")
    page = _open(browser, folder, "plain")
    assert page.locator("#limits-sliders input").count() == 2
    hint = page.text_content("#limits-hint")  # folded away
    assert hint.endswith("come with “codesign enumerate plain --keep usual”.")
    assert "area" in hint
    page.close()


def test_the_page_stays_small_and_its_bytes_are_the_same_again(folder, capsys):
    path = folder / "runs/kept/report.html"
    before = path.read_bytes()
    assert main(["report", "kept", "--samples", "60", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] < 6e6
    assert path.read_bytes() == before
