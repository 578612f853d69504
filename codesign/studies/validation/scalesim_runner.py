"""Runs SCALE-Sim on products and arrays; started by ``scalesim.py`` in SCALE-Sim's own environment.

``python scalesim_runner.py CASES RESULTS TEMPLATE``: ``CASES`` is a CSV file with the columns
``m,k,n,rows,columns``; ``RESULTS`` adds for each dataflow the "Total Cycles" of SCALE-Sim's
compute report; ``TEMPLATE`` is a configuration with the places ``{rows}``, ``{columns}`` and
``{dataflow}``. Nothing here may import codesign or what SCALE-Sim does not bring along.
"""

from __future__ import annotations

import csv
import importlib
import os
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

DATAFLOWS = ("ws", "is", "os")

N_LAYOUT_FIELDS = 20


def simulate(
    template: str, rows: int, columns: int, dataflow: str, products: list[tuple[int, int, int]]
) -> list[int]:
    """SCALE-Sim's "Total Cycles" of each (m, k, n) product; writes into the working folder.

    Raises:
        RuntimeError: SCALE-Sim stalled, so that the cycles are not those of the array alone.
    """
    configuration, topology, layout = Path("array.cfg"), Path("topology.csv"), Path("layout.csv")
    text = template.format(rows=rows, columns=columns, dataflow=dataflow)
    configuration.write_text(text, encoding="utf-8")
    # Every line ends in a comma, the header too; a product is given as M, N, K.
    listed = [f"p{i}, {m}, {n}, {k},\n" for i, (m, k, n) in enumerate(products)]
    topology.write_text("Layer, M, N, K,\n" + "".join(listed), encoding="utf-8")
    fields = [f"p{i}{',1' * N_LAYOUT_FIELDS},\n" for i in range(len(products))]
    layout.write_text(f"Layer{',x' * N_LAYOUT_FIELDS},\n" + "".join(fields), encoding="utf-8")
    simulation = importlib.import_module("scalesim.scale_sim").scalesim(
        save_disk_space=True,
        verbose=False,
        config=str(configuration),
        topology=str(topology),
        layout=str(layout),
        input_type_gemm=True,
    )
    simulation.run_scale(top_path=".")
    (report,) = Path().rglob("COMPUTE_REPORT.csv")
    with report.open(encoding="utf-8") as file:
        lines = list(csv.reader(file, skipinitialspace=True))
    total, stalled = lines[0].index("Total Cycles"), lines[0].index("Stall Cycles")
    if any(int(line[stalled]) for line in lines[1:]):
        raise RuntimeError(f"SCALE-Sim stalled on a {rows} x {columns} array under {dataflow}")
    return [int(line[total]) for line in lines[1:]]


def main(cases: Path, results: Path, template: Path) -> None:
    """Simulate every case under every dataflow."""
    text = template.read_text(encoding="utf-8")
    with cases.open(encoding="utf-8") as file:
        records = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]
    by_array = defaultdict(list)
    for case in records:
        by_array[case["rows"], case["columns"]].append(case)
    for (rows, columns), group in by_array.items():
        products = [(case["m"], case["k"], case["n"]) for case in group]
        for dataflow in DATAFLOWS:
            reported = simulate(text, rows, columns, dataflow, products)
            for case, cycles in zip(group, reported, strict=True):
                case[dataflow] = cycles
    with results.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# scalesim {version('scalesim')}\n")
        writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


if __name__ == "__main__":
    paths = [Path(argument).resolve() for argument in sys.argv[1:4]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main(*paths)
        os.chdir(paths[1].parent)
