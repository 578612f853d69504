"""Simulators of others as evaluators: their environments, and the programs that campaigns run."""
