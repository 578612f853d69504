"""The transaction-level simulator as an evaluator; see ``simulation_evaluator.py``."""

from codesign.evaluators.simulation.simulation_evaluator import (
    SimulationEvaluator,
    SimulationOptions,
)

__all__ = ["SimulationEvaluator", "SimulationOptions"]
