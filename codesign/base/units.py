"""Quantities with units: the only place where a unit string is read or printed.

Inside codesign every number is a plain float in coherent SI units (seconds, metres, bytes,
joules, watts, FLOP) and the name says so. A unit is a scale and a vector of exponents over
the base dimensions, so that expressions can be checked for their dimension.

``degC`` has the scale of a kelvin, for temperatures that are only compared with one another.
``B`` is a byte, ``bit`` an eighth of one, ``GB`` 1e9 and ``GiB`` 2**30 bytes; one ``MAC`` is
2 ``FLOP``.
"""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache

from codesign.base.errors import InputError
from codesign.base.records import frozen

_MOST_POWER = 9
"""The largest exponent that a unit is read with; none that is used has more than 3."""

BASES = ("s", "m", "B", "J", "FLOP", "token", "USD", "g", "K")
"""Base dimensions, in the order of ``Unit.exponents``: time, length, data, energy, arithmetic,
tokens, money, mass (of CO2 equivalents), temperature."""


@frozen
class Unit:
    """A scale to coherent SI units and the exponent of each base dimension (see ``BASES``)."""

    scale: float
    exponents: tuple[int, ...] = (0,) * len(BASES)

    def __mul__(self, factor: Unit) -> Unit:
        pairs = zip(self.exponents, factor.exponents, strict=True)
        return Unit(self.scale * factor.scale, tuple(a + b for a, b in pairs))

    def __truediv__(self, divisor: Unit) -> Unit:
        return self * divisor.power(-1)

    def power(self, exponent: int) -> Unit:
        return Unit(self.scale**exponent, tuple(a * exponent for a in self.exponents))

    @property
    def is_dimensionless(self) -> bool:
        return not any(self.exponents)


DIMENSIONLESS = Unit(1.0)


def _base(name: str, scale: float = 1.0) -> Unit:
    return Unit(scale, tuple(int(name == base) for base in BASES))


_SI = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}
_LARGE = {"T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


@cache
def _atoms() -> dict[str, Unit]:
    second = _base("s")
    joule = _base("J")
    byte = _base("B")
    plain = {
        "s": second,
        "Hz": second.power(-1),
        "m": _base("m"),
        "B": byte,
        "bit": _base("B", 1 / 8),
        "J": joule,
        "W": joule / second,
        "Wh": Unit(3600.0) * joule,
        "FLOP": _base("FLOP"),
        "MAC": _base("FLOP", 2.0),
        "token": _base("token"),
        "USD": _base("USD"),
        "g": _base("g", 1e-3),
        "K": _base("K"),
    }
    atoms = dict(plain)
    for name, unit in plain.items():
        prefixes = dict(_SI)
        if name not in ("s", "m"):
            prefixes |= _LARGE
        if name in ("B", "bit"):
            prefixes |= _BINARY
        for prefix, factor in prefixes.items():
            atoms[prefix + name] = Unit(factor) * unit
    atoms |= {
        "tokens": plain["token"],
        "min": Unit(60.0) * second,
        "h": Unit(3600.0) * second,
        "year": Unit(31_557_600.0) * second,
        "degC": plain["K"],
        "cm": _base("m", 1e-2),
        "in": _base("m", 0.0254),
        "%": Unit(1e-2),
        "1": DIMENSIONLESS,
    }
    return atoms


_NUMBER = r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][-+]?\d+)?"
_QUANTITY = re.compile(rf"^\s*({_NUMBER})\s*(.*?)\s*$")
_MOST_CHARACTERS = 200
_FACTOR = re.compile(r"([*/]?)\s*([A-Za-zµ%]+|1)(?:\^(-?\d+))?\s*")


@lru_cache(maxsize=1024)
def parse_unit(text: str) -> Unit:
    """The unit written as factors joined by ``*`` and ``/``, such as ``pJ/bit`` or ``mW/GB``.

    ``mm²`` and ``°C``, as numbers are printed, are ``mm^2`` and ``degC``.

    Raises:
        InputError: A factor is not a unit that codesign knows.

    Examples:
        >>> parse_unit("mW/mm²") == parse_unit("mW/mm^2")
        True
    """
    text = text.strip().replace("²", "^2").replace("°C", "degC")
    unit = DIMENSIONLESS
    position = 0
    while position < len(text):
        match = _FACTOR.match(text, position)
        if match is None or (not match[1]) != (position == 0):
            raise InputError(f"cannot read the unit {text!r}; a power is written as in 'mm^2'")
        atom = _atoms().get(match[2])
        if atom is None:
            folded = {name.lower(): name for name in _atoms()}
            near = folded.get(match[2].lower())
            hint = f"; did you mean {near!r}?" if near else ""
            raise InputError(f"unknown unit {match[2]!r} in {text!r}{hint}")
        exponent = _exponent(match[3] or "1") * (-1 if match[1] == "/" else 1)
        unit = unit * atom.power(exponent)
        position = match.end()
    return unit


def _exponent(text: str) -> int:
    digits = text.lstrip("-0") or "0"
    if len(digits) > 1:
        raise InputError(f"expected an exponent of a unit up to {_MOST_POWER}, got {text}")
    return -int(digits) if text.startswith("-") else int(digits)


def _match(text: str) -> re.Match[str] | None:
    """A number and what follows it; in long texts none is looked for, since it takes long."""
    return _QUANTITY.match(text) if len(text) <= _MOST_CHARACTERS else None


def written_quantity(text: str) -> tuple[float, str] | None:
    """The number as it is written and the text of its unit; None: the text is no quantity.

    Examples:
        >>> written_quantity("819.2 GB/s")
        (819.2, 'GB/s')
        >>> written_quantity("2 parsec")
    """
    match = _match(text)
    if match is None:
        return None
    try:
        parse_unit(match[2])
    except InputError:
        return None
    return float(match[1].replace("_", "")), match[2]


def split_quantity(text: str) -> tuple[float, Unit, str]:
    """The number in coherent SI units, its unit, and the unit's text.

    Raises:
        InputError: The text is not a number followed by a unit.
    """
    match = _match(text)
    if match is None:
        raise InputError(f"expected a number with a unit, got {text!r}")
    unit = parse_unit(match[2])
    return float(match[1].replace("_", "")) * unit.scale, unit, match[2]


def parse_quantity(value: object, expected: str) -> float:
    """A quantity such as ``"819.2 GB/s"`` as a float in coherent SI units.

    Args:
        value: Text with a unit. A bare number is accepted only where ``expected`` has no
            dimension: a number without its unit is how factors of 1000 are lost.
        expected: Any unit of the wanted dimension, such as ``"GB/s"``.

    Raises:
        InputError: No unit, an unknown unit, another dimension, or not a finite number.
    """
    wanted_parse_unit = parse_unit(expected)
    is_plain = wanted_parse_unit == DIMENSIONLESS
    valid = "a plain number" if is_plain else f"a quantity in {expected}"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"expected {valid}, got {value!r}")
    if isinstance(value, str):
        if _match(value) is None:
            words = "a finite number" if is_plain else f"a number with a unit such as {expected}"
            raise InputError(f"expected {words}, got {value!r}")
        try:
            number, unit, text = split_quantity(value)
        except InputError as error:
            raise InputError(f"{error}; expected {valid}") from None
    else:
        number = _float_value(value)
        unit = DIMENSIONLESS
        text = ""
    if unit.exponents != wanted_parse_unit.exponents:
        got = f"{value!r}" + ("" if text else f" (no unit): write {value} {expected}")
        raise InputError(f"expected {valid}, got {got}")
    if not math.isfinite(number):
        raise InputError(f"expected a finite number, got {value!r}")
    return number


def _float_value(value: float) -> float:
    """``value`` as a float; infinite where it is a whole number beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def format_quantity(value: float, unit: str, digits: int = 4) -> str:
    """``value``, a float in coherent SI units, printed in ``unit`` with ``digits`` figures.

    >>> format_quantity(8.192e11, "GB/s")
    '819.2 GB/s'
    """
    return f"{value / parse_unit(unit).scale:.{digits}g} {unit}".rstrip()


SI_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""),
               (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))  # fmt: skip
"""Factor and prefix, the largest first."""


def format_engineering(value: float, unit: str, digits: int = 4) -> str:
    """``value`` in ``unit`` (without prefix) with the SI prefix that leaves 1 to 999.

    >>> format_engineering(8.192e11, "B/s")
    '819.2 GB/s'
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".rstrip()
    for factor, prefix in SI_PREFIXES:
        if abs(value) >= factor * (1 - 5e-5):
            return f"{value / factor:.{digits}g} {prefix}{unit}".rstrip()
    return f"{value:.{digits}g} {unit}".rstrip()


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times powers of ten that is no smaller, up to rounding.

    >>> round_step(0.3), round_step(20.0)
    (0.5, 20.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= least * (1 - 1e-9))
