"""``codesign report``: the page in a browser, as a reader uses it, and the command's answers.

A Chromium on the machine opens the file offline; where there is none, the tests of the browser are
skipped.
"""

import csv
import io
import json
import re
import shutil
import sys
import time
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from lxml import etree

from codesign import api
from codesign.base.locks import exclusive
from codesign.cli import heartbeat, main
from codesign.insight.plateaus import folded_front
from codesign.report import meeting_sheet
from codesign.report.labels import format_setting
from codesign.report.page import html_page
from codesign.report.paper import save_slide
from codesign.search.campaign.exact_results import joined

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
_MOST_PX = {390: 6639, 1280: 4870}
"""Half of a page that no reader came to the end of."""
_HANG_MS = 120_000
"""However loaded a machine is, a page that has not answered by then never will."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
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
            campaign = api.load_campaign(name)
            campaign.run()
            if name == "small":
                campaign.exact_front()
            _write_page(name, 8 if name == "small" else 0)
    return folder


def _write_page(name, samples=8):
    assert main(["report", name, "--samples", str(samples), "--json"]) == 0


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
    for loop in ("draws over the ranges", "designs around the front", "designs to explain"):
        assert re.search(rf"s: {loop} \d+ of ", said), loop


def test_a_meeting_sheet_has_the_question_the_reason_the_front_and_the_die(folder, monkeypatch):
    import pptx  # here and not in each process that lists the tests

    assert main(["report", "small", "--samples", "8", "--output", "sheet.svg", "--json"]) == 0
    text = (folder / "sheet.svg").read_text(encoding="utf-8")
    assert "paint-order: stroke" in text  # no line crosses letters
    text = re.sub(r"</tspan>\s*<tspan[^>]*>", " ", text)
    for words in ("Which designs trade throughput against TDP best", "the most throughput per TDP",
                  "Limited by", "How sure", "Bill of materials", "TDP at most 300 W", ">array<",
                  "Frugal: lowest TDP", "5 mm"):  # fmt: skip
        assert words in text, words
    assert main(["report", "small", "--samples", "0", "--output", "sheet.pdf"]) == 0
    box = re.search(rb"/MediaBox \[ *0 0 ([\d.]+) ([\d.]+)", (folder / "sheet.pdf").read_bytes())
    assert [float(x) / 72 * 25.4 for x in box.groups()] == pytest.approx([297, 210], abs=1.0)
    slides = [folder / name for name in ("sheet.pptx", "again.pptx")]
    sheets = []

    def save(pieces, _, *size):
        sheets.append(pieces)
        return [save_slide(pieces, path, *size) for path in slides].pop()

    monkeypatch.setattr(meeting_sheet, "save_slide", save)
    assert main(["report", "small", "--samples", "8", "--output", slides[0].name]) == 0
    assert slides[0].read_bytes() == slides[1].read_bytes()
    assert {entry.date_time[0] for entry in ZipFile(slides[0]).filelist} == {1980}  # no clock
    (slide,) = pptx.Presentation(slides[0]).slides
    picture, *native = slide.shapes
    assert picture.image.content_type == "image/png"
    assert "the most throughput per TDP" in native[1].text_frame.text
    (pieces,) = sheets
    rows = [words.split("\t") for block, *_ in pieces if not isinstance(block, str)
            for words, *_ in block.lines if "\t" in words]  # fmt: skip
    cells = [[cell.text for cell in row.cells] for shape in native if shape.has_table
             for row in shape.table.rows]  # fmt: skip
    assert cells == rows and {"throughput", "Bill of materials"} < {name for name, _ in rows}
    vectors = [part.blob for part in slide.part.package.iter_parts()
               if part.content_type == "image/svg+xml"]  # fmt: skip
    (vector,) = vectors
    assert b">array<" in vector and b"Limited by" not in vector  # texts are no picture
    assert b"softmax" in vector and b"% of the time of one pass" in vector
    assert 'r:embed="' in etree.tostring(picture.element).decode()


def test_a_slide_without_its_writer_is_refused_in_one_line_before_anything_is_worked_out(
    folder, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "pptx", None)
    monkeypatch.setattr(api, "_judge", lambda *_: None)
    assert main(["report", "small", "--output", "none.pptx"]) == 2
    assert "needs an optional part: pip install 'codesign[slides]'" in capsys.readouterr().err
    assert not (folder / "none.pptx").exists()
    assert main(["report", "small", "--output", "none.ppt"]) == 2
    assert "expected a file that ends in .html, .png, .svg" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["smalll"], "Did you mean 'small'"),
        (["smoke"], "has no results yet; 'codesign run smoke' starts it"),
        (["smoke", "--folder", "no"], "'codesign run smoke --folder no' starts it"),
        (["smoke", "--folder", "my own"], "'codesign run smoke --folder 'my own'' starts it"),
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
    assert main(["report", "broken", "--samples", "0", "--json", "--folder", "runs"]) == 0
    page = (folder / "runs/broken/report.html").read_text(encoding="utf-8")
    assert "Not finished: " in page and "“codesign run broken --folder runs” goes on" in page


def test_a_page_is_written_anew_until_the_campaign_ends(folder, break_off, monkeypatch, capsys):
    text = _CAMPAIGN.replace("budget: 30", "budget: 40")
    (folder / "runs/live.yaml").write_text(text, encoding="utf-8")
    campaign = api.load_campaign("live")
    break_off(campaign)
    page = folder / "runs/live/report.html"
    seen = []

    with contextmanager(lambda: _holding(campaign.folder / "lock"))() as release:

        def let_go(seconds):
            if seconds < 1:  # looking whether the lock is held
                return
            seen.append((seconds, "Still running: " in page.read_text(encoding="utf-8")))
            release()

        monkeypatch.setattr(time, "sleep", let_go)
        assert main(["report", "live", "--every", "7", "--samples", "0"]) == 0
    assert seen == [(7.0, True)]
    assert "Still running: " not in page.read_text(encoding="utf-8")
    assert "again in 7 s while the campaign runs" in capsys.readouterr().err


def _holding(lock):
    """The lock of a campaign as its runner holds it, with a way to let go."""
    held = exclusive(lock)
    held.__enter__()
    is_held = [True]

    def release():
        if is_held.pop():
            held.__exit__(None, None, None)

    yield release


# The browser.


@contextmanager
def _opened(browser, folder, name, width=1280, scheme="light"):
    """The page of a campaign; no error and no request beyond the file may have come up."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 500,
        permissions=["clipboard-read", "clipboard-write"],
    )  # fmt: skip
    context.set_default_timeout(_HANG_MS)
    context.set_offline(True)
    page = context.new_page()
    errors = []
    requests = []
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
    """The page with nothing selected, folded, filtered or sorted, and no design beside another."""
    shared.evaluate("sessionStorage.clear()")
    if shared.locator("#clear").is_visible():
        shared.click("#clear")
    shared.fill("#filter", "")
    shared.select_option("#scope", "whole")
    shared.select_option("#pick-A", "")
    shared.select_option("#pick-B", "")
    return shared


def _slot(page, slot):
    return page.locator(f"#slot-{slot} h3").first.inner_text()


def _shown():
    """What the page of ``small`` shows: the searched designs with the exact front."""
    campaign = api.load_campaign("small")
    searched = campaign.results()
    return joined(searched, campaign.exact_results(searched.exact))


def _front():
    shown = _shown()
    return [
        {key: format_setting(value) for key, value in shown.design(position).items()}
        | {name: float(values[position]) for name, values in shown.metrics.items()}
        for position in shown.front().tolist()
    ]


def _cells(page, title):
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
            page.wait_for_function(f"document.documentElement.scrollWidth <= {resized}")
            most = _MOST_PX.get(resized, 4870)
            assert page.evaluate("document.documentElement.scrollHeight") <= most


def test_the_front_is_drawn_where_it_is(page, folder):
    places = page.locator("#front .wide .g-front[data-id]").evaluate_all(
        "(all) => all.map((x) => [Number(x.dataset.id), x.cx.baseVal.value, x.cy.baseVal.value])"
    )
    front = _front()
    assert sorted(number for number, _, _ in places) == list(range(len(front)))
    rows = [front[number] for number, _, _ in places]
    for name, at in (("tdp_watts", 1), ("throughput_tokens_per_s", 2)):
        values = np.array([float(row[name]) for row in rows])
        pixels = np.array([place[at] for place in places])
        slope, offset = np.polyfit(values, pixels, 1)
        assert np.abs(slope * values + offset - pixels).max() < 0.11  # a tenth of a pixel is kept


def _folded():
    folded = folded_front(_shown())
    assert 0 < len(folded.kept) < len(folded.positions)
    return folded


@pytest.fixture
def unsorted(browser, folder):
    """A page of its own, since an order once chosen stays."""
    with _opened(browser, folder, "small") as page:
        yield page


def test_the_table_folds_the_front_and_a_click_unfolds_it(unsorted, folder):
    page, folded = unsorted, _folded()
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
    page.locator(f'#rows button[data-slot="A"][data-number="{int(below[0][1:]) - 1}"]').click()
    assert f"front, within 2 % of #{host + 1}" in page.inner_text("#slot-A")
    button.focus()
    page.keyboard.press("Enter")
    assert len(_cells(page, "#")) == len(folded.kept)
    page.select_option("#scope", "whole")
    assert len(_cells(page, "#")) == len(folded.positions)


def test_a_click_takes_a_design_and_shift_the_next_one_beside_it(page):
    points = page.locator("#front .wide .g-front[data-id]")
    first, last = points.first, points.last
    first.dispatch_event("click")
    assert _slot(page, "A").startswith(f"A: #{int(first.get_attribute('data-id')) + 1}")
    last.dispatch_event("click", {"shiftKey": True})
    assert _slot(page, "B").startswith(f"B: #{int(last.get_attribute('data-id')) + 1}")
    assert page.locator("#front .wide .taken").count() >= 2
    page.locator("#compare-box summary").click()
    table = page.inner_text("#compare")
    assert "B against A" in table and "★ throughput" in table and "%" in table
    page.locator("#compare-box summary").click()


def test_a_pointer_on_a_point_says_what_its_design_is(page):
    page.locator("#front .wide .g-front[data-id='0']").dispatch_event("pointerover")
    text = page.inner_text("#tip")
    assert text.startswith("#1 front\n") and "matrix array" in text and "throughput: " in text


def test_a_box_selects_and_a_tick_rings_a_point(page):
    page.evaluate("window.scrollTo(0, 0)")
    box = page.locator("#front .wide svg").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2, steps=4)
    page.mouse.up()
    page.select_option("#scope", "selected")
    assert page.locator("#rows tbody tr").count() >= len(_front())
    page.click("#clear")
    page.select_option("#scope", "whole")
    page.locator("#rows tbody input").nth(3).check()
    ringed = page.locator("#front .wide .g-front.selected")
    assert [ringed.get_attribute("data-id")] == ["3"]


def test_a_chart_can_be_read_and_used_from_the_keyboard(page):
    chart = page.locator("#front .wide svg")
    assert chart.get_attribute("aria-label").startswith("Exact front: throughput against TDP.")
    chart.focus()
    page.keyboard.press("ArrowRight")
    said = page.text_content("#announcement")
    assert said.startswith("1 of ") and "throughput: " in said
    for _ in range(100):
        if "#" in page.text_content("#announcement"):
            break
        page.keyboard.press("ArrowRight")
    page.keyboard.press("b")
    assert _slot(page, "B").startswith("B: ")
    page.keyboard.press(" ")
    assert page.locator("#clear").is_visible()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")


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


def test_a_design_without_charts_says_how_to_get_them(page):
    page.select_option("#scope", "all")
    page.locator("#rows tbody tr").last.locator('button[data-slot="B"]').click()
    assert "“codesign report small --design NUMBER” adds them" in page.inner_text("#slot-B")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 900)])
def test_the_first_screen_has_the_question_and_the_recommendation_with_its_reason(
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
        heading = page.inner_text(".recommendation h2")
        assert heading == "Recommended: the most throughput per TDP"
        assert re.search(r"Take design #\d+: .* matrix array", page.inner_text(".recommendation"))
        assert "less throughput per TDP" in page.inner_text(".recommendation")
        parts = [".recommendation .main-figure", ".recommendation ul"]
        parts += ["#front .wide svg"] if width > 500 else []
        for part in parts:
            box = page.locator(part).first.bounding_box()
            assert box["y"] + box["height"] <= height, part
            assert box["x"] + box["width"] <= width
        titles = page.locator("#picks thead a").all_inner_texts()
        assert {"Frugal", "Fastest"} <= set(titles)


def test_the_recommendation_says_what_limits_it_and_how_sure_that_is(page):
    text = page.inner_text(".recommendation")
    assert re.search(r"busy [\d.]+\s% of the pass", text)
    text = page.inner_text(".sure")
    assert " samples of their ranges, " in text and "; another choice dominates in " in text
    assert "Profile plain: the choice " in text
    assert "Not answered: simulation (" in text  # it has no such profile
    assert "Not answered: interval of speeds (profile memexplorer" in text
    page.locator("#picks thead a").nth(2).click()
    assert _slot(page, "A").startswith("A: #")


def test_no_code_name_is_read_outside_of_sources_and_commands(page):
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    text = page.evaluate(
        """() => { const box = document.querySelector("main").cloneNode(true);
          box.querySelectorAll("#sources, code, option").forEach((part) => part.remove());
          return box.textContent; }"""
    )
    text = re.sub(r"“codesign[^”]*”", "", text)
    assert not re.findall(r"[a-z]+[a-z0-9]*_[a-z0-9_]+|\b(?:act|eq)/ws\b", text)
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = false; })")


def test_paper_is_white_and_cuts_nothing_off(dark_phone, tmp_path):
    page = dark_phone
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#filter").is_hidden() and page.locator(".recommendation").is_visible()
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").stat().st_size > 20_000
    page.emulate_media(media="screen")


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
               item.labels?.[0]?.textContent.trim() || item.hidden))
             .map((item) => item.outerHTML)"""
    )
    assert nameless == []


@pytest.mark.slow
def test_a_page_that_follows_a_run_keeps_the_readers_place(folder, browser, break_off, monkeypatch):
    text = _CAMPAIGN.replace("budget: 30", "budget: 40")
    (folder / "runs/followed.yaml").write_text(text, encoding="utf-8")
    campaign = api.load_campaign("followed")
    break_off(campaign)
    shown = folder / "runs/watched/report.html"
    shown.parent.mkdir()
    with contextmanager(lambda: _holding(campaign.folder / "lock"))() as release:

        def let_go(seconds):
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
          .concat([document.getElementById("clear").textContent, scrollY,
            document.querySelector(".box").scrollTop, document.activeElement.id,
            document.querySelector("[aria-sort=ascending]").textContent])"""
        before = page.evaluate(place)
        assert before[3:5] == ["Clear selection (1)", 700]
        page.evaluate("window.isOld = true")
        page.wait_for_function("window.isOld === undefined")
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate(place) == before
        page.uncheck("#follow")  # and it stays as it is
        page.evaluate("window.isOld = true")
        page.wait_for_timeout(3_500)
        assert page.evaluate("window.isOld")


def test_three_objectives_have_three_linked_panels(three):
    three.locator("#rows tbody input").first.check()
    number = three.locator("#rows tbody input").first.get_attribute("data-select")
    marks = three.locator(f"#front .wide .g-front.selected[data-id='{number}']")
    assert marks.count() == 3
    three.click("#clear")


def test_what_was_chosen_outlives_a_reload(page):
    page.locator('#rows button[data-slot="A"][data-number="4"]').click()
    page.fill("#filter", "lpddr")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert _slot(page, "A").startswith("A: #5 ")
    assert page.input_value("#filter") == "lpddr"


def test_without_javascript_the_front_is_still_there(browser, folder, capsys):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "runs/small/report.html").as_uri())
    shown = [int(text) for text in page.locator("noscript tbody th").all_inner_texts()]
    assert shown == (_folded().kept + 1).tolist()
    assert "The sliders and the sortable table need JavaScript" in page.inner_text("body")
    context.close()
