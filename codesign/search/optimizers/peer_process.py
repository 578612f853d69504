"""The process in which a peer's library runs.

It runs ``peer_worker/`` in the interpreter that the environment names, so that libraries which
exclude each other can be compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import IO

from codesign.base.columns import Fields, JsonObject
from codesign.base.errors import InputError, JobError, MissingExtraError
from codesign.base.processes import ONE_THREAD
from codesign.search.optimizers.peer_worker.task import Proposal

PYTHON = "CODESIGN_PEER_PYTHON"
"""Environment variable: the interpreter in which the peers' libraries are installed. With a
library's name behind it, ``CODESIGN_PEER_PYTHON_HEBO``, the interpreter for that library alone."""
_WORKER = Path(__file__).with_name("peer_worker")
_BOOTSTRAP = (
    "import sys, types; package = types.ModuleType('peer_worker'); "
    "package.__path__ = [sys.argv[1]]; sys.modules['peer_worker'] = package; "
    "from peer_worker.main import main; main()"
)
"""Runs the worker as a package of its own: its environment may lack what codesign needs."""
_SAME_HASHES = {"PYTHONHASHSEED": "0"}
"""A library may go through a set of texts, as SMAC does: in each process in another order."""
_EXTRAS = {"optuna": "tpe", "botorch": "gp", "pymoo": "nsga2"}


class PeerProcess:
    """A process that runs ``peer_worker/``; started at the first proposal.

    Args:
        setup: What does not change between proposals.
    """

    def __init__(self, setup: JsonObject) -> None:
        self.setup = setup
        library = setup["method"].split("-")[0].upper()
        variable = f"{PYTHON}_{library}"
        self._variable = variable if variable in os.environ else PYTHON
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    def propose(self, question: Fields) -> Proposal:
        """The answer to what a task says besides the setup.

        Raises:
            MissingExtraError: The library is not installed there.
            InputError: The interpreter cannot be started.
            JobError: The process died, or the method raised.
        """
        process = self._started()
        request = {**self.setup, **question}
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            assert self._log is not None
            self._log.seek(0)
            words = self._log.read().decode(errors="replace").strip().splitlines()
            last = words[-1] if words else "without a word"
            raise JobError(f"peer {self.setup['method']!r}: its process ended: {last}")
        reply = json.loads(line)
        if "missing" in reply:
            library = str(reply["missing"])
            feature = f"peer {self.setup['method']!r} (library {library!r} in {self._variable})"
            raise MissingExtraError(feature, _EXTRAS.get(library, "peers"))
        if "error" in reply:
            raise JobError(f"peer {self.setup['method']!r}: {reply['error']}")
        return Proposal(**reply)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
            interpreter = os.environ.get(self._variable) or sys.executable
            try:
                self._process = subprocess.Popen(
                    [interpreter, "-P", "-c", _BOOTSTRAP, str(_WORKER)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    text=True,
                    env={**os.environ, **ONE_THREAD, **_SAME_HASHES},
                )
            except OSError as error:
                self._log.close()
                text = f"cannot be started: {interpreter}: {error.strerror}"
                raise InputError(text, self._variable) from error
            weakref.finalize(self, _end, self._process, self._log)
        return self._process


def _end(process: subprocess.Popen[str], log: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, log):
        if pipe is not None:
            pipe.close()
