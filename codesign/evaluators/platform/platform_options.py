"""Modelling of a platform: the choices that measurements, bounds and papers make differently.

A profile sets them together, by its rules. ``fitted`` is the default: every kernel and collective
takes the time that laws fitted to measurements give (:mod:`codesign.models.machines.device`).
``ideal`` is a bound: peak rates, and nothing starts. In both a causal mask is skipped, embedding
rows are looked up, logits are computed where a token is predicted, and a batch of tokens reads the
experts that it is expected to touch. Further profiles have the conventions of others
(:mod:`codesign.conventions`), such as those of the public tool of [GenZ]_, found by their names
(:mod:`codesign.evaluators.profiles`).

.. [GenZ] A. Bambhaniya et al., Demystifying Platform Requirements for Diverse LLM Inference
   Use Cases, 2024, and its tool GenZ-LLM-Analyzer, version 0.0.16.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from codesign.base.errors import KeyedValueError
from codesign.base.schema import (
    Bandwidth,
    Latency,
    Positive,
    PositiveAmount,
    Share,
    accepted_by,
    quantity,
    unstored_at,
)
from codesign.evaluators.format_accuracy import AccuracyOptions
from codesign.evaluators.profiles import Profiles
from codesign.models.hardware.collective_times import Algorithm
from codesign.models.hardware.device import PCIE_LINK
from codesign.models.machines.device.engine import Engine, load_engine

AttentionParallelism = Literal["data", "tensor"]

PROFILES = Profiles(
    "platform",
    {
        "fitted": "codesign.evaluators.platform.fitted:FittedRules",
        "ideal": "codesign.evaluators.platform.serving_rules:ServingRules",
    },
)
"""Every class of rules is a :class:`.serving_rules.ServingRules`."""


LINK_NOTE = (
    "The device file does not state the PCIe path. Assumed: through host memory; "
    "--link pcie-switch, pcie-bridge or pcie-host states it."
)


def _check_link(link: str) -> None:
    if re.fullmatch(PCIE_LINK, link) is None:
        raise ValueError(
            "expected pcie-switch, pcie-bridge, pcie-host or pcie-shared, also with a generation, "
            f"such as pcie5-host; got {link!r}"
        )


Profile = Annotated[
    str, accepted_by(PROFILES.rules_class), Field(json_schema_extra=PROFILES.list_in)
]


class PlatformOptions(AccuracyOptions):
    """Options of the ``platform`` evaluator; what a campaign says next to its name."""

    profile: Profile = "fitted"
    """Conventions, and the options below that are left out."""
    compute_efficiency: Share | None = None
    """Share of the peak arithmetic rate that operators reach; 1 if None. GenZ measured 60 % of the
    peak, 70 % of the memory's and 75 % of the links' bandwidth on H100 SXM (§IV-E)."""
    memory_efficiency: Share | None = None
    """Share of the memory's bandwidth that operators reach."""
    link_efficiency: Share | None = None
    """Share of the links' bandwidth that collectives reach."""
    slow_efficiency: Share | None = None
    """Share of the slow memory's bandwidth that offloaded data reach (Eq. 1)."""
    usable_memory: Share = 1.0
    """Share of a device's memory for weights and KV cache; serving engines keep some 10 % for
    activations and buffers."""
    offload: bool = False
    """Whether what does not fit the fast memory may lie in the slow one (Eq. 1)."""
    overlap: bool = False
    """Whether collectives hide behind the operators of the pass, or the other way round; GenZ
    §IV-D keeps them apart, as serving engines do. Engines that overlap two micro-batches serve two
    such batches in twice the time, which is the same throughput."""
    all_reduce: Algorithm = "ring"
    """``ring`` (Eq. 3) or ``tree``, a double binary tree: fewer steps for small messages."""
    router_all_reduce: bool | None = None
    """Whether a router that is split has its scores added up by an all-reduce, as in GenZ's tool;
    its paper has two all-reduces a layer (Eq. 5). Only that tool's conventions split it."""
    has_nodes: bool | None = None
    """Whether groups that exceed the devices that a node links use the network between nodes;
    if not, all devices are joined by links."""
    node_size: Positive | None = None
    """Devices of a node, instead of what the device's file says."""
    link_latency: Latency = 1e-6
    """Latency of a step over links where the device's file states none: 1 us, as in GenZ's tool."""
    network_latency: Latency = 5e-6
    """Latency of a step between nodes where the device's file states none: 5 us, NCCL's protocol
    LL between nodes, as Erdil, Inference economics of language models (2025), counts it."""
    engine: Annotated[str, accepted_by(load_engine)] = "graphs"
    """Serving engine under ``fitted``, by name or by the path of its file. ``graphs``, ``streams``
    and ``eager`` only say how kernels start. ``graphs``: devices replay graphs in step, with the
    engine's own all-reduce and the norms and activations of 2025. ``streams``: a compiled host
    fills a queue, with NCCL. ``eager``: a host of 2023 starts each kernel. Others, such as
    ``tensorrt-llm``, ``vllm`` and ``sglang``, add what their files state."""
    warm_up: Latency | None = None
    """Time to start a collective; nothing under ``ideal``, 5 us by GenZ's conventions."""
    attention: AttentionParallelism | None = None
    """Effect of expert parallelism on attention: under ``data`` every group of tensor-parallel
    devices serves its own requests and keeps their cache alone, and a token is sent once to each
    group that has an expert of its, as DeepSeek-V3 is deployed (its technical report, section 3.4);
    under ``tensor`` all groups share every request's heads and add up what their experts give."""
    onchip_bandwidth: Bandwidth = 18000 * 2.0**30
    """Bandwidth at which activations that stay on chip are read by GenZ's conventions: 18,000
    GiB/s, the default of its tool for every device. Elsewhere all activations of every operator
    pass the memory."""
    device_files: tuple[str, ...] = ()
    """Files of further devices, which designs call by the file's name without its ending."""
    slow_bandwidth: Bandwidth | None = None
    """Bandwidth of the slow memory, instead of what the device's file says."""

    link: Annotated[Annotated[str, accepted_by(_check_link)] | None, unstored_at(None)] = None
    """Path between cards on PCIe, instead of what the device's file says: ``pcie-switch`` (also two
    sockets with NCCL_MIN_NCHANNELS=8), ``pcie-bridge`` (two sockets as NCCL takes them by itself),
    ``pcie-host`` (no peers, through the host's memory) or ``pcie-shared`` (one path for all cards,
    as on a measured server with L40S). A generation and lanes may be added: ``pcie5-host``,
    ``pcie4x8-switch``."""
    power_limit: Annotated[Annotated[float, quantity("W")] | None, unstored_at(None)] = None
    """Power limit of each device, instead of its board's."""
    device_usd_per_hour: Annotated[PositiveAmount | None, unstored_at(None)] = None
    """Rent of one device in USD per hour; what is typically listed for it if left out."""

    def check_fields(self) -> None:
        super().check_fields()
        meaningless = PROFILES.rules_class(self.profile).meaningless_options
        stray = [name for name in meaningless if getattr(self, name) is not None]
        if "power_limit" in stray:
            problem = f"expected profile fitted; {self.profile} has no law of power"
            raise KeyedValueError("power_limit", problem)
        if stray:
            raise ValueError(
                f"{', '.join(stray)}: expected profile {self.other_profiles}; under "
                f"{self.profile} every kernel has an efficiency of its own"
            )

    @property
    def other_profiles(self) -> str:
        """The profiles that are not in force, in words."""
        return " or ".join(name for name in PROFILES.names() if name != self.profile)

    def resolved(self) -> PlatformOptions:
        """These options with the profile's choices filled in."""
        defaults = PROFILES.rules_class(self.profile).defaults
        return self.model_copy(
            update={name: defaults[name] for name in defaults if getattr(self, name) is None}
        )

    @property
    def engine_record(self) -> Engine:
        """The engine."""
        return load_engine(self.engine)

    @property
    def has_data_attention(self) -> bool:
        """Whether groups of devices that share experts serve requests of their own."""
        return self.attention == "data"
