"""``codesign report``: the page in a browser, as a reader uses it, and the command's answers.

A Chromium on the machine opens the file offline; where there is none, the tests of the browser are
skipped.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from codesign import api
from codesign.cli import heartbeat, main
from codesign.insight.plateaus import folded_front
from codesign.report.labels import format_setting, format_value
from codesign.report.page import html_page
from codesign.search.campaign.exact_results import joined
from codesign.search.campaign.lock import exclusive

_CAMPAIGN = """\
space: memexplorer
evaluator: {name: npu, profile: memexplorer}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 300]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, vector_length: 2048,
        tier2_technology: none, storage_priority: equal, dataflow: os, bandwidth_priority: equal}
optimizers: [random, nsga2]
budget: 30
seeds: 2
reference_sample: 64
workers: 1
"""
_WIDTHS = (390, 1280, 1920)
_HANG_MS = 600_000
"""However loaded a machine is, a page that has not answered by then never will."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A working folder: ``small`` was run and enumerated, ``three`` has three objectives.

    ``never``, which is not run, has no feasible design.
    """
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    three = _CAMPAIGN.replace("minimize tdp_watts]", "minimize tdp_watts, minimize phase_time_s]")
    never = _CAMPAIGN.replace("tdp_watts <= 300", "tdp_watts <= 3")
    three = three.replace("budget: 30", "budget: 20").replace("seeds: 2", "seeds: 1")
    for name, text in {"small": _CAMPAIGN, "three": three, "never": never}.items():
        (folder / "runs" / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("small", "three"):
            assert main(["run", name, "--json"]) == 0
        assert main(["enumerate", "small", "--json"]) == 0
        for name in ("small", "three"):
            _write_page(name)
    return folder


def _write_page(name: str) -> None:
    assert main(["report", name, "--samples", "8", "--json"]) == 0


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)


# The command.


def test_the_command_says_what_it_wrote(folder, capsys):
    assert main(["report", "small", "--samples", "0", "--output", "here/page.html", "--json"]) == 0
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert (said["files"], said["state"], err) == (["here/page.html"], "complete", "")
    assert said["bytes"] == (folder / "here/page.html").stat().st_size < 6e6


def test_writing_again_gives_the_same_bytes_and_says_meanwhile_how_far_it_is(
    folder, capsys, monkeypatch
):
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.001)
    before = (folder / "runs/small/report.html").read_bytes()
    assert main(["report", "small", "--samples", "8", "--json"]) == 0
    assert (folder / "runs/small/report.html").read_bytes() == before
    said = capsys.readouterr().err
    for loop in ("draws over the ranges 4 of 8 (50.0 %)", "designs around the front 0 of ",
                 "designs to explain 1 of "):  # fmt: skip
        assert f"s: {loop}" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["smalll"], "Did you mean 'small'"),
        (["smoke"], "has no results yet; 'codesign run smoke' starts it"),
        (["small", "--output", "runs"], "is a folder, expected a file to write"),
        (["small", "--every", "0"], "'--every': expected at least 1"),
        (["small", "--evry", "3"], "no such option: --evry"),
        (["small", "--design", "99999"], "the numbers of the page, got 99999"),
        (["small", "--design", "Bse"], "unknown design 'Bse'. Did you mean 'Base'? Known: (1 to "),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_file(folder, capsys, monkeypatch, arguments, said):
    monkeypatch.setattr(html_page, "page_document", None)  # nothing is worked out before
    before = sorted(path for path in folder.rglob("*") if "lock" not in path.name)
    assert main(["report", *arguments]) == 2
    out, err = capsys.readouterr()
    assert said.lower() in err.lower() and "Traceback" not in err and out == ""
    assert sorted(path for path in folder.rglob("*") if "lock" not in path.name) == before


def test_a_campaign_broken_off_gives_a_page_that_says_so(folder, break_off):
    text = _CAMPAIGN.replace("budget: 30", "budget: 60")
    (folder / "runs/broken.yaml").write_text(text, encoding="utf-8")
    break_off(api.load_campaign("broken"))
    assert main(["report", "broken", "--samples", "0", "--json"]) == 0
    page = (folder / "runs/broken/report.html").read_text(encoding="utf-8")
    assert "Not finished: " in page and "“codesign run broken” goes on from there." in page


def test_a_page_is_written_anew_until_the_campaign_ends(folder, break_off, monkeypatch, capsys):
    text = _CAMPAIGN.replace("budget: 30", "budget: 40")
    (folder / "runs/live.yaml").write_text(text, encoding="utf-8")
    campaign = api.load_campaign("live")
    break_off(campaign)
    page = folder / "runs/live/report.html"
    seen = []

    with contextmanager(lambda: _holding(campaign.folder / "lock"))() as release:

        def let_go(seconds: float) -> None:
            seen.append((seconds, "Still running: " in page.read_text(encoding="utf-8")))
            release()

        monkeypatch.setattr(time, "sleep", let_go)
        assert main(["report", "live", "--every", "7", "--samples", "0"]) == 0
    assert seen == [(7.0, True)]
    assert "Still running: " not in page.read_text(encoding="utf-8")
    assert "again in 7 s while the campaign runs" in capsys.readouterr().err


def _holding(lock: Path) -> Iterator:
    """The lock of a campaign as its runner holds it, with a way to let go."""
    held = exclusive(lock)
    held.__enter__()
    is_held = [True]

    def release() -> None:
        if is_held.pop():
            held.__exit__(None, None, None)

    yield release


# The browser.


@contextmanager
def _opened(browser, folder: Path, name: str, width: int = 1280, scheme: str = "light"):
    """The page of a campaign; no error and no request beyond the file may have come up."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 500,
        permissions=["clipboard-read", "clipboard-write"],
    )  # fmt: skip
    context.set_default_timeout(_HANG_MS)
    context.set_offline(True)
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: requests.append(request.url))
    page.goto((folder / f"runs/{name}/report.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    yield page
    assert errors == []
    assert [url for url in requests if url.split(":")[0] not in ("file", "data", "blob")] == []
    context.close()


@pytest.fixture(scope="module")
def shared(browser, folder):
    """One page for all tests: to open it takes most of the time of each."""
    with _opened(browser, folder, "small") as page:
        yield page


@pytest.fixture(scope="module")
def dark_phone(browser, folder):
    """One page on a dark phone, for all tests of it."""
    with _opened(browser, folder, "small", 390, "dark") as page:
        yield page


@pytest.fixture(scope="module")
def three(browser, folder):
    """The page of the campaign with three objectives."""
    with _opened(browser, folder, "three") as page:
        yield page


@pytest.fixture
def page(shared):
    """The page with nothing selected, folded, filtered or sorted, and nothing taken as a design."""
    shared.evaluate("sessionStorage.clear()")
    shared.click("#clear")
    shared.fill("#filter", "")
    shared.select_option("#scope", "whole")
    shared.select_option("#pick-A", "")
    shared.select_option("#pick-B", "")
    shared.check('input[name="next"][value="A"]')
    return shared


_PIXEL = """([chart, trace, at]) => {
  const box = document.getElementById(chart), full = box._fullLayout;
  const mine = box._fullData.find((item) => item.name === trace);
  const place = box.getBoundingClientRect();
  const x = full.xaxis, y = full.yaxis;
  return {id: mine.customdata[at], x: place.x + x._offset + x.d2p(mine.x[at]),
          y: place.y + y._offset + y.d2p(mine.y[at])};
}"""


_POINTED = """([chart, id]) => (document.getElementById(chart)._hoverdata || [])
  .some((point) => point.customdata === id)"""


def _click(page, trace: str, at: int, chart: str = "front-chart") -> int:
    page.locator(f"#{chart}").scroll_into_view_if_needed()
    place = page.evaluate(_PIXEL, [chart, trace, at])
    page.mouse.move(place["x"], place["y"])
    page.wait_for_function(_POINTED, arg=[chart, place["id"]])  # it looks now and then
    page.mouse.click(place["x"], place["y"])
    page.wait_for_timeout(100)
    return place["id"]


def _slot(page, slot: str) -> str:
    return page.locator(f"#slot-{slot} h3").first.inner_text()


def _shown():
    """What the page of ``small`` shows: the searched designs with the exact front."""
    campaign = api.load_campaign("small")
    searched = campaign.results()
    return joined(searched, campaign.exact_results(searched.exact))


def _front() -> list[dict[str, Any]]:
    shown = _shown()
    return [
        {key: format_setting(value) for key, value in shown.design(position).items()}
        | {name: float(values[position]) for name, values in shown.metrics.items()}
        for position in shown.front().tolist()
    ]


def _open_all(page) -> None:
    """Unfold what is folded, and wait until the charts in it are drawn."""
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    page.click("#tab-lines")
    page.wait_for_function(
        "[...document.querySelectorAll('.chart')].every((chart) => chart._fullLayout)"
    )


def _cells(page, title: str) -> list[str]:
    headers = [text.rstrip(" ▲▼") for text in page.locator("#rows thead th").all_inner_texts()]
    column = headers.index(title) + 1
    return page.locator(f"#rows tbody td:nth-child({column})").all_inner_texts()


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("small", 390, "dark"),
        pytest.param("three", 1280, "light", marks=pytest.mark.slow),
        pytest.param("never", 1920, "light", marks=pytest.mark.slow),
    ],
)
def test_it_opens_offline_shuts_no_reader_out_and_never_scrolls_sideways(
    request, browser, folder, name, width, scheme
):
    from axe_playwright_python.sync_playwright import Axe

    if name == "never":
        assert main(["run", name, "--json"]) == 1
        _write_page(name)
    with (
        nullcontext(request.getfixturevalue("dark_phone")) if scheme == "dark"
        else _opened(browser, folder, name, width, scheme)
    ) as page:  # fmt: skip
        audit = Axe().run(page)
        assert audit.violations_count == 0, audit.generate_report()
        assert page.locator("#problem").is_hidden()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 27)"
        assert dark == (scheme == "dark")
        for resized in _WIDTHS:
            page.set_viewport_size({"width": resized, "height": 900})
            page.wait_for_timeout(300)  # the charts follow a little later
            page.wait_for_function(f"document.documentElement.scrollWidth <= {resized}")


def test_the_front_is_drawn_where_it_is(page, folder, capsys):
    wanted = [(float(row["tdp_watts"]), float(row["throughput_tokens_per_s"])) for row in
              _front()]  # fmt: skip
    drawn = page.evaluate(
        """() => { const t = document.getElementById("front-chart")._fullData
             .find((item) => item.name === "front"); return t.x.map((x, i) => [x, t.y[i]]); }"""
    )
    assert sorted(map(tuple, drawn)) == sorted(wanted)


def _folded():
    folded = folded_front(_shown())
    assert 0 < len(folded.kept) < len(folded.positions)
    return folded


def test_the_table_folds_the_front_and_a_click_unfolds_it(page, folder):
    folded = _folded()
    page.select_option("#scope", "front")
    assert _cells(page, "#") == [f"#{place + 1}" for place in folded.kept]
    host = next(place for place in folded.kept.tolist() if len(folded.folded_under(place)))
    button = page.locator(f'[data-unfold="{host}"]')
    assert button.inner_text() == folded.count_words(host)
    button.click()
    below = [f"#{place + 1}" for place in folded.folded_under(host)]
    cells = _cells(page, "#")
    at = cells.index(f"#{host + 1}")
    assert cells[at + 1 : at + 1 + len(below)] == below
    assert _cells(page, "status")[at + 1] == f"front, within 2 % of #{host + 1}"
    assert button.get_attribute("aria-expanded") == "true"
    page.locator(f'#rows button[data-slot="A"][data-id="{int(below[0][1:]) - 1}"]').click()
    assert f"It is within 2 % of #{host + 1}, which is cheaper: " in page.inner_text("#slot-A")
    button.focus()
    page.keyboard.press("Enter")
    assert len(_cells(page, "#")) == len(folded.kept)
    page.select_option("#scope", "whole")
    assert len(_cells(page, "#")) == len(folded.positions)


@pytest.mark.slow
def test_a_page_without_a_tolerance_folds_nothing(browser, folder):
    arguments = ["report", "small", "--tolerance", "0", "--samples", "0"]
    assert main([*arguments, "--output", "runs/exact/report.html"]) == 0
    with _opened(browser, folder, "exact") as page:
        assert page.locator("#rows tbody tr").count() == len(_folded().positions)
        assert page.locator("[data-unfold]").count() == 0
        assert page.locator('#scope option[value="whole"]').count() == 0


def test_a_click_takes_a_design_and_the_next_one_beside_it(page):
    first = _click(page, "front", 0)
    assert _slot(page, "A").startswith(f"A: #{first + 1} ")
    page.check('input[name="next"][value="B"]')
    second = _click(page, "front", 3)
    assert _slot(page, "B").startswith(f"B: #{second + 1} ")
    titles = page.locator("#slot-B h3").all_inner_texts()
    assert titles[1:6] == [
        "Memory hierarchy", "Roofline", "Time by operator and what bounds it",
        "Power by component", "Traffic by memory level",
    ]  # fmt: skip
    assert "What moves TDP" in titles
    names = page.locator("#compare tbody td:first-child").all_inner_texts()
    assert "★ throughput" in names and "★ TDP" in names


def test_edge_that_is_not_charged_is_drawn_to_scale_and_said(page):
    names = page.locator("#pick-A option").all_inner_texts()
    name = next(text for text in names if "LPDDR6×8" in text and "HBM" not in text)
    page.select_option("#pick-A", label=name)
    chart = page.locator("#slot-A .chart").first
    chart.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('#slot-A .chart')._fullLayout?.shapes?.length")
    layout = chart.evaluate(
        """(box) => ({ texts: box._fullLayout.annotations.map((item) => item.text),
             dotted: box._fullLayout.shapes.filter((item) => item.line.dash === "dot")
               .map((item) => [item.x0, item.x1]) })"""
    )
    # MemExplorer Table 1: 4.5 mm for a package of LPDDR6; 6 % are left free at either end.
    assert "Edge for memory: 0 of 66 mm; 36 mm of LPDDR not charged" in layout["texts"]
    assert "dotted: not charged to that edge" in layout["texts"]
    assert len(layout["dotted"]) == 8
    assert layout["dotted"][-1] == pytest.approx([7.06 * 4.5, 7.94 * 4.5])
    levels = page.locator("#slot-A .levels").inner_text()
    assert "36 mm of edge, not charged" in levels


def test_a_box_selects_in_every_view(page):
    _open_all(page)
    chart = page.locator("#front-chart .nsewdrag").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + box["height"] - 3, steps=4)
    page.mouse.up()
    page.wait_for_function("parseInt(document.getElementById('selected-count').textContent) > 10")
    shown = page.evaluate(
        """() => ["front", "named design"].flatMap((name) =>
             document.getElementById("front-chart")._fullData
             .find((item) => item.name === name).customdata).length"""
    )
    count = int(page.locator("#selected-count").inner_text().split()[0].replace(",", ""))
    assert count == shown > 10
    n_front = page.locator("#rows tbody tr").count()
    assert page.locator("#rows tbody tr.selected").count() == n_front
    ringed = """(chart) => document.getElementById(chart)._fullData
                  .some((item) => item.name === "selected" && item.x.length > 0)"""
    assert page.evaluate(ringed, "front-chart") and page.evaluate(ringed, "lines-chart")
    page.click("#clear")
    assert page.locator("#rows tbody tr.selected").count() == 0
    assert not page.evaluate(ringed, "front-chart")


def test_no_button_sends_anything_away(page):
    buttons = page.locator("#front-chart .modebar-btn").all()
    titles = [button.get_attribute("data-title") for button in buttons]
    assert "Box Select" in titles and "Lasso Select" in titles
    assert not [title for title in titles if "hare" in title or "loud" in title or "end" in title]


def test_numbers_are_printed_as_in_the_terminal(page):
    numbers = [(8.192e11, "B/s"), (0.0125, "s"), (6908.4, "s"), (65.51, "s"), (561.94, "W")]
    script = files("codesign.report.page").joinpath("static/format.js").read_text(encoding="utf-8")
    print_all = f"(all) => {{ {script}; return all.map(([x, unit]) => withPrefix(x, unit)); }}"
    printed = page.evaluate(print_all, numbers)
    assert printed == [format_value(value, unit) for value, unit in numbers]


def test_axes_are_logarithmic_on_request(page):
    kinds = """() => ["xaxis", "yaxis"].map((axis) =>
                 document.getElementById("front-chart")._fullLayout[axis].type)"""
    assert page.evaluate(kinds) == ["linear", "linear"]
    page.check("#log")
    assert page.evaluate(kinds) == ["log", "log"]
    page.uncheck("#log")
    assert page.evaluate(kinds) == ["linear", "linear"]


def test_ticking_a_row_rings_its_point(page):
    page.locator("#rows tbody input").nth(3).check()
    ringed = page.evaluate(
        """() => document.getElementById("front-chart")._fullData
             .find((item) => item.name === "selected").customdata"""
    )
    assert ringed == [3]


def test_filter_and_order_are_those_of_the_exported_front(page, folder, capsys):
    page.fill("#filter", "lpddr5x tdp<150")
    wanted = [row for row in _front() if row["tier1_technology"] == "lpddr5x"
              and float(row["tdp_watts"]) < 150]  # fmt: skip
    assert 0 < len(wanted) < len(_front())
    assert page.locator("#rows tbody tr").count() == len(wanted)
    page.fill("#filter", "")
    page.locator('#rows th button[data-sort="TDP"]').click()
    shown = [float(text.removesuffix(" W")) for text in _cells(page, "TDP")]
    assert shown == sorted(shown)
    page.locator('#rows th button[data-sort="TDP"]').click()
    assert [float(text.removesuffix(" W")) for text in _cells(page, "TDP")] == shown[::-1]
    assert page.locator('th[aria-sort="descending"]').inner_text() == "TDP ▼"


@pytest.mark.parametrize(
    ("typed", "said"),
    [("thruput>3", "no metric is called “thruput”"), ("tdp<3x", "“3x” is no number")],
)
def test_a_filter_that_cannot_be_meant_says_so(page, typed, said):
    page.fill("#filter", typed)
    assert said in page.locator("#table-count").inner_text()


def test_the_download_has_the_numbers_of_the_export_to_the_last_digit(page, folder, capsys):
    with page.expect_download() as told:
        page.click("#download")
    assert told.value.suggested_filename == "small.csv"
    got = list(csv.DictReader(io.StringIO(Path(told.value.path()).read_text(encoding="utf-8"))))
    wanted = _front()
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine["pe_array"] == theirs["pe_array"]
        for name in ("throughput_tokens_per_s", "tdp_watts", "energy_joules_per_token"):
            assert float(mine[name]) == float(theirs[name])


def test_copy_puts_what_is_shown_on_the_clipboard(page):
    page.fill("#filter", "#1")
    page.click("#copy")
    page.wait_for_function(
        "async () => (await navigator.clipboard.readText()).startsWith('design,')"
    )
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].startswith("design,status,words,")
    assert lines[1].startswith("#1,") and "front" in lines[1]
    assert len(lines) == 2


def test_everything_a_click_does_can_be_done_from_the_keyboard(page):
    page.locator(".skip").focus()
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.url.endswith("#front")
    page.locator('#rows button[data-slot="B"][data-id="1"]').focus()
    page.keyboard.press("Enter")
    assert _slot(page, "B").startswith("B: #2 ")
    assert page.evaluate("document.activeElement.dataset.id") == "1"
    page.locator("#pick-A").focus()
    page.keyboard.press("Home")
    assert page.locator("#slot-A").inner_text().startswith("No design A yet")


# Charts by keyboard.


def _said(page) -> str:
    return page.locator("#said").inner_text()


def _press(page, *keys: str) -> str:
    for key in keys:
        page.keyboard.press(key)
    return _said(page)


def test_arrows_step_along_the_front_in_the_order_of_its_axis(page, folder, capsys):
    by_tdp = sorted(enumerate(_front(), start=1), key=lambda item: float(item[1]["tdp_watts"]))
    numbers = [number for number, _ in by_tdp]
    page.locator("#log").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "front-chart"
    steps = [_press(page, "Home")] + [_press(page, "ArrowRight") for _ in numbers[1:]]
    n = len(numbers)
    for at, (number, text) in enumerate(zip(numbers, steps, strict=True), start=1):
        assert text.startswith(f"front {at} of {n}: #{number} front, ")
    assert _press(page, "ArrowRight") == steps[-1] == _press(page, "Home", "End")
    assert f"TDP: {float(by_tdp[-1][1]['tdp_watts']):.4g} W" in steps[-1]
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    page.wait_for_selector("#front-chart .hoverlayer .hovertext")
    ring = page.evaluate("getComputedStyle(document.getElementById('front-chart')).outlineWidth")
    assert ring == "3px"


def test_a_point_is_taken_and_selected_by_keyboard(page):
    page.locator("#front-chart").focus()
    third = _press(page, "Home", "ArrowRight", "ArrowRight").split("#")[1].split()[0]
    page.keyboard.press("a")
    assert _slot(page, "A").startswith(f"A: #{third} ")
    page.wait_for_function("document.getElementById('said').textContent.includes('as design A')")
    fourth = _press(page, "ArrowRight").split("#")[1].split()[0]
    page.keyboard.press("b")
    assert _slot(page, "B").startswith(f"B: #{fourth} ")
    page.keyboard.press("Space")
    assert page.locator("#selected-count").inner_text() == "1 selected."
    page.wait_for_function("document.getElementById('said').textContent.endsWith('Selected.')")
    assert _press(page, "ArrowRight").startswith("front 5 of ")  # marks shift no place
    page.keyboard.press("Enter")
    assert _slot(page, "A").startswith(f"A: #{_said(page).split('#')[1].split()[0]} ")
    page.keyboard.press("Escape")
    page.wait_for_selector("#front-chart .hovertext", state="detached")
    assert page.evaluate("document.activeElement === document.body")


def test_up_and_down_change_the_series_and_keep_the_design(page):
    page.locator("#front-chart").focus()
    page.keyboard.press("Home")
    assert _press(page, "ArrowDown").startswith("recommended 1 of 3: ")
    design = _press(page, "End").split("#")[1].split()[0]
    assert _press(page, "ArrowUp").split("#")[1].split()[0] == design
    assert _press(page, "ArrowDown", "ArrowDown").startswith("named design ")
    # Below the last series there is none.
    assert _press(page, "ArrowDown").startswith("named design ")


def test_every_chart_can_be_reached_and_says_what_it_shows(page):
    page.locator('#rows button[data-slot="A"][data-id="0"]').click()
    page.locator('#rows button[data-slot="B"][data-id="3"]').click()
    _open_all(page)
    charts = page.locator(".chart")
    names = [chart.get_attribute("aria-label") for chart in charts.all()]
    assert len(names) == len(set(names)) > 14
    for chart in charts.all():
        assert chart.get_attribute("tabindex") == "0"
        assert chart.get_attribute("aria-describedby") == "keys"
        chart.focus()
        text = _press(page, "End", "Home")
        assert "1 of " in text and "undefined" not in text and "<" not in text


def test_page_down_goes_to_the_next_panel_with_the_same_design(three):
    page = three
    page.locator("#front-chart").focus()
    design = _press(page, "Home", "ArrowRight").split("#")[1]
    for panel in (2, 3):
        text = _press(page, "PageDown")
        assert text.startswith(f"Panel {panel} of 3, front ") and text.split("#")[1] == design
    # Marks that come into earlier panels move nobody.
    bare = design.removesuffix(" Taken as design A.")
    page.keyboard.press("a")
    page.keyboard.press("Space")
    page.wait_for_function("document.getElementById('said').textContent.endsWith(' Selected.')")
    assert _said(page).split("#")[1] == f"{bare} Taken as design A. Selected."
    assert page.locator("#panel-keys").is_visible()


# What is there and what is not.


@pytest.mark.slow
def test_a_design_without_a_diagram_says_how_to_get_one(page, folder, browser):
    page.select_option("#scope", "all")
    page.fill("#filter", "tdp<300")
    first = page.locator('#rows td.nowrap:has-text("design")').first.inner_text()
    page.locator(f'#rows button[aria-label="Take {first} as design A"]').click()
    text = page.locator("#slot-A").inner_text()
    number = first.split()[1]
    assert "It is dominated: #" in text and f"--design {number}”" in text
    assert page.locator("#compare-title").inner_text() == "Settings and metrics of design A"
    page.select_option("#scope", "front")
    arguments = ["report", "small", "--design", number, "--samples", "0"]
    assert main([*arguments, "--output", "runs/more/report.html", "--json"]) == 0
    with _opened(browser, folder, "more") as other:
        other.select_option("#pick-A", str(int(number) - 1))
        assert "Roofline" in other.locator("#slot-A h3").all_inner_texts()
        assert "for those that were asked for" in other.locator("#chosen-hint").inner_text()


def test_a_design_over_a_limit_says_which_one(page):
    page.select_option("#scope", "all")
    page.fill("#filter", "tdp>300")
    row = page.locator('#rows tbody tr:has-text("over a limit")').first
    row.locator('button[data-slot="A"]').click()
    assert "It breaks tdp_watts <= 300 (by " in page.locator("#slot-A").inner_text()
    page.select_option("#scope", "front")


def test_regret_has_ticks_of_one_two_and_five_and_a_band(page):
    _open_all(page)
    ticks, bands = page.evaluate(
        """() => { const box = document.getElementById("regret-chart"); return [
             box._fullLayout.yaxis.ticktext,
             box._fullData.filter((item) => item.fill === "toself").length]; }"""
    )
    assert bands == 2 and len(ticks) >= 3
    assert {text.replace("0", "").replace(".", "")[0] for text in ticks} <= {"1", "2", "5"}


# The first screen, and what is written on charts.


@pytest.mark.parametrize(
    ("width", "height"), [(390, 844), pytest.param(1280, 900, marks=pytest.mark.slow)]
)
def test_the_first_screen_has_the_question_and_three_designs(
    request, browser, folder, width, height
):
    with (
        nullcontext(request.getfixturevalue("dark_phone")) if width < 500
        else _opened(browser, folder, "small", width)
    ) as page:  # fmt: skip
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("window.scrollTo(0, 0)")
        assert page.inner_text("h1") == (
            "Which designs trade throughput against TDP best for Llama-3.3-70B prefill (OSWorld), "
            "TDP at most 300 W?"
        )
        cards = page.locator("#cards .card")
        titles = [text.split()[0] for text in cards.locator("h3").all_inner_texts()]
        assert titles == ["Frugal", "Knee", "Fastest"]
        for place in range(3):
            parts = [".main-figure", ".card-link"]
            if width < 600:  # what limits it, how sure
                parts += ["ul.short-words li:first-child", "ul.short-words li:last-child"]
                assert cards.nth(place).locator("ul.short-words").inner_text().startswith("Busy: ")
                assert "hoice holds: " in cards.nth(place).inner_text()
            for part in parts:
                box = cards.nth(place).locator(part).last.bounding_box()
                assert box["y"] + box["height"] <= height, (place, part)
                assert box["x"] + box["width"] <= width


def test_a_card_says_what_limits_its_design_and_how_sure_that_is(page):
    text = page.locator("#cards .card").nth(1).inner_text()
    assert "WHAT LIMITS IT" in text.upper() and " a pass: " in text
    assert "busy 100 %" in text
    total = page.locator("#parts table").first.locator("tr.total td").nth(1).inner_text()
    assert f"{total} a pass: " in text
    n = len(_folded().kept)
    assert "draws over their ranges: limits kept in " in text
    assert "Profile plain: the choice " in text
    note = page.inner_text("#cards-note")
    assert f"no other of the {n} designs to choose from is at least as good in everything" in note
    assert "Profile plain: operands are tiled for the on-chip memory" in note
    assert "Small numbers: 5 to 95 % of 8 draws" in note
    assert "Not asked: simulation: " in text  # it has no such profile
    page.locator("#cards .card").nth(2).locator("[data-take]").click()
    fastest = max(float(row["throughput_tokens_per_s"]) for row in _front())
    value = float(page.locator("#compare tr", has_text="★ throughput").locator("td").nth(1)
                  .inner_text().split()[0].replace(",", ""))  # fmt: skip
    assert value >= fastest / 1.02


_VERDICT = """([feasible, best, ratio]) => badges({ verdicts: [{ reading: "profile x", n: 6,
  feasible, best, ratios: { tdp_watts: ratio } }] }, null).map(([text]) => text)"""


_PRICES = """
const color = String, picks = [{ key: "frugal", id: 0 }, { key: "fastest", id: 1 }];
const priced = { title: "array", usd: 100 }, unpriced = { title: "tier 1", usd: null };
const accounts = [{ costs: [priced, unpriced] }, { costs: [priced, { ...unpriced, usd: 50 }] }];
const D = { picks, palette: { parts: {} } }, accountOf = (id) => accounts[id];
"""


def test_a_part_without_a_price_gives_no_total(browser):
    static = Path(html_page.__file__).parent / "static"
    names = ("format.js", "cards.js", "why.js")
    source = "".join((static / name).read_text("utf-8") for name in names)
    page = browser.new_page()
    program = f"() => {{ {_PRICES} {source}; return partsHtml(MEASURES[3]); }}"
    unknown, known, _ = page.evaluate(program).rpartition('class="total"')[2].split("</td>")
    assert "not known" in unknown
    assert "150 USD" in known
    page.close()


@pytest.mark.parametrize(
    ("feasible", "best", "ratio", "badge"),
    [
        (True, True, 1.05, []),
        (True, True, 0.02, ["profile x: TDP 50× lower"]),
        (True, True, 1.25, ["profile x: TDP +25 %"]),
        (True, False, 1.0, ["profile x: the choice changes"]),
        (False, False, 1.0, ["profile x: the choice changes"]),
    ],
)
def test_a_badge_tells_a_choice_that_changes_from_numbers_that_do(
    browser, feasible, best, ratio, badge
):
    static = Path(html_page.__file__).parent / "static"
    source = "".join((static / name).read_text("utf-8") for name in ("format.js", "cards.js"))
    page = browser.new_page()
    known = 'const metricOf = { tdp_watts: { title: "TDP" } };'
    program = f"(verdict) => {{ {known} {source}; return ({_VERDICT})(verdict); }}"
    assert page.evaluate(program, [feasible, best, ratio]) == badge
    page.close()


_OVERPRINTS = """() => [...document.querySelectorAll(".chart")].flatMap((chart) => {
  const boxes = [...chart.querySelectorAll(".annotation-text")].filter((item) => item.textContent)
    .map((item) => [item.textContent, item.getBoundingClientRect()]);
  return boxes.flatMap(([text, a], i) => boxes.slice(i + 1)
    .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
    .map(([other]) => `${chart.id}: ${text} / ${other}`)); })"""


@pytest.mark.parametrize("name", ["small", pytest.param("three", marks=pytest.mark.slow)])
def test_no_label_overprints_another_at_any_width(request, name):
    page = request.getfixturevalue({"small": "page"}.get(name, name))
    for width in _WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "(width) => document.getElementById('front-chart')._fullLayout.width <= width",
            arg=width,
        )
        page.wait_for_timeout(400)  # labels are placed after the chart is drawn
        assert page.evaluate(_OVERPRINTS) == []
    labels = page.locator("#front-chart .annotation-text").all_text_contents()
    assert any(text.startswith("Frugal") for text in labels)
    assert name != "small" or "TDP at most 300 W" in labels
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_roof_is_named_further_along_where_its_beginning_is_taken(browser):
    source = (Path(html_page.__file__).parent / "static" / "placing.js").read_text("utf-8")
    roof = '{ px: 0, py: 50, text: "vector unit", size: 11, isLine: true }'
    taken = "{ x0: 0, x1: 90, y0: 0, y1: 100 }"
    placed = f"placeLabels([{roof}], {{ w: 400, h: 100 }}, [{taken}])"
    page = browser.new_page()
    assert page.evaluate(f"() => {{ {source}; return {placed}.map((label) => label.isFar); }}") == [
        False
    ]
    page.close()


def test_bands_say_which_design_is_the_choice_from_where(page):
    page.click("#tab-bands")
    front = [row for i, row in enumerate(_front()) if i in _folded().kept]
    cheapest = min(front, key=lambda row: row["tdp_watts"])
    row = page.locator(".bands").first.get_attribute("aria-label")
    assert row.startswith(f"pe array: {cheapest['pe_array']} from {cheapest['tdp_watts']:.4g} W")
    widths = (
        page.locator(".bands")
        .first.locator(".band")
        .evaluate_all("(bands) => bands.map((band) => band.getBoundingClientRect().width)")
    )
    whole = page.locator(".bands").first.bounding_box()["width"]
    assert sum(widths) == pytest.approx(whole, rel=0.01)


@pytest.mark.parametrize("width", [390, 1280])
def test_every_band_is_named_in_it_or_below_it(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(400)
    page.click("#tab-bands")
    unnamed = page.locator("#bands .bands").evaluate_all(
        """(rows) => rows.flatMap((row) => [...row.children]
             .filter((band) => band.firstChild.style.visibility === "hidden")
             .filter((band) => !row.nextElementSibling.textContent.includes(band.dataset.said)))"""
    )
    assert unnamed == []
    page.set_viewport_size({"width": 1280, "height": 900})


def test_what_is_neither_better_nor_worse_is_not_judged_and_kelvins_are_no_percent(page):
    page.select_option("#pick-A", "0")
    page.select_option("#pick-B", label=page.locator("#pick-B option").last.inner_text())
    page.uncheck("#only-different")
    rows = page.locator("#compare tbody tr:not(.subject)").evaluate_all(
        """(rows) => Object.fromEntries(rows.map((row) => [row.cells[0].innerText.trim(),
             [row.cells[3].innerText, row.cells[3].className]]))"""
    )
    page.check("#only-different")
    assert rows["junction temperature"][0].split()[1] == "K"
    assert "better" not in rows["bandwidth utilization"][1]
    assert "worse" not in rows["bandwidth utilization"][1]


def test_differences_are_grouped_and_in_percent(page):
    page.select_option("#pick-A", "0")
    page.select_option("#pick-B", "1")
    subjects = page.locator("#compare tr.subject").all_inner_texts()
    assert subjects[:2] == ["Speed", "Power"] and "Choices" in subjects
    first, second = _front()[:2]
    change = 100 * (second["tdp_watts"] / first["tdp_watts"] - 1)
    cell = page.locator("#compare tr", has_text="★ TDP").locator("td").last.inner_text()
    assert float(cell.split(" %")[0].replace("−", "-")) == pytest.approx(change, rel=0.5, abs=0.6)


# Phone, paper, and a page that follows a run.


def test_the_table_scrolls_in_its_own_box_under_a_head_that_stays(page):
    page.select_option("#scope", "all")
    box = page.locator(".box")
    whole, shown = box.evaluate("(box) => [box.scrollHeight, box.clientHeight]")
    assert whole > shown and shown <= 0.7 * 900
    box.evaluate("(box) => box.scrollTo(0, 400)")
    tops = "(box) => [box, box.querySelector('th')].map((x) => x.getBoundingClientRect().top)"
    outer, head = box.evaluate(tops)
    assert head == pytest.approx(outer, abs=2)
    assert box.get_attribute("tabindex") == "0" and box.get_attribute("aria-label")
    page.select_option("#scope", "front")


_SMALL = """() => [...document.querySelectorAll("button, select, input, summary, nav a")]
  .filter((item) => item.checkVisibility())
  .map((item) => [item.getBoundingClientRect(), item.outerHTML.slice(0, 90)])
  .filter(([box]) => box.width && (box.width < 24 || box.height < 24)).map(([, html]) => html)"""


_ENDS = """([table, part]) => {
  const box = document.querySelector(table).parentElement, cells = {};
  for (const cell of document.querySelectorAll(`${table} ${part}tr:first-child :is(td, th)`)) {
    const title = cell.innerText.trim();
    cells[title] = Math.max(cells[title] || 0, cell.getBoundingClientRect().right);
  }
  return { cells, box: box.getBoundingClientRect().right + 0.5 };
}"""


def test_on_a_phone_words_follow_each_row_and_fingers_find_their_targets(dark_phone):
    page = dark_phone
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    rows = page.locator("#rows tbody tr")
    page.select_option("#scope", "whole")
    first, second = rows.nth(0).inner_text(), rows.nth(1)
    assert "#1" in first and "×" in second.inner_text()
    box = second.locator("div").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert page.evaluate(_SMALL) == []
    assert page.locator("#slot-A").is_visible() and not page.locator("#slot-B").is_visible()
    page.check('input[name="turn"][value="B"]')
    assert page.locator("#slot-B").is_visible() and not page.locator("#slot-A").is_visible()
    ends = page.evaluate(_ENDS, ["#compare", ""])  # both designs and what decides in sight
    assert "B against A" in ends["cells"] and max(ends["cells"].values()) <= ends["box"]
    ends = page.evaluate(_ENDS, ["#rows", "thead "])
    assert {"throughput", "TDP"} <= set(ends["cells"])
    assert all(ends["cells"][title] <= ends["box"] for title in ("#", "throughput", "TDP"))
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function("document.querySelector('#rows tbody tr').innerText.includes('×')")
    assert "×" in rows.nth(0).inner_text() and "#2" in rows.nth(1).inner_text()


def test_paper_is_white_and_cuts_nothing_off(dark_phone, tmp_path):
    page = dark_phone
    page.set_viewport_size({"width": 1280, "height": 900})
    wide = "document.getElementById('front-chart')._fullLayout.width > 1000"
    page.wait_for_function(wide)
    page.evaluate(
        """() => window.addEventListener("beforeprint", () => { window.printed = [
             getComputedStyle(document.documentElement).getPropertyValue("--ink"),
             Math.max(...[...document.querySelectorAll(".chart")].map((chart) =>
               (chart._fullLayout?.width ?? 0) * (chart.style.zoom || 1)))]; })"""
    )
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert page.evaluate("window.printed") == ["#1b1f23", pytest.approx(700, abs=1)]
    page.wait_for_function(wide)  # as before


def test_headings_go_down_by_one_and_every_control_has_a_name(page):
    levels = page.evaluate(
        """() => [...document.querySelectorAll("h1, h2, h3, h4")]
             .filter((item) => item.checkVisibility()).map((item) => Number(item.tagName[1]))"""
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, [role=region]")]
             .filter((item) => !(item.ariaLabel || item.textContent.trim() ||
               item.labels?.[0]?.textContent.trim() || item.dataset.title))
             .map((item) => item.outerHTML)"""
    )
    assert nameless == []
    marks = page.evaluate(
        "['header', 'nav', 'main', 'footer'].map((x) => document.querySelectorAll(x).length)"
    )
    assert marks == [1, 1, 1, 1]


@pytest.mark.slow
def test_a_page_that_follows_a_run_keeps_the_readers_place(folder, browser, break_off, monkeypatch):
    text = _CAMPAIGN.replace("budget: 30", "budget: 40")
    (folder / "runs/followed.yaml").write_text(text, encoding="utf-8")
    campaign = api.load_campaign("followed")
    break_off(campaign)
    shown = folder / "runs/watched/report.html"
    shown.parent.mkdir()
    with contextmanager(lambda: _holding(campaign.folder / "lock"))() as release:

        def let_go(seconds: float) -> None:
            shutil.copy(folder / "runs/followed/report.html", shown)
            release()

        monkeypatch.setattr(time, "sleep", let_go)
        assert main(["report", "followed", "--every", "1", "--samples", "0"]) == 0
    with _opened(browser, folder, "watched") as page:
        page.select_option("#scope", "all")
        page.fill("#filter", "tdp<5000")
        page.locator("#rows tbody tr").nth(5).locator('button[data-slot="B"]').click()
        page.locator("#rows tbody tr").nth(6).locator("input").check()
        page.locator('#rows th button[data-sort="TDP"]').click()
        page.locator(".box").evaluate("(box) => box.scrollTo(0, 120)")
        page.evaluate("window.scrollTo(0, 700)")
        page.locator("#copy").evaluate("(button) => button.focus({ preventScroll: true })")
        place = """() => ["pick-B", "scope", "filter"]
          .map((id) => document.getElementById(id).value)
          .concat([document.getElementById("selected-count").textContent, scrollY,
            document.querySelector(".box").scrollTop, document.activeElement.id,
            document.querySelector("[aria-sort=ascending]").textContent])"""
        before = page.evaluate(place)
        assert before[3:5] == ["1 selected.", 700]
        page.evaluate("window.isOld = true")
        page.wait_for_function("window.isOld === undefined")
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate(place) == before
        page.uncheck("#follow")  # and it stays as it is
        page.evaluate("window.isOld = true")
        page.wait_for_timeout(3_500)
        assert page.evaluate("window.isOld")


def test_three_objectives_have_three_linked_panels(three):
    axes = three.evaluate(
        """() => [...new Set(document.getElementById("front-chart")._fullData
             .map((item) => item.xaxis))].sort()"""
    )
    assert axes == ["x", "x2", "x3"]
    three.click("#clear")
    three.locator("#rows tbody input").first.check()
    rings = three.evaluate(
        """() => document.getElementById("front-chart")._fullData
             .filter((item) => item.name === "selected").map((item) => item.customdata)"""
    )
    assert rings == [[0], [0], [0]]


def test_regret_is_drawn_where_the_exact_front_is_known(page, three):
    _open_all(page)
    assert page.locator("#regret-chart .main-svg").count() > 0
    assert "of exact" in page.locator("#optimizer-rows thead").inner_text()
    assert three.locator("#regret-chart").count() == 0


def test_what_was_chosen_outlives_a_reload(page):
    page.locator('#rows button[data-slot="A"][data-id="4"]').click()
    page.fill("#filter", "lpddr")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert _slot(page, "A").startswith("A: #5 ")
    assert page.input_value("#filter") == "lpddr"


def test_without_javascript_the_front_is_still_there(browser, folder, capsys):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "runs/small/report.html").as_uri())
    shown = [int(text) for text in page.locator("noscript tbody td:first-child").all_inner_texts()]
    assert shown == (_folded().kept + 1).tolist()
    assert "Charts and the sortable table need JavaScript" in page.inner_text("body")
    context.close()
