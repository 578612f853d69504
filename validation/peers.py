"""Whether each peer is better than its own random phase, on ZDT1.

Every method begins with the same random designs; then it proposes, or the random sampling goes on.
A peer whose model is never asked is no better than the latter. Run as
``python -m validation.peers --help``; it exits with 1 if a peer is not shown to be better.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from codesign.base.errors import CodesignError
from codesign.base.text import markdown_table
from codesign.insight.comparison import Comparison, Outcome
from codesign.search.optimizers.peer import PeerMethod

METHODS: tuple[str, ...] = get_args(PeerMethod)
_BASELINE = "random"


def compare_on(
    methods: Sequence[str], problem: str, seeds: int, initial: int, budget: int, folder: Path
) -> Outcome:
    """Each method and random sampling from the same initial designs.

    Args:
        methods: Of peers.
        problem: Campaign file of the problem.
        seeds: Runs of each method.
        initial: Random designs with which every run begins.
        budget: Designs of a run, the initial ones included.
        folder: For the comparison and its results; goes on where it was.

    Raises:
        InputError: The problem cannot be used.
        JobError: A method failed.
    """
    peers = [{"name": "peer", "label": name, "method": name} for name in methods]
    definition = {
        "problems": [problem],
        "optimizers": [*peers, _BASELINE],
        "initial": initial,
        "budget": budget,
        "seeds": seeds,
        "workers": 1,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "compare-random-phase.yaml"
    path.write_text(json.dumps(definition), encoding="utf-8")
    comparison = Comparison.load(path, folder)
    comparison.run(tell=lambda line: print(line, file=sys.stderr))
    return comparison.outcome()


def no_better(outcome: Outcome) -> list[str]:
    """The methods whose median hypervolume is not above that of random sampling."""
    (problem,) = outcome.problems
    medians = {label: statistics.median(problem.final_shares(label)) for label in outcome.labels}
    return [label for label in outcome.labels[:-1] if medians[label] <= medians[_BASELINE]]


def table_of(outcome: Outcome) -> str:
    """A Markdown table: % of the exact hypervolume over the seeds, where proposals come from."""
    (problem,) = outcome.problems
    rows = []
    for label in outcome.labels:
        shares = 100 * problem.final_shares(label)
        numbers = (statistics.median(shares), min(shares), max(shares))
        account = outcome.settings.get(label, [{}])[-1]
        rows.append([label, *map("{:.1f}".format, numbers), str(account.get("proposal", ""))])
    header = ["method", "median", "lowest", "highest", "a proposal is from"]
    return markdown_table(header, rows, header[1:4])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and print its table.

    Returns:
        1 if a method is no better than random sampling, 2 if something cannot be used.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", metavar="METHOD", help="of peers; all if not given")
    parser.add_argument("--problem", default="problem-zdt1", help="[problem-zdt1]")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each [3]")
    parser.add_argument("--initial", type=int, default=20, help="random designs [20]")
    parser.add_argument("--budget", type=int, default=60, help="designs of a run [60]")
    parser.add_argument("--folder", type=Path, help="keep the results, and go on from them")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        try:
            outcome = compare_on(
                options.methods or METHODS,
                options.problem,
                options.seeds,
                options.initial,
                options.budget,
                folder,
            )
        except CodesignError as error:
            print(error, file=sys.stderr)
            return 2
        print(table_of(outcome))
        weak = no_better(outcome)
    if weak:
        print(f"no better than random sampling: {', '.join(weak)}", file=sys.stderr)
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main())
