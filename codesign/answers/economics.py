"""The answer about price against speed: the frontier, its ends, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from codesign.answers.answer import Entry
from codesign.evaluators.economics.frontier import Points, split_of
from codesign.evaluators.economics.load import Split
from codesign.evaluators.economics.serving_offer import DeviceServing
from codesign.models.accounts.rents import Rent


@dataclass(frozen=True)
class EconomicsReport:
    """A finished study.

    Attributes:
        frontier: Points that no other beats in price and speed, slowest first.
        alpha: Exponent of speed in the value of a token.
        conventions: What the numbers rest on, in words, by name.
        points: Every point that keeps the limits.
        users: Users that are served at once; None: not asked for.
        notes: What a reader could take for more than it is.
        energy_range: Between what parts of the predicted energy that of 90 % of measured kernels
            lies; None: points have no energy.
    """

    serving: DeviceServing
    frontier: Points
    alpha: float
    conventions: Mapping[str, str]
    points: Points
    users: int | None = None
    notes: Sequence[str] = ()
    files: Sequence[Path] = ()
    energy_range: tuple[float, float] | None = None

    @property
    def output_share(self) -> float:
        """Generated tokens over served ones; 1 where prompts are not counted."""
        tokens = self.serving.decoding.tokens
        if tokens is None:
            return 1.0
        return tokens.generated_tokens / (tokens.prompt_tokens + tokens.generated_tokens)

    @property
    def marked(self) -> dict[str, Points]:
        """The points that matter, one each, by what they are."""
        front = self.frontier
        positions = {
            "cheapest": int(np.argmin(front.usd_per_million_tokens)),
            f"best token/s^{self.alpha:g}/USD": front.most_valued(self.alpha),
            "fastest": front.fastest(),
        }
        marked = {name: front.chosen(np.array([row])) for name, row in positions.items()}
        return marked if self.users is None else {"fewest devices": self.fewest()} | marked

    def fewest(self) -> Points:
        """The point that takes the fewest devices for all users; the fastest of several."""
        assert self.users is not None
        devices = self.points.devices_for(self.users)
        order = np.lexsort((self.points.token_time_s, devices))
        return self.points.chosen(order[:1])


class PricedPoint(Entry):
    """An instance with its speed and price."""

    tokens_per_s: float
    """Generated tokens of a request per second."""
    usd_per_million_tokens: float | None
    """Price of served tokens: those of the prompt too, if prompts are counted."""
    usd_per_million_output_tokens: float | None
    """Price of the generated tokens alone."""
    n_devices: float
    batch: float
    """Requests at once on one instance."""
    draft_length: int
    """Tokens of a draft that are checked at once; 0 without."""
    first_token_s: float | None = None
    """Time to the first token; where prompts are counted."""
    joules_per_token: float | None = None
    """Energy of the devices for a served token; for fitted kernels, and devices whose power limit
    is stated."""
    joules_per_token_range: Sequence[float] | None = None
    """Range of the energy with the errors of 90 % of the measured kernels."""
    tokens_per_joule: float | None = None
    """Served tokens per joule."""
    devices_for_users: float | None = None
    """Devices for all users; with --users."""

    @classmethod
    def describe(cls, report: EconomicsReport, point: Points, **fields: Any) -> Self:
        """The record of a point that is alone in its ``Points``."""
        if not np.isnan(point.first_token_s[0]):
            fields["first_token_s"] = float(point.first_token_s[0])
        if point.joules_per_token is not None and report.energy_range is not None:
            joules = float(point.joules_per_token[0]) * report.output_share
            fields["joules_per_token"] = joules
            fields["joules_per_token_range"] = [joules * end for end in report.energy_range]
            fields["tokens_per_joule"] = 1.0 / joules
        if report.users is not None:
            fields["devices_for_users"] = float(point.devices_for(report.users)[0])
        price = float(point.usd_per_million_tokens[0])
        names = ("tokens_per_s", "n_devices", "batch", "draft_length")
        return cls(
            usd_per_million_tokens=price * report.output_share,
            usd_per_million_output_tokens=price,
            **{name: getattr(point, name)[0] for name in names},
            **fields,
        )


class Mark(PricedPoint):
    """A point of interest, and how its passes are cut."""

    split: Split
    """Division of a pass."""

    @classmethod
    def mark(cls, report: EconomicsReport, point: Points) -> Self:
        """The record of a point that is alone in its ``Points``."""
        split = split_of(report.serving.decoding, point, 0, report.serving.context_tokens)
        return cls.describe(report, point, split=split)


class PricedDevice(Entry):
    """A rented device."""

    name: str
    sustained_flop_per_s: float
    sustained_bytes_per_s: float
    capacity_bytes: float | None
    intra_bytes_per_s: float | None
    """Bandwidth of the links within a node."""
    inter_bytes_per_s: float | None
    """Bandwidth of the links between nodes."""
    node_size: float | None
    """Devices of a node."""
    usd_per_hour: float | None
    """Rent of the calculation."""
    rents: Rent | None
    """Listed rents; null if none are known or the price was stated."""


MARKS = ("fewest_devices", "cheapest", "alpha_optimal", "fastest")
"""Fields of the points of interest, in the order in which they are printed."""


class PriceFrontier(Entry):
    """Price of a token against speed."""

    device: PricedDevice
    conventions: Mapping[str, str]
    """Question and assumptions, in words."""
    alpha: float
    """Weight of speed in ``alpha_optimal``."""
    fastest: Mark
    alpha_optimal: Mark
    cheapest: Mark
    fewest_devices: Mark | None = None
    """Fewest devices for all users; with --users."""
    frontier: Sequence[PricedPoint]
    """Points; no other instance is both faster and cheaper."""

    @classmethod
    def describe(cls, report: EconomicsReport) -> Self:
        """The answer of a study: the frontier and its ends."""
        machine, serving, front = report.serving.machine, report.serving, report.frontier
        marked = list(report.marked.values())
        return cls(
            device=PricedDevice(
                name=machine.name,
                sustained_flop_per_s=machine.flop_per_s,
                sustained_bytes_per_s=machine.bytes_per_s,
                capacity_bytes=machine.capacity_bytes,
                **vars(machine.fabric),
                usd_per_hour=serving.usd_per_hour,
                rents=serving.rent,
            ),
            conventions=report.conventions,
            alpha=report.alpha,
            **{
                name: Mark.mark(report, point)
                for name, point in zip(MARKS[-len(marked) :], marked, strict=True)
            },
            frontier=[
                PricedPoint.describe(report, front.chosen(np.array([position])))
                for position in range(len(front))
            ],
        )
