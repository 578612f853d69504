"""The same machine, transaction by transaction."""
