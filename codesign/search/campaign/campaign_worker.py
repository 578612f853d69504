"""The main function of a worker process; see ``executor.py``."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.connection import Connection

from codesign.base.errors import CodesignError
from codesign.search.campaign.executor import Assignment, Ended
from codesign.search.campaign.loop import run_batches
from codesign.search.campaign.tasks import RunSite, leave_workplaces
from codesign.search.execution.guard import Refusal


def main(connection: Connection) -> None:
    """Serve runs until the parent hangs up."""
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        site: RunSite = connection.recv()
        while True:
            assignment: Assignment = connection.recv()
            try:
                for batch in run_batches(site.plan(), assignment.run, assignment.history):
                    connection.send(batch)
                    connection.recv()
            except CodesignError as error:
                connection.send(Ended(assignment.run, Refusal.describe(error)))
            else:
                connection.send(Ended(assignment.run))
    leave_workplaces()
