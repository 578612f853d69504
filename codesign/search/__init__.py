"""Search: problems, observations, optimizers, enumeration, campaigns. It knows no hardware."""
