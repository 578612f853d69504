"""Comparisons: optimizers against each other on problems whose exact front is known."""

from codesign.insight.comparison.comparison import Comparison
from codesign.insight.comparison.comparison_definition import ComparisonDefinition, load_comparison
from codesign.insight.comparison.outcome import Outcome, ProblemOutcome, RunOutcome
from codesign.insight.comparison.ranking import PairTest, Ranking, rank_optimizers
from codesign.insight.comparison.truth import Truth

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
