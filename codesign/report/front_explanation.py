"""An explained front in words, for the terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from rich.text import Text

from codesign.base.columns import BoolArray, Fields, FloatArray, IntArray, StringTuple, Value
from codesign.base.records import frozen
from codesign.base.units import format_quantity
from codesign.insight.explanation import FrontExplanation
from codesign.insight.explanation.absence import Absence, Miss
from codesign.insight.explanation.choices import FrontChoice, neighbors_of
from codesign.insight.explanation.prices import Move, Price
from codesign.report.exchange import changed_settings, exchange_words, nothing_words
from codesign.report.front_lines import binding_words, gain_words, range_words
from codesign.report.labels import (
    counted,
    evaluator_words,
    format_metric,
    format_setting,
    format_value,
    metric_title,
    spoken_codes,
    unit_text,
)
from codesign.report.limit_lines import limit_titles
from codesign.report.result_tables import design_words
from codesign.report.tables import Tables, spaced
from codesign.report.text_table import TextTable
from codesign.search.pareto import nearly_matches
from codesign.search.problem import cost_column

_FEW = 2
"""A parameter is said to have few values on the front if at most so many occur, or half."""
_MOST_LIMITS = 3
_STEP_UNITS = {"degC": "K", "%": "percentage point"}
"""Unit of a step, where it is not the unit of the bound."""
_SLIGHT = 1.001
"""A smaller factor is not told exactly."""

STATES = {
    "binds": "binds",
    "binds beyond the step": "does not bind within the step; without it the front differs",
    "not within the step": "loosening it by the step changes nothing",
    "free": "does not bind: without it the front is the same",
}


@frozen
class Section:
    """A part of the explanation before it takes a form.

    Attributes:
        lines: Sentences.
        tables: After the sentences.
    """

    title: str
    lines: StringTuple
    tables: tuple[TextTable, ...] = ()


def sections(explanation: FrontExplanation) -> list[Section]:
    """The explanation for people."""
    words = _Words(explanation)
    rows = []
    for choice in explanation.choices:
        for value, points in zip(choice.values, choice.kept_points, strict=True):
            if points:
                share = f"{100 * points / len(explanation.kept):.1f} %"
                value_words = _show(explanation, choice, value)
                rows.append((choice.name, value_words, f"{points:,}", share))
    note = "A point counts for every value that one of its designs has."
    if explanation.n_unlisted:
        note += (
            f" {counted(explanation.n_unlisted, 'design')} of points that very many share are not "
            "listed: shares are at least these."
        )
    return [
        Section(
            f"What the designs of {_points_words(explanation)} share",
            tuple(_shared(explanation)),
            (
                TextTable(
                    f"Points by value, of {_points_words(explanation)}",
                    ("parameter", "value", "points", "share"),
                    rows,
                    note,
                ),
            ),
        ),
        Section("Values on no design of the front, and why", tuple(words.absences())),
        Section("Shadow prices of limits", tuple(words.prices())),
        Section("Knees", tuple(words.knees())),
        *([_binding(explanation)] if any(explanation.binding) else []),
        *([_range_ends(explanation)] if explanation.range_ends else []),
    ]


def tables(explanation: FrontExplanation, name: str, reading: Fields) -> Tables:
    """The explanation for the terminal; ``reading`` is the evaluator's."""
    headline = _headline(explanation, name, reading)
    rendered: list[Tables] = []
    for section in sections(explanation):
        lines = (f"- {line}" for line in section.lines)
        rendered.append([Text(section.title, "bold"), *lines])
        rendered += [table.terminal_table_and_note() for table in section.tables]
    return spaced(Text(headline, "bold"), *rendered, _effort(explanation))


def markdown(explanation: FrontExplanation, name: str, reading: Fields) -> str:
    """The explanation as a Markdown page; ``reading`` is the evaluator's."""
    headline = _headline(explanation, name, reading)
    rendered = [f"# The exact front of {name}, explained", "", headline, ""]
    for section in sections(explanation):
        rendered += [f"## {section.title}", "", *(f"- {line}" for line in section.lines), ""]
        rendered += [table.section(level=3) for table in section.tables]
    return "\n".join([*rendered, _effort(explanation), ""])


def _headline(explanation: FrontExplanation, name: str, reading: Fields) -> str:
    front = explanation.front
    n_folded = len(explanation.front) - len(explanation.kept)
    line = (
        f"Exact front of {name} ({evaluator_words(reading)}): {counted(len(front), 'point')}, "
        f"{counted(int(front.counts.sum()), 'design')} of {front.n_designs:,}."
    )
    if not n_folded:
        return line
    return (
        f"{line} {counted(n_folded, 'point')} of these {'is' if n_folded == 1 else 'are'} folded: "
        f"a cheaper point is at most {100 * explanation.tolerance:g} % worse. The rest describes "
        f"the other {len(explanation.kept):,}, unless it says otherwise."
    )


def _points_words(explanation: FrontExplanation) -> str:
    """``the front``, or those of its points that are not folded."""
    n = len(explanation.kept)
    if n == len(explanation.front):
        return "the front"
    return f"the {counted(n, 'point')} that {'is' if n == 1 else 'are'} not folded"


def _effort(explanation: FrontExplanation) -> str:
    return (
        f"Based on {counted(explanation.n_enumerated, 'further exact front')} of variations of the "
        f"problem, {explanation.seconds:.1f} s."
    )


def _show(explanation: FrontExplanation, choice: FrontChoice, value: Value) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return format_setting(value)
    return explanation.problem.space.parameters[int(choice.columns[0])].show(value)


# What is shared


def _binding(explanation: FrontExplanation) -> Section:
    """Busiest resource of each point, and the number of points of each resource."""
    problem = explanation.problem
    first = Counter(next(iter(shares), "") for shares in explanation.binding)
    line = ", ".join(f"{name} {counted(n, 'point')}" for name, n in first.most_common() if name)
    metrics = problem.objective_metrics
    natural = problem.flipped(explanation.front.objectives[explanation.kept])
    rows = [
        (*(format_metric(x, m) for x, m in zip(point, metrics, strict=True)),
         binding_words(shares))
        for point, shares in zip(natural, explanation.binding, strict=True)
    ]  # fmt: skip
    header = (*map(metric_title, metrics), "bound by")
    note = "Busy share of a pass: the busiest resource, and others with 90 % of its share or more."
    table = TextTable(f"What binds {_points_words(explanation)}", header, rows, note, header[:-1])
    return Section("What binds", (f"Busiest resource: {line}.",), (table,))


def _range_ends(explanation: FrontExplanation) -> Section:
    """Parameters at an end of their range, and the gain of one value beyond."""
    best = explanation.front.objectives.min(axis=0)
    rows = []
    for end in explanation.range_ends:
        effect = "cannot be widened" if end.beyond is None else "no design keeps the limits"
        if end.n_feasible:
            gain = gain_words(explanation.problem, best, end, explanation.tolerance)
            effect = f"adds {counted(end.n_new, 'point')}" + (f"; {gain}" if gain else "")
        beyond = "–" if end.beyond is None else range_words(end.parameter, end.beyond)[1]
        title, value = range_words(end.parameter, end.end)
        rows.append((title, value, f"{end.n_points:,}", beyond, effect))
    header = ("parameter", "end", "points", "next value", "effect")
    note = "Designs of the front with the next value, all else equal; a search may find more."
    return Section("Ends of ranges", (), (TextTable("Ends of ranges", header, rows, note),))


def _shared(explanation: FrontExplanation) -> Iterator[str]:
    shared = [
        f"{choice.name} = {_show(explanation, choice, choice.taken[0])}"
        for choice in explanation.choices
        if choice.is_shared
    ]
    points = _points_words(explanation)
    yield (
        f"Every design of {points} has " + ", ".join(shared) + "."
        if shared
        else (
            f"No free parameter has one value in all designs of {points}."
            if explanation.choices
            else "No parameter is free: all are fixed."
        )
    )
    for choice in explanation.choices:
        n = len(choice.taken)
        if choice.is_shared or n == len(choice.values):
            continue
        if 0 < n <= max(_FEW, len(choice.values) // 2):
            taken_values, folded = (
                ", ".join(_show(explanation, choice, value) for value in values)
                for values in (choice.taken, choice.folded)
            )
            also = f"; folded designs also have {folded}" if folded else ""
            yield f"{choice.name}: only {taken_values}, of {len(choice.values)} values{also}."
    for entry in explanation.derived:
        low, high = (
            format_quantity(value, entry.unit) if entry.unit else format_value(value)
            for value in (entry.low, entry.high)
        )
        yield f"{entry.name.replace('_', ' ')}: {low if low == high else f'{low} to {high}'}."


# Absences, prices and knees share the words for values and designs.


class _Words:
    """Numbers and designs of one explanation in words."""

    def __init__(self, explanation: FrontExplanation) -> None:
        self.explanation = explanation
        self.space = explanation.problem.space
        self.metrics = explanation.problem.objective_metrics
        self.titles = [metric_title(metric) for metric in self.metrics]
        self._limits = limit_titles(explanation.problem)

    def _limit(self, text: str) -> str:
        """A limit of the campaign or of the evaluator in words."""
        return self._limits.get(text) or spoken_codes(text)

    def design(self, row: IntArray) -> str:
        """A design in words."""
        return design_words(self.space, self.space.decode(row[None, :]))[0]

    def values(self, objectives: FloatArray) -> str:
        """Objectives in their units."""
        return ", ".join(
            f"{title} {format_metric(value, metric)}"
            for title, value, metric in zip(
                self.titles, self.explanation.problem.flipped(objectives), self.metrics, strict=True
            )
        )

    def improvement(self, value: float) -> str:
        """``1.31x`` or ``0.31 of the front's range``."""
        if self.explanation.measure.kind == "factor":
            return f"{value:.4g}×" if value > _SLIGHT else f"below {_SLIGHT:g}×"
        return f"{value:.4g} of the front's range"

    # Absences

    def absences(self) -> Iterator[str]:
        """One line per value that no design of the whole front has."""
        explanation = self.explanation
        if not explanation.absences:
            yield "There is none: every value of every parameter appears on the front" + (
                ", some in folded designs only."
                if any(x.folded for x in explanation.choices)
                else "."
            )
            return
        is_factor = self.explanation.measure.kind == "factor"
        tolerance = self.explanation.tolerance
        slack = f" by more than {100 * tolerance:g} %" if tolerance else ""
        folded = " that is not folded and" if tolerance else " that is"
        yield (
            f"Regret of a design: the largest {'factor' if is_factor else 'share of its range'} by "
            f"which a design of the front{folded} nowhere worse{slack} is better in some "
            f"objective. Of each value the design with the least regret is shown"
            f"{f', up to {100 * tolerance:g} %' if tolerance else ''}."
        )
        even = []
        wholes = {
            (entry.choice.part, int(column), entry.value)
            for entry in explanation.absences
            if len(entry.choice.columns) > 1
            for column in entry.choice.columns
        }
        for absence in explanation.absences:
            first = (absence.choice.part, int(absence.choice.columns[0]), absence.value)
            if len(absence.choice.columns) == 1 and first in wholes:
                continue
            if absence.miss is None:
                yield f"{self._setting(absence)}: {self._infeasible(absence)}"
            elif explanation.measure.matters(absence.miss.regret):
                yield f"{self._setting(absence)}: {self._missed(absence.miss)}"
            else:
                even.append(self._setting(absence))
        if even:
            lost = nothing_words(explanation.tolerance)
            yield f"On no design of the front, but they lose {lost}: {'; '.join(even)}."

    def _setting(self, entry: Absence) -> str:
        return f"{entry.choice.name} = {_show(self.explanation, entry.choice, entry.value)}"

    def exchange(self, old: FloatArray, new: FloatArray) -> str:
        """Gains and losses of the new point against the old one, in words."""
        return exchange_words(
            self.explanation.problem.objectives, old, new, self.explanation.tolerance
        )

    def _missed(self, miss: Miss) -> str:
        lacks = [
            f"{title} {self.improvement(float(value))} better"
            for title, value in zip(self.titles, miss.alone, strict=True)
            if self.explanation.measure.matters(float(value))
        ]
        better = self.explanation.front.objectives[miss.point]
        ours, theirs = self.space.decode(np.stack([miss.row, miss.dominator]))
        changes = (
            f"{name} {old} → {new}" for name, old, new in changed_settings(self.space, ours, theirs)
        )
        return (
            f"regret {self.improvement(miss.regret)}; nearest miss {self.design(miss.row)} "
            f"({self.values(miss.objectives)}) needs {' or '.join(lacks)}; in its place "
            f"{self.design(miss.dominator)}: {self.exchange(miss.objectives, better)}; it differs "
            f"in {'; '.join(changes)}."
        )

    def _infeasible(self, entry: Absence) -> str:
        looked = "all" if entry.n_looked_at == entry.n_designs else f"{entry.n_looked_at:,} sampled"
        limits = ", ".join(
            f"{100 * broken.share:.0f} % break '{self._limit(broken.limit)}'"
            + (f" (the nearest by {100 * broken.least:.1f} %)" if broken.least > 0 else "")
            for broken in entry.broken[:_MOST_LIMITS]
        )
        has_limit_broken_by_all = any(broken.share == 1.0 for broken in entry.broken)
        return (
            f"no feasible design among {entry.n_designs:,}: of {looked}, {limits}"
            + ("" if has_limit_broken_by_all else "; none keeps all limits")
            + "."
        )

    # Prices

    def prices(self) -> Iterator[str]:
        """Meaning of the prices, and the limits that bind."""
        prices = self.explanation.prices
        point = self.values(prices.reference)
        yield (
            f"Each limit is moved by {100 * prices.step:g} % and the exact front found again. "
            f"Hypervolume is bounded by {point} throughout; it is "
            f"{prices.hypervolume:.6g} as things are."
        )
        for price in prices.items:
            yield self._price(price)
        for text, reason in self.explanation.unpriced.items():
            yield f"{self._limit(text)}: has no price; it {reason}."

    def _price(self, price: Price) -> str:
        limit = price.limit
        tied = f" (with the evaluator's limit {', '.join(limit.tied)})" if limit.tied else ""
        low, high = (self._amount(price, value) for value in price.used)
        slack = limit.number - price.used[1] if limit.is_upper else price.used[0] - limit.number
        line = (
            f"{self._limit(limit.text)}{tied}: {STATES[price.state]}; the designs of the whole "
            f"front have {low} to {high}, at least {self._amount(price, max(slack, 0.0))} unused"
        )
        if price.next_point is not None:
            # Against the kept point that has most of what the limit bounds.
            kept_points = self.explanation.front.objectives[self.explanation.kept]
            column = [metric.name for metric in self.metrics].index(price.limit.quantity)
            old = kept_points[kept_points[:, column].argmax()]
            line += f". The next point beyond it: {self.exchange(old, price.next_point)}"
        now = self._amount(price, limit.number)
        for word, move in (("Looser", price.looser), ("Tighter", price.tighter)):
            if move.change or self._is_moved(move).any():
                line += (
                    f". {word}, {self._amount(price, move.number)} instead of {now}: "
                    f"{self._effect(price, move)}"
                )
        return line + "."

    def _effect(self, price: Price, move: Move) -> str:
        if not move.n_points:
            return "no design is feasible"
        nothing = nothing_words(self.explanation.tolerance)
        change = move.change / self.explanation.prices.hypervolume
        moved = np.flatnonzero(self._is_moved(move))
        if not len(moved) and abs(change) <= self.explanation.tolerance:
            return nothing
        words = f"{100 * abs(change):.3g} % {'less' if change < 0 else 'more'} hypervolume"
        if not len(moved):
            return words
        # Per unit of the limit, such as a dollar or a year.
        unit = _STEP_UNITS.get(price.limit.unit, unit_text(price.limit.unit) or "unit")
        rates = ", ".join(
            f"{format_metric(abs(float(move.best_change[j])), self.metrics[j], digits=3)} "
            f"{self.titles[j]} per {unit}"
            for j in moved.tolist()
        )
        exchange = self.exchange(self.explanation.front.objectives.min(axis=0), move.best)
        words = f", {words}" * bool(round(change, 4))
        return f"at best {exchange.removesuffix(f': {nothing}')} ({rates}){words}"

    def _is_moved(self, move: Move) -> BoolArray:
        """(m,) whether the best value of an objective differs by more than the tolerance."""
        best = self.explanation.front.objectives.min(axis=0)
        tolerance = self.explanation.tolerance
        is_near = nearly_matches(best, move.best, tolerance)
        return ~(is_near & nearly_matches(move.best, best, tolerance))

    def _amount(self, price: Price, value: float) -> str:
        return f"{value:.4g} {unit_text(price.limit.unit)}".rstrip()

    # Knees

    def knees(self) -> Iterator[str]:
        """The points that bulge towards the ideal."""
        if not self.explanation.knees:
            yield (
                f"There is none among {_points_words(self.explanation)}: no point lies on the "
                "ideal's side of the ends."
            )
            return
        yield (
            f"Of {_points_words(self.explanation)}: distance to the plane through the ends, every "
            "objective normalized to its range there; a further knee is at least a tenth of the "
            "range away."
        )
        objectives = self.explanation.front.objectives
        kept_points = self.explanation.kept
        rows = self.explanation.front.representatives()
        cost = cost_column(self.explanation.problem.objectives)
        for knee in self.explanation.knees:
            line = f"{self.design(rows[knee.point])}: {self.values(objectives[knee.point])}; "
            line += f"distance {knee.distance:.3f}"
            for index in neighbors_of(
                objectives[kept_points], int(np.searchsorted(kept_points, knee.point))
            ):
                neighbor = int(kept_points[index])
                if objectives[neighbor, cost] < objectives[knee.point, cost]:
                    words = self.exchange(objectives[neighbor], objectives[knee.point])
                    line += f"; against the next cheaper one {words}"
                else:
                    words = self.exchange(objectives[knee.point], objectives[neighbor])
                    line += f"; the next more expensive one has {words}"
            yield line + "."
