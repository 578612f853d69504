"""What results mean: comparisons of optimizers, explanations of fronts, uncertainty."""
