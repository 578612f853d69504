"""Tasks of workers for an enumeration; see ``enumerate.py``."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import chdir
from functools import lru_cache
from pathlib import Path

from codesign.base.columns import FloatArray
from codesign.base.errors import CodesignError
from codesign.base.records import frozen
from codesign.search.enumeration.walk import PartialFront, Walk
from codesign.search.execution.guard import Refusal
from codesign.search.problem import Problem

Rebuild = Callable[[], Problem]
"""Builds the same problem in another process; must survive pickling."""


@frozen
class SearchSetup:
    """Inputs of a worker before its first block.

    Attributes:
        barriers: (b, m) points; what they dominate is left out.
        working_folder: In which the problem's files are looked up.
    """

    rebuild: Rebuild
    barriers: FloatArray
    working_folder: Path


def search_block(setup: bytes, start: int, stop: int) -> tuple[int, PartialFront] | Refusal:
    """The first of some roots, by which their result is known, and their front.

    Args:
        setup: A pickled :class:`SearchSetup`, the same for all blocks.
        start: First root.
        stop: After the last.
    """
    try:
        return start, _walk(setup, threading.get_ident()).search(start, stop)
    except CodesignError as error:
        return Refusal.describe(error)


@lru_cache(maxsize=16)
def _walk(setup: bytes, thread: int) -> Walk:
    loaded: SearchSetup = pickle.loads(setup)
    with chdir(loaded.working_folder):
        return Walk(loaded.rebuild(), loaded.barriers)
