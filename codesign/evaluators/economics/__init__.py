"""Cost per token against speed of serving a model: Epoch's inference economics."""

from codesign.evaluators.economics.economics_evaluator import EconomicsEvaluator

__all__ = ["EconomicsEvaluator"]
