"""Comparisons: optimizers against each other on problems whose exact front is known."""

from codesign.comparison.comparison import Comparison
from codesign.comparison.definition import ComparisonDefinition, load_comparison
from codesign.comparison.outcome import Outcome, ProblemOutcome, RunOutcome
from codesign.comparison.ranking import PairTest, Ranking, rank_optimizers
from codesign.comparison.truth import Truth

__all__ = [
    "Comparison",
    "ComparisonDefinition",
    "Outcome",
    "PairTest",
    "ProblemOutcome",
    "Ranking",
    "RunOutcome",
    "Truth",
    "load_comparison",
    "rank_optimizers",
]
