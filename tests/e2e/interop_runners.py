"""Small programs that other tools' environments run on our exports; nothing here is ours to import.

``python interop_runners.py NAME FILE...`` prints one line of JSON, the last of its output.
"""

import csv
import json
import sys
from pathlib import Path


def scalesim(configuration, topology, layout):
    from scalesim.scale_sim import scalesim as simulator

    simulation = simulator(
        save_disk_space=True, verbose=False, config=configuration, topology=topology,
        layout=layout, input_type_gemm=True,
    )  # fmt: skip
    simulation.run_scale(top_path=".")
    (report,) = Path().rglob("COMPUTE_REPORT.csv")
    with report.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file, skipinitialspace=True))
    return {key: int(lines[0][key]) for key in ("Total Cycles", "Stall Cycles")}


def genz(system_file):
    from GenZ import prefill_moddeling
    from GenZ.LLM_inference.utils import get_inference_system

    given = json.loads(Path(system_file).read_text(encoding="utf-8"))
    bits = given["call_with"]["bits"]
    system = get_inference_system(given, bits=bits)
    answer = prefill_moddeling(
        model="meta-llama/Llama-3.1-8B", batch_size=1, input_tokens=4096, system_name=given,
        bits=bits,
    )  # fmt: skip
    return {
        "flop_per_s": system.flops / system.get_bit_multiplier("C"),
        "bytes_per_s": system.offchip_mem_bw,
        "bytes": system.off_chip_mem_size,
        "latency_ms": answer["Latency"],
    }


def accelforge(architecture, workload):
    import accelforge
    from accelforge.mapper.FFM.main import map_workload_to_arch

    spec = accelforge.Spec.from_yaml(architecture, workload)
    spec.mapper.metrics = accelforge.Metrics.ENERGY | accelforge.Metrics.LATENCY
    # In detail it also draws the mapping, which needs Graphviz.
    mapped = map_workload_to_arch(spec, eval_in_detail=False, print_progress=False)
    best = mapped.data.iloc[0]
    return {
        "nodes": [node.name for node in spec.arch.nodes],
        "energy_joules": float(best["Total<SEP>energy"]),
        "latency_s": float(best["Total<SEP>latency"]),
    }


if __name__ == "__main__":
    answer = {"scalesim": scalesim, "genz": genz, "accelforge": accelforge}[sys.argv[1]](
        *sys.argv[2:]
    )
    print(json.dumps(answer))
