"""Outcomes of the evaluation of a design: within the limits, beyond one, or without a result."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, get_args

from codesign.base.records import frozen

FailureKind = Literal["infeasible", "failed", "timeout", "bad-output", "lost"]
"""Cause of a missing result: the evaluator refused the design as infeasible, gave up or raised,
took too long, gave a value that is no number, or its process died. Only the first says something
about the design; none is a number."""


class Status(IntEnum):
    """Outcome of an observation; from ``FAILED`` on it has no result.

    A design that the evaluator refused as infeasible has none either, only a reason.
    """

    FEASIBLE = 0
    INFEASIBLE = 1
    FAILED = 2
    TIMEOUT = 3
    BAD_OUTPUT = 4
    LOST = 5

    @property
    def word(self) -> str:
        """Word for people: ``ok``, ``infeasible``, or the kind of the failure."""
        return "ok" if self is Status.FEASIBLE else self.name.lower().replace("_", "-")


@frozen
class Failure:
    """Reason for a missing result.

    Attributes:
        kind: Decides whether trying again may help.
        reason: In words, one line.
    """

    kind: FailureKind
    reason: str

    def __str__(self) -> str:
        return self.reason

    @property
    def status(self) -> Status:
        """Status of an observation with this failure."""
        return Status[self.kind.upper().replace("-", "_")]

    @classmethod
    def read_status(cls, status: int, reason: str) -> Failure:
        """The failure of an observation that ended so: the inverse of :attr:`status`."""
        kinds: dict[str, FailureKind] = {kind: kind for kind in get_args(FailureKind)}
        return cls(kinds[Status(status).word], reason)
