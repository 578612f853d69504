"""The sliders of the page look up the answers that Python worked out."""

import json

import pytest

from codesign import api
from codesign.cli import main

_CAMPAIGN = """\
space: memexplorer
evaluator: {name: npu, profile: plain}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 400]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, vector_length: 2048,
        sram_3d_layers: 0, tier2_stacks: 1, tier3_technology: none, storage_priority: equal,
        dataflow: os, bandwidth_priority: equal}
optimizers: [random]
initial: 4
budget: 8
reference_sample: 32
workers: 1
"""
_HANG_MS = 600_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of ``kept`` the usual metrics are kept."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _build(folder, "kept", 0, "--keep", "usual")
    return folder


def _build(folder, name, samples, *keep):
    (folder / "runs" / f"{name}.yaml").write_text(_CAMPAIGN, encoding="utf-8")
    api.load_campaign(name).run()
    assert main(["enumerate", name, *keep, "--json"]) == 0
    assert main(["report", name, "--samples", str(samples), "--json"]) == 0


def _open(browser, folder, name, width=1280):
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


def _slide(page, i, place):
    slider = page.locator(f"#limit-{i}")
    slider.evaluate("(x, place) => { const isUpper = x.labels[0].textContent.endsWith('at most'); "
                    "x.value = isUpper ? x.max - place : place; "
                    "x.dispatchEvent(new Event('input', { bubbles: true })); }", place)  # fmt: skip


def _text(page, selector):
    """Text of an element; on the page, numbers stay beside their units."""
    return page.inner_text(selector).replace("\xa0", " ")


def _limits(page):
    return [text.partition(" at ")[0] for text in page.locator("#sliders label").all_inner_texts()]


def test_usual_metrics_have_sliders_and_an_answer_is_that_of_the_kept_front(page):
    titles = _limits(page)
    assert {"throughput", "TDP", "area", "unit cost"} <= set(titles)
    kept = api.load_campaign("kept").stored_kept_front()
    place = titles.index("TDP")
    _slide(page, place, int(page.locator(f"#limit-{place}").get_attribute("max")) - 1)
    bound = float(page.locator(f"#limit-{place}").get_attribute("aria-valuetext").split()[1])
    front = kept.positions({"tdp_watts": bound})
    drawn = page.locator("#front .wide .g-tighter.shown").count()
    assert drawn == len(front)
    line = page.locator("#front .wide .g-moved.shown")
    assert line.get_attribute("data-t") == f"TDP ≤ {bound:g} W"
    best = -kept.front.objectives[front, 0].min()
    shown = page.locator("#within tr", has_text="throughput").locator("td").last.inner_text()
    assert float(shown.split()[0].replace(",", "")) == pytest.approx(best, rel=2e-3)
    assert "The front's best throughput " in page.inner_text("#limits-change")
    page.click("#limits-reset")
    assert page.locator("#front .wide .g-tighter.shown").count() == 0


def test_two_limits_at_a_time_are_tightened_and_the_others_wait(page):
    _slide(page, 0, 2)
    _slide(page, 1, int(page.locator("#limit-1").get_attribute("max")))
    others = range(2, len(_limits(page)))
    assert all(page.locator(f"#limit-{i}").is_disabled() for i in others)
    page.click("#limits-reset")
    assert all(page.locator(f"#limit-{i}").is_enabled() for i in others)


def test_a_slider_moves_by_keyboard_and_outlives_a_reload(page):
    slider = page.locator("#limit-1")
    slider.focus()
    page.keyboard.press("ArrowLeft")  # tighter
    text = slider.get_attribute("aria-valuetext")
    assert text.startswith("≤ ") and text in _text(page, "#limits-change")
    assert float(text.split()[1]) < 400
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#limit-1").get_attribute("aria-valuetext") == text
    page.click("#limits-reset")


def test_limits_that_nothing_keeps_say_so(page):
    for i in (0, 1):
        _slide(page, i, int(page.locator(f"#limit-{i}").get_attribute("max")))
    assert "No design meets all these limits." in page.inner_text("#limits-change")
    page.click("#limits-reset")


def test_without_kept_metrics_every_limit_has_a_slider_that_says_what_is_not_proven(
    browser, folder
):
    _build(folder, "bare", 8)
    page = _open(browser, folder, "bare")
    assert _limits(page) == ["throughput", "TDP", "area", "unit cost"]
    assert page.locator("#limit-1").get_attribute("aria-valuetext") == "≤ 400 W as asked"
    _slide(page, 1, 0)  # looser than 400 W
    assert "Not proven: the best of " in page.inner_text("#limits-change")
    _slide(page, 1, 3)
    assert "Not proven" not in page.inner_text("#limits-change")
    page.click("#limits-reset")
    page.locator("#choices-moved select").first.select_option("without HBM")
    assert page.locator("#front .wide .g-tighter.shown").count()
    assert "HBM" not in page.inner_text("#within")
    assert "memories without HBM: " in page.inner_text("#limits-change")
    assert "explain memories bare” proves" in page.inner_text("#limits")
    assert page.locator("#choices-moved select").nth(1).is_disabled()
    page.click("#limits-reset")
    steps = _text(page, "#limits")
    assert steps.count("instead of 400 W") == 2 and "best values stay the same" in steps
    page.close()


def test_the_page_stays_small_and_its_bytes_are_the_same_again(folder, capsys):
    path = folder / "runs/kept/report.html"
    before = path.read_bytes()
    assert len(before) < 6e6
    assert main(["report", "kept", "--samples", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == len(before)
    assert path.read_bytes() == before
