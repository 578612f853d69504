"""Engineering problems: of the RE suite [Tanabe2020]_, and one that keeps its limits.

In RE problems what exceeds the limits of the original problem is summed up as the last objective,
so that no design is infeasible. The equations are the paper's, whose supplement cites where each
comes from. CRE23 of the same suite keeps the limits.

.. [Tanabe2020] Tanabe, Ishibuchi, "An easy-to-use real-world multi-objective optimization problem
   suite", Applied Soft Computing 89, 106078, 2020, and its supplement.
.. [AmirHasegawa1989] Amir, Hasegawa, "Nonlinear mixed-discrete structural optimization", Journal of
   Structural Engineering 115(3), 1989: the areas of reinforcement of RE22.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from codesign.base.columns import ArrayList, Arrays, FloatArray
from codesign.base.schema import read_document
from codesign.evaluators.functions.function import Values, exceeded

_AREAS = np.array(read_document(Path(__file__).with_name("bars.yaml")).data["areas_in2"])
"""Square inches of reinforcing bars that are made [AmirHasegawa1989]_."""


def re21(x: FloatArray, m: int) -> Values:
    """Four-bar truss: volume and displacement; force 10 kN, modulus 2e5 kN/cm^2, length 200 cm."""
    x1, x2, x3, x4 = x.T
    volume = 200.0 * (2.0 * x1 + np.sqrt(2.0) * x2 + np.sqrt(x3) + x4)
    strain = 2.0 / x1 + 2.0 * np.sqrt(2.0) / x2 - 2.0 * np.sqrt(2.0) / x3 + 2.0 / x4
    return [volume, 10.0 * 200.0 / 2e5 * strain], []


def re22(x: FloatArray, m: int) -> Values:
    """Reinforced concrete beam: cost, and what exceeds two limits; the nearest bars are taken."""
    nearest = np.abs(_AREAS - x[:, :1]).argmin(axis=1)
    area = _AREAS[nearest]
    width = x[:, 1]
    depth = x[:, 2]
    strength = area * depth - 7.735 * area**2 / width - 180.0
    slenderness = 4.0 - depth / width
    return [29.4 * area + 0.6 * width * depth, exceeded(strength, slenderness)], []


def re24(x: FloatArray, m: int) -> Values:
    """Hatch cover: weight, and what exceeds four limits of stress, shear, deflection, buckling."""
    flange, height = x.T
    bending = 4500.0 / (flange * height)
    buckling = 7e5 * flange**2 / 100.0
    deflection = 56.2e4 / (7e5 * flange * height**2)
    excess = exceeded(
        1.0 - bending / 700.0,
        1.0 - 1800.0 / height / 450.0,
        1.0 - deflection / 1.5,
        1.0 - bending / buckling,
    )
    return [flange + 120.0 * height, excess], []


def re31(x: FloatArray, m: int) -> Values:
    """Two-bar truss: volume, stress of the first bar, and what exceeds three limits."""
    area1, area2, height = x.T
    long = np.sqrt(16.0 + height**2)
    short = np.sqrt(1.0 + height**2)
    volume = area1 * long + area2 * short
    stress = 20.0 * long / (area1 * height)
    other_stress = 80.0 * short / (area2 * height)
    return [volume, stress, exceeded(0.1 - volume, 1e5 - stress, 1e5 - other_stress)], []


def _disc_brake(x: FloatArray) -> tuple[ArrayList, ArrayList]:
    """Mass and stopping time of a disc brake, and the margins of its four limits."""
    inner, outer, force, surfaces = x.T
    squares = outer**2 - inner**2
    cubes = outer**3 - inner**3
    mass = 4.9e-5 * squares * (surfaces - 1.0)
    time = 9.82e6 * squares / (force * surfaces * cubes)
    margins = [
        outer - inner - 20.0,
        0.4 - force / (3.14 * squares),
        1.0 - 2.22e-3 * force * cubes / squares**2,
        2.66e-2 * force * surfaces * cubes / squares - 900.0,
    ]
    return [mass, time], margins


def re33(x: FloatArray, m: int) -> Values:
    """Disc brake: mass, stopping time, and what exceeds four limits."""
    objectives, margins = _disc_brake(x)
    return [*objectives, exceeded(*margins)], []


def cre23(x: FloatArray, m: int) -> Values:
    """Disc brake: mass and stopping time within four limits."""
    objectives, margins = _disc_brake(x)
    return objectives, [-margin for margin in margins]


_FACE, _COMBUSTION, _TIP = (
    "0.692 + 0.477 a - 0.687 h - 0.080 o - 0.0650 p - 0.167 a a - 0.0129 h a + 0.0796 h h"
    " - 0.0634 o a - 0.0257 o h + 0.0877 o o - 0.0521 p a + 0.00156 p h + 0.00198 p o + 0.0184 p p",
    "0.153 - 0.322 a + 0.396 h + 0.424 o + 0.0226 p + 0.175 a a + 0.0185 h a - 0.0701 h h"
    " - 0.251 o a + 0.179 o h + 0.0150 o o + 0.0134 p a + 0.0296 p h + 0.0752 p o + 0.0192 p p",
    "0.370 - 0.205 a + 0.0307 h + 0.108 o + 1.019 p - 0.135 a a + 0.0141 h a + 0.0998 h h"
    " + 0.208 o a - 0.0301 o h - 0.226 o o + 0.353 p a - 0.0497 p o - 0.423 p p + 0.202 h a a"
    " - 0.281 o a a - 0.342 h h a - 0.245 h h o + 0.281 o o h - 0.184 p p a - 0.281 h a o",
)
"""Temperature of the face, combustion length and temperature of the post's tip, of flow angle,
hydrogen and oxygen flow area, and thickness of the tip."""


def re37(x: FloatArray, m: int) -> Values:
    """Rocket injector: greatest temperature of the face, combustion length, and of the post tip."""
    variables = dict(zip("ahop", x.T, strict=True))
    return [_polynomial(text, variables) for text in (_FACE, _COMBUSTION, _TIP)], []


_SIDE_IMPACT = (
    (1.0, "1.16 - 0.3717 x2 x4 - 0.0092928 x3"),
    (0.32, "0.261 - 0.0159 x1 x2 - 0.06486 x1 - 0.019 x2 x7 + 0.0144 x3 x5 + 0.0154464 x6"),
    (0.32, "0.214 + 0.00817 x5 - 0.045195 x1 - 0.0135168 x1 + 0.03099 x2 x6 - 0.018 x2 x7"
           " + 0.007176 x3 + 0.023232 x3 - 0.00364 x5 x6 - 0.018 x2 x2"),
    (0.32, "0.74 - 0.61 x2 - 0.031296 x3 - 0.031872 x7 + 0.227 x2 x2"),
    (32.0, "28.98 + 3.818 x3 - 4.2 x1 x2 + 1.27296 x6 - 2.68065 x7"),
    (32.0, "33.86 + 2.95 x3 - 5.057 x1 x2 - 3.795 x2 - 3.4431 x7 + 1.45728"),
    (32.0, "46.36 - 9.9 x2 - 4.4505 x1"),
    (4.0, "4.72 - 0.5 x4 - 0.19 x2 x3"),
    (9.9, "10.58 - 0.674 x1 x2 - 0.67275 x2"),
    (15.7, "16.45 - 0.489 x3 x7 - 0.843 x5 x6"),
)  # fmt: skip
"""Limits and what they limit; the last are pubic force, velocity of the pillar and of the door."""


def re41(x: FloatArray, m: int) -> Values:
    """Car side impact: weight, pubic force, velocity of the pillar, what exceeds ten limits."""
    variables = {f"x{i}": column for i, column in enumerate(x.T, start=1)}
    weight = "1.98 + 4.9 x1 + 6.67 x2 + 6.98 x3 + 4.01 x4 + 1.78 x5 + 0.00001 x6 + 2.73 x7"
    limited = [_polynomial(text, variables) for _, text in _SIDE_IMPACT]
    limits = (limit for limit, _ in _SIDE_IMPACT)
    excess = exceeded(*(limit - value for limit, value in zip(limits, limited, strict=True)))
    force, pillar, door = limited[-3:]
    return [_polynomial(weight, variables), force, 0.5 * (pillar + door), excess], []


def _polynomial(text: str, variables: Arrays) -> FloatArray:
    """(n,) values of a polynomial whose terms are written as coefficients before variables."""
    total = np.zeros(1)
    for sign, term in re.findall(r"([-+]?) ?([\d.]+(?: [a-z]\d*)*)", text):
        coefficient, *factors = term.split()
        value = math.prod((variables[name] for name in factors), start=float(coefficient))
        total = total - value if sign == "-" else total + value
    return total
