"""Running a program to its end, without trust in how much it writes."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from codesign.errors import JobError
from codesign.processes import signal_name

MOST_OUTPUT_BYTES = 16 << 20
"""A program that prints more is ended; of a file that is longer nothing is read."""
_PATIENCE_S = 5.0
"""For the output of a program that has ended: what it started may hold the pipe open."""


@dataclass(frozen=True)
class ProgramRun:
    """How a program ended.

    Attributes:
        code: Its exit code; negative: the signal that killed it.
        stdout: What it printed.
        stderr: What it printed there.
        is_cut: It was ended because it printed too much.
    """

    code: int
    stdout: str
    stderr: str
    is_cut: bool = False

    @property
    def end(self) -> str:
        """In words, with the last line of its messages."""
        words = f"was killed by {signal_name(-self.code)}" if self.code < 0 else ""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        last = f": {lines[-1].strip()[:300]}" if lines else ""
        return (words or f"exit code {self.code}") + last


def run_program(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> ProgramRun:
    """Run a program in a folder.

    Args:
        command: Program and arguments.
        folder: Its working folder.
        environment: Variables besides those of this process.

    Raises:
        JobError: There is no such program; that is no design's fault.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise JobError(f"command {command[0]!r} cannot be started: {error.strerror}") from error
    with process:
        assert process.stdout is not None and process.stderr is not None
        streams = [_OutputReader(process.stdout, process), _OutputReader(process.stderr, process)]
        code = process.wait()
        texts = [stream.text() for stream in streams]
    return ProgramRun(code, texts[0], texts[1], any(stream.is_cut for stream in streams))


class _OutputReader:
    """Reads a stream in a thread; ends the process when it writes too much."""

    def __init__(self, stream: IO[bytes], process: subprocess.Popen[bytes]) -> None:
        self._stream, self._process = stream, process
        self._content = bytearray()
        self.is_cut = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        self._thread.join(_PATIENCE_S)
        return bytes(self._content).decode("utf-8", "replace")

    def _read(self) -> None:
        while chunk := os.read(self._stream.fileno(), 1 << 16):
            if len(self._content) + len(chunk) > MOST_OUTPUT_BYTES:
                self.is_cut = True
                self._process.kill()
                return
            self._content += chunk
