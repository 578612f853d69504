"""Explanations of a problem by its exact front."""

from codesign.insight.explanation.explained_front import STEP, FrontExplanation, explain_front
from codesign.insight.explanation.variation import Fronts, FrontsProgress, Variation

__all__ = ["STEP", "FrontExplanation", "Fronts", "FrontsProgress", "Variation", "explain_front"]
