"""The evaluators ``sessions`` and ``mix``; see ``sessions_evaluator.py``."""

from codesign.evaluators.sessions.mix_evaluator import MixEvaluator
from codesign.evaluators.sessions.sessions_evaluator import SessionsEvaluator

__all__ = ["MixEvaluator", "SessionsEvaluator"]
