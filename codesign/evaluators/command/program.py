"""Running a program to its end, without trust in how much it writes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO

from codesign.base.columns import StringMap, Strings
from codesign.base.errors import JobError
from codesign.base.processes import ONE_THREAD, signal_name
from codesign.base.records import frozen
from codesign.evaluators.command.confinement import confined, is_confined

MOST_OUTPUT_BYTES = 16 << 20
"""A program that prints more is ended; of a file that is longer nothing is read."""
OUTPUT_FILES = ("codesign-stdout.log", "codesign-stderr.log")
"""Logs in the program's folder, written as it prints, so they survive a kill."""
_PIPE_BYTES = 1 << 20
"""The most that a pipe holds (pipe(7), pipe-max-size)."""
_LOOK_S = 0.1
"""Time between two looks whether a silent program has ended."""


INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_VISIBLE_DEVICES",
    *ONE_THREAD,
)  # fmt: skip
"""Variables that programs have from this process, with those of :data:`_INHERITED_BEGINNINGS`;
a campaign states others, such as those of a license. Passwords and tokens stay here."""
_INHERITED_BEGINNINGS = ("LC_", "CODESIGN_")


@frozen
class ProgramRun:
    """End of a program.

    Attributes:
        code: Its exit code; negative: the signal that killed it.
        is_cut: The program was ended because it printed too much.
    """

    code: int
    stdout: str
    stderr: str
    is_cut: bool = False

    @property
    def end(self) -> str:
        """End in words, with the last line of the program's messages."""
        words = f"was killed by {signal_name(-self.code)}" if self.code < 0 else ""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        last = f": {lines[-1].strip()[:300]}" if lines else ""
        return (words or f"exit code {self.code}") + last


def run_program(command: Strings, folder: Path, environment: StringMap) -> ProgramRun:
    """Run a program in a folder, where :data:`OUTPUT_FILES` have what it prints.

    What it started may go on when it ends; that is not waited for.

    Args:
        command: Program and arguments.
        environment: Variables besides those of :data:`INHERITED`.

    Raises:
        JobError: There is no such program; that is no design's fault.
    """
    variables = {
        **(
            {
                name: value
                for name, value in os.environ.items()
                if name in INHERITED or name.startswith(_INHERITED_BEGINNINGS)
            }
        ),
        **environment,
    }
    if is_confined():
        command = confined(command, folder, environment)
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise JobError(f"command {command[0]!r} cannot be started: {error.strerror}") from error
    with process:
        assert process.stdout is not None and process.stderr is not None
        streams = [
            _OutputReader(stream, process, folder / name)
            for stream, name in zip((process.stdout, process.stderr), OUTPUT_FILES, strict=True)
        ]
        code = process.wait()
        texts = [stream.text() for stream in streams]
    # What it left running may have printed too much after it had ended by itself.
    is_cut = code == -signal.SIGKILL and any(stream.is_full for stream in streams)
    return ProgramRun(code, texts[0], texts[1], is_cut)


class _OutputReader:
    """Reads a stream in a thread, and copies it to a file; ends the process when it writes too
    much."""

    def __init__(self, stream: IO[bytes], process: subprocess.Popen[bytes], path: Path) -> None:
        self._stream = stream
        self._process = process
        self._path = path
        self._content = bytearray()
        self._has_ended = threading.Event()
        self._is_drained = False
        self.is_full = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """All that the process printed, which has ended."""
        self._has_ended.set()
        self._thread.join()
        return bytes(self._content).decode("utf-8", "replace")

    def _read(self) -> None:
        while chunk := self._next_chunk():
            if len(self._content) + len(chunk) > MOST_OUTPUT_BYTES:
                self.is_full = True
                self._process.kill()
                return
            self._content += chunk
            # A full disk must not end the evaluation.
            with suppress(OSError), self._path.open("ab") as file:
                file.write(chunk)

    def _next_chunk(self) -> bytes:
        """Empty at the end of the stream, or when all output of an ended process is read. Its
        children may still hold the stream open and write to it."""
        descriptor = self._stream.fileno()
        while not self._is_drained:
            self._is_drained = self._has_ended.is_set()
            if wait([descriptor], 0.0 if self._is_drained else _LOOK_S):
                return os.read(descriptor, _PIPE_BYTES)
        return b""
