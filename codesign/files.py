"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codesign.errors import InputError


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
