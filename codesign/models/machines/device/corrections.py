"""Measured corrections of the laws of kernels: what a device's libraries make of a shape.

A law of few constants knows no library's choice of tiles, splits and kernels. For devices that were
measured, the time of a law is multiplied by what kernels of similar sizes took of it: the mean of a
Gaussian process over the logarithms of measured over predicted times [Rasmussen2006]_, eq. 2.25.
Far from measured sizes it ends at 1, and on other chips there is none. Devices of one chip share
corrections (``kernels_of`` of their files), each measured time over what the law of its own device
says. They depend on the kernel's sizes alone: a faster memory, link or multiplier stays faster.

``python -m validation.studies.fit_corrections`` writes ``corrections.npz`` from kernels of
ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0.

.. [Rasmussen2006] C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning,
   2006.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import (
    BoolArray,
    Column,
    FloatArray,
    Floats,
    StringArray,
    StringList,
    combined,
    distinct,
)
from codesign.base.records import frozen

CORRECTIONS_FILE = Path(__file__).parent / "corrections.npz"
RANGE_OCTAVES = 3.0
"""Factor of 2 to this power in a size over which kernels become unlike [ours]: of 2, 3, 4 and 6 the
best for whole geometries that were left out."""
OCTAVE_STEPS = 256.0
"""Steps of an octave in the file."""
_DIGITS = 6
"""Decimals of the logarithm of a correction."""

_DIRECTION = np.sqrt(np.arange(2.0, 12.0))

Formats = FloatArray | BoolArray | StringArray | float | bool | str


@frozen
class KernelCase:
    """Kernels on one or several devices; every field broadcasts.

    Attributes:
        formats: What tells kernels of a family apart: phases, formats.
        octaves: Logarithms to the base 2 of their sizes.
        least: The least that a law's time may be multiplied by.
    """

    formats: tuple[Formats, ...]
    octaves: tuple[Floats, ...]
    least: Floats = 0.0

    def points(self, n: int) -> FloatArray:
        """(n, s) logarithms of all sizes."""
        return np.stack([np.broadcast_to(size, (n,)) for size in self.octaves], axis=-1)

    def groups(self, devices: Column) -> tuple[NDArray[np.int64], StringList]:
        """(n,) number of each kernel's group, and the names of the groups."""
        words = [[str(value) for value in devices.values]]
        codes = [devices.codes]
        for column in self.formats:
            values, code = np.unique(column, return_inverse=True)
            words.append(
                [
                    (str(value) if isinstance(value, str) else f"{float(value):g}")
                    for value in values.tolist()
                ]
            )
            codes.append(np.broadcast_to(code.reshape(np.shape(column)), (len(devices),)))
        number, positions = distinct(*combined(*codes))
        columns = [code[positions].tolist() for code in codes]
        return number, [
            " ".join(texts[code] for texts, code in zip(words, row, strict=True))
            for row in zip(*columns, strict=True)
        ]


@frozen
class MeasuredGroup:
    """Kernels of one chip and one kind that were measured.

    Attributes:
        points: (q, s) logarithms of their sizes, to the base 2.
        weights: (q,) weights of their similarities.
    """

    points: FloatArray
    weights: FloatArray

    def log_factors(self, points: FloatArray) -> FloatArray:
        """(n,) logarithm of measured over predicted time that is expected at (n, s) sizes."""
        # Designs of a batch share few shapes; a random direction tells different ones apart.
        key = points @ _DIRECTION[: points.shape[1]]
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        logs = similarity(points[first], self.points) @ self.weights
        # The last digits of sums depend on how many designs are evaluated together.
        return np.round(logs, _DIGITS)[number]


def similarity(points: FloatArray, others: FloatArray) -> FloatArray:
    """(n, q) correlation of kernels of (n, s) and (q, s) sizes, in octaves: Matern's with 3/2.

    Examples:
        >>> float(similarity(np.zeros((1, 1)), np.zeros((1, 1)))[0, 0])
        1.0
    """
    scale = np.sqrt(3.0) / RANGE_OCTAVES
    points = points * scale
    others = others * scale
    # In place: campaigns spend a third of the corrections' time on this.
    distance = points @ (-2.0 * others.T)
    distance += np.einsum("ns,ns->n", points, points)[:, None]
    distance += np.einsum("qs,qs->q", others, others)
    np.sqrt(np.maximum(distance, 0.0, out=distance), out=distance)
    values = np.exp(-distance)
    distance += 1.0
    values *= distance
    return values


def correction(
    family: str,
    devices: Column,
    case: KernelCase,
    measured: Mapping[str, MeasuredGroup] | None = None,
) -> FloatArray:
    """(n,) measured over predicted time that is expected; 1 where nothing like it was measured.

    Args:
        family: Family of kernels, as its file of constants is called.
        devices: (n,) names of the devices' chips, ``measured_name`` of a device.
        measured: Measured kernels by group; None: those that are shipped.
    """
    measured = measured_groups(family) if measured is None else measured
    number, names = case.groups(devices)
    logs = np.zeros(len(devices))
    if any(name in measured for name in names):
        points = case.points(len(devices))
        for group, name in enumerate(names):
            if name in measured:
                rows = np.flatnonzero(number == group)
                logs[rows] = measured[name].log_factors(points[rows])
    return np.where(logs != 0.0, np.maximum(np.exp(logs), case.least), 1.0)


@cache
def measured_groups(family: str) -> Mapping[str, MeasuredGroup]:
    """The shipped kernels of a family that were measured, by group."""
    with np.load(CORRECTIONS_FILE) as arrays:
        if f"{family} names" not in arrays:
            return {}
        names = arrays[f"{family} names"].tolist()
        ends = arrays[f"{family} ends"]
        points = np.split(arrays[f"{family} points"] / OCTAVE_STEPS, ends[:-1])
        weights = np.split(arrays[f"{family} weights"].astype(np.float64), ends[:-1])
    groups = zip(points, weights, strict=True)
    return dict(zip(names, (MeasuredGroup(*group) for group in groups), strict=True))
