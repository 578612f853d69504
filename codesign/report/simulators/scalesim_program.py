"""Cycles of matrix products on SCALE-Sim; run by the Python that has it, nothing here is ours.

``python scalesim_program.py MACHINE.cfg M,N,K ...`` prints one line of JSON, the last of its
output.
"""

from __future__ import annotations

import csv
import json
import sys
from importlib.metadata import version
from pathlib import Path

_N_LAYOUT_FIELDS = 20


def main(configuration: str, products: list[str]) -> dict[str, object]:
    """The report of SCALE-Sim, a product a layer."""
    from scalesim.scale_sim import scalesim as simulator

    names = [f"product{i}" for i in range(len(products))]
    topology = Path("topology.csv")
    layout = Path("layout.csv")
    sizes = [", ".join(product.split(",")) for product in products]
    lines = [f"{name}, {size},\n" for name, size in zip(names, sizes, strict=True)]
    topology.write_text("Layer, M, N, K,\n" + "".join(lines), encoding="utf-8")
    titles = f"Layer{',x' * _N_LAYOUT_FIELDS},\n"
    fields = "".join(f"{name}{',1' * _N_LAYOUT_FIELDS},\n" for name in names)
    layout.write_text(titles + fields, encoding="utf-8")
    simulation = simulator(
        save_disk_space=True,
        verbose=False,
        config=configuration,
        topology=str(topology),
        layout=str(layout),
        input_type_gemm=True,
    )
    simulation.run_scale(top_path=".")
    (report,) = Path().rglob("COMPUTE_REPORT.csv")
    with report.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    # It gives the number of the last cycle, counted from 0.
    return {
        "version": version("scalesim"),
        "cycles": [int(row["Total Cycles"]) + 1 for row in rows],
        "stalls": [int(row["Stall Cycles"]) for row in rows],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
