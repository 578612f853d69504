"""The ``sessions`` evaluator; see ``sessions_evaluator.py``."""

from codesign.evaluators.sessions.sessions_evaluator import SessionsEvaluator

__all__ = ["SessionsEvaluator"]
