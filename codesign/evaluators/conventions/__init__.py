"""How papers and their tools count, as small adapters outside the physics."""
