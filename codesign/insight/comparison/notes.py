"""Notes before the numbers of a comparison, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codesign.insight.comparison.comparison_definition import ComparisonDefinition
from codesign.insight.comparison.kinds import by_kind
from codesign.insight.comparison.outcome import SOLVED_SHARE, Outcome, ProblemOutcome
from codesign.insight.comparison.ranking import ALPHA, Ranking, rank_optimizers


def outcome_notes(
    definition: ComparisonDefinition, problems: Sequence[ProblemOutcome]
) -> tuple[str, ...]:
    """Notes on partial data, on conclusions that cannot be drawn, and on shares that flatter."""
    notes = [*_partial_notes(definition, problems)]
    if all(len(problem.seeds) < 2 for problem in problems):
        notes.append("one seed: no spread and no test within a problem can be given")
    notes += _evidence_notes(Outcome(definition, tuple(problems), ()))
    unknown = [p.name for p in problems if p.truth.kind != "exact"]
    if unknown:
        notes.append(
            f"no exact front (too many designs) of {', '.join(unknown)}: shares are of the "
            "best front that any run here has found, so they flatter"
        )
    for problem in problems:
        notes += [f"{problem.name}: {words}" for words in problem.warnings]
    return (*notes, *_tuning_notes(problems), *_rule_notes(problems), *_hint_notes(problems))


def _partial_notes(
    definition: ComparisonDefinition, problems: Sequence[ProblemOutcome]
) -> Iterator[str]:
    n_wanted, n_seeds = len(definition.problems), len(definition.seeds)
    short = [problem for problem in problems if len(problem.seeds) < n_seeds]
    if len(problems) < n_wanted or short:
        fewest = min(len(problem.seeds) for problem in problems)
        few = f", with {fewest} to {n_seeds} seeds" if short else ""
        yield f"partial: {len(problems)} of {n_wanted} problems{few}"


def _evidence_notes(outcome: Outcome) -> Iterator[str]:
    """Limits of so few problems, or kinds of them."""
    kinds = by_kind(outcome.ranked)
    if len(outcome.ranked) < 2:
        yield "one problem: nothing can be said of other problems"
    elif len(kinds) < 2:
        yield (
            f"one kind of problems ({next(iter(kinds))}): nothing can be said of other kinds; "
            "the intervals are about other problems of this kind"
        )
    elif (ranking := rank_optimizers(outcome)).pairs and ranking.least_holm_p > ALPHA:
        yield few_kinds_words(ranking)


def few_kinds_words(ranking: Ranking) -> str:
    """Strongest result of a test of pairs over so few kinds."""
    return (
        f"{len(ranking.blocks)} kinds of problems: Wilcoxon's test cannot give a p below "
        f"{ranking.least_p:.2g}, {ranking.least_holm_p:.2g} after Holm's correction, however large "
        f"a difference is; {ranking.fewest_blocks} kinds are the fewest that can tell a pair apart "
        f"at {100 * ALPHA:g} %"
    )


def _hint_notes(problems: Sequence[ProblemOutcome]) -> list[str]:
    solved = [problem for problem in problems if problem.solved_by_hints]
    if not solved:
        return []
    names = ", ".join(f"{p.name} ({', '.join(p.solved_by_hints)})" for p in solved)
    return [
        f"solved by hints, with which {SOLVED_SHARE:.0%} of the best hypervolume need no model of "
        f"results: {names}"
    ]


def _tuning_notes(problems: Sequence[ProblemOutcome]) -> list[str]:
    tuned = [problem for problem in problems if problem.tuned]
    if not tuned:
        return []
    names = ", ".join(f"{p.name} ({', '.join(p.tuned)})" for p in tuned)
    if len(tuned) == len(problems):
        return [f"every problem was used to tune an optimizer, so none is held back: {names}"]
    return [f"used to tune and therefore left out of ranks and runtimes: {names}"]


def _rule_notes(problems: Sequence[ProblemOutcome]) -> list[str]:
    uninformed = [problem for problem in problems if problem.uninformed]
    if not uninformed:
        return []
    names = ", ".join(f"{p.name} ({', '.join(p.uninformed)})" for p in uninformed)
    if all(problem.uninformed or problem.tuned for problem in problems):
        return [f"every problem has rules that some peer's library cannot express: {names}"]
    return [
        "left out of ranks and runtimes because some peer's library cannot express every rule of "
        f"the space: {names}"
    ]
