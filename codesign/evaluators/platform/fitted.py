"""Time of a pass by laws of kernels that are fitted to measurements: what the profile fitted is.

On devices that were measured, corrections are on top
(:mod:`codesign.models.machines.device.corrections`).

The operators of a pass become the kernels that a serving engine starts: matrix products, one
attention for the products with keys and values, one for a layer of experts, one that works row by
row for a norm with the addition before it. Kernels of a device run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from codesign.base.columns import (
    Fields,
    FloatArray,
    FloatMap,
    FloatPair,
    JsonObject,
    StringList,
    summed,
)
from codesign.base.records import frozen
from codesign.evaluators.platform.communication import Message, direct_message_s
from codesign.evaluators.platform.device_work import DeviceWork, Stream, Works
from codesign.evaluators.platform.fitted_messages import ROW_BITS, FittedMessages
from codesign.evaluators.platform.operator_time import OperatorTime
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.serving_rules import ServingRules
from codesign.models.hardware.device import Device
from codesign.models.machines.device.absorbing import (
    Absorbing,
    absorbing_case,
    absorbing_time_s,
)
from codesign.models.machines.device.attention import (
    Attention,
    attention_case,
    attention_time_s,
    has_portable_kernels_only,
)
from codesign.models.machines.device.clock import KernelDraw, stacked, sustained_clock
from codesign.models.machines.device.corrections import KernelCase, correction
from codesign.models.machines.device.elementwise import (
    row_time_s,
    stream_time_s,
    vector_start_s,
    vector_time_s,
)
from codesign.models.machines.device.energy import (
    KernelWork,
    idle_watts,
    kernel_draw,
    shipped_energy,
)
from codesign.models.machines.device.engine import host_own_s, host_starts_s
from codesign.models.machines.device.expected_error import (
    describe_energy_error,
    describe_expected_error,
    energy_range,
)
from codesign.models.machines.device.experts import (
    DEEP_GEMM,
    ExpertWork,
    experts_case,
    experts_time_s,
    rank_load,
)
from codesign.models.machines.device.gemm import Products, gemm_case, gemm_time_s
from codesign.models.machines.device.indexing import Index, index_score_time_s, selection_time_s
from codesign.models.machines.device.links import number_by_kind
from codesign.models.machines.device.rates import DeviceRates
from codesign.models.machines.device.scan import (
    Convolution,
    Scan,
    convolution_time_s,
    scan_time_s,
)
from codesign.models.workload.dimension_parts import largest_parts

_WHOLE = ("attention", "index", "experts", "scan")
"""Kernels of which several operators are parts."""

_ENERGIES = ("energy_joules_per_token", "prefill_energy_joules_per_token")


def launches(work: Works) -> Iterator[list[DeviceWork]]:
    """The operators of a pass, grouped by the kernel that runs them together."""
    group: list[DeviceWork] = []
    for operator in work:
        continues = (
            group
            and operator.kernel in _WHOLE
            and operator.kernel == group[0].kernel
            and operator.stream is group[0].stream
            and operator.count == group[0].count
            and operator.kind != "attention_qk"
        )
        if group and not continues:
            yield group
            group = []
        group.append(operator)
    if group:
        yield group


@frozen
class FittedKernels(FittedMessages):
    """The laws of kernels on the devices of a batch of platforms; rooflines are their bounds."""

    def times(self, work: Works) -> list[OperatorTime]:
        """The kernels of a pass, in the order in which they first run."""
        is_prefill = any(operator.stream and operator.stream.is_prefill for operator in work)
        phase = "prefill" if is_prefill else "decode"
        return [self._launch(group, phase) for group in launches(work)]

    def _launch(self, group: Works, phase: str) -> OperatorTime:
        bounds = [self.bound(operator) for operator in group]
        first = group[0]
        once = np.where(
            self.platform.is_scheduled,
            self._scheduled_s(group, bounds),
            _LAWS[first.kernel](self, group),
        )
        for factor in (phase, first.kernel, f"{first.kernel} {phase}"):
            once = once * self.platform.time_factors.get(factor, 1.0)
        whole_name = f"{first.kernel}{first.stream.name if first.stream else ''}"
        name = first.name if len(group) == 1 else whole_name
        sums: JsonObject = {
            quantity: summed([getattr(bound, quantity) for bound in bounds])
            for quantity in ("compute_s", "memory_s", "mac", "bytes")
        }
        time_s = first.count * once
        draw = self._draw(group, time_s, bounds)
        return replace(bounds[0], name=name, time_s=time_s, draw=draw, **sums)

    def _scheduled_s(self, group: Works, bounds: Sequence[OperatorTime]) -> FloatArray:
        """(n,) time on scheduled chips: the longer of arithmetic and stream, after each step.

        Norms and products wait for all of their input. The other elementwise operators and all
        activations pass from unit to unit meanwhile.
        """
        platform = self.platform
        rates = self.platform.rates
        time_s = np.zeros_like(platform.tp)
        for operator, bound in zip(group, bounds, strict=True):
            if operator.kind not in ("vector", "gather"):
                stored = _weight_bytes(self, operator)
                # The chip of a drawn expert streams all of it.
                read = np.maximum(
                    operator.weight_bytes, operator.expert_elements * stored / platform.tp
                )
                widening = self.products(operator).multiply_bits / 8.0 / stored
                streamed = read * np.maximum(widening, 1.0) + operator.kv_bytes
                stream_s = streamed * self.residence.kept_s_per_byte / rates.stream_fraction
                compute_s = bound.compute_s / operator.count / rates.burst_fraction
                time_s = time_s + rates.step_latency_s + np.maximum(stream_s, compute_s)
            elif operator.rule.role == "norm":
                time_s = time_s + rates.step_latency_s
        return time_s

    def message_s(self, message: Message) -> FloatArray:
        direct_s = direct_message_s(message, self.platform, ROW_BITS / 8.0)
        return np.where(self.platform.is_scheduled, direct_s, super().message_s(message))

    def _draw(self, group: Works, time_s: FloatArray, bounds: Sequence[OperatorTime]) -> KernelDraw:
        """(n,) energy of one device in all instances of a kernel."""
        is_attention = group[0].kernel == "attention"
        rates = self.platform.rates
        work = KernelWork(
            flop=2.0 * summed([bound.mac for bound in bounds]),
            traffic_bytes=summed([bound.bytes for bound in bounds]),
            multiply_bits=16.0 if is_attention else self.products(group[0]).multiply_bits,
            scores=sum(
                bound.mac / operator.inner
                for operator, bound in zip(group, bounds, strict=True)
                if operator.kind == "attention_qk"
            ),
        )
        return kernel_draw(time_s, work, rates, shipped_energy())

    def sustained(
        self, operators: Sequence[OperatorTime], waiting_s: FloatArray
    ) -> Sequence[OperatorTime]:
        draws = stacked([operator.draw for operator in operators if operator.draw])
        board = shipped_energy().board(self.platform.rates)
        sent = [operator for operator in operators if operator.draw is None]
        unsent_s = np.maximum(waiting_s - sum(operator.time_s for operator in sent), 0.0)
        joules = sum((operator.joules for operator in sent), self.idle_watts() * unsent_s)
        clock = sustained_clock(draws, board, waiting_s, joules)
        base = board.base_watts(clock)

        def slowed(operator: OperatorTime) -> OperatorTime:
            if operator.draw is None:
                return operator
            time_s = operator.draw.time_at(clock)
            joules = operator.draw.joules_at(clock) + base * time_s
            return replace(operator, time_s=time_s, joules=joules)

        return [slowed(operator) for operator in operators]

    def idle_watts(self) -> FloatArray:
        """(n,) power of a device that waits for others."""
        return idle_watts(self.platform.rates, shipped_energy())

    @property
    def rates(self) -> DeviceRates:
        """Numbers of the devices; offloaded weights and KV cache come at their own rate."""
        return replace(
            self.platform.rates, bandwidth_bytes_per_s=1.0 / self.residence.kept_s_per_byte
        )

    def host_starts_s(self, operators: Sequence[OperatorTime]) -> FloatArray:
        """(n,) time in which a host starts the kernels of the layers, where it starts each."""
        if self.options.engine_record.starter != "eager":
            return super().host_starts_s(operators)
        n_kernels = sum(operator.count for operator in operators if operator.is_in_layers)
        bandwidth = self.platform.rates.host_bandwidth_bytes_per_s
        return self.law("engine", host_starts_s, n_kernels, bandwidth)

    def host_own_s(self, n_decoding: FloatArray, *, has_prompts: bool) -> FloatArray:
        """(n,) time of the host in a pass that no kernel hides."""
        engine = self.options.engine_record
        own_s = engine.host_request * n_decoding
        if engine.starter != "eager":
            return own_s
        ranks = self.platform.stage_devices * self.platform.pp
        return own_s + self.law("engine", host_own_s, has_prompts, n_decoding, ranks)

    def message_joules(self, message: Message, once_s: FloatArray) -> FloatArray:
        """(n,) energy of a device in one instance of a message.

        It waits, but draws its limit while a large message takes longer than links need: on A100
        the power of such prefills peaks there (Splitwise, ``splitwise.csv``).
        """
        busier = self.platform.power_watts - self.idle_watts()
        return super().message_joules(message, once_s) + busier * self.host_copy_s(message)

    def corrected_s(
        self, family: str, case: KernelCase, law_s: FloatArray, group: Works
    ) -> FloatArray:
        """(n,) time of a law times what measured kernels of such sizes took of it.

        Never below the roofline, unless the law, which counts what caches hold, is already.
        """
        factors = correction(family, self.platform.measured_names, case)
        bound_s = summed([bound.time_s / bound.count for bound in map(self.bound, group)])
        return np.maximum(law_s * factors, np.minimum(law_s, bound_s))


class FittedRules(ServingRules):
    """The physical rules, with the time of laws of kernels."""

    defaults: ClassVar[Fields] = {
        # [ours] copies from host memory reach about what links reach [GenZ, section IV-E].
        "slow_efficiency": 0.75,
        "attention": "data",
        "has_nodes": True,
        "router_all_reduce": False,
    }
    meaningless_options = (
        "compute_efficiency", "memory_efficiency", "link_efficiency", "warm_up"
    )  # fmt: skip
    meaningless_parameters = ("link_latency_s",)
    has_ideal_bounds = True
    kernels = FittedKernels
    has_vector_kernels = True
    joins_contexts = True

    def timing_notes(self, device: Device) -> StringList:
        """Start of kernels, and errors of the laws against measurements."""
        if device.device_class == "scheduled":
            return [
                "Profile fitted: a compiler sets each cycle of these chips. Nothing starts, and "
                "the model fills all chips evenly.",
                *describe_expected_error(device),
            ]
        engine = self.options.engine_record
        between = "sampling and scheduling between steps cost nothing"
        started = {
            "graphs": f"replayed from graphs; {between}",
            "streams": f"queued ahead by the host; {between}",
            "eager": "started one by one by the host, which takes its time between steps, too; "
            "that of a batch is that of one request",
        }[engine.starter]
        return [
            f"Profile fitted: laws of kernels that are fitted to measurements; kernels {started}.",
            *(
                f"Engine {engine.name}: {name} {low} to {high}."
                for name, (low, high) in engine.ranges.items()
            ),
            *describe_expected_error(device, self.options.engine),
            describe_energy_error(device.key),
        ]

    def metric_ranges(self, device: str, metrics: FloatMap) -> dict[str, FloatPair]:
        """Ranges of energies, from the errors of kernels whose watts were measured."""
        estimates = {name: value for name, value in metrics.items() if value == value}
        ranges = {
            name: energy_range(device, estimates[name]) for name in _ENERGIES if name in estimates
        }
        if "tokens_per_joule" in estimates:
            low, high = energy_range(device, 1.0 / estimates["tokens_per_joule"])
            ranges["tokens_per_joule"] = 1.0 / high, 1.0 / low
        return ranges


def gemm_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """A product with weights."""
    platform = kernels.platform
    operator = group[0]
    formats = kernels.products(operator)
    products = Products(
        m=operator.rows,
        n=operator.columns,
        k=operator.inner,
        peak_flop_per_s=formats.peak_flop_per_s,
        weight_bits=_weight_bytes(kernels, operator) * 8.0,
        activation_bits=np.where(
            formats.is_input_quantized, platform.activation_bytes * 8.0, ROW_BITS
        ),
        is_weight_converted=formats.is_weight_converted,
        is_input_quantized=formats.is_input_quantized,
        is_integer=formats.is_integer,
        has_fine_scales=formats.has_fine_scales,
        has_block_scales=formats.has_block_scales,
    )
    law_s = kernels.law("gemm", gemm_time_s, products, kernels.rates)
    return kernels.corrected_s("gemm", gemm_case(products), law_s, group)


def attention_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """The products with keys and values of some requests, and the softmax between them."""
    platform = kernels.platform
    scores = next(operator for operator in group if operator.kind == "attention_qk")
    values = next(operator for operator in group if operator.kind == "attention_pv")
    stream = scores.stream
    assert stream is not None  # attention belongs to requests
    new = float(stream.table.tokens_per_request)
    is_whole = float(scores.columns[0]) >= stream.past_tokens + (new + 1) / 2 - 0.5
    # Only absorbed attention reads the latents, as keys that are values too.
    is_absorbed = kernels.model.is_latent and float(scores.kv_bytes[0]) > 0
    own_new = _own_tokens(platform, stream)
    # Queries of a part of a prompt see as many keys on average as those of the whole.
    past = stream.past_tokens + (new - own_new) / 2
    past = past if stream.is_prefill else past / platform.sp
    # Only prompts some of whose tokens choose are absorbed, by however little that is on average.
    chooses = kernels.model.is_sparse and (is_absorbed if stream.is_prefill else not is_whole)
    is_latent = kernels.model.is_latent
    has_narrow_cache = platform.kv_bytes < 1.5
    is_narrow = has_narrow_cache & (platform.rates.has_fp4 > 0)
    is_converted = np.zeros_like(is_narrow)
    if is_latent:
        # Measured kernels multiply the latents of a narrow cache as they are, and convert a
        # prompt's expanded ones before, on devices for which somebody wrote such kernels.
        is_narrow = has_narrow_cache & (platform.rates.has_fp8 > 0) & is_absorbed
        has_own = platform.rates.has_asynchronous_cores > 0
        is_converted = has_narrow_cache & has_own & (not is_absorbed)
    shape = Attention(
        sequences=platform.own_requests(stream.attention_requests),
        new_tokens=own_new,
        past_tokens=past,
        query_heads=scores.products * scores.rows / new,
        kv_heads=scores.products,
        head_dim=scores.inner,
        value_head_dim=values.columns,
        window=0.0 if is_whole else float(kernels.model.sliding_window or 0),
        kv_bits=platform.kv_bytes * 8.0,
        math_bits=np.where(is_narrow, 8.0, 16.0),
        shares_values=is_absorbed,
        is_prepared=is_converted,
    )
    if chooses:
        # Every query has keys of its own, which lie in the cache while others choose them.
        shape = replace(
            shape,
            sequences=shape.sequences * own_new,
            new_tokens=1.0,
            past_tokens=np.maximum(scores.columns - 1.0, 0.0),
        )
    family = "mla" if is_latent else "attention"
    if family == "attention":
        is_portable = has_portable_kernels_only(shape.head_dim, kernels.rates)
        shape = replace(shape, is_synchronous=is_portable)
    is_cached = chooses and stream.is_prefill
    law_s = kernels.law(family, attention_time_s, shape, kernels.rates, is_cached=is_cached)
    return kernels.corrected_s(family, attention_case(shape), law_s, group)


def index_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """The scores of an indexer, and the choice of the tokens that have the highest."""
    platform = kernels.platform
    operator = group[0]
    stream = operator.stream
    assert stream is not None  # keys belong to requests
    shape = Index(
        sequences=platform.own_requests(stream.attention_requests),
        new_tokens=_own_tokens(platform, stream),
        context=operator.columns,
        heads=operator.rows / float(stream.table.tokens_per_request),
        head_dim=operator.inner,
    )
    scores_s = kernels.law("mla", index_score_time_s, shape, kernels.rates)
    return scores_s + kernels.law("elementwise", selection_time_s, shape, kernels.rates)


def absorption_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """The products by heads that latent attention absorbs into queries and results."""
    platform = kernels.platform
    operator = group[0]
    # Devices with 4-bit products run these in 16 bits, whatever the weights' format.
    is_narrow = kernels.products(operator).multiply_bits <= 8
    is_narrow = is_narrow & (platform.rates.has_fp4 == 0)
    shape = Absorbing(
        tokens=operator.rows,
        heads=operator.products,
        inner=operator.inner,
        outer=operator.columns,
        weight_bits=_weight_bytes(kernels, operator) * 8.0,
        math_bits=np.where(is_narrow, 8.0, 16.0),
    )
    law_s = kernels.law("absorbing", absorbing_time_s, shape, kernels.rates)
    return kernels.corrected_s("absorbing", absorbing_case(shape), law_s, group)


def experts_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """A layer of experts on the device of a group; tokens draw their experts evenly."""
    platform = kernels.platform
    mixture = kernels.model.moe_dims
    experts = float(mixture.n_routed_experts)
    per_token = float(mixture.num_experts_per_tok)
    tokens = group[0].rows
    pairs, active = rank_load(tokens, experts, per_token, platform.ep)
    names = kernels.products(group[0]).expert_kernels
    rates = kernels.rates
    engine = kernels.options.engine_record
    is_exchanged = platform.attention_groups > 1
    pairs = pairs * np.where(is_exchanged, engine.expert_imbalance, 1.0)
    is_hopper = (rates.has_asynchronous_cores > 0) & (rates.has_fp4 == 0)
    is_sorted = is_exchanged & is_hopper & (names == "fp8-block") & engine.deep_gemm
    work = ExpertWork(
        pairs=pairs,
        active_experts=active,
        # An exchange brings a group only tokens that it has an expert of.
        all_pairs=np.where(is_exchanged, pairs, tokens * per_token),
        experts=experts,
        hidden=float(mixture.routed_width),
        expert_hidden=np.ceil(mixture.moe_intermediate_size / platform.tp),
        matrices=float(kernels.model.n_up_matrices + 1),
        weight_bytes=_weight_bytes(kernels, group[0]),
        core_limit=np.where(is_sorted, DEEP_GEMM, names),
    )
    peak = kernels.products(group[0]).peak_flop_per_s
    law_s = kernels.law("experts", experts_time_s, work, peak, rates)
    slowdown = number_by_kind(work.core_limit, engine.expert_time)
    law_s = law_s * np.where(platform.rates.has_asynchronous_cores, slowdown, 1.0)
    return kernels.corrected_s("experts", experts_case(work), law_s, group)


def scan_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """A layer of linear attention but for its projections: a convolution and a scan.

    Limiting assumption: Mamba 1 is taken for Mamba 2 with the same state.
    """
    platform = kernels.platform
    dims = kernels.model.linear_dims
    stream = group[0].stream
    assert stream is not None  # a state belongs to a request
    sequences = platform.own_requests(stream.requests)
    share = largest_parts(kernels.model, platform.attention_ranks)["value_heads"]
    tokens = stream.table.tokens_per_request / (platform.sp if stream.is_prefill else 1.0)
    convolution = Convolution(
        sequences=sequences,
        tokens=tokens,
        channels=dims.conv_channels * share,
        width=float(dims.conv_kernel),
        is_prefill=stream.is_prefill,
    )
    scan = Scan(
        sequences=sequences,
        tokens=tokens,
        key_heads=np.maximum(dims.n_key_heads * share, 1.0),
        value_heads=dims.n_value_heads * share,
        key_dim=float(dims.key_dim),
        value_dim=float(dims.value_dim),
        is_prefill=stream.is_prefill,
        chunk_tokens=float(dims.form.chunk_tokens),
    )
    time = np.zeros_like(sequences)
    if dims.state_elements:
        time += kernels.law("scan", scan_time_s, scan, kernels.rates)
    if dims.conv_channels:
        time += kernels.law("scan", convolution_time_s, convolution, kernels.rates)
    return time


def rows_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """Time of a norm, a rotation or an activation.

    Engines that replay graphs have the vectorized kernels of 2025; the others have those of 2023.
    """
    operator = group[0]
    rates = kernels.platform.rates
    moved = _moved_bytes(kernels, operator)
    role = operator.rule.role
    if kernels.options.engine_record.starter == "graphs":
        moved_s = kernels.law("elementwise", vector_time_s, moved, rates, role=role)
        return vector_start_s(role) + moved_s
    row_bytes = moved / np.maximum(operator.rows, 1.0)
    return kernels.law("elementwise", row_time_s, operator.rows, row_bytes, rates)


def stream_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """A look-up of rows in a table, or an operator that streams its weights and a state."""
    moved = _moved_bytes(kernels, group[0]) + group[0].weight_bytes + group[0].kv_bytes
    return kernels.law("elementwise", stream_time_s, moved, kernels.rates, is_cached=False)


def residual_s(kernels: FittedKernels, group: Works) -> FloatArray:
    """Time of an addition in the kernel of the next norm: two more passes over the rows, no start.

    Vectorized kernels keep the sum in registers; those of 2023 read it again.
    """
    rates = kernels.platform.rates
    moved = _moved_bytes(kernels, group[0])
    if kernels.options.engine_record.starter == "graphs":
        law: Callable[..., FloatArray] = vector_time_s
        before = moved * (2.0 / 3.0)
        after = moved * (4.0 / 3.0)
    else:
        law = stream_time_s
        before = np.zeros_like(moved)
        after = moved
    ends = (kernels.law("elementwise", law, traffic, rates) for traffic in (after, before))
    return next(ends) - next(ends)


def _own_tokens(platform: Platform, stream: Stream) -> FloatArray:
    """(n,) tokens of each request that one rank brings: ranks of a sequence part a prompt's."""
    new = float(stream.table.tokens_per_request)
    return new / platform.sp if stream.is_prefill else np.full_like(platform.sp, new)


def _weight_bytes(kernels: FittedKernels, work: DeviceWork) -> FloatArray:
    """(n,) bytes of a weight of an operator."""
    platform = kernels.platform
    return platform.plain_bytes if work.is_plain else platform.weight_bytes


def _moved_bytes(kernels: FittedKernels, work: DeviceWork) -> FloatArray:
    """Activations that a kernel reads and writes between others, in 16 bits."""
    return work.activation_bytes / kernels.platform.activation_bytes * ROW_BITS / 8.0


_LAWS: dict[str, Callable[[FittedKernels, Works], FloatArray]] = {
    "gemm": gemm_s,
    "absorption": absorption_s,
    "attention": attention_s,
    "index": index_s,
    "experts": experts_s,
    "scan": scan_s,
    "rowwise": rows_s,
    "residual": residual_s,
    "lookup": stream_s,
    "stream": stream_s,
}
