"""A campaign as a storage of Optuna, which optuna-dashboard and Optuna's plots open as it is.

One study per run (optimizer and seed), or one with the front. A trial has the parameters under
their own names, objectives in natural sign, limits as Optuna's constraints (``<= 0`` is kept)
and every metric as a user attribute. The file is Optuna's journal, one JSON line per change.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from codesign.answers.campaigns import CHUNK, Provenance
from codesign.answers.json_values import plain_value
from codesign.base.columns import IntArray, JsonObject, JsonRows, Value, values_at
from codesign.base.errors import needing_extra
from codesign.base.files import replacing
from codesign.report.frames import Scope, positions_of
from codesign.report.labels import format_setting
from codesign.search.campaign import Results

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""Optuna wants times and the results have none: a step lasts one second from here."""
_LARGEST = 1e300
"""Stands for an infinite violation, which Optuna's sums do not take."""


def write_optuna(results: Results, path: Path, scope: Scope = "front") -> Path:
    """A journal file for ``optuna.storages.JournalStorage``.

    Raises:
        MissingExtraError: Optuna is not installed.
    """
    with needing_extra("an Optuna storage", "tpe"):
        import optuna
    name = results.definition.name
    runs = results.runs
    if scope == "all":
        positions = (np.flatnonzero(results.run_index == index) for index in range(len(runs)))
        titles = [f"{name}, {run.optimizer}, seed {run.seed}" for run in runs]
        studies = [
            (title, rows) for title, rows in zip(titles, positions, strict=True) if len(rows)
        ]
    else:
        studies = [(f"{name}, {scope}", positions_of(results, scope))]
    verbosity = optuna.logging.get_verbosity()
    with (
        replacing(path) as unfinished,
        unfinished.open("w", encoding="utf-8") as file,
        warnings.catch_warnings(),
    ):
        # Names of objectives are still marked as an experiment; nothing depends on it.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # its log would go to the terminal
        try:
            storage = optuna.storages.JournalStorage(_lines(file))
            note = plain_value(Provenance.describe(results, scope))
            for title, rows in studies:
                study = optuna.create_study(
                    storage=storage,
                    study_name=title,
                    directions=[objective.sense for objective in results.problem.objectives],
                )
                study.set_metric_names(results.problem.objective_names)
                study.set_user_attr("codesign", note)
                for trial in _trials(results, rows):
                    storage.create_new_trial(study._study_id, trial)
        finally:
            optuna.logging.set_verbosity(verbosity)
    return path


def _trials(results: Results, positions: IntArray) -> Iterator[FrozenTrial]:
    """One trial per observation; a failed trial states the error."""
    from optuna.distributions import CategoricalDistribution, IntDistribution
    from optuna.trial import TrialState, create_trial

    distributions: dict[str, BaseDistribution] = {}
    for parameter in results.problem.space.parameters:
        values = parameter.values
        numbers = [value for value in values if type(value) is int]
        # Integers are a range, so that plots have a scale; everything else is a choice.
        if 1 < len(numbers) == len(values):
            is_log = parameter.scale == "log" and min(numbers) > 0
            bounds = (min(numbers), max(numbers))
            distributions[parameter.name] = IntDistribution(*bounds, log=is_log)
        else:
            choices = [_setting(value) for value in values]
            distributions[parameter.name] = CategoricalDistribution(choices)
    for start in range(0, len(positions), CHUNK):
        chunk = positions[start : start + CHUNK]
        for position, design in zip(
            chunk.tolist(), results.problem.space.decode(results.rows[chunk]), strict=True
        ):
            has_failed = bool(results.failed[position])
            step = int(results.step[position])
            metrics = values_at(results.metrics, position)
            limits = {
                name: float(np.clip(excess[position], -_LARGEST, _LARGEST))
                for name, excess in results.violations.items()
            }
            settings = {name: _setting(x) for name, x in design.items() if x is not None}
            reason = results.reasons.get(position)
            attributes = {name: plain_value(value) for name, value in metrics.items()}
            trial = create_trial(
                state=TrialState.FAIL if has_failed else TrialState.COMPLETE,
                values=None
                if has_failed
                else [metrics[name] for name in results.problem.objective_names],
                params=settings,
                distributions={name: distributions[name] for name in settings},
                user_attrs={"step": step, **attributes} | ({"reason": reason} if reason else {}),
                constraints=None if has_failed else limits,
                # optuna-dashboard 0.21 does not know limits by name and marks what it finds here.
                system_attrs=None
                if has_failed or not limits
                else {"constraints": list(limits.values())},
            )
            trial.datetime_start = _BEGIN + timedelta(seconds=step)
            trial.datetime_complete = _BEGIN + timedelta(seconds=step + 1)
            yield trial


def _setting(value: Value) -> Any:
    """A value that Optuna takes as a choice; (2048, 256) is "2048x256"."""
    return format_setting(value) if isinstance(value, tuple) else value


def _lines(file: IO[str]) -> Any:
    """A backend for Optuna's journal storage that appends to an open file.

    Optuna locks, flushes and reads back after every line, which makes some 15 trials a second,
    and keeps all trials in memory. Here nobody else writes, so lines are buffered, and what is
    read back is the bare trial.
    """
    from optuna.storages.journal import BaseJournalBackend

    class Lines(BaseJournalBackend):
        def __init__(self) -> None:
            self._latest: JsonRows = []

        def append_logs(self, logs: JsonRows) -> None:
            for log in logs:
                # Optuna's name of a worker is drawn at random.
                line = log | {"worker_id": "codesign"}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._latest = [
                log if "params" not in log else {key: log[key] for key in _BARE} for log in logs
            ]

        def read_logs(self, log_number_from: int) -> Iterable[JsonObject]:
            latest = self._latest
            self._latest = []
            return latest

    return Lines()


_BARE = ("op_code", "worker_id", "study_id", "state", "datetime_start", "datetime_complete")
"""Fields that Optuna must read back of a finished trial to number the next one."""
