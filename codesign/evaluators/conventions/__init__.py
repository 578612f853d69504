"""Counting rules of papers and their tools, as small adapters outside the physics."""
