"""A stranger's evaluator that ends its process, hangs, or works at the second attempt."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.base.schema import Record
from codesign.search.problem_builder import build_problem
from codesign.space import parse_space

SPACE = "parameters: {x: {low: 0, high: 29}, y: {low: 0, high: 29}}"


class FragileEvaluator(Evaluator):
    class Workload(Record):
        folder: str = "."

    class Options(Record):
        pass

    metrics = (
        Metric("gain_tokens", "maximize", "token", "the more the better"),
        Metric("power_watts", "minimize", "W", "the less the better"),
    )
    required_parameters = frozenset({"x", "y"})
    optional_parameters = frozenset()

    def __init__(self, workload, options):
        self._folder = Path(workload.folder)

    def known_violations(self, designs):
        return {}

    def evaluate(self, designs, metrics=None):
        x, y = (designs[name].lookup(float) for name in ("x", "y"))
        for value in x.astype(int).tolist():
            self._misbehave(value)
        values = {"gain_tokens": np.sin(x) + y / 3.0, "power_watts": np.exp(x / 7.0) * (y + 1.0)}
        return Evaluation(values, {"heat": x - 25.0})

    def _misbehave(self, x):
        if x == 11:
            os.kill(os.getpid(), signal.SIGSEGV)
        if x == 12:
            os._exit(3)
        if x == 13:
            program = [
                sys.executable,
                "-c",
                "import time; print('alive', flush=True); time.sleep(600)",
            ]
            child = subprocess.Popen(program, stdout=subprocess.PIPE)
            child.stdout.readline()
            (self._folder / "child").write_text(str(child.pid))
        if x == 14:
            attempts = self._folder / "attempts"
            with attempts.open("a") as file:
                file.write("x")
            if len(attempts.read_text()) < 3:
                raise ConnectionError("no license\nat the moment")
        if x == 16:
            time.sleep(600)
        if x == 15:
            print("a line of the simulator \x1b[31m")

    def provenance(self):
        return {}


def build(folder="."):
    evaluator = FragileEvaluator(FragileEvaluator.Workload(folder=str(folder)), None)
    space = parse_space(SPACE, {}, "fragile")
    return build_problem(
        space, evaluator, ["maximize gain_tokens", "minimize power_watts"], ["power_watts <= 300"]
    )


def build_nothing():
    os._exit(7)


def build_other():
    return build_problem(build().space, build().evaluator, ["maximize gain_tokens"])
