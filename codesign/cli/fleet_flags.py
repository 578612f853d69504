"""What ``codesign arrivals`` reads of the command line: the requests, the engines, the pools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.cli.flag_records import flag, flag_names
from codesign.cli.flags import naming, number, quantity
from codesign.errors import UnknownNameError

if TYPE_CHECKING:
    from codesign.deployments.queueing import EngineLimits


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
    seed: int = flag("Of the arrivals that are drawn.", 0, min=0)


@dataclass(frozen=True)
class EngineFlags:
    """How a machine forms its steps."""

    policy: str = flag(
        "chunked: chunks of prompts beside all decoding requests; prefill-first: whole prompts "
        "before any.",
        "chunked",
    )
    max_sequences: int = flag("Requests that a machine runs at a time.", 256)
    max_batched_tokens: int = flag("Tokens of a step of a machine.", 2048)
    memory_fraction: float = flag(
        "Part of the memory that weights and KV cache may take.", 0.9, key="memory"
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
        """How a machine forms its steps, its room for the cache left open.

        Raises:
            InputError: A number out of its range, or a policy that is not known.
        """
        from codesign.deployments.queueing import EngineLimits
        from codesign.deployments.queueing.engine_limits import POLICIES

        if self.policy not in POLICIES:
            raise UnknownNameError("policy", self.policy, POLICIES, "--policy")
        number("--memory-fraction", self.memory_fraction, "a part", above=0, most=1)
        with naming(flag_names(EngineFlags)):
            return EngineLimits(
                max_sequences=self.max_sequences,
                max_batched_tokens=self.max_batched_tokens,
                policy=self.policy,
                plans_ahead=self.plans_ahead,
                reserves_answers=self.reserves_answers,
            )


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
