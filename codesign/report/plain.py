"""Values as JSON knows them, and files that appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from codesign.errors import InputError


def to_plain(value: Any) -> Any:
    """``value`` with only what JSON has: NaN and infinity become None, arrays become lists."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, np.generic | np.ndarray):
        return to_plain(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _container_to_plain(value)


def _container_to_plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return to_plain({name: getattr(value, name) for name in type(value).model_fields})
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [to_plain(item) for item in items]
    return str(value)


def to_json_text(value: Any, indent: int | None = 2) -> str:
    """One JSON document; numbers keep every digit, so reading gives the same float."""
    return json.dumps(to_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file next to ``path`` to write to, which takes its place only if the block succeeds.

    Folders are made as needed. A reader of ``path`` sees the old content or the new, never a
    part of it.

    Raises:
        InputError: The place cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.is_dir():
            raise InputError("is a folder, expected a file to write", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from error
    finally:
        _discard(unfinished)


def _discard(path: Path) -> None:
    # After a success there is nothing to remove; in a folder that cannot be used, nothing to do.
    if path.parent.is_dir() and path.is_file():
        path.unlink()
