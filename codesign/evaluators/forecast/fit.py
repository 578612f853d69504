"""Whether a memory holds what a forecast needs, and if not, what would fit."""

from __future__ import annotations

import math

from codesign.base.units import format_engineering
from codesign.evaluators.forecast.forecast_explanation import Forecast
from codesign.evaluators.forecast.forecast_options import ForecastRequest

NARROW = {"weight_format": "int4", "kv_format": "int4"}
"""The formats of LIFE's narrowest variant, ``bf16-int4-kv4``."""


def misfit(
    forecast: Forecast, narrow: Forecast, request: ForecastRequest, capacity_bytes: float
) -> str | None:
    """Shortfall of a memory, and the changes that would fit; None if it holds all.

    Limiting assumption: activations and buffers are not counted.

    Args:
        forecast: Forecast of the model under its variant.
        narrow: Forecast of the model with ``NARROW`` formats.
    """
    need = forecast.memory_bytes
    if need <= capacity_bytes:
        return None
    weights = forecast.inference.weight_bytes()
    kv_bytes_per_request = forecast.inference.kv_bytes(
        request.tokens.prompt_tokens + request.tokens.generated_tokens
    )
    ways = ["--variant bf16-int4-kv4"] if narrow.memory_bytes <= capacity_bytes else []
    batch = int((capacity_bytes - weights) // kv_bytes_per_request)
    if batch >= 1:
        ways.append(f"--batch {batch}")
    ways.append(f"{math.ceil(need / capacity_bytes)} devices (see codesign size)")
    has, needs, classes, over = (
        format_engineering(value, "B")
        for value in (capacity_bytes, need, weights, need - capacity_bytes)
    )
    return (
        f"expected at most {has} of weights and KV cache, got {needs} ({classes} of weights), "
        f"{over} too much; would fit: {', '.join(ways)}; "
        "--tops and --gbps alone forecast without a capacity"
    )
