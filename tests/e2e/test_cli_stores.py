"""Stores at the command line: stopped by a signal, damaged, copied, with changed inputs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from codesign.cli import main
from codesign.search.campaign import Campaign

PLUGINS = Path(__file__).parents[1] / "unit" / "search" / "campaign" / "plugins"
CAMPAIGN = {
    "space": "square",
    "evaluator": {"name": "toy", "delay_s": 0.05},
    "execution": {"isolated": False},
    "objectives": ["maximize gain_tokens", "minimize power_watts"],
    "optimizers": ["random"],
    "reference_sample": 2,
    "initial": 2,
    "batch": 1,
    "budget": 500,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A working folder with a campaign that ended, before and after its enumeration."""
    folder = tmp_path_factory.mktemp("original")
    for name in ("spaces", "runs"):
        (folder / name).mkdir()
    (folder / "spaces" / "square.yaml").write_text(
        "parameters:\n  x: {low: 0, high: 29}\n  y: {low: 0, high: 29}\n"
    )
    write(folder, evaluator="toy", budget=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        patch.chdir(folder)
        assert main(["run", "toys"]) == 0
        shutil.copytree("runs/toys", "finished")
        assert main(["enumerate", "toys"]) == 0
        Path("runs/toys").rename("enumerated")
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, original):
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.chdir(tmp_path)
    for name in ("spaces", "runs"):
        shutil.copytree(original / name, name)
    write(tmp_path)
    return tmp_path


def write(folder, **changes):
    (folder / "runs" / "toys.yaml").write_text(yaml.safe_dump({**CAMPAIGN, **changes}))


def lines_of(capsys):
    return capsys.readouterr().err.splitlines()


@pytest.fixture
def finished(folder, original):
    shutil.copytree(original / "runs", "runs", dirs_exist_ok=True)
    shutil.copytree(original / "finished", "runs/toys")
    return folder / "runs" / "toys" / "campaign.sqlite"


def test_sigterm_stops_a_campaign_as_ctrl_c_does(folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PLUGINS), *sys.path])}
    code = "import sys; from codesign.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "run", "toys", "--workers", "1"]
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    store = folder / "runs" / "toys" / "campaign.sqlite"
    while not store.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate()[1]
    assert process.returncode == 143, errors
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors
    # The log is folded into the file.
    assert store.read_bytes()[18:20] == b"\x01\x01"
    assert [path.name for path in store.parent.glob("campaign.sqlite*")] == ["campaign.sqlite"]


def test_a_disk_that_is_full_for_a_while_loses_nothing(folder):
    write(folder, evaluator="toy", budget=60)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PLUGINS), *sys.path])}
    code = (
        "import resource, sys; from codesign.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000)); sys.exit(main())"
    )
    words = [sys.executable, "-c", code, "run", "toys", "--workers", "1"]
    process = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "what was stored before is intact, run again to go on" in process.stderr
    assert "Traceback" not in process.stderr
    interrupted, undisturbed = Campaign.load("toys"), Campaign.load("toys", "undisturbed")
    assert 0 < interrupted.status().done < 60
    for campaign in (interrupted, undisturbed):
        campaign.run(workers=1)
    for name in ("rows", "objectives", "hypervolume"):
        before, after = (getattr(item.results(), name) for item in (undisturbed, interrupted))
        assert before.tobytes() == after.tobytes()
    assert not interrupted.verify()


def test_verify_finds_a_changed_byte(finished, capsys):
    assert main(["status", "toys", "--verify"]) == 0
    assert lines_of(capsys)[-1].startswith("verified: nothing is damaged in ")
    data = finished.read_bytes()
    position = data.rindex(b"random")
    finished.write_bytes(data[:position] + b"rAndom" + data[position + 6 :])
    assert main(["status", "toys", "--verify"]) == 2
    assert "is not what was written" in lines_of(capsys)[-1]


def test_a_store_with_changed_inputs_is_read_and_goes_on_when_asked(
    finished, folder, capsys, caplog
):
    write(folder, evaluator="toy", budget=8, workload={"scale": 2.0})
    assert main(["status", "front", "toys", "--json"]) == 0
    assert "today's differ: budget: 6 -> 8 and 1 more" in caplog.text
    capsys.readouterr()
    assert main(["status", "toys", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["notices"]) == 2
    assert main(["export", "toys", "--output", "all.json", "--scope", "all"]) == 0
    assert main(["report", "toys", "--samples", "4"]) == 0
    assert main(["report", "figure", "toys"]) == 0
    capsys.readouterr()
    assert main(["run", "toys"]) == 2
    assert "--accept-changes" in lines_of(capsys)[0]
    assert main(["run", "toys", "--accept-changes"]) == 0
    assert main(["export", "toys", "--output", "all.json", "--scope", "all"]) == 0
    exported = json.loads((folder / "all.json").read_text())
    assert [item["inputs"] for item in exported["observations"]] == [0] * 6 + [1] * 2


@pytest.fixture
def verified(finished, capsys):
    """Files of a verified folder with words for what is wrong with them, and the exit code."""

    def verified(place="toys"):
        capsys.readouterr()
        code = main(["status", "verify", str(place), "--json"])
        files = json.loads(capsys.readouterr().out)["files"]
        return code, {each["file"]: each["state"] for each in files if each["state"] != "intact"}

    return verified


def test_a_folder_that_nobody_changed_is_verified_also_as_a_copy_elsewhere(verified, finished):
    assert main(["enumerate", "toys"]) == main(["report", "toys", "--samples", "0"]) == 0
    assert verified() == (0, {})
    listed = json.loads((finished.parent / "manifest.json").read_text())["files"]
    assert {"campaign.sqlite", "front.csv", "report.html"} <= listed.keys()
    copy = finished.parents[2] / "copy"
    shutil.copytree(finished.parent, copy)
    (finished.parents[1] / "toys.yaml").unlink()
    assert verified(copy) == (0, {})


@pytest.mark.parametrize(
    ("name", "damage", "state"),
    [
        ("front.csv", lambda content: content.replace(b"1", b"2", 1), "changed"),
        ("front.csv", None, "missing"),
        ("campaign.sqlite", lambda content: content[:-5000], "damaged"),
        ("campaign.sqlite", lambda content: content.replace(b"random", b"rAndom"), "damaged"),
        ("exact-*", lambda content: content[:-50], "damaged"),
        ("front.yaml", lambda content: content + b"#", "changed"),
    ],
)
def test_a_file_that_is_not_what_was_written_is_found(
    verified, finished, original, name, damage, state
):
    shutil.copytree(original / "enumerated", finished.parent, dirs_exist_ok=True)
    (path,) = finished.parent.glob(name)
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    code, files = verified()
    assert (code, files[path.name]) == (2, state)


def test_a_table_of_another_store_is_found(verified, finished, folder):
    write(folder, evaluator="toy", budget=6, workload={"scale": 2.0})
    (folder / "other").mkdir()
    assert main(["run", "toys", "--folder", "other"]) == 0
    shutil.copy("other/toys/campaign.sqlite", finished)
    code, files = verified()
    assert (code, files["front.csv"]) == (2, "changed")


def test_files_of_earlier_results_and_of_nobody_are_told_from_damaged_ones(
    verified, finished, folder
):
    (finished.parent / "notes.txt").write_text("mine")
    write(folder, evaluator="toy", budget=9)
    Campaign.load("toys").run(workers=1, accept_changes=True)  # writes no tables
    code, files = verified()
    assert (code, files.pop("notes.txt")) == (0, "unlisted")
    assert set(files) == {"convergence.png", "front.csv", "front.png", "front.yaml"}
    assert set(files.values()) == {"outdated"}


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]"])
def test_a_manifest_that_is_not_there_or_damaged_verifies_nothing(finished, capsys, content):
    manifest = finished.with_name("manifest.json")
    if content is None:
        manifest.unlink()
    else:
        manifest.write_bytes(content)
    assert main(["status", "verify", "toys"]) == 2
    expected = "expected manifest.json" if content is None else "manifest.json: is damaged"
    assert expected in lines_of(capsys)[-1]
