"""Off-chip traffic of matrix products against the best mapping that AccelForge finds.

The products are layers of Llama-3, Qwen3 and DeepSeek-V3, and attention. Each is alone on a machine
of one off-chip memory and on-chip memory of five sizes: operands of one byte, sums of four.
AccelForge minimizes the bytes that cross; ours is the best dataflow of profile ``plain``. It runs
in an environment of its own; its answers are kept as data.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.hardware.array import DATAFLOWS
from codesign.models.machines.npu.traffic import ACCUMULATOR_BYTES, blocked_passes
from codesign.report.exports.scalesim import ScaleSimProduct
from codesign.report.simulators.accelforge import PROGRAM, WORKLOAD
from codesign.report.simulators.environments import install, is_installed, run_with
from validation.studies.study import DATA, Study, comparison, count_promise, summarize

_KEPT = DATA / "best_mappings.csv"
_COLUMNS = ("on_chip_bytes", "m", "k", "n", "bytes")
_WITHIN = 0.15
_ARCHITECTURE = """\
mapper: {{explore_imperfect_temporal_loops: true}}
arch:
  nodes:
  - !Memory
    name: OffChip
    size: 1e18
    leak_power: 0
    area: 0
    actions:
    - {{name: read, energy: 0.125, throughput: 8}}
    - {{name: write, energy: 0.125, throughput: 8}}
    tensors: {{keep: ~Intermediates, may_keep: All}}
  - !Memory
    name: OnChip
    size: {bits}
    leak_power: 0
    area: 0
    actions:
    - {{name: read, energy: 0, throughput: inf}}
    - {{name: write, energy: 0, throughput: inf}}
    tensors: {{may_keep: All}}
  - !Compute
    name: Array
    leak_power: 0
    area: 0
    actions: [{{name: compute, energy: 0, throughput: inf}}]
"""
"""A joule and a second for every byte off chip, nothing for all else."""


def run(seed: int = 0, size: int | None = None) -> Study:
    """Compare with AccelForge's kept answers, or with those that it gives now for ``size`` cases.

    Raises:
        InputError: No Python for AccelForge.
        JobError: AccelForge cannot be installed, or fails.
    """
    with _KEPT.open(encoding="utf-8") as file:
        version = file.readline().split()[-1]
        cases = np.array([[float(row[name]) for name in _COLUMNS] for row in csv.DictReader(file)])
    if size is not None:
        cases = cases[:size]
        if not is_installed("accelforge"):
            install("accelforge")
        cases[:, 4] = [mapped_bytes(*map(round, case[:4])) for case in cases]
    return compare(version, cases)


def mapped_bytes(on_chip_bytes: int, m: int, k: int, n: int) -> float:
    """Least off-chip bytes of a product, by AccelForge."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("machine.yaml", "product.yaml")]
        texts = (
            _ARCHITECTURE.format(bits=8 * on_chip_bytes),
            WORKLOAD.format(item=ScaleSimProduct("product", m, n, k, 1), bits="A: 8, W: 8, C: 32"),
        )
        for file, text in zip(files, texts, strict=True):
            file.write_text(text, encoding="utf-8")
        answer = run_with("accelforge", PROGRAM, *map(str, files))
    return float(answer["products"][0]["energy_joules"])


def compare(version: str, cases: FloatArray) -> Study:
    """The study: a row per product and size of on-chip memory."""
    size, m, k, n, reference = cases.T
    ours = least_traffic(size, m, k, n)
    errors = ours / reference - 1.0
    rows = [
        comparison({"what": f"{a:g}x{b:g}x{c:g}, {s / 1e6:g} MB on chip"}, theirs, mine)
        for s, a, b, c, theirs, mine in zip(size, m, k, n, reference, ours, strict=True)
    ]
    groups = [summarize(f"{s / 1e6:g} MB on chip", errors[size == s]) for s in np.unique(size)]
    near = int((np.abs(errors) <= _WITHIN).sum())
    return Study(
        "mappings",
        "Off-chip bytes of matrix products, m x k x n, under the best of the three dataflows of "
        f"profile plain: against the best mapping of AccelForge {version}.",
        rows,
        [*groups, summarize("all", errors)],
        [count_promise("traffic of a product", f"within {_WITHIN:.0%}", near, len(rows))],
        [
            "Both allow a last block that is smaller. Plain cuts one operand or the sums, into "
            "square blocks; AccelForge cuts several at once, into any. In plain, tiles of streamed "
            "operands take no room.",
            "A product alone, from and to the off-chip memory: what a pass keeps on chip between "
            "operators is not compared.",
        ],
    )


def least_traffic(size: FloatArray, m: FloatArray, k: FloatArray, n: FloatArray) -> FloatArray:
    """Off-chip bytes of profile ``plain`` with the best dataflow, sums of four bytes written."""
    weights, inputs, room = (values[:, None] for values in (k * n, m * k, size))
    flows = np.arange(len(DATAFLOWS))[None, :]
    again, inputs_again = blocked_passes(m[:, None], n[:, None], weights, inputs, room, flows)
    traffic = weights * again + inputs * inputs_again
    least: FloatArray = traffic.min(axis=1) + ACCUMULATOR_BYTES * m * n
    return least
