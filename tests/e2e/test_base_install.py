"""Without any extra codesign runs its smallest examples, and says what else would need what."""

import subprocess
import sys
from pathlib import Path

import pytest

_EVALUATE = ["evaluate", "--design", "P1", "--model", "llama-3.3-70b", "--workload", "osworld"]
_WORKS = [
    [*_EVALUATE, "--phase", "prefill"],
    ["run", "smoke", "--workers", "1"],
    ["status", "front", "smoke"],
    ["export", "smoke", "--output", "front.csv"],
]
_NEEDS = {
    "report": ["report", "figure", "smoke"],
    "page": ["report", "smoke"],
    "tables": ["export", "smoke", "--output", "front.xlsx"],
    "tpe": ["export", "smoke", "--output", "front.log"],
    "gp": ["run", "needs-gp"],
    "accuracy": ["accuracy", "quantize", "--model", ".", "--text", "a.txt"],
}


def _check(command, folder):
    (folder / "runs").mkdir()
    smoke = Path(__file__).parents[2] / "runs" / "smoke.yaml"
    needs_gp = (
        smoke.read_text("utf-8")
        .replace("[pls, random]", "[gp-ehvi]")
        .replace(": smoke", ": needs-gp")
    )
    (folder / "runs" / "needs-gp.yaml").write_text(needs_gp, encoding="utf-8")
    for arguments in _WORKS:
        done = _run([*command, *arguments], folder)
        assert done.returncode == 0, done.stderr
    for extra, arguments in _NEEDS.items():
        done = _run([*command, *arguments], folder)
        assert done.returncode == 2
        assert f"needs an optional part: pip install 'codesign[{extra}]'" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def _run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_wheel_without_extras_runs_the_examples_and_names_the_extra_of_the_rest(tmp_path):
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, *pip, "wheel", "--no-deps", "-w", str(tmp_path), str(root)], check=True
    )
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "base")], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    constraints = ["--constraint", str(root / "constraints.txt")]
    binaries = tmp_path / "base" / "bin"
    subprocess.run([binaries / "python", *pip, "install", *constraints, str(wheel)], check=True)
    (tmp_path / "work").mkdir()
    _check([str(binaries / "codesign")], tmp_path / "work")
