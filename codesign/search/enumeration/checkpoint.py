"""Progress of an enumeration, in memory and in a file."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from codesign.base.columns import (
    BoolArray,
    FloatArray,
    IntArray,
    IntegerList,
    IntegerPair,
    JsonObject,
    Strings,
)
from codesign.base.errors import StoreError
from codesign.base.files import replacing
from codesign.search.enumeration.front import Archive
from codesign.search.enumeration.walk import PartialFront, Tally

_logger = logging.getLogger(__name__)


@dataclass
class State:
    """Settled results so far.

    Attributes:
        incumbents: (p, m) known at the start; they decide what is left out.
        n_roots: Of the decomposition.
        block: Roots of a block.
        done: (b,) whether each block is settled.
        archive: The front of the settled blocks.
        tally: What became of their designs.
    """

    incumbents: FloatArray
    n_roots: int
    block: int
    done: BoolArray
    archive: Archive
    tally: Tally

    @classmethod
    def fresh(cls, incumbents: FloatArray, n_roots: int, block: int) -> State:
        """Nothing is settled."""
        done = np.zeros(-(-n_roots // block), bool)
        return cls(incumbents, n_roots, block, done, Archive(incumbents.shape[1]), Tally())

    @property
    def remaining(self) -> IntegerList:
        """Blocks that are not settled, in order."""
        return [int(block) for block in np.flatnonzero(~self.done)]

    def range_of(self, block: int) -> IntegerPair:
        """The roots of a block."""
        return block * self.block, min((block + 1) * self.block, self.n_roots)

    def settle(self, block: int, partial_front: PartialFront) -> None:
        """Take the front of a block; the block is settled then."""
        self.archive.merge(partial_front.archive)
        self.tally.add(partial_front.tally)
        self.done[block] = True


def save_state(path: Path, state: State) -> None:
    """Write a state; the file is replaced as a whole."""
    groups = state.archive.members
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.savez(
            file,
            incumbents=state.incumbents,
            sizes=np.array([state.n_roots, state.block]),
            done=state.done,
            points=state.archive.points,
            counts=state.archive.counts,
            members=np.concatenate([np.empty(0, np.int64), *groups]),
            lengths=np.array([len(group) for group in groups], np.int64),
            tally=np.array(list(vars(state.tally).values()), np.int64),
        )


def load_state(path: Path | None, n_objectives: int) -> State | None:
    """The state in a file; None if there is no usable one."""
    try:
        data = read_arrays(path) if path is not None else None
        if not data:
            return None
        archive = Archive(n_objectives)
        archive.points = data["points"]
        archive.counts = data["counts"]
        ends: IntArray = np.cumsum(data["lengths"])[:-1]
        archive.members = list(np.split(data["members"], ends)) if len(data["lengths"]) else []
        n_roots, block = data["sizes"].tolist()
        tally = Tally(*data["tally"].tolist())
        return State(data["incumbents"], n_roots, block, data["done"], archive, tally)
    except (StoreError, ValueError, KeyError) as error:
        _logger.warning("%s: the enumeration begins anew: %s", path, error)
        return None


def read_arrays(path: Path, only: Strings | None = None) -> JsonObject | None:
    """The arrays of a file, all or some; None if there is no such file.

    Raises:
        StoreError: It cannot be read, or is not what was written.
    """
    try:
        content = BytesIO(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror}", str(path)) from error
    try:
        with np.load(content, allow_pickle=False) as file:
            return {name: file[name] for name in only or file.files}
    except Exception as error:  # a damaged archive makes its readers raise anything
        raise damaged(path) from error


def damaged(path: Path) -> StoreError:
    """A stored front that is not what was written."""
    return StoreError("is damaged; move it away, and 'codesign enumerate' finds it anew", str(path))
