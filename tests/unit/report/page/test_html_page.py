"""The file: what it says of the campaign, and that it is whole."""

import base64
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from codesign.base.failures import Failure
from codesign.report.page.facts import digest
from codesign.report.page.html_page import write_page


def _packed(text, name):
    found = re.search(rf'<script type="application/octet-stream" id="{name}">([^<]*)<', text)
    return gzip.decompress(base64.b64decode(found[1])).decode("utf-8")


@pytest.fixture
def written(results, status, tmp_path):
    def write(state="complete", changed=None):
        path = write_page(
            tmp_path / "page.html", results if changed is None else changed, status(state)
        )
        return path.read_text(encoding="utf-8")

    return write


def test_the_same_results_give_the_same_bytes(written):
    assert written() == written()


def test_the_data_come_back_whole(written, results):
    text = written()
    data = json.loads(_packed(text, "data"))
    assert data["designs"]["n_front"] == len(results.front())
    assert "{{" not in text


def test_what_the_campaign_calls_itself_is_text_and_not_markup(written):
    text = written()
    assert "Is &lt;b&gt; &amp; &quot;c&quot; shown as it is written?" in text
    assert "Is <b>" not in text


def test_nothing_is_fetched_from_anywhere(written):
    own = written().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", own)
    assert "http" not in own


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("running", "Still running: 180 of 360 designs evaluated."),
        ("stopped", "Not finished: 180 of 360 designs evaluated. “codesign run by-hand” goes on"),
    ],
)
def test_an_unfinished_campaign_says_so(written, state, said):
    assert said in written(state)
    assert said not in written("complete")


def test_a_campaign_without_a_feasible_design_says_so(written, results, with_observations):
    changed = with_observations(results, feasible=np.zeros(len(results), dtype=bool))
    text = written(changed=changed)
    assert "None of the 180 evaluated designs keeps every limit." in text
    data = json.loads(_packed(text, "data"))
    assert data["designs"]["n_front"] == 0 < data["designs"]["n"]


def test_a_campaign_without_an_observation_says_so(written, results):
    assert "No design has been evaluated yet." in written(changed=_first(results, 0))


def _first(results, n):
    names = ("run_index", "step", "batch", "hypervolume")
    cut = {name: getattr(results, name)[:n] for name in names}
    return replace(results, **cut, observations=results.observations.part(slice(n)))


def test_the_sources_say_what_was_asked_and_with_what_it_was_made(written):
    foot = written().partition('<dl class="facts">')[2]
    said = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", foot))
    assert said["space"].startswith("memexplorer, ") and said["seeds"] == "0, 1, 2"
    assert said["workload"] == "model llama-3.3-70b, trace osworld, phase prefill"
    assert said["constraints"].startswith("TDP at most 700 W, SRAM dies or banks")
    assert said["time"] == "9 s of computing, all runs together"  # six runs of 1.5 s
    assert said["versions"] == "codesign 0.0, numpy 0.0"
    assert said["evaluated"].startswith("180, of which ")


def test_the_digest_is_that_of_what_was_asked_and_of_nothing_else(results):
    same = digest(_first(results, 10))
    assert re.fullmatch("[0-9a-f]{16}", same) and same == digest(results)
    definition = results.definition
    assert digest(replace(results, definition=definition.model_copy(update={"budget": 31}))) != same
    problem = replace(results.problem, constraints=())
    assert digest(replace(results, problem=problem)) != same


def test_reasons_of_failures_are_counted(written, results, with_observations):
    unlicensed = Failure("failed", "no license")
    failures = {0: unlicensed, 1: unlicensed, 2: Failure("timeout", "time is <up>")}
    objectives = results.objectives.copy()
    objectives[:3] = np.nan
    changed = with_observations(results, objectives=objectives, failures=failures)
    text = written(changed=changed)
    assert "2 evaluations failed: no license" in text
    assert "1 evaluations failed (timeout): time is &lt;up&gt;" in text


def test_a_page_reloads_itself_only_while_the_campaign_runs(results, status, tmp_path):
    path, periods = tmp_path / "page.html", []
    for state in ("running", "complete"):
        text = write_page(path, results, status(state), every_s=5.0).read_text(encoding="utf-8")
        periods.append(json.loads(_packed(text, "data"))["every_s"])
    assert periods == [5.0, None]
