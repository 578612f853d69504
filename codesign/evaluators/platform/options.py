"""How a platform is modelled: the choices that GenZ and physics make differently, each named.

Two profiles set them together. ``physical`` is the default: a causal mask is skipped, embedding
rows are looked up, logits are computed where a token is predicted, and a batch of tokens reads
the experts that it is expected to touch. ``genz`` has the conventions of the public tool of
[GenZ]_, which ``codesign validate genz`` holds to its answers.

.. [GenZ] A. Bambhaniya et al., Demystifying Platform Requirements for Diverse LLM Inference
   Use Cases, 2024, and its tool GenZ-LLM-Analyzer, version 0.0.16.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from codesign.hardware.collectives import WARM_UP_S, Algorithm
from codesign.schema import Fraction, Record, quantity

Profile: TypeAlias = Literal["physical", "genz"]
Share: TypeAlias = Annotated[Fraction, Field(gt=0, le=1)]
Seconds: TypeAlias = Annotated[float, quantity("us"), Field(ge=0)]

_PROFILES: dict[str, dict[str, Any]] = {
    "physical": {
        # Measured on eight H100 SXM under vLLM and with nccl-tests [GenZ, §IV-E].
        "compute_efficiency": 0.60,
        "memory_efficiency": 0.70,
        "link_efficiency": 0.75,
        # [ours] copies to host memory reach about what links reach.
        "slow_efficiency": 0.75,
        "has_nodes": True,
        "router_all_reduce": False,
    },
    "genz": {
        "compute_efficiency": 1.0,
        "memory_efficiency": 1.0,
        "link_efficiency": 1.0,
        "slow_efficiency": 1.0,
        "has_nodes": False,
        "router_all_reduce": True,
    },
}


class PlatformOptions(Record):
    """Options of the ``platform`` evaluator; what a campaign says next to its name."""

    profile: Profile = "physical"
    """Conventions, and the options below that are left out."""
    compute_efficiency: Share | None = None
    """Share of the peak arithmetic rate that operators reach."""
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
    §IV-D keeps them apart, as serving engines do."""
    all_reduce: Algorithm = "ring"
    """``ring`` (Eq. 3) or ``tree``, a double binary tree: fewer steps for small messages."""
    router_all_reduce: bool | None = None
    """Whether ``genz`` splits the router too and adds up its scores by an all-reduce, as GenZ's
    tool does; its paper has two all-reduces a layer (Eq. 5). ``physical`` does not split it."""
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
    warm_up: Seconds = WARM_UP_S
    """Time to start a collective."""
    onchip_bandwidth: Annotated[float, quantity("GB/s"), Field(gt=0)] = 18000 * 2.0**30
    """Bandwidth at which profile ``genz`` reads activations that stay on chip: 18,000 GiB/s, the
    default of its tool for every device. Under ``physical`` all activations of every operator pass
    the memory."""
    device_files: tuple[str, ...] = ()
    """Files of further devices, which designs call by the file's name without its ending."""
    slow_bandwidth: Annotated[float, quantity("GB/s"), Field(gt=0)] | None = None
    """Bandwidth of the slow memory, instead of what the device's file says."""

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
