"""The answer about price against speed: the frontier, its ends, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codesign.answers.answer import Entry, Number
from codesign.base.columns import FloatPair, FloatSequence, JsonObject, StringMap
from codesign.evaluators.economics.load import Split
from codesign.models.accounts.rents import Rent

if TYPE_CHECKING:
    from codesign.evaluators.economics.frontier import Points


class PricedPoint(Entry):
    """An instance with its speed and price."""

    tokens_per_s: float
    """Generated tokens of a request per second."""
    usd_per_million_tokens: Number
    """Price of served tokens: those of the prompt too, if prompts are counted."""
    usd_per_million_output_tokens: Number
    """Price of the generated tokens alone."""
    n_devices: float
    batch: float
    """Requests at once on one instance."""
    draft_length: int
    """Tokens of a draft that are checked at once; 0 without."""
    first_token_s: Number = None
    """Time to the first token; where prompts are counted."""
    joules_per_token: Number = None
    """Energy of the devices for a served token; for fitted kernels, and devices whose power limit
    is stated."""
    joules_per_token_range: FloatSequence | None = None
    """Range of the energy with the errors of 90 % of the measured kernels."""
    tokens_per_joule: Number = None
    """Served tokens per joule."""


class Mark(PricedPoint):
    """A point of interest, and how its passes are cut.

    Attributes:
        split: Division of a pass.
    """

    split: Split


class PricedDevice(Entry):
    """A rented device.

    Attributes:
        sustained_flop_per_s: Rate of the rooflines; by the papers' conventions.
        sustained_bytes_per_s: Bandwidth of the rooflines; by the papers' conventions.
        intra_bytes_per_s: Bandwidth of the links within a node, in which a byte that is reduced
            counts once.
        inter_bytes_per_s: Bandwidth of the links between nodes, likewise.
        node_size: Devices of a node.
        usd_per_hour: Rent of the calculation.
        rents: Listed rents; null if none are known or the price was stated.
    """

    name: str
    sustained_flop_per_s: Number = None
    sustained_bytes_per_s: Number = None
    capacity_bytes: float
    intra_bytes_per_s: Number = None
    inter_bytes_per_s: Number = None
    node_size: Number = None
    usd_per_hour: float
    rents: Rent | None


class PriceFrontier(Entry):
    """Price of a token against speed.

    Attributes:
        conventions: Question and assumptions, in words.
        alpha: Weight of speed in ``alpha_optimal``.
        frontier: Points; no other instance is both faster and cheaper.
    """

    device: PricedDevice
    conventions: StringMap
    alpha: float
    fastest: Mark
    alpha_optimal: Mark
    cheapest: Mark
    frontier: Sequence[PricedPoint]

    @classmethod
    def describe(
        cls,
        points: Points,
        split_of: Callable[[Points, int], Split],
        alpha: float,
        output_share: float = 1.0,
        energy_range: FloatPair | None = None,
        **fields: Any,
    ) -> Self:
        """The answer of a study: the frontier and its ends.

        Args:
            split_of: Split of the passes of a point.
            alpha: Exponent of speed in the value of a token.
            output_share: Generated tokens over served ones.
            energy_range: Ends of the energy of 90 % of the measured kernels, over the prediction.
            fields: Device and conventions.
        """
        front = points.frontier()

        def entry(i: int) -> PricedPoint:
            price = float(front.usd_per_million_tokens[i])
            more: JsonObject = {}
            if front.first_token_s is not None:
                more["first_token_s"] = float(front.first_token_s[i])
            if front.joules_per_token is not None and energy_range is not None:
                joules = float(front.joules_per_token[i]) * output_share
                more["joules_per_token"] = joules
                more["tokens_per_joule"] = 1.0 / joules
                more["joules_per_token_range"] = [joules * end for end in energy_range]
            names = ("tokens_per_s", "n_devices", "batch", "draft_length")
            return PricedPoint(
                usd_per_million_tokens=price * output_share,
                usd_per_million_output_tokens=price,
                **{name: getattr(front, name)[i] for name in names},
                **more,
            )

        entries = [entry(i) for i in range(len(front))]
        marks = {
            "fastest": front.fastest(),
            "alpha_optimal": front.most_valued(alpha),
            "cheapest": int(np.argmin(front.usd_per_million_tokens)),
        }
        return cls(
            alpha=alpha,
            frontier=entries,
            **{
                name: Mark(**entries[i].model_dump(exclude_unset=True), split=split_of(front, i))
                for name, i in marks.items()
            },
            **fields,
        )
