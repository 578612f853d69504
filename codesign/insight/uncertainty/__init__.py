"""Ranges of constants carried through to metrics."""
