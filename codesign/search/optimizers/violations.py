"""The scale on which what exceeds limits is modeled and added up.

A violation is mostly a relative excess, ``metric / limit - 1``, so that one plus it is the metric
itself in the limit's unit, and its logarithm is modeled. What is no such metric, as the distance
to a target, is modeled as it is if that makes the results likelier.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.space.features import signed_log

_LEAST_EXCESS = -1.0 + 1e-9
"""An excess of -1 is a metric of 0, which has no logarithm."""


@frozen
class ViolationScale:
    """A scale of violations that keeps their signs.

    Attributes:
        form: ``plain`` divides them by a typical one; ``relative`` is the logarithm of one plus a
            relative excess; ``signed`` draws large ones of either sign together.
        typical: Size of a violation, of those that are plain or signed.
        largest: Stands for an infinite violation.
    """

    form: Literal["plain", "relative", "signed"] = "plain"
    typical: float = 1.0
    largest: float = np.inf

    def modeled(self, violations: FloatArray) -> FloatArray:
        """(n,) violations, or predictions of them, on this scale."""
        bounded = np.clip(violations, -self.largest, self.largest)
        if self.form == "relative":
            return np.log1p(np.maximum(bounded, _LEAST_EXCESS))
        scaled = bounded / self.typical
        return scaled if self.form == "plain" else signed_log(scaled)

    @property
    def is_invertible(self) -> bool:
        """True if :meth:`natural` gives violations back."""
        return self.form != "signed"

    def natural(self, values: FloatArray) -> FloatArray:
        """(n,) violations of values on this scale."""
        return np.expm1(values) if self.form == "relative" else values * self.typical

    def log_density(self, violations: FloatArray) -> float:
        """Logarithm of what a density gains if violations replace values on this scale."""
        bounded = np.clip(violations, -self.largest, self.largest)
        if self.form == "relative":
            return -float(np.log1p(np.maximum(bounded, _LEAST_EXCESS)).sum())
        stretch = 0.0 if self.form == "plain" else np.log1p(np.abs(bounded / self.typical)).sum()
        return -float(stretch + len(bounded) * np.log(self.typical))


def violation_scales(violations: FloatArray) -> tuple[ViolationScale, ...]:
    """The scales on which (n,) violations can be modeled."""
    finite = np.abs(violations[np.isfinite(violations)])
    largest = float(finite.max(initial=1.0))
    typical = float(np.median(np.minimum(np.abs(violations), largest))) or largest
    form: Literal["relative", "signed"] = "relative" if (violations > -1.0).all() else "signed"
    return ViolationScale(form, typical, largest), ViolationScale("plain", typical, largest)
