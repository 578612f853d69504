"""One design of a campaign, chosen to be drawn or exported, with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from codesign.answers.campaigns import Provenance, plain_design, progress_words
from codesign.answers.json_values import plain_value
from codesign.base.columns import IntArray, JsonObject
from codesign.base.errors import InputError, UnknownNameError, mistakes_at
from codesign.base.records import frozen
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.plateaus import folded_front, number_ranges, tolerance_words
from codesign.report.exchange import exchange_words
from codesign.report.labels import design_words
from codesign.report.machine import Machine, machine_of
from codesign.report.picks import picks_of
from codesign.search.campaign import Results

PICK_KEYS = ("knee", "frugal", "fastest", "recommended")
"""Names of recommended designs; see :func:`picks_of`."""


@frozen
class ChosenDesign:
    """A design with its evaluation.

    Attributes:
        label: "front 3", or the name that the space gives it.
        evaluated: As the campaign does, explained.
        pool: Of the machine of a system, the name of its pool.
    """

    label: str
    results: Results
    evaluated: EvaluatedDesign
    pool: str = ""

    @property
    def title(self) -> str:
        """Campaign and design."""
        return f"{self.results.definition.name}, {self.label}"

    @property
    def words(self) -> str:
        """The design in words."""
        return design_words(self.evaluated.space, [self.evaluated.design])[0]

    @property
    def place(self) -> int | None:
        """Position on the front, from 0; None for a design that is taken by its name."""
        number = (
            None if self.label in self.results.problem.space.designs else front_number(self.label)
        )
        return None if number is None else number - 1

    @property
    def place_words(self) -> str:
        """Front of the design's number; only for a design that is taken by its number."""
        return f"{self.label} of {self.results.front_words}"

    @property
    def is_folded(self) -> bool:
        """Whether a cheaper design of the front is nearly as good."""
        return self.place is not None and folded_front(self.results).under[self.place] != self.place

    @property
    def standing(self) -> str:
        """Front designs that are nearly as good or hardly better; empty if there are none."""
        if self.place is None:
            return ""
        folded = folded_front(self.results)
        host = int(folded.under[self.place])
        if host == self.place:
            numbers = folded.folded_under(host).tolist()
            if not numbers:
                return ""
            plural = "s" if len(numbers) > 1 else ""
            return (
                f"{folded.count_words(host)}: the design{plural} {number_ranges(numbers)} of the "
                f"front cost{'' if plural else 's'} no less and {'are' if plural else 'is'} better "
                f"by at most {100 * folded.tolerance:g} %"
            )
        mine, cheaper = folded.positions[[self.place, host]]
        space = self.results.problem.space
        objectives = self.results.objectives
        exchange = exchange_words(
            self.results.problem.objectives, objectives[cheaper], objectives[mine], folded.tolerance
        )
        (words,) = design_words(space, space.decode(self.results.rows[[cheaper]]))
        return (
            f"{self.label} is {tolerance_words(folded.tolerance)} of front {host + 1}, which is "
            f"cheaper: {words}. Against it, {self.label} has {exchange}"
        )

    @cached_property
    def pools(self) -> Mapping[str, ChosenDesign]:
        """Machines of a system, one of each pool."""
        return {
            name: ChosenDesign(f"{self.label}, pool {name}", self.results, evaluated, name)
            for name, evaluated in self.evaluated.pools.items()
        }

    @cached_property
    def machine(self) -> Machine:
        """The machine to build.

        Raises:
            InputError: The evaluator models no array with memory levels.
        """
        with mistakes_at(self.title):
            return machine_of(self.evaluated)

    def provenance(self) -> JsonObject:
        """Facts that an export must state: design, workload, evaluator, versions."""
        note: JsonObject = plain_value(Provenance.describe(self.results))
        keys = ("space", "workload", "fixed", "constraints")
        definition = note["definition"]
        return {
            "made_by": f"codesign {note['versions'].get('codesign', '')}".strip(),
            "campaign": note["campaign"],
            "state": progress_words(self.results),
            "evaluated": note["evaluated"],
            "evaluator": note["evaluator"],
            "design_name": self.label,
            **({"standing": self.standing} if self.standing else {}),
            "design": plain_design(self.evaluated.design),
            "breaks": self.evaluated.broken,
            **{key: definition[key] for key in keys if definition.get(key)},
            "versions": note["versions"],
        }


def front_number(name: str) -> int | None:
    """The number on the front that ``3``, ``front 3`` or ``front-3`` says; None for other names."""
    number = name.removeprefix("front-").removeprefix("front ").strip()
    return int(number) if number.isdecimal() else None


def _picked_number(results: Results, name: str) -> int | None:
    """The number on the front of a recommended design, such as the ``knee``; None for others."""
    picks = picks_of(results, folded_front(results)) if name in PICK_KEYS else []
    if not picks:
        return None
    by_key = {pick.key: pick.place + 1 for pick in picks}
    by_key["recommended"] = next(pick.place + 1 for pick in picks if pick.is_recommended)
    if name == "knee" and len(picks) > 1 and name not in by_key:
        raise InputError(f"a front of {len(picks)} designs has no knee", "--pick")
    # A design that two rules recommend has the first rule's name.
    return by_key.get(name, picks[0].place + 1)


def find_chosen(results: Results, name: str) -> tuple[str, IntArray]:
    """The label and the (1, d) row of a design that is named ``3`` or ``knee`` (on the front), or
    ``P1``.

    Raises:
        InputError: The front is empty, or there is no such design.
    """
    space = results.problem.space
    front = results.front()
    if name in space.designs:
        return name, space.encode(space.designs[name], f"design {name}")
    number = _picked_number(results, name) or front_number(name)
    if number is not None and 1 <= number <= len(front):
        position = front[number - 1]
        return f"front {number}", results.rows[position : position + 1]
    numbers = f"1 to {len(front)} on the front" if len(front) else "none on the front"
    if number is not None or not space.designs:
        named = f"; by name: {', '.join(space.designs)}" if space.designs else ""
        raise InputError(f"no design {name!r}; by number: {numbers}{named}", "--design")
    known_names = [*space.designs, f"({numbers})"]
    raise UnknownNameError("design", name, known_names, "--design")
