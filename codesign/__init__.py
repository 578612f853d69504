"""Multi-objective co-design of memory and compute for LLM-inference accelerators.

The names below are loaded when they are first used, so that ``import codesign`` costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

__all__ = [
    "EvaluatedDesign",
    "Study",
    "__version__",
    "build_evaluator",
    "evaluate",
    "load_campaign",
    "load_library",
    "load_model",
    "load_space",
    "optimize",
    "plot",
    "prepare",
    "problems",
    "results_frame",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "problems":
        return import_module("codesign.search.problems")
    room = "search.study" if name in ("Study", "optimize") else "api"
    return getattr(import_module(f"codesign.{room}"), name)


def __dir__() -> list[str]:
    return __all__
