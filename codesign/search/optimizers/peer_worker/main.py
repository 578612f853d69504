"""The process: a line in, a line out, until standard input ends."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from importlib import import_module
from typing import Any

from .task import Method, Task

_MODULES = {
    "optuna": "optuna_methods",
    "botorch": "botorch_method",
    "ax": "ax_method",
    "smac": "smac_method",
    "hebo": "hebo_method",
    "pymoo": "pymoo_methods",
}
"""Modules by the first word of a method's name; each imports its library when it is asked."""


def main() -> None:
    """Answer requests; what a library prints is no answer."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answer = dict[str, Any]()
        try:
            name = str(request["method"])
            module = import_module(f"{__package__}.{_MODULES[name.split('-')[0]]}")
            method: Method = getattr(module, name.replace("-", "_"))
            answer = asdict(method(Task.read(request)))
        except ModuleNotFoundError as error:
            answer = {"missing": (error.name or "").split(".")[0]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        print(json.dumps(answer, default=str), file=answers, flush=True)
