"""What check_evaluator finds in hints and bounds: the honest pass, each fault is named."""

from __future__ import annotations

import numpy as np
import pytest

from codesign import api
from codesign.base.columns import column_of
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.base.schema import Record
from codesign.testing import check_evaluator

GAIN = Metric("gain_tokens", "maximize", "token", "the more the better")
COST = Metric("cost_watts", "minimize", "W", "the less the better")
KINDS = {"a": 1.0, "b": 2.0, "also b": 2.0}


def designs():
    """Of x from 0 to 15 all but the last, too large to be admissible, with every kind."""
    return {
        "x": column_of([float(x) for x in range(16) for _ in range(4)]),
        "kind": column_of([None, "a", "b", "also b"] * 16),
    }


class Helpful(Evaluator):
    """Gains 2 ** (x / 2) and the kind's worth, which it can bound; costs x and half that worth."""

    class Workload(Record):
        pass

    class Options(Record):
        pass

    metrics: tuple[Metric, ...] = (GAIN, COST)
    required_parameters: frozenset[str] = frozenset({"x"})
    optional_parameters: frozenset[str] = frozenset({"kind"})

    def x(self, designs):
        return designs["x"].lookup(float)

    def known_violations(self, designs):
        return {"size": self.x(designs) / 14.0 - 1.0}

    def evaluate(self, designs, metrics=None):
        kind = designs["kind"].lookup(KINDS.__getitem__)
        x = self.x(designs)
        values = {"gain_tokens": 2.0 ** (x / 2) + kind, "cost_watts": x + 0.5 * kind}
        asked = list(values) if metrics is None else metrics
        return Evaluation(
            {name: values[name] for name in asked}, dict(self.known_violations(designs))
        )

    def provenance(self):
        return {}

    def features(self, designs):
        x = self.x(designs)
        with np.errstate(divide="ignore"):
            # Infinite for a design that no search looks at.
            return {"size": x, "room": np.where(x < 15, 15.0 - x, np.inf)}

    def predict(self, designs, metrics):
        x = self.x(designs)
        values = {"gain_tokens": 2.0 ** (x / 2), "cost_watts": 1.1 * x}
        return {name: values[name] for name in metrics}

    undecided_parameters: tuple[str, ...] = ("kind",)

    def interchangeable(self, parameter, values):
        return [KINDS[str(v)] if parameter == "kind" else v for v in values]

    def best_case(self, designs, undecided, metrics):
        x = self.x(designs)
        if "kind" in undecided:
            worth = [KINDS[str(v)] if v is not None else 0.0 for v in undecided["kind"]]
            least, most = np.full(len(x), min(worth)), np.full(len(x), max(worth))
        else:
            least = most = designs["kind"].lookup(KINDS.__getitem__)
        values = {"gain_tokens": 2.0 ** (x / 2) + most, "cost_watts": x + 0.5 * least}
        return {name: values[name] for name in metrics}


def test_an_honest_evaluator_with_hints_and_bounds_passes():
    check_evaluator(Helpful(), designs())
    methods = ("features", "predict", "best_case")
    assert all(map(Helpful().offers, methods))


def test_a_metric_may_be_left_out_of_predictions():
    check_evaluator(PredictsGain(), designs())


def having(**attributes):
    return type("Faulty", (Helpful,), attributes)


def changing(method, change):
    """An evaluator of which what a method returns goes through ``change``."""

    def changed(self, *arguments):
        return change(dict(getattr(Helpful, method)(self, *arguments)))

    return having(**{method: changed})


def meddling(method):
    """An evaluator of which a method writes into the designs."""

    def changed(self, designs, *arguments):
        told = getattr(Helpful, method)(self, designs, *arguments)
        designs["x"].codes[0] = 1
        return dict(told)

    return having(**{method: changed})


def raises(*_):
    raise ZeroDivisionError("no such corner")


class CountsItsCalls(Helpful):
    n_calls = 0

    def features(self, designs):
        self.n_calls += 1
        return {"size": self.x(designs) + self.n_calls}


class HandsOutItsMemory(Helpful):
    def __init__(self):
        self.kept = {}

    def features(self, designs):
        return self.kept.setdefault(designs["x"].codes.tobytes(), super().features(designs))


class PredictsASubsetOtherwise(Helpful):
    def predict(self, designs, metrics):
        told = super().predict(designs, metrics)
        return {name: values + (len(metrics) == 1) for name, values in told.items()}


class PredictsOnlyInCompany(Helpful):
    def predict(self, designs, metrics):
        return super().predict(designs, metrics if len(metrics) > 1 else [])


class PredictsGain(Helpful):
    def predict(self, designs, metrics):
        return super().predict(designs, [name for name in metrics if name == "gain_tokens"])


class PredictsAllAnyway(Helpful):
    def predict(self, designs, metrics):
        return super().predict(designs, ["gain_tokens", "cost_watts"])


class BoundsWithTheLastOfSome(Helpful):
    """Right for all kinds together, wrong for some of them."""

    def best_case(self, designs, undecided, metrics):
        if len(undecided.get("kind", ())) in (2, 3):
            undecided = {"kind": undecided["kind"][-1:]}
        return super().best_case(designs, undecided, metrics)


class BoundsASubsetOtherwise(Helpful):
    def best_case(self, designs, undecided, metrics):
        told = super().best_case(designs, undecided, metrics)
        looser = {"gain_tokens": 1.0, "cost_watts": -1.0}
        return {name: v + looser[name] * (len(metrics) == 1) for name, v in told.items()}


class BoundsAllAnyway(Helpful):
    def best_case(self, designs, undecided, metrics):
        return super().best_case(designs, undecided, ["gain_tokens", "cost_watts"])


class NeedsWhatIsUndecided(Helpful):
    def best_case(self, designs, undecided, metrics):
        return self.evaluate(designs, metrics).metrics


FAULTS = [
    ("raises when asked for features", having(features=raises),
     "features raised ZeroDivisionError"),
    ("changes the designs for features", meddling("features"), "features changed the designs"),
    ("has a feature that is infinite",
     changing("features", lambda v: {**v, "room": np.where(v["size"] < 4, np.inf, 1.0)}),
     "features must give finite numbers, but 'room' of design 0 .* is inf"),
    ("has a feature in a column", changing("features", lambda v: {"size": v["size"][:, None]}),
     r"feature 'size' must be an array of shape \(60,\)"),
    ("has whole numbers for features",
     changing("features", lambda v: {"size": v["size"].astype(int)}), "float64, got int64"),
    ("has other features in small batches",
     changing("features", lambda v: v if len(v["size"]) > 1 else {"size": v["size"]}),
     r"in every batch, features .* leaves out \['room'\]"),
    ("ranks designs within a batch",
     changing("features", lambda v: {"size": v["size"] - v["size"].max()}),
     "features of a design must not depend on its batch"),
    ("counts its calls", CountsItsCalls, "features must be the same for the same designs"),
    ("hands out its memory", HandsOutItsMemory, "features must not change by writing"),
    ("raises when asked to predict", having(predict=raises), "predict raised ZeroDivisionError"),
    ("changes the designs to predict", meddling("predict"), "predict changed the designs"),
    ("predicts what is no number",
     changing("predict", lambda v: {n: np.where(x > 8, x, np.nan) for n, x in v.items()}),
     "predict must give finite numbers, but 'gain_tokens' of design 0 .* is nan"),
    ("predicts a metric only beside others", PredictsOnlyInCompany,
     r"asked for 'gain_tokens' alone, predict .* leaves out \['gain_tokens'\]"),
    ("predicts what is no metric",
     changing("predict", lambda v: {**v, "charm": 1.0 * len(v) + 0 * v["gain_tokens"]}
              if len(v) > 1 else v),
     r"predict must report only what it should, but also reports \['charm'\]"),
    ("predicts within a batch",
     changing("predict", lambda v: {n: x - x.mean() for n, x in v.items()}),
     "predict of a design must not depend on its batch"),
    ("predicts a subset otherwise", PredictsASubsetOtherwise,
     "'gain_tokens' .*asked for alone must equal|asked for alone must equal .*'gain_tokens'"),
    ("predicts what nobody asked for", PredictsAllAnyway,
     r"asked for 'gain_tokens' alone, predict .*also reports \['cost_watts'\]"),
    ("is noisy in words", having(is_noisy="yes"), "is_noisy must be true or false, got 'yes'"),
    ("leaves a list undecided", having(undecided_parameters=["kind"]),
     "undecided_parameters must be a tuple"),
    ("leaves a parameter undecided twice", having(undecided_parameters=("kind", "kind")),
     "of different names"),
    ("leaves what is not declared undecided", having(undecided_parameters=("kind", "color")),
     r"names \['color'\], which are not declared"),
    ("raises when asked for a best case", having(best_case=raises),
     "best_case raised ZeroDivisionError"),
    ("changes the designs for a best case", meddling("best_case"), "best_case changed the designs"),
    ("needs what is undecided", NeedsWhatIsUndecided, r"best_case raised KeyError \('kind'\)"),
    ("promises too little for all", changing(
        "best_case", lambda v: {n: 0.99 * x if n == "gain_tokens" else x for n, x in v.items()}),
     "no design may beat its best case.* 'gain_tokens' of design"),
    ("promises too little for some values", BoundsWithTheLastOfSome,
     r"no design may beat its best case, but with \{'kind': \[.*\]\} undecided"),
    ("has a best case that is no number",
     changing("best_case", lambda v: {n: x * np.nan for n, x in v.items()}),
     "best case of 'gain_tokens' must be a number, got NaN"),
    ("bounds a subset otherwise", BoundsASubsetOtherwise,
     "best case asked for alone must equal itself"),
    ("bounds what nobody asked for", BoundsAllAnyway,
     r"asked for 'gain_tokens' alone, best_case .*also reports \['cost_watts'\]"),
    ("bounds what it does not measure",
     changing("best_case", lambda v: {**v, "bonus": next(iter(v.values()))}),
     r"best_case reports \['bonus'\], which it was not asked for"),
    ("takes different kinds for the same",
     having(interchangeable=lambda _, name, v: ["any"] * len(v) if name == "kind" else v),
     "interchangeable values of 'kind' must give the same"),
    ("takes different sizes for the same, which are never undecided",
     having(interchangeable=lambda _, name, v: ["any"] * len(v) if name == "x" else v),
     "interchangeable values of 'x' must give the same"),
    ("gives too few keys", having(interchangeable=lambda *_: ["any"]), "one key for each"),
    ("gives keys that cannot be looked up", having(interchangeable=lambda _, __, v: [[]] * len(v)),
     "interchangeable raised TypeError .*a hashable key"),
    ("knows some parameters only", having(interchangeable=lambda _, n, v: {"kind": v}[n]),
     "interchangeable raised KeyError .* for 'x'.*every parameter"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "message"), [pytest.param(f, m, id=n) for n, f, m in FAULTS])
def test_a_faulty_hint_or_bound_is_named_in_a_sentence(fault, message):
    with pytest.raises(AssertionError, match=message) as caught:
        check_evaluator(fault(), designs())
    assert str(caught.value).endswith(".")


def test_hints_cannot_be_checked_without_a_design_within_the_known_limits():
    too_large = {"x": column_of([15.0, 15.0]), "kind": column_of(["a", "b"])}
    with pytest.raises(AssertionError, match="needs a design within the known limits"):
        check_evaluator(Helpful(), too_large)


def test_the_bounds_of_npu_hold_over_a_whole_space():
    """200 designs of MemExplorer's space, all parameters decided to none, in random boxes."""
    space = api.load_space("memexplorer")
    evaluator = api.build_evaluator(
        "npu", {"model": "qwen3-32b", "trace": "gsm8k", "phase": "decode"}
    )
    rows = space.sample(np.random.default_rng(5), 200)
    check_evaluator(evaluator, space.columns(rows), n_single=1)
