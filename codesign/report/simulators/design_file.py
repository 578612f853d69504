"""File that the ``command`` evaluator writes for our wrappers: a design and its workload."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import codesign
from codesign.base.columns import Fields
from codesign.base.errors import CodesignError
from codesign.insight.evaluated_design import EvaluatedDesign


def answer(simulate: Callable[[EvaluatedDesign], Fields], array: str = "flattened") -> int:
    """The main function of a wrapper: ``DESIGN.json RESULT.json``, of space ``memexplorer``.

    Args:
        simulate: Gives the numbers of a design.
        array: The organization of the array that the simulator has in mind, as ``npu`` calls it.

    Returns:
        The exit code.
    """
    design, result = map(Path, sys.argv[1:3])
    try:
        data = json.loads(design.read_text(encoding="utf-8"))
        evaluated = codesign.evaluate(
            design=data["design"],
            space="memexplorer",
            workload=data["workload"],
            evaluator="npu",
            options={"array": array},
        )
        numbers = simulate(evaluated)
    except CodesignError as error:
        print(error, file=sys.stderr)
        return 1
    result.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return 0
