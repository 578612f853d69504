"""Price of an hour of a device: a rent, or a purchase spread over its life, and its power."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, Floats

HOURS_PER_YEAR = 8766.0
"""365.25 days."""
_JOULES_PER_KWH = 3.6e6
LIFETIME_YEARS = 6.0
"""Useful life of servers in the books of Alphabet (10-K for 2022) and Microsoft (10-Q of December
2022); agrees with S. Koral, Useful life of servers at tech companies (2023). Amazon and Meta then
had five."""
ELECTRICITY_USD_PER_KWH = 0.08
"""Industrial price in the United States, 2023: 8.0 cents (EIA, Electric Power Monthly, Table 5.3);
agrees with Statista's copy of March 2024, 8.06 cents."""
PUE = 1.58
"""Power of a data center over that of its machines: mean of the Uptime Institute's Global Data
Center Survey 2023; agrees with its Intelligence Update 221 (November 2023)."""


def written_off_per_hour(capital: Floats, years: Floats, busy_share: Floats = 1.0) -> Floats:
    """Part of a price, or of CO2 equivalents, that falls on an hour of serving.

    The arguments broadcast.

    Args:
        capital: Price of what is owned, or what making it emits.
        years: Over which it is written off.
        busy_share: Share of them in which it serves; these hours pay for the idle ones.
    """
    return capital / (years * HOURS_PER_YEAR * busy_share)


def usd_per_joule(electricity_usd_per_kwh: float, pue: float) -> float:
    """Price of a joule that a machine draws, with what the data center adds to it."""
    return electricity_usd_per_kwh * pue / _JOULES_PER_KWH


def owned_usd_per_hour(
    capital_usd: Floats,
    watts: Floats,
    years: Floats,
    busy_share: float,
    electricity_usd_per_kwh: float,
    pue: float,
) -> FloatArray:
    """Price of an hour in which what is owned serves; the arguments broadcast.

    Args:
        capital_usd: Price of it.
        watts: What it draws while it serves.
        years: Over which it is written off.
        busy_share: Share of them in which it serves; these hours pay for the idle ones.
        pue: Power of the data center over that of its machines.

    Examples:
        >>> round(float(owned_usd_per_hour(8766, 1000, 1, 1, 0.1, 1.5)), 9)  # 1 dollar and 1.5 kWh
        1.15
    """
    capital = written_off_per_hour(capital_usd, years, busy_share)
    return np.asarray(capital + watts / 1e3 * pue * electricity_usd_per_kwh)
