"""The main function of a worker process; see ``executor.py``."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection

from codesign.base.errors import CodesignError, InputError
from codesign.search.campaign.campaign_definition import load_definition
from codesign.search.campaign.executor import Assignment, Ended, WorkerSetup
from codesign.search.campaign.guarded_evaluation import evaluation
from codesign.search.campaign.loop import Plan, run_batches
from codesign.search.execution.guard import Refusal


def main(connection: Connection) -> None:
    """Serve runs until the parent hangs up."""
    plan: Plan | None = None
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), ExitStack() as stack:
        setup: WorkerSetup = connection.recv()
        while True:
            assignment: Assignment = connection.recv()
            try:
                if plan is None:
                    resolved = load_definition(setup.path).with_execution(setup.execution)
                    if resolved.identity() != setup.identity:
                        raise InputError(
                            "changed while the campaign was being started", str(setup.path)
                        )
                    evaluate = stack.enter_context(evaluation(resolved, setup.folder))
                    plan = Plan(resolved, setup.layout, setup.reference, evaluate)
                for batch in run_batches(plan, assignment.run, assignment.history):
                    connection.send(batch)
                    connection.recv()
            except CodesignError as error:
                connection.send(Ended(assignment.run, Refusal.of(error)))
            else:
                connection.send(Ended(assignment.run))
