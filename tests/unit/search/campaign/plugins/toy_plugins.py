"""A stranger's evaluator and optimizers, registered as any package would register its own."""

import os
import signal
import sys
import time

import numpy as np

from codesign.base.errors import MissingExtraError
from codesign.base.evaluator import Evaluation, Evaluator, Failure
from codesign.base.metrics import Metric
from codesign.base.schema import Record


class ToyBare:
    """An optimizer without the record of its options."""


class ToyEvaluator(Evaluator):
    """Two metrics of two integers, and every way to misbehave."""

    class Workload(Record):
        scale: float = 1.0

    class Options(Record):
        raise_on: tuple[int, ...] = ()
        nan_on: tuple[int, ...] = ()
        inf_on: tuple[int, ...] = ()
        give_up_on: tuple[int, ...] = ()
        refuse_on: tuple[int, ...] = ()
        misbehave: str = ""
        delay_s: float = 0.0
        n_undelayed: int = 0
        kill_on: int = -1

    metrics = (
        Metric("gain_tokens", "maximize", "token", "the more the better"),
        Metric("power_watts", "minimize", "W", "the less the better"),
        Metric("spare", "maximize", "", "half of the designs have none"),
    )
    required_parameters = frozenset({"x", "y"})
    optional_parameters = frozenset({"kind"})

    def __init__(self, workload, options):
        self.workload, self.options = workload, options
        self.calls = []

    def known_violations(self, designs):
        x, y = (designs[name].lookup(float) for name in ("x", "y"))
        return {"corner": (x + y - 55.0) / 55.0}

    def evaluate(self, designs, metrics=None):
        options = self.options
        x, y = (designs[name].lookup(float) for name in ("x", "y"))
        self.calls.append(len(x))
        if len(self.calls) > options.n_undelayed:
            time.sleep(options.delay_s)
        if np.isin(x, options.raise_on).any():
            raise ZeroDivisionError("the toy\nbroke")
        if (x == options.kill_on).any() and "pytest" not in sys.modules:
            os.kill(os.getpid(), signal.SIGKILL)
        gain = self.workload.scale * (np.sin(x / 7.0) + np.cos(y / 5.0) + 3.0) * 10.0
        power = 100.0 + x * y / 3.0
        gain[np.isin(x, options.nan_on)] = np.nan
        power[np.isin(x, options.inf_on)] = np.inf
        spare = np.where(x % 2 == 0, x, np.nan)
        found = {"gain_tokens": gain, "power_watts": power, "spare": spare}
        if options.misbehave == "shape":
            found["power_watts"] = power[:-1]
        elif options.misbehave == "absent":
            del found["power_watts"]
        elif options.misbehave == "unknown":
            found["powr_watts"] = power
        reasons = {int(i): f"gave up on {x[i]:g}"
                   for i in np.flatnonzero(np.isin(x, options.give_up_on))}  # fmt: skip
        reasons |= {int(i): Failure("infeasible", f"no room for {x[i]:g}")
                    for i in np.flatnonzero(np.isin(x, options.refuse_on))}  # fmt: skip
        return Evaluation(found, {"heat": (power - 700.0) / 700.0}, reasons)

    def provenance(self):
        return {"scale": self.workload.scale, "options": self.options.model_dump()}


class ToyRandom:
    """Unseen admissible designs, in an order that the seed and what was told decide."""

    class Options(Record):
        population: int = 7

    def __init__(self, space, n_objectives, seed, options):
        self.space, self.seed = space, seed
        self.preferred_batch = options.population
        self.rows, self.points, self.seen = [], [], []

    def ask(self, n):
        rng = np.random.default_rng([self.seed, len(self.rows)])
        order = rng.permutation(self.space.space.size)
        rows = self.space.space.rows(order)
        rows = rows[self.space.admits(rows)]
        rows = rows[~np.isin(self.space.space.keys(rows), self.seen)]
        return self.ranked(rows)[:n]

    def ranked(self, rows):
        return rows

    def tell(self, rows, objectives, violations, failed):
        assert np.isnan(objectives[failed]).all() and not np.isnan(objectives[~failed]).any()
        self.rows += list(rows)
        self.points += [np.where(failed[i], 1e9, objectives[i].sum()) for i in range(len(rows))]
        self.seen += self.space.space.keys(rows).tolist()


class ToyClimb(ToyRandom):
    """Goes near the best design so far: every bit of the history counts."""

    def ranked(self, rows):
        best = self.rows[int(np.argmin(self.points))]
        return rows[np.argsort(abs(rows - best).sum(axis=1), kind="stable")]


class ToyTwice(ToyRandom):
    def ask(self, n):
        return np.array(self.rows[:1])


class ToyOutside(ToyRandom):
    def ask(self, n):
        return super().ask(n) + 1000


class ToyRaises(ToyRandom):
    def ask(self, n):
        raise KeyError("lost its way")


class ToyMisshapen(ToyRandom):
    def ask(self, n):
        return [[1, 2]]


class ToyGreedy(ToyRandom):
    def ask(self, n):
        return super().ask(n + 1)


class ToyAbsentLibrary(ToyRandom):
    def __init__(self, space, n_objectives, seed, options):
        raise MissingExtraError("toy search", "toys")
