"""Step times of accelerator designs: tables beside whole passes, and a fleet of them."""

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.evaluators.design_steps import DesignStepTimes
from codesign.evaluators.npu import NpuEvaluator
from codesign.models.deployments.queueing import (
    EngineLimits,
    EngineStep,
    Fleet,
    MachinePool,
    PromptChunk,
    poisson_arrivals,
    simulate,
)
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space

PREFILL_ERROR = 0.04
"""Most that interpolation changes a prefill, whose tiles make it jump at many lengths."""


@pytest.fixture(scope="module")
def times():
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    columns = space.columns(space.encode(space.designs["Base"]))
    design = {name: column.values[column.codes[0]] for name, column in columns.items()}
    request = Request(model="llama-3-8b", prompt_tokens=10, generated_tokens=1, phase="decode")
    return DesignStepTimes(NpuEvaluator(request), design, 16, 2500)


@pytest.mark.parametrize(("requests", "context"), [(1, 3), (7, 333), (16, 1900), (16, 2300)])
def test_a_decode_step_from_tables_is_the_pass(times, requests, context):
    exact = times._pass_s("decode", context, [requests])[0]
    step = EngineStep([], requests, requests * context)
    assert times.step_s(step) == pytest.approx(exact, rel=0.005)


def test_a_jump_at_a_tile_is_smeared_over_few_tokens_only(times):
    """The array has 2,048 columns: a context of one more takes one more pass of keys."""
    before, after = (times._pass_s("decode", context, [16])[0] for context in (2048, 2049))
    assert after > 1.05 * before
    steps = [times.step_s(EngineStep([], 16, 16 * context)) for context in (2040, 2057)]
    assert steps == pytest.approx([before, after], rel=0.005)


@pytest.mark.parametrize("tokens", [1, 50, 777, 2100])
def test_the_chunks_of_a_prompt_take_what_the_prompt_takes(times, tokens):
    exact = times._pass_s("prefill", tokens, [1])[0]
    whole = times.step_s(EngineStep([PromptChunk(tokens, 0)], 0, 0))
    assert whole == pytest.approx(exact, rel=PREFILL_ERROR)
    half = tokens // 2
    parts = [PromptChunk(half, 0), PromptChunk(tokens - half, half)] if half else []
    if parts:
        chunks = sum(times.step_s(EngineStep([part], 0, 0)) for part in parts)
        assert chunks == pytest.approx(whole)


def test_designs_serve_requests_that_arrive(times):
    limits = EngineLimits(16, 512, 100_000)
    fleet = Fleet((MachinePool("serve", 2, times, limits),))
    served = simulate(fleet, poisson_arrivals(1.0, 20, 500, 20, seed=0))
    alone = times.step_s(EngineStep([PromptChunk(500, 0)], 0, 0))
    assert served.time_to_first_token_s.min() == pytest.approx(alone)
    assert not np.isnan(served.last_token_s).any()


def test_a_longer_context_than_the_tables_have_is_refused(times):
    with pytest.raises(InputError, match="expected at most 2500 tokens"):
        times.step_s(EngineStep([], 1, 2501))
