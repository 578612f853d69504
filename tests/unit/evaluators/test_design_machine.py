"""Accelerator designs as machines for requests that arrive: room for the cache, watts, refusals."""

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.evaluators.design_machine import design_machine
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.request_passes import evaluate_requests
from codesign.models.deployments.queueing import Arrivals, EngineLimits
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space

LIMITS = EngineLimits(max_sequences=8, max_batched_tokens=512)
ARRIVALS = Arrivals(np.zeros(1), np.array([100]), np.array([10]))
SPACE = load_space("memexplorer", {"memtech": load_library().catalog()})


def evaluator(**more):
    asked = {"model": "llama-3-8b", "trace": "chat", "phase": "decode"}
    return NpuEvaluator(Request(**(asked | more)))


@pytest.mark.parametrize("more", [{}, {"tensor_parallel": 4}])
@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-next-80b-a3b"])
def test_the_cache_fills_the_part_of_the_memory(model, more):
    own, design = evaluator(model=model), SPACE.designs["D1"] | more
    machine = design_machine(own, design, LIMITS, ARRIVALS, 0.9)
    room = machine.limits.cache_tokens

    def used_part(tokens):
        """Part of the memory of 8 requests that share so many tokens."""
        names = ["memory_used_bytes", "memory_capacity_bytes"]
        metrics = evaluate_requests(own, design, "decode", tokens // 8 - 1, [8], names).metrics
        used, capacity = (metrics[name][0] for name in names)
        return float(used / capacity)

    assert used_part(room - room % 8) <= 0.9 < used_part(room - room % 8 + 16)
    assert machine.n_devices == more.get("tensor_parallel", 1)


def test_devices_together_take_as_many_watts():
    design = SPACE.designs["D1"]
    watts = [
        design_machine(evaluator(), design | {"tensor_parallel": n}, LIMITS, ARRIVALS, 0.9)
        for n in (1, 4)
    ]
    assert watts[1].power_watts == pytest.approx(4 * watts[0].power_watts, rel=0.05)


@pytest.mark.parametrize(
    ("request_", "settings", "fraction", "words"),
    [
        ({"layers": "ffn"}, {}, 0.9, "expected a machine for all layers, got ffn"),
        ({}, {"pipeline_parallel": 2}, 0.9, "^design: pipeline_parallel: expected 1"),
        ({}, {"expert_parallel": 2}, 0.9, "^design: expert_parallel: expected 1"),
        ({"model": "llama-3.3-70b"}, {}, 1e-3, "leave no room for a cache in 0% of"),
        ({"model": "llada-8b"}, {}, 0.9, "expected a model that generates token by token"),
        ({}, {"tier1_stacks": 40}, 0.9, "the design breaks shoreline"),
    ],
)
def test_a_design_that_cannot_serve_is_refused(request_, settings, fraction, words):
    with pytest.raises(InputError, match=words):
        design_machine(
            evaluator(**request_), SPACE.designs["D1"] | settings, LIMITS, ARRIVALS, fraction
        )
