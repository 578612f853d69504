"""The public set of problems: list, evaluate, score, prove again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from codesign.base.errors import InputError, JobError
from codesign.cli import completion
from codesign.cli.output import report

_FILE = "FILE"


def problems(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A problem, such as re21, or a version of it, such as re21.v1.",
            autocompletion=completion.public_problems,
        ),
    ] = None,
    evaluate: Annotated[
        str | None,
        typer.Option(
            metavar=_FILE,
            help="Evaluate the designs of a file: CSV with the parameters as head, or a JSON "
            "object a line; - for standard input.",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            metavar=_FILE,
            help="Share of the exact hypervolume after 10, 20, 50, 100, ... rows of a file, in "
            "the order in which they were evaluated: designs, or the objectives of feasible ones "
            "and empty rows for others.",
        ),
    ] = None,
    verify: bool = False,
) -> None:
    """Evaluate and score on problems whose exact fronts are proven and published.

    Any optimizer can be judged by them, with or without this package's optimizers.

    Args:
        verify: Compute the exact front again and compare; minutes for all.
    """
    from codesign.answers.problems import ProblemEvaluationAnswer, ProblemScoreAnswer
    from codesign.report import problem_set
    from codesign.search import problems as public
    from codesign.search.problems.designs_file import check_names, objectives_in, read_rows

    actions = [flag for flag, value in (("--evaluate", evaluate), ("--score", score)) if value]
    actions += ["--verify"] if verify else []
    if len(actions) > 1:
        raise InputError(f"expected one of {', '.join(actions)}, got {len(actions)}")
    if verify:
        _verify(name)
    elif name is None:
        raise InputError("expected the name of a problem: see 'codesign list problems'", "problems")
    elif evaluate is not None:
        problem = public.load(name)
        rows = read_rows(evaluate)
        check_names(rows, list(problem.parameters), "parameter")
        evaluated = problem.evaluate(rows.records, rows.places)
        report(
            lambda: ProblemEvaluationAnswer.describe(problem, rows.records, evaluated),
            lambda: problem_set.evaluation_tables(problem, evaluated),
        )
    elif score is not None:
        rows = read_rows(score)
        problem = public.load(name)
        parameters = list(problem.parameters)
        objectives = list(problem.objectives)
        # Designs where a row names a parameter, else objectives.
        if rows.names & set(parameters):
            check_names(rows, parameters, "parameter")
            shares = problem.score(problem.evaluate(rows.records, rows.places))
        else:
            check_names(rows, objectives, "objective")
            shares = problem.score(objectives_in(rows, objectives), rows.places)
        report(
            lambda: ProblemScoreAnswer.describe(problem, shares),
            lambda: problem_set.score_tables(problem, shares),
        )
    else:
        expected = "expected --evaluate, --score or --verify"
        raise InputError(f"{expected}; 'codesign list problems {name}' shows it", "problems")


def _verify(name: str | None) -> None:
    from codesign.answers.problems import ProblemProofsAnswer
    from codesign.insight.comparison.published_problems import differences
    from codesign.search.problems.problem_records import find_record, published

    records = list(published().values()) if name is None else [find_record(name)]
    with tempfile.TemporaryDirectory() as folder:
        differing = {record.label: differences(record, Path(folder)) for record in records}
    lines = [line for several in differing.values() for line in several]
    report(
        lambda: ProblemProofsAnswer(problems=differing),
        lambda: [f"{label}: proven again" for label in differing if not differing[label]],
    )
    if lines:
        raise JobError("\n".join(lines))
