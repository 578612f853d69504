"""Sessions: the turns of a user or an agent that comes back with all that was said before.

Turn ``k`` brings new tokens and asks for an answer; its context is all tokens before it. Between
turns a user thinks or a tool runs. All sessions begin with the same prefix, or each begins with one
of several, such as documents.
"""

from __future__ import annotations

from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatArray, IntegerTuple, StringDict, StringList
from codesign.base.errors import InputError, KeyedValueError, entry_named
from codesign.base.schema import (
    Natural,
    Positive,
    Record,
    Seconds,
    accepted_by,
    parse_record,
    read_document,
    read_records,
)
from codesign.models.workload.model import LanguageModel

_FILE = Path(__file__).parent / "sessions.yaml"
_MOST_TURNS = 10_000
"""Most turns of a session; a larger number is taken for a mistake [ours]."""

ThinkTimes = Literal["exponential", "fixed"]


class Turn(Record):
    """A turn that also stands for all turns up to the next stated one.

    Attributes:
        turn: Number of the turn, from 1.
        new_tokens: Tokens that the user or a tool adds.
        generated_tokens: Tokens of the answer.
        think_time: Mean time before the turn, while the user thinks or a tool runs.
    """

    turn: Positive
    new_tokens: Positive
    generated_tokens: Positive
    think_time: Annotated[Seconds, Field(allow_inf_nan=False)] = 0.0


def _check_order(turns: tuple[Turn, ...]) -> None:
    numbers = [turn.turn for turn in turns]
    if numbers[0] != 1 or any(b <= a for a, b in pairwise(numbers)):
        raise ValueError(f"expected turns in order from 1, got {numbers}")


class Session(Record):
    """The turns of a session.

    Attributes:
        description: Description of the users or agents.
        n_turns: Turns of a session.
        turns: Turns, in order; each stands for those that follow it until the next.
        shared_tokens: Tokens of the prefix with which a session begins, besides those of its first
            turn.
        n_prefixes: Number of prefixes, of which each session has one; 1: all sessions share one.
        popularity_exponent: Exponent of Zipf's law: the prefix of rank r is taken in proportion to
            ``r ** -exponent``.
        think_times: Distribution of the think times around their means.
        sources: Source of each number.
    """

    description: str
    n_turns: Annotated[Positive, Field(le=_MOST_TURNS)] = 1
    turns: Annotated[tuple[Turn, ...], Field(min_length=1), accepted_by(_check_order)]
    shared_tokens: Natural = 0
    n_prefixes: Positive = 1
    popularity_exponent: Annotated[float, Field(ge=0, le=4)] = 0.0
    think_times: ThinkTimes = "exponential"
    sources: Annotated[StringDict, Field(min_length=1)]

    def check_fields(self) -> None:
        if self.turns[-1].turn > self.n_turns:
            raise KeyedValueError(
                "n_turns", f"expected at least turn {self.turns[-1].turn}, got {self.n_turns}"
            )
        if self.n_prefixes > 1 and not self.shared_tokens:
            raise KeyedValueError("n_prefixes", "needs shared_tokens, the length of a prefix")

    def scale_prompts(self, scale: float) -> Session:
        """Scale the prefix and the new tokens of every turn; answers stay as long."""
        turns = [
            turn.model_copy(update={"new_tokens": max(1, round(scale * turn.new_tokens))})
            for turn in self.turns
        ]
        shared = round(scale * self.shared_tokens)
        return self.model_copy(update={"turns": tuple(turns), "shared_tokens": shared})

    @cached_property
    def counts(self) -> IntegerTuple:
        """Number of turns that each stated turn stands for."""
        ends = [*(turn.turn for turn in self.turns[1:]), self.n_turns + 1]
        return tuple(end - turn.turn for turn, end in zip(self.turns, ends, strict=True))

    def turn_values(self, name: str) -> FloatArray:
        """(k,) values of a field of :class:`Turn`, one per turn."""
        return np.repeat([float(getattr(turn, name)) for turn in self.turns], self.counts)

    @property
    def context_tokens(self) -> FloatArray:
        """(k,) context of every turn: the tokens before its new ones."""
        added = self.turn_values("new_tokens") + self.turn_values("generated_tokens")
        return self.shared_tokens + np.concatenate([[0.0], np.cumsum(added)[:-1]])

    @property
    def longest_tokens(self) -> int:
        """Tokens at the end of the last turn: context, prompt and answer."""
        last = self.turns[-1]
        return int(self.context_tokens[-1]) + last.new_tokens + last.generated_tokens


@cache
def _sessions() -> dict[str, Session]:
    return read_records(_FILE, Session)


def list_sessions() -> StringList:
    """The names of the sessions."""
    return sorted(_sessions())


def load_session(name_or_path: str) -> Session:
    """Load a session by its name or from a YAML file.

    Raises:
        UnknownNameError: No session has this name; the message suggests the nearest.
        InputError: The file cannot be read, or something in it cannot be used.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        return parse_record(read_document(name_or_path), Session)
    return entry_named("session", name_or_path, _sessions())


def check_length(n_tokens: int, model: LanguageModel) -> None:
    """Refuse sequences that are longer than the context of a model.

    Raises:
        InputError: The sequence is too long. A model without a stated context takes any length.
    """
    most = model.context_tokens
    if most is not None and n_tokens > most:
        raise InputError(
            f"expected at most the {most:,} tokens of {model.name}'s context, got {n_tokens:,}; "
            "beyond_context=true allows more (in a workload, as --option, or as --request)",
        )
