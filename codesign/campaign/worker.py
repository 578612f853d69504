"""The main function of a worker process; see ``executor.py``."""

from __future__ import annotations

from multiprocessing.connection import Connection

from codesign.campaign.definition import load_definition
from codesign.campaign.executor import Assignment, Ended, WorkerSetup, ended_by
from codesign.campaign.loop import Plan, run_batches
from codesign.errors import CodesignError, InputError


def main(connection: Connection) -> None:
    """Serve runs until the parent hangs up."""
    setup: WorkerSetup = connection.recv()
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


def _plan(setup: WorkerSetup) -> Plan:
    resolved = load_definition(setup.path)
    if resolved.identity() != setup.identity:
        raise InputError("changed while the campaign was being started", str(setup.path))
    return Plan(resolved, setup.layout, setup.reference)


def _serve(connection: Connection, plan: Plan, assignment: Assignment) -> None:
    for batch in run_batches(plan, assignment.run, assignment.history):
        connection.send(batch)
        connection.recv()
