"""Execution of evaluations: from a cache of results, guarded, in several places at once."""
