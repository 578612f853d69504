"""Meaning of results: comparisons of optimizers, explanations of fronts, uncertainty."""
