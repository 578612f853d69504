"""What check_evaluator finds: an honest stranger passes, each planted fault is named."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
import pytest

from codesign.base.columns import column_of, first_values
from codesign.base.evaluator import Evaluation, Evaluator, Explanation
from codesign.base.metrics import Metric
from codesign.base.schema import Record
from codesign.evaluators.conformance import check_evaluator

GAIN = Metric("gain_tokens", "maximize", "token", "the more the better")
COST = Metric("cost_watts", "minimize", "W", "the less the better")


def twelve_designs():
    return {
        "x": column_of([float(x) for x in range(12)]),
        "kind": column_of([None, "a", "b"] * 4),
    }


class Honest(Evaluator):
    """A stranger's evaluator: fails on one design, has no second metric on another."""

    class Workload(Record):
        scale: float = 2.0

    class Options(Record):
        pass

    metrics: tuple[Metric, ...] = (GAIN, COST)
    required_parameters: frozenset[str] = frozenset({"x"})
    optional_parameters: frozenset[str] = frozenset({"kind"})

    def known_violations(self, designs):
        return {"size": self.x(designs) / 6.0 - 1.0}

    def x(self, designs):
        return designs["x"].lookup(float)

    def values(self, designs):
        x = self.x(designs)
        kind = designs["kind"].lookup({"a": 1.0, "b": 2.0}.__getitem__, absent=0.0)
        return {"gain_tokens": np.exp(x) + kind, "cost_watts": np.where(x == 5.0, np.nan, x)}

    def evaluate(self, designs, metrics=None):
        values = self.values(designs)
        asked = list(values) if metrics is None else metrics
        too_big = np.flatnonzero(self.x(designs) == 11.0).tolist()
        return Evaluation(
            {name: values[name] for name in asked},
            dict(self.known_violations(designs)),
            dict.fromkeys(too_big, "too big to simulate"),
        )

    def provenance(self):
        return {"scale": 2.0, "sources": ["none"]}


class Explaining(Honest):
    def explain(self, designs):
        result = self.evaluate(designs)
        metrics = first_values(result.metrics)
        return Explanation(metrics, {}, [{"name": "all", "time_s": 1.0}], [], [])


@pytest.mark.parametrize("stranger", [Honest, Explaining])
def test_an_honest_evaluator_passes(stranger):
    check_evaluator(stranger(), twelve_designs())


def evaluating(change):
    """An evaluator whose values go through ``change``."""

    class Faulty(Honest):
        def values(self, designs):
            values = super().values(designs)
            changed = change(self, designs, values)
            return values if changed is None else changed

    return Faulty


def returning(change):
    """An evaluator whose result goes through ``change``."""

    class Faulty(Honest):
        def evaluate(self, designs, metrics=None):
            return change(super().evaluate(designs, metrics))

    return Faulty


def having(**attributes):
    return type("Faulty", (Honest,), attributes)


class ChangesItsDesigns(Honest):
    def evaluate(self, designs, metrics=None):
        result = super().evaluate(designs, metrics)
        designs["x"].codes[0] = 1
        return result


class RemembersItsResult(Honest):
    _kept: ClassVar[dict[bytes, Evaluation]] = {}

    def evaluate(self, designs, metrics=None):
        key = designs["x"].codes.tobytes() + repr(metrics).encode()
        if key not in self._kept:
            self._kept[key] = super().evaluate(designs, metrics)
        return self._kept[key]


class ReusesItsMemory(Honest):
    def __init__(self):
        self.buffer = np.zeros(100)

    def values(self, designs):
        values = super().values(designs)
        gain = self.buffer[: len(values["gain_tokens"])]
        gain[:] = values["gain_tokens"]
        return values | {"gain_tokens": gain}


class CountsItsCalls(Honest):
    n_calls = 0

    def evaluate(self, designs, metrics=None):
        result = super().evaluate(designs, metrics)
        self.n_calls += metrics is None
        gain = result.metrics.get("gain_tokens")
        if metrics is None and gain is not None:
            gain += self.n_calls - 1
        return Evaluation({**result.metrics}, result.violations, result.failures)


class IgnoresTheNames(Honest):
    def evaluate(self, designs, metrics=None):
        return super().evaluate(designs, None)


class ComputesASubsetOtherwise(Honest):
    def evaluate(self, designs, metrics=None):
        result = super().evaluate(designs, metrics)
        factor = 1.0 if metrics is None else 1.0 + 1e-15
        return Evaluation(
            {name: values * factor for name, values in result.metrics.items()},
            result.violations,
            result.failures,
        )


class KnowsOtherViolations(Honest):
    def known_violations(self, designs):
        return {"size": self.x(designs) / 6.0 - 1.1}

    def evaluate(self, designs, metrics=None):
        result = super().evaluate(designs, metrics)
        return Evaluation(result.metrics, {"size": self.x(designs) / 6.0 - 1.0}, result.failures)


class FailsByPosition(Honest):
    def evaluate(self, designs, metrics=None):
        result = super().evaluate(designs, metrics)
        return Evaluation(result.metrics, result.violations, {0: "the first always fails"})


class ExplainsOtherwise(Explaining):
    def explain(self, designs):
        told = super().explain(designs)
        return Explanation({**told.metrics, "cost_watts": -3.0}, {}, [], [], [])


class ExplainsInArrays(Explaining):
    def explain(self, designs):
        return Explanation(super().explain(designs).metrics, {}, [{"time_s": np.ones(2)}], [], [])


def raises(*_):
    raise ZeroDivisionError("no such corner")


counter = itertools.count()

FAULTS = [
    ("changes its designs", ChangesItsDesigns, "changed the designs"),
    ("counts its calls", CountsItsCalls, "same for the same designs"),
    ("normalizes by the batch",
     evaluating(lambda _, __, v: {**v, "gain_tokens": v["gain_tokens"] / v["gain_tokens"].max()}),
     "must not depend on its batch"),
    ("depends on the place",
     evaluating(lambda _, __, v: {**v, "gain_tokens": v["gain_tokens"] + np.arange(len(v["gain_tokens"]))}),  # noqa: E501 - a table row
     "must not depend on its batch"),
    ("differs in the last digit in a batch of one",
     evaluating(lambda _, __, v: {**v, "gain_tokens": np.nextafter(v["gain_tokens"], 0) if len(v["gain_tokens"]) == 1 else v["gain_tokens"]}),  # noqa: E501
     "must not depend on its batch"),
    ("fails by position", FailsByPosition, "fails in one and not in the other"),
    ("hands out its memory", RemembersItsResult, "writing into a result"),
    ("reuses its memory", ReusesItsMemory, "later call must not change"),
    ("leaves out a metric", returning(lambda r: Evaluation(
        {k: v for k, v in r.metrics.items() if k != "cost_watts"}, r.violations, r.failures)),
     "leaves out \\['cost_watts'\\]"),
    ("reports an undeclared metric", returning(lambda r: Evaluation(
        {**r.metrics, "bonus": r.violations["size"]}, r.violations, r.failures)),
     "also reports \\['bonus'\\]"),
    ("ignores the names", IgnoresTheNames, "asked for 'gain_tokens' alone"),
    ("computes a subset otherwise", ComputesASubsetOtherwise, "alone must equal itself"),
    ("returns a column", evaluating(
        lambda _, __, v: {**v, "gain_tokens": v["gain_tokens"][:, None]}), "shape \\(12,\\)"),
    ("returns a list", evaluating(
        lambda _, __, v: {**v, "gain_tokens": v["gain_tokens"].tolist()}), "got list"),
    ("returns whole numbers", evaluating(
        lambda _, __, v: {**v, "gain_tokens": v["gain_tokens"].astype(int)}), "float64"),
    ("returns a dictionary", returning(lambda r: dict(r.metrics)), "must return an Evaluation"),
    ("returns a scalar violation", returning(lambda r: Evaluation(
        r.metrics, {"size": np.float64(0.0)}, r.failures)), "violation 'size' must be an array"),
    ("has a violation that is no number", returning(lambda r: Evaluation(
        r.metrics, {"size": np.full(len(r.violations["size"]), np.nan)}, r.failures)),
     "violation 'size' is NaN"),
    ("fails designs that are not there", returning(lambda r: Evaluation(
        r.metrics, r.violations, {99: "?"})), "position from 0 to 11, got 99"),
    ("gives no reason", returning(lambda r: Evaluation(r.metrics, r.violations, {0: " "})),
     "reason in words"),
    ("raises on a design", evaluating(raises), "instead of naming the designs"),
    ("knows other violations", KnowsOtherViolations, "known before evaluation"),
    ("raises when asked for known violations", having(known_violations=raises),
     "raised ZeroDivisionError"),
    ("declares a metric twice", having(metrics=(GAIN, GAIN)), "twice"),
    ("declares no metric", having(metrics=()), "at least one Metric"),
    ("declares a unit that nobody knows", having(metrics=(Metric("gain", "maximize", "tok", ""),)),
     "no readable unit"),
    ("declares a name with a space", having(metrics=(Metric("a gain", "maximize", "", ""),)),
     "work in expressions"),
    ("declares no such sense", having(metrics=(Metric("gain", "bigger", "", ""),)),  # type: ignore[arg-type]  # the fault
     "sense"),
    ("takes any workload", having(Workload=dict), "subclass of codesign.base.schema.Record"),
    ("requires and offers the same", having(optional_parameters=frozenset({"x", "kind"})), "both"),
    ("reads what it does not declare", having(optional_parameters=frozenset()),
     "\\['kind'\\], which are not declared"),
    ("requires what is not there", having(required_parameters=frozenset({"x", "y"})),
     "lack the required parameters \\['y'\\]"),
    ("has a provenance of objects", having(provenance=lambda _: {"when": object()}), "plain JSON"),
    ("has an infinite provenance", having(provenance=lambda _: {"limit": float("inf")}),
     "plain JSON"),
    ("has a provenance that changes", having(provenance=lambda _: {"calls": next(counter)}),
     "same at every call"),
    ("has a provenance of tuples", having(provenance=lambda _: {"sizes": (1, 2)}), "no tuples"),
    ("explains otherwise", ExplainsOtherwise, "'cost_watts' is -3.0 and 0.0"),
    ("explains in arrays", ExplainsInArrays, "plain JSON values"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "message"), [pytest.param(f, m, id=n) for n, f, m in FAULTS])
def test_a_faulty_evaluator_is_named_in_a_sentence(fault, message):
    with pytest.raises(AssertionError, match=message) as caught:
        check_evaluator(fault(), twelve_designs())
    assert str(caught.value).endswith(".")


def test_one_design_is_too_few_to_check_with():
    with pytest.raises(AssertionError, match="two designs"):
        check_evaluator(Honest(), {"x": column_of([1.0]), "kind": column_of(["a"])})
