"""Keys in which two descriptions of a campaign's inputs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codesign.base.columns import IntegerPair, StringTuple
from codesign.base.records import frozen


@frozen
class Difference:
    """A leaf in which two JSON values differ; its text is ``key: stored -> now``.

    Attributes:
        path: The keys to it, from the outermost.
        stored: The first value; None: there is none.
        now: The second value, likewise.
        lengths: Of two lists that differ in length, of which the values are what only one has.
    """

    path: StringTuple
    stored: Any
    now: Any
    lengths: IntegerPair | None = None

    def __str__(self) -> str:
        text = f"{'.'.join(self.path)}: {_short(self.stored)} -> {_short(self.now)}"
        return text + (" ({} -> {} entries)".format(*self.lengths) if self.lengths else "")


def differences(stored: Any, now: Any, path: StringTuple = ()) -> Iterator[Difference]:
    """Every leaf in which two JSON values differ."""
    if isinstance(stored, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*stored, *now]):
            yield from differences(stored.get(key), now.get(key), (*path, str(key)))
    elif isinstance(stored, list) and isinstance(now, list):
        if len(stored) == len(now):
            for i, (before, after) in enumerate(zip(stored, now, strict=True)):
                yield from differences(before, after, (*path, str(i)))
        else:
            gone = [element for element in stored if element not in now] or None
            new = [element for element in now if element not in stored] or None
            yield Difference(path, gone, new, (len(stored), len(now)))
    elif stored != now or type(stored) is not type(now):
        yield Difference(path, stored, now)


def _short(value: Any, most: int = 120) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"
