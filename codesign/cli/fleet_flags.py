"""Flags of ``codesign arrivals``: the requests, the engines, the pools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from codesign.cli.flag_records import filled_keys, flag, flag_names, token_flag
from codesign.cli.flags import naming, number, quantity

if TYPE_CHECKING:
    from codesign.models.deployments.queueing import EngineLimits


@dataclass(frozen=True)
class StreamFlags:
    """The requests that arrive."""

    requests_per_s: float | None = flag("Requests that arrive in a second, at random.")
    at_once: bool = flag(
        "All requests are there from the start, as offline benchmarks have them; instead of "
        "--requests-per-s.",
        False,
        "--at-once",
    )
    requests: int = flag("Requests that are drawn.", 1000, min=1)
    trace: Path | None = flag(
        "CSV file of requests, with columns arrival_s, prompt_tokens and generated_tokens, instead "
        "of drawn ones."
    )
    seed: int = flag("Seed of the arrivals that are drawn.", 0, min=0)


@dataclass(frozen=True)
class EngineFlags:
    """Steps of a machine."""

    record: ClassVar[str] = "codesign.models.deployments.queueing:EngineLimits"
    policy: str | None = flag()
    max_sequences: int | None = flag()
    max_batched_tokens: int | None = token_flag()
    memory_fraction: float = flag(
        "Part of the memory that weights and KV cache may take.", 0.9, key=""
    )
    plans_ahead: bool = flag(
        "Choose the next step while one runs, so that the host costs no time.",
        True,
        "--plan-ahead/--no-plan-ahead",
    )
    reserves_answers: bool = flag(
        "Run a request only where its answer has room, too, so that none is preempted, as "
        "TensorRT-LLM does.",
        False,
        "--reserve-answers",
    )

    def limits(self) -> EngineLimits:
        """Steps of a machine whose cache size is open.

        Raises:
            InputError: A number out of its range, or a policy that is not known.
        """
        from codesign.models.deployments.queueing import EngineLimits

        number("--memory-fraction", self.memory_fraction, "a part", above=0, most=1)
        with naming(flag_names(EngineFlags)):
            return EngineLimits(**filled_keys(self))


@dataclass(frozen=True)
class PrefillFlags:
    """Machines that only prefill, and the link from them."""

    prefill_machines: int | None = flag("Machines that only prefill; the others then only decode.")
    prefill_device: str | None = flag("Accelerator of the prefilling machines. [--device]")
    prefill_tp: int | None = flag("Tensor parallelism of the prefilling machines. [--tp]")
    link_bandwidth: str | None = flag(
        "Rate from a prefilling machine to the others, such as '50 GB/s'. [the network of its "
        "devices]",
    )
    link_latency: str = flag("Latency of that link.", "5 us")

    def bandwidth_bytes_per_s(self) -> float | None:
        """The rate of the link; None: that of the devices' network.

        Raises:
            InputError: It is no rate above 0.
        """
        if self.link_bandwidth is None:
            return None
        rate, text = quantity("--link-bandwidth", self.link_bandwidth, "B/s"), self.link_bandwidth
        return number("--link-bandwidth", rate, "a rate", above=0, text=repr(text))

    def latency_s(self) -> float:
        """The latency of the link.

        Raises:
            InputError: It is no time from 0.
        """
        latency_s, text = quantity("--link-latency", self.link_latency, "s"), self.link_latency
        return number("--link-latency", latency_s, "a time", least=0, text=repr(text))
