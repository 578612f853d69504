"""Files that appear complete or not at all.

A path may be a symbolic link, which stays one, or no plain file: a pipe, a terminal, ``/dev/null``.
Such a place is never replaced; the finished content is copied into it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from codesign.base.errors import InputError

_STANDARD_OUTPUT_DESCRIPTOR = 1


def ending_of(path: Path) -> str:
    """The ending of a file's name in lower case.

    >>> ending_of(Path("front.PDF"))
    'pdf'
    """
    return path.suffix.removeprefix(".").lower()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of ``path`` only if the block succeeds.

    Folders are made as needed. A reader of ``path`` sees the old content or the new, never a
    part of it.

    Raises:
        InputError: The place cannot be written.
    """
    with _explained(path):
        place = _plain_place(path)
        if place is None:
            with tempfile.TemporaryDirectory(prefix="codesign-") as folder:
                yield (unfinished := Path(folder, "content"))
                _copy_into(unfinished, path)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _beside(place, "part")
        try:
            yield unfinished
            if place.exists():
                shutil.copymode(place, unfinished)
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())  # or a power cut might leave an empty file in its place
            unfinished.replace(place)
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
    """Files as of :func:`replacing` that belong together: all take their places, or none.

    A file system renames one file at a time, the first of ``paths`` last: a reader who finds it
    new finds the others new. If a renaming fails, those before it are undone.

    Raises:
        InputError: A place cannot be written.
    """
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(_restoring(path))
        yield tuple(stack.enter_context(replacing(path)) for path in paths)


def check_place(path: Path) -> None:
    """Refuse a place that is no file to write, before anything is computed for it.

    Raises:
        InputError: It is a folder, a socket or a disk, or cannot be looked at.
    """
    with _explained(path):
        _plain_place(path)


@contextmanager
def _restoring(path: Path) -> Iterator[None]:
    """The content at ``path`` is there again if the block fails."""
    with _explained(path):
        place = _plain_place(path)
        if place is None:
            yield
            return
        backup = _beside(place, "old") if place.exists() else None
        try:
            if backup is not None:
                shutil.copy2(place, backup)
            try:
                yield
            except BaseException:
                if backup is not None:
                    backup.replace(place)
                else:
                    _discard(place)
                raise
        finally:
            if backup is not None:
                _discard(backup)


def _plain_place(path: Path) -> Path | None:
    """The plain file that a path leads to, which need not exist; None if nothing may replace it.

    Raises:
        InputError: Nothing can be written there.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return Path(os.path.realpath(path))  # a link may lead to a file that is not there yet
    if stat.S_ISREG(status.st_mode):
        return None if _is_standard_output(status) else Path(os.path.realpath(path))
    if stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode):
        return None
    if stat.S_ISDIR(status.st_mode):  # ".", too, which is what an empty name means
        raise InputError("is a folder, expected a file to write", str(path))
    raise InputError("is a socket or a disk, expected a file to write", str(path))


def _is_standard_output(status: os.stat_result) -> bool:
    with suppress(OSError):
        return os.path.samestat(status, os.fstat(_STANDARD_OUTPUT_DESCRIPTOR))
    return False


def _copy_into(content: Path, path: Path) -> None:
    """Copy a file into a place that is no plain file."""
    is_standard_output = _is_standard_output(path.stat())
    target = (
        os.dup(_STANDARD_OUTPUT_DESCRIPTOR) if is_standard_output else os.open(path, os.O_WRONLY)
    )
    with content.open("rb") as source, os.fdopen(target, "wb") as file:
        shutil.copyfileobj(source, file)


def _beside(place: Path, ending: str) -> Path:
    """A new file of this process beside a place: whoever made one of its name loses it."""
    path = place.with_name(f".{place.name}.{os.getpid()}.{ending}")
    _discard(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return path


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough
        raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from error


def _discard(path: Path) -> None:
    # After a success there is nothing to remove; in a place that cannot be used, nothing to do.
    with suppress(OSError):
        path.unlink()
