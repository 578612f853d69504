"""A cantilever whose section is of one of four families, each with dimensions of its own [ours].

Small bending of a uniform beam by a force at its free end (Euler and Bernoulli; any textbook, such
as [Gere2013]_, chapter 9): the tip sinks by ``F L^3 / (3 E I)`` and the greatest stress is
``F L c / I``. Shear, buckling of thin walls and the beam's own weight are left out.

.. [Gere2013] Gere, Goodno, "Mechanics of Materials", 8th edition, 2013, and its table of typical
   properties of materials.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.evaluators.functions.function import Values

_FORCE_N, _LENGTH_M = 2000.0, 2.0
"""[ours] A person's weight twice over, at the end of two metres."""
_MODULUS_PA = np.array([200e9, 70e9, 110e9])
_DENSITY_KG_PER_M3 = np.array([7850.0, 2700.0, 4500.0])
_YIELD_PA = np.array([340e6, 270e6, 800e6])
"""Typical values of structural steel, aluminium 6061-T6 and a titanium alloy [Gere2013]_."""


def cantilever(x: FloatArray, m: int) -> Values:
    """Mass and deflection, within the yield stress; a wall thicker than its section fills it."""
    family, _, height, wall, width, flange = x.T[:6]
    inner = np.maximum(height - 2.0 * wall, 0.0)
    inner_width = np.maximum(width - 2.0 * wall, 0.0)
    web = np.maximum(width - wall, 0.0)
    clear = np.maximum(height - 2.0 * flange, 0.0)
    areas = [
        np.pi / 4.0 * height**2,
        np.pi / 4.0 * (height**2 - inner**2),
        width * height - inner_width * inner,
        width * height - web * clear,
    ]
    inertias = [
        np.pi / 64.0 * height**4,
        np.pi / 64.0 * (height**4 - inner**4),
        (width * height**3 - inner_width * inner**3) / 12.0,
        (width * height**3 - web * clear**3) / 12.0,
    ]
    selection = family.astype(np.int64), np.arange(len(x))
    area = np.stack(areas)[selection]
    inertia = np.stack(inertias)[selection]
    material = x[:, 1].astype(np.int64)
    mass = _DENSITY_KG_PER_M3[material] * area * _LENGTH_M
    deflection = _FORCE_N * _LENGTH_M**3 / (3.0 * _MODULUS_PA[material] * inertia)
    stress = _FORCE_N * _LENGTH_M * x[:, 2] / 2.0 / inertia
    return [mass, deflection], [stress / _YIELD_PA[material] - 1.0]
