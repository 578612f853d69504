"""The main function of a guarded process; see ``guard.py``."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from codesign.base.errors import CodesignError, InputError
from codesign.search.execution.guard import GuardedProblem, Ready, Refusal
from codesign.search.execution.result_store import canonical


def main(connection: Connection) -> None:
    """Evaluate batches until the parent hangs up."""
    # What evaluators log is the log.
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        guarded: GuardedProblem = connection.recv()
        try:
            problem = guarded.build()
            if canonical(problem.provenance()) != guarded.provenance:
                raise InputError(
                    "the problem changed while its designs were being evaluated; run again"
                )
        except CodesignError as error:
            connection.send(Refusal.describe(error))
            return
        connection.send(Ready())
        while True:
            rows = connection.recv()
            try:
                connection.send(problem.evaluate(rows))
            except CodesignError as error:
                connection.send(Refusal.describe(error))
