"""Rules of serving and of its counting, which profiles may set differently.

:class:`ServingRules` are the physical ones, with the time of a roofline: profile ``ideal``.
Another profile is a class that overrides what it does otherwise: :class:`.fitted.FittedRules` the
time, a tool's conventions (:mod:`codesign.conventions`) how things are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from codesign.base.columns import (
    Column,
    Fields,
    FloatArray,
    FloatMap,
    FloatPair,
    StringList,
    StringTuple,
)
from codesign.base.records import frozen
from codesign.evaluators.platform.communication import Message, expert_messages
from codesign.evaluators.platform.device_memory import (
    CachedTokens,
    DeviceFootprint,
    Residence,
    footprint,
)
from codesign.evaluators.platform.device_work import Stream, Works
from codesign.evaluators.platform.loads import Loads, StreamPart, expected_expert_loads
from codesign.evaluators.platform.operator_time import Rooflines
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_options import PROFILES, PlatformOptions
from codesign.evaluators.platform.product_columns import ProductColumns
from codesign.evaluators.platform.sharding import Sharding
from codesign.models.hardware.device import Device
from codesign.models.workload.lowering import lower
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operator_rules import OperatorRule
from codesign.models.workload.operators import OperatorTable


@frozen
class ServingRules:
    """The physical rules, and the bound that rooflines give.

    Attributes:
        defaults: Options that are left out.
        meaningless_options: Options that may not be set: kernels have efficiencies of their own, or
            no law of energy.
        meaningless_parameters: Parameters that a design may not have, as messages have fitted
            latencies of their own.
        limits_context: Whether a request beyond the model's context is refused; papers count longer
            ones.
        has_mixed_passes: Whether a pass may carry a chunk of a prompt together with a decode step.
        has_ideal_bounds: Whether the rooflines of the profile ``ideal`` bound what these rules
            give.
        has_vector_kernels: Whether elementwise operators are kernels with a time; if not, neighbors
            hide them.
        joins_contexts: Whether one kernel attends to prompt and answer, unless beams share the
            prompt's cache.
        kernels: Class of the times of operators and messages.
        unchecked_limits: Names of the limits that are not asked for.
    """

    options: PlatformOptions

    defaults: ClassVar[Fields] = {
        "compute_efficiency": 1.0,
        "memory_efficiency": 1.0,
        "link_efficiency": 1.0,
        "slow_efficiency": 1.0,
        "warm_up": 0.0,
        "attention": "data",
        "has_nodes": True,
        "router_all_reduce": False,
    }
    meaningless_options: ClassVar[StringTuple] = ("power_limit",)
    meaningless_parameters: ClassVar[StringTuple] = ()
    limits_context: ClassVar[bool] = True
    has_mixed_passes: ClassVar[bool] = True
    has_ideal_bounds: ClassVar[bool] = False
    has_vector_kernels: ClassVar[bool] = False
    joins_contexts: ClassVar[bool] = False
    kernels: ClassVar[type[Rooflines]] = Rooflines
    unchecked_limits: ClassVar[frozenset[str]] = frozenset()

    def prefill_table(self, model: LanguageModel, tokens: int, past: int) -> OperatorTable:
        """Operators that prefill tokens of one request after those that the cache holds."""
        return lower(model, "prefill", tokens, 1, past_tokens=past)

    def decode_table(
        self, model: LanguageModel, context: float, later: float, tokens: int = 1
    ) -> OperatorTable:
        """Operators of a decode step over a context, with later tokens that are counted apart.

        Args:
            tokens: New tokens of a request: the next one, and those that are checked with it.
        """
        return lower(model, "decode", 1, 1, context=context, later_tokens=later, new_tokens=tokens)

    def mean_generated(self, generated: float) -> float:
        """Tokens of its own beam that a decode step attends to.

        The mean step: step ``i`` of ``G`` sees its own token too, so ``(G + 1) / 2`` on average.
        """
        return (max(generated, 1.0) + 1.0) / 2.0

    def scored_requests(self, requests: FloatArray, beams: FloatArray) -> FloatArray:
        """Requests, or their beams, whose scores with the prompt are computed: all beams."""
        return beams

    def micro_batch(self, platform: Platform) -> FloatArray:
        """Requests that pass through the pipeline together."""
        return np.ceil(platform.batch / platform.pp)

    def products(
        self,
        products: ProductColumns,
        weights: Column,
        activations: Column,
        peak_16bit_flop_per_s: FloatArray,
    ) -> ProductColumns:
        """Products of formats of weights and activations, as the devices' datasheets state them."""
        return products

    def sharding(self, model: LanguageModel, platform: Platform) -> Sharding:
        """A rank's parts of the operators."""
        return Sharding(model, platform, unquantized=model.unquantized_parts)

    def expert_loads(self, sharding: Sharding, slices: Sequence[StreamPart]) -> Loads:
        """Loads of a rank's experts by the tokens."""
        return expected_expert_loads(sharding, slices)

    def keeps_on_chip(self, rule: OperatorRule, stream: Stream) -> bool:
        """Whether an operator's activations stay on chip; scores of attention always do."""
        return False

    def expert_messages(
        self, sharding: Sharding, streams: Sequence[Stream], tokens: FloatArray
    ) -> list[Message]:
        """Messages of layers with experts."""
        has_data_attention = self.options.has_data_attention
        return expert_messages(sharding.model, sharding.platform, tokens, has_data_attention)

    def footprint(
        self,
        sharding: Sharding,
        cached: CachedTokens,
        list_pass: Callable[[], Works],
    ) -> DeviceFootprint:
        """The bytes that a device stores, weights and cached tokens.

        Args:
            sharding: A rank's parts of the operators.
            cached: Tokens in the cache when the last is generated.
            list_pass: Lists a device's work in the pass that is looked at.
        """
        return footprint(sharding, cached)

    @property
    def slow_efficiency(self) -> float:
        """Share of the slow memory's bandwidth that transfers of offloaded data sustain."""
        return self.options.slow_efficiency or 1.0

    def paced_s(self, total_s: FloatArray, stage_s: FloatArray, waits: FloatArray) -> FloatArray:
        """Time from one pass of a micro-batch to its next, if all stages are kept busy.

        Args:
            total_s: Time of a pass through all stages.
            stage_s: Time of the slowest stage.
            waits: Micro-batches that follow one another through it.
        """
        return np.maximum(total_s, waits * stage_s)

    def timing(self, model: LanguageModel, platform: Platform, residence: Residence) -> Rooflines:
        """The time of operators and messages."""
        return self.kernels(model, platform, self.options, residence)

    def notes(self, device: Device, products: ProductColumns) -> StringList:
        """Notes on the rules, for one device."""
        widened = [
            f"{device.key} does not multiply {products.multiplied[0]}: products run in "
            f"{products.multiply[0]}, the weights keep their format in memory."
        ]
        is_other_half = (products.multiply[0], products.rate[0]) == ("bf16", "fp16")
        halved = [
            f"{device.key} does not multiply bf16: products of 16 bits run in fp16, at its rate."
        ]
        return [
            *self.timing_notes(device),
            *(widened if products.is_widened[0] else []),
            *(halved if is_other_half else []),
            "A decode step is the mean step of the answer.",
        ]

    def timing_notes(self, device: Device) -> StringList:
        """Notes on the time of operators, for one device."""
        shares = {
            "compute": self.options.compute_efficiency,
            "memory": self.options.memory_efficiency,
            "links": self.options.link_efficiency,
        }
        listed = ", ".join(
            f"{name} {share:.0%}" for name, share in shares.items() if share is not None
        )
        return [
            f"Profile ideal, a bound: rooflines with {listed} of the datasheet's rates; norms, "
            "softmax, activations, sampling and launches cost nothing."
        ]

    def metric_ranges(self, device: str, metrics: FloatMap) -> dict[str, FloatPair]:
        """Lowest and highest values of metrics, by name, where errors were measured; here of none.

        Args:
            device: Key of the device.
        """
        return {}


def rules_of(options: PlatformOptions) -> ServingRules:
    """The rules of the options' profile."""
    rules: ServingRules = PROFILES.rules_class(options.profile)(options)
    return rules
