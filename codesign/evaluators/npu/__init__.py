"""The analytical NPU evaluator; see ``npu_evaluator.py``."""

from codesign.evaluators.npu.npu_evaluator import NpuEvaluator
from codesign.evaluators.npu.npu_options import NpuOptions

__all__ = ["NpuEvaluator", "NpuOptions"]
