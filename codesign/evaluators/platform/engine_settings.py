"""Settings of machines that serve requests: steps, memory, routing, the link between pools."""

from __future__ import annotations

from codesign.base.schema import Bandwidth, Latency, Record, Share
from codesign.models.deployments.queueing import EngineLimits
from codesign.models.deployments.queueing.engine_limits import StepPolicy
from codesign.models.deployments.queueing.fleet import Routing


class EngineSettings(Record):
    """Settings of the machines of a fleet, and of the link from those that only prefill.

    Attributes:
        policy: ``chunked``: chunks of prompts beside all decoding requests; ``prefill-first``:
            whole prompts before any.
        max_sequences: Requests that a machine runs at a time.
        max_batched_tokens: Tokens of a step of a machine.
        memory_fraction: Share of the memory that weights and KV cache may take.
        plans_ahead: Choose the next step while one runs, so that the host costs no time.
        reserves_answers: Run a request only where its answer has room, too, as TensorRT-LLM does.
        routing: Machine of a request: ``least-loaded``, ``round-robin``, or ``session``, the one of
            the turn before.
        caches_prompts: Keep the blocks of prompts for the next request with the same ones, if they
            are known.
        shares_stores: Share each ``--cache`` between all machines of a pool.
        cache_link: Rate from each ``--cache`` to a machine at most: sixteen lanes of PCIe 5 [ours].
        link_bandwidth: Rate from a prefilling machine to the others; the network of its devices if
            left out.
        link_latency: Latency of the link from a prefilling machine to the others.
    """

    policy: StepPolicy = "chunked"
    max_sequences: int = 256
    max_batched_tokens: int = 2048
    memory_fraction: Share = 0.9
    plans_ahead: bool = True
    reserves_answers: bool = False
    routing: Routing = "least-loaded"
    caches_prompts: bool = True
    shares_stores: bool = False
    cache_link: Bandwidth = 55e9
    link_bandwidth: Bandwidth | None = None
    link_latency: Latency = 5e-6

    def limits(self) -> EngineLimits:
        """Steps of a machine whose cache size is open.

        Raises:
            InputError: A number out of its range, or a policy that is not known.
        """
        names = EngineLimits.__dataclass_fields__.keys() & type(self).model_fields.keys()
        return EngineLimits(**{name: getattr(self, name) for name in names})
