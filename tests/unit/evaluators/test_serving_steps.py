"""Step times of devices: tables beside whole passes, room for the cache, options without steps."""

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.serving_steps import (
    DeviceStepTimes,
    DraftedStepTimes,
    cache_tokens,
)
from codesign.models.deployments.queueing import EngineLimits, EngineStep, PromptChunk
from codesign.models.workload import load_model
from codesign.models.workload.storage import kv_elements_per_token

LIMITS = EngineLimits(max_sequences=128, max_batched_tokens=1024)
INTERPOLATION_ERROR = 0.005
"""Most that interpolation changes a step; see docs/serving.md."""
CLOCK_ERROR = 0.01
"""Most that a clock of each sort of kernels changes a step that meets the power limit."""


def evaluator_of(model, keys=None, **options):
    request = PlatformRequest(model=model, prompt_tokens=1, generated_tokens=1, **(keys or {}))
    return PlatformEvaluator(request, PlatformOptions.model_validate(options))


def whole_pass_s(times, step):
    """A step as one pass of all its streams, without tables."""
    serving = times._serving(1)
    streams = [times._chunk(chunk.tokens, chunk.past_tokens) for chunk in step.chunks]
    if step.n_decoding:
        context = step.context_tokens / step.n_decoding
        streams.append(times._decoding(np.array([float(step.n_decoding)]), context))
    return float(serving.time(streams, serving.decode_footprint).sustained.total_s[0])


FP8 = {"weight_format": "fp8", "activation_format": "fp8"}
MACHINES = [
    ("llama-3-8b", {}, {"device": "h100-sxm"}),
    ("llama-3-8b", {"profile": "ideal"}, {"device": "a100-sxm-80gb"}),
    ("llama-3-8b", {"engine": "eager"}, {"device": "h100-sxm", "tensor_parallel": 2}),
    ("llama-3-8b", {"engine": "eager"}, {"device": "a100-sxm-80gb", "tensor_parallel": 8}),
    (
        "deepseek-v3",
        {"engine": "tensorrt-llm"},
        {"device": "h200-sxm", "expert_parallel": 16, **FP8},
    ),
    *(
        pytest.param(*machine, marks=pytest.mark.slow)
        for machine in (
            ("deepseek-v3", {}, {"device": "h200-sxm", "tensor_parallel": 8, **FP8}),
            ("qwen3-next-80b-a3b", {}, {"device": "h100-sxm", "tensor_parallel": 4}),
        )
    ),
]


@pytest.mark.parametrize(("model", "options", "design"), MACHINES)
def test_a_step_from_tables_is_the_pass_of_its_streams(model, options, design):
    times = DeviceStepTimes(evaluator_of(model, **options), design, LIMITS, 16_384)
    draw = np.random.default_rng(0)
    for _ in range(6):
        n = int(draw.integers(0, 128))
        chunks = [PromptChunk(int(np.exp(draw.uniform(0, 6.7))), int(draw.integers(0, 4000)))]
        chunks = chunks if n == 0 or draw.random() < 0.6 else []
        step = EngineStep(chunks, n, int(n * draw.integers(2, 8000)))
        exact = whole_pass_s(times, step)
        assert times.step_s(step) == pytest.approx(exact, rel=INTERPOLATION_ERROR + CLOCK_ERROR)


def test_a_draft_on_a_device_of_its_own_waits_for_two_messages():
    keys = {"draft": "llama-3.2-1b", "acceptance": 0.7}
    request = evaluator_of("llama-3.3-70b", keys).workload
    steps = [
        DeviceStepTimes(evaluator_of(name, {"checked_tokens": n}), MACHINES[0][2], LIMITS, 64)
        for name, n in (("llama-3.3-70b", 5), ("llama-3.2-1b", 1))
    ]
    times = DraftedStepTimes(*steps, request, 1e-3)
    decode, prompt = EngineStep([], 8, 16), EngineStep([PromptChunk(512, 0)], 0, 0)
    check_s, draft_s = (x.step_s(decode) for x in steps)
    expected = (check_s + 4 * draft_s + 2e-3) / request.tokens_per_verification
    assert times.step_s(decode) == pytest.approx(expected)
    assert times.step_s(prompt) == steps[0].step_s(prompt)  # both models at once


def test_two_chunks_take_longer_than_one_and_share_the_products():
    times = DeviceStepTimes(evaluator_of("llama-3-8b"), {"device": "h100-sxm"}, LIMITS, 8192)
    one, two, long = (
        times.step_s(EngineStep([PromptChunk(n, 0) for n in tokens], 0, 0))
        for tokens in ([512], [512, 512], [1024])
    )
    assert one < two < 2 * one
    assert two < long * 1.05


def test_the_cache_has_what_the_weights_leave():
    model = load_model("llama-3-8b")
    tokens = cache_tokens(evaluator_of("llama-3-8b"), {"device": "h100-sxm"}, LIMITS, 0.9)
    weights = 16.06e9
    expected = (0.9 * 80e9 - weights) / (2 * kv_elements_per_token(model))
    assert tokens == pytest.approx(expected, rel=1e-3)
    groups = {"device": "h200-sxm", "expert_parallel": 16, **FP8}
    one = cache_tokens(evaluator_of("deepseek-v3"), groups, LIMITS, 0.9)
    assert one % 16 == 0


@pytest.mark.parametrize(
    ("options", "design", "words"),
    [
        ({}, {"pipeline_parallel": 2}, "pipeline_parallel: expected 1 in a machine"),
        ({"overlap": True}, {}, "overlap: expected false where requests arrive, got true"),
        ({"offload": True}, {}, "offload: expected false where requests arrive, got true"),
        ({"profile": "genz"}, {}, "profile: expected profile fitted or ideal, got genz"),
        ({}, {"tensor_parallel": 3}, "expected a divisor of the 32 attention heads"),
    ],
)
def test_what_has_no_steps_is_refused(options, design, words):
    evaluator = evaluator_of("llama-3-8b", **options)
    with pytest.raises(InputError, match=words):
        cache_tokens(evaluator, {"device": "h100-sxm", **design}, LIMITS, 0.9)


def test_weights_that_fill_the_memory_leave_no_room():
    with pytest.raises(InputError, match=r"memory: weights of .* leave no room for a cache"):
        cache_tokens(evaluator_of("llama-3.3-70b"), {"device": "h100-sxm"}, LIMITS, 0.9)


def test_a_context_beyond_the_tables_is_refused():
    times = DeviceStepTimes(evaluator_of("llama-3-8b"), {"device": "h100-sxm"}, LIMITS, 100)
    with pytest.raises(InputError, match="expected at most 100 tokens"):
        times.step_s(EngineStep([], 1, 101))
