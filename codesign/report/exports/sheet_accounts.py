"""Accounts of a spec sheet beside a design: budgets, assumptions, and parts left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import StringDict, StringTuple
from codesign.base.errors import InputError
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.uncertainty.sweep import Sweep
from codesign.insight.uncertainty.uncertainty import design_intervals
from codesign.models.accounts.account_constants import constant_ranges
from codesign.report.labels import format_metric, format_value, metric_of
from codesign.report.machine import Bank, Machine
from codesign.report.uncertainty_tables import NO_RANGE

SAMPLES = 200
"""Draws for the intervals of a sheet: as many as for a page."""
_BUDGETS = {
    "area (mm²)": ("costs", "part", "area_mm2"),
    "TDP (W)": ("power", "name", "tdp_watts"),
    "price (USD)": ("costs", "part", "usd"),
}
"""Rows of an explanation by header, with the key of their names and of their numbers."""
BUDGET_COLUMNS = ("part", *_BUDGETS)
NOT_MODELLED = (
    "floor plan: where blocks are on a die, and how wires reach them; areas are sums",
    "clock trees, timing closure, reset, test and debug logic; `uncore` stands for all of them",
    "power delivery, its losses, supply noise, voltage and frequency scaling",
    "hot spots: power is spread evenly over a die",
    "signal integrity of the memory interfaces; refresh, row conflicts and errors of the memories",
    "redundancy, error correction and repair, but for the share of defects that they tolerate",
    "board, chassis, firmware, compiler and scheduling overhead",
    "margins, respins of masks, interest, staff; carbon of interposer, board and host",
)
INTERFACE_COLUMNS = (
    "memory", "PHYs", "data pins × rate, each", "bandwidth, each", "die edge, each",
    "die area, each (min / typ / max)",
)  # fmt: skip


def interval_words(evaluated: EvaluatedDesign) -> StringDict:
    """The interval of every metric, or that it has none; a dash where the metric has no value."""
    try:
        intervals = design_intervals(evaluated, SAMPLES)
    except InputError:
        intervals = {}
    words = {}
    for name, value in evaluated.metrics.items():
        metric = metric_of(name, evaluated.known_metrics)
        ends = [format_metric(end, metric) for end in intervals.get(name, ())]
        words[name] = " to ".join(ends) or (NO_RANGE if np.isfinite(value) else "–")
    return words


def budget_table(evaluated: EvaluatedDesign) -> list[StringTuple]:
    """Area, power and price by part, every range low / typical / high, and their totals.

    Limiting assumption: a part is least where all ranges are low, and most where all are high. A
    range that is not published has no width. The evaluator may have no ranges at all: then there
    is one number of each, and none in the columns of which the design has no account.
    """
    columns = evaluated.space.columns(evaluated.space.encode(evaluated.design))
    ends = [evaluated.explanation] * 3
    try:
        sweep = Sweep.single(evaluated)
    except InputError:
        pass
    else:
        levels = (sweep.low, sweep.typical, sweep.high)
        accounts_at_ends = [sweep.evaluator_at(values).explain(columns) for values in levels]
        ends = [account for account in accounts_at_ends if account is not None]
    accounts = [
        [
            {
                str(row[key]): float("nan") if row.get(number) is None else row[number]
                for row in getattr(end, rows)
                if row.get(number) != 0
            }
            for end in ends
        ]
        for rows, key, number in _BUDGETS.values()
    ]
    names = dict.fromkeys(name for numbers in accounts for end in numbers for name in end)
    if not names:
        return []
    lines = [
        (name, *(_ends_words([end.get(name) for end in numbers]) for numbers in accounts))
        for name in names
    ]
    totals = (_ends_words([sum(end.values()) or None for end in numbers]) for numbers in accounts)
    return [*lines, ("total", *totals)]


def _ends_words(values: Sequence[float | None]) -> str:
    """``144 / 311 / 589``, or the number if all agree."""
    words = [format_value(value, "", 4) for value in values]
    return words[0] if len(set(words)) == 1 else " / ".join(words)


def interface_lines(machine: Machine) -> list[StringTuple]:
    """Width, rate, number and die edge of every off-chip interface."""
    return [
        (
            f"{level.title}: {bank.technology.name}",
            str(bank.count),
            _interface_words(bank),
            format_value(bank.technology.value_at("bandwidth", bank.level), "B/s"),
            f"{bank.technology.value_at('shoreline', bank.level) * 1e3:.4g} mm",
            "not known"
            if (area := bank.technology.interface_area) is None
            else f"{1e6 * area.low:.4g} / {1e6 * area.typical:.4g} / {1e6 * area.high:.4g} mm²",
        )
        for level in machine.tiers
        for bank in level.banks
    ]


def _interface_words(bank: Bank) -> str:
    """Interface of one unit, such as "2048 bit × 7.81 Gbit/s"."""
    pins = bank.technology.data_pins
    if pins is None:
        return "not known"
    rate = 8.0 * bank.technology.value_at("bandwidth", bank.level) / pins
    return f"{pins} bit × {rate / 1e9:.3g} Gbit/s"


def constant_lines(evaluated: EvaluatedDesign) -> list[StringTuple]:
    """Every constant of area, energy, price, heat and carbon: its range, date and source."""
    options = evaluated.options
    if not isinstance(options, NpuOptions):
        return []
    return [
        (name, f"{options.constants[name]:.6g}", "", "stated by the campaign")
        if name in options.constants
        else (
            name,
            " / ".join(f"{x:.6g}" for x in (constant.low, constant.typical, constant.high)),
            constant.date,
            constant.source,
        )
        for name, constant in constant_ranges(options.process).items()
    ]
