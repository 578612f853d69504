"""A search from Python, without files or entry points: results of a function, or from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import yaml

from codesign.base import plugins
from codesign.base.columns import (
    FieldRows,
    Fields,
    FloatMap,
    IntArray,
    Strings,
    Value,
    ValueMap,
    values_at,
)
from codesign.base.errors import InputError, needing_extra
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.base.notebook import table_html
from codesign.search.campaign.loop import search_space
from codesign.search.observations import Observations
from codesign.search.optimizers import Optimizer, initial_designs
from codesign.search.problem_builder import build_problem
from codesign.space import DesignSpace, parse_space

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Study", "optimize"]

Result = FloatMap | None
"""Numbers of a design by name; None if it has no result."""


class _Outside(Evaluator):
    """An evaluator whose results come from outside."""

    def __init__(self, parameters: Iterable[str], metrics: Iterable[Metric]) -> None:
        self.required_parameters = frozenset(parameters)
        self.metrics = tuple(metrics)

    def provenance(self) -> Fields:
        return {}


class Study:
    """An optimizer that proposes designs of a space and takes their results.

    The same arguments and results give the same proposals. Nothing is stored: use a campaign for
    searches that must survive a kill.

    Args:
        space: A design space, or its parameters with their values:
            ``{"lanes": [64, 128], "clock_hz": {"values": [1e9, 2e9]}}``.
        objectives: Such as ``minimize mass``; the results have a number of this name.
        constraints: Such as ``stress <= 5``, on parameters and on numbers of the results.
        numbers: Names of further results, which only constraints use.
        optimizer: Name of a registered optimizer.
        initial: Number of spread initial designs; then the optimizer proposes.
        seed: Seed of the initial designs and of the optimizer.

    Raises:
        InputError: An argument is wrong; the error lists all mistakes.

    Examples:
        >>> study = Study({"x": [0, 1, 2, 3]}, ["minimize f"], optimizer="random", initial=2)
        >>> designs = study.ask(2)
        >>> study.tell(designs, [{"f": (design["x"] - 2) ** 2} for design in designs])
        >>> len(study.frame())
        2
    """

    def __init__(
        self,
        space: DesignSpace | Mapping[str, object],
        objectives: Strings,
        *,
        constraints: Strings = (),
        numbers: Strings = (),
        optimizer: str = "gp-ehvi",
        initial: int = 20,
        seed: int = 0,
    ) -> None:
        if str in map(type, (objectives, constraints, numbers)):
            raise InputError("objectives, constraints and numbers: expected lists, got a text")
        if min(initial, seed) < 0:
            raise InputError(f"expected numbers from 0, got initial={initial} and seed={seed}")
        if not isinstance(space, DesignSpace):
            space = parse_space(yaml.safe_dump({"parameters": dict(space)}, sort_keys=False))
        senses = dict.fromkeys(numbers, "minimize")
        senses |= {name: sense for sense, _, name in (text.partition(" ") for text in objectives)}
        metrics = (
            Metric(name, "maximize" if sense == "maximize" else "minimize", "", name)
            for name, sense in senses.items()
        )
        if clashes := sorted(senses.keys() & space.names):
            raise InputError(f"{clashes[0]!r} is a parameter; give the number another name")
        evaluator = _Outside(space.names, metrics)
        self.problem = build_problem(space, evaluator, objectives, constraints, "study")
        self._search = search_space(self.problem)
        factory = plugins.load("optimizers", optimizer, "optimizer")
        self._optimizer: Optimizer = factory(
            self._search, len(self.problem.objectives), seed, factory.Options()
        )
        self._initial = initial_designs(self._search, initial, seed)
        self._pending = self._search.no_rows
        self._n_proposed = 0
        self.observations: Observations | None = None
        """Observations so far, in the order of :meth:`tell`."""

    def __len__(self) -> int:
        return 0 if self.observations is None else len(self.observations)

    def ask(self, n: int = 1) -> list[dict[str, Value]]:
        """At most ``n`` new designs, each a value by parameter; none if the space has no others.

        The initial designs come first. Later calls return at most the optimizer's preferred number.
        """
        rows = self._initial[self._n_proposed :][:n]
        if not len(rows):
            knows_pending = getattr(self._optimizer, "knows_pending", False)
            arguments = (self._pending,) if knows_pending and len(self._pending) else ()
            rows = self._optimizer.ask(min(n, self._optimizer.preferred_batch), *arguments)
        self._n_proposed += len(rows)
        self._pending = np.concatenate([self._pending, rows])
        return self.problem.space.decode(rows)

    def tell(self, designs: FieldRows, results: Sequence[Result]) -> None:
        """Record results of designs, proposed or not; a result of None is a failure.

        Raises:
            InputError: The space lacks a design, or a result lacks a number.
        """
        names = self.problem.metric_names
        if len(designs) != len(results):
            raise InputError(f"expected a result per design, {len(designs)}, got {len(results)}")
        for design, result in zip(designs, results, strict=True):
            if not isinstance(result, Mapping | None):
                raise InputError(f"expected numbers by name, got {result!r}, for {dict(design)}")
            got = {name: (result or {}).get(name) for name in names}
            wrong = [name for name in names if not isinstance(got[name], (int, float, np.number))]
            if wrong and result is not None:
                problem = f"expected a number for {wrong[0]!r}, got {got[wrong[0]]!r}"
                raise InputError(f"{problem}, for {dict(design)}")
        space = self.problem.space
        rows = np.concatenate([self._search.no_rows, *map(space.encode, designs)])
        values = {
            name: np.array([np.nan if row is None else row[name] for row in results], float)
            for name in names
        }
        failures = {i: "no result" for i, row in enumerate(results) if row is None}
        observed = self.problem.observed(rows, Evaluation(values, failures=failures))
        self._optimizer.tell(*observed.tell_arguments)
        self._pending = self._pending[~np.isin(space.keys(self._pending), space.keys(rows))]
        before = [] if self.observations is None else [self.observations]
        self.observations = Observations.joined([*before, observed])

    def front(self) -> list[dict[str, Value]]:
        """Non-dominated designs with their numbers, sorted by the first objective."""
        observations = self.observations
        if observations is None:
            return []
        positions = observations.front
        order = np.argsort(observations.objectives[positions, 0])
        return self._rows(observations, positions[order])

    def frame(self) -> pd.DataFrame:
        """Every design with its numbers, as a pandas data frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        with needing_extra("a data frame", "tables"):
            import pandas as pd
        results = self.observations
        return pd.DataFrame([] if results is None else self._rows(results, np.arange(len(results))))

    def _rows(self, observations: Observations, positions: IntArray) -> list[dict[str, Value]]:
        designs = self.problem.space.decode(observations.rows[positions])
        return [
            {**design, **values_at(observations.metrics, position)}
            for design, position in zip(designs, positions, strict=True)
        ]

    def _repr_html_(self) -> str:
        """The front, in a notebook."""
        rows = self.front()
        cells = [
            [f"{value:.6g}" if isinstance(value, float) else str(value) for value in row.values()]
            for row in rows
        ]
        return table_html(f"Front: {len(rows)} designs", list(rows[0]) if rows else [], cells)


def optimize(
    function: Callable[[ValueMap], Result],
    space: DesignSpace | Mapping[str, object],
    objectives: Strings,
    *,
    budget: int = 100,
    constraints: Strings = (),
    numbers: Strings = (),
    optimizer: str = "gp-ehvi",
    initial: int = 20,
    seed: int = 0,
) -> Study:
    """Search the best designs of a space by a function.

    Args:
        function: Function of a design (a value by parameter) that returns numbers by name, or None
            for a failure.
        budget: Number of designs to evaluate, the initial ones included.
        constraints, numbers, optimizer, initial, seed: As of :class:`Study`.

    Returns:
        The study with all results.

    Raises:
        InputError: An argument or a result is wrong.

    Examples:
        >>> study = optimize(
        ...     lambda d: {"cost": d["n"], "error": 1 / d["n"]},
        ...     {"n": [1, 2, 4, 8]}, ["minimize cost", "minimize error"], optimizer="random")
        >>> [row["n"] for row in study.front()]
        [1, 2, 4, 8]
    """
    if budget < 1:
        raise InputError(f"expected a budget of at least 1, got {budget}")
    study = Study(
        space, objectives, constraints=constraints, numbers=numbers,
        optimizer=optimizer, initial=initial, seed=seed,
    )  # fmt: skip
    while (n_left := budget - len(study)) > 0:
        designs = study.ask(n_left)
        if not designs:
            break
        study.tell(designs, [function(design) for design in designs])
    return study
