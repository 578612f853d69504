"""One workload, several views: the evaluators count the same arithmetic, weights and KV cache.

Each count is taken from what an evaluator itself works with, not from the lowering: of ``npu``
the account of a design and the bytes that its operators move, of ``platform`` the work of its one
device, of ``forecast`` its characterization. ``economics`` counts in closed form from parameters
rather than from operators; its arithmetic is weighed on machines so slow that its passes take no
other time.

Where they differ, in their own profiles too, and why:

==========================  =====================================================================
norms                       ``platform`` and ``economics`` take elementwise operators as fused
                            into their neighbors, and read no weights of norms (GenZ and Epoch
                            count products only); all hold them in memory.
embedding rows              looked up; ``economics`` has no embedding in a decode step.
prefill of a batch          ``npu`` and ``forecast`` prefill one request after the other
                            (MemExplorer §4.3, LIFE), ``platform`` all at once (GenZ); one
                            request is compared. ``economics`` has no prefill here.
formats                     ``forecast`` keeps embedding and norms in the format of activations,
                            as checkpoints with quantized projections do; the others keep all
                            weights in one. One format of both is compared.
shared scales               ``npu`` and ``economics`` count an element's plain bits (MemExplorer's
                            tables need it), ``platform`` and ``forecast`` its part of a shared
                            scale as well; formats without such scales are compared.
activations                 not compared: what stays on chip is each evaluator's model.
diffusion models            ``npu`` only; the others refuse them.
unlike attention            ``npu`` only: the others take all layers for softmax attention alike,
                            and refuse linear attention, and sliding layers among full ones.
                            Dense layers among those with experts are compared.
learned positions           ``npu`` divides their table among devices as that of tokens,
                            ``platform`` keeps it whole on each.
profile ``genz``            embedding as a dense product in prefill and none in decode, logits of
                            all tokens, masked scores computed; a mixture's experts take whole
                            numbers of tokens in prefill, and every token meets all experts read
                            in decode.
profile ``life``            logits of all tokens, masked scores computed; latent attention
                            expanded in decode too; every pass reads the whole embedding table.
profile ``epoch``           no norms, biases, embedding, rotated part of latent keys, layers
                            before the experts; a whole number of experts per active one.
==========================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from codesign import api
from codesign.base.columns import design_columns
from codesign.base.errors import CodesignError
from codesign.base.records import drop_keys
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import ElementBytes, Fixed, Load
from codesign.evaluators.economics.nccl import Fabric
from codesign.evaluators.economics.shape import shape_of
from codesign.evaluators.economics.sustained_device import SustainedDevice
from codesign.evaluators.forecast import ForecastEvaluator
from codesign.evaluators.forecast.forecast_options import ForecastOptions, ForecastRequest
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.pass_messages import list_messages
from codesign.models.deployments.model_part import model_part
from codesign.models.deployments.parallelism import Parallelism
from codesign.models.machines.npu.placement import KINDS
from codesign.models.workload import list_models, load_model, parameter_count
from codesign.models.workload.model import describe_unlike_attention
from codesign.models.workload.request import Request
from codesign.models.workload.storage import kv_elements, state_bytes

PROMPT, GENERATED, BATCH = 1500, 24, 3
WEIGHT_BYTES, KV_BYTES = 2, 1  # bf16 and fp8, so that one is not taken for the other
FORMATS = {"weight_format": "bf16", "activation_format": "bf16", "kv_format": "fp8"}
TOKENS = {"prompt_tokens": PROMPT, "generated_tokens": GENERATED}
PHASES = ("prefill", "decode")
ALTERNATING = str(Path(__file__).with_name("dense_and_moe.yaml"))
"""Dense layers among those with experts, and a shared expert with a gate."""
MODELS = [
    *(
        name
        for name in list_models()
        if not load_model(name).is_diffusion and describe_unlike_attention(load_model(name)) is None
    ),
    ALTERNATING,
]
MIXED = str(Path(__file__).with_name("mixed_attention.yaml"))
"""Layers that differ in attention, MLP and their widths."""
HYBRIDS = [
    *(name for name in list_models() if load_model(name).n_linear_layers),
    str(Path(__file__).with_name("state_space.yaml")),
]
SPARSE = [name for name in list_models() if load_model(name).is_sparse]
SERVED = [*MODELS, MIXED, *HYBRIDS, *SPARSE]
WITHOUT_POSITIONS = [name for name in SERVED if load_model(name).position != "learned"]
MIXTURES = [name for name in MODELS if load_model(name).is_mixture]
EXACT = 1e-9
"""Sums of the same terms in another order."""


def stem(model):
    return Path(model).stem


every_model = pytest.mark.parametrize("model", MODELS, ids=stem)
every_served_model = pytest.mark.parametrize("model", SERVED, ids=stem)
every_phase = pytest.mark.parametrize("phase", PHASES)


@dataclass(frozen=True)
class Count:
    """What a pass needs, by operator, and what memory holds when the last token is generated.

    Attributes:
        mac: Multiply-accumulates of one pass.
        weight_bytes: Weights that it reads.
        kv_read_bytes: Keys and values that it reads.
        held_weight_bytes: All weights.
        held_kv_bytes: KV cache of the batch.
    """

    mac: Mapping[str, float]
    weight_bytes: Mapping[str, float]
    kv_read_bytes: Mapping[str, float]
    held_weight_bytes: float
    held_kv_bytes: float


def _batch(phase):
    return BATCH if phase == "decode" else 1


@cache
def _npu_design():
    """A published design in the formats compared, weights stationary: each is streamed once."""
    space = api.load_space("memexplorer")
    design = dict(next(iter(space.designs.values())))
    design |= {**FORMATS, "dataflow": "ws", "storage_priority": "weight"}
    return design_columns(design)


def _npu(model, phase, **said):
    asked = {"model": model, "phase": phase, "batch": _batch(phase), **TOKENS, **said}
    evaluator = NpuEvaluator(Request.model_validate(asked))
    designs, table = _npu_design(), evaluator.pass_.table
    chosen = evaluator.choose(designs)
    moved = evaluator.metrics_of(chosen).moved
    rows = evaluator.explain(designs).operators
    # The rest is read off chip.
    streamed = dict(zip(KINDS, 1.0 - chosen.working.pinned[:, 0], strict=True))
    return Count(
        mac={row["name"]: row["work_flop"] / 2.0 for row in rows},
        weight_bytes=_by_name(table.names, moved.weight_reads[0] * table.count, streamed["weight"]),
        kv_read_bytes=_by_name(table.names, moved.kv_reads[0] * table.count, streamed["kv"]),
        held_weight_bytes=float(chosen.designs.all_weight_bytes[0]),
        held_kv_bytes=float(chosen.designs.kv_request_bytes[0] * chosen.batch_size[0]),
    )


def _by_name(names, values, share):
    return dict(zip(names, (values / share).tolist(), strict=True))


def _platform(model, phase, profile="ideal"):
    design = {"device": "h100-sxm", "batch_size": _batch(phase), **FORMATS}
    serving = _serving(model, profile, design)
    work = serving.work(_streams(serving, phase))
    held = serving.decode_footprint
    return Count(
        mac=_added((item.name, item.mac[0] * item.count) for item in work),
        weight_bytes=_added((item.name, item.weight_bytes[0] * item.count) for item in work),
        kv_read_bytes=_added((item.name, item.kv_bytes[0] * item.count) for item in work),
        held_weight_bytes=float(held.weight_bytes[0]),
        held_kv_bytes=float(held.kv_bytes[0]),
    )


def _serving(model, profile, design):
    evaluator = PlatformEvaluator(
        PlatformRequest.model_validate({"model": model, **TOKENS}),
        PlatformOptions.model_validate({"profile": profile}),
    )
    return evaluator.serving(design_columns(design))


def _streams(serving, phase):
    passes = serving.passes
    if phase == "prefill":
        return passes.prefill(passes.prompts[0], serving.micro_batch)
    return passes.decode(serving.micro_batch)


def _added(items):
    """By operator; attention to the prompt and to what was generated is one."""
    found = {}
    for name, value in items:
        own = name.split("_of_")[0]
        found[own] = found.get(own, 0.0) + float(value)
    return found


def _forecast(model, phase, profile="plain"):
    request = ForecastRequest.model_validate({"model": model, "batch": _batch(phase), **TOKENS})
    options = ForecastOptions.model_validate({"profile": profile, "variant": FORMATS})
    found = ForecastEvaluator(request, options).forecast({})
    work = found.prefill if phase == "prefill" else found.decode

    def by_name(quantity):
        return dict(zip(work.names, work.sums(quantity).tolist(), strict=True))

    held = found.inference.kv_bytes(PROMPT + GENERATED) * _batch(phase)
    return Count(
        mac={name: ops / 2 for name, ops in by_name("matrix_ops").items()},
        weight_bytes=by_name("weight_bytes"),
        kv_read_bytes=by_name("kv_read_bytes"),
        held_weight_bytes=found.memory_bytes - held,
        held_kv_bytes=held,
    )


VIEWS = {
    "npu": _npu,
    "platform": _platform,
    "forecast": _forecast,
}


@cache
def count(view, model, phase):
    return VIEWS[view](model, phase)


def total(by_name, without=()):
    return sum(value for name, value in by_name.items() if name not in without)


def norms(model):
    return {name for name in count("npu", model, "decode").weight_bytes if name.endswith("norm")}


@every_phase
@every_served_model
@pytest.mark.parametrize("view", ["platform", "forecast"])
@pytest.mark.parametrize("quantity", ["mac", "weight_bytes", "kv_read_bytes"])
def test_every_operator_multiplies_and_reads_the_same_in_npu_platform_and_forecast(
    quantity, view, model, phase
):
    ours, theirs = (
        {name: value for name, value in getattr(found, quantity).items() if value}
        for found in (count(view, model, phase), count("npu", model, phase))
    )
    if (view, quantity) == ("platform", "weight_bytes"):
        theirs = drop_keys(theirs, norms(model))
    if model in [*HYBRIDS, *SPARSE] and quantity == "kv_read_bytes":
        # Platform adds what states write, and the keys of indexers.
        ours, theirs = (
            {name: value for name, value in found.items() if name.startswith("attention")}
            for found in (ours, theirs)
        )
    assert ours == pytest.approx(theirs, rel=EXACT)


@every_phase
@every_served_model
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_holds_the_weights_and_cache_of_the_model(view, model, phase):
    found, shape = count(view, model, phase), load_model(model)
    length = PROMPT + GENERATED
    per_request = kv_elements(shape, length) * KV_BYTES + state_bytes(shape, length)
    cache_bytes = per_request * _batch(phase)
    assert found.held_weight_bytes == pytest.approx(
        parameter_count(shape) * WEIGHT_BYTES, rel=EXACT
    )
    assert found.held_kv_bytes == pytest.approx(cache_bytes, rel=EXACT)


@every_phase
@every_served_model
def test_devices_send_the_same_in_npu_and_platform(model, phase):
    n_devices = 4
    request = Request.model_validate({"model": model, "phase": phase, "batch": 1, **TOKENS})
    theirs = model_part(request, Parallelism(n_devices, 1)).messages
    design = {"device": "h100-sxm", "batch_size": 1, "tensor_parallel": n_devices, **FORMATS}
    serving = _serving(model, "ideal", design)
    sent = list_messages(serving.sharding, _streams(serving, phase), serving.rules)
    for kind, elements, count in (
        ("all_reduce", theirs.all_reduce_elements, theirs.all_reduce_count),
        ("all_gather", theirs.all_gather_elements, theirs.all_gather_count),
    ):
        of_kind = [item for item in sent if item.collective == kind and item.ranks[0] > 1]
        counts = np.array([np.sum(item.count) for item in of_kind])
        assert counts.sum() == count.sum()
        assert counts @ [item.elements[0] for item in of_kind] == pytest.approx(elements @ count)


@every_phase
@every_served_model
def test_two_devices_read_together_the_weights_of_the_model(model, phase):
    designs = ({"device": "h100-sxm", "batch_size": 1, "tensor_parallel": n} for n in (1, 2))
    alone, shared = (_serving(model, "ideal", design) for design in designs)
    for whole, part in zip(
        *(serving.work(_streams(serving, phase)) for serving in (alone, shared)), strict=True
    ):
        is_copy = part.rule.axis == "replicated" or part.rule.dimension == "latent"
        read = part.weight_bytes[0] * (1 if is_copy else 2)
        assert read == pytest.approx(whole.weight_bytes[0], rel=1e-4)  # GPT-3 has an odd vocabulary


@pytest.mark.parametrize("model", WITHOUT_POSITIONS, ids=stem)
@pytest.mark.parametrize("n_devices", [2, 4])
def test_one_of_several_devices_holds_the_same_in_npu_and_platform(model, n_devices):
    request = Request.model_validate({"model": model, "phase": "decode", "batch": 1, **TOKENS})
    theirs = model_part(request, Parallelism(n_devices, 1))
    design = {"device": "h100-sxm", "batch_size": 1, "tensor_parallel": n_devices, **FORMATS}
    ours = _serving(model, "ideal", design).decode_footprint
    cached = theirs.kv_elements_per_request * KV_BYTES + theirs.state_bytes_per_request
    assert ours.weight_bytes[0] == pytest.approx(theirs.weight_elements * WEIGHT_BYTES, rel=EXACT)
    assert ours.kv_bytes[0] == pytest.approx(cached, rel=EXACT)


@pytest.mark.parametrize("model", HYBRIDS, ids=stem)
def test_two_devices_keep_norms_and_routers_twice_and_all_else_once(model):
    designs = ({"device": "h100-sxm", "batch_size": 1, "tensor_parallel": n} for n in (1, 2))
    whole, part = (
        _serving(model, "ideal", design).decode_footprint.weight_bytes[0] for design in designs
    )
    table = Request.model_validate({"model": model, "phase": "decode", **TOKENS}).operators()
    copies = [
        i
        for i, rule in enumerate(table.rules)
        if rule.axis == "replicated" or rule.role in ("norm", "qk_norm")
    ]
    copied = float((table.count * table.weight_elements)[copies].sum())
    assert 2 * part - whole == pytest.approx(copied * WEIGHT_BYTES, rel=EXACT)


# --- economics --------------------------------------------------------------------------------

MEAN_CONTEXT = PROMPT + (GENERATED + 1) / 2
_SLOW, _FAST = 1e-9, 1e30


def _weighed(shape, *, flop_per_s, bytes_per_s, precision):
    """Seconds of one decode step on one device, all but one of whose rates are no obstacle."""
    fabric = Fabric(np.array([_FAST]), np.array([_FAST]), np.array([8.0]))
    machine = SustainedDevice("slow", flop_per_s, bytes_per_s, _FAST, fabric, flop_per_s)
    one = Fixed(layout=1.0, pipeline=1.0, experts=1.0, attention=1.0)
    load = Load(np.array([1.0]), np.array([float(BATCH)]), MEAN_CONTEXT)
    (time,) = ForwardPass(shape, machine, precision, one).best_times(load)
    return float(time[0])


def economics_flop(shape):
    nothing = ElementBytes(0.0, 0.0, 0.0)
    return _SLOW * _weighed(shape, flop_per_s=_SLOW, bytes_per_s=_FAST, precision=nothing)


# --- profiles that count otherwise ------------------------------------------------------------

DENSE = [name for name in MODELS if not load_model(name).is_mixture]
NATIVE = [name for name in MODELS if not load_model(name).is_latent]


@pytest.mark.parametrize("model", DENSE)
def test_genz_multiplies_what_npu_does_under_the_same_conventions(model):
    said = {"causal": False, "logits": "all", "embedding": "dense"}
    theirs = _npu(model, "prefill", **said)
    assert total(_platform(model, "prefill", "genz").mac) == pytest.approx(
        total(theirs.mac), rel=EXACT
    )
    # Its decode step comes after all given tokens and does not attend to itself.
    step = _npu(model, "decode", prompt_tokens=PROMPT + GENERATED - 1, generated_tokens=1)
    ours = _platform(model, "decode", "genz").mac
    scores = ("attention_qk", "attention_pv")
    assert total(ours, without=scores) == pytest.approx(total(step.mac, without=scores), rel=EXACT)
    own_tokens, of_prompt = GENERATED * BATCH, PROMPT  # the prompt's scores as if for one beam
    assert sum(ours[name] for name in scores) == pytest.approx(
        sum(step.mac[name] for name in scores)
        / (BATCH * (PROMPT + GENERATED))
        * (own_tokens + of_prompt * BATCH),
        rel=EXACT,
    )


@every_phase
@pytest.mark.parametrize("model", NATIVE, ids=stem)
def test_life_multiplies_what_npu_does_under_the_same_conventions(model, phase):
    theirs = _npu(model, phase, causal=False, logits="all")
    assert total(_forecast(model, phase, "life").mac) == pytest.approx(total(theirs.mac), rel=EXACT)


@pytest.mark.parametrize("model", [name for name in DENSE if name in NATIVE])
def test_epoch_multiplies_what_npu_does_where_heads_span_the_width(model):
    shape, found = shape_of(load_model(model)), load_model(model)
    if found.num_attention_heads * found.head_dim != found.hidden_size:
        shape = replace(shape, score_flop=4.0 * found.num_attention_heads * found.head_dim)
    mac = total(count("npu", model, "decode").mac)
    assert economics_flop(shape) == pytest.approx(2 * mac, rel=EXACT)


def test_a_diffusion_model_is_npus_alone():
    assert total(_npu("llada-8b", "decode").mac) > 0
    refusals = (
        lambda: PlatformRequest.model_validate({"model": "llada-8b", **TOKENS}),
        lambda: ForecastRequest.model_validate({"model": "llada-8b", **TOKENS}),
        lambda: shape_of(load_model("llada-8b")),
    )
    for refuse in refusals:
        with pytest.raises((CodesignError, ValueError), match=r"diffusion|token by token"):
            refuse()


@pytest.mark.parametrize("model", [*HYBRIDS, MIXED], ids=stem)
def test_equations_of_layers_alike_refuse_layers_that_differ(model):
    refusals = (
        lambda: shape_of(load_model(model)),
        lambda: _forecast(model, "decode", "life"),
    )
    for refuse in refusals:
        with pytest.raises(CodesignError, match="same softmax attention"):
            refuse()


def test_economics_tells_sliding_layers_from_others():
    """Half of the cache in a window: 100 tokens of context, 10 of them in it, are 55."""
    shape = replace(shape_of(load_model("llama-3-8b")), window=10, sliding_share=0.5)
    assert (shape.attended(100.0), shape.attended(8.0)) == (55.0, 8.0)


@every_phase
@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("model", MIXTURES, ids=stem)
def test_groups_with_experts_do_hold_and_send_the_same_in_npu_and_platform(model, tensor, phase):
    """Two requests in each of four groups: npu counts those of a group, platform those of all."""
    groups, own = 4, 2
    request = Request.model_validate({"model": model, "phase": phase, "batch": own, **TOKENS})
    theirs = model_part(request, Parallelism(tensor, 1, groups))
    degrees = {"tensor_parallel": tensor, "expert_parallel": groups}
    design = {"device": "h100-sxm", "batch_size": groups * own, **degrees, **FORMATS}
    serving = _serving(model, "ideal", design)
    streams = _streams(serving, phase)

    table = theirs.table
    routed = np.flatnonzero(table.is_routed)
    read = (table.weights_read(np.full((1, 1), own))[0] * table.count * WEIGHT_BYTES)[routed]
    products = (own * table.mac_per_request * table.count)[routed]
    work = {item.name: item for item in serving.work(streams)}
    of_experts = [work[table.names[i]] for i in routed]
    for values, name in ((read, "weight_bytes"), (products, "mac")):
        ours = [item.count * getattr(item, name)[0] for item in of_experts]
        assert ours == pytest.approx(values.tolist(), rel=EXACT), name

    kept = serving.decode_footprint
    cached = own * (theirs.kv_elements_per_request * KV_BYTES + theirs.state_bytes_per_request)
    assert kept.weight_bytes[0] == pytest.approx(theirs.weight_elements * WEIGHT_BYTES, rel=EXACT)
    assert kept.kv_bytes[0] == pytest.approx(cached, rel=EXACT)

    sent = list_messages(serving.sharding, streams, serving.rules)
    messages = theirs.messages
    for kinds, elements, count in (
        (("all_reduce",), messages.all_reduce_elements, messages.all_reduce_count),
        (("all_gather", "reduce_scatter"), messages.all_gather_elements, messages.all_gather_count),
        (("dispatch", "combine"), messages.exchange_elements, messages.exchange_count),
    ):
        of_kind = [item for item in sent if item.collective in kinds and item.ranks[0] > 1]
        counts = np.array([np.sum(item.count) for item in of_kind])
        assert counts.sum() == count.sum(), kinds
        total_elements = sum(counts * [item.elements[0] for item in of_kind])
        assert total_elements == pytest.approx(own * float(elements @ count), rel=EXACT)
