"""How a platform is modelled: the choices that measurements, bounds and GenZ make differently.

Three profiles set them together. ``fitted`` is the default: every kernel and collective takes the
time that laws fitted to measurements give (:mod:`codesign.machines.device`). ``ideal`` is a bound:
peak rates, and nothing starts. In both a causal mask is skipped, embedding rows are looked up,
logits are computed where a token is predicted, and a batch of tokens reads the experts that it is
expected to touch. ``genz`` has the conventions of the public tool of [GenZ]_, which ``codesign
validate genz`` holds to its answers.

.. [GenZ] A. Bambhaniya et al., Demystifying Platform Requirements for Diverse LLM Inference
   Use Cases, 2024, and its tool GenZ-LLM-Analyzer, version 0.0.16.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from codesign.hardware.collectives import WARM_UP_S, Algorithm
from codesign.schema import Fraction, Record, quantity

Profile: TypeAlias = Literal["fitted", "ideal", "genz"]
Share: TypeAlias = Annotated[Fraction, Field(gt=0, le=1)]
Seconds: TypeAlias = Annotated[float, quantity("us"), Field(ge=0)]

Engine: TypeAlias = Literal["graphs", "streams", "eager"]
AttentionParallelism: TypeAlias = Literal["data", "tensor"]

_PEAK_RATES = {
    "compute_efficiency": 1.0,
    "memory_efficiency": 1.0,
    "link_efficiency": 1.0,
    "slow_efficiency": 1.0,
}
_PROFILES: dict[str, dict[str, Any]] = {
    "fitted": {
        # [ours] copies from host memory reach about what links reach [GenZ, section IV-E].
        "slow_efficiency": 0.75,
        "attention": "data",
        "has_nodes": True,
        "router_all_reduce": False,
    },
    "ideal": {
        **_PEAK_RATES,
        "warm_up": 0.0,
        "attention": "data",
        "has_nodes": True,
        "router_all_reduce": False,
    },
    "genz": {
        **_PEAK_RATES,
        "warm_up": WARM_UP_S,
        "attention": "tensor",
        "has_nodes": False,
        "router_all_reduce": True,
    },
}
_OF_ROOFLINES = ("compute_efficiency", "memory_efficiency", "link_efficiency", "warm_up")
"""Options that mean nothing where kernels have fitted efficiencies of their own."""


class PlatformOptions(Record):
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
    """Whether ``genz`` splits the router too and adds up its scores by an all-reduce, as GenZ's
    tool does; its paper has two all-reduces a layer (Eq. 5). Other profiles do not split it."""
    has_nodes: bool | None = None
    """Whether groups that exceed the devices that a node links use the network between nodes;
    if not, all devices are joined by links."""
    node_size: Annotated[int, Field(ge=1, strict=True)] | None = None
    """Devices of a node, instead of what the device's file says."""
    link_latency: Seconds = 1e-6
    """Latency of a step over links where the device's file states none: 1 us, as in GenZ's tool."""
    network_latency: Seconds = 5e-6
    """Latency of a step between nodes where the device's file states none: 5 us, NCCL's protocol
    LL between nodes, as Erdil, Inference economics of language models (2025), counts it."""
    engine: Engine = "graphs"
    """What starts the kernels under ``fitted``: ``graphs``, which devices replay in step, with an
    all-reduce of the engine's own; ``streams``, which a compiled host fills ahead, with NCCL, so
    that a collective waits for the last of its ranks; ``eager``, where the host starts one kernel
    after the other, as serving engines of 2023 did, and a pass takes at least as long as that."""
    warm_up: Seconds | None = None
    """Time to start a collective; nothing under ``ideal``, 5 us under ``genz``."""
    attention: AttentionParallelism | None = None
    """What expert parallelism does to attention: under ``data`` every group of tensor-parallel
    devices serves its own requests and keeps their cache alone, and a token is sent once to each
    group that has an expert of its, as DeepSeek-V3 is deployed (its technical report, section 3.4);
    under ``tensor`` all groups share every request's heads and add up what their experts give."""
    onchip_bandwidth: Annotated[float, quantity("GB/s"), Field(gt=0)] = 18000 * 2.0**30
    """Bandwidth at which profile ``genz`` reads activations that stay on chip: 18,000 GiB/s, the
    default of its tool for every device. Elsewhere all activations of every operator pass the
    memory."""
    device_files: tuple[str, ...] = ()
    """Files of further devices, which designs call by the file's name without its ending."""
    slow_bandwidth: Annotated[float, quantity("GB/s"), Field(gt=0)] | None = None
    """Bandwidth of the slow memory, instead of what the device's file says."""

    @model_validator(mode="after")
    def _check(self) -> PlatformOptions:
        stray = [name for name in _OF_ROOFLINES if getattr(self, name) is not None]
        if self.profile == "fitted" and stray:
            raise ValueError(
                f"{', '.join(stray)}: expected profile ideal or genz; under fitted every kernel "
                "has an efficiency of its own"
            )
        return self

    def resolved(self) -> PlatformOptions:
        """These options with the profile's choices filled in."""
        chosen = {
            name: value
            for name, value in _PROFILES[self.profile].items()
            if getattr(self, name) is None
        }
        return self.model_copy(update=chosen)

    @property
    def is_genz(self) -> bool:
        """Whether the public tool's conventions hold."""
        return self.profile == "genz"

    @property
    def is_fitted(self) -> bool:
        """Whether kernels take the time of laws that are fitted to measurements."""
        return self.profile == "fitted"

    @property
    def has_data_attention(self) -> bool:
        """Whether groups of devices that share experts serve requests of their own."""
        return self.attention == "data"
