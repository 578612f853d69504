"""The main function of a process of ``LocalExecutor``; see ``executors.py``."""

from __future__ import annotations

from multiprocessing.connection import Connection


def main(connection: Connection) -> None:
    """Do tasks until the parent hangs up."""
    try:
        while True:
            function, arguments, keywords = connection.recv()
            connection.send(function(*arguments, **keywords))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
