"""Explanations of a problem by its exact front."""

from codesign.insight.explanation.explained_front import STEP, FrontExplanation, explain_front
from codesign.insight.explanation.variation import Fronts, Variation

__all__ = ["STEP", "FrontExplanation", "Fronts", "Variation", "explain_front"]
