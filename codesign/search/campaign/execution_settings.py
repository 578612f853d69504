"""Settings of evaluations: number at once, and place.

Nothing here is part of a campaign's identity: it may change between two runs of one campaign.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from codesign.base.schema import Record, accepted_by
from codesign.base.units import parse_quantity
from codesign.search.execution.guard import GuardLimits


def _check_duration(value: str) -> None:
    if parse_quantity(value, "s") <= 0:
        raise ValueError(f"expected a time above 0, got {value!r}")


Duration = Annotated[str, accepted_by(_check_duration)]
"""A time above 0, such as ``30 min``."""


class Execution(Record):
    """The key ``execution:`` of a campaign file or a comparison's."""

    timeout: Duration | None = None
    """Longest time that one design may take, such as ``30 min``; without it, a design that hangs
    holds its run up and is named from time to time."""
    retries: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Number of further attempts after a failure or the death of a process, with pauses of 1, 2, 4,
    ... seconds; if not given, two after a death and none after a failure."""

    isolated: bool | None = None
    """Whether a separate process, which may hang or crash, evaluates the designs. By default only
    for plug-in evaluators and ``command``, and where ``timeout`` or ``retries`` is set."""
    cache: bool | None = None
    """Whether results are read from the cache and stored there (``codesign status cache``). By
    default only for plug-in evaluators and ``command``, unless ``isolated`` is false."""
    cache_folder: str | None = None
    """Folder of that cache; the user's cache folder if not given."""
    in_flight: Annotated[int, Field(strict=True, ge=1)] = 1
    """Designs of one run that are evaluated at the same time. With one, an optimizer knows every
    result before it proposes the next batch; with more, it knows the others as pending."""
    executor: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(:.+)?$")] | None = None
    """Executor of designs: ``local`` (processes), ``threads``, ``parsl:FARM.yaml``,
    ``dask:ADDRESS``, or a registered name; this machine if not given."""

    @property
    def guard_limits(self) -> GuardLimits:
        """Patience with one design."""
        timeout_s = None if self.timeout is None else parse_quantity(self.timeout, "s")
        return GuardLimits(timeout_s, self.retries)
