"""Designs with a name, such as the published ones, that stand beside a front."""

from __future__ import annotations

from codesign.base.columns import Arrays, BoolArray, FieldRows, Strings
from codesign.base.records import frozen


@frozen
class MarkedDesigns:
    """Designs to show by name next to a front.

    Attributes:
        names: One per design.
        metrics: (k,) values by metric.
        feasible: (k,) True if every limit of the campaign is kept.
        designs: Each by parameter; None where absent.
    """

    names: Strings
    metrics: Arrays
    feasible: BoolArray
    designs: FieldRows = ()
