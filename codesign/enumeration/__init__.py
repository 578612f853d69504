"""The exact Pareto front of a whole space."""
