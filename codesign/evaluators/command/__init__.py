"""Any program as an evaluator; see ``command_evaluator.py`` and docs/simulators.md."""

from codesign.evaluators.command.command_evaluator import SCRATCH, CommandEvaluator
from codesign.evaluators.command.command_options import CommandOptions, CommandWorkload

__all__ = ["SCRATCH", "CommandEvaluator", "CommandOptions", "CommandWorkload"]
