"""The exceptions of codesign, and the wording of a name that nobody knows.

CodesignError
├── InputError      what the user gave cannot be used: exit code 2, nothing was changed
│   ├── UnusableValueError   a value, of a space say, that what reads it cannot use
│   │   └── UnknownNameError     a name that is not in the list it must come from
│   ├── InfeasibleError      no design of a space keeps every limit: exit code 1
│   │   └── UnattainableError    by proof no system of pools does: exit code 2
│   └── StoreError      a campaign's store is corrupt, locked, or belongs to another definition
├── MissingExtraError    an optional library is needed and absent: exit code 2, says what to install
└── JobError        the job ran and failed (every design failed, no space left): exit code 1
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from codesign.base.records import frozen

Entry = TypeVar("Entry")

_MOST_CHARACTERS = 200
"""Characters of a name that is repeated in a message and compared with the known ones."""
_MANY, _NEAREST, _MOST_NAMES = 8, 3, 24
"""Names up to which all are listed beside a near miss, how many of more, and how many at most."""


class CodesignError(Exception):
    """Root of every exception that codesign raises on purpose."""


@frozen
class Mistake:
    """One thing that is wrong with an input; its text is ``place: key: message``.

    Attributes:
        message: What was expected, what was got and, where there is one, the nearest valid choice.
        key: The key of the input that it is about, such as ``("pools", "decode")``; empty if the
            place says it all.
        place: Where the input is: ``file:line``, a flag, or whatever the user can look up.
        named: Keys of the input that the message names, which may have other words elsewhere.
        is_missing: Nothing was given for the key.
    """

    message: str
    key: tuple[str | int, ...] = ()
    place: str = ""
    named: tuple[str, ...] = ()
    is_missing: bool = False

    def __str__(self) -> str:
        dotted = ".".join(map(str, self.key))
        return ": ".join(filter(None, (self.place, dotted, self.message)))


class KeyedValueError(ValueError):
    """The value of one key of a record cannot be used; raised by what checks the whole record.

    Args:
        key: Of the record; empty if several are at fault together.
        message: What was expected, and what was got.
        named: Keys that the message names.
    """

    def __init__(self, key: str, message: str, named: tuple[str, ...] = ()) -> None:
        self.mistake = Mistake(message, (key,) if key else (), named=named)
        super().__init__(str(self.mistake))


class ContradictionsError(ValueError):
    """Fields of a record contradict one another; its arguments are an error for each way."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


class InputError(CodesignError):
    """Unusable input of the user; nothing was changed.

    Args:
        mistakes: One, or several that were found together; text is a message alone.
        where: ``file:line: key`` or whatever the user can look up; put before each mistake.
        key: The key of the input that a message is about, from the outermost.

    Attributes:
        mistakes: As records.
        problems: As text.
    """

    def __init__(
        self,
        mistakes: str | Mistake | Sequence[str | Mistake],
        where: str | None = None,
        *,
        key: tuple[str | int, ...] = (),
    ) -> None:
        listed = [mistakes] if isinstance(mistakes, str | Mistake) else mistakes
        records = (
            Mistake(mistake, key) if isinstance(mistake, str) else mistake for mistake in listed
        )
        self.mistakes = tuple(
            replace(record, place=": ".join(filter(None, (where, record.place))))
            for record in records
        )
        self.problems = tuple(map(str, self.mistakes))
        super().__init__("\n".join(self.problems))


@contextmanager
def mistakes_at(where: str | None) -> Iterator[None]:
    """Put a place, if there is one, before every mistake that ends the block."""
    try:
        yield
    except InputError as error:
        raise InputError(error.mistakes, where) from None


@contextmanager
def reraised_as_value_error() -> Iterator[None]:
    """Raise an error of input as a ``ValueError``, which is what a record's checks may raise."""
    try:
        yield
    except InputError as error:
        raise ValueError(str(error)) from None


class ProblemList(list[str]):
    """Problems found so far, so that all are said at once."""

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Add the mistakes that end the block, and go on after it."""
        try:
            yield
        except InputError as error:
            self += error.problems

    def raise_any(self, where: str | None = None) -> None:
        """Raise those that there are.

        Raises:
            InputError: There are some.
        """
        if self:
            raise InputError(self, where)


class UnusableValueError(InputError):
    """A value that what reads it cannot use.

    Attributes:
        got: The value, by which a space finds the line that has it.
    """

    def __init__(self, problem: str, got: object, where: str | None = None):
        super().__init__(problem, where)
        self.got = got


class UnknownNameError(UnusableValueError):
    """A name that is not among the known ones; the message offers the nearest.

    Attributes:
        kind: What the name should name.
    """

    def __init__(self, kind: str, got: object, known: Iterable[str], where: str | None = None):
        super().__init__(describe_unknown(kind, got, known), got, where)
        self.kind = kind


def check_known(
    kind: str, got: object, known: Collection[object], where: str | None = None
) -> None:
    """Refuse a name that is not among the known ones.

    Raises:
        UnknownNameError: It is not.
    """
    if got not in known:
        raise UnknownNameError(kind, got, map(str, known), where)


def entry_named(
    noun: str, name: str, entries: Mapping[str, Entry], where: str | None = None
) -> Entry:
    """Entry of a name, which must be one of the entries' names; see :func:`check_known`."""
    check_known(noun, name, entries, where)
    return entries[name]


class InfeasibleError(InputError):
    """No design of a space keeps every limit."""


class UnattainableError(InfeasibleError):
    """Proof that no system of pools keeps the limits; the message has the nearest miss."""


class StoreError(InputError):
    """A campaign's store is corrupt, in use, or belongs to another definition."""


class MissingExtraError(CodesignError):
    """An optional library is needed and not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional part: pip install 'codesign[{extra}]'")


@contextmanager
def needing_extra(feature: str, extra: str) -> Iterator[None]:
    """Around imports of optional libraries without which a feature is not there.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error


class JobError(CodesignError):
    """The job ran and failed."""


def describe_unknown(kind: str, got: object, known: Iterable[str], meant: str | None = None) -> str:
    """One line for an unknown name: the nearest known one, then the list or its beginning.

    ``meant`` is the known one if the name is another word for it, however it is spelled.

    Beside a near miss, a long list is cut to the nearest names: the line is to be read at a glance.

    >>> describe_unknown("unit", "parsec", ["second", "sector", *"abcdefgh"])
    "unknown unit 'parsec'. Did you mean 'sector'? Known: e, second, sector, …."
    >>> describe_unknown("value", 3, ["1", "16", "2"])
    "unknown value '3'. Known: 1, 2, 16."
    """
    names = sorted(known, key=_natural)
    word = str(got)
    close = meant or (_nearest(word, names) if len(word) <= _MOST_CHARACTERS else None)
    # A name that reads as it was written is not what was meant: 2 is not '2'.
    hint = f" Did you mean {close!r}?" if close not in (None, word) else ""
    if hint and len(names) > _MANY:
        close_names = [name for name in names if name.startswith(word)]
        close_names = close_names[:_MOST_NAMES] or difflib.get_close_matches(
            word, names, n=_NEAREST, cutoff=0.0
        )
        shown_names = sorted(close_names, key=_natural)
    else:
        shown_names = names[:_MOST_NAMES]
    is_cut = len(shown_names) < len(names)
    # A file's name may hold a line end.
    plain_names = (name if name.isprintable() else repr(name)[1:-1] for name in shown_names)
    listed = ", ".join(plain_names) + (", …" if is_cut else "")
    shown_word = word if len(word) <= _MOST_CHARACTERS else f"{word[:_MOST_CHARACTERS]}…"
    return f"unknown {kind} {shown_word!r}.{hint} Known: {listed or 'none'}."


def _natural(name: str) -> list[str | float]:
    """A name's words and numbers by turns: 2 is listed before 16, and hbm2 before hbm16."""
    pieces = re.split(r"([0-9]+(?:\.[0-9]+)?)", name)
    return [float(piece) if i % 2 else piece for i, piece in enumerate(pieces)]


def _nearest(word: str, names: Sequence[str]) -> str | None:
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if not close:
        folded = {name.lower(): name for name in names}
        matches = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.5)
        close = [folded[match] for match in matches]
    return close[0] if close else None
