"""The exact Pareto front of a whole space."""

from codesign.enumeration.enumerate import EnumerationProgress, enumerate_front
from codesign.enumeration.front import ExactFront
from codesign.enumeration.front_cache import (
    exact_front,
    kept_front,
    leaving_nothing_of_the_unattainable,
    stored_front,
    stored_kept_front,
)
from codesign.enumeration.kept import KeptFront
from codesign.enumeration.wanted import WantedPart

__all__ = [
    "EnumerationProgress",
    "ExactFront",
    "KeptFront",
    "WantedPart",
    "enumerate_front",
    "exact_front",
    "kept_front",
    "leaving_nothing_of_the_unattainable",
    "stored_front",
    "stored_kept_front",
]
