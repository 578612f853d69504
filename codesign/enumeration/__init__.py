"""The exact Pareto front of a whole space."""

from codesign.enumeration.cache import exact_front, stored_front
from codesign.enumeration.enumerate import EnumerationProgress, enumerate_front
from codesign.enumeration.front import ExactFront

__all__ = ["EnumerationProgress", "ExactFront", "enumerate_front", "exact_front", "stored_front"]
