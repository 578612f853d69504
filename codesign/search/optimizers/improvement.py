"""Expected hypervolume improvement in closed form, for normal and log-normal posteriors.

The objectives of a candidate are taken to be independent. The part of the objective space
that is dominated is cut into boxes; what a candidate dominates inside the box from ``l`` to
``u`` is the product over the objectives of ``(u - max(l, y))+ = (u - y)+ - (l - y)+``, so the
expectation needs one number only, ``E[(bound - y)+]``, for each objective and bound. The
improvement is what it dominates below the reference point, less what it dominates in boxes. For
normal posteriors this is Yang et al., "Efficient computation of expected hypervolume improvement
using box decomposition algorithms", 2019. An objective that is modeled by its logarithm has a
log-normal posterior, for which the number is the price of an option (Black and Scholes, 1973):
improvement then counts in the objective's own units, and not in those of its logarithm.

As long as nothing is feasible, what counts is by how much a candidate is expected to exceed the
limits less than the best so far: expected improvement (Jones, Schonlau and Welch, 1998) of the
total violation, which Eriksson and Poloczek ("Scalable constrained Bayesian optimization", 2021)
minimize too until something is feasible. The probability of being feasible alone is largest where
little is known, as long as all that is known is far from feasible.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from codesign.base.columns import ArrayPair, FloatArray, Floats
from codesign.base.records import frozen

_MOST_NUMBERS = 1 << 22
"""Largest table of candidates by boxes; larger ones are worked off in pieces."""
_LARGEST_EXPONENT = 100.0
"""A product of seven such numbers is finite."""
_LEAST_DEVIATION = 1e-9
_ROUNDED = 1.0 - 1e-12
"""Factor by which rounding makes no improvement of what is dominated."""
_TINY = float(np.finfo(float).tiny)


@frozen
class Scale:
    """Scale of a modeled objective: ``y = intercept + slope z``, or ``±exp`` of that.

    Attributes:
        sign: 0 if modeled as it is; 1 or -1 if modeled by its logarithm, ``y = exp(z)`` or
            ``y = -exp(-z)``, either of which keeps the order.
        intercept: Mean of what is modeled.
        slope: Its standard deviation.
        knee: Where ``z`` begins to be compressed, before it is standardized.
        width: Distance beyond the knee at which the slope has halved.
    """

    sign: int
    intercept: float
    slope: float
    knee: float = np.inf
    width: float = 1.0

    @classmethod
    def fit(cls, values: FloatArray, logarithmic: bool = True, bound: float = np.inf) -> Scale:
        """The scale on which (n,) observations have mean 0 and deviation 1.

        Args:
            values: Observations.
            logarithmic: Model the logarithm if they have one sign.
            bound: Worst value that matters, as of the reference point: how far values are beyond
                it decides nothing, so that is compressed.
        """
        sign = 0
        if logarithmic and (values > 0).all():
            sign = 1
        elif logarithmic and (values < 0).all():
            sign = -1
        raw = Scale(sign, 0.0, 1.0).modeled(values)
        knee = np.inf
        width = 1.0
        if np.isfinite(bound) and (sign == 0 or sign * bound > 0):
            knee = float(Scale(sign, 0.0, 1.0).modeled(np.array(bound)))
            width = knee - float(raw.min())
        if not (np.isfinite(knee) and width > 0):
            knee = np.inf
            width = 1.0
        raw = Scale(sign, 0.0, 1.0, knee, width).modeled(values)
        deviation = float(raw.std())
        # Of equal values the deviation may be a rounding error.
        is_constant = deviation <= 1e-12 * max(1.0, float(np.abs(raw).max()))
        return cls(sign, float(raw.mean()), 1.0 if is_constant else deviation, knee, width)

    def modeled(self, values: FloatArray) -> FloatArray:
        """Observations as the model sees them."""
        raw, stretch = self._stretched(values)
        compressed = np.minimum(raw, self.knee) + self.width * stretch
        return (compressed - self.intercept) / self.slope

    def log_density(self, values: FloatArray) -> float:
        """Logarithm of what a density gains if observations replace values on this scale."""
        stretch = np.log(np.abs(values)).sum() if self.sign else 0.0
        beyond = self._stretched(values)[1]
        return float(-len(values) * np.log(self.slope) - stretch - beyond.sum())

    def _stretched(self, values: FloatArray) -> ArrayPair:
        """Values or their logarithms, and the logarithm by which each is compressed."""
        raw = self.sign * np.log(self.sign * values) if self.sign else values
        return raw, np.log1p(np.maximum(raw - self.knee, 0.0) / self.width)

    def natural(self, values: FloatArray) -> FloatArray:
        """Observations from modeled values; the inverse of :meth:`modeled`."""
        compressed = self.intercept + self.slope * values
        beyond = np.minimum(np.maximum(compressed - self.knee, 0.0) / self.width, _LARGEST_EXPONENT)
        raw = np.minimum(compressed, self.knee) + self.width * np.expm1(beyond)
        if not self.sign:
            return raw
        return self.sign * np.exp(np.minimum(self.sign * raw, _LARGEST_EXPONENT))

    def expected_shortfall(
        self,
        mean: FloatArray,
        deviation: FloatArray,
        bounds: FloatArray,
        least: FloatArray | None = None,
    ) -> FloatArray:
        """(n, b) ``E[(bound - y)+]`` for posteriors about ``z`` against (b,) bounds on ``y``.

        Bounds may be infinite downwards, where nothing lies; so may (n,) least values of ``y``,
        below which a posterior counts as that value.
        """
        center = (self.intercept + self.slope * mean)[:, None]
        spread = np.maximum(self.slope * deviation, _LEAST_DEVIATION)[:, None]
        expected = np.zeros((len(mean), len(bounds)))
        for column in np.flatnonzero(np.isfinite(bounds)):
            bound = float(bounds[column])
            expected[:, [column]] = _SHORTFALLS[self.sign](center, spread, bound)
        if least is not None and (is_bounded := np.isfinite(least)).any():
            expected[is_bounded] = self._bounded_shortfall(
                center[is_bounded],
                spread[is_bounded],
                bounds,
                expected[is_bounded],
                least[is_bounded],
            )
        return expected

    def _bounded_shortfall(
        self,
        center: FloatArray,
        spread: FloatArray,
        bounds: FloatArray,
        expected: FloatArray,
        least: FloatArray,
    ) -> FloatArray:
        """(n, b) what was expected without (n,) least values, with them.

        Wide posteriors leave no digits in the difference, but it is between the gap times the
        probabilities of being below either of its ends.
        """
        low = least[:, None]
        gaps = np.where(bounds > low, bounds - low, 0.0)
        difference = expected - _SHORTFALLS[self.sign](center, spread, low)
        clipped: FloatArray = np.clip(
            np.nan_to_num(difference),
            gaps * self._share_below(center, spread, low),
            gaps * self._share_below(center, spread, bounds[None, :]),
        )
        return clipped

    def _share_below(self, center: FloatArray, spread: FloatArray, bound: FloatArray) -> FloatArray:
        """Probability that ``y`` is below a bound."""
        raw = bound
        if self.sign:
            raw = self.sign * np.log(np.maximum(self.sign * bound, _TINY))
        return np.asarray(ndtr((raw - center) / spread))


def _normal_shortfall(center: FloatArray, spread: FloatArray, bound: Floats) -> FloatArray:
    gap = (bound - center) / spread
    density = np.exp(-0.5 * gap**2) / np.sqrt(2.0 * np.pi)
    return np.asarray(spread * (gap * ndtr(gap) + density))


def _positive_shortfall(center: FloatArray, spread: FloatArray, bound: Floats) -> FloatArray:
    """For ``y = exp(z)``: a put with strike ``bound``."""
    gap = (np.log(np.maximum(bound, _TINY)) - center) / spread
    value = bound * ndtr(gap) - _mean_of_exponential(center, spread) * ndtr(gap - spread)
    return np.where(bound > 0.0, np.maximum(value, 0.0), 0.0)


def _negative_shortfall(center: FloatArray, spread: FloatArray, bound: Floats) -> FloatArray:
    """For ``y = -exp(-z)``: a call with strike ``-bound``."""
    mean = _mean_of_exponential(-center, spread)
    gap = (-center - np.log(np.maximum(np.negative(bound), _TINY))) / spread
    value = mean * ndtr(gap + spread) + bound * ndtr(gap)
    return np.where(bound < 0.0, np.maximum(value, 0.0), bound + mean)


def _mean_of_exponential(center: FloatArray, spread: FloatArray) -> FloatArray:
    return np.exp(np.minimum(center + 0.5 * spread**2, _LARGEST_EXPONENT))


_SHORTFALLS = {0: _normal_shortfall, 1: _positive_shortfall, -1: _negative_shortfall}


def expected_hypervolume_improvement(
    mean: FloatArray,
    deviation: FloatArray,
    scales: Sequence[Scale],
    lower: FloatArray,
    upper: FloatArray,
    least: FloatArray | None = None,
) -> FloatArray:
    """(n,) expected hypervolume improvement of candidates, everything minimized.

    An objective that is bounded is believed to be the larger of its posterior and its bound: then
    ``E[(u - max(y, bound))+]`` is ``E[(u - y)+] - E[(bound - y)+]``, and 0 up to the bound.

    Args:
        mean: (n, m) of the posteriors, on the models' scales.
        deviation: (n, m) of the posteriors.
        scales: The m scales.
        lower: (b, m) lower corners of the box below the reference point, which may be infinite,
            then of the boxes that partition what is dominated.
        upper: (b, m) upper corners.
        least: (n, m) what each objective is at least, in its own units; -inf where nothing is
            known. None: nowhere.
    """
    n_boxes = len(lower)
    chunk = max(_MOST_NUMBERS // n_boxes, 1)
    pieces = [np.empty(0)]
    for start in range(0, len(mean), chunk):
        piece = slice(start, start + chunk)
        product = np.ones((len(mean[piece]), n_boxes))
        for j, scale in enumerate(scales):
            corners = np.concatenate([lower[:, j], upper[:, j]])
            bounds, bound_of_corner = np.unique(corners, return_inverse=True)
            expected = scale.expected_shortfall(
                mean[piece, j],
                deviation[piece, j],
                bounds,
                None if least is None else least[piece, j],
            )[:, bound_of_corner]
            product *= expected[:, n_boxes:] - expected[:, :n_boxes]
        improved = _ROUNDED * product[:, 0] - product[:, 1:].sum(axis=1)
        pieces.append(np.maximum(improved, 0.0))
    return np.concatenate(pieces)


def expected_violation_decrease(
    mean: FloatArray, deviation: FloatArray, least: float
) -> FloatArray:
    """(n,) how much less candidates are expected to violate in total than the best so far.

    The total is the sum over the limits of what is above 0. Its distribution is taken to be normal,
    with the mean and the variance of that sum for limits that are independent; this is exact for
    one limit that is surely violated.

    Args:
        mean: (n, c) of the posteriors about violations.
        deviation: (n, c) of the posteriors, above 0.
        least: Total of the design that violates least.
    """
    gap = mean / deviation
    density = np.exp(-0.5 * gap**2) / np.sqrt(2.0 * np.pi)
    # The moments of max(v, 0) for a normal v.
    above = mean * ndtr(gap) + deviation * density
    square = (mean**2 + deviation**2) * ndtr(gap) + mean * deviation * density
    total = above.sum(axis=1)
    variance = np.maximum(square - above**2, 0.0).sum(axis=1)
    spread = np.maximum(np.sqrt(variance), _LEAST_DEVIATION)
    # No total is below 0.
    return _normal_shortfall(total, spread, least) - _normal_shortfall(total, spread, 0.0)
