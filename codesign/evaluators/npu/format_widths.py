"""Number formats of a design: bytes, widths of operands, groups of layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import numpy as np

from codesign.base.columns import Column, Columns, FloatArray
from codesign.models.machines.npu.stage_records import WeightGroups
from codesign.models.workload import (
    bits_per_element,
    bits_per_weight,
    multiply_bits,
    weight_groups,
    weight_multiply_bits,
)
from codesign.models.workload.precision import FORMAT_KEYS, Convention


def element_bytes(parameter: str, convention: Convention) -> Callable[[str], float]:
    """Gives the bytes of an element of a format of a parameter; of a weight, on average."""
    bits = bits_per_weight if parameter == "weight_format" else bits_per_element
    return lambda name: bits(name, convention) / 8


def widths_of_operands(designs: Columns) -> FloatArray:
    """(2, n) widths of the array's two operands."""
    bits = {name: designs[name].lookup(operand_bits(name)) for name in FORMAT_KEYS}
    wider = np.maximum(bits["weight_format"], bits["kv_format"])
    return np.stack([bits["activation_format"], wider])


def operand_bits(parameter: str) -> Callable[[str], int]:
    """Gives the width at which a format of a parameter multiplies."""
    return weight_multiply_bits if parameter == "weight_format" else multiply_bits


def meaning(parameter: str, convention: Convention, is_whole: bool) -> Callable[[str], Hashable]:
    """Function from a format to a key, equal for formats with equal results.

    Args:
        convention: Convention of the bits of an element.
        is_whole: True for equal metrics but accuracy; False for equal operators.
    """

    def stored(name: str) -> Hashable:
        if parameter == "weight_format":
            return weight_groups(name, convention)
        return bits_per_element(name, convention)

    multiplied = operand_bits(parameter)
    return lambda name: (stored(name), multiplied(name) if is_whole else None)


def groups_of_weights(formats: Column, convention: Convention) -> WeightGroups:
    """Layers by the format of their weights.

    Args:
        formats: (n,) formats of weights, or mixtures of them.
        convention: Of the bits of an element.
    """

    def number(name: str, group: int, field: int) -> float:
        groups = weight_groups(name, convention)
        return groups[group][field] if group < len(groups) else (0.0, groups[0][1])[field]

    names = [str(name) for name in formats.values if name is not None]
    n_groups = max((len(weight_groups(name, convention)) for name in names), default=1)
    shares, bits = (
        np.stack(
            [
                formats.lookup(
                    partial(number, group=group, field=field),
                    absent=float(group == field == 0),
                )
                for group in range(n_groups)
            ]
        )
        for field in (0, 1)
    )
    return WeightGroups(shares, bits / 8)
