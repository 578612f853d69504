"""What an exact front says about a problem."""

from codesign.insight.explanation.explained_front import STEP, FrontExplanation, explain_front
from codesign.insight.explanation.variation import Fronts, FrontsProgress, Variation

__all__ = ["STEP", "FrontExplanation", "Fronts", "FrontsProgress", "Variation", "explain_front"]
