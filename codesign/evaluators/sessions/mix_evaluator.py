"""The ``mix`` evaluator: one machine that serves several workloads of sessions in turns.

Time, energy and price of a session of the mix are sums over its workloads, weighted by their
shares. The same sums of bounds are bounds, so exact fronts are found as for one workload. Limits
hold for each workload.

Limiting assumption: the running workload has all of the memory, and switching costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    Columns,
    Domains,
    Fields,
    FloatArray,
    FloatMap,
    StringList,
    Strings,
    first_values,
    n_designs,
)
from codesign.base.errors import check_known
from codesign.base.evaluator import Evaluation, Explanation
from codesign.base.explanation_rows import OperatorRow
from codesign.base.metrics import ALL_METRICS, SESSION_METRICS, chosen_metrics
from codesign.base.schema import PositiveAmount, Record, Share, accepted_by
from codesign.evaluators.sessions.composed_evaluator import ComposedEvaluator
from codesign.evaluators.sessions.session_workload import SessionsOptions, SessionWorkload
from codesign.evaluators.sessions.sessions_evaluator import SessionsEvaluator
from codesign.evaluators.sessions.split_designs import split_designs
from codesign.models.hardware.formula_operations import sum_of

_RATE = "sessions_per_s"
_USD = "usd_per_million_asked_tokens"
_JOULES = "energy_joules_per_asked_token"
_WORST_LIMIT = "worst_limit_excess"
_REGRET = "regret"
_ALIKE = ("tdp_watts", "unit_cost_usd", "area_mm2", "power_density_w_per_mm2",
          "junction_temperature_celsius")  # fmt: skip
"""Metrics of the machine; the mix has the worst value over its workloads."""
_TOLERANCE = 1e-6
"""Largest deviation of the sum of shares from 1 that counts as rounding [ours]."""


def _check_metrics(limits: FloatMap) -> None:
    for name in limits:
        check_known("metric", name, SESSION_METRICS)


class MixedWorkload(SessionWorkload):
    """A workload of a mix."""

    name: str = ""
    """Name in the metrics of the mix; that of the session if left out."""
    share: Share
    """Share of the sessions."""
    limits: Annotated[dict[str, PositiveAmount], accepted_by(_check_metrics)] = Field({})
    """Worst value that each metric may have in this workload."""
    best_usd_per_million_asked_tokens: PositiveAmount | None = None
    """Least price of the designs for this workload alone, from its exact front."""


def _check_mix(mix: tuple[MixedWorkload, ...]) -> None:
    total = sum(entry.share for entry in mix)
    if abs(total - 1.0) > _TOLERANCE:
        raise ValueError(f"expected shares that add up to 1, got {total:g}")
    names = [_name(entry) for entry in mix]
    if len({*names}) < len(names) or not all(map(str.isidentifier, names)):
        raise ValueError(f"expected a name of letters and digits for each, got {names}")


class MixWorkload(Record):
    """Workloads that one machine serves in turns."""

    mix: Annotated[tuple[MixedWorkload, ...], Field(min_length=1), accepted_by(_check_mix)]
    """The workloads; their shares add up to 1."""

    @property
    def workloads_by_name(self) -> dict[str, MixedWorkload]:
        """The workloads by name."""
        return {_name(entry): entry for entry in self.mix}


def _named(limits: Mapping[str, Arrays]) -> Arrays:
    return {
        key if key == "shoreline" else f"{name}_{key}": x[key]  # all have the machine's edge
        for name, x in limits.items()
        for key in x
    }


def _name(entry: MixedWorkload) -> str:
    return entry.name or (entry.session or "trace").replace("-", "_")


class MixEvaluator(ComposedEvaluator[SessionsEvaluator]):
    """Rates, energy, price and limits of machines that serve a mix of sessions.

    Raises:
        InputError: The machines cannot serve a workload.
    """

    Workload = MixWorkload
    Options = SessionsOptions
    workload: MixWorkload
    options: SessionsOptions

    def __init__(self, workload: MixWorkload, options: SessionsOptions | None = None) -> None:
        self.workload = workload
        self.options = options or SessionsOptions()
        self._mix = workload.workloads_by_name
        self.members = {}
        like = None
        for name, entry in workload.workloads_by_name.items():
            self.members[name] = SessionsEvaluator(entry, self.options, True, like=like)
            like = self.first.first
        first = self.first
        self.required_parameters = first.required_parameters
        self.optional_parameters = first.optional_parameters
        self.undecided_parameters = first.undecided_parameters
        has_best = all(entry.best_usd_per_million_asked_tokens for entry in workload.mix)
        self.metrics = (
            SESSION_METRICS[_RATE], SESSION_METRICS[_USD], SESSION_METRICS[_JOULES],
            *(ALL_METRICS[name] for name in (*_ALIKE, _WORST_LIMIT, *[_REGRET] * has_best)),
            *(replace(SESSION_METRICS[metric], name=f"{name}_{metric}")
              for name in workload.workloads_by_name for metric in (_RATE, _USD)),
        )  # fmt: skip

    def provenance(self) -> Fields:
        return {
            "workload": self.workload.model_dump(mode="json"),
            "entries": {name: entry.provenance() for name, entry in self.members.items()},
        }

    def known_violations(self, designs: Columns) -> Arrays:
        """The limits of the machine in every workload, with its name in front, and the die edge."""
        return _named({name: x.known_violations(designs) for name, x in self.members.items()})

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        names = chosen_metrics(metrics, self.metric_names)
        if not n_designs(designs):
            return Evaluation({name: np.empty(0) for name in names})
        split = split_designs(designs)
        results = {
            name: entry.evaluate_split(split, self._needed(name, names))
            for name, entry in self.members.items()
        }
        values = self._composed({name: result.metrics for name, result in results.items()}, names)
        failures = {i: text for result in results.values() for i, text in result.failures.items()}
        limits = _named({name: result.violations for name, result in results.items()})
        return Evaluation({name: values[name] for name in names}, limits, failures)

    def best_case(
        self,
        designs: Columns,
        undecided: Domains,
        metrics: Strings,
    ) -> Arrays:
        """(n,) bounds of the mix over all completions of a design, from those of the workloads."""
        bounds = {
            name: entry.best_case(designs, undecided, self._needed(name, metrics))
            for name, entry in self.members.items()
        }
        return self._composed(bounds, metrics)

    def explain(self, designs: Columns) -> Explanation | None:
        """The account of the machine with the workload that takes most of its time, with a row for
        the time of each."""
        explained = {name: entry.explain(designs) for name, entry in self.members.items()}
        accounts = {name: account for name, account in explained.items() if account is not None}
        values = first_values(self.evaluate(designs).metrics)
        if not accounts:
            return None
        times = {name: self._mix[name].share / values[f"{name}_{_RATE}"] for name in accounts}
        rows = [
            OperatorRow(
                name=name.replace("_", " "), kind="workload", time_s=times[name],
                bound=max(account.operators, key=lambda row: row["time_s"])["bound"],
            )
            for name, account in accounts.items()
        ]  # fmt: skip
        longest = max(times, key=lambda name: times[name])
        return replace(
            accounts[longest], metrics=values, operators=rows, pass_s=None,
            violations=first_values(self.known_violations(designs)),
            notes=("power and memory levels are those of a decode step of "
                   f"{longest.replace('_', ' ')}", ),
        )  # fmt: skip

    def _needed(self, name: str, metrics: Strings) -> StringList:
        """Metrics of a workload from which the requested metrics of the mix follow."""
        machine = [metric for metric in _ALIKE if metric in metrics]
        priced = {_USD, _REGRET, f"{name}_{_USD}"} & {*metrics}
        tokens = [_USD] * bool(priced) + [_JOULES] * (_JOULES in metrics)
        limits = self._mix[name].limits if _WORST_LIMIT in metrics else ()
        return list(dict.fromkeys([_RATE, *machine, *tokens, *limits]))

    def _composed(self, entries: Mapping[str, Arrays], metrics: Strings) -> ArrayDict:
        """(n,) metrics or bounds of the mix; absent where a workload lacks what they need."""
        mix = self._mix
        rates = {name: values[_RATE] for name, values in entries.items()}
        results = {
            f"{name}_{metric}": entries[name][metric]
            for name in mix
            for metric in (_RATE, _USD)
            if metric in entries[name]
        }
        results[_RATE] = 1.0 / sum_of(tuple(mix[name].share / rates[name] for name in mix))
        if _REGRET in metrics:
            ratios = [
                entries[name][_USD] / (mix[name].best_usd_per_million_asked_tokens or np.nan)
                for name in mix
            ]
            results[_REGRET] = np.maximum.reduce(ratios) - 1.0
        tokens = {name: entry.tokens_per_session * mix[name].share
                  for name, entry in self.members.items()}  # fmt: skip
        common = set.intersection(*map(set, entries.values()))
        for metric in (_USD, _JOULES):
            if metric in common:
                weighted = tuple(tokens[name] * entries[name][metric] for name in mix)
                results[metric] = sum_of(weighted) / sum(tokens.values())
        for metric in common & {*_ALIKE}:
            results[metric] = np.maximum.reduce([values[metric] for values in entries.values()])
        if _WORST_LIMIT in metrics:
            results[_WORST_LIMIT] = self._worst_excess(entries)
        return {name: results[name] for name in metrics if name in results}

    def _worst_excess(self, entries: Mapping[str, Arrays]) -> FloatArray:
        """(n,) largest relative excess over a limit; metrics without a bound are skipped."""
        n = len(next(iter(entries.values()))[_RATE])
        worst = np.full(n, -1.0)
        for name, entry in self._mix.items():
            for metric, limit in entry.limits.items():
                values = entries[name].get(metric)
                if values is None:
                    continue
                is_least = SESSION_METRICS[metric].sense == "maximize"
                excess = 1.0 - values / limit if is_least else values / limit - 1.0
                worst = np.maximum(worst, excess)
        return worst
