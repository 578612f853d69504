"""Devices and their network as the economics see them: sustained rates, not peak rates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from codesign.base.columns import FloatPair, Floats, StringDict, Strings, StringTuple
from codesign.base.records import frozen
from codesign.base.schema import Fraction, Positive, Record, parse_record, quantity, read_document
from codesign.evaluators.economics.economics_options import EconomicsOptions
from codesign.evaluators.economics.nccl import Fabric
from codesign.models.hardware.device import SAME_RATE, ByteRate, Rate, load_device
from codesign.models.machines.device.formats import product_format
from codesign.models.workload.precision import bits_per_element

_FILE = Path(__file__).parent / "epoch.yaml"
BANDWIDTH_CAP = 0.75
"""Share of the memory's peak bandwidth that is sustained (Epoch section 4), where a file states
none."""
COMPUTE_CAP = 0.70
"""Share of the peak arithmetic rate that is sustained (Epoch section 4), where a file states
none."""


class PaperDevice(Record):
    """A device with the figures of Epoch's model.

    Attributes:
        peak_8_bit: Peak rate with 8-bit weights, and with 4-bit weights too.
        link_bandwidth: Bandwidth within a node, as :class:`.nccl.Fabric` takes it.
        network_bandwidth: Bandwidth between nodes, as :class:`.nccl.Fabric` takes it.
    """

    peak_16_bit: Rate
    peak_8_bit: Rate
    bandwidth: ByteRate
    capacity: Annotated[float, quantity("GB")]
    link_bandwidth: ByteRate
    network_bandwidth: ByteRate
    node_size: Positive
    compute_cap: Fraction
    bandwidth_cap: Fraction
    price_usd_per_hour: Annotated[float, quantity("USD")]
    sources: StringDict


class PaperFigures(Record):
    """Every device of the paper, by the key of its file."""

    devices: dict[str, PaperDevice]


@cache
def paper_devices() -> dict[str, PaperDevice]:
    """The devices whose figures the paper uses, by key."""
    return parse_record(read_document(_FILE), PaperFigures).devices


@frozen
class SustainedDevice:
    """``n`` kinds of device, or one; every array broadcasts with the designs.

    Attributes:
        name: Name for people.
        flop_per_s: Sustained arithmetic rate of one device, FLOP/s.
        bytes_per_s: Sustained bandwidth of the device's memory.
        capacity_bytes: Capacity of the device's memory.
        fabric: Links that join the devices.
        peak_flop_per_s: Peak arithmetic rate of one device, FLOP/s.
        notes: Origin of the figures that the device's file does not state.
    """

    name: str
    flop_per_s: Floats
    bytes_per_s: Floats
    capacity_bytes: Floats
    fabric: Fabric
    peak_flop_per_s: Floats
    notes: StringTuple = ()


def device_machine(name: str, weight_format: str, options: EconomicsOptions) -> SustainedDevice:
    """A device of the library, or of a file.

    The paper's figures serve the devices that it has; any other device has those of its file, and
    the paper's caps.

    Limiting assumption: activations are converted to the format in which weights multiply, whatever
    they are stored in (Epoch section 4).

    Args:
        name: Name or path, as :func:`codesign.models.hardware.device.load_device` takes it.
        weight_format: Format of a stored weight.
        options: Figures that replace those of the device.

    Raises:
        UnknownNameError: No such device, or none of its rates serves the weights.
    """
    device = load_device(name, "--on")
    product = product_format(weight_format, weight_format).multiply
    multiplied = device.multiply_format(product)
    notes = []
    if multiplied not in SAME_RATE[product]:
        notes = [
            f"{device.name} states no {product} rate: {weight_format} weights take "
            f"{bits_per_element(weight_format, 'plain'):g} bits in memory and multiply in "
            f"{multiplied}"
        ]
    paper = paper_devices().get(device.key)
    if paper is not None:
        is_wide = multiplied in SAME_RATE["bf16"]
        peak = paper.peak_16_bit if is_wide else paper.peak_8_bit
        memory = paper.bandwidth, paper.capacity
        return _sustained(device.name, peak, memory, options, notes, paper=paper)
    return _sustained(
        device.name, device.peak[multiplied], (device.bandwidth, device.capacity), options, notes,
        links={"link": device.link_bandwidth, "network": device.network_bandwidth},
        node_size=max(device.n_linked, 1),
    )  # fmt: skip


_STAND_IN = "h100-sxm"
"""Device whose links stand for those that are not stated."""


def _sustained(
    name: str,
    peak_flop_per_s: float,
    memory: FloatPair,
    options: EconomicsOptions,
    notes: Strings = (),
    *,
    paper: PaperDevice | None = None,
    links: Mapping[str, float | None] | None = None,
    node_size: int | None = None,
) -> SustainedDevice:
    """A device with the options' figures in place of its own.

    Args:
        memory: Peak bandwidth and capacity.
        paper: Its figures in the paper, where it has them.
        links: Bandwidths that its file states; the paper's stand for those that are not stated.
    """
    figures = paper or paper_devices()[_STAND_IN]
    rates = {"link": figures.link_bandwidth, "network": figures.network_bandwidth}
    missing = []
    for link in rates:
        bandwidth = getattr(options, f"{link}_bandwidth") or (links or {}).get(link)
        if bandwidth is not None:
            # An all-reduce moves 2 (R - 1) / R of its message and is charged once.
            rates[link] = bandwidth / 2
        elif paper is None:
            missing.append(
                f"the {link} bandwidth is not stated: an H100's (Epoch section 4); set the option "
                f"{link}_bandwidth"
            )
    caps = (COMPUTE_CAP, BANDWIDTH_CAP)
    if paper is not None:
        caps = paper.compute_cap, paper.bandwidth_cap
    return SustainedDevice(
        name=name,
        flop_per_s=peak_flop_per_s * (options.compute_cap or caps[0]),
        bytes_per_s=memory[0] * (options.bandwidth_cap or caps[1]),
        capacity_bytes=memory[1],
        fabric=Fabric(
            rates["link"], rates["network"], options.node_size or node_size or figures.node_size
        ),
        peak_flop_per_s=peak_flop_per_s,
        notes=(*notes, *missing),
    )
