"""A comparison's tables, made once and written for a terminal, for Markdown and for LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from codesign.analysis.comparison import rank_optimizers
from codesign.analysis.comparison.outcome import SOLVED_SHARE
from codesign.analysis.comparison.targets import TargetRecord, target_record
from codesign.columns import FloatArray
from codesign.files import replacing
from codesign.report.comparison import evaluators_line, wall_time_records
from codesign.report.labels import evaluator_words
from codesign.report.tables import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from codesign.analysis.comparison import Outcome, ProblemOutcome, RunOutcome

_NOTHING = "–"
_TUNED = "†"
_SOLVED = "‡"
_LATEX = {
    "\\": r"\textbackslash{}", "%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "–": "--", "†": r"$\dagger$", "‡": r"$\ddagger$",
    "×": r"$\times$", "≤": r"$\leq$",
}  # fmt: skip


@dataclass(frozen=True)
class TableCell:
    """One entry of a table.

    Attributes:
        text: As shown.
        is_best: Of its row.
    """

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class PaperTable:
    """A table before it takes a form.

    Attributes:
        title: What the numbers are.
        columns: Headers; the first column is of words, the others of numbers.
        rows: One list of cells per line.
        note: What a reader must know.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""


def paper_tables(outcome: Outcome) -> list[PaperTable]:
    """Every table that is the same for the same results."""
    return [
        problems_table(outcome),
        share_table(outcome),
        *hint_tables(outcome),
        quartiles_table(outcome),
        _distance_table(outcome, "Additive epsilon to the best front", lambda run: run.epsilon),
        _distance_table(outcome, "IGD+ to the best front", lambda run: run.igd_plus),
        targets_table(outcome),
        pairs_table(outcome),
        counts_table(outcome),
    ]


def problems_table(outcome: Outcome) -> PaperTable:
    """What is compared on, and which fronts are exact."""
    rows = [
        (
            _name(problem),
            TableCell(evaluator_words(problem.reading)),
            TableCell(", ".join(_words(str(objective)) for objective in problem.objectives)),
            TableCell(f"{problem.truth.n_designs:,}"),
            TableCell(problem.truth.kind),
            TableCell(f"{len(problem.truth.objectives):,}"),
            TableCell(", ".join(problem.tuned) or _NOTHING),
        )
        for problem in outcome.problems
    ]
    columns = (
        "problem",
        "evaluator",
        "objectives",
        "designs",
        "front",
        "points of it",
        "tuned on it",
    )
    return PaperTable("Problems", columns, tuple(rows), _marks_note(outcome))


def share_table(outcome: Outcome) -> PaperTable:
    """Share of the best front's hypervolume at the end: mean and standard deviation."""
    rows = [
        _row(problem, outcome, lambda values: float(values.mean()), _mean_and_deviation)
        for problem in outcome.problems
    ]
    ranks = rank_optimizers(outcome).mean_ranks
    rows.append(
        (
            TableCell(f"mean rank over {len(outcome.ranked)}"),
            *(TableCell(f"{rank:.2f}", rank == ranks.min()) for rank in ranks.tolist()),
        )
    )
    return PaperTable(
        f"Hypervolume after {outcome.definition.budget} evaluations, % of the best front's, "
        "mean ± standard deviation over the seeds",
        ("problem", *outcome.labels),
        tuple(rows),
        _seeds_note(outcome),
    )


def hint_tables(outcome: Outcome) -> list[PaperTable]:
    """The shares of optimizers without and with hints apart; none if all are alike."""
    hinted = outcome.hinted_labels
    groups = {
        "without hints": tuple(label for label in outcome.labels if label not in hinted),
        "with hints": hinted,
    }
    if not all(groups.values()):
        return []
    tables = []
    for words, labels in groups.items():
        table = share_table(outcome.with_labels(labels))
        tables.append(replace(table, title=f"{table.title}: optimizers {words}"))
    return tables


def quartiles_table(outcome: Outcome) -> PaperTable:
    """Share of the best front's hypervolume at the end: median, quartiles and the worst seed."""
    rows = [
        _row(problem, outcome, lambda values: float(np.median(values)), _quartiles)
        for problem in outcome.problems
    ]
    return PaperTable(
        f"Hypervolume after {outcome.definition.budget} evaluations, % of the best front's, "
        "median [quartiles] worst seed",
        ("problem", *outcome.labels),
        tuple(rows),
    )


def _row(
    problem: ProblemOutcome,
    outcome: Outcome,
    score: Callable[[FloatArray], float],
    text: Callable[[FloatArray], str],
) -> tuple[TableCell, ...]:
    """One problem; the best score is marked, ties too."""
    values = [problem.final_shares(label) for label in outcome.labels]
    scores = [score(shares) for shares in values]
    cells = [
        TableCell(text(shares), cell_score == max(scores))
        for shares, cell_score in zip(values, scores, strict=True)
    ]
    return (_name(problem), *cells)


def _mean_and_deviation(values: FloatArray) -> str:
    spread = f" ± {100 * values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100 * values.mean():.1f}{spread}"


def _quartiles(values: FloatArray) -> str:
    low, middle, high = (100 * np.quantile(values, [0.25, 0.5, 0.75])).tolist()
    return f"{middle:.1f} [{low:.1f}, {high:.1f}] {100 * values.min():.1f}"


def _distance_table(
    outcome: Outcome, title: str, distance: Callable[[RunOutcome], float | None]
) -> PaperTable:
    rows = []
    for problem in outcome.problems:
        # A run without a feasible design is infinitely far away.
        medians = [
            float(
                np.median(
                    [np.inf if (d := distance(run)) is None else d for run in problem.of(label)]
                )
            )
            for label in outcome.labels
        ]
        best = min(medians)
        cells = [TableCell(f"{m:.4f}" if np.isfinite(m) else _NOTHING, m == best) for m in medians]
        rows.append((_name(problem), *cells))
    return PaperTable(
        f"{title}, median over the seeds",
        ("problem", *outcome.labels),
        tuple(rows),
        "Objectives are scaled to the best front's range; smaller is better.",
    )


def targets_table(outcome: Outcome) -> PaperTable:
    """Evaluations until a share of the best hypervolume is reached."""
    rows = []
    for label in outcome.labels:
        records = [target_record(outcome.ranked, label, target) for target in outcome.targets]
        rows.append((TableCell(label), *(TableCell(_record_text(item)) for item in records)))
    return PaperTable(
        "Evaluations to a share of the best front's hypervolume: median / expected (reached)",
        ("optimizer", *(f"{100 * target:g} %" for target in outcome.targets)),
        tuple(rows),
        "Reached: runs that did. Expected: all evaluations before the target over these runs. "
        f"{_NOTHING}: too few runs did.",
    )


def _record_text(record: TargetRecord) -> str:
    reached = f"({record.n_reached}/{record.n_runs})"
    return f"{_number(record.median)} / {_number(record.expected)} {reached}"


def pairs_table(outcome: Outcome) -> PaperTable:
    """Whether differences over the problems could be chance, and how large they are."""
    ranking = rank_optimizers(outcome)
    rows = [
        (
            TableCell(f"{pair.first} against {pair.second}"),
            TableCell(_p_text(pair.p)),
            TableCell(_p_text(pair.p_holm)),
            TableCell(f"{pair.a:.2f}"),
        )
        for pair in ranking.pairs
    ]
    if ranking.friedman is None or ranking.friedman_p is None:
        test = "Friedman's test needs three optimizers and two problems that tell them apart."
    else:
        test = f"Friedman: chi-squared {ranking.friedman:.2f}, p {_p_text(ranking.friedman_p)}."
    return PaperTable(
        f"Pairs over {len(ranking.blocks)} problems (Wilcoxon)",
        ("pair", "p", "p (Holm)", "A"),
        tuple(rows),
        f"{test} {len(ranking.blocks)} problems cannot give a p below {ranking.least_p:.2g}. "
        "A (Vargha and Delaney): probability that a run of the first ends higher.",
    )


def counts_table(outcome: Outcome) -> PaperTable:
    """Evaluations that gave nothing, over all problems and seeds."""
    rows = []
    for label in outcome.labels:
        runs = [run for problem in outcome.problems for run in problem.of(label)]
        counts = [
            len(runs),
            *(
                sum(getattr(run, name) for run in runs)
                for name in ("n_evaluated", "n_feasible", "n_failed", "n_duplicates")
            ),
        ]
        rows.append((TableCell(label), *(TableCell(f"{count:,}") for count in counts)))
    columns = ("optimizer", "runs", "evaluated", "feasible", "failed", "duplicates")
    return PaperTable("Evaluations", columns, tuple(rows))


def wall_time_table(outcome: Outcome) -> PaperTable:
    """Wall time per suggestion after the initial designs; apart, as it is never the same twice."""
    records = wall_time_records(outcome)
    rows = []
    for label in outcome.labels:
        ours = [item for item in records if item["optimizer"] == label]
        if ours:
            medians = [item["median_s"] for item in ours]
            largest = max(item["largest_s"] for item in ours)
            cells = [_seconds(min(medians)), _seconds(max(medians)), _seconds(largest)]
            rows.append((TableCell(label), *map(TableCell, cells)))
    return PaperTable(
        "Wall time per suggestion, median on the fastest and the slowest problem",
        ("optimizer", "fastest", "slowest", "longest of all"),
        tuple(rows),
    )


def _seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.1f} s"
    return f"{1e3 * value:.0f} ms" if value >= 0.01 else f"{1e3 * value:.2g} ms"


def _number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.0f}"


def _p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def _name(problem: ProblemOutcome) -> TableCell:
    inexact = "" if problem.truth.kind == "exact" else " (best known)"
    marks = (_TUNED if problem.tuned else "") + (_SOLVED if problem.solved_by_hints else "")
    return TableCell(f"{short_name(problem)}{marks}{inexact}")


def short_name(problem: ProblemOutcome) -> str:
    """The name without what all of the shipped problems begin with."""
    return problem.name.removeprefix("problem-")


def _words(text: str) -> str:
    return text.replace("_", " ")


def _marks_note(outcome: Outcome) -> str:
    sentences = []
    if any(problem.tuned for problem in outcome.problems):
        sentences.append(f"{_TUNED} used to tune an optimizer, so not ranked.")
    if any(problem.solved_by_hints for problem in outcome.problems):
        sentences.append(
            f"{_SOLVED} solved by hints: following them without a model reaches "
            f"{SOLVED_SHARE:.0%} in the median."
        )
    return " ".join(sentences)


def _seeds_note(outcome: Outcome) -> str:
    seeds = len(outcome.definition.seeds)
    return f"{seeds} seed{'s' if seeds != 1 else ''}; the best of a row is marked."


# The three forms


def to_rich(table: PaperTable) -> Table:
    """For a terminal; the best of a row is bold."""
    drawn = plain_table(table.title, table.columns, table.columns[1:])
    for row in table.rows:
        drawn.add_row(*(Text(cell.text, style="bold" if cell.is_best else "") for cell in row))
    return drawn


def to_markdown(table: PaperTable) -> str:
    """A Markdown section; the best of a row is bold."""
    align = ["---", *("---:" for _ in table.columns[1:])]
    lines = [f"## {table.title}", "", _pipes(table.columns), _pipes(align)]
    lines += [
        _pipes(f"**{cell.text}**" if cell.is_best else cell.text for cell in row)
        for row in table.rows
    ]
    return "\n".join([*lines, *(["", table.note] if table.note else []), ""])


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_latex(table: PaperTable) -> str:
    r"""A ``table`` with ``booktabs`` rules, for ``\input``; the best of a row is bold."""
    body = [
        _ampersands(
            f"\\textbf{{{latex(cell.text)}}}" if cell.is_best else latex(cell.text) for cell in row
        )
        for row in table.rows
    ]
    caption = latex(" ".join([f"{table.title}.", table.note]).strip())
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{caption}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            _ampersands(latex(column) for column in table.columns),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _ampersands(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def latex(text: str) -> str:
    """Text with LaTeX's own characters escaped."""
    return "".join(_LATEX.get(character, character) for character in text)


def write_tables(outcome: Outcome, folder: Path) -> list[Path]:
    """``tables.md`` and ``tables.tex``; returns their paths.

    Raises:
        InputError: A file cannot be written.
    """
    tables = paper_tables(outcome)
    definition = outcome.definition
    head = [
        f"# {definition.name}",
        "",
        definition.description,
        "",
        f"{evaluators_line(outcome)}.",
        "",
        *(f"- {note}" for note in outcome.notes),
        "",
    ]
    markdown = "\n".join([*head, *(to_markdown(table) for table in tables)])
    tex = "% Needs \\usepackage{booktabs}.\n" + "\n".join(to_latex(table) for table in tables)
    written = []
    for name, text in (("tables.md", markdown), ("tables.tex", tex)):
        with replacing(folder / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
        written.append(folder / name)
    return written


def shown_tables(outcome: Outcome) -> Sequence[PaperTable]:
    """What a terminal shows: the rest is in the files."""
    tables = [share_table(outcome), targets_table(outcome)]
    if len(outcome.ranked) > 1:
        tables.append(pairs_table(outcome))
    return [*tables, counts_table(outcome), wall_time_table(outcome)]
