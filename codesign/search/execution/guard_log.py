"""Output of a guarded process, in a file of bounded size."""

from __future__ import annotations

import os
import threading
from pathlib import Path

MOST_BYTES = 1 << 20
"""A longer log is moved to ``NAME.log.1``, over the one before, and begun anew."""
_CHUNK_BYTES = 1 << 16


class GuardLog:
    """A pipe to write to, and a thread that copies it to a file.

    Through a pipe, because a process that prints without end would fill the disk.

    Args:
        path: The file; None: what comes is read and thrown away.

    Attributes:
        descriptor: For the process to write to.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._source, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def follow(self) -> None:
        """Begin to copy; the parent's end for writing is closed."""
        os.close(self.descriptor)
        self._thread.start()

    def close(self, patience_s: float = 1.0) -> None:
        """Wait for what is still in the pipe, but not for processes that hold it open."""
        self._thread.join(patience_s)

    def _copy(self) -> None:
        try:
            while chunk := os.read(self._source, _CHUNK_BYTES):
                self._write(chunk)
        finally:
            os.close(self._source)

    def _write(self, chunk: bytes) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(chunk)
                is_full = file.tell() >= MOST_BYTES
            if is_full:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
        except OSError:  # a full disk must not end the evaluation
            return
