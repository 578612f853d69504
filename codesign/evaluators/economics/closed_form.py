"""The most tokens per second of a dense model, in closed form.

A network with latency and no limit of bandwidth, two-dimensional tensor parallelism, the critical
batch ([Epoch2025]_ section 2.2.3, Eqs. 9 to 14): the instance size at which further devices add
as much latency as they take from the reads of the weights.

.. [Epoch2025] E. Erdil, Inference economics of language models, Epoch AI, 2025.
"""

from __future__ import annotations

from typing import NamedTuple

HOP_S = 1e-6
"""Latency of one hop (section 2.2.1, after NCCL's LL protocol)."""
REDUCTIONS_PER_LAYER = 4
"""Products after one another in a layer (section 2.2.1)."""


class Fastest(NamedTuple):
    """The optimum.

    Attributes:
        token_time_s: Time between two tokens.
        n_devices: Devices of the instance, a real number.
    """

    token_time_s: float
    n_devices: float


def fastest(weight_bytes: float, n_layers: int, bandwidth_bytes_per_s: float) -> Fastest:
    """The optimal instance (Eq. 13) and its time per token (Eq. 14).

    Args:
        weight_bytes: Bytes of all parameters.
        bandwidth_bytes_per_s: Bandwidth of one device's memory.

    Examples:
        >>> optimum = fastest(2 * 70.55e9, 80, 3.3e12)  # Llama 3 70B on H100s
        >>> round(1 / optimum.token_time_s), round(optimum.n_devices)
        (234, 26)
    """
    latency = n_layers * REDUCTIONS_PER_LAYER * HOP_S
    read = weight_bytes / bandwidth_bytes_per_s
    if read <= latency:
        return Fastest(read, 1.0)
    n_devices = (read / latency) ** (2 / 3)
    return Fastest(3.0 * latency ** (2 / 3) * read ** (1 / 3) - 2.0 * latency, n_devices)
