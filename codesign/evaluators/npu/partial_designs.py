"""Designs that are decided in part, and what can become of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign.base.columns import Column, Columns, FloatArray, IntArray, Value


@dataclass(frozen=True)
class PartialDesigns:
    """Designs of which some parameters are undecided.

    Attributes:
        designs: Columns of (n,) of the others.
        undecided: The values that each of the undecided may take.
    """

    designs: Columns
    undecided: Mapping[str, Sequence[Value]]

    @property
    def n(self) -> int:
        """Designs."""
        return len(self.designs["pe_array"])

    def extremes(
        self, parameter: str, function: Callable[[Any], float]
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the least and the largest that a function of the parameter can be."""
        if parameter in self.designs:
            values = self.designs[parameter].lookup(function)
            return values, values
        values_of = self.undecided[parameter]
        possible = [0.0 if value is None else float(function(value)) for value in values_of]
        return np.full(self.n, min(possible)), np.full(self.n, max(possible))

    def codes(self, parameter: str, known: Sequence[str]) -> IntArray | None:
        """(n,) positions in ``known``; None if the parameter is undecided or not there."""
        if parameter not in self.designs:
            return None
        return self.designs[parameter].lookup(lambda value: float(known.index(value))).astype(int)

    def with_most_lanes(self) -> Columns:
        """The designs with a vector length, the longest if it is undecided."""
        if "vector_length" in self.designs:
            return self.designs
        longest = max(self.undecided["vector_length"], key=_number)
        lanes = Column((longest,), np.zeros(self.n, dtype=np.int64))
        return {**self.designs, "vector_length": lanes}


def _number(value: Any) -> float:
    return 0.0 if value is None else float(value)
