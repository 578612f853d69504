"""The ``benchmark-functions`` evaluator: test problems whose exact front is known in closed form.

They say nothing of hardware. They are there so that an optimizer, an enumeration or a comparison
can be checked against an answer that does not come from this package: ZDT [ZDT2000]_ and DTLZ2
[DTLZ2005]_ on a grid. A parameter ``x1`` .. ``x30`` is an integer, the variable is that integer
over ``steps``.

On a grid that contains the optimal value of the distance variables (0 for ZDT, 1/2 for DTLZ2), the
front is the published curve at the grid's position variables, because each objective grows with
the distance function ``g`` while the position is kept: :func:`exact_front`.

.. [ZDT2000] Zitzler, Deb, Thiele, "Comparison of multiobjective evolutionary algorithms:
   empirical results", Evolutionary Computation 8(2), 2000, section 4.
.. [DTLZ2005] Deb, Thiele, Laumanns, Zitzler, "Scalable test problems for evolutionary
   multiobjective optimization", 2005, equation 6.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from codesign.columns import Columns, FloatArray
from codesign.errors import UnknownNameError
from codesign.evaluators.base import Evaluation
from codesign.metrics import Metric
from codesign.schema import Record

FunctionName: TypeAlias = Literal["zdt1", "zdt2", "zdt3", "dtlz2"]
_MOST_VARIABLES = 30
"""Largest number of variables, that of ZDT1 to ZDT3 in [ZDT2000]_."""


class NoWorkload(Record):
    """A test function runs nothing."""


class FunctionOptions(Record):
    """The function, and the grid on which it is evaluated."""

    function: FunctionName
    """ZDT1 (convex front), ZDT2 (concave), ZDT3 (in pieces), DTLZ2 (a sphere's part)."""
    steps: Annotated[int, Field(strict=True, ge=1)] = 20
    """The integer that stands for 1; an even number puts DTLZ2's optimum 1/2 on the grid."""
    n_objectives: Annotated[int, Field(strict=True, ge=2, le=4)] = 2
    """Objectives of DTLZ2; the ZDT functions have 2."""

    @model_validator(mode="after")
    def _fits(self) -> FunctionOptions:
        if self.function != "dtlz2" and self.n_objectives != 2:
            raise ValueError(f"{self.function} has 2 objectives, got {self.n_objectives}")
        return self


class BenchmarkFunctions:
    """Test functions of multi-objective optimization on a grid.

    Args:
        workload: An empty record.
        options: Function, grid, number of objectives.
    """

    Workload: ClassVar[type[Record]] = NoWorkload
    Options: ClassVar[type[Record]] = FunctionOptions

    def __init__(self, workload: NoWorkload, options: FunctionOptions) -> None:
        self.options = options
        m = options.n_objectives
        names = [f"x{i}" for i in range(1, _MOST_VARIABLES + 1)]
        # One variable at least for the distance function.
        self.required_parameters = frozenset(names[:m])
        self.optional_parameters = frozenset(names[m:])
        self.metrics = tuple(
            Metric(f"f{j}", "minimize", "", f"objective {j} of {options.function.upper()}")
            for j in range(1, m + 1)
        )

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        """``domain``: how far the largest variable exceeds 1, or the smallest falls below 0."""
        x = self._variables(designs)
        return {"domain": np.maximum(x.max(axis=1) - 1.0, -x.min(axis=1))}

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        """The objectives of ``n`` designs.

        Raises:
            UnknownNameError: A metric that the function does not have.
        """
        known = [metric.name for metric in self.metrics]
        names = known if metrics is None else list(metrics)
        for name in names:
            if name not in known:
                raise UnknownNameError("metric", name, known)
        values = objectives_of(self.options, self._variables(designs))
        objectives = dict(zip(known, values.T, strict=True))
        return Evaluation(
            {name: np.ascontiguousarray(objectives[name]) for name in names},
            self.known_violations(designs),
        )

    def provenance(self) -> Mapping[str, Any]:
        """Function and grid."""
        return self.options.model_dump(mode="json")

    def _variables(self, designs: Columns) -> FloatArray:
        """(n, k) the variables in their order; an absent parameter is 0."""
        names = sorted(designs, key=lambda name: int(name.removeprefix("x")))
        return np.stack([designs[name].lookup(float) for name in names], axis=1) / (
            self.options.steps
        )


def objectives_of(options: FunctionOptions, x: FloatArray) -> FloatArray:
    """(n, m) objectives to minimize of (n, k) variables from 0 to 1."""
    if options.function == "dtlz2":
        return _dtlz2(x, options.n_objectives)
    # ZDT1 to ZDT3: g = 1 + 9 * mean of the distance variables.
    return _zdt(options.function, x[:, 0], 1.0 + 9.0 * x[:, 1:].mean(axis=1))


def exact_front(options: FunctionOptions, positions: FloatArray) -> FloatArray:
    """(p, m) distinct non-dominated points of a grid, in lexicographic order.

    Limiting assumption: the grid contains the optimum of the distance variables. DTLZ2 with more
    than two objectives meets a point of the axes by many positions; it is given once.

    Args:
        options: The function.
        positions: (p, m - 1) every combination of the position variables on the grid.
    """
    if options.function == "dtlz2":
        points = _sphere(positions, 1.0)
    else:
        points = _zdt(options.function, positions[:, 0], np.ones(len(positions)))
    at_most = np.asarray((points[None, :, :] <= points[:, None, :]).all(axis=2))
    better = np.asarray((points[None, :, :] < points[:, None, :]).any(axis=2))
    is_dominated = np.asarray((at_most & better).any(axis=1))
    return np.unique(points[~is_dominated], axis=0)


def _zdt(name: str, first: FloatArray, g: FloatArray) -> FloatArray:
    share = first / g
    if name == "zdt2":
        shape = 1.0 - share**2
    else:
        shape = 1.0 - np.sqrt(share)
        if name == "zdt3":
            shape = shape - share * np.sin(10.0 * np.pi * first)
    return np.stack([first, g * shape], axis=1)


def _dtlz2(x: FloatArray, m: int) -> FloatArray:
    distance = ((x[:, m - 1 :] - 0.5) ** 2).sum(axis=1)
    return _sphere(x[:, : m - 1], 1.0 + distance)


def _sphere(positions: FloatArray, radius: FloatArray | float) -> FloatArray:
    """(n, m) points of the positive part of a sphere, from angles as shares of a right angle."""
    m = positions.shape[1] + 1
    # The cosine as a sine, so that it is exactly 0 at 1 and points of the axes coincide.
    cosine, sine = np.sin((1.0 - positions) * np.pi / 2), np.sin(positions * np.pi / 2)
    columns = []
    for j in range(m):
        value = cosine[:, : m - 1 - j].prod(axis=1)
        columns.append(radius * (value * sine[:, m - 1 - j] if j else value))
    return np.stack(columns, axis=1)
