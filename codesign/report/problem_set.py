"""The public set of problems, designs that others evaluated and how good their runs are."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from codesign.base.columns import FloatArray
from codesign.report.labels import format_setting, format_value
from codesign.report.tables import Tables, pairs_table, plain_table, record_table, spaced
from codesign.search.problems.problem_records import ProblemRecord
from codesign.search.problems.public_problem import Evaluated, PublicProblem, counts_to_show


def list_table(records: Mapping[str, ProblemRecord]) -> Table:
    """One line per problem, those of a kind together."""
    rows = [
        vars(record)
        | {
            "label": record.label,
            "objectives": len(record.objectives),
            "limits": len(record.limits),
        }
        for record in records.values()
    ]
    fields = (
        "label=problem n_designs=designs feasible_share=feasible objectives=objec-_tives limits "
        "front_points=front"
    )
    return record_table("Problems with proven fronts", rows, fields, digits=6)


def problem_tables(problem: PublicProblem) -> Tables:
    """One problem: what it asks, what is known of it, its parameters."""
    record = problem.record
    counted = f"{record.n_feasible:,}" if record.n_feasible is not None else "of a sample"
    facts = {
        "kind": record.kind,
        "campaign": f"problem-{record.name}",
        "objectives": ", ".join(record.objectives),
        "limits": ", ".join(record.limits) or "none",
        "designs": record.n_designs,
        "feasible": f"{100 * record.feasible_share:.3g} % ({counted})",
        "front": f"{record.front_points:,} points, {record.front_designs:,} designs",
        "reference point": ", ".join(
            f"{name} {format_value(value)}" for name, value in record.reference_point.items()
        ),
        "hypervolume": repr(record.hypervolume),
        "proof": record.proof,
        "definition": f"sha256 {record.definition_sha256}",
        "front's file": f"sha256 {record.front_sha256}",
    }
    rows = []
    for name, values in problem.parameters.items():
        texts = ["absent" if value is None else format_setting(value) for value in values]
        listed = texts if len(texts) <= 8 else [*texts[:4], "…", texts[-1]]
        rows.append((name, f"{', '.join(listed)} ({len(texts)})"))
    table = plain_table("Parameters", ["name", "values"], rows=rows)
    description = problem.definition.definition.description
    return spaced([pairs_table(record.label, facts), description], table)


def evaluation_tables(problem: PublicProblem, evaluated: Evaluated) -> Tables:
    """One line per design, in the order given."""
    names = list(problem.objectives)
    table = plain_table(
        problem.record.label, ["design", *names, "keeps limits"], ["design", *names]
    )
    for i, point in enumerate(evaluated.objectives):
        values = evaluated.violations.items()
        broken = ", ".join(name for name, excess in values if excess[i] > 0)
        verdict = "yes" if evaluated.feasible[i] else evaluated.reasons.get(i) or f"no: {broken}"
        cells = ["–" if value != value else f"{value:.9g}" for value in point.tolist()]
        table.add_row(str(i + 1), *cells, verdict)
    return [table]


def score_tables(problem: PublicProblem, shares: FloatArray) -> Tables:
    """The same as a table."""
    title = f"{problem.record.label}: share of the exact hypervolume"
    columns = ["evaluations", "share"]
    rows = ((f"{n:,}", f"{100 * shares[n - 1]:.2f} %") for n in counts_to_show(len(shares)))
    return [plain_table(title, columns, columns, rows)]
