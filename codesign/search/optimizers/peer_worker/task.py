"""Question to a method, and its answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # the interpreter of a library may lack codesign
    from codesign.base.columns import Fields, JsonObject

POPULATION = 20
"""Individuals of every method that keeps a population: the designs with which the shipped
comparisons begin. The libraries' 50 or 100 would be most of a budget of 60. [ours]"""


@dataclass(frozen=True)
class Result:
    """A design and what is known of it.

    Attributes:
        design: Level of each parameter, from 0.
        objectives: To minimize; None if they are not known.
        violations: Of each limit, ``<= 0`` is within; infinite where nothing is measured.
    """

    design: list[int]
    objectives: list[float] | None
    violations: list[float]


@dataclass(frozen=True)
class Task:
    """One question to a method.

    Attributes:
        levels: Number of levels of each parameter.
        is_ordered: Whether the levels of each parameter are in an order.
        n_objectives: Number of objectives, all minimized.
        conditions: For each parameter, its parent parameter and the parent's levels at which it
            exists; None if it always exists.
        linear: Constraints that are known in advance: coefficients of the levels, and the bound of
            their sum.
        forbidden: Combinations of (parameter, level) that no design has.
        reference_point: Bound of the hypervolume, if there is one.
        results: Results of all evaluations, in order; failed designs have no objectives.
        rejected: Rejected proposals of this step, and designs in flight. Repeated designs have
            their objectives; inadmissible ones and those without a result have none.
        attempt: Number of earlier questions in this step.
        seed: Seed of this question.
        run_seed: Seed of the whole run.
    """

    levels: list[int]
    is_ordered: list[bool]
    n_objectives: int
    conditions: list[tuple[int, list[int]] | None]
    linear: list[tuple[list[float], float]]
    forbidden: list[list[tuple[int, int]]]
    reference_point: list[float] | None
    results: list[Result]
    rejected: list[Result]
    attempt: int
    seed: int
    run_seed: int

    @classmethod
    def read(cls, request: Fields) -> Task:
        """A request's task; an infinite violation becomes ten times the worst finite one.

        Ten times is ours: models and sums take no infinity.
        """
        excesses = [
            excess
            for name in _RESULTS
            for record in request[name]
            for excess in record["violations"]
        ]
        largest = max(10.0 * max(filter(math.isfinite, excesses), default=1.0), 1.0)
        arguments: JsonObject = {
            name: [
                Result(
                    record["design"],
                    record["objectives"],
                    [min(excess, largest) for excess in record["violations"]],
                )
                for record in request[name]
            ]
            for name in _RESULTS
        }
        return cls(**{field.name: request[field.name] for field in fields(cls)} | arguments)

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return [f"x{i}" for i in range(len(self.levels))]

    @property
    def varying(self) -> list[int]:
        """Positions of the parameters with more than one level, each after its parent."""
        pending = [i for i, levels in enumerate(self.levels) if levels > 1]
        order = list[int]()
        while pending:
            for i in pending:
                if (condition := self.conditions[i]) is None or condition[0] not in pending:
                    order.append(i)
            pending = [i for i in pending if i not in order]
        return order

    def exists(self, i: int, values: Mapping[str, int]) -> bool:
        """True if a parameter exists, given the levels of others by name."""
        condition = self.conditions[i]
        if condition is None:
            return True
        parent, levels = condition
        return values.get(self.names[parent], 0 if self.levels[parent] < 2 else -1) in levels

    @property
    def known(self) -> list[Result]:
        """Results that have objectives, evaluated and proposed again, in their order."""
        return [
            result for result in (*self.results, *self.rejected) if result.objectives is not None
        ]

    @property
    def unknown(self) -> list[Result]:
        """Results that were rejected without having objectives."""
        return [result for result in self.rejected if result.objectives is None]

    @property
    def n_limits(self) -> int:
        """Number of limits of what was evaluated."""
        return max((len(result.violations) for result in self.known), default=0)

    def values_of(self, result: Result) -> dict[str, int]:
        """Levels by the name of the parameters that vary and exist."""
        values: dict[str, int] = {}
        for i in self.varying:
            if self.exists(i, values):
                values[self.names[i]] = result.design[i]
        return values

    def design(self, values: Fields) -> list[int]:
        """Design from levels by name; 0 if a parameter has one level or does not exist."""
        return [int(values.get(name, 0)) for name in self.names]


_RESULTS = ("results", "rejected")
"""Fields of a task that are lists of results."""


@dataclass(frozen=True)
class Proposal:
    """A method's answer.

    Attributes:
        designs: Levels of each parameter, the preferred design first.
        origin: Where the first came from, in the words of the library's own state.
        settings: What the objects that made it say of themselves.
    """

    designs: list[list[int]]
    origin: str
    settings: JsonObject = field(default_factory=dict)


Method: TypeAlias = Callable[[Task], Proposal]


def avoid_compiling() -> None:
    """Let BoTorch use its kernel in Python, with the same digits everywhere.

    BoTorch 0.18 compiles another kernel at the first use. If a process is killed meanwhile, all
    others wait for its lock forever.
    """
    from botorch.acquisition.multi_objective import logei

    logei._load_attempted = True


def settings_of(
    library: str, method: object, limits: str, reference_point: str, **further: Any
) -> JsonObject:
    """Version, class and plain attributes of the object that proposes.

    Args:
        library: Distribution that is asked for its version.
        method: The object; its attributes that are numbers, words or truth values are taken.
        limits: What the method is told of limits.
        reference_point: What it is told of the reference point.
        **further: Settings that lie deeper in the object.
    """
    return {
        "library": f"{library} {version(library)}",
        "method": type(method).__name__,
        "limits": limits,
        "reference_point": reference_point,
        **plain_attributes(method),
        **further,
    }


_STATE = {"n_iter", "iter", "is_initialized", "training", "verbose", "save_history", "overwrite"}
"""Attributes of libraries' objects that say how far they are, or what they print."""


def plain_attributes(method: object) -> JsonObject:
    """An object's settings that are numbers, words or truth values; no seeds, no state."""
    return {
        name.lstrip("_"): value
        for name, value in vars(method).items()
        if isinstance(value, bool | int | float | str) and name not in _STATE and "seed" not in name
    }
