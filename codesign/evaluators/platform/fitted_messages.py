"""Time of messages between devices by laws that are fitted to measured collectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from codesign.base.columns import ArrayPair, FloatArray, Floats
from codesign.base.records import frozen
from codesign.base.schema import Record
from codesign.evaluators.platform.communication import Message, mean_over_boundaries
from codesign.evaluators.platform.operator_time import Rooflines
from codesign.models.hardware.collective_times import CollectiveKind, split_over_nodes, wire_bytes
from codesign.models.machines.device.absorbing import AbsorbingConstants
from codesign.models.machines.device.attention import AttentionConstants
from codesign.models.machines.device.collectives import (
    CollectiveConstants,
    DeviceCollective,
    collective_time_s,
)
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.elementwise import ElementwiseConstants
from codesign.models.machines.device.engine import EngineConstants, rank_wait_s
from codesign.models.machines.device.engine import host_copy_s as engine_host_copy_s
from codesign.models.machines.device.expert_exchange import (
    DISPATCH_BYTES,
    ExchangeConstants,
    ExchangeKind,
    expert_exchange_time_s,
)
from codesign.models.machines.device.experts import ExpertConstants
from codesign.models.machines.device.gemm import GemmConstants
from codesign.models.machines.device.scan import ScanConstants
from codesign.models.workload.expert_routing import partners

ROW_BITS = 16.0
"""Bits of activations between kernels: narrower inputs are quantized by the product's kernel."""
EXCHANGE_CORES = 20.0
"""Cores that exchange tokens of large batches: DeepSeek-V3 (2024), section 3.2.2, and the default
of DeepEP, whose kernels the law is fitted to."""

_EXCHANGES: dict[str, tuple[ExchangeKind, ExchangeKind]] = {
    "dispatch": ("expert_dispatch_normal", "expert_dispatch_low_latency"),
    "combine": ("expert_combine_normal", "expert_combine_low_latency"),
}


_FAMILIES: dict[str, type[Record]] = {
    "absorbing": AbsorbingConstants,
    "attention": AttentionConstants,
    "collectives": CollectiveConstants,
    "elementwise": ElementwiseConstants,
    "engine": EngineConstants,
    "expert_exchange": ExchangeConstants,
    "experts": ExpertConstants,
    "gemm": GemmConstants,
    "mla": AttentionConstants,
    "scan": ScanConstants,
}
"""Constants of each family of laws."""


@frozen
class FittedMessages(Rooflines):
    """The laws of messages on the devices of a batch of platforms."""

    def law(
        self, family: str, function: Callable[..., FloatArray], *arguments: Any, **settings: Any
    ) -> FloatArray:
        """(n,) a law of a family of kernels, with the constants of each design's class of device.

        Scheduled chips have no kernels: 0.

        Args:
            function: Takes the arguments, then the constants.
        """
        column = self.platform.device_class
        record = _FAMILIES[family]
        classes = list(dict.fromkeys(map(str, column.values)))

        def values(name: str) -> FloatArray:
            if name == "scheduled":
                return np.zeros(len(column))
            constants: Any = load_constants(family, record, name)
            return function(*arguments, constants, **settings)

        result = values(classes[0])
        for name in classes[1:]:
            is_own = np.array([value == name for value in column.values])[column.codes]
            result = np.where(is_own, values(name), result)
        return np.broadcast_to(result, (len(column),))

    def message_s(self, message: Message) -> FloatArray:
        """(n,) time of one instance of a message.

        An engine takes what is faster: NCCL's all-reduce or, in graphs, its own; the exchange of
        tokens for large batches or that for small ones. Without graphs a collective waits for the
        last of its ranks; that of a host that starts kernels one by one takes longer if its message
        is large.
        """
        inner, nodes = split_over_nodes(message.ranks, message.stride, self.platform.node_size)
        ranks = inner * nodes
        size = _message_bytes(message)
        match message.collective:
            case "dispatch" | "combine":
                return np.minimum(*self._exchange_s(message))
            case "send":
                times = (self._collective_s("send", size, 2.0, n_nodes) for n_nodes in (1.0, 2.0))
                return mean_over_boundaries(message, self.platform, *times)
            case collective:
                time = self._collective_s(collective, size, ranks, nodes)
        if self.options.engine_record.starter != "graphs":
            wait = self.law("engine", rank_wait_s, ranks)
            return wait + time + self.host_copy_s(message)
        if collective == "all_reduce":
            return np.minimum(time, self._collective_s("custom_all_reduce", size, ranks, nodes))
        return time

    def _collective_s(
        self,
        collective: DeviceCollective,
        size: FloatArray,
        ranks: Floats,
        nodes: Floats,
    ) -> FloatArray:
        """(n,) time of one collective among ranks that are in step."""
        sizes = size, ranks, nodes, self.platform.links
        time_s = self.law("collectives", collective_time_s, collective, *sizes)
        return time_s * self.platform.time_factors.get("message", 1.0)

    def host_copy_s(self, message: Message) -> FloatArray:
        """(n,) what a collective takes longer than its links need, because its message is large and
        a host starts kernels one by one."""
        is_eager = self.options.engine_record.starter == "eager"
        if not is_eager or message.collective in ("dispatch", "combine", "send"):
            return np.zeros_like(message.elements)
        size = _message_bytes(message)
        sent, _ = wire_bytes(cast("CollectiveKind", message.collective), size, message.ranks, 1.0)
        rate = self.platform.rates.host_bandwidth_bytes_per_s
        return self.law("engine", engine_host_copy_s, size, sent, rate)

    def _exchange_s(self, message: Message) -> ArrayPair:
        """(n,) times of a dispatch or a combine for large batches, and for small ones."""
        inner, nodes = split_over_nodes(message.ranks, message.stride, self.platform.node_size)
        mixture = self.model.moe_dims
        hidden = float(self.model.moe_dims.routed_width)
        experts = float(mixture.n_routed_experts)
        links = self.platform.links
        top_k = float(mixture.num_experts_per_tok)
        # Groups that a token reaches besides its own; 1 where there is only one group.
        reached = partners(message.ranks, experts, mixture.num_experts_per_tok)
        tokens = message.elements / (hidden * np.where(message.ranks > 1, reached, 1.0))
        tokens = tokens * self.options.engine_record.expert_imbalance
        normal, low_latency = (
            self.law(
                "expert_exchange", expert_exchange_time_s, exchange_kind, tokens, experts, top_k,
                hidden, inner * nodes, nodes, links,
            )
            for exchange_kind in _EXCHANGES[message.collective]
        )  # fmt: skip
        return normal, low_latency

    def occupied_share(self, message: Message) -> FloatArray:
        """(n,) share of a device's cores that a message keeps from the operators that hide it.

        Limiting assumption: only an exchange for large batches occupies cores. That for small ones
        leaves them free while tokens travel; NCCL's few are not counted.
        """
        if message.collective not in _EXCHANGES:
            return np.zeros_like(message.elements)
        normal, low_latency = self._exchange_s(message)
        share = np.minimum(EXCHANGE_CORES / self.platform.rates.n_cores, 1.0)
        return np.where((normal <= low_latency) & (message.ranks > 1), share, 0.0)


def _message_bytes(message: Message) -> FloatArray:
    """(n,) bytes of a message; tokens that were dispatched are gathered as they came."""
    return message.elements * (DISPATCH_BYTES if message.is_dispatched else ROW_BITS / 8.0)
