"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from codesign.base.errors import InputError


def ending_of(path: Path) -> str:
    """The ending of a file's name in lower case.

    >>> ending_of(Path("front.PDF"))
    'pdf'
    """
    return path.suffix.removeprefix(".").lower()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file next to ``path`` to write to, which takes its place only if the block succeeds.

    Folders are made as needed. A reader of ``path`` sees the old content or the new, never a
    part of it.

    Raises:
        InputError: The place cannot be written.
    """
    unfinished = _beside(path, "part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        _discard(unfinished)


def write_text(path: Path, text: str) -> Path:
    """Write a text in UTF-8 as :func:`replacing` says; returns its path.

    Raises:
        InputError: The place cannot be written.
    """
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
    return path


@contextmanager
def replacing_together(paths: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """As :func:`replacing`, for files that belong together: all take their places, or none.

    A file system renames one file at a time, the first of ``paths`` last: who finds it new finds
    the others new. If a renaming fails, those before it are undone.

    Raises:
        InputError: A place cannot be written.
    """
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(_restoring(path))
        yield tuple(stack.enter_context(replacing(path)) for path in paths)


@contextmanager
def _restoring(path: Path) -> Iterator[None]:
    """What was at ``path`` is there again if the block fails."""
    kept = _beside(path, "old")
    try:
        existed = path.is_file()
        if existed:
            shutil.copy2(path, kept)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        yield
    except BaseException:
        if existed:
            kept.replace(path)
        else:
            _discard(path)
        raise
    finally:
        _discard(kept)


def _beside(path: Path, ending: str) -> Path:
    check_place(path)
    return path.with_name(f".{path.name}.{os.getpid()}.{ending}")


def check_place(path: Path) -> None:
    """Refuse a folder as a file to write, before anything is worked out for it.

    Raises:
        InputError: It is one, or nobody can tell.
    """
    try:
        if path.is_dir():  # ".", too, which is what an empty name means
            raise InputError("is a folder, expected a file to write", str(path))
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot be written: {error.strerror or error}", str(path))


def _discard(path: Path) -> None:
    # After a success there is nothing to remove; in a place that cannot be used, nothing to do.
    with suppress(OSError):
        path.unlink()
