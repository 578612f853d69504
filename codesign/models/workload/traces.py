"""Named workloads: how many tokens a request brings and how many it asks for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from codesign.base.errors import entry_named
from codesign.base.schema import Positive, Record, read_records

_FILE = Path(__file__).parent / "traces.yaml"


class Trace(Record):
    """Mean token counts of a request."""

    prompt_tokens: Positive
    """Tokens of the prompt."""
    generated_tokens: Positive
    """Tokens generated after it."""
    description: str = ""
    """Description of what was traced."""
    source: str = ""
    """Document in which the counts were read."""


@cache
def _traces() -> dict[str, Trace]:
    return read_records(_FILE, Trace)


def list_traces() -> list[str]:
    """The names of the traces."""
    return sorted(_traces())


def load_trace(name: str) -> Trace:
    """The trace of that name.

    Raises:
        UnknownNameError: No such trace; the nearest is offered.
    """
    return entry_named("trace", name, _traces())
