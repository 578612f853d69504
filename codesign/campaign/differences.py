"""In which keys two descriptions of a campaign's inputs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def differences(stored: Any, now: Any, path: str = "") -> Iterator[str]:
    """``key: stored -> now`` for every leaf in which two JSON values differ."""
    if isinstance(stored, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*stored, *now]):
            inner = f"{path}.{key}" if path else str(key)
            yield from differences(stored.get(key), now.get(key), inner)
    elif isinstance(stored, list) and isinstance(now, list):
        yield from _list_differences(stored, now, path)
    elif stored != now or type(stored) is not type(now):
        yield f"{path}: {_short(stored)} -> {_short(now)}"


def _list_differences(stored: list[Any], now: list[Any], path: str) -> Iterator[str]:
    if len(stored) == len(now):
        for i, (before, after) in enumerate(zip(stored, now, strict=True)):
            yield from differences(before, after, f"{path}.{i}")
        return
    gone = [item for item in stored if item not in now] or None
    new = [item for item in now if item not in stored] or None
    yield f"{path}: {_short(gone)} -> {_short(new)} ({len(stored)} -> {len(now)} entries)"


def _short(value: Any, most: int = 120) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"
