"""One model on one kind of device: everything that a study of its price and speed starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from codesign.base.columns import StringMap
from codesign.base.errors import InputError, mistakes_at
from codesign.base.records import frozen
from codesign.evaluators.economics.decoding import Decoding, Speculation
from codesign.evaluators.economics.economics_options import EconomicsOptions, EconomicsWorkload
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import ElementBytes
from codesign.evaluators.economics.shape import shape_of
from codesign.evaluators.economics.sustained_device import SustainedDevice, device_machine
from codesign.models.accounts.rents import Rent, list_rents
from codesign.models.hardware.device import load_device
from codesign.models.workload import load_model
from codesign.models.workload.precision import DEFAULT_FORMAT, FORMAT_KEYS, bits_per_element


@frozen
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
    device = load_device(name, "--on")
    return Offer(
        lambda weight_format: device_machine(name, weight_format, options),
        list_rents().get(device.key),
        device.power,
    )


def serve(
    workload: EconomicsWorkload,
    offer: Offer,
    formats: StringMap,
    speculates: bool = True,
    draft_kv_heads: int | None = None,
) -> Decoding:
    """Decoding of a model on an offer.

    Args:
        formats: Number formats by parameter; absent ones have 16 bits.
        speculates: Whether to draft ahead where that is faster.
        draft_kv_heads: Key and value heads of the draft instead of its own; Epoch's long contexts
            assume one (Figs. 9 and 10).

    Raises:
        InputError: The draft cannot have so many heads.
    """
    names = [formats.get(key, DEFAULT_FORMAT) for key in FORMAT_KEYS]
    precision = ElementBytes(*(bits_per_element(name, "plain") / 8 for name in names))
    target = ForwardPass(shape_of(load_model(workload.model)), offer.machine(names[0]), precision)
    if not speculates:
        return Decoding(target)
    model = load_model(workload.draft)
    if draft_kv_heads is not None:
        heads = model.num_attention_heads
        if model.is_latent or draft_kv_heads < 1 or heads % draft_kv_heads:
            problem = f"expected a divisor of the {heads} heads of {model.name}"
            raise InputError(f"{problem}, got {draft_kv_heads}", "draft_kv_heads")
        model = model.model_copy(update={"num_key_value_heads": draft_kv_heads})
    narrow = replace(precision, weight_bytes=workload.draft_weight_bits / 8)
    with mistakes_at("the draft"):
        machine = offer.machine(workload.draft_format)
    draft = ForwardPass(shape_of(model), machine, narrow)
    return Decoding(target, Speculation(draft, workload.acceptance))
