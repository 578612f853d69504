"""What an exact front says about a problem."""

from codesign.analysis.insight.explained_front import STEP, FrontExplanation, explain_front
from codesign.analysis.insight.variation import Fronts, FrontsProgress, Variation

__all__ = ["STEP", "FrontExplanation", "Fronts", "FrontsProgress", "Variation", "explain_front"]
