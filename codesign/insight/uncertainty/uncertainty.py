"""Dependence of results on the ranges that the memory technologies' sources give.

MemExplorer [MemExplorer]_ Table 1 states some numbers as ranges, without a distribution. Here
each is drawn on its own, below and above its typical value with equal probability, and densest
there: a triangular distribution [Law2015]_ on either side. So the typical value is the median of
each number, however far a range reaches to one side. A technology is the same for every design, so
one draw holds for all designs that are compared. An interval reaches from 5 % to 95 % of the draws,
and to the typical value where that lies beyond.

The constants of what designs cost are drawn likewise, where a metric depends on them: one draw of a
wafer's price, or of the market of memories, scales all designs.

Limiting assumptions: numbers are independent, also those of one vendor or process; parameters,
derived quantities and limits of the design space stay at their typical values, while the
evaluator's limits and the constraints on metrics follow the draw.

.. [MemExplorer] "MemExplorer: memory system synthesis for heterogeneous NPUs".
.. [Law2015] A. M. Law, "Simulation Modeling and Analysis", 5th ed., §6.11, absence of data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    ArrayList,
    Arrays,
    FloatArray,
    FloatMap,
    FloatSequence,
    IntArray,
    IntegerTuple,
    Strings,
    first_values,
)
from codesign.base.loop_progress import counted
from codesign.base.records import drop_none, frozen
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.uncertainty.limits_over_ranges import worst_excess
from codesign.insight.uncertainty.sweep import Sweep, draw
from codesign.insight.uncertainty.uncertainty_results import (
    DesignUncertainty,
    FrontSpread,
    MetricInterval,
    RangedNumber,
    RobustDesign,
    RobustFront,
    Swing,
    has_width,
)
from codesign.search.campaign import Results
from codesign.search.pareto import non_dominated
from codesign.search.problem import Problem

SAMPLES = 500
"""Draws if nobody says how many: a share is then known to 2.2 % (standard error)."""
MOST_DESIGNS = 20_000
"""Designs that a front is compared with; 500 draws of so many take half a minute."""
OFTEN = 0.25
"""Share of the draws from which a design off the typical front is worth a look [ours]."""
_NEAREST_CHUNK = 1024
_DRAWS = "draws over the ranges"


def design_uncertainty(
    evaluated: EvaluatedDesign, samples: int = SAMPLES, seed: int = 0
) -> DesignUncertainty:
    """Intervals of every metric of one design, and which number moves each the most.

    Args:
        evaluated: As ``codesign.evaluate`` gives it.

    Raises:
        InputError: An evaluator without technologies, no sample, a negative seed.
    """
    space = evaluated.space
    sweep = Sweep.single(evaluated)
    drawn = draw(sweep.numbers, samples, seed)
    row = space.encode(drop_none(evaluated.design))
    in_space = all(values[0] <= 0 for values in space.violations(row).values())
    observed = [sweep.observe(row, values) for values in counted(drawn, _DRAWS)]
    corners = _Corners.build(sweep, row)
    return DesignUncertainty(
        samples=samples,
        seed=seed,
        numbers=sweep.numbers,
        feasible_share=float(
            np.mean([in_space and bool(observation.feasible[0]) for observation in observed])
        ),
        intervals={
            metric: corners.interval(
                metric, np.array([observation.metrics[metric][0] for observation in observed])
            )
            for metric in sweep.metrics
        },
        tornado={metric: corners.swings(metric) for metric in sweep.metrics},
    )


def design_intervals(evaluated: EvaluatedDesign, samples: int = SAMPLES) -> Arrays:
    """(2,) by metric: 5 % of the draws are below the first, 5 % above the second.

    A metric has none that no number with a range moves, or that lacks a value in some draw.
    Arguments as of :func:`design_uncertainty`.

    Raises:
        InputError: An evaluator without technologies, no sample.
    """
    space = evaluated.space
    sweep = Sweep.single(evaluated)
    row = space.encode(drop_none(evaluated.design))
    quantiles = metric_quantiles(sweep, row, sweep.metrics, (5, 95), samples)
    return {name: ends for name, (ends,) in quantiles.items() if has_width(ends)}


@frozen
class _Corners:
    """One design at the ends of the ranges.

    Attributes:
        numbers: Those with a range.
        metrics: Values by metric at each corner. A corner has one entry per number: -1 low, 0
            typical, 1 high. There are: all typical, all low, all high; each number alone at
            either end; and for each metric the two corners that these suggest as its extremes,
            every number at the end that alone lowers (raises) the metric the most. They are
            the extremes over all ranges if the metric is monotone in each number.
    """

    numbers: tuple[RangedNumber, ...]
    metrics: Mapping[IntegerTuple, FloatMap]

    @classmethod
    def build(cls, sweep: Sweep, row: IntArray) -> _Corners:
        """The corners of a single design."""
        k = len(sweep.numbers)
        metrics = {}

        def visit(corner: IntegerTuple) -> None:
            if corner not in metrics:
                metrics[corner] = first_values(sweep.observe(row, sweep.corner(corner)).metrics)

        for end in (0, -1, 1):
            visit((end,) * k)
        moving = sweep.moving(row)
        for i in range(k):
            for end in (-1, 1):
                if i in moving:
                    visit(_alone(i, end, k))
                else:
                    metrics[_alone(i, end, k)] = metrics[(0,) * k]
        corners = cls(sweep.numbers, metrics)
        for name in list(metrics[(0,) * k]):
            for sign in (1.0, -1.0):
                visit(corners._toward(name, sign))
        return corners

    def _toward(self, metric: str, sign: float) -> IntegerTuple:
        """Every number at the end that alone makes ``sign * metric`` smallest."""
        lines = [self._line(metric, i) for i in range(len(self.numbers))]
        ends = [min(line, key=lambda end: sign * line[end]) for line in lines]
        moved = {end for end in ends if end}
        if len(moved) != 1:
            return tuple(ends)
        # Numbers that change nothing go along, so that the corner has a short name.
        (end,) = moved
        idle = [len(set(line.values())) == 1 for line in lines]
        return tuple(end if is_idle else x for x, is_idle in zip(ends, idle, strict=True))

    def _line(self, metric: str, i: int) -> dict[int, float]:
        """The metric with number ``i`` at typical, low and high, the others at typical."""
        k = len(self.numbers)
        return {end: self.metrics[_alone(i, end, k)][metric] for end in (0, -1, 1)}

    def swings(self, metric: str) -> tuple[Swing, ...]:
        """Effect of each number alone on a metric, the largest swing first."""
        lines = [self._line(metric, i) for i in range(len(self.numbers))]
        return _swings(self.numbers, lines)

    def interval(self, metric: str, drawn: FloatArray) -> MetricInterval:
        """The interval of a metric from its drawn values."""
        values = drawn[np.isfinite(drawn)]
        typical = self.metrics[(0,) * len(self.numbers)][metric]
        p5, median, p95 = np.percentile(values, [5, 50, 95]) if len(values) else [np.nan] * 3
        return MetricInterval(
            typical,
            float(np.fmin(p5, typical)),
            float(median),
            float(np.fmax(p95, typical)),
            *self.extreme(metric, 1.0),
            *self.extreme(metric, -1.0),
            len(values),
        )

    def extreme(self, metric: str, sign: float) -> tuple[float, str]:
        """The smallest (sign 1) or largest (sign -1) value over the corners, and where it is."""
        corners = [x for x, metrics in self.metrics.items() if not np.isnan(metrics[metric])]
        if not corners:
            return np.nan, "none"
        corner = min(corners, key=lambda key: sign * self.metrics[key][metric])
        words = {-1: "low", 0: "typical", 1: "high"}
        pairs = zip(self.numbers, corner, strict=True)
        place = ", ".join(f"{number} {words[end]}" for number, end in pairs if end)
        if len(set(corner)) <= 1:
            place = f"all {words[corner[0]] if corner else 'typical'}"
        return self.metrics[corner][metric], place


def _swings(
    numbers: Sequence[RangedNumber], lines: Sequence[Mapping[int, float]]
) -> tuple[Swing, ...]:
    """Effect of each number alone, from the metric at its low (-1), typical (0) and high (1)."""
    swings = []
    for number, line in zip(numbers, lines, strict=True):
        swing = max(line.values()) - min(line.values())
        relative = swing / abs(line[0]) if line[0] else None
        if swing > 0:
            swings.append(
                Swing(number.technology, number.number, line[-1], line[1], swing, relative)
            )
    return tuple(sorted(swings, key=lambda observation: -observation.swing))


def design_swings(
    problem: Problem, rows: IntArray, metrics: Strings
) -> list[dict[str, tuple[Swing, ...]]]:
    """Tornado of each design: its metrics with every number alone at either end of its range.

    The swings are those of :func:`design_uncertainty`; all designs are evaluated at once, twice
    per number of a technology that any of them names.

    Args:
        problem: With an evaluator whose technologies can be replaced.
        rows: (n, d) designs.

    Returns:
        One mapping per design, by metric; a metric that no number moves has none.

    Raises:
        InputError: An evaluator without technologies.
    """
    sweep = Sweep(problem, list(dict.fromkeys([*problem.deciding_metrics, *metrics])))

    def evaluate_end(i: int, end: int) -> Arrays:
        corner = _alone(i, end, len(sweep.numbers))
        return sweep.observe(rows, sweep.corner(corner)).metrics

    typical = sweep.observe(rows, sweep.typical).metrics
    moving = sweep.moving(rows)
    ends = [{0: typical, -1: evaluate_end(i, -1), 1: evaluate_end(i, 1)} for i in moving]
    return [
        {
            name: _swings(
                [sweep.numbers[i] for i in moving],
                [
                    {end: float(values[name][design]) for end, values in line.items()}
                    for line in ends
                ],
            )
            for name in metrics
        }
        for design in range(len(rows))
    ]


def _alone(i: int, end: int, k: int) -> IntegerTuple:
    return (0,) * i + (end,) + (0,) * (k - i - 1)


def front_spread(
    problem: Problem,
    rows: IntArray,
    metrics: Strings,
    samples: int = SAMPLES,
    seed: int = 0,
) -> FrontSpread:
    """Effect of the ranges on designs of one problem, in the same draws for all of them.

    Args:
        problem: With an evaluator whose technologies can be replaced.
        rows: (n, d) designs of its space that meet all that is known without evaluation.

    Raises:
        InputError: An evaluator without technologies, no sample, a negative seed.
    """
    sweep = Sweep(problem, list(dict.fromkeys([*problem.deciding_metrics, *metrics])))
    on_front = np.zeros(len(rows))
    feasible = np.zeros(len(rows))
    values: dict[str, ArrayList] = {name: [] for name in metrics}
    for drawn in counted(draw(sweep.numbers, samples, seed), _DRAWS):
        observed = sweep.observe(rows, drawn)
        inside = np.flatnonzero(observed.feasible)
        feasible[inside] += 1
        on_front[inside[non_dominated(observed.objectives[inside])]] += 1
        for name in metrics:
            values[name].append(observed.metrics[name])
    return FrontSpread(
        samples=samples,
        n_numbers=len(sweep.numbers),
        non_dominated_share=on_front / samples,
        feasible_share=feasible / samples,
        intervals=_quantiles(sweep, rows, values, (5, 95)),
    )


def _quantiles(
    sweep: Sweep,
    rows: IntArray,
    values: Mapping[str, Sequence[FloatArray]],
    levels: FloatSequence,
) -> ArrayDict:
    """(n, q) by metric with a value in every draw: quantiles of draws around the typical values.

    The lower half of the quantiles is not above the typical value, nor the upper below.
    """
    percent = np.asarray(levels)
    typical = sweep.observe(rows, sweep.typical).metrics
    around = {}
    for name, drawn in values.items():
        if np.isfinite(drawn).all():
            quantiles = np.percentile(drawn, levels, axis=0).T
            middle = typical[name][:, None]
            upper = np.where(percent > 50, np.maximum(quantiles, middle), quantiles)
            around[name] = np.where(percent < 50, np.minimum(quantiles, middle), upper)
    return around


def metric_quantiles(
    sweep: Sweep, rows: IntArray, metrics: Strings, levels: FloatSequence, samples: int
) -> ArrayDict:
    """Spread of designs' metrics over the ranges, in the draws of :func:`front_spread`.

    Args:
        rows: (n, d) designs that meet all that is known without evaluation.
        levels: In percent: 5 is the value that 5 % of the draws are below.

    Returns:
        (n, q) by metric that a number moves and that has a value in every draw.
    """
    values: dict[str, ArrayList] = {name: [] for name in metrics}
    for drawn in counted(draw(sweep.numbers, samples), _DRAWS):
        observed = sweep.observe(rows, drawn)
        for name in metrics:
            values[name].append(observed.metrics[name])
    moved = {name: x for name, x in values.items() if np.ptp(x, axis=0).any()}
    return _quantiles(sweep, rows, moved, levels)


def robust_front(
    results: Results, samples: int = SAMPLES, seed: int = 0, most: int = MOST_DESIGNS
) -> RobustFront:
    """Designs of a campaign that are on the front over the ranges of the technologies.

    In every draw all designs of the campaign that have a result are evaluated anew. Of more
    than ``most`` distinct ones, those are taken that are feasible and nearest to the front.

    Args:
        most: Designs to compare; the front is always among them.

    Raises:
        InputError: An evaluator without technologies, no sample, a negative seed.
    """
    front = results.front()
    _, first = np.unique(results.problem.space.keys(results.rows), return_index=True)
    distinct = first[~results.failed[first]]
    compared = _nearest(results, distinct, front, most)
    spread = front_spread(results.problem, results.rows[compared], (), samples, seed)
    shares = spread.non_dominated_share
    feasible = spread.feasible_share
    number = {position: i for i, position in enumerate(front.tolist(), start=1)}
    listed = np.flatnonzero(np.isin(compared, front) | (shares >= OFTEN))
    worst = worst_excess(results.problem, results.rows[compared[listed]])
    designs = [
        RobustDesign(
            int(position), number.get(int(position)), float(shares[place]), float(feasible[place]),
            excess, limit,
        )
        for place, position, excess, limit in zip(
            listed, compared[listed], worst.excess.tolist(), worst.limits, strict=True
        )
    ]  # fmt: skip
    designs.sort(key=lambda x: (-x.non_dominated_share, x.front_number or len(results)))
    varied = Sweep(results.problem, results.problem.deciding_metrics).numbers
    return RobustFront(samples, seed, varied, len(compared), len(distinct), OFTEN, tuple(designs))


def _nearest(results: Results, distinct: IntArray, front: IntArray, most: int) -> IntArray:
    """At most ``most`` of the distinct designs: the front, the feasible, the nearest to it.

    A design's distance is the smallest shift of all its objectives, as shares of their ranges
    among the feasible designs, after which one of the front no longer dominates it.
    """
    if len(distinct) <= most:
        return distinct
    on_front = np.isin(distinct, front)
    distance = np.zeros(len(distinct))
    if len(front):
        inside = results.objectives[results.feasible]
        scale = np.maximum(np.ptp(inside, axis=0), np.finfo(float).tiny)
        points = results.objectives[distinct] / scale
        best = results.objectives[front] / scale
        # (n,) largest over the front of the smallest objective by which it is ahead of a point.
        distance = np.concatenate([
            (points[i : i + _NEAREST_CHUNK, None] - best).min(axis=2).max(axis=1)
            for i in range(0, len(points), _NEAREST_CHUNK)
        ])  # fmt: skip
    order = np.lexsort((distance, ~results.feasible[distinct], ~on_front))
    return np.sort(distinct[order[: max(most, len(front))]])
