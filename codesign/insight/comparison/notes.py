"""Notes before the numbers of a comparison, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codesign.base.columns import StringTuple
from codesign.insight.comparison.comparison_definition import ComparisonDefinition
from codesign.insight.comparison.kinds import kind_groups
from codesign.insight.comparison.outcome import SOLVED_SHARE, Outcome, ProblemOutcome
from codesign.insight.comparison.ranking import ALPHA, Ranking, rank_optimizers


def outcome_notes(
    definition: ComparisonDefinition, problems: Sequence[ProblemOutcome]
) -> StringTuple:
    """Notes on partial data, on conclusions that cannot be drawn, and on shares that flatter."""
    notes = []
    n_wanted = len(definition.problems)
    n_seeds = len(definition.seeds)
    short = [problem for problem in problems if len(problem.seeds) < n_seeds]
    if len(problems) < n_wanted or short:
        fewest = min(len(problem.seeds) for problem in problems)
        few = f", with {fewest} to {n_seeds} seeds" if short else ""
        notes.append(f"partial: {len(problems)} of {n_wanted} problems{few}")
    if all(len(problem.seeds) < 2 for problem in problems):
        notes.append("one seed: no spread and no test within a problem can be given")
    outcome = Outcome(definition, tuple(problems), ())
    kinds = kind_groups(outcome.ranked)
    if len(outcome.ranked) < 2:
        notes.append("one problem: nothing can be said of other problems")
    elif len(kinds) < 2:
        notes.append(
            f"one kind of problems ({next(iter(kinds))}): nothing can be said of other kinds; "
            "the intervals are about other problems of this kind"
        )
    elif (ranking := rank_optimizers(outcome)).pairs and ranking.least_holm_p > ALPHA:
        notes.append(few_kinds_words(ranking))
    unknown = [p.name for p in problems if p.truth.kind != "exact"]
    if unknown:
        notes.append(
            f"no exact front (too many designs) of {', '.join(unknown)}: shares are of the "
            "best front that any run here has found, so they flatter"
        )
    for problem in problems:
        notes += [f"{problem.name}: {words}" for words in problem.warnings]
    return (*notes, *_exceptions(problems))


def _exceptions(problems: Sequence[ProblemOutcome]) -> Iterator[str]:
    """Notes that name the optimizers to which a problem is no test."""

    def named(key: str) -> str:
        listed = {problem.name: getattr(problem, key) for problem in problems}
        return ", ".join(f"{name} ({', '.join(x)})" for name, x in listed.items() if x)

    if names := named("tuned"):
        yield (
            f"every problem was used to tune an optimizer, so none is held back: {names}"
            if all(problem.tuned for problem in problems)
            else f"used to tune and therefore left out of ranks and runtimes: {names}"
        )
    if names := named("uninformed"):
        yield (
            f"every problem has rules that some peer's library cannot express: {names}"
            if all(problem.uninformed or problem.tuned for problem in problems)
            else "left out of ranks and runtimes because some peer's library cannot express every "
            f"rule of the space: {names}"
        )
    if names := named("solved_by_hints"):
        yield (
            f"solved by hints, with which {SOLVED_SHARE:.0%} of the best hypervolume need no model "
            f"of results: {names}"
        )


def few_kinds_words(ranking: Ranking) -> str:
    """Strongest result of a test of pairs over so few kinds."""
    return (
        f"{len(ranking.blocks)} kinds of problems: Wilcoxon's test cannot give a p below "
        f"{ranking.least_p:.2g}, {ranking.least_holm_p:.2g} after Holm's correction, however large "
        f"a difference is; {ranking.fewest_blocks} kinds are the fewest that can tell a pair apart "
        f"at {100 * ALPHA:g} %"
    )
