"""Progress of campaigns: of one, from its store, or of all in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import join

import numpy as np

from codesign.base import resources
from codesign.base.columns import StringList, StringTuple
from codesign.base.errors import CodesignError
from codesign.base.locks import is_held
from codesign.base.records import frozen
from codesign.search.campaign.campaign_definition import Definition, read_definition
from codesign.search.campaign.observations import RunStatus, State
from codesign.search.campaign.reference import settled
from codesign.search.campaign.store import Store
from codesign.search.campaign.store_file import STORE, open_store


@frozen
class CampaignStatus:
    """Progress of a campaign.

    Attributes:
        state: Of the whole.
        budget: Designs per run.
        runs: Each run; empty if the store cannot be read.
        problem: Why definition or store cannot be used, or None.
        notices: What whoever reads its results should know: inputs that changed, a copy that is
            not complete.
    """

    name: str
    folder: Path
    state: State
    budget: int
    runs: tuple[RunStatus, ...]
    problem: str | None = None
    notices: StringTuple = ()

    @property
    def has_ended(self) -> bool:
        """True if every run has ended."""
        return self.state in ("complete", "exhausted")

    @property
    def done(self) -> int:
        """Designs evaluated over all runs."""
        return sum(run.done for run in self.runs)

    @property
    def total(self) -> int:
        """Designs that all runs evaluate if the space does not run out of them."""
        return self.budget * len(self.runs)


def results_folder(folder: str | Path | None = None) -> Path:
    """The folder in which each campaign has its own."""
    return Path(folder) if folder is not None else Path.cwd() / "runs"


def command_arguments(name: str | Path, folder: str | Path | None) -> str:
    """Arguments that name a campaign to a command of a shell.

    >>> command_arguments("small", "my runs")
    "small --folder 'my runs'"
    """
    return join(map(str, (name, "--folder", folder) if folder else (name,)))


def list_campaigns(folder: str | Path | None = None) -> list[CampaignStatus]:
    """Every campaign that has a definition or a store, by name, with its state.

    A definition or a store that cannot be used is listed with its problem.
    """
    root = results_folder(folder)
    stores = {path.parent.name for path in root.glob(f"*/{STORE}")}
    listed = [_listed_store(name, root / name) for name in stores]
    for name, path in resources.listed("runs").items():
        if name not in stores:
            listed.append(_listed_definition(path, root))
    return sorted(
        {status.name: status for status in reversed(listed)}.values(),
        key=lambda status: status.name,
    )


def _listed_store(name: str, folder: Path) -> CampaignStatus:
    try:
        with open_store(folder / STORE) as store:
            return status_of_store(store, name, folder)
    except CodesignError as error:
        return CampaignStatus(name, folder, "stopped", 0, (), str(error))


def _listed_definition(path: Path, root: Path) -> CampaignStatus:
    try:
        _, definition = read_definition(path)
    except CodesignError as error:
        return CampaignStatus(path.stem, root / path.stem, "not started", 0, (), str(error))
    name = definition.name
    if (root / name / STORE).exists():
        return _listed_store(name, root / name)
    runs = tuple(RunStatus(run, "not started") for run in definition.runs)
    return CampaignStatus(name, root / name, "not started", definition.budget, runs)


def status_of_store(store: Store, name: str, folder: Path) -> CampaignStatus:
    """Progress of the campaign of an open store."""
    runs = store.counts()
    budget = int(store.inputs.get("identity", {}).get("budget", 0))
    is_running = is_held(folder / "lock")
    if store.meta.get("reference_is_provisional", False):
        stored = store.read()
        _, hypervolume = settled(store, stored)
        lasts = [np.append(0.0, hypervolume[stored.run == run])[-1] for run in range(len(runs))]
        runs = [replace(run, hypervolume=float(v)) for run, v in zip(runs, lasts, strict=True)]
    state: State = "running" if is_running else "stopped"
    runs = [replace(run, state=state) if run.state == "stopped" else run for run in runs]
    notices = [f"accepted: {line}" for epoch in store.epochs for line in epoch.changes]
    notices += [store.notice] if store.notice else []
    notices += _screening_notices(store, sum(run.done for run in runs))
    states = {run.state for run in runs}
    if states <= {"complete", "exhausted"}:
        state = "exhausted" if states == {"exhausted"} else "complete"
    return CampaignStatus(name, folder, state, budget, tuple(runs), notices=tuple(notices))


def _screening_notices(store: Store, n_evaluated: int) -> StringList:
    """Questions to a cheaper evaluator, and their cost."""
    screening = Definition.model_validate(store.inputs["definition"]).screening
    if screening is None:
        return []
    batches = [store.screened(run) for run in range(len(store.runs))]
    n = sum(len(batch.observations) for batch in batches)
    seconds = sum(batch.seconds for batch in batches)
    declared_s = n * screening.cost_s
    target_s = n_evaluated * screening.target_cost_s
    return [
        f"{screening.name} screened {n:,} designs in {seconds:,.1f} s; declared are "
        f"{declared_s:,.6g} s for these and {target_s:,.6g} s for the {n_evaluated:,} evaluated"
    ]
