"""A campaign as a storage of Optuna, which optuna-dashboard and Optuna's plots open as it is.

One study per run (optimizer and seed), or one with the front. A trial has the parameters under
their own names, objectives in natural sign, limits as Optuna's constraints (``<= 0`` is kept)
and every metric as a user attribute. The file is Optuna's journal, one JSON line per change.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from codesign.answers.campaigns import CHUNK, Provenance
from codesign.answers.json_values import plain_value
from codesign.base.columns import IntArray, Value
from codesign.base.errors import needing_extra
from codesign.base.files import replacing
from codesign.report.frames import Scope, positions_of
from codesign.report.labels import format_setting

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from codesign.search.campaign import Results
    from codesign.space.parameters import Parameter

_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""Optuna wants times and the results have none: a step lasts one second from here."""
_LARGEST = 1e300
"""Stands for an infinite violation, which Optuna's sums do not take."""


def to_optuna(results: Results, path: Path, scope: Scope = "front") -> Path:
    """A journal file for ``optuna.storages.JournalStorage``.

    Raises:
        MissingExtraError: Optuna is not installed.
    """
    with needing_extra("an Optuna storage", "tpe"):
        import optuna
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file, _quiet():
        storage = optuna.storages.JournalStorage(_lines(file))
        note = plain_value(Provenance.describe(results, scope))
        for name, positions in _studies(results, scope):
            study = optuna.create_study(
                storage=storage,
                study_name=name,
                directions=[objective.sense for objective in results.problem.objectives],
            )
            study.set_metric_names(results.problem.objective_names)
            study.set_user_attr("codesign", note)
            for trial in _trials(results, positions):
                storage.create_new_trial(study._study_id, trial)
    return path


def _studies(results: Results, scope: str) -> Iterator[tuple[str, IntArray]]:
    name = results.definition.name
    if scope != "all":
        yield f"{name}, {scope}", positions_of(results, scope)
        return
    for index, run in enumerate(results.runs):
        positions = np.flatnonzero(results.run_index == index)
        if len(positions):
            yield f"{name}, {run.optimizer}, seed {run.seed}", positions


def _trials(results: Results, positions: IntArray) -> Iterator[FrozenTrial]:
    parameters = results.problem.space.parameters
    distributions = {parameter.name: _distribution(parameter) for parameter in parameters}
    objectives = results.problem.objective_names
    for start in range(0, len(positions), CHUNK):
        chunk = positions[start : start + CHUNK]
        designs = results.problem.space.decode(results.rows[chunk])
        values = np.column_stack([results.metrics[name][chunk] for name in objectives])
        metrics = {name: numbers[chunk].tolist() for name, numbers in results.metrics.items()}
        limits = {
            name: np.clip(numbers[chunk], -_LARGEST, _LARGEST).tolist()
            for name, numbers in results.violations.items()
        }
        for i, (position, design) in enumerate(zip(chunk.tolist(), designs, strict=True)):
            yield _trial(
                results,
                position,
                {name: _setting(value) for name, value in design.items() if value is not None},
                distributions,
                values[i].tolist(),
                {name: numbers[i] for name, numbers in limits.items()},
                {name: plain_value(numbers[i]) for name, numbers in metrics.items()},
            )


def _trial(
    results: Results,
    position: int,
    settings: Mapping[str, Any],
    distributions: Mapping[str, BaseDistribution],
    values: Sequence[float],
    limits: Mapping[str, float],
    metrics: Mapping[str, Any],
) -> FrozenTrial:
    """One observation; without a result it is a failed trial that says why."""
    from optuna.trial import TrialState, create_trial

    has_failed = bool(results.failed[position])
    step = int(results.step[position])
    reason = results.reasons.get(position)
    trial = create_trial(
        state=TrialState.FAIL if has_failed else TrialState.COMPLETE,
        values=None if has_failed else values,
        params=dict(settings),
        distributions={name: distributions[name] for name in settings},
        user_attrs={"step": step, **metrics} | ({"reason": reason} if reason else {}),
        constraints=None if has_failed else dict(limits),
        # optuna-dashboard 0.21 does not know limits by name and marks what it finds here.
        system_attrs=None if has_failed or not limits else {"constraints": list(limits.values())},
    )
    trial.datetime_start = _BEGIN + timedelta(seconds=step)
    trial.datetime_complete = _BEGIN + timedelta(seconds=step + 1)
    return trial


def _distribution(parameter: Parameter) -> BaseDistribution:
    """Integers as a range, so that plots have a scale; everything else as choices."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    values = parameter.values
    numbers = [value for value in values if type(value) is int]
    if 1 < len(numbers) == len(values):
        is_log = parameter.scale == "log" and min(numbers) > 0
        return IntDistribution(min(numbers), max(numbers), log=is_log)
    return CategoricalDistribution([_setting(value) for value in values])


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
            self._latest: list[dict[str, Any]] = []

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            for log in logs:
                # Optuna's name of a worker is drawn at random.
                line = log | {"worker_id": "codesign"}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._latest = [
                log if "params" not in log else {key: log[key] for key in _BARE} for log in logs
            ]

        def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
            latest, self._latest = self._latest, []
            return latest

    return Lines()


_BARE = ("op_code", "worker_id", "study_id", "state", "datetime_start", "datetime_complete")
"""Fields that Optuna must read back of a finished trial to number the next one."""


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's log, which would go to the terminal."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            # Names of objectives are still marked as an experiment; nothing depends on it.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
