"""Savings of screening by a cheaper evaluator: shares of the exact hypervolume by declared time.

The same campaign three times: screened as its file says, without screening, and without anything
known in advance. Time is that which the file declares for an evaluation at either level; what the
optimizer itself takes is left out. Run as ``python -m validation.screening CAMPAIGN ...``;
the exact front is enumerated first, unless it is there.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import typer
import yaml

from codesign.base.columns import FloatArray, StringList
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.base.text import markdown_table
from codesign.search.campaign import Campaign
from codesign.search.campaign.campaign_definition import load_definition
from codesign.search.campaign.reference import minimized
from codesign.search.campaign.screening import Screening
from codesign.search.campaign.store_file import open_store

SHARES = (0.9, 0.95, 0.99)


@frozen
class ScreenedRun:
    """One run, with the time that it cost.

    Attributes:
        kind: ``screened``, ``predicted`` or ``alone``.
        seconds: (n,) declared time up to and including each evaluation, screening included.
        shares: (n,) of the exact hypervolume.
        n_screened: Designs that the cheaper evaluator saw.
    """

    kind: str
    seed: int
    seconds: FloatArray
    shares: FloatArray
    n_screened: int

    def seconds_until(self, share: float) -> float:
        """Declared time until a share of the exact hypervolume; infinite if it was not reached."""
        reached = np.flatnonzero(self.shares >= share)
        return float(self.seconds[reached[0]]) if len(reached) else float("inf")


def variants(path: Path, seeds: int, budget: int | None, folder: Path) -> dict[str, Path]:
    """Campaign files: as it is, without screening, and without anything known in advance.

    Args:
        budget: Evaluations of each run; the file's if None.
    """
    screened = yaml.safe_load(path.read_text(encoding="utf-8")) | {"seeds": seeds}
    if budget is not None:
        screened["budget"] = budget
    predicted = {key: value for key, value in screened.items() if key != "screening"}
    optimizers = [
        {"name": optimizer} if isinstance(optimizer, str) else {**optimizer, "start": "spread"}
        for optimizer in screened["optimizers"]
    ]
    alone = predicted | {"hints": "off", "optimizers": optimizers}
    paths = {}
    for variant, data in {"screened": screened, "predicted": predicted, "alone": alone}.items():
        paths[variant] = folder / f"{variant}.yaml"
        paths[variant].write_text(yaml.safe_dump(data | {"name": variant}), encoding="utf-8")
    return paths


def screened_runs(path: Path, screening: Screening, exact: float) -> list[ScreenedRun]:
    """All runs of a variant, done beside its file.

    Args:
        screening: What evaluations cost.
        exact: Hypervolume of the exact front.
    """
    variant, campaign = path.stem, Campaign.load(path, path.parent)
    campaign.run(workers=1)
    runs = []
    with open_store(campaign.store_path) as store:
        for index, run in enumerate(store.runs):
            stored, screened = store.read(index), store.screened(index)
            done = np.arange(1, len(stored) + 1)
            seconds = (
                done * screening.target_cost_s
                + np.searchsorted(screened.n_told, done) * screening.cost_s
            )
            runs.append(
                ScreenedRun(
                    variant,
                    run.seed,
                    seconds,
                    stored.hypervolume / exact,
                    len(screened.observations),
                )
            )
    return runs


def _spread(runs: Sequence[ScreenedRun], share: float) -> tuple[float, float, float]:
    """Least, median and most time until a share."""
    seconds = [run.seconds_until(share) for run in runs]
    return min(seconds), statistics.median(seconds), max(seconds)


def _words(seconds: float) -> str:
    return f"{seconds:,.0f} s" if np.isfinite(seconds) else "never"


def table(runs: Sequence[ScreenedRun], alone: Sequence[ScreenedRun]) -> StringList:
    """Rows of a Markdown table: medians and ranges over the seeds, and the saving."""
    cells = [runs[0].kind]
    for share in SHARES:
        low, median, high = _spread(runs, share)
        of_alone = median / _spread(alone, share)[1]
        factor = f", {of_alone:.2f} of alone" if 0.0 < of_alone < 1.0 else ""
        cells.append(f"{_words(median)} ({_words(low)} to {_words(high)}){factor}")
    cells.append(f"{statistics.median(run.shares[-1] for run in runs):.2%}")
    cells.append(f"{min(run.shares[-1] for run in runs):.2%}")
    cells.append(f"{statistics.median(run.n_screened for run in runs):g}")
    return cells


def main(
    campaigns: StringList,
    seeds: int = 5,
    budget: int | None = None,
    folder: Path | None = None,
) -> None:
    """Do the study and print its tables.

    Args:
        budget: Evaluations of each run; the file's if None.
        folder: Where exact fronts are kept.
    """
    for name in campaigns:
        resolved = load_definition(name)
        screening = resolved.definition.screening
        if screening is None:
            raise InputError(f"expected a campaign with the key 'screening', got {name!r}")
        campaign = Campaign.load(name, folder)
        front = campaign.exact_front()
        exact = front.hypervolume(
            minimized(campaign.problem, campaign.exact_results(front).reference_point)
        )
        with tempfile.TemporaryDirectory() as scratch:
            paths = variants(resolved.path, seeds, budget, Path(scratch))
            by_kind = {
                variant: screened_runs(path, screening, exact) for variant, path in paths.items()
            }
        heads = ["", *(f"{share:.0%}" for share in SHARES), "at the end", "worst", "screened"]
        n = len(by_kind["alone"][0].shares)
        print(f"{name}: {seeds} seeds, {n} evaluations\n")
        rows = [table(runs, by_kind["alone"]) for runs in by_kind.values()]
        print(markdown_table(heads, rows), end="\n\n")


if __name__ == "__main__":
    typer.run(main)
