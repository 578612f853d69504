"""Decode instances whose attention and feed-forward layers run on devices of their own (AFD).

Attention instances hold the cache, the embedding and the LM head. One feed-forward instance holds
the experts or the dense layers. It serves several attention instances, which may be other devices.
In every layer a micro-batch visits attention, link, feed-forward, and the link again
[MegaScaleInfer]_, [Step3]_. Each of the four works on one micro-batch at a time, so a step of ``m``
micro-batches takes the longer of ``m`` visits of the slowest and one round of all four. With one
micro-batch it is the sum of the times; three fill the pipeline of [Step3]_.

Limiting assumptions: activations cross in 16 bits, by the network unless one node holds all
devices, at its full rate after a latency. Tokens reach each group of their experts once, and the
router is with the experts. Clocks are those of devices without idle time. The numbers of attention
instances are powers of two.

.. [MegaScaleInfer] R. Zhu et al., MegaScale-Infer, arXiv:2504.02263, 2025, section 4.1.
.. [Step3] StepFun, Step-3 is Large yet Affordable, arXiv:2507.19427, 2025, section 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

import numpy as np

from codesign.base.columns import Fields, FloatArray, IntArray, combined, distinct
from codesign.base.records import frozen
from codesign.evaluators.platform.fitted_messages import ROW_BITS
from codesign.evaluators.platform.instances import (
    LINK_LATENCY_S,
    Demand,
    Instances,
    Variant,
    columns_of,
    fitting,
    splits,
)
from codesign.evaluators.platform.pass_messages import BETWEEN_GROUPS
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.models.deployments.queueing import EngineStep
from codesign.models.deployments.queueing.step_times import StepTimes
from codesign.models.hardware.device import Device
from codesign.models.workload.expert_routing import partners
from codesign.models.workload.model import LanguageModel

MOST_DEVICE_TYPES = 4
"""Most types of devices for this search, which tries every pair of them [ours]."""
MICRO_BATCHES = (1, 2, 3)
"""Micro-batches that are tried; with three, each of the stages of Step-3 has one."""
ATTENTION_INSTANCES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Attention instances of one feed-forward instance that are tried [ours]."""


def step_of_micro_batches(
    waves: int, attention_s: FloatArray, ffn_s: FloatArray, sent_s: FloatArray
) -> FloatArray:
    """Time of a decode step of all micro-batches, from the times of one micro-batch in all layers.

    Args:
        waves: Micro-batches.
        sent_s: Time of the messages of one direction.

    Examples:
        >>> times = np.array([3.0]), np.array([2.0]), np.array([1.0])
        >>> [float(step_of_micro_batches(waves, *times)[0]) for waves in (1, 2, 3)]
        [7.0, 7.0, 9.0]
    """
    slowest_s = np.maximum(np.maximum(attention_s, ffn_s), sent_s)
    return np.asarray(np.maximum(waves * slowest_s, attention_s + ffn_s + 2.0 * sent_s))


@frozen
class ExchangeTimes:
    """Attention instances that share a feed-forward instance, by their split and batch.

    Attributes:
        ffn: Evaluator of the feed-forward devices.
        ways: (w, 4) tensor parallelism of attention and of feed-forward layers, groups of
            experts, attention instances.
    """

    variant: Variant
    ffn: PlatformEvaluator
    position: int
    others: Fields
    ways: IntArray
    demand: Demand

    def __call__(self, owner: IntArray, count: IntArray) -> Instances:
        waves = self.variant.waves
        ways = self.ways[owner]
        ones = np.ones_like(count)
        requests = ways[:, 3] * count
        sides = (
            (self.variant.evaluator, np.column_stack([ways[:, 0], ones, ones, ones, count])),
            (self.ffn, np.column_stack([ways[:, 1], ones, ways[:, 2], ones, requests])),
        )
        attention, ffn = (self._passes(*side) for side in sides)
        ends: Any = self.variant.device, self.variant.ffn  # neither is a found design
        sent_s = exchange_s(self.ffn.workload.language_model, ends, ways, requests)
        step_s = step_of_micro_batches(waves, attention[0], ffn[0], sent_s)
        # Both sides draw idle power while they wait for each other.
        attention_j, ffn_j = (
            joules + idle_watts * (step_s / waves - time_s)
            for time_s, joules, idle_watts, _ in (attention, ffn)
        )
        fits = (attention[3] * ffn[3] > 0) & np.isfinite(step_s)
        zero = np.zeros_like(step_s)
        joules = (ways[:, 3] * attention_j + ffn_j) / requests
        return Instances.judged(
            self.demand.limits,
            variant=np.full(len(owner), self.position),
            degrees=ways,
            owner=owner,
            count=count,
            batch=(waves * requests).astype(np.float64),
            n_devices=np.sum(devices_of(ways), axis=0).astype(np.float64),
            pace_s=step_s,
            first_s=zero,
            prompts_per_s=zero + np.inf,
            joules=joules * self.ffn.workload.generated,
            fits=fits,
            usd_per_hour=zero + np.nan,
        )

    def _passes(self, evaluator: PlatformEvaluator, rows: IntArray) -> FloatArray:
        """(4, k) time of a pass, its energy, idle power, and whether memory suffices.

        Args:
            rows: (k, 5) four degrees of parallelism, and the requests of a micro-batch.
        """
        if not len(rows):
            return np.zeros((4, 0))
        places, firsts = distinct(*combined(*rows.T))
        rows = rows[firsts]
        others = {**self.others, "device": next(iter(evaluator.devices))}
        serving, held = (
            evaluator.serving(
                columns_of(rows[:, :4], others, np.asarray(n_batches * rows[:, 4], np.float64))
            )
            for n_batches in (1.0, float(self.variant.waves))
        )
        timed = serving.decode_pass
        n = serving.n_devices
        between = [item.time_s for item in timed.operators if item.name in BETWEEN_GROUPS]
        between_s = np.sum([0.0 * n, *between], axis=0)
        idle_watts = n * timed.idle_watts
        joules = timed.energy_joules(n, 1.0 + 0.0 * n, timed.total_s) - idle_watts * between_s
        columns = [timed.total_s - between_s, joules, idle_watts, fitting(held)]
        return np.array(columns)[:, places]


def exchange_s(
    model: LanguageModel, ends: Sequence[Device], ways: IntArray, tokens: IntArray
) -> FloatArray:
    """Time in which the devices of the smaller side send the tokens of a pass, one way.

    Args:
        ends: Devices of the attention instances and of the feed-forward instance.
        ways: (k, 4), see :class:`ExchangeTimes`.
        tokens: (k,) tokens of all attention instances.

    Returns:
        (k,) seconds of all layers.
    """
    groups = ways[:, 2].astype(np.float64)
    mixture = model.moe_dims
    elsewhere = partners(groups, mixture.n_routed_experts or 1, mixture.num_experts_per_tok or 1)
    # A layer of experts is reached in one group more than those besides a token's own.
    more = elsewhere * groups / np.maximum(groups - 1.0, 1.0) - (groups > 1)
    copies = model.num_hidden_layers + more * model.n_moe_layers
    n_devices = devices_of(ways)
    is_near = (np.add(*n_devices) <= ends[0].n_linked) & (ends[0] is ends[1])
    far, near = (
        min(getattr(side, name) or np.nan for side in ends)
        for name in ("network_bandwidth", "link_bandwidth")
    )
    rate = np.where(is_near, near, far) * np.minimum(*n_devices)
    sent_bytes = copies * tokens * model.hidden_size * ROW_BITS / 8.0
    return np.asarray(model.num_hidden_layers * LINK_LATENCY_S + sent_bytes / rate)


@frozen
class ExchangedStepTimes:
    """Step times of attention instances that share a feed-forward instance.

    Limiting assumptions: the requests of a step are spread evenly over its micro-batches, each of
    which has one for every attention instance, and over the instances. A step with a chunk of a
    prompt, as after a preemption, is one micro-batch.

    Attributes:
        attention: Steps of one attention instance.
        ffn: Steps of the feed-forward instance.
        waves: Micro-batches at most; see above.
        n_attention: Attention instances.
        send_s: Seconds to send so many tokens one way.
    """

    attention: StepTimes
    ffn: StepTimes
    waves: int
    n_attention: int
    send_s: Callable[[IntArray], FloatArray]

    def step_s(self, step: EngineStep) -> float:
        most = 1 if step.chunks else self.waves
        waves = max(min(most, ceil(step.n_decoding / self.n_attention)), 1)
        n_requests = ceil(step.n_decoding / waves)
        n_each = ceil(n_requests / self.n_attention)
        context = step.context_tokens * n_each // max(step.n_decoding, 1)
        each = EngineStep(step.chunks, n_each, context)
        gathered = EngineStep(step.chunks, n_requests, n_requests)
        n_tokens = n_requests + sum(chunk.tokens for chunk in step.chunks)
        attention_s, ffn_s = np.array([[self.attention.step_s(each)], [self.ffn.step_s(gathered)]])
        sent_s = self.send_s(np.array([n_tokens]))
        return float(step_of_micro_batches(waves, attention_s, ffn_s, sent_s)[0])


def devices_of(ways: IntArray) -> tuple[IntArray, IntArray]:
    """(k,) devices with the attention and devices with the feed-forward layers of each way."""
    return ways[:, 0] * ways[:, 3], ways[:, 1] * ways[:, 2]


def exchange_ways(evaluator: PlatformEvaluator, most_devices: int) -> IntArray:
    """(w, 4) ways to split a model, see :class:`ExchangeTimes`, on so many devices at most."""
    degrees = splits(evaluator.workload.language_model, [1], most_devices)
    products = itertools.product(np.unique(degrees[:, 0]), degrees, ATTENTION_INSTANCES)
    ways = np.array([(tensor, *degree[[0, 2]], n) for tensor, degree, n in products], np.int64)
    return np.asarray(ways[np.sum(devices_of(ways), axis=0) <= most_devices])
