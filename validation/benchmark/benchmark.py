"""All measurements together, and their ratios to what others publish."""

from __future__ import annotations

from codesign.base.columns import JsonObject
from validation.benchmark.benchmark_host import surroundings
from validation.benchmark.evaluation_rates import PHASES, Row, evaluator_rates, mix_rates
from validation.benchmark.front_time import enumeration_time
from validation.benchmark.search import hypervolume_times, store_rate
from validation.benchmark.startup import startup_time
from validation.benchmark.timing import Effort

_EIGHT_BITS: dict[str, object] = {
    "weight_format": "mxint8",
    "activation_format": "mxint8",
    "kv_format": "mxint8",
}
FULL = Effort(
    n_designs=65_536,
    consecutive=(200_000, 65_536),
    repeats=3,
    largest_front=1_000_000,
    n_stored=50_000,
    model_names=("llama-3.3-70b", "qwen3-32b", "mixtral-8x7b"),
    fixed=_EIGHT_BITS,
)
"""A few minutes."""
QUICK = Effort(
    n_designs=2_048,
    consecutive=(2_048,),
    repeats=1,
    largest_front=1_000,
    n_stored=2_000,
    model_names=("llama-3.3-70b",),
    fixed=_EIGHT_BITS
    | {
        "pe_array": [2048, 128],
        "vector_length": 2048,
        "dataflow": "ws",
        "tier3_technology": None,
    },
)
"""A few seconds: every measurement once, on batches too small to say how fast the machine is."""

OTHERS = {
    "MemExplorer's analytical model": (
        24e-3,
        "MemExplorer, Table 9: one transformer block of Llama-3.3-70B in prefill",
    ),
    "GenZ": (
        35e-3,
        "ours: genz-llm 0.0.16, prefill of Llama-3.1-70B on one H100, after the first call, which "
        "takes 24 s; one core of an Intel Xeon with AVX-512",
    ),
}
"""Seconds of one evaluation, and where that is from."""


def benchmark(effort: Effort = FULL) -> JsonObject:
    """Rates of the ``npu`` and ``mix`` evaluators, each over one space, and of what is around them.

    Returns:
        ``about``: versions, commit, machine. ``rates``, ``mixes``, ``hypervolume``, ``store``,
        ``enumeration``, ``startup``, ``ratios``: lists of rows with their units in the names.
    """
    rates = evaluator_rates(effort)
    ratios: list[Row] = []
    for phase in PHASES:
        case = (effort.model_names[0], phase, 1)
        batches = [row for row in rates if (row["model"], row["phase"], row["cores"]) == case]
        best = max(
            row["designs_per_s"]
            for row in batches
            if row["what"] == f"batch of {effort.n_designs:,}"
        )
        one_by_one = next(row for row in batches if row["what"] == "batch of 1")
        others = {
            "a loop over designs, one evaluation each": (
                1 / one_by_one["designs_per_s"],
                "this run, numpy",
            ),
            **OTHERS,
        }
        ratios += [
            {
                "phase": phase,
                "against": name,
                "its_time_s": duration_s,
                "ratio": duration_s * best,
                "source": source,
            }
            for name, (duration_s, source) in others.items()
        ]
    return {
        "about": surroundings(),
        "rates": rates,
        "ratios": ratios,
        "mixes": list(mix_rates(effort)),
        "hypervolume": list(hypervolume_times(effort)),
        "store": [store_rate(effort)],
        "enumeration": [enumeration_time(effort)],
        "startup": [startup_time(effort)],
    }
