"""Systems of pools: machines that prefill and machines that decode, joined by links."""

from codesign.evaluators.system.system_evaluator import SystemEvaluator

__all__ = ["SystemEvaluator"]
