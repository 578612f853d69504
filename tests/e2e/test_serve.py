"""``codesign serve`` in a browser, as a reader uses it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from codesign import api
from codesign.cli import main
from codesign.cli.mcp import TOOLS
from codesign.serve.session import session_of_campaign

_CAMPAIGN = """\
space: memexplorer
evaluator: {name: npu, profile: plain}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 300]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, sram_3d_layers: 0,
        tier2_technology: none, storage_priority: equal, dataflow: os, bandwidth_priority: equal}
optimizers: [random]
budget: 20
seeds: 1
"""
_HANG_MS = 120_000
"""However loaded a machine is, a page that has not answered by then never will."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    (folder / "runs" / "small.yaml").write_text(_CAMPAIGN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["enumerate", "small", "--json"]) == 0
    return folder


@pytest.fixture(scope="module")
def served(folder):
    """A running server and its address; interrupted at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "codesign", "serve", "small"],
        cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ, "CODESIGN_COMPILED": "0"},
    )  # fmt: skip
    assert process.stderr is not None
    # On a loaded machine lines before it say that the command goes on.
    first = next((line for line in process.stderr if line.startswith("http://127.0.0.1:")), "")
    assert first
    address = first.split()[0]
    yield process, address
    if process.poll() is None:
        process.kill()
    process.wait()
    process.stderr.close()


@pytest.fixture(scope="module")
def page(browser, served):
    """One page for all tests: to open it takes longer than any of them."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(_HANG_MS)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda item: errors.append(item.text) if item.type == "error" else None)
    page.goto(served[1])
    page.wait_for_selector("#place svg .slot")
    yield page
    assert errors == []
    page.close()


def shown(page):
    return int(page.get_attribute("html", "data-ready"))


def after(page, deed):
    """Do something and wait for the answer on the screen."""
    before = shown(page)
    deed()
    page.wait_for_selector(f'html:not([data-ready="{before}"])')


def slide(page, title, key):
    def press():
        page.get_by_label(title, exact=True).focus()
        page.keyboard.press(key)

    after(page, press)


def test_designs_of_the_front_have_the_numbers_that_they_have_everywhere(folder, monkeypatch):
    monkeypatch.chdir(folder)
    campaign = api.load_campaign("small")
    results = campaign.front_results()
    document = session_of_campaign(campaign).start()
    rows = results.rows[results.front()].tolist()
    starts = {item["name"]: item["codes"] for item in document["starts"]}
    assert next(iter(starts)).startswith("knee: front ")
    numbered = {name: name.split("front ")[1].split()[0] for name in starts if "front " in name}
    assert {name.split(":")[0] for name in numbered} >= {"knee", "frugal", "fastest"}
    assert all(starts[name] == rows[int(number) - 1] for name, number in numbered.items())
    assert document["front"]["codes"] == rows


def test_a_slider_changes_the_design_and_its_numbers_are_those_of_evaluate(
    page, folder, monkeypatch
):
    monkeypatch.chdir(folder)
    after(page, lambda: page.select_option("#start", label="Base"))
    slide(page, "vector lanes", "ArrowLeft")
    campaign = api.load_campaign("small")
    text = page.inner_text("#outcome-A")
    base = dict(campaign.problem.space.designs["Base"])
    fixed = {name: base[name] for name in base if name in campaign.problem.space.names}
    expected = api.evaluate_as(campaign, fixed | {"vector_length": 1024})
    watts = expected.metrics["tdp_watts"]
    assert f"{watts:.4g} W" in text and "1,024-lane" in text


def test_a_broken_limit_is_named_with_a_valid_choice_that_one_click_takes(page):
    after(page, lambda: page.select_option("#start", label="Base"))
    while "breaks capacity" not in page.inner_text("#outcome-A"):
        slide(page, "tier 1 stacks", "ArrowLeft")
    assert "Nearest valid choice: " in page.inner_text("#outcome-A")
    after(page, lambda: page.click("#outcome-A button"))
    assert "breaks" not in page.inner_text("#outcome-A")


def test_two_designs_stand_side_by_side_against_the_exact_front(page):
    after(page, lambda: page.select_option("#start", "0"))
    after(page, lambda: page.check('input[name="slot"][value="B"]'))
    slide(page, "vector lanes", "End")
    assert "exact front" in page.inner_text("#place")
    slots = page.locator("#place .slot").evaluate_all("(all) => all.map((x) => x.dataset.slot)")
    assert slots == ["A", "B"]
    assert page.locator("#parts-A svg.chart").count() and page.locator("#parts-B svg.chart").count()
    assert "Time line of one pass" in page.inner_text("#parts-A")
    assert "better" in page.inner_text("#outcome-B") or "worse" in page.inner_text("#outcome-B")
    page.check('input[name="slot"][value="A"]')  # as the page was


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen_and_axe_finds_nothing(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")
    violations = axe.Axe().run(page).response["violations"]
    serious = [item["id"] for item in violations if item["impact"] in ("serious", "critical")]
    assert serious == []


def test_an_interrupt_ends_the_server_without_a_traceback(served):
    process, _ = served
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    assert process.stderr.read() == "ended\n"


def test_bad_input_is_one_line(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["serve", "smal"]) == 2
    assert "Did you mean 'small'" in capsys.readouterr().err
    assert main(["serve", "small", "--model", "llama-3.3-70b"]) == 2
    assert "expected no --model" in capsys.readouterr().err
    assert main(["serve", "--model", "nothing", "--phase", "decode", "--workload", "osworld"]) == 2
    assert "--model" in capsys.readouterr().err


def test_an_agent_lists_evaluates_and_changes_no_file(folder):
    from mcp import Client, StdioServerParameters, stdio_client  # half a second of each process

    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    calls = [
        ("evaluate", {"campaign": "small", "design": "1"}),
        ("evaluate", {"campaign": "small", "design": "1", "set": ["vector_length=128"]}),
        ("enumerate", {"name": "small", "limit": 1}),
        ("show", {"words": ["devices", "h100_sxm"]}),
        ("evaluate", {"campaign": "smal"}),
        ("evaluate", {"desing": "P1"}),
        ("evaluate", {"samples": "few"}),
        ("watch", {}),
    ]

    async def answers():
        words = ["-m", "codesign", "serve", "mcp"]
        variables = {**os.environ, "CODESIGN_COMPILED": "0"}
        server = StdioServerParameters(
            command=sys.executable, args=words, cwd=folder, env=variables
        )
        async with Client(stdio_client(server)) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    with ThreadPoolExecutor() as pool:  # the browser of the tests before has a loop in this thread
        tools, results = pool.submit(asyncio.run, answers()).result()
    assert [tool.name for tool in tools] == list(TOOLS)
    assert all(tool.annotations.read_only_hint for tool in tools)
    on_front, changed, exact, device, *mistakes = results
    assert on_front.structured_content["distance"]["regret"] == 1
    assert changed.structured_content["distance"]["regret"] > 1
    dominator = changed.structured_content["distance"]["objectives"]
    assert dominator["tdp_watts"] <= changed.structured_content["metrics"]["tdp_watts"]
    assert exact.structured_content["schema"] == "codesign/enumerate/1"
    assert device.structured_content["schema"] == "codesign/device/1"
    assert json.loads(device.content[0].text) == device.structured_content
    assert [(mistake.is_error, mistake.content[0].text[:47]) for mistake in mistakes] == [
        (True, "unknown campaign 'smal'. Did you mean 'small'? "),
        (True, "evaluate: desing: unknown key 'desing'. Did you"),
        (True, "evaluate: samples: input should be a valid inte"),
        (True, "unknown tool 'watch'. Known: decide, enumerate,"),
    ]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_tools_without_their_library_name_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["serve", "mcp"]) == 2
    assert "codesign[mcp]" in capsys.readouterr().err
