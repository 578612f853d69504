"""Searches of an enumeration in other processes; see ``enumerate.py``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from functools import cached_property
from pathlib import Path

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.search.enumeration.walk import PartialFront, Walk
from codesign.search.problem import Problem

Rebuild = Callable[[], Problem]
"""Builds the same problem in another process; must survive pickling."""


@frozen
class BlockSearch:
    """A search of blocks of roots.

    Attributes:
        barriers: (b, m) points; what they dominate is left out.
        working_folder: In which the problem's files are looked up.
    """

    rebuild: Rebuild
    barriers: FloatArray
    working_folder: Path

    def __call__(self, start: int, stop: int) -> PartialFront:
        """The front of the roots from the first to the one before the last."""
        return self._walk.search(start, stop)

    @cached_property
    def _walk(self) -> Walk:
        with chdir(self.working_folder):
            return Walk(self.rebuild(), self.barriers)
