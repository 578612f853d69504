"""The main function of a worker process; see ``executor.py``."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection

from codesign.campaign.definition import load_definition
from codesign.campaign.executor import Assignment, Ended, Setup, ended_by
from codesign.campaign.loop import Plan, run_batches
from codesign.errors import CodesignError, InputError


def main(descriptor: int) -> None:
    """Serve runs until the parent hangs up.

    Args:
        descriptor: Of the connection to the parent.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection = Connection(descriptor)
    setup: Setup = connection.recv()
    plan: Plan | None = None
    try:
        while True:
            assignment: Assignment = connection.recv()
            try:
                plan = plan or _plan(setup)
                _serve(connection, plan, assignment)
            except CodesignError as error:
                connection.send(ended_by(assignment.run, error))
            else:
                connection.send(Ended(assignment.run))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _end_with_parent() -> None:
    """Wait until the parent, dying, breaks the pipe; then end at once, with all children."""
    while os.read(0, 1):
        continue
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _plan(setup: Setup) -> Plan:
    resolved = load_definition(setup.path)
    if resolved.identity() != setup.identity:
        raise InputError("changed while the campaign was being started", str(setup.path))
    return Plan(resolved, setup.layout, setup.reference)


def _serve(connection: Connection, plan: Plan, assignment: Assignment) -> None:
    for batch in run_batches(plan, assignment.run, assignment.history):
        connection.send(batch)
        connection.recv()
