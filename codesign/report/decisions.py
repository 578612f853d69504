"""The decisions of a recommended design in words, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from codesign.base.columns import Fields, StringDict, Strings, ValueMap
from codesign.base.units import format_quantity, parse_unit
from codesign.insight.decisions.plane import PRECISION
from codesign.insight.plateaus import folded_front
from codesign.report.exchange import changed_settings
from codesign.report.labels import (
    evaluator_words,
    format_setting,
    metric_title,
    setting_words,
    spoken_design,
)
from codesign.report.recommended import objective_words, recommendation_words
from codesign.report.tables import constant_words, plain_table, spaced

if TYPE_CHECKING:
    from codesign.answers.decisions import ChangeEntry
    from codesign.base.columns import Value
    from codesign.insight.decisions.breakeven import Breakeven, ValueFront
    from codesign.insight.decisions.decide import DecidedDesign
    from codesign.insight.decisions.memory_kinds import KindRegret
    from codesign.insight.decisions.plane import DecisionPlane
    from codesign.insight.uncertainty.uncertainty_results import RangedNumber
    from codesign.report.tables import Tables
    from codesign.search.campaign import Results
    from codesign.search.problem import Problem
    from codesign.space import DesignSpace

_UNITS = dict(
    row.split(maxsplit=1)
    for row in """\
latency ns
capacity GB
bandwidth GB/s
shoreline mm
background_power mW/GB
read_energy pJ/bit
write_energy pJ/bit
access_energy pJ/bit
price USD/GB
interface_area mm^2
package_area mm^2
embodied_carbon g/GB
mac_energy_joules pJ
lane_energy_joules pJ
score_buffer_joules_per_byte pJ/B
""".splitlines()
)
"""Units of quantities of technologies, and of constants that are given in SI units."""
_ON_CHIP = 1e-9
"""Idle power in W/B above which it is that of an on-chip memory, and stated in W/GB."""
_MOST_CHANGES = 2
_MOST_VALUES = 3

VERDICTS = {
    "holds everywhere": "holds everywhere (proven)",
    "holds in part": "no flip found",
    "flips by one": "flips",
    "flips by two": "flips by two",
}


def number_title(number: RangedNumber | ChangeEntry) -> str:
    """A constant in words: ``HBM3E, 8-high background power``."""
    return constant_words(number.technology, number.number)


def number_text(number: RangedNumber | ChangeEntry, value: float) -> str:
    """A value of a constant with its unit."""
    return quantity_text(number.number, value, number.typical)


def quantity_unit(quantity: str, typical: float) -> str:
    """The unit that suits the typical value of a quantity."""
    unit = _UNITS.get(quantity, "")
    return "W/GB" if unit == "mW/GB" and typical > _ON_CHIP else unit


def quantity_text(quantity: str, value: float, typical: float) -> str:
    """A value of a quantity in the unit that suits its typical value."""
    unit = quantity_unit(quantity, typical)
    scaled = value / parse_unit(unit).scale
    return f"{scaled:,.0f} {unit}".rstrip() if scaled >= 1000 else format_quantity(value, unit, 3)


def tables(
    decided: DecidedDesign, results: Results, tolerance: float, seconds: float, reading: Fields
) -> Tables:
    """The answer for the terminal."""
    name = results.definition.name
    problem = decided.problem
    title = f"Decisions of {name} ({evaluator_words(reading)})"
    (design,) = problem.space.decode(decided.row[None, :])
    flips: StringDict = {}
    table = plain_table(
        "Over the ranges of all constants",
        ["decision", "value", "verdict", "flips, equal values"],
        [],
    )
    for decision in decided.decisions:
        cells = []
        for flip in list(decision.breaks or filter(None, [decision.flip]))[:_MOST_CHANGES]:
            words = " and ".join(change_words(x.number, x.value) for x in flip.changes)
            (rival,) = problem.space.decode(flip.row[None, :])
            words += (
                f": {objective_words(problem, flip.objectives)} against "
                f"{objective_words(problem, flip.beaten)}, with "
                f"{moved_words(problem.space, design, rival)}"
            )
            cells.append(flips.setdefault(words, chr(ord("a") + len(flips) % 26)))
        if decision.as_good:
            values = ", ".join(_value(decision.name, x) for x in decision.as_good[:_MOST_VALUES])
            cells.append(f"equal: {values}")
        verdict = VERDICTS[decision.verdict]
        if 0.0 < decision.share < 1.0:
            verdict += f"; holds over {100 * decision.share:.2g} % of all ranges (proven)"
        table.add_row(
            decision.name.replace("_", " "),
            _value(decision.name, decision.value),
            verdict,
            "; ".join(cells) or "–",
        )
    return spaced(
        [
            Text(title, "bold"),
            recommendation_words(results, folded_front(results, tolerance)),
        ],
        table,
        [f"{mark}: {words}" for words, mark in flips.items()],
        list(_notes(decided, seconds)),
    )


def memory_tables(kinds: Sequence[KindRegret], problem: Problem) -> Tables:
    """The fronts without each kind of memory, for the terminal."""
    titles = [metric_title(objective.metric) for objective in problem.objectives]
    headers = ["points", "regret", *(f"best {title}" for title in titles)]
    table = plain_table(
        "Without a family of memories", ["without", "recommended", *headers], headers
    )
    first: ValueMap = {}
    for without in kinds:
        words = "no design is feasible"
        best = ["–"] * len(titles)
        if without.row is not None:
            (design,) = problem.space.decode(without.row[None, :])
            words = (
                moved_words(problem.space, first, design)
                if first
                else spoken_design(problem.space, design)
            )
            first = first or design
            words = f"{objective_words(problem, without.objectives)}: {words or 'the same'}"
            best = objective_words(problem, without.best).split(", ")
        regret = f"{100 * without.regret:.3g} %"
        table.add_row(
            without.memory_kind or "nothing", words, f"{without.n_points:,}", regret, *best
        )
    return [table]


def breakeven_tables(result: Breakeven, name: str, seconds: float) -> Tables:
    """The values that a technology must reach, for the terminal."""
    table = plain_table(
        f"Break-even of {result.technology.name}, in {name}: {result.quantity.replace('_', ' ')} "
        f"({_amount(result, result.stated)} in its file)",
        ["goal", "reached", "design there"],
        [],
    )
    problem = result.problem
    for reach in result.reaches:
        words = [_interval(result, low, high) for low, high in reach.intervals]
        ends = {end.value: end for pair in reach.intervals for end in pair}
        nearest = min(ends, key=lambda value: abs(np.log(value / result.stated)), default=None)
        example = "–"
        if nearest is not None and (design := ends[nearest].design):
            example = (
                f"{_amount(result, nearest)}: {objective_words(problem, ends[nearest].objectives)} "
            )
            example += f"({spoken_design(problem.space, design)})"
        table.add_row(reach.goal, " and ".join(words) or "at no value", example)
    low, high = (_amount(result, result.values[end].value) for end in (0, -1))
    note = f"Range: {low} to {high}; {len(result.values)} exact fronts, {seconds:.0f} s."
    if not result.is_monotone:
        note += " Some designs improve and others get worse, so an interval may be missed."
    return spaced(table, note)


def _interval(result: Breakeven, low: ValueFront, high: ValueFront) -> str:
    first, last = (_amount(result, end.value) for end in (low, high))
    if high is result.values[-1]:
        return "at every value" if low is result.values[0] else f"from {first} up"
    return f"from {last} down" if low is result.values[0] else f"from {first} to {last}"


def _amount(result: Breakeven, value: float) -> str:
    return quantity_text(result.quantity, value, result.stated)


def memory_words(memories: Strings) -> str:
    """Technologies of a design in words."""
    places = [memory.split() for memory in memories]
    words = [" ".join([*x[:-1], setting_words("tier1_technology", x[-1])[1]]) for x in places]
    return " + ".join(words) or "no feasible design"


def plane_tables(plane: DecisionPlane, name: str, seconds: float) -> Tables:
    """Memories over a plane of two constants, for the terminal."""
    numbers = (plane.x, plane.y)
    title = " and ".join(
        f"{number_title(number)} {number_text(number, number.low)} to "
        f"{number_text(number, number.high)}"
        for number in numbers
    )
    table = plain_table(
        f"Memories recommended in {name}, over {title}",
        ["memories", "share of the map", "where", "design there"],
        ["share of the map"],
    )
    for memories, area in plane.shares.items():
        strips = [s for s in plane.strips if plane.memories_at(s) == memories]
        middle = max(strips, key=lambda strip: strip.y_high - strip.y_low)
        design = "–"
        if memories:
            (values,) = plane.problem.space.decode(plane.rows[[middle.design]])
            design = spoken_design(plane.problem.space, values)
        x_ends = [f(strip.x for strip in strips) for f in (min, max)]
        y_ends = [min(s.y_low for s in strips), max(s.y_high for s in strips)]
        where = "; ".join(
            f"{axis} {number_text(number, low).split()[0]} to {number_text(number, high)}"
            for axis, number, (low, high) in zip("xy", numbers, (x_ends, y_ends), strict=True)
        )
        table.add_row(memory_words(memories), f"{100 * area:.3g} %", where, design)
    return spaced(table, f"{plane_note(plane)}; {seconds:.0f} s.")


def plane_note(plane: DecisionPlane) -> str:
    """A line about the proof of a map, without a full stop."""
    claim = f"no design is better than these by more than {100 * PRECISION:g} %"
    if not plane.is_linear:
        claim = (
            "the comparison is not linear in these constants, so the map is exact at the fronts "
            "and sampled between them"
        )
    return f"{plane.n_fronts} exact fronts: {claim}"


def _value(name: str, values: Sequence[Value]) -> str:
    parameter = name.replace(" ", "1_")
    return " + ".join(
        setting_words(parameter, value)[1] or format_setting(value) for value in values
    )


def moved_words(space: DesignSpace, old: ValueMap, new: ValueMap) -> str:
    """Settings that differ: ``HBM4 stacks 2 → 4``."""
    moved = changed_settings(space, old, new)
    return "; ".join(f"{name} {before} → {after}" for name, before, after in moved)


def change_words(number: RangedNumber | ChangeEntry, changed: float) -> str:
    """A change in words: ``HBF background power below 42 mW/GB (typical 75, range 50 to 100)``."""
    side = "above" if changed > number.typical else "below"
    typical, low, high = (
        number_text(number, value).split()[0] for value in (number.typical, number.low, number.high)
    )
    return (
        f"{number_title(number)} {side} {number_text(number, changed)} "
        f"(typical {typical}, range {low} to {high})"
    )


def _notes(decided: DecidedDesign, seconds: float) -> Iterator[str]:
    rivals = decided.rivals
    for limit in decided.limits:
        words = change_words(limit.change.number, limit.change.value)
        yield f"The design breaks {limit.limit} with {words}."
    yield "The proofs hold wherever the design keeps its limits."
    if rivals.is_partial:
        yield "The time limit was reached before larger ranges. Run the command again to continue."
    if rivals.share < 1.0:
        yield (
            f"All constants at once: all rivals are compared over {100 * rivals.share:g} % of all "
            "ranges. Constants that improve one metric and worsen another move by the square of a "
            "share."
        )
    for number in rivals.box.unmoved:
        yield f"{number_title(number)} stays typical: its effect has no single direction."
    yield (
        f"{len(rivals.box)} constants with a range matter. Rivals of the whole space are listed "
        f"along the whole range of each one, except {len(rivals.unlisted)}; flips by two compare "
        f"listed designs. Keeping a decision costs more than {100 * decided.regret:g} % where it "
        f"flips. Bounds left {len(rivals.rows) - 1:,} rivals, all compared (searches of the space: "
        f"{rivals.n_searches:,}); {seconds:.0f} s."
    )
