"""Devices and their network as the economics see them: sustained rates, not peak rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from codesign.base.columns import FloatArray
from codesign.base.errors import InputError
from codesign.base.schema import Fraction, Record, quantity, read_document, to_record
from codesign.evaluators.economics.nccl import Fabric
from codesign.evaluators.economics.shape import Profile
from codesign.models.hardware.accelerator import AcceleratorBatch
from codesign.models.hardware.device import SAME_RATE, Device, load_device
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
    """A device with the figures of Epoch's model."""

    peak_16_bit: Annotated[float, quantity("FLOP/s")]
    peak_8_bit: Annotated[float, quantity("FLOP/s")]
    """Peak rate with 8-bit weights, and with 4-bit weights too."""
    bandwidth: Annotated[float, quantity("GB/s")]
    capacity: Annotated[float, quantity("GB")]
    link_bandwidth: Annotated[float, quantity("GB/s")]
    """Bandwidth within a node, as :class:`.nccl.Fabric` takes it."""
    network_bandwidth: Annotated[float, quantity("GB/s")]
    """Bandwidth between nodes, as :class:`.nccl.Fabric` takes it."""
    node_size: Annotated[int, Field(ge=1, strict=True)]
    compute_cap: Fraction
    bandwidth_cap: Fraction
    price_usd_per_hour: Annotated[float, quantity("USD")]
    sources: dict[str, str]


class PaperFigures(Record):
    """Every device of the paper, by the key of its file."""

    devices: dict[str, PaperDevice]


@cache
def paper_devices() -> dict[str, PaperDevice]:
    """The devices whose figures the paper uses, by key."""
    return to_record(read_document(_FILE), PaperFigures).devices


@dataclass(frozen=True)
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
    flop_per_s: FloatArray | float
    bytes_per_s: FloatArray | float
    capacity_bytes: FloatArray | float
    fabric: Fabric
    peak_flop_per_s: FloatArray | float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MachineChoices:
    """Figures that replace the device's own; None keeps them.

    Attributes:
        compute_cap: Share of the peak arithmetic rate that is sustained.
        bandwidth_cap: Share of the memory's peak bandwidth that is sustained.
        link_bytes_per_s: Bandwidth from one device to the others of its node, one way.
        network_bytes_per_s: Bandwidth from one device to other nodes, one way.
        node_size: Devices of a node.
    """

    compute_cap: float | None = None
    bandwidth_cap: float | None = None
    link_bytes_per_s: float | None = None
    network_bytes_per_s: float | None = None
    node_size: int | None = None


def multiplied_format(device: Device, weight_format: str) -> tuple[str, tuple[str, ...]]:
    """The format of the device's peak rates in which weights multiply; a note if it is a wider one.

    Limiting assumption: activations are converted to that format whatever they are stored in, as
    in Epoch's section 4.

    Raises:
        UnknownNameError: None of the device's rates serves the weights.
    """
    multiplied_format = product_format(weight_format, weight_format).multiply
    used = device.multiply_format(multiplied_format)
    if used in SAME_RATE[multiplied_format]:
        return used, ()
    return used, (
        f"{device.name} states no {multiplied_format} rate: {weight_format} weights take "
        f"{bits_per_element(weight_format, 'plain'):g} bits in memory and multiply in {used}",
    )


def device_machine(
    name: str, weight_format: str, profile: Profile, choices: MachineChoices
) -> SustainedDevice:
    """A device of the library, or of a file.

    Under ``epoch`` the paper's figures serve the devices that it has; any other device has those
    of its file, and the paper's caps.

    Args:
        name: Name or path, as :func:`codesign.models.hardware.device.load_device` takes it.
        weight_format: Format of a stored weight; see :func:`multiplied_format` for the rate.
        profile: Profile whose figures are used.
        choices: Figures that replace those of the profile.

    Raises:
        UnknownNameError: No such device, or none of its rates serves the weights.
    """
    device = load_device(name, "--device")
    paper = paper_devices().get(device.key) if profile == "epoch" else None
    if paper is not None:
        multiplied, notes = multiplied_format(device, weight_format)
        peak = paper.peak_16_bit if multiplied in SAME_RATE["bf16"] else paper.peak_8_bit
        return SustainedDevice(
            name=device.name,
            flop_per_s=peak * (choices.compute_cap or paper.compute_cap),
            bytes_per_s=paper.bandwidth * (choices.bandwidth_cap or paper.bandwidth_cap),
            capacity_bytes=paper.capacity,
            fabric=Fabric(
                _halved(choices.link_bytes_per_s, paper.link_bandwidth),
                _halved(choices.network_bytes_per_s, paper.network_bandwidth),
                choices.node_size or paper.node_size,
            ),
            peak_flop_per_s=peak,
            notes=notes,
        )
    return _file_device(device, weight_format, profile, choices)


def _halved(one_way: float | None, otherwise: FloatArray | float) -> FloatArray | float:
    """An all-reduce moves 2 (R - 1) / R of its message and is charged once; the rate is halved."""
    return otherwise if one_way is None else one_way / 2


def _file_device(
    device: Device, weight_format: str, profile: Profile, choices: MachineChoices
) -> SustainedDevice:
    multiplied, widening = multiplied_format(device, weight_format)
    peak = device.peak[multiplied]
    cap = device.sustained_fraction if profile == "plain" else COMPUTE_CAP
    fabric, notes = _fabric(device.link_bandwidth, device.network_bandwidth, choices)
    return SustainedDevice(
        name=device.name,
        flop_per_s=peak * (choices.compute_cap or cap),
        bytes_per_s=device.bandwidth * (choices.bandwidth_cap or BANDWIDTH_CAP),
        capacity_bytes=device.capacity,
        fabric=replace(fabric, node_size=choices.node_size or max(device.n_linked, 1)),
        peak_flop_per_s=peak,
        notes=(*widening, *notes),
    )


def _fabric(
    link: float | None, network: float | None, choices: MachineChoices
) -> tuple[Fabric, tuple[str, ...]]:
    """Links as stated, chosen, or for want of both an H100's."""
    stand_in = paper_devices()["h100-sxm"]
    link = choices.link_bytes_per_s or link
    network = choices.network_bytes_per_s or network
    missing = [name for name, value in (("link", link), ("network", network)) if value is None]
    notes = tuple(
        f"the {name} bandwidth is not stated: an H100's (Epoch section 4); "
        f"set the option {name}_bandwidth"
        for name in missing
    )
    fabric = Fabric(
        _halved(link, stand_in.link_bandwidth),
        _halved(network, stand_in.network_bandwidth),
        stand_in.node_size,
    )
    return fabric, notes


def accelerator_machine(
    name: str, accelerators: AcceleratorBatch, choices: MachineChoices
) -> SustainedDevice:
    """One designed accelerator as a device; its array has one rate whatever the number format.

    Weights and KV cache lie in all memory levels; they are read at the sum of the off-chip peak
    bandwidths, or on chip where there is nothing else.

    Raises:
        InputError: The batch is not of one design.
    """
    if len(accelerators.clock_hz) != 1:
        raise InputError(f"expected one design, got {len(accelerators.clock_hz)}")
    levels = accelerators.levels
    off_chip = float(levels.bandwidth_bytes_per_s[1:, 0].sum())
    bandwidth = off_chip or float(levels.bandwidth_bytes_per_s[0, 0])
    peak = float(2.0 * accelerators.macs_per_cycle[0] * accelerators.clock_hz[0])
    fabric, notes = _fabric(None, None, choices)
    node_size = choices.node_size or fabric.node_size
    return SustainedDevice(
        name=name,
        flop_per_s=peak * (choices.compute_cap or COMPUTE_CAP),
        bytes_per_s=bandwidth * (choices.bandwidth_cap or BANDWIDTH_CAP),
        capacity_bytes=float(levels.capacity_bytes[:, 0].sum()),
        fabric=replace(fabric, node_size=node_size),
        peak_flop_per_s=peak,
        notes=notes,
    )
