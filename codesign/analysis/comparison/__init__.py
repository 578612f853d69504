"""Comparisons: optimizers against each other on problems whose exact front is known."""

from codesign.analysis.comparison.comparison import Comparison
from codesign.analysis.comparison.comparison_definition import ComparisonDefinition, load_comparison
from codesign.analysis.comparison.outcome import Outcome, ProblemOutcome, RunOutcome
from codesign.analysis.comparison.ranking import PairTest, Ranking, rank_optimizers
from codesign.analysis.comparison.truth import Truth

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
