"""Cost per token against speed of serving a model: Epoch's inference economics."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Load the evaluator when it is first used; other modules need only its records."""
    if name != "EconomicsEvaluator":
        raise AttributeError(name)
    from codesign.evaluators.economics.economics_evaluator import EconomicsEvaluator

    return EconomicsEvaluator
