"""Folders that are copied while a run writes, that cannot be written, or that are very full."""

import csv
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codesign.cli import main

pytestmark = pytest.mark.slow

_SPACE = "parameters: {x1: {low: 0, high: 4095}, x2: {low: 0, high: 4095}}\n"
_CAMPAIGN = """\
space: wide
evaluator: {name: benchmark-functions, function: zdt1, steps: 4095}
objectives: [minimize f1, minimize f2]
optimizers: [random]
initial: 10
"""
_CODESIGN = [sys.executable, "-c", "import sys; from codesign.cli import main; sys.exit(main())"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A function: a working folder with the campaign ``trial``."""
    (tmp_path / "spaces").mkdir()
    (tmp_path / "runs").mkdir()
    (tmp_path / "spaces" / "wide.yaml").write_text(_SPACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def define(name, budget, batch):
    text = f"{_CAMPAIGN}budget: {budget}\nbatch: {batch}\n"
    Path("runs", f"{name}.yaml").write_text(text)


def ends_clearly(words, folder):
    """True if a command succeeds; False if one line says why not."""
    done = subprocess.run(
        [*_CODESIGN, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "defect" not in done.stderr
    assert (done.returncode, len(errors)) in {(0, 0), (2, 1)}, done.stderr
    return done.returncode == 0


def copied(source, target):
    """Copy a folder, file by file, without those that vanish meanwhile."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            try:
                shutil.copyfile(path, place)
            except FileNotFoundError:
                continue


def test_a_copy_of_a_running_store_goes_on_to_the_same_end_or_says_why_not(folder):
    define("trial", 150, 1)
    copies = []
    with subprocess.Popen(
        [*_CODESIGN, "run", "trial", "--workers", "1"], cwd=folder, stderr=subprocess.DEVNULL
    ) as run:
        while run.poll() is None:
            if (folder / "runs" / "trial" / "campaign.sqlite").exists() and len(copies) < 6:
                copies.append(folder.parent / f"{folder.name}-{len(copies)}")
                copied(folder, copies[-1])
            time.sleep(0.05)
    assert run.returncode == 0
    assert len(copies) > 2
    expected = (folder / "runs" / "trial" / "front.csv").read_bytes()
    for copy in copies:
        if ends_clearly(["run", "trial", "--workers", "1"], copy):
            assert (copy / "runs" / "trial" / "front.csv").read_bytes() == expected


def test_where_nothing_can_be_written_reading_works_and_the_rest_is_one_line(folder, tmp_path):
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("nothing takes the rights of root away here")
    define("trial", 30, 10)
    assert main(["run", "trial"]) == 0
    paths = [*folder.rglob("*"), folder]
    for path in paths:
        path.chmod(path.stat().st_mode & 0o555)
    without_rights = [setpriv, "--bounding-set=-all", "--inh-caps=-all"]
    is_readable = {}
    try:
        for words in (
            ["status", "trial"], ["status", "front", "trial"], ["status", "verify", "trial"],
            ["export", "trial", "--format", "csv", "--output", "-"], ["run", "trial"],
            ["report", "trial", "--output", "page.html"],
        ):  # fmt: skip
            done = subprocess.run(
                [*without_rights, *_CODESIGN, *words], capture_output=True, text=True, check=False
            )
            errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert (done.returncode, len(errors)) in {(0, 0), (2, 1)}, done.stderr
            assert all("Permission denied" in line for line in errors), errors
            is_readable[" ".join(words[:2])] = done.returncode == 0
    finally:
        for path in paths:
            path.chmod(0o755)
    assert {name for name, value in is_readable.items() if value} == {
        "status trial", "status front", "status verify", "export trial"
    }  # fmt: skip


def test_a_folder_of_a_thousand_runs_is_listed_and_each_goes_on(folder, capsys):
    define("trial", 20, 10)
    assert main(["run", "trial"]) == 0
    for i in range(1000):
        shutil.copyfile("runs/trial.yaml", f"runs/trial-{i}.yaml")
        shutil.copytree("runs/trial", f"runs/trial-{i}")
    capsys.readouterr()
    assert main(["list", "campaigns"]) == 0
    assert capsys.readouterr().out.count("20 of 20 (100 %)") == 1001
    assert main(["run", "trial-999"]) == 0
    assert main(["status", "verify", "trial-999"]) == 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_million_rows_are_exported(folder, ending):
    define("trial", 1_000_000, 100_000)
    assert main(["run", "trial"]) == 0
    assert main(["export", "trial", "--scope", "all", "--output", f"all.{ending}"]) == 0
    if ending == "csv":
        with Path("all.csv").open(newline="") as file:
            assert sum(1 for _ in csv.reader(file)) == 1_000_001
    assert Path(f"all.{ending}").stat().st_size > 5e6
