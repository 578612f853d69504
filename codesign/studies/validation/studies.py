"""The studies by name; each module is imported when it is run."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from codesign.errors import UnknownNameError
from codesign.studies.validation.study import Study

STUDIES = {
    "memexplorer": "published",
    "simulation": "simulated",
    "scalesim": "scalesim",
    "array-bounds": "array_bounds",
    "measured": "measured",
    "epoch": "epoch",
    "genz": "genz",
    "life": "life",
}
"""Module of each study, in the order of the page."""


def run_study(name: str, seed: int = 0, size: int | None = None) -> Study:
    """Run one study.

    Args:
        name: One of ``STUDIES``.
        seed: Of whatever is sampled.
        size: Number of cases where that can be chosen; the study's own if None.

    Raises:
        UnknownNameError: No such study.
    """
    if name not in STUDIES:
        raise UnknownNameError("study", name, STUDIES)
    module = import_module(f"codesign.studies.validation.{STUDIES[name]}")
    run: Callable[..., Study] = module.run
    return run(seed=seed, size=size)
