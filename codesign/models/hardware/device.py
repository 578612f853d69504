"""Accelerators that others measured: the datasheet of one device, every number sourced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from codesign.base.columns import (
    JsonObject,
    StringDict,
    StringList,
    StringMap,
    Strings,
    StringTuple,
)
from codesign.base.errors import InputError, UnknownNameError
from codesign.base.schema import (
    Document,
    Fraction,
    Positive,
    Record,
    parse_record,
    quantity,
    read_document,
    unstored_at,
)

DeviceClass = Literal["gpu", "igpu", "tpu", "npu", "cpu", "scheduled"]
LinkKind = Literal[
    "nvlink-3", "nvlink-4", "nvlink-5", "mesh", "pcie",
    "pcie-switch", "pcie-bridge", "pcie-host", "pcie-shared",
]  # fmt: skip
Rate = Annotated[float, quantity("FLOP/s")]
ByteRate = Annotated[float, quantity("GB/s")]
_Bytes = Annotated[float, quantity("GB")]
_Delay = Annotated[float, quantity("us")]
_Watts = Annotated[float, quantity("W")]
TimeFactor = Literal[
    "gemm", "attention prefill", "attention decode", "rowwise", "message", "prefill", "decode"
]  # fmt: skip
"""Kernels and phases whose times a calibration corrects."""

UNLIMITED_FRACTION = 0.95
"""Part of the peak from which no power limit binds: 0.952 of an H20 in alibaba/InferSim @7505de9,
bench_data/gemm/h20/data.csv."""
SUSTAINED_OF_BURST = 0.86
"""``sustained_fraction`` over ``burst_fraction`` of GPUs without a measurement [ours]: 0.86 of
H100, L40S and B200, 0.92 of A100, by their files; its range is 0.80 to 0.92."""
LEAST_POWER_SHARE = 2.0 / 7.0
"""Lowest limit in parts of the highest where none is stated: 200 of 700 W on an H100 [ours]."""

PCIE_LINK = r"pcie(?:([3-6])(?:x(4|8|16))?)?-(switch|bridge|host|shared)"
"""Pattern of PCIe link names: ``pcie5-host``, ``pcie4x8-switch``, or ``pcie-bridge``. A lane
of generation g has 2**g / 8 GB/s each way, as datasheets round it."""

_FOLDER = Path(__file__).parent / "devices"
_RATES = read_document(Path(__file__).with_name("product_rates.yaml")).data
SAME_RATE: Mapping[str, Strings] = _RATES["same_rate"]
"""Formats whose products run at the same rate: any of them in ``peak`` stands for the others."""
_WIDER: StringMap = _RATES["next_wider"]
"""Next wider rate for a product on a device that lacks the rate of its format."""


class CalibrationAccuracy(Record):
    """Errors of predictions for a calibrated device, on cases that were not fitted.

    Attributes:
        cases: Kernels, or steps of an engine.
        median: Median factor between measured and predicted times, 1 or more.
        median_before: The same by the device from which the calibration started.
        low: Low end of the 90 % interval of measured over predicted times.
        high: High end.
    """

    cases: int
    median: float
    median_before: float
    low: float
    high: float


class Device(Record):
    """One device as its vendor describes it.

    Limiting assumption: one memory, one shared cache and one kind of matrix unit.
    """

    key: str
    """Name of the device's file."""
    name: str
    """Name for people."""
    vendor: str
    device_class: DeviceClass
    """Devices of a class share their efficiencies. ``scheduled``: a compiler sets each cycle, so no
    kernel is launched, and operators stream from a memory on the chip."""
    peak: dict[str, Rate] = Field(min_length=1)
    """Dense matrix FLOP/s by precision; integer operations count as FLOP."""
    n_cores: Positive | None = None
    """Streaming multiprocessors, compute units, matrix units or cores, over which tiles are spread.
    None if not published; then ``peak`` has no rate in 16 bits either."""
    has_asynchronous_cores: bool = False
    """Whether matrix units fetch their operands from the cores' memory while threads do other
    work, as in NVIDIA's data center devices from Hopper on."""
    burst_fraction: Fraction = 0.8
    """Part of the peak that large products of 16 bits reach in short runs. Without a
    published value it is 0.8 [ours]: the low end of NVIDIA's data center GPUs, 80.3 % (H100) to
    86.9 % (A100) in Bekman, Machine Learning Engineering (2025), maximum achievable matmul
    table."""
    sustained_fraction: Fraction | None = None
    """Part of the peak that large products sustain at the power limit, with random operands;
    None if not measured."""
    least_power: _Watts | None = None
    """Lowest power limit that can be set; None if not stated."""
    process_power: float | None = None
    """Power of the die's process over that of an H100's at the same speed; None: equal."""
    bandwidth: ByteRate
    """Peak bytes per second of the main memory."""
    capacity: _Bytes
    """Bytes of the main memory."""
    cache: Annotated[float, quantity("MB")] | None = None
    """Bytes of the last cache that all cores share; None: none stated."""
    kernel_start: _Delay | None = None
    """Seconds that a queued kernel takes which has next to nothing to do; None: none measured."""
    quantize_start: _Delay | None = None
    """Seconds more for a product of one row whose input is quantized first; None: none measured."""
    step_latency: Annotated[_Delay | None, unstored_at(None)] = None
    """Seconds that a norm or a product takes on a ``scheduled`` chip besides its stream; None:
    unknown, not counted."""
    stream_fraction: Annotated[Fraction | None, unstored_at(None)] = None
    """Share of ``bandwidth`` at which weights reach the matrix units of a ``scheduled`` chip, in
    the format of the multiplication; None: all of it."""
    clock: Annotated[float, quantity("GHz")] | None = None
    """Clock of the cores under load; None: none stated."""
    link_bandwidth: ByteRate | None = None
    """Bytes per second to the other devices of its node, each way; None: none stated."""
    n_linked: Positive = 1
    """Devices of one node that these links join."""
    link_kind: LinkKind | None = None
    """Topology of these links. NVLink of a generation runs through switches. A ``mesh`` has a link
    for each pair. Cards on PCIe reach their peers through one switch, through the host's bridges
    or through its memory; ``pcie`` alone does not say it. None: another kind. The source of
    ``link_bandwidth`` says it."""
    link_latency: _Delay | None = None
    """Seconds of one step over these links that carries nothing; None: none stated."""
    network_bandwidth: ByteRate | None = None
    """Bytes per second of one device to other nodes, each way; None: none stated."""
    network_latency: _Delay | None = None
    """Seconds of one step between nodes that carries nothing; None: none stated."""
    slow_bandwidth: ByteRate | None = None
    """Bytes per second that one device reads from the slower memory behind its own, such as its
    host's; None: none stated."""
    slow_capacity: _Bytes | None = None
    """Bytes of that memory for one device; None: none stated, as a host's memory is free to
    choose."""
    power: _Watts | None = None
    """Board power limit in watts."""
    is_announced: bool = False
    """Whether the figures are announced ones, of a device that nobody can buy yet."""
    kernels_of: str | None = None
    """Chip whose measured kernels correct the laws of this device's: its die or one for which
    libraries have the same kernels. Files that name one chip share what was measured on any of
    them, and a changed copy of a file keeps it; None: what was measured under this file's name."""
    time_factors: Annotated[dict[TimeFactor, float], unstored_at({})] = Field(default_factory=dict)
    """Measured over modeled times, as ``codesign size calibrate`` fits them."""
    calibration_error: Annotated[CalibrationAccuracy | None, unstored_at(None)] = None
    """Errors to expect after a calibration; None: the device was not calibrated."""
    also_called: StringTuple = ()
    """Other names, as published measurements use them."""
    note: str = ""
    sources: StringDict = Field(min_length=1)
    """Source of each number: ``read in`` a document; a document that ``agrees with`` another one
    that was read; ``[unchecked: stated from ...]``; ``[ours]``. See ``docs/sources.md``."""

    @property
    def measured_name(self) -> str:
        """Under which name kernels were measured that correct the laws of this device."""
        return self.kernels_of or self.key

    def check_fields(self) -> None:
        numbers = {"bandwidth": self.bandwidth, "capacity": self.capacity}
        numbers |= {f"peak of {name}": rate for name, rate in self.peak.items()}
        numbers |= {"burst_fraction": self.burst_fraction}
        numbers |= {f"time factor of {name}": value for name, value in self.time_factors.items()}
        # Numbers that need not be stated need a source if they are.
        stated = [
            name
            for name, field in type(self).model_fields.items()
            if field.default is None and isinstance(getattr(self, name), float)
        ]
        numbers |= {name: getattr(self, name) for name in stated}
        wrong = [f"{name} > 0 must hold" for name, value in numbers.items() if not value > 0]
        wrong += [
            f"{name} <= 1 must hold"
            for name in ("burst_fraction", "sustained_fraction")
            if (getattr(self, name) or 0.0) > 1
        ]
        if self.n_cores is None and self.peak.keys() & {"fp16", "bf16"}:
            wrong.append("n_cores is required beside a rate in 16 bits")
        needed = ["peak", "bandwidth", "capacity", *stated]
        needed += ["n_cores"] if self.n_cores else []
        needed += ["time_factors"] if self.time_factors else []
        needed += ["burst_fraction"] if "burst_fraction" in self.model_fields_set else []
        missing = [name for name in needed if not self.sources.get(name, "").strip()]
        if missing:
            wrong.append(f"sources: every number needs one; missing for {', '.join(missing)}")
        if wrong:
            raise ValueError("; ".join(wrong))

    def time_factor(self, name: str) -> float:
        """A factor of ``time_factors``, 1 if none is stated."""
        factors: Mapping[Any, float] = self.time_factors
        return factors.get(name, 1.0)

    @property
    def sustained_share(self) -> float:
        """Part of the peak that large products sustain.

        Without a measurement it is that of bursts, times ``SUSTAINED_OF_BURST`` on limited GPUs.
        """
        if self.sustained_fraction is not None:
            return min(self.sustained_fraction, self.burst_fraction)
        is_limited = self.device_class == "gpu" and self.burst_fraction < UNLIMITED_FRACTION
        return self.burst_fraction * (SUSTAINED_OF_BURST if is_limited else 1.0)

    def check_power_limit(self, watts: float) -> None:
        """Refuse a power limit that the device cannot have.

        Raises:
            InputError: It is out of range, or the file states no power.
        """
        if self.power is None:
            raise InputError(f"the file of {self.key} states no power", key=("power_limit",))
        least = self.least_power or LEAST_POWER_SHARE * self.power
        if not least <= watts <= self.power:
            limits = f"{least:.0f} to {self.power:g} W, the range of {self.key}"
            raise InputError(f"expected {limits}, got {watts:g} W", key=("power_limit",))

    def joined_by(self, link: str) -> Device:
        """Copy with another PCIe link.

        Args:
            link: Matches ``PCIE_LINK``. Without a generation, such as ``pcie-host``, a device that
                has other links stays as it is.
        """
        match = re.fullmatch(PCIE_LINK, link)
        assert match is not None
        generation, lanes, path = match.groups()
        changes: JsonObject = {"link_kind": f"pcie-{path}"}
        if generation is not None:
            rate = 2.0 ** int(generation) * int(lanes or 16) / 8.0 * 1e9
            changes |= {"link_bandwidth": rate, "n_linked": max(self.n_linked, 8)}
        elif "pcie" not in (self.link_kind or ""):
            return self
        return self.model_copy(update=changes)

    def multiply_format(self, precision: str) -> str:
        """The format of ``peak`` in which products of a precision run.

        It is the precision itself, one of the same rate (bf16 for fp16, fp8 for mxfp8, any 4-bit
        floating point for another), or else the next wider one that the device has: operands are
        converted up, never down, and floating point never to integers.

        Raises:
            UnknownNameError: Nothing that the device has is as wide as the precision.
        """
        if precision in self.peak:
            return precision
        rate = precision
        while rate in SAME_RATE:
            for name in SAME_RATE[rate]:
                if name in self.peak:
                    return name
            rate = _WIDER.get(SAME_RATE[rate][0], _WIDER.get(rate, ""))
        raise UnknownNameError("precision", precision, self.peak, f"device {self.key}")

    def peak_flop_per_s(self, precision: str) -> float:
        """Dense peak of a precision, in the format of :meth:`multiply_format`.

        Raises:
            UnknownNameError: Nothing that the device has is as wide as the precision.
        """
        return self.peak[self.multiply_format(precision)]


@cache
def list_devices() -> StringTuple:
    """The names of the bundled devices."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load_device(name_or_path: str, where: str | None = None) -> Device:
    """A device by its name, by another name that measurements use, or by the path of its file.

    Raises:
        UnknownNameError: No such device; the nearest is offered.
        InputError: The file is missing, or something in it is wrong.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        return _read(Path(name_or_path), where)
    if (device := _named(name_or_path)) is None:
        raise UnknownNameError("device", name_or_path, list_devices(), where)
    return device


@cache
def _named(text: str) -> Device | None:
    name = _folded(text)
    for stem in sorted(list_devices(), key=text.__ne__):  # the exact name first
        # Text first: other devices' files take a tenth of a second to parse.
        words = stem + (_FOLDER / f"{stem}.yaml").read_text(encoding="utf-8")
        if name in _folded(words) and name in _names_of(stem):
            return _bundled(stem)
    return None


def nearest_device(text: str) -> str | None:
    """Name of the bundled device that a text contains, such as a driver's name of a card.

    Examples:
        >>> nearest_device("NVIDIA H100 80GB HBM3")
        'h100-sxm'
    """
    names = {name: stem for stem in list_devices() for name in _names_of(stem)}
    inside = [name for name in names if name in _folded(text)]
    return names[max(inside, key=len)] if inside else None


def device_document(name_or_path: str) -> Document:
    """The file of a device by its name, by another name, or by its path."""
    return read_document(
        name_or_path
        if name_or_path.endswith((".yaml", ".yml"))
        else _FOLDER / f"{load_device(name_or_path).key}.yaml"
    )


@cache
def _bundled(stem: str) -> Device:
    return _read(_FOLDER / f"{stem}.yaml", None)


def _names_of(stem: str) -> StringList:
    device = _bundled(stem)
    return [_folded(name) for name in (stem, device.name, *device.also_called)]


def _folded(name: str) -> str:
    """Letters and digits only; what stands in parentheses and the vendor do not distinguish."""
    plain = re.sub(r"\(.*?\)", "", name).lower()
    plain = re.sub(r"\b(nvidia|amd|google|instinct|tesla)\b", "", plain)
    return re.sub(r"[^a-z0-9]", "", plain)


def _read(path: Path, where: str | None) -> Device:
    if not path.is_file():
        raise InputError(f"no such file: {path}", where)
    document = read_document(path)
    return parse_record(document, Device, {"key": path.stem, **document.data})
