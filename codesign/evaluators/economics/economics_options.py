"""Settings of economics in a campaign: the served model, and the conventions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from codesign.base.errors import InputError, KeyedValueError
from codesign.base.schema import (
    Amount,
    Positive,
    PositiveAmount,
    Record,
    Share,
    accepted_by,
    quantity,
)
from codesign.evaluators.economics.shape import shape_of
from codesign.models.accounts.ownership import (
    ELECTRICITY_USD_PER_KWH,
    LIFETIME_YEARS,
    PUE,
    owned_usd_per_hour,
)
from codesign.models.accounts.rents import Rent
from codesign.models.workload import load_model
from codesign.models.workload.request import SequenceRecord

DRAFT = "llama-3-8b"
"""Epoch's draft model."""
ACCEPTANCE = 0.8
"""Probability that a drafted token is accepted (Epoch section 4.1, for Llama 3)."""


ServedModel = Annotated[str, accepted_by(lambda name: shape_of(load_model(name)))]


class EconomicsWorkload(SequenceRecord):
    """The served model, its draft and the context; what a campaign's ``workload:`` says."""

    model: ServedModel
    """A bundled language model, or the path of a ``config.json`` or YAML file."""
    context_tokens: Amount = 0.0
    """Tokens that every request attends to; 0: short contexts, as in Epoch's tables."""
    draft: ServedModel = DRAFT
    """The model that drafts ahead of the served one, on the same devices and batch."""
    acceptance: Annotated[float, Field(gt=0, lt=1)] = ACCEPTANCE
    """Probability that a drafted token is accepted."""
    draft_weight_bits: PositiveAmount = 16.0
    """Bits of one weight of the draft model."""

    def check_fields(self) -> None:
        self.check_context(int(self.context_tokens), load_model(self.model), "context_tokens")

    @property
    def draft_format(self) -> str:
        """The format in which the draft's weights multiply."""
        return "int8" if self.draft_weight_bits <= 8 else "bf16"


class DevicePrice(Record):
    """Price of an hour of a device: a rent, or a purchase spread over its life."""

    price_usd_per_hour: PositiveAmount | None = None
    """Rent of a device in dollars, of whatever kind; a typical one if left out."""
    capital_cost_usd: PositiveAmount | None = None
    """Price in dollars of a device that is bought instead."""
    power_watts: Amount | None = None
    """Power that a bought device draws; its file's, or a design's TDP, if left out."""
    lifetime_years: PositiveAmount = LIFETIME_YEARS
    """Years over which a bought device is written off."""
    busy_share: Share = 1.0
    """Share of its life in which a bought device serves."""
    electricity_usd_per_kwh: Amount = ELECTRICITY_USD_PER_KWH
    """Price of electricity for bought devices."""
    pue: Annotated[float, Field(ge=1, allow_inf_nan=False)] = PUE
    """Power of the data center over that of its machines, for bought devices."""

    def check_fields(self) -> None:
        if self.price_usd_per_hour is not None and self.capital_cost_usd is not None:
            keys = ("price_usd_per_hour", "capital_cost_usd")
            raise KeyedValueError("", f"expected {keys[0]} or {keys[1]}, got both", keys)
        bought = {"power_watts", "lifetime_years", "busy_share", "electricity_usd_per_kwh", "pue"}
        stated = sorted(bought & self.model_fields_set)
        if stated and self.capital_cost_usd is None:
            message = "only of a bought device, with capital_cost_usd"
            raise KeyedValueError(stated[0], message, ("capital_cost_usd",))

    def listed(self, rent: Rent | None) -> Rent | None:
        """The rents of which the typical one is the price; None if the price is stated."""
        is_stated = self.price_usd_per_hour is not None or self.capital_cost_usd is not None
        return None if is_stated else rent

    def usd_per_hour(self, name: str, rent: Rent | None, power_watts: float | None) -> float:
        """Price of an hour of a device.

        Args:
            name: Name of the device, for messages.
            rent: Listed rents, where there are any.
            power_watts: Power that the device draws, where it is known.

        Raises:
            InputError: Neither a rent nor a purchase is known.
        """
        if self.price_usd_per_hour is not None:
            return self.price_usd_per_hour
        if self.capital_cost_usd is not None:
            power = self.power_watts if self.power_watts is not None else power_watts
            if power is None:
                raise InputError(
                    f"{name}: no power is known for it; give power_watts (--power-watts)"
                )
            life = self.lifetime_years, self.busy_share
            electricity = self.electricity_usd_per_kwh, self.pue
            return float(owned_usd_per_hour(self.capital_cost_usd, power, *life, *electricity))
        if rent is None:
            raise InputError(
                f"{name}: no rent is known for it; give price_usd_per_hour (--price-per-hour) or "
                "capital_cost_usd (--capital-cost)"
            )
        return rent.typical


class EconomicsOptions(DevicePrice):
    """Options of the ``economics`` evaluator."""

    profile: Literal["epoch"] = "epoch"
    """Models and, where the paper has them, devices as Epoch's model has them."""
    continuous: bool = False
    """Whether degrees of the split that a design leaves open are real numbers, as in the paper; if
    not, they are those of instances that can be built, and designs that cannot are infeasible."""
    compute_cap: Share | None = None
    """Share of the peak arithmetic rate that is sustained; the device's own if left out."""
    bandwidth_cap: Share | None = None
    """Share of the memory's peak bandwidth that is sustained; the device's own if left out."""
    link_bandwidth: Annotated[float, quantity("GB/s"), PositiveAmount] | None = None
    """Bandwidth from one device to the others of its node, one way; the device's own if left
    out."""
    network_bandwidth: Annotated[float, quantity("GB/s"), PositiveAmount] | None = None
    """Bandwidth from one device to other nodes, one way; the device's own if left out."""
    node_size: Positive | None = None
    """Devices of one node; the device's own number if left out."""
    demand_tokens_per_s: PositiveAmount | None = None
    """Tokens per second that all users ask for: no instance generates more (Epoch section
    2.2.2)."""


class FrontierSettings(Record):
    """Settings of a frontier that campaigns do not have.

    Attributes:
        alpha: Exponent of the speed of a token in its value (Epoch Eq. 45).
        speculate: Whether to draft tokens ahead with a smaller model where it is faster.
        draft_kv_heads: Number of key and value heads of the draft model, in place of its own.
        n_points: Number of batch sizes to try, and of instance sizes.
        most_devices: Devices of the largest instance.
        most_requests: Requests of the largest batch.
    """

    alpha: Amount = 3.0
    speculate: bool = True
    draft_kv_heads: int | None = None
    n_points: Annotated[int, Field(ge=2, le=2000)] = 400
    most_devices: Annotated[float, Field(ge=1)] = 1e3
    most_requests: Annotated[float, Field(ge=1)] = 1e4
