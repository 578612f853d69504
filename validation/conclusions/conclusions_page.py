"""The answers for the terminal, as a finding and as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from codesign.base.columns import StringMap
from codesign.report.labels import format_value
from codesign.report.text_table import TextTable
from validation.conclusions.answer import Answer
from validation.conclusions.claims import Claim, Measure
from validation.conclusions.loss import CLEAR, NOTICEABLE, Loss
from validation.conclusions.setting import CAP_WATTS, LARGEST_CAP_WATTS
from validation.findings import Finding, Part, keyed_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_NAMES = {"plain": "plain", "memexplorer": "calibrated (`memexplorer`)"}
_NEAR = f" (of those within {NOTICEABLE:.0%}, the one of least TDP)"
_MOST_NAMED = 4
"""Things that an answer depends on, named in the summary."""


def conclusions_finding(answers: Sequence[Answer], command: str) -> Finding:
    """The answers of every claim, one profile after the other, as they are stored.

    Args:
        command: Command that makes the finding again.
    """
    claims = dict.fromkeys(answer.claim for answer in answers)
    sections = (_section(claim, [a for a in answers if a.claim == claim]) for claim in claims)
    return Finding(
        "Which of MemExplorer's conclusions hold",
        "Each conclusion of the paper as a statement that exact fronts answer: the front of "
        "all designs beside that of the designs without what the paper recommends. Nothing "
        "is sampled. Model, trace, formats and objectives are those of the campaigns "
        "`osworld-prefill` and `osworld-decode` (Llama-3.3-70B, 90,000 tokens of prompt, "
        "8,000 generated, 8 bits, throughput against TDP), under `plain` physics and under "
        "the profile that is fitted to the paper's tables.",
        command,
        [_summary(answers), _RULE, _READING, *chain.from_iterable(sections)],
    )


def terminal_tables(answers: Sequence[Answer], with_details: bool) -> Iterator[RenderableType]:
    """The answers for a terminal, with how they were measured if that is asked for."""
    sections: list[Part] = [_summary(answers), _RULE]
    for answer in answers if with_details else ():
        sections += (_answer_table(answer), *_facts(answer))
    for section in sections:
        if isinstance(section, str):
            yield section.replace("`", "")
        else:
            rows = [[cell.replace("`", "") for cell in row] for row in section.rows]
            yield replace(section, rows=rows).terminal_table()


_RULE = (
    f'"yes": leaving it out loses at least {CLEAR:.0%} at {CAP_WATTS:,.0f} W, about what the '
    f'fitted model itself misses the paper\'s ratios by; "no": less than {NOTICEABLE:.0%}; '
    '"slightly": between. The larger of the losses in throughput and in tokens per joule '
    "counts, for efficiency only the second."
)
_READING = (
    "Throughput is read at a cap on TDP; a front up to "
    f"{LARGEST_CAP_WATTS:,.0f} W holds the fronts of all lower caps. Tokens per joule are "
    "throughput over TDP, as in the paper's Table 5; whatever is best in them is on the front of "
    "the two. How many points of a front have a feature decides nothing: plateaus are full of "
    "designs that differ by less than any model can tell."
)


def _section(claim: Claim, answers: Sequence[Answer]) -> Iterator[Part]:
    yield f"## {claim.title}"
    yield f"**The paper** ({claim.sections}). {claim.says}"
    condition = f" (`{claim.choice.condition}`)" if claim.choice else ""
    yield f"**Checked.** {claim.checked}{condition}"
    for answer in answers:
        yield f"### {_NAMES[answer.profile]}: {answer.verdict}"
        yield "\n".join(f"- {line}" for line in _facts(answer))
        yield _answer_table(answer)


def _facts(answer: Answer) -> Iterator[str]:
    """Facts beside the numbers."""
    units = _Units(answer.claim)
    losses = [
        f"{format_value(units.convert(measure, best), digits=4)} {units.name(measure)} "
        f"{units.with_all}, {format_value(units.convert(measure, without), digits=4)} "
        f"{units.with_less} ({answer.loss.share(measure):.1%} lost)"
        for measure, (best, without) in _measured(answer.loss)
        if measure in answer.claim.measures
    ]
    yield f"At {CAP_WATTS:,.0f} W: {'; '.join(losses)}."
    if answer.points is not None:
        n, n_with = answer.points
        yield f"{n_with} of the {n} points of the front up to {CAP_WATTS:,.0f} W have it."
    for design in answer.designs:
        near = _NEAR if design.role.startswith("best") else ""
        yield (
            f"{design.role[0].upper()}{design.role[1:]}{near}: {design.words}; "
            f"{format_value(design.tokens_per_s, digits=4)} token/s at {design.tdp_watts:.0f} W"
        )
    yield _depends(answer)


def _depends(answer: Answer) -> str:
    if not answer.flips:
        return "The answer is the same under every cap and setting below."
    named = (
        f"{name} ({loss.verdict(answer.claim.measures)}, "
        f"{loss.largest(answer.claim.measures):.0%} lost)"
        for name, loss in answer.flips.items()
    )
    return f"The answer changes with: {'; '.join(named)}."


# Tables

_SUMMARY = {
    "claim": "conclusion",
    "plain": "plain",
    "memexplorer": "calibrated",
    "on": "depends on",
}


def _summary(answers: Sequence[Answer]) -> TextTable:
    rows: dict[str, dict[str, str]] = {}
    for answer in answers:
        row = rows.setdefault(answer.claim.key, {"claim": answer.claim.title})
        lost = answer.loss.largest(answer.claim.measures)
        row[answer.profile] = f"{answer.verdict} ({_percent(lost)})"
        row["on"] = "; ".join(filter(None, [row.get("on", ""), _named(answer)]))
    complete = [row | {"on": row["on"] or "nothing that was varied"} for row in rows.values()]
    return _table("Do MemExplorer's conclusions hold?", _SUMMARY, complete)


def _named(answer: Answer) -> str:
    caps = [name.split()[1] for name in answer.flips if name.startswith("cap ")]
    names = [name for name in answer.flips if not name.startswith("cap ")]
    if caps:
        names.append(f"cap of {' or '.join(caps)} W")
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{answer.profile}: {', '.join(names[:_MOST_NAMED])}{more}"


class _Units:
    """Units of a claim's numbers: requests where both phases count, else tokens."""

    def __init__(self, claim: Claim) -> None:
        self._is_of_requests = claim.phase is None
        self.with_all = "with all designs"
        self.with_less = "without"
        if self._is_of_requests:
            self.with_all, self.with_less = "with a memory for each phase", "with one for both"

    def name(self, measure: Measure) -> str:
        if self._is_of_requests:
            return "requests per device and hour" if measure == "rate" else "requests/MJ"
        return "token/s" if measure == "rate" else "token/J"

    def convert(self, measure: Measure, value: float) -> float:
        if not self._is_of_requests:
            return value
        return value * (3600.0 if measure == "rate" else 1e6)


def _measured(loss: Loss) -> tuple[tuple[Measure, tuple[float, float]], ...]:
    return ("rate", loss.rate), ("per_joule", loss.per_joule)


def _answer_table(answer: Answer) -> TextTable:
    name = answer.claim.choice.name if answer.claim.choice else ""
    left_out = f", {name} left out" if answer.beside else ""
    losses: dict[str, Loss | None] = {}
    for cap, loss in answer.losses.items():
        losses[f"TDP up to {cap:,.0f} W{left_out if cap == CAP_WATTS else ''}"] = loss
    losses |= {
        f"{CAP_WATTS:,.0f} W, only {choice} left out": loss
        for choice, loss in answer.beside.items()
    }
    losses |= {f"{CAP_WATTS:,.0f} W, {label}": loss for label, loss in answer.shifts.items()}
    rows = [_row(answer.claim, condition, loss) for condition, loss in losses.items()]
    title = f"{answer.claim.title}: {answer.profile} says {answer.verdict}"
    units = _Units(answer.claim)
    columns = {"what": "under"}
    measures: tuple[Measure, ...] = ("rate", "per_joule")
    for measure in measures:
        columns |= {
            f"{measure}_all": f"{units.name(measure)}, {units.with_all}",
            f"{measure}_without": units.with_less,
            f"{measure}_lost": "lost",
        }
    return _table(title, (columns | {"verdict": "answer"}), rows)


def _row(claim: Claim, condition: str, loss: Loss | None) -> dict[str, str]:
    if loss is None:
        return {"what": condition, "verdict": "no design"}
    units, row = _Units(claim), {"what": condition, "verdict": loss.verdict(claim.measures)}
    for measure, (best, without) in _measured(loss):
        if not math.isnan(best):
            row[f"{measure}_all"] = format_value(units.convert(measure, best), digits=4)
            row[f"{measure}_without"] = format_value(units.convert(measure, without), digits=4)
            row[f"{measure}_lost"] = _percent(loss.share(measure))
    return row


def _percent(share: float) -> str:
    return f"{max(share, 0.0):.1%}"


def _table(title: str, columns: StringMap, rows: Sequence[StringMap]) -> TextTable:
    numbers = [name for name in columns if name.endswith(("_all", "_without", "_lost"))]
    return keyed_table(title, columns, rows, numbers)
