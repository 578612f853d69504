"""When the compiled loop is used.

Loading numba and a loop compiled earlier costs about 0.6 s of CPU, compiling it 6 s, and the loop
saves some 4 microseconds a design (one core of the machine of ``docs/performance.md``). So a
process starts on NumPy and loads the loop after ``LOAD_AFTER`` designs, or compiles it after
``COMPILE_AFTER``: by then the start would have paid, and at the worst as much time has been lost
again. The environment variable ``CODESIGN_COMPILED`` says otherwise: ``1`` loads or compiles at
once, ``0`` never.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

import numpy as np

from codesign.base.errors import InputError
from codesign.evaluators.npu.compiled_loop import loop
from codesign.models.machines.npu.machine_code import cache_folder

SWITCH = "CODESIGN_COMPILED"
"""The environment variable that overrules when the loop is used; it cannot change a result."""
LOAD_AFTER = 150_000
"""Designs on NumPy after which a loop that lies on the disk is loaded: 0.6 s / 4 us."""
COMPILE_AFTER = 1_500_000
"""Designs on NumPy after which it is compiled: 6 s / 4 us."""

_LARGEST_ADAPTED_BYTES = (1 << 25) - (1 << 16)
"""Just below the largest array to which glibc adapts."""
_progress = {"designs": 0}


def is_worthwhile(n: int) -> bool:
    """Whether the next ``n`` designs go through the compiled loop."""
    is_wanted = switch()
    if is_wanted is False or not has_numba():
        return False
    if not is_wanted and not loop.cache_info().currsize:
        _progress["designs"] += n
        done = _progress["designs"]
        if done <= LOAD_AFTER or (done <= COMPILE_AFTER and not is_on_disk()):
            return False
    return _can_load()


def load_now() -> None:
    """Load the loop, or compile it, before many designs are evaluated one by one.

    Nothing happens without numba, or where the environment asks for it never to be used.
    """
    if switch() is not False and has_numba():
        _can_load()


@cache
def _can_load() -> bool:
    try:
        loop()
    except ImportError:  # a numba that does not know this version of NumPy says so by this
        return False
    _keep_freed_memory()
    return True


def _keep_freed_memory() -> None:
    """Have the C library keep what a batch frees, instead of handing it back to the system.

    The arrays of a batch take some MiB. Handed back and taken again for the next batch, each of
    their pages costs a fault, which doubles what the accounts add to the time of an evaluation.
    glibc keeps twice as much as the largest array that it has freed, of up to 32 MiB (mallopt(3),
    M_MMAP_THRESHOLD). Nothing is written to this one, so that it takes no memory.
    """
    np.empty(_LARGEST_ADAPTED_BYTES, np.uint8)


def switch() -> bool | None:
    """Switch of the environment: the loop at once, never, or (None) when it pays.

    Raises:
        InputError: It asks for something else, or for the loop where numba is not installed.
    """
    text = os.environ.get(SWITCH, "")
    if text not in ("", "0", "1"):
        raise InputError(f"expected 0 (never), 1 (at once) or nothing, got {text!r}", SWITCH)
    if text == "1" and not has_numba():
        raise InputError(
            "expected 0 or nothing without numba; pip install 'codesign[fast]'", SWITCH
        )
    return None if not text else text == "1"


@cache
def has_numba() -> bool:
    """Whether numba is installed; it is not imported."""
    return find_spec("numba") is not None


@cache
def is_on_disk() -> bool:
    """Whether the loop has been compiled for this source before."""
    folder = cache_folder()
    return folder is not None and any(folder.rglob("*.nbi"))
