"""The exact Pareto front of a whole space."""

from codesign.search.enumeration.enumerate import enumerate_front
from codesign.search.enumeration.front import ExactFront
from codesign.search.enumeration.front_cache import (
    exact_front,
    kept_front,
    leaving_nothing_of_the_unattainable,
    read_front,
    stored_front,
    stored_kept_front,
)
from codesign.search.enumeration.kept import KeptFront
from codesign.search.enumeration.wanted import WantedPart

__all__ = [
    "ExactFront",
    "KeptFront",
    "WantedPart",
    "enumerate_front",
    "exact_front",
    "kept_front",
    "leaving_nothing_of_the_unattainable",
    "read_front",
    "stored_front",
    "stored_kept_front",
]
