"""Cycles of the systolic array against SCALE-Sim [ScaleSim3]_, which simulates every cycle.

SCALE-Sim wants an older NumPy than we do, so it runs in an environment of its own, as another
process. What it said for the cases of seed 0 is kept as data, so that a comparison needs no
installation; any other seed or size simulates anew.

.. [ScaleSim3] The simulator ``scalesim`` on PyPI, version 3; Samajdar et al., arXiv:1811.02883.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codesign.base.columns import FloatArray, StringList
from codesign.base.errors import InputError, JobError
from codesign.base.records import frozen
from codesign.models.hardware.array import DATAFLOWS, Drain, systolic_cycles
from codesign.report.exports.scalesim import CONFIGURATION
from codesign.report.simulators.environments import install, is_installed, run_with
from codesign.report.simulators.scalesim import PROGRAM
from validation.studies.study import DATA, Study, comparison, promise, summarize


def _shapes(text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, shape.split("x"))) for shape in text.split()]


ARRAYS = _shapes("8x8 16x16 32x32 64x64 128x128 8x64 64x16 128x32")
"""Rows and columns of the arrays that every product is tried on."""
LARGEST_SIZE = 4096
MOST_CYCLES = 8000.0
"""A random product is left out on an array where its three mappings together take longer:
SCALE-Sim steps through some 5,000 cycles a second."""
N_PRODUCTS = 240
TOLERANCE = 0.01
KEPT = DATA / "scalesim.csv"
"""Answers of SCALE-Sim for the cases of seed 0."""
# ``CALC`` measures the bandwidth that avoids every stall instead of stalling, and then reads no
# other; the buffers take whole operands.
_TEMPLATE = CONFIGURATION.format(
    name="products",
    rows="{rows}",
    columns="{columns}",
    share_kb=65536,
    dataflow="{dataflow}",
    bandwidth=1,
    interface="CALC",
)
_CASE = ("m", "k", "n", "rows", "columns")
# Sizes at and around the edges of the arrays, and the thinnest products there are.
_EDGES = _shapes(
    "1x1x1 1x1x4096 1x4096x1 4096x1x1 8x8x8 9x9x9 64x64x64 63x64x65 128x128x128 129x127x128 "
    "256x128x32 1x512x512"
)


@frozen
class Simulated:
    """Answer of SCALE-Sim.

    Attributes:
        version: Of SCALE-Sim.
        cases: (c, 5) m, k, n, rows and columns.
        reported: (c, 3) "Total Cycles" under each of ``DATAFLOWS``.
    """

    version: str
    cases: FloatArray
    reported: FloatArray


def run(seed: int = 0, size: int | None = None) -> Study:
    """Compare ``systolic_cycles`` with SCALE-Sim.

    Args:
        size: Number of products; ``N_PRODUCTS`` if None.

    With seed 0 and nothing else given, SCALE-Sim's kept answers are used; otherwise it runs, and
    is installed if it is not, which takes a quarter of an hour for all products.

    Raises:
        InputError: ``size`` is not positive.
        JobError: SCALE-Sim cannot be installed, or fails.
    """
    if seed == 0 and size is None:
        return compare(read_results(KEPT))
    if size is not None and size < 1:
        raise InputError(f"size: expected a positive number of products, got {size}")
    if not is_installed("scalesim"):
        install("scalesim")
    return compare(simulate(cases(seed, size or N_PRODUCTS)))


def cases(seed: int, n_products: int) -> list[tuple[int, ...]]:
    """Distinct products, each on every array where it is not too long to simulate.

    The edge cases come first, then log-uniform sizes from 1 to 4096.

    Returns:
        (m, k, n, rows, columns) each.
    """
    cases: list[tuple[int, ...]] = []
    products: set[tuple[int, ...]] = set()
    for product in _products(seed):
        most = np.inf if product in _EDGES else MOST_CYCLES
        fitting = [
            (*product, *array)
            for array in ARRAYS
            if float(_ours(np.array([[*product, *array]], dtype=np.float64), "shifted").sum())
            <= most
        ]
        if fitting and product not in products:
            products.add(product)
            cases += fitting
        if len(products) == n_products:
            break
    return cases


def _products(seed: int) -> Iterator[tuple[int, ...]]:
    yield from _EDGES
    rng = np.random.default_rng([seed, LARGEST_SIZE])
    while True:
        yield tuple(round(size) for size in np.exp2(rng.uniform(0, np.log2(LARGEST_SIZE), 3)))


def simulate(cases: Sequence[tuple[int, ...]]) -> Simulated:
    """Let SCALE-Sim count the cycles of (m, k, n, rows, columns) cases.

    Raises:
        JobError: SCALE-Sim fails, or stalls, so that the cycles are not those of the array alone.
    """
    reported = np.empty((len(cases), len(DATAFLOWS)))
    version = ""
    for array in dict.fromkeys(case[3:] for case in cases):
        places = [i for i, case in enumerate(cases) if case[3:] == array]
        products = [f"{m},{n},{k}" for m, k, n in (cases[i][:3] for i in places)]
        for j, flow in enumerate(DATAFLOWS):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "array.cfg"
                rows, columns = array
                path.write_text(
                    _TEMPLATE.format(rows=rows, columns=columns, dataflow=flow), encoding="utf-8"
                )
                answer: Any = run_with(
                    "scalesim", PROGRAM, path.name, *products, folder=path.parent
                )
            if any(answer["stalls"]):
                raise JobError(f"SCALE-Sim stalled on a {array[0]} x {array[1]} array under {flow}")
            # The program counts cycles from 1, the report from 0.
            reported[places, j] = np.array(answer["cycles"]) - 1
            version = answer["version"]
    return Simulated(version, np.array(cases, dtype=np.float64), reported)


def read_results(path: Path) -> Simulated:
    """Read kept answers.

    Raises:
        InputError: The file holds none.
    """
    with path.open(encoding="utf-8") as file:
        header = file.readline().split()
        rows = list(csv.DictReader(file))
    if header[:2] != ["#", "scalesim"] or not rows:
        raise InputError(
            "expected results of SCALE-Sim, with its version in the first line", path.name
        )
    return Simulated(
        version=header[2],
        cases=np.array([[float(row[name]) for name in _CASE] for row in rows]),
        reported=np.array([[float(row[flow]) for flow in DATAFLOWS] for row in rows]),
    )


def compare(simulated: Simulated) -> Study:
    """The study: a row per case and dataflow, os drained directly."""
    # SCALE-Sim numbers cycles from 0 and reports the number of the last.
    reference = simulated.reported + 1.0
    ours = _ours(simulated.cases, "direct")
    errors = ours / reference - 1.0
    shifted = _ours(simulated.cases, "shifted")[:, 2] / reference[:, 2] - 1.0
    rows = [
        comparison(
            {
                "what": f"{case[0]:g}x{case[1]:g}x{case[2]:g} on {case[3]:g}x{case[4]:g} {flow}",
                "dataflow": flow,
            },
            reference[i, j],
            ours[i, j],
        )
        for i, case in enumerate(simulated.cases)
        for j, flow in enumerate(DATAFLOWS)
    ]
    by_flow = [summarize(flow, errors[:, j]) for j, flow in enumerate(DATAFLOWS)]
    by_flow.append(summarize("os, sums shifted out (drain=shifted)", shifted))
    n_products = len(np.unique(simulated.cases[:, :3], axis=0))
    n_arrays = len(np.unique(simulated.cases[:, 3:], axis=0))
    largest = float(np.abs(errors).max())
    return Study(
        name="scalesim",
        question=(
            f"Cycles of {n_products} products on {n_arrays} systolic arrays under three mappings "
            f"({errors.size} cases): our formula against SCALE-Sim {simulated.version}, which "
            "simulates every cycle."
        ),
        rows=rows,
        summary=by_flow,
        targets=[
            promise(
                "largest difference of the cycles",
                f"<= {TOLERANCE:.0%}",
                f"{largest:.2%}",
                largest <= TOLERANCE,
            ),
            promise("products compared", ">= 200", str(n_products), n_products >= 200),
        ],
        notes=_notes(),
    )


def _ours(cases: FloatArray, drain: Drain) -> FloatArray:
    m, k, n, rows, columns = cases.T
    by_flow = [systolic_cycles(m, k, n, rows, columns, flow, drain) for flow in DATAFLOWS]
    return np.stack(by_flow, axis=1)


def _notes() -> StringList:
    return [
        "SCALE-Sim's report gives the number of the last cycle, counted from 0; one is added.",
        (
            "Output stationary: the paper of SCALE-Sim charges 2R + C + T - 2 cycles a fold, R of "
            "them to shift the finished sums down and out of the grid. The simulator's trace ends "
            "after R + C + T - 2: every sum leaves as it is finished. Both are offered: "
            "drain=direct, the default, compared here, and drain=shifted, which a simulation of a "
            "grid that shifts its sums confirms. The latter is longer by R cycles a fold, much for "
            "short folds and little for deep ones: see its line in the summary."
        ),
        (
            "Random products are chosen so that the three mappings together take at most "
            f"{MOST_CYCLES:.0f} cycles on an array; the larger ones therefore appear on large "
            "arrays only. Neither side stalls."
        ),
    ]
