"""The ``forecast`` evaluator: what inference asks of any machine, and how long one would take."""

from codesign.evaluators.forecast.forecast_evaluator import ForecastEvaluator

__all__ = ["ForecastEvaluator"]
