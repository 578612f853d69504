"""What the ``command`` evaluator writes for our own wrappers: a design and its workload."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import codesign
from codesign.errors import CodesignError, JobError
from codesign.evaluated_design import EvaluatedDesign
from codesign.studies.simulators.environments import SIMULATORS, interpreter_of


def evaluated_by_npu(path: Path, options: Mapping[str, Any]) -> EvaluatedDesign:
    """The design of a file, of the space ``memexplorer``, as ``npu`` has it with these options.

    Raises:
        CodesignError: The design or its workload cannot be used.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    return codesign.evaluate(
        design=data["design"],
        space="memexplorer",
        workload=data["workload"],
        evaluator="npu",
        options=options,
    )


def run_with(name: str, program: Path, *arguments: str) -> Any:
    """What a program says, as JSON in the last line of its output, run by a simulator's Python.

    Raises:
        InputError: The simulator is not installed.
        JobError: The program fails.
    """
    # Isolated, as our modules are next to the program.
    command = [str(interpreter_of(name)), "-I", "-W", "ignore", str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise JobError(f"{SIMULATORS[name].title} failed: {last}")
    return json.loads(lines[-1])


def answer(
    simulate: Callable[[EvaluatedDesign], Mapping[str, Any]], array: str = "flattened"
) -> int:
    """The main function of a wrapper: ``DESIGN.json RESULT.json``.

    Args:
        simulate: Gives the numbers of a design.
        array: The organization of the array that the simulator has in mind, as ``npu`` calls it.

    Returns:
        The exit code.
    """
    design, result = map(Path, sys.argv[1:3])
    try:
        numbers = simulate(evaluated_by_npu(design, {"array": array}))
    except CodesignError as error:
        print(error, file=sys.stderr)
        return 1
    result.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return 0
