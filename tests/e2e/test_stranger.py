"""A package that we have never heard of brings an evaluator, an optimizer and an export."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = '''
"""A cantilever of a given width and height: stiffness against mass."""

import numpy as np

from codesign.evaluators.base import Evaluation
from codesign.metrics import Metric
from codesign.optimizers.base import KeySet
from codesign.schema import Record


class Beam:
    class Workload(Record):
        length: float

    class Options(Record):
        density: float = 1.0

    metrics = (
        Metric("deflection_m", "minimize", "m", "of the free end under a unit load"),
        Metric("mass_kg", "minimize", "", "of the beam"),
    )
    required_parameters = frozenset({"width", "height"})
    optional_parameters = frozenset()

    def __init__(self, workload, options):
        self.workload, self.options = workload, options

    def known_violations(self, designs):
        return {}

    def evaluate(self, designs, metrics=None):
        width = designs["width"].lookup(float)
        height = designs["height"].lookup(float)
        length = self.workload.length
        values = {
            "deflection_m": 4 * length**3 / (width * height**3),
            "mass_kg": self.options.density * length * width * height,
        }
        return Evaluation({name: values[name] for name in metrics or values})

    def provenance(self):
        return {"workload": self.workload.model_dump(), "options": self.options.model_dump()}


class Backwards:
    """Walks through the space from its end."""

    class Options(Record):
        pass

    preferred_batch = 3

    def __init__(self, space, n_objectives, seed, options, reference_point=None):
        self._space, self._seen = space, KeySet()

    def ask(self, n):
        size = self._space.space.size
        rows = self._space.space.rows(np.arange(size)[::-1])
        return self._space.unseen(rows, self._seen)[:n]

    def tell(self, rows, objectives, violations, failed):
        self._seen.add(self._space.space.keys(rows))


def to_names(results, path, scope="front"):
    path.write_text(" ".join(results.metrics))
    return path
'''

ENTRY_POINTS = """
[codesign.evaluators]
beam = stranger:Beam

[codesign.optimizers]
backwards = stranger:Backwards

[codesign.exports]
names = stranger:to_names
"""

SPACE = """
description: Rectangular sections
parameters:
  width: {values: [1, 2, 3, 4], description: Across}
  height: {values: [1, 2, 3, 4, 5], description: Along the load}
constraints: [{condition: width <= height, description: Upright}]
"""

CAMPAIGN = """
name: beams
space: sections
evaluator: {name: beam, density: 2.0}
workload: {length: 3.0}
objectives: [minimize deflection_m, minimize mass_kg]
constraints: [mass_kg <= 60]
optimizers: [backwards, nsga2, random]
initial: 4
budget: 14
seeds: 1
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A working folder, and the stranger's package as an installer leaves it."""
    site = tmp_path / "site"
    info = site / "stranger-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "stranger.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    for folder, name, text in (("spaces", "sections", SPACE), ("runs", "beams", CAMPAIGN)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.yaml").write_text(text)
    return tmp_path


def codesign(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "codesign", *arguments],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(home / "site")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_strangers_plug_ins_take_part_in_a_campaign_like_ours(home: Path) -> None:
    for group in ("evaluators", "optimizers"):
        listed = codesign(home, group, "--json")
        assert {"evaluators": "beam", "optimizers": "backwards"}[group] in listed.stdout

    ran = codesign(home, "run", "beams", "--json")
    assert ran.returncode == 0, ran.stderr
    front = json.loads(codesign(home, "pareto", "beams", "--json").stdout)

    # 14 upright sections exist, so every optimizer saw all of them: the front is known.
    sections = [(w, h) for w in range(1, 5) for h in range(1, 6) if w <= h]
    scores = {(w, h): (108 / (w * h**3), 6.0 * w * h) for w, h in sections if 6 * w * h <= 60}
    best = {
        section
        for section, one in scores.items()
        if not any(
            other != one and other[0] <= one[0] and other[1] <= one[1] for other in scores.values()
        )
    }
    found = {(item["design"]["width"], item["design"]["height"]) for item in front["observations"]}
    assert found == best

    exported = codesign(home, "export", "beams", "--format", "names", "--output", "names.txt")
    assert exported.returncode == 0, exported.stderr
    assert (home / "names.txt").read_text().split() == ["deflection_m", "mass_kg"]


def test_a_plug_in_that_cannot_be_imported_is_named_in_one_line(home: Path) -> None:
    (home / "site" / "stranger.py").write_text("import nothing_of_that_name\n")
    ran = codesign(home, "run", "beams")
    assert ran.returncode == 2
    assert "beam" in ran.stderr
    assert "nothing_of_that_name" in ran.stderr
    assert "Traceback" not in ran.stderr
