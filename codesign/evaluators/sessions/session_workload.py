"""Workload and options of the ``sessions`` evaluator."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Annotated

from pydantic import Field

from codesign.base.errors import InputError, KeyedValueError
from codesign.base.schema import Bandwidth, Positive, Record, checked, quantity, unstored_at
from codesign.evaluators.system.system_options import MachineChoice, machine_choice
from codesign.models.workload.request import SequenceRecord, SessionName
from codesign.models.workload.request_trace import read_request_trace
from codesign.models.workload.reuse import SessionReuse, TraceReuse
from codesign.models.workload.sessions import load_session

CONCURRENT = "concurrent_sessions"
"""Parameter of designs that state how many sessions they serve at a time, and the metric."""


class SessionWorkload(SequenceRecord):
    """Sessions that a machine serves, or the requests of a trace."""

    session: SessionName | None = None
    """A named session, see ``codesign list workloads``, or a YAML file with one."""
    trace: str | None = None
    """A file of requests with block hashes in Mooncake's format, instead of ``session``."""
    prompt_scale: Annotated[float, Field(gt=0, le=1000), unstored_at(1.0)] = 1.0
    """Factor of the tokens of a session's prefix and of each turn's new tokens."""
    concurrent_sessions: Positive = 1
    """Sessions at a time, unless the design states them; of a trace, without effect."""
    batch: Positive = 1
    """Requests that decode together, unless the design states them."""

    def check_fields(self) -> None:
        if (self.session is None) == (self.trace is None):
            raise KeyedValueError("", "expected session or trace", ("session", "trace"))
        if self.trace is not None and self.prompt_scale != 1:
            raise KeyedValueError("prompt_scale", "expected a session, not a trace")
        try:
            longest = self.reuse.longest_tokens
        except InputError as error:
            key = "session" if self.session else "trace"
            raise KeyedValueError(key, "; ".join(error.problems)) from None
        self.check_context(longest, self.language_model, "session", "trace")
        if self.language_model.is_diffusion:
            raise KeyedValueError("model", f"expected a model with a cache, got {self.model}")

    @cached_property
    def reuse(self) -> SessionReuse | TraceReuse:
        """Classes of turns, and reuse of their contexts."""
        if self.session is not None:
            return SessionReuse(load_session(self.session).scale_prompts(self.prompt_scale))
        return TraceReuse(read_request_trace(self.trace or ""))


class SessionsOptions(Record):
    """Options of the ``sessions`` evaluator; what a campaign says next to its name."""

    machine: Annotated[MachineChoice, checked(partial(machine_choice, default="npu"))] = (
        MachineChoice(name="npu")
    )
    """Evaluator of the machines and its options: any that serves one phase of a request."""
    cache_link: Annotated[Bandwidth, Field(allow_inf_nan=False)] = 55e9
    """Rate of the link to the outer caches, each way: sixteen lanes of PCIe 5, 63 GB/s less the
    packets' headers [ours]."""
    cache_link_energy: Annotated[float, quantity("pJ/bit"), Field(ge=0, allow_inf_nan=False)] = (
        6e-12 * 8
    )
    """Energy of what passes the link, J/byte: 6 pJ/bit of PCIe 5 [ours]."""
