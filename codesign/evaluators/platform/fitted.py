"""Time of a pass by laws of kernels that are fitted to measurements: what the profile fitted is.

The operators of a pass become the kernels that a serving engine starts: matrix products, one
attention for the products with keys and values, one for a layer of experts, one that works row by
row for a norm with the addition before it. Kernels of a device run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.communication import Message
from codesign.evaluators.platform.memory import Residence
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.platforms import Platform
from codesign.evaluators.platform.roofline import OperatorTime, time_operator
from codesign.evaluators.platform.work import DeviceWork
from codesign.hardware.collectives import split_over_nodes
from codesign.machines.device.constants import load_constants
from codesign.machines.device.gemm import GemmConstants, Products, gemm_time_s
from codesign.machines.device.rates import DeviceRates
from codesign.schema import Record
from codesign.workload.model import LanguageModel

_WHOLE = ("attention", "experts", "scan")
"""Kernels of which several operators are parts."""
_ROW_BITS = 16.0
"""Bits of activations between kernels: narrower inputs are quantized by the product's kernel."""

Constants = TypeVar("Constants", bound=Record)


def launches(work: Sequence[DeviceWork]) -> Iterator[list[DeviceWork]]:
    """The operators of a pass, grouped by the kernel that runs them together."""
    group: list[DeviceWork] = []
    for item in work:
        continues = (
            group
            and item.kernel in _WHOLE
            and item.kernel == group[0].kernel
            and item.stream is group[0].stream
            and item.count == group[0].count
            and not item.starts_attention
        )
        if group and not continues:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


@dataclass(frozen=True)
class FittedKernels:
    """The laws of kernels on the devices of a batch of platforms.

    Attributes:
        model: The language model.
        platform: Devices, links, parallelism.
        options: Resolved options.
        residence: Where weights and KV cache lie.
    """

    model: LanguageModel
    platform: Platform
    options: PlatformOptions
    residence: Residence

    def times(self, work: Sequence[DeviceWork]) -> list[OperatorTime]:
        """The kernels of a pass, in the order in which they first run."""
        return [self._launch(group) for group in launches(work)]

    def _launch(self, group: Sequence[DeviceWork]) -> OperatorTime:
        bounds = [
            time_operator(item, self.platform, self.residence, self.options) for item in group
        ]
        first = group[0]
        once = _LAWS[first.kernel](self, group)
        name = first.name if len(group) == 1 else _name_of(group)
        return OperatorTime(
            name=name,
            part="attention" if first.kernel == "attention" else "linear",
            is_in_layers=first.block == "layers",
            count=bounds[0].count,
            time_s=first.count * once,
            compute_s=_sum([bound.compute_s for bound in bounds]),
            memory_s=_sum([bound.memory_s for bound in bounds]),
            mac=_sum([bound.mac for bound in bounds]),
            bytes=_sum([bound.bytes for bound in bounds]),
        )

    @property
    def rates(self) -> DeviceRates:
        """Numbers of the devices; offloaded weights and KV cache come at their own rate."""
        return replace(
            self.platform.rates, bandwidth_bytes_per_s=1.0 / self.residence.kept_s_per_byte
        )

    def by_class(
        self, family: str, record: type[Constants], law: Callable[[Constants], FloatArray]
    ) -> FloatArray:
        """(n,) a law, with the constants of the class of each design's device."""
        column = self.platform.device_class
        classes = list(dict.fromkeys(str(name) for name in column.values))
        seconds = np.asarray(law(load_constants(family, record, classes[0])))
        for name in classes[1:]:
            is_own = np.array([value == name for value in column.values])[column.codes]
            seconds = np.where(is_own, law(load_constants(family, record, name)), seconds)
        return np.broadcast_to(seconds, (len(column),))


def _gemm_s(kernels: FittedKernels, group: Sequence[DeviceWork]) -> FloatArray:
    """A product; a product per head (MLA's absorption) is as many products in one launch."""
    platform, item = kernels.platform, group[0]
    formats = platform.products
    quantized = np.asarray(formats.is_input_quantized)
    products = Products(
        m=item.rows,
        n=item.columns,
        k=item.inner,
        peak_flop_per_s=platform.flop_per_s,
        count=item.products,
        weight_bits=platform.weight_bytes * 8.0,
        activation_bits=np.where(quantized, platform.activation_bytes * 8.0, _ROW_BITS),
        is_weight_converted=formats.is_weight_converted,
        is_input_quantized=quantized,
        is_integer=formats.is_integer,
        has_fine_scales=formats.has_fine_scales,
    )
    return kernels.by_class(
        "gemm", GemmConstants, lambda constants: gemm_time_s(products, kernels.rates, constants)
    )


_LAWS: dict[str, Callable[[FittedKernels, Sequence[DeviceWork]], FloatArray]] = {
    "gemm": _gemm_s,
}


def _sum(terms: Sequence[FloatArray]) -> FloatArray:
    return np.asarray(sum(terms[1:], terms[0]))


def _name_of(group: Sequence[DeviceWork]) -> str:
    """What a kernel of several operators is called: its kind, and the requests that it serves."""
    stream = group[0].stream
    return f"{group[0].kernel}{stream.name if stream else ''}"


def fitted_message_s(message: Message, platform: Platform) -> FloatArray:
    """(n,) time of one instance of a message."""
    inner, outer = split_over_nodes(message.ranks, message.stride, platform.node_size)
    return inner * outer
