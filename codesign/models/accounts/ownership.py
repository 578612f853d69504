"""Price of an hour of a device: a rent, or a purchase spread over its life, and its power."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatArray
from codesign.base.schema import Amount, PositiveAmount, Record, Share

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


def written_off_per_hour(
    capital: FloatArray | float, years: FloatArray | float, busy_share: FloatArray | float = 1.0
) -> FloatArray | float:
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
    capital_usd: FloatArray | float,
    watts: FloatArray | float,
    years: FloatArray | float,
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
    """
    capital = written_off_per_hour(capital_usd, years, busy_share)
    return np.asarray(capital + watts / 1e3 * pue * electricity_usd_per_kwh)


class Ownership(Record):
    """A device that is bought: price, life and power, on one device.

    Limiting assumption: no interest, staff, building or host; give a capital cost that includes
    what you want counted.
    """

    capital_cost_usd: PositiveAmount
    """Price of a device with its share of host and network."""
    power_watts: Amount
    """Power that the device draws while it serves."""
    lifetime_years: PositiveAmount = LIFETIME_YEARS
    """Years over which the device is written off."""
    busy_share: Share = 1.0
    """Share of its life in which the device serves and draws power; the busy hours pay for the
    idle ones."""
    electricity_usd_per_kwh: Amount = ELECTRICITY_USD_PER_KWH
    """Price of electricity from the utility."""
    pue: Annotated[float, Field(ge=1, allow_inf_nan=False)] = PUE
    """Power of the data center over that of its machines (power usage effectiveness)."""

    @property
    def usd_per_hour(self) -> float:
        """Price of an hour in which the device serves.

        Examples:
            >>> bought = Ownership(capital_cost_usd=8766, power_watts=1000, lifetime_years=1,
            ...                    electricity_usd_per_kwh=0.1, pue=1.5)
            >>> round(bought.usd_per_hour, 9)  # 1 dollar of the device, 1.5 kWh
            1.15
        """
        return float(
            owned_usd_per_hour(
                self.capital_cost_usd,
                self.power_watts,
                self.lifetime_years,
                self.busy_share,
                self.electricity_usd_per_kwh,
                self.pue,
            )
        )
