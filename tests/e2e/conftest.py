"""What several tests of the command line need."""

import os
import pickle
import shutil
import signal

import pytest

from codesign.base.loop_progress import LoopProgress
from codesign.space import space_definition

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    """A Chromium on the machine; where there is none, tests that ask for it are skipped."""
    api_of_playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: it drives the browser"
    )
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        # The rest of the gate must run where nobody installed a browser.
        pytest.skip(f"none of {', '.join(_BROWSERS)} is installed")
    with api_of_playwright.sync_playwright() as playwright:
        # As root, which containers are, Chromium starts only without its sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=found, args=options)
        yield opened
        opened.close()


def _press_ctrl_c(loop, n=1):
    if loop.subject == "all evaluations":
        raise KeyboardInterrupt


@pytest.fixture(scope="session", autouse=True)
def processes_hear_an_interrupt():
    """A gate in the background may ignore Ctrl-C, and all that it begins would do so too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


_SPACES = {}
"""Spaces by all that they are built of."""
_BUILD = space_definition._build


def _build_once(*arguments):
    """Build a space unless it is there: commands load the same few for a tenth of their time."""
    key = pickle.dumps(arguments)  # eighty times as fast as its text for a system of pools
    if key not in _SPACES:
        _SPACES[key] = _BUILD(*arguments)
    return _SPACES[key]


@pytest.fixture(scope="module", autouse=True)  # a session has tests of other folders too
def _few_of_each():
    """Each space once, files of 9 draws, few pixels, designs and positions; one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(space_definition, "_build", _build_once)
        for module in ("search.campaign.campaign", "base.processes"):
            patch.setattr(f"codesign.{module}.n_cores", lambda: 1)
        # A loaded machine may take long over any command, which says nothing of it.
        patch.setattr("codesign.cli.heartbeat.EVERY_S", 1e6)
        patch.setattr("codesign.report.page.recommendations.SAMPLES", 9)
        patch.setattr("codesign.insight.explanation.moved_limits.POSITIONS", 5)
        patch.setattr("codesign.insight.explanation.moved_limits._LOOSER_POSITIONS", 2)
        patch.setattr("codesign.report.page.switches._FACTORS", {"as asked": 1.0, "× 4": 4.0})
        patch.setattr("codesign.report.page.explained.MOST_EXPLAINED", 3)
        patch.setattr("codesign.report.page.html_page.MOST_CHOICES", 0)
        patch.setattr("codesign.report.paper._USUAL_DPI", 24.0)
        for module in ("sheet_accounts", "spec_sheet"):
            patch.setattr(f"codesign.report.exports.{module}.SAMPLES", 9)
        yield


@pytest.fixture(autouse=True)
def _in_the_folder(request, monkeypatch):
    """Tests run in the folder that their module makes."""
    if hasattr(request.module, "folder"):
        monkeypatch.chdir(request.getfixturevalue("folder"))


@pytest.fixture(scope="session")
def break_off():
    """Run a campaign for one batch; its folder."""

    def run(campaign):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(LoopProgress, "advance", _press_ctrl_c)
            campaign.run()
        return campaign.folder

    return run
