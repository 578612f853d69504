"""Plant random faults and count those that tests catch: ``python -m tests.gate.mutants``.

mutmut's operators make the faults, one in each of some random functions of the package. mutmut's
own runner first traces all tests in one process and then meets every fault of a file. For a sample
over the package, imports tell which tests are near: those of the module, then its importers. They
may take a minute of processor time. Survivors meet all tests after that.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "codesign"
NEAR_S = 60
"""Processor time of the nearest tests, in seconds."""
LONGEST_S = 2400
"""Time limit of all tests: a fault may hang them."""
_NO_FAULT = {"strict", "encoding", "check", "newline"}
"""Arguments without effect where lengths agree, UTF-8 is the rule and exit codes are read."""

_FAILED = re.compile(
    r"^(?:(?:FAILED|ERROR) |ImportError while loading conftest '.*?(?=tests/))([^\s\['()]+)",
    re.MULTILINE,
)
"""Name in pytest's output of a failed test, or of a ``conftest.py`` that cannot be imported."""


@dataclass(frozen=True)
class Fault:
    """A change of one place in one function."""

    path: Path
    function: str
    before: str
    after: str

    def difference(self) -> str:
        """Changed lines, without their surroundings."""
        lines = difflib.unified_diff(
            self.before.split("\n"), self.after.split("\n"), n=0, lineterm=""
        )
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


@cache
def _files() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    return tuple(Path(name) for name in listed if name and (ROOT / name).is_file())


@cache
def _modules() -> dict[str, Path]:
    """Path of each module of the package and of its tests."""
    paths = [x for x in _files() if x.suffix == ".py" and x.parts[0] in {PACKAGE, "tests"}]
    return {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(paths)
    }


@cache
def _imports(module: str) -> frozenset[str]:
    """Modules that a module's import statements name, wherever these stand."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / _modules()[module]).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.add(node.module)
    return frozenset(names & _modules().keys())


def nearest_tests(path: Path) -> list[str]:
    """Test files of a module: its mirror, then importers by likeness of names and distance."""
    target = next(name for name, other in _modules().items() if other == path)
    distance, front = {target: 0}, {target}
    while front:
        front = {name for name in _modules() if name not in distance and _imports(name) & front}
        distance.update(dict.fromkeys(front, max(distance.values()) + 1))
    topic = _topic(path)

    def rank(module: str) -> tuple[Any, ...]:
        test = _modules()[module]
        is_mirror = test.name in {f"test_{path.name}", f"test_{path.parent.name}_{path.name}"}
        likeness = len(topic & _topic(test))
        return not is_mirror, distance.get(module, 9) - 2 * likeness, (ROOT / test).stat().st_size

    # No test imports a module that runs in a process of its own: names tell which are near.
    tests = [name for name in distance if _is_test(name)] or list(filter(_is_test, _modules()))
    files = [str(_modules()[name]) for name in sorted(tests, key=rank)]
    examples = (
        f"tests/unit/test_doctests.py::test_the_examples_of_a_module_give_what_they_say[{target}]"
    )
    return [examples, *files] if ">>> " in (ROOT / path).read_text(encoding="utf-8") else files


def _is_test(module: str) -> bool:
    return _modules()[module].name.startswith("test_")


def _topic(path: Path) -> set[str]:
    """Words of a module's name and of its folders, without those of every test."""
    words = {word for part in path.with_suffix("").parts[1:] for word in part.split("_")}
    return words - {"test", "unit", "models", "e2e", "properties"}


def random_faults(n: int, seed: int) -> list[Fault]:
    """One fault each in ``n`` random functions.

    A place in the function is drawn first and then its change: a place with many changes has no
    more weight.
    """
    from mutmut.mutation.file_mutation import create_mutations

    generator = random.Random(seed)
    functions = [
        (path, node.name, node.lineno)
        for path in _modules().values()
        if path.parts[0] == PACKAGE
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    generator.shuffle(functions)
    faults: list[Fault] = []
    for path, name, _ in functions:
        if len(faults) == n:
            break
        before = (ROOT / path).read_text(encoding="utf-8")
        module, mutations, *_ = create_mutations(str(path), before)
        places: dict[int, list[Any]] = {}
        for mutation in mutations:
            within = mutation.contained_by_top_level_function
            if getattr(getattr(within, "name", None), "value", None) == name:
                places.setdefault(id(mutation.original_node), []).append(mutation)
        for _ in range(10 if places else 0):
            mutation = generator.choice(generator.choice(list(places.values())))
            after = module.deep_replace(mutation.original_node, mutation.mutated_node).code
            if _effect(before) != _effect(after):
                faults.append(Fault(path, name, before, after))
                break
    return faults


def _effect(source: str) -> str:
    """Syntax tree of a module without the arguments in ``_NO_FAULT``; commas make no difference."""
    module = ast.parse(source)
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            node.keywords = [word for word in node.keywords if word.arg not in _NO_FAULT]
    return ast.dump(module)


def copied_tree(folder: Path) -> Path:
    """A copy of the repository's files, in which faults are planted."""
    for path in _files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)
    return folder


class Suite:
    """The tests, which of them fail without a fault, and which are known to pass."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.sound: set[str] = set()

    def run(self, tree: Path, tests: list[str], processor_s: float | None) -> tuple[str, float]:
        """The first test that fails, and the processor time that was taken, in seconds.

        None fails if all pass, or until their processor time is over.
        """

        def limit() -> None:
            if processor_s is not None:
                seconds = max(int(processor_s), 1)
                resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

        words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        words += [f"--deselect={name}" for name in sorted(self.broken)]
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [*words, *tests], cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)},
                preexec_fn=limit, stdout=output, stderr=output,
            )  # fmt: skip
            stop = threading.Timer(LONGEST_S, process.kill)
            stop.start()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0  # it was waited for, which the module did not see
            stop.cancel()
            output.seek(0)
            names = _FAILED.findall(output.read())
            return "".join(names[:1]), usage.ru_utime + usage.ru_stime

    def passes(self, name: str, tree: Path) -> bool:
        """True if a test passes without a fault; one that fails is left out from now on."""
        if name not in self.sound:
            (self.broken if self.run(tree, [name], None)[0] else self.sound).add(name)
        return name in self.sound


def catch(fault: Fault, tree: Path, suite: Suite, is_far: bool) -> str:
    """Outcome of one fault: ``near``, ``all`` or ``survived``, with the test that caught it."""
    tests, n, left_s = nearest_tests(fault.path), 4, float(NEAR_S)
    while tests and left_s > 1:
        # Batches grow: reading a hundred files takes longer than the tests of the first.
        name, took_s = _run_with(fault, tree, suite, tests[:n], left_s)
        if name:
            return f"near {name}"
        tests, n, left_s = tests[n:], 2 * n, left_s - took_s
    name = _run_with(fault, tree, suite, ["tests"], None)[0] if is_far else ""
    return f"all {name}" if name else "survived"


def _run_with(
    fault: Fault, tree: Path, suite: Suite, tests: list[str], processor_s: float | None
) -> tuple[str, float]:
    """The test that fails with a fault and passes without it, and the processor time taken."""
    while True:
        (tree / fault.path).write_text(fault.after, encoding="utf-8")
        try:
            name, took_s = suite.run(tree, tests, processor_s)
        finally:
            (tree / fault.path).write_text(fault.before, encoding="utf-8")
        if not name or suite.passes(name, tree):
            return name, took_s


def main() -> int:
    """Plant the faults, print each with its outcome; exit code 0 if enough were caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--skip", type=int, default=0, help="faults that another run meets")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--near", action="store_true", help="spare survivors all other tests")
    parser.add_argument("--list", action="store_true", help="print the faults alone")
    arguments = parser.parse_args()
    faults = random_faults(arguments.faults, arguments.seed)[arguments.skip :]
    if arguments.list:
        for fault in faults:
            print(f"{fault.path}: {fault.function}\n{fault.difference()}")
        return 0
    counts = {"near": 0, "all": 0, "survived": 0}
    with tempfile.TemporaryDirectory() as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        suite = Suite()
        for number in range(arguments.jobs):
            trees.put(copied_tree(Path(folder) / str(number)))

        def attempt(fault: Fault) -> None:
            tree, start = trees.get(), time.monotonic()
            try:
                outcome, _, name = catch(fault, tree, suite, not arguments.near).partition(" ")
            finally:
                trees.put(tree)
            counts[outcome] += 1
            seconds = time.monotonic() - start
            print(
                f"{outcome} after {seconds:.0f} s: {fault.path}: {fault.function} {name}\n"
                f"{fault.difference()}",
                flush=True,
            )

        with ThreadPoolExecutor(arguments.jobs) as pool:
            for _ in pool.map(attempt, faults):
                pass
    if suite.broken:
        print(f"left out, since they fail without a fault: {', '.join(sorted(suite.broken))}")
    n_caught = counts["near"] + counts["all"]
    print(f"{n_caught} of {len(faults)} caught, {counts['near']} by the nearest tests")
    return 0 if n_caught >= 0.9 * len(faults) and counts["near"] >= 0.75 * len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
