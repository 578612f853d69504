"""Design spaces: parameters, conditions, constraints, and batches of designs as integer rows.

The package knows nothing of hardware: a memory technology is a name in a catalog of numbers.
"""

from codesign.space.expression_parser import parse_expression
from codesign.space.expressions import Expression
from codesign.space.parameters import Parameter
from codesign.space.space import DesignSpace
from codesign.space.space_definition import load_space, parse_space
from codesign.space.structure import Derived, SpaceConstraint

__all__ = [
    "Derived",
    "DesignSpace",
    "Expression",
    "Parameter",
    "SpaceConstraint",
    "load_space",
    "parse_expression",
    "parse_space",
]
