"""One model on one kind of device: everything that a study of its price and speed starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from codesign.base.errors import InputError, mistakes_at
from codesign.evaluators.economics.decoding import Decoding, RequestTokens, Speculation
from codesign.evaluators.economics.economics_options import EconomicsOptions, EconomicsWorkload
from codesign.evaluators.economics.frontier import Points, priced
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import ElementBytes, Fixed, Load
from codesign.evaluators.economics.sustained_device import (
    SustainedDevice,
    accelerator_machine,
    device_machine,
)
from codesign.models.accounts.rents import Rent, list_rents
from codesign.models.hardware.accelerator import AcceleratorBatch
from codesign.models.hardware.device import load_device
from codesign.models.workload.precision import DEFAULT_FORMAT, bits_per_element


@dataclass(frozen=True)
class Formats:
    """Number formats of what is stored; see :mod:`codesign.models.workload.precision`."""

    weight: str = DEFAULT_FORMAT
    activation: str = DEFAULT_FORMAT
    kv: str = DEFAULT_FORMAT

    def precision(self) -> ElementBytes:
        """Bytes of an element."""
        names = (self.weight, self.activation, self.kv)
        return ElementBytes(*(bits_per_element(name, "plain") / 8 for name in names))


@dataclass(frozen=True)
class Offer:
    """A kind of device to rent or to buy.

    Attributes:
        machine: Gives the device for weights of a format.
        rent: Dollars per hour, where they are known.
        power_watts: Power that the device draws, where it is known.
    """

    machine: Callable[[str], SustainedDevice]
    rent: Rent | None = None
    power_watts: float | None = None


def device_offer(name: str, options: EconomicsOptions) -> Offer:
    """A device of the library or of a file.

    Raises:
        UnknownNameError: No such device.
    """
    device = load_device(name, "--device")

    def machine(weight_format: str) -> SustainedDevice:
        return device_machine(name, weight_format, options.profile, options.machine_choices)

    return Offer(machine, list_rents().get(device.key), device.power)


def design_offer(
    name: str, accelerators: AcceleratorBatch, options: EconomicsOptions, power_watts: float | None
) -> Offer:
    """A designed accelerator, a batch of one."""
    machine = accelerator_machine(name, accelerators, options.machine_choices)
    return Offer(lambda weight_format: machine, None, power_watts)


@dataclass(frozen=True)
class DeviceServing:
    """A model served by one kind of device.

    Attributes:
        decoding: Decoding of the model on the device.
        usd_per_hour: Price of an hour of one device.
        context_tokens: Tokens that every request attends to.
        rent: The range of rents whose typical one is the price; None: priced otherwise.
    """

    decoding: Decoding
    machine: SustainedDevice
    usd_per_hour: float
    context_tokens: float
    rent: Rent | None = None


def serve(
    workload: EconomicsWorkload,
    options: EconomicsOptions,
    offer: Offer,
    formats: Formats,
    speculates: bool = True,
    fixed: Fixed | None = None,
    draft_kv_heads: int | None = None,
    tokens: RequestTokens | None = None,
) -> DeviceServing:
    """A model on an offer.

    Args:
        formats: Number formats of weights, activations and KV cache.
        speculates: Whether to draft ahead where that is faster.
        fixed: Parts of the split that are not searched.
        draft_kv_heads: Key and value heads of the draft instead of its own; Epoch's long contexts
            assume one (Figs. 9 and 10).
        tokens: Tokens of a request, where its prompt is counted too.

    Raises:
        InputError: No price is known, or the draft cannot have so many heads.
    """
    precision = formats.precision()
    machine = offer.machine(formats.weight)
    typical = None if offer.rent is None else offer.rent.typical
    price = options.usd_per_hour(machine.name, typical, offer.power_watts)
    target = ForwardPass(options.shape(workload.model), machine, precision, fixed)
    speculation = None
    if speculates:
        bits = workload.draft_weight_bits
        narrow = replace(precision, weight_bytes=bits / 8)
        shape = options.shape(workload.draft, draft_kv_heads)
        draft = ForwardPass(shape, _draft_machine(offer, workload), narrow)
        speculation = Speculation(draft, workload.acceptance)
    decoding = Decoding(target, speculation, tokens=tokens)
    is_priced = options.price_usd_per_hour is not None or options.capital_cost_usd is not None
    rent = None if is_priced else offer.rent
    return DeviceServing(decoding, machine, price, workload.context_tokens, rent)


def _draft_machine(offer: Offer, workload: EconomicsWorkload) -> SustainedDevice:
    with mistakes_at("the draft"):
        return offer.machine(workload.draft_format)


def single_point(serving: DeviceServing, n_devices: float, batch: float) -> Points:
    """One instance with one batch.

    Raises:
        InputError: It does not fit; by how much, and what would.
    """
    load = check_fits(serving, n_devices, batch)
    time, length, first = serving.decoding.request_times(load)
    columns = np.stack([load.n_devices, load.batch, time, length, first])
    return priced(columns, serving.usd_per_hour)


def check_fits(serving: DeviceServing, n_devices: float, batch: float) -> Load:
    """The load of one instance with one batch.

    Raises:
        InputError: It does not fit; by how much, and what would.
    """
    load = Load(np.array([n_devices]), np.array([batch]), serving.context_tokens)
    if serving.decoding.memory_excess(load)[0] > 0:
        raise InputError(misfit(serving, n_devices, batch))
    return load


def misfit(serving: DeviceServing, n_devices: float, batch: float) -> str:
    """The bytes needed, the bytes available, and how many devices or requests would fit."""
    context = serving.context_tokens
    decoding, capacity = serving.decoding, float(np.asarray(serving.machine.capacity_bytes))

    def stored(requests: float) -> float:
        load = Load(np.array([n_devices]), np.array([requests]), context)
        return float(decoding.stored_bytes(load)[0])

    needed, has = stored(batch), n_devices * capacity
    per_request = stored(2.0) - stored(1.0)
    room = has - stored(0.0)
    ways = [f"{int(np.ceil(needed / capacity))} devices would hold it"]
    if per_request > 0 and room >= per_request:
        ways.append(f"so would a batch of {int(room // per_request)}")
    drafted = " and its draft" if decoding.speculation is not None else ""
    return (
        f"{decoding.target.shape.name}{drafted} with {batch:g} requests of {context:g} tokens each "
        f"does not fit {n_devices:g} x {serving.machine.name}: "
        f"needs {needed / 1e9:.4g} GB, has {has / 1e9:.4g} GB; {', '.join(ways)}"
    )
