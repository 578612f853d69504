"""A problem evaluated at given values of the numbers whose sources give ranges.

.. [Law2015] A. M. Law, "Simulation Modeling and Analysis", 5th ed., §6.11, absence of data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from codesign.base.columns import (
    FloatArray,
    FloatList,
    IntArray,
    IntegerList,
    IntegerSequence,
    StringList,
    Strings,
)
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluator
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.uncertainty.uncertainty_results import CONSTANTS, RangedNumber
from codesign.models.accounts.account_constants import ENERGIES
from codesign.models.memtech import MemoryTechnology, Range, Technologies
from codesign.models.memtech.technology import ACCESS_ENERGIES, ACCOUNT_NUMBERS, NUMBERS
from codesign.search.observations import Observations
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem

ACCESS_ENERGY = "access_energy"
"""The energies of reads and writes of one technology, high or low together. Drawn apart, a byte
written could take several times the energy of one read, and the memory would wait for its power
limit. Its values are those of reads."""


def ranged_numbers(
    technologies: Technologies,
    constants: Mapping[str, Range] = MappingProxyType({}),
) -> tuple[RangedNumber, ...]:
    """The numbers with low < high, in the order of the technologies, then the constants.

    What a technology costs counts only if there are constants of costs, on which they depend as
    well. Energies of reads and writes that both have a range are one number, ``ACCESS_ENERGY``.
    """
    numbers = NUMBERS + (ACCOUNT_NUMBERS if set(constants) - set(ENERGIES) else ())
    reads, writes = ACCESS_ENERGIES
    ranges: list[tuple[str, str, Range | None]] = []
    for key, technology in technologies.items():
        is_joint = all(energy.low < energy.high for energy in _access_energies(technology))
        for number in numbers:
            if not (is_joint and number == writes):
                name = ACCESS_ENERGY if is_joint and number == reads else number
                ranges.append((key, name, getattr(technology, number)))
    ranges += [(CONSTANTS, name, uncertain_number) for name, uncertain_number in constants.items()]
    return tuple(
        RangedNumber(
            key, number, uncertain_number.low, uncertain_number.typical, uncertain_number.high
        )
        for key, number, uncertain_number in ranges
        if uncertain_number is not None and uncertain_number.low < uncertain_number.high
    )


def _access_energies(technology: MemoryTechnology) -> tuple[Range, Range]:
    return technology.read_energy, technology.write_energy


def draw(numbers: Iterable[RangedNumber], samples: int, seed: int = 0) -> FloatArray:
    """(s, k) values of ``k`` numbers in ``s`` draws; half of them are below the typical value.

    The draws of a number depend on the seed and on its name alone, so that a further technology
    in the library changes no result.

    Raises:
        InputError: No sample, or a negative seed.
    """
    if samples < 1:
        raise InputError(f"expected at least 1 sample, got {samples}")
    if seed < 0:
        raise InputError(f"expected a seed of at least 0, got {seed}")
    columns = []
    for uncertain_number in numbers:
        rng = np.random.default_rng(
            [seed, *f"{uncertain_number.technology}.{uncertain_number.number}".encode()]
        )
        along = np.sqrt(rng.random(samples))
        is_below = rng.random(samples) < 0.5
        ends = np.where(is_below, uncertain_number.low, uncertain_number.high)
        columns.append(ends + along * (uncertain_number.typical - ends))
    return np.column_stack([*columns, np.empty((samples, 0))])


class Sweep:
    """A problem that is evaluated at given values of the numbers with a range."""

    def __init__(self, problem: Problem, metrics: Strings) -> None:
        evaluator = problem.evaluator
        if not evaluator.offers("replace_library"):
            raise InputError(
                f"evaluator {problem.evaluator_name!r} has no technologies with ranges to vary; "
                "expected one with technologies() and replace_library(), such as npu"
            )
        if not evaluator.technologies():
            raise InputError(
                f"space {problem.space.name!r} has no memory technologies with ranges to vary: "
                "datasheets of devices state single numbers; expected a pool of NPUs"
            )
        self._problem = problem
        self._evaluator = evaluator
        technologies = evaluator.technologies()
        constants: Mapping[str, Range] = evaluator.constant_ranges(problem.sources_of(metrics))
        self.numbers = ranged_numbers(technologies, constants)
        self.metrics = list(metrics)
        self._technologies = technologies
        self._settled = {
            key: _typical_library(technology) for key, technology in technologies.items()
        }
        # (3, k): the ends of every range, and the middle in which nothing varies.
        self.low, self.typical, self.high = (
            np.array([getattr(number, level) for number in self.numbers])
            for level in ("low", "typical", "high")
        )

    @classmethod
    def single(cls, evaluated: EvaluatedDesign) -> Sweep:
        """The evaluator of one design, with every metric."""
        space = evaluated.space
        evaluator = evaluated.evaluator
        metric = evaluator.metrics[0]  # a problem needs an objective; which is of no account
        name = str(evaluated.inputs.get("evaluator", type(evaluator).__name__))
        problem = build_problem(space, evaluator, [f"{metric.sense} {metric.name}"], (), name)
        problem = replace(problem, derived=evaluated.derived_metrics)
        return cls(problem, problem.metric_names)

    def observe(self, rows: IntArray, values: FloatArray) -> Observations:
        """Observations of designs with the (k,) numbers at these values."""
        problem = replace(self._problem, evaluator=self.evaluator_at(values))
        return problem.evaluate(rows, self.metrics)

    def corner(self, ends: IntegerSequence | IntArray) -> FloatArray:
        """(k,) the numbers at low (-1), typical (0) or high (1)."""
        sides = np.asarray(ends)
        return np.where(sides < 0, self.low, np.where(sides > 0, self.high, self.typical))

    def moving(self, rows: IntArray) -> IntegerList:
        """Positions of the numbers that may change a metric or a limit of the designs.

        A technology that no design names is left out if moving all its numbers to either end
        changes no metric and no limit, to the last digit.
        """
        designs = self._problem.space.decode(rows)
        named = {CONSTANTS, *(str(value) for design in designs for value in design.values())}
        owners = np.array([number.technology for number in self.numbers])
        typical = self.observe(rows, self.typical)

        def search(technologies: StringList) -> StringList:
            """Find the technologies that change a metric or a limit, by halving the list."""
            is_moved = np.isin(owners, technologies)
            changed = (
                self.observe(rows, np.where(is_moved, ends, self.typical))
                for ends in (self.low, self.high)
            )
            if not technologies or all(_are_equal(typical, ends) for ends in changed):
                return []
            if len(technologies) == 1:
                return technologies
            half = len(technologies) // 2
            return search(technologies[:half]) + search(technologies[half:])

        unnamed = [name for name in dict.fromkeys(owners.tolist()) if name not in named]
        return np.flatnonzero(np.isin(owners, [*named, *search(unnamed)])).tolist()

    def evaluator_at(self, values: FloatArray) -> Evaluator:
        """The evaluator with the (k,) numbers at these values."""
        changes: dict[str, dict[str, Range]] = {}
        constants = {}
        for number, value in zip(self.numbers, values.tolist(), strict=True):
            if number.technology == CONSTANTS:
                constants[number.number] = value
            elif value != number.typical:  # otherwise as settled
                change = changes.setdefault(number.technology, {})
                if number.number == ACCESS_ENERGY:
                    # Both energies, that of writes as far along its range as that of reads.
                    reads, writes = _access_energies(self._technologies[number.technology])
                    along = np.interp(value, _ends(reads), _ends(writes))
                    change |= dict(
                        zip(ACCESS_ENERGIES, (_exactly(value), _exactly(float(along))), strict=True)
                    )
                else:
                    change[number.number] = _exactly(value)
        library = {
            key: self._settled[key].model_copy(update=change) for key, change in changes.items()
        }
        evaluator = self._evaluator.replace_library(self._settled | library)
        return evaluator.replace_constants(constants) if constants else evaluator


def _are_equal(observed: Observations, again: Observations) -> bool:
    """Whether metrics and excesses are equal to the last digit."""
    pairs = [(values, again.metrics[name]) for name, values in observed.metrics.items()]
    pairs.append((observed.violations, again.violations))
    return all(np.array_equal(*pair, equal_nan=True) for pair in pairs)


def _typical_library(technology: MemoryTechnology) -> MemoryTechnology:
    """The technology without ranges, so that it is the same at every level of them."""
    return technology.model_copy(
        update={
            name: _exactly(uncertain_number.typical)
            for name in NUMBERS + ACCOUNT_NUMBERS
            if (uncertain_number := getattr(technology, name)) is not None
        }
    )


def _ends(uncertain_number: Range) -> FloatList:
    return [uncertain_number.low, uncertain_number.typical, uncertain_number.high]


def _exactly(value: float) -> Range:
    return Range(low=value, typical=value, high=value)
