"""The ``benchmark-functions`` evaluator: published test problems on a grid of levels.

They say nothing of hardware. They are there so that an optimizer, an enumeration or a comparison
can be checked on problems that do not come from this package. A parameter ``x1`` .. ``x30`` is a
level, an integer from 0 to ``steps`` that stands for a value between the least and the largest of
its variable; or a category ``c0`` .. ``cN``, which stands for a level in an order without meaning;
or a name, for a variable that is a choice. An evaluator that is told nothing of the function must
learn it: there is no bound, no feature and no prediction.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from codesign.base.columns import (
    ArrayPair,
    Arrays,
    Column,
    Columns,
    Fields,
    FloatArray,
    FloatSequence,
    IntArray,
    IntegerSequence,
    Strings,
    Value,
)
from codesign.base.errors import InputError, check_known, needing_extra
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.failures import Failure
from codesign.base.metrics import Metric, chosen_metrics
from codesign.base.records import frozen
from codesign.base.schema import Positive, Record, accepted_by, read_document
from codesign.evaluators.functions import engineering, landscapes, sections, zdt_and_dtlz
from codesign.evaluators.functions.disturbance import normal, shuffled, uniform
from codesign.evaluators.functions.function import Values

MOST_VARIABLES = 30
"""Largest number of variables, that of ZDT1 to ZDT3."""
_COMPUTED = ChainMap(*map(vars, (engineering, landscapes, sections, zdt_and_dtlz)))
"""Functions of the modules beside this one, by name."""


@frozen
class BenchmarkFunction:
    """A function of a box, which a grid of levels makes discrete; a row of ``functions.yaml``.

    Attributes:
        bounds: Least and largest value of each variable, or one pair for any number of them.
        n_objectives: The least and the largest number that it can have.
        names: By position of a variable that is a choice, the names of its values; the variable
            is then the number of the name.
    """

    name: str
    bounds: Sequence[FloatSequence] | FloatSequence
    n_objectives: IntegerSequence = (2, 2)
    names: Mapping[int, Strings] = field(default_factory=dict)
    is_of_pymoo: bool = False

    @property
    def n_variables(self) -> int | None:
        """Number of variables; None if any number may be."""
        return None if isinstance(self.bounds[0], float) else len(self.bounds)

    def box(self, n_variables: int) -> ArrayPair:
        """(d,) least and (d,) largest values."""
        low, high = np.broadcast_to(np.array(self.bounds), (n_variables, 2)).T
        return low, high

    def compute(self, x: FloatArray, m: int) -> Values:
        """Objectives and limits of (n, d) variables, for a number of objectives."""
        if not self.is_of_pymoo:
            values: Values = _COMPUTED[self.name](x, m)
            return values
        computed = self.pymoo_problem(x.shape[1], m).evaluate(x, return_as_dictionary=True)
        return list(computed["F"].T), list(computed["G"].T)

    def pymoo_problem(self, d: int, m: int) -> Any:
        """The problem of pymoo with ``d`` variables.

        Raises:
            MissingExtraError: pymoo is not installed.
        """
        with needing_extra(f"the function {self.name}", "nsga2"):
            from pymoo.problems import get_problem
        sizes = {"n_var": d} if self.n_variables is None else {}
        more = {"n_obj": m} if self.n_objectives[1] > 2 else {}
        return get_problem(self.name.replace("-", "_"), **sizes, **more)


FUNCTIONS = {
    name: BenchmarkFunction(name, **row)
    for name, row in read_document(Path(__file__).with_name("functions.yaml")).data.items()
}
_CATEGORY = re.compile(r"c(0|[1-9]\d{0,4})")
_FAILING_STREAM, _ORDER_STREAM = 1, 1000
"""Streams of random numbers; 2 and above are the noise of the objectives."""


class NoWorkload(Record):
    """A test function runs nothing."""


class FunctionOptions(Record):
    """The function, the grid on which it is evaluated, and what disturbs it."""

    function: Annotated[str, accepted_by(lambda name: check_known("function", name, FUNCTIONS))]
    """Such as ``zdt1``; a wrong name is answered with the list."""
    steps: Positive = 20
    """The level that stands for a variable's largest value; 0 stands for its least."""
    n_objectives: Annotated[int, Field(strict=True, ge=2, le=5)] | None = None
    """Number of objectives of a function that can have several; its least number if not given."""
    unused: Annotated[int, Field(strict=True, ge=0, le=MOST_VARIABLES)] = 0
    """Parameters after the function's own that change nothing."""
    noise: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Standard deviation of each objective as a share of its value. A design's noise is always the
    same."""
    failing: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of the designs that have no result, always the same ones."""

    def check_fields(self) -> None:
        least, most = FUNCTIONS[self.function].n_objectives
        if self.n_objectives is not None and not least <= self.n_objectives <= most:
            expected = f"{least}" if least == most else f"{least} to {most}"
            raise ValueError(f"{self.function} has {expected} objectives, got {self.n_objectives}")
        n_variables = FUNCTIONS[self.function].n_variables
        if n_variables is None and self.unused:
            raise ValueError(f"every variable of {self.function} is used, got unused {self.unused}")
        if n_variables is not None and n_variables + self.unused > MOST_VARIABLES:
            raise ValueError(
                f"{self.function} has {n_variables} variables, with {self.unused} unused more than "
                f"{MOST_VARIABLES}"
            )

    @property
    def m(self) -> int:
        """Number of objectives."""
        return self.n_objectives or FUNCTIONS[self.function].n_objectives[0]


class BenchmarkFunctions(Evaluator):
    """Test functions of multi-objective optimization on a grid.

    Args:
        workload: An empty record.
        options: Function, grid, number of objectives, noise and failures.

    Attributes:
        unused_parameters: Parameters on which nothing depends.
        is_noisy: Whether the objectives are disturbed.
    """

    Workload = NoWorkload
    Options = FunctionOptions
    options: FunctionOptions

    def __init__(self, workload: NoWorkload, options: FunctionOptions) -> None:
        self.options = options
        self.is_noisy = options.noise > 0.0
        self._function = FUNCTIONS[options.function]
        if self._function.is_of_pymoo:
            self._function.pymoo_problem(MOST_VARIABLES, options.m)  # refused here without pymoo
        names = [f"x{i}" for i in range(1, MOST_VARIABLES + 1)]
        n_variables = self._function.n_variables
        # One variable at least for the distance function, where their number is free.
        n_required = options.m if n_variables is None else n_variables
        n_known = MOST_VARIABLES if n_variables is None else n_variables + options.unused
        self.unused_parameters = frozenset(
            names[n_variables:n_known] if n_variables is not None else ()
        )
        self.required_parameters = frozenset(names[:n_required])
        self.optional_parameters = frozenset(names[n_required:n_known])
        self.metrics = tuple(
            Metric(f"f{j}", "minimize", "", f"objective {j} of {options.function.upper()}")
            for j in range(1, options.m + 1)
        )

    def known_violations(self, designs: Columns) -> Arrays:
        """``domain``: how far a variable is beyond its range, as a share of the range."""
        shares = self._levels(designs) / self._most_levels(len(designs))
        return {"domain": np.maximum(shares.max(axis=1) - 1.0, -shares.min(axis=1))}

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        """The objectives of ``n`` designs, and the function's own limits ``limit1``, ``limit2``.

        Raises:
            UnknownNameError: A metric that the function does not have.
            InputError: A value that is no level, category or name of a variable.
        """
        metric_names = self.metric_names
        names = chosen_metrics(metrics, metric_names)
        levels = self._levels(designs)
        with np.errstate(divide="ignore", invalid="ignore"):  # where it is not defined: bad output
            n_variables = self._function.n_variables or levels.shape[1]
            low, high = self._function.box(n_variables)
            shares = levels[:, :n_variables] / self._most_levels(n_variables)
            objectives, limits = self._function.compute(low + (high - low) * shares, self.options.m)
        values = dict(zip(metric_names, objectives, strict=True))
        failures: dict[int, Failure] = {}
        if share := self.options.noise:
            for stream, name in enumerate(values, start=_FAILING_STREAM + 1):
                values[name] = values[name] * (1.0 + share * normal(levels, stream))
        if share := self.options.failing:
            fails = uniform(levels, _FAILING_STREAM) < share
            failure = Failure("failed", f"one of the {share:.0%} of designs that fail")
            failures = dict.fromkeys(np.flatnonzero(fails).tolist(), failure)
        violations = {f"limit{i}": limit for i, limit in enumerate(limits, start=1)}
        return Evaluation(
            {name: np.ascontiguousarray(values[name]) for name in names},
            {**self.known_violations(designs), **violations},
            failures,
        )

    def provenance(self) -> Fields:
        """Function and grid, and what disturbs it if anything does."""
        options = self.options
        disturbed = options.model_dump(mode="json", include={"unused", "noise", "failing"})
        return {
            "function": options.function,
            "steps": options.steps,
            "n_objectives": options.m,
            **{name: value for name, value in disturbed.items() if value},
        }

    def _levels(self, designs: Columns) -> IntArray:
        """(n, k) the levels of all parameters in their order; 0 where absent."""
        ordered = sorted(designs, key=lambda name: int(name.removeprefix("x")))
        return np.stack([self._levels_of(name, designs[name]) for name in ordered], axis=1)

    def _levels_of(self, name: str, column: Column) -> IntArray:
        position = int(name.removeprefix("x")) - 1
        names = self._function.names.get(position, ())

        def level(value: Value) -> float:
            if isinstance(value, int) and not isinstance(value, bool) and not names:
                return value
            if value in names:
                return names.index(str(value))
            match = None if names else _CATEGORY.fullmatch(str(value))
            if match is None or int(match[1]) > self.options.steps:
                steps = self.options.steps
                expected = ", ".join(names) or f"a level or a category from c0 to c{steps}"
                raise InputError(f"parameter {name}: expected {expected}, got {value!r}")
            return shuffled(self.options.steps + 1, _ORDER_STREAM + position)[int(match[1])]

        return column.lookup(level).astype(np.int64)

    def _most_levels(self, n_parameters: int) -> FloatArray:
        """(k,) the level at which each parameter is 1 of its range."""
        most = np.full(n_parameters, float(self.options.steps))
        for position, names in self._function.names.items():
            most[position] = len(names) - 1.0
        return most
