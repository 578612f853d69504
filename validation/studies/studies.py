"""The studies by name; each module is imported when it is run."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from codesign.base.errors import InputError, check_known
from validation.studies.study import Study

_MODULES = """
memexplorer=memexplorer_study simulation=simulated scalesim=scalesim_study mappings=best_mappings
kernels=kernels silicon=silicon energy=kernel_energy requests=requests arrivals=engine_arrivals
throughput=saturation epoch=epoch genz=genz_study life=life_study fleets=fleets
caches=prompt_caches systems=systems area=published_dies heat=stack_heat cost=published_prices
"""
STUDIES = dict(words.split("=") for words in _MODULES.split())
"""Module of each study, in the order of the page."""


SIZED = ("simulation", "scalesim", "mappings", "epoch", "heat")
"""Studies that draw cases by a seed or can have fewer of them; the others have what was printed or
measured."""
WITH_TABLES = ("kernels", "requests", "arrivals", "throughput")
"""Studies that compare any table of measurements."""
TABLE_WORDS = "kernels, requests, arrivals or throughput"


def compare_table(name: str, path: Path) -> Study:
    """Compare a table of one's own with the shipped constants.

    Args:
        name: One of ``WITH_TABLES``.
        path: The table, with the columns of the study's own.

    Raises:
        InputError: The study has no table, or the file cannot be read as one.
        UnknownNameError: No such study.
    """
    check_known("study", name, STUDIES)
    if name not in WITH_TABLES:
        raise InputError(f"study {name} reads no table; expected {TABLE_WORDS}")
    module = import_module(f"validation.studies.{STUDIES[name]}")
    compare: Callable[[Path], Study] = module.compare
    return compare(path)


def run_study(name: str, seed: int = 0, size: int | None = None) -> Study:
    """Run one study.

    Args:
        name: One of ``STUDIES``.
        size: Number of cases where that can be chosen; the study's own if None.

    Raises:
        UnknownNameError: No such study.
    """
    check_known("study", name, STUDIES)
    module = import_module(f"validation.studies.{STUDIES[name]}")
    study: Study = module.run(seed=seed, size=size) if name in SIZED else module.run()
    return study
