"""Serving engines: records of what each adds to the laws of kernels.

An engine is one file of ``engines``, or of a user. It names the starter of the kernels, its host's
time and how much longer its experts take than the fastest kernels, to which laws are fitted.

An engine that starts kernels one by one cannot run them faster than its host starts them, however
many devices share each of them. What the host does before and after, no kernel hides: it schedules
a step, prepares the inputs of prompts and books the tokens.

Collectives of large messages took such an engine longer than its links need, as if they passed
through the host's memory.

Measured collectives run in step; those of an engine begin when the last of their ranks has ended
what came before. If the ranks' times vary by a standard deviation, the last of ``n`` is about
``sqrt(2 ln n)`` of them behind the mean.

.. [Patel2023] P. Patel et al., Splitwise: Efficient generative LLM inference using phase splitting,
   2023; measurements in Mutinifni/splitwise-sim.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from codesign.base.columns import BoolArray, FloatArray, Floats, StringDict, StringList
from codesign.base.errors import check_known
from codesign.base.schema import (
    Fraction,
    Latency,
    PositiveAmount,
    Record,
    parse_record,
    read_document,
)

LARGE_MESSAGE_BYTES = float(56 << 20)
"""Beyond this, collectives of an engine of 2023 leave the links [ours]. Hidden states of 2,048
tokens, 32 MiB of Llama-2-70B and 56 of BLOOM-176B, are as fast as by NCCL, those of 4,096, 64 and
112 MiB, are not [Patel2023]_."""
_RECENT_HOST_BYTES_PER_S = 48e9
"""Rate to a host from which on it is a recent one [ours]. Between PCIe 4, 32 GB/s, of hosts until
2022, and PCIe 5, 64 GB/s, of those since (Sapphire Rapids, Genoa)."""
_EARLIER_HOST_BYTES_PER_S = 32e9
ENGINES_FOLDER = Path(__file__).parent / "engines"


class Engine(Record):
    """One serving engine of some version.

    Attributes:
        name: Name for people.
        starter: ``graphs``, which devices replay in step; ``streams``, which a compiled host fills
            ahead; ``eager``: the host starts one kernel after the other.
        host_request: Host time of a step that no kernel hides, for each decoding request of a rank;
            added to the starter's.
        expert_time: Time of experts over that of the fastest kernels, with uneven loads, by kernel
            of ``core_flop_per_cycle``; measured on devices with asynchronous cores, and used on
            these.
        expert_imbalance: Tokens of the fullest of the devices that exchange them over the mean; 1:
            even loads.
        deep_gemm: Whether experts behind an exchange run DeepGEMM's kernels of ``fp8-block`` on
            Hopper.
        ranges: Lowest and highest values of constants; wide where nobody published any.
        sources: Origin of each constant, or of all.
    """

    name: str
    starter: Literal["graphs", "streams", "eager"]
    host_request: Latency = 0.0
    expert_time: dict[str, Annotated[Fraction, Field(gt=0)]] = Field(default_factory=dict)
    expert_imbalance: Annotated[Fraction, Field(ge=1)] = 1.0
    deep_gemm: bool = True
    ranges: dict[str, tuple[Any, Any]] = Field(default_factory=dict)
    sources: StringDict = Field(min_length=1)


def list_engines() -> StringList:
    """The names of the bundled engines."""
    return sorted(path.stem for path in ENGINES_FOLDER.glob("*.yaml"))


@cache
def load_engine(name_or_path: str) -> Engine:
    """An engine by its name, or by the path of its file.

    Raises:
        UnknownNameError: No such engine; the nearest is offered.
        InputError: The file is missing, or something in it is wrong.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        check_known("engine", name_or_path, list_engines())
        path = ENGINES_FOLDER / f"{name_or_path}.yaml"
    return parse_record(read_document(path), Engine)


class EngineConstants(Record):
    """The free constants of serving engines on a class of devices.

    Attributes:
        host_start: Seconds in which a recent host (of an H100, with PCIe 5) starts a kernel, where
            it starts each alone.
        earlier_host_start: Seconds in which an earlier host does (of an A100, with PCIe 4).
        host_step: Seconds of such a host in each step that no kernel hides: it schedules, hands
            inputs to the ranks and samples.
        host_request: Seconds more for each further request that decodes, of which it tells every
            rank.
        host_prompt: Seconds more in a step that has prompts, whose inputs and blocks it prepares.
        host_copy: Rate at which large messages pass a ring, in parts of that between a device and
            its host.
        rank_deviation: Standard deviation of the ranks' times between two collectives.
    """

    host_start: Latency
    earlier_host_start: Latency
    host_step: Latency
    host_request: Latency
    host_prompt: Latency
    host_copy: PositiveAmount
    rank_deviation: Latency


def host_starts_s(
    n_kernels: Floats, host_bandwidth_bytes_per_s: Floats, constants: EngineConstants
) -> FloatArray:
    """Seconds in which a host starts kernels one by one.

    Limiting assumption: a host is as fast as those of the devices that it was sold with, which the
    rate of the link between them tells; an unstated rate is an earlier host's.

    Args:
        host_bandwidth_bytes_per_s: Rate between a device and its host's memory.

    Examples:
        >>> from codesign.models.machines.device.constants import load_constants
        >>> engine = load_constants("engine", EngineConstants, "gpu").model_copy(
        ...     update={"host_start": 20e-6, "earlier_host_start": 40e-6}
        ... )
        >>> [round(float(host_starts_s(1000, rate, engine)), 3) for rate in (64e9, 32e9)]
        [0.02, 0.04]
    """
    is_recent = host_bandwidth_bytes_per_s > _RECENT_HOST_BYTES_PER_S
    return n_kernels * np.where(is_recent, constants.host_start, constants.earlier_host_start)


def host_own_s(
    has_prompts: BoolArray | bool, n_decoding: Floats, n_ranks: Floats, constants: EngineConstants
) -> FloatArray:
    """Seconds of a step in which the host does what no kernel hides.

    Limiting assumption: several prompts take the host as long as one, and so do several requests
    on one rank alone, which is a thread of the engine [ours]; DistServe's profiles have it so.

    Args:
        has_prompts: Whether the step has prompts.
        n_decoding: Requests that decode in the step.
        n_ranks: Devices of one instance.
    """
    further = np.where(n_ranks > 1, np.maximum(n_decoding - 1.0, 0.0), 0.0)
    prompts = np.where(has_prompts, constants.host_prompt, 0.0)
    return constants.host_step + constants.host_request * further + prompts


def host_copy_s(
    message_bytes: Floats,
    sent_bytes: Floats,
    host_bandwidth_bytes_per_s: Floats,
    constants: EngineConstants,
) -> FloatArray:
    """Seconds that a collective takes longer because its message is large; 0 if it is not.

    Why they do so is not known: Splitwise's first tokens alone show it, on A100 and H100, by what
    one device of a ring sends over the rate of its host [Patel2023]_. An unstated rate is that of
    PCIe 4.

    Args:
        message_bytes: What every device holds of the message.
        sent_bytes: What a device of a ring sends of it.
        host_bandwidth_bytes_per_s: Rate between a device and its host's memory.
    """
    stated = np.asarray(host_bandwidth_bytes_per_s, np.float64)
    rate = constants.host_copy * np.where(np.isnan(stated), _EARLIER_HOST_BYTES_PER_S, stated)
    is_large = message_bytes > LARGE_MESSAGE_BYTES
    return np.where(is_large, sent_bytes / rate, 0.0)


def rank_wait_s(n_ranks: Floats, constants: EngineConstants) -> FloatArray:
    """Seconds that a collective waits for the last of its ranks; 0 for one rank alone.

    Examples:
        >>> from codesign.models.machines.device.constants import load_constants
        >>> engine = load_constants("engine", EngineConstants, "gpu").model_copy(
        ...     update={"rank_deviation": 10e-6}
        ... )
        >>> round(float(rank_wait_s(8, engine)) * 1e6, 1)
        20.4
    """
    return constants.rank_deviation * np.sqrt(2.0 * np.log(np.maximum(n_ranks, 1.0)))
