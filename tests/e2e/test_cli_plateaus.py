"""What people get of a front with plateaus, and what programs get."""

from pathlib import Path

import pytest

import codesign
from codesign.cli import main
from codesign.insight.plateaus import folded_front

_CAMPAIGN = """\
space: memexplorer
evaluator: {name: npu, profile: plain}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
fixed: {pe_array: [1024, 128], vector_length: 1024, dataflow: ws, tier3_technology: none,
        weight_format: mxint8, activation_format: mxint8, kv_format: mxint8}
optimizers: [random]
budget: 60
reference_sample: 64
workers: 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with a campaign whose designs are bound by the one array."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    (folder / "runs" / "plateau.yaml").write_text(_CAMPAIGN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run", "plateau", "--json"]) == 0
    return folder


@pytest.fixture
def folded(folder, monkeypatch):
    monkeypatch.chdir(folder)
    folded = folded_front(codesign.load_campaign("plateau").results())
    assert 0 < len(folded.kept) < len(folded.positions)
    return folded


def _export(file, *arguments):
    assert main(["export", "plateau", "--output", file, *arguments]) == 0
    return Path(file).read_text("utf-8")


def _numbers(page):
    return [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][2:]


def test_a_page_for_people_folds_the_front_and_a_file_for_programs_does_not(folded):
    page = _export("front.md")
    assert folded.summary in page
    assert _numbers(page) == [str(place + 1) for place in folded.kept]
    assert len(_numbers(_export("whole.md", "--scope", "front"))) == len(folded.positions)
    assert len(_export("front.csv").splitlines()) - 1 == len(folded.positions)
    assert len(_export("few.csv", "--scope", "folded").splitlines()) - 1 == len(folded.kept)


def test_a_folded_design_can_be_exported_and_the_file_names_the_cheaper_one(folded, capsys):
    place = next(at for at, host in enumerate(folded.under.tolist()) if at != host)
    host = int(folded.under[place])
    sheet = ("--format", "spec-sheet", "--design")
    said = f"front {place + 1} is within 2 % of front {host + 1}, which is cheaper: "
    assert said in _export("x.md", *sheet, str(place + 1))
    assert f"note: {said}" in " ".join(capsys.readouterr().out.split())
    assert folded.count_words(host) in _export("y.md", *sheet, str(host + 1))
    assert "which is cheaper" not in capsys.readouterr().out
