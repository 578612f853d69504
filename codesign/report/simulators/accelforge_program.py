"""Mapped matrix products on AccelForge; run by the Python that has it, nothing here is ours.

``python accelforge_program.py ARCHITECTURE.yaml PRODUCT.yaml ...`` prints one line of JSON, the
last of its output.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version


def mapped(architecture: str, workload: str) -> dict[str, float]:
    """Energy and time of the best mapping of a product."""
    import accelforge
    from accelforge.mapper.FFM.main import map_workload_to_arch

    spec = accelforge.Spec.from_yaml(architecture, workload)
    spec.mapper.metrics = accelforge.Metrics.ENERGY | accelforge.Metrics.LATENCY
    # In detail it also draws the mapping, which needs Graphviz.
    mappings = map_workload_to_arch(spec, eval_in_detail=False, print_progress=False).data
    times = mappings["Total<SEP>latency"]
    best = mappings.loc[(times * mappings["Total<SEP>energy"]).idxmin()]
    return {
        "energy_joules": float(best["Total<SEP>energy"]),
        "latency_s": float(best["Total<SEP>latency"]),
    }


def main(architecture: str, workloads: list[str]) -> dict[str, object]:
    """Energy and time of products, mapped one after the other in this process.

    A product takes a second or two: to start workers for it costs more than they save.
    """
    import accelforge

    accelforge.set_n_parallel_jobs(1)
    products = [mapped(architecture, workload) for workload in workloads]
    return {"version": version("accelforge"), "products": products}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
