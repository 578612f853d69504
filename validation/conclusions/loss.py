"""Loss when something is left out, read from exact fronts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from codesign.base.columns import FloatArray, FloatPair
from codesign.base.records import frozen
from codesign.search.enumeration import ExactFront
from validation.conclusions.claims import Measure

Verdict: TypeAlias = Literal["yes", "slightly", "no"]

CLEAR = 0.10
"""A loss from which the answer is yes: what the calibrated profile misses the paper's own ratios
by (``python -m validation memexplorer``)."""
NOTICEABLE = 0.02
"""A loss below which the answer is no: designs nearer than that are one design to an architect."""


@frozen
class Curve:
    """Throughput against TDP of points among which all non-dominated ones are.

    Attributes:
        tokens_per_s: (p,) of each point.
        tdp_watts: (p,) of each point.
    """

    tokens_per_s: FloatArray
    tdp_watts: FloatArray

    @classmethod
    def joined(cls, fronts: Iterable[ExactFront | None]) -> Curve:
        """Curve of designs whose slices have these fronts; None marks a slice without feasible
        designs.

        The objectives are throughput, to maximize, and TDP, as in the campaigns.
        """
        points = [front.objectives for front in fronts if front is not None]
        joined = np.concatenate([np.empty((0, 2)), *points])
        return cls(-joined[:, 0], joined[:, 1])

    def best(self, measure: Measure, cap_watts: float) -> float:
        """The most tokens per second, or per joule, up to a TDP; 0 where there is no design.

        Whatever is best in throughput over TDP is non-dominated in the two, so the front has it.
        """
        inside = self.tdp_watts <= cap_watts
        values = self.tokens_per_s[inside]
        if measure == "per_joule":
            values = values / self.tdp_watts[inside]
        return float(values.max(initial=0.0))


@frozen
class Loss:
    """The best with everything allowed and with something left out.

    Attributes:
        cap_watts: Limit on TDP.
        rate: Per second: with all, without.
        per_joule: Per joule of TDP: with all, without.
    """

    cap_watts: float
    rate: FloatPair
    per_joule: FloatPair

    @classmethod
    def compare(cls, everything: Curve, without: Curve, cap_watts: float) -> Loss:
        """Loss under one limit on TDP."""
        rate, per_joule = (
            (everything.best(measure, cap_watts), without.best(measure, cap_watts))
            for measure in ("rate", "per_joule")
        )
        return cls(cap_watts, rate, per_joule)

    def share(self, measure: Measure) -> float:
        """Loss as a share of the best of all designs; NaN if nothing is feasible."""
        best, without = self.rate if measure == "rate" else self.per_joule
        return 1.0 - without / best if best > 0 else float("nan")

    def largest(self, measures: Sequence[Measure]) -> float:
        """The largest share lost."""
        return max(self.share(measure) for measure in measures)

    def verdict(self, measures: Sequence[Measure]) -> Verdict:
        """Whether what is left out matters."""
        lost = self.largest(measures)
        if lost >= CLEAR:
            return "yes"
        return "slightly" if lost >= NOTICEABLE else "no"
