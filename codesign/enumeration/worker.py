"""The main function of a worker process; see ``enumerate.py``."""

from __future__ import annotations

from multiprocessing.connection import Connection

from codesign.enumeration.enumerate import EnumerationSetup, Failure
from codesign.enumeration.walk import Walk
from codesign.errors import CodesignError, JobError


def main(connection: Connection) -> None:
    """Search blocks until the parent hangs up."""
    try:
        setup: EnumerationSetup = connection.recv()
        walk: Walk | None = None
        while True:
            start, stop = connection.recv()
            try:
                walk = walk or Walk(setup.rebuild(), setup.incumbents)
                connection.send(walk.search(start, stop))
            except CodesignError as error:
                connection.send(Failure(str(error), not isinstance(error, JobError)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
