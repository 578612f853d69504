"""Passes of machines of others: what they must report, and how few a slow one is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation
from codesign.base.metrics import METRICS
from codesign.base.schema import Record
from codesign.evaluators.design_machine import design_machine
from codesign.evaluators.design_steps import DesignStepTimes
from codesign.evaluators.phase_machine import PhaseMachine, checked_machine
from codesign.models.deployments.queueing import Arrivals, EngineLimits, EngineStep, PromptChunk
from codesign.models.workload import Request

REQUEST = {"model": "llama-3-8b", "prompt_tokens": 8, "generated_tokens": 1, "phase": "decode"}
LIMITS = EngineLimits(max_sequences=8, max_batched_tokens=64)
ARRIVALS = Arrivals(np.zeros(1), np.array([50]), np.array([5]))


class Counted(PhaseMachine):
    """A microsecond for each token of context and each request; counts its passes."""

    Workload = Request
    Options = Record
    required_parameters = frozenset({"size"})
    optional_parameters: frozenset[str] = frozenset()
    names: tuple[str, ...] = ("batch_size", "memory_used_bytes", "memory_capacity_bytes")
    n_passes = 0
    least_batch = 1

    def __init__(self, workload, options):
        self.workload, self.options = workload, options
        is_prefill = workload.phase == "prefill"
        self.time = "time_to_first_token_s" if is_prefill else "time_per_output_token_s"
        self.metrics = tuple(METRICS[name] for name in (self.time, *self.names))

    def known_violations(self, designs):
        return {}

    def evaluate(self, designs, metrics=None):
        assert isinstance(self.workload.batch, int)
        type(self).n_passes += 1
        batch = max(self.workload.batch, self.least_batch)
        context = self.workload.tokens.prompt_tokens + self.workload.tokens.generated_tokens
        values = {
            self.time: 1e-6 * batch * context,
            "batch_size": batch,
            "memory_used_bytes": 100.0 + batch * context,
            "memory_capacity_bytes": 1000.0,
        }
        return Evaluation({name: np.array([values[name]]) for name in metrics or values})

    def provenance(self):
        return {}


class Slow(Counted):
    is_slow = True


class Stubborn(Counted):
    least_batch = 2


class Forgetful(Counted):
    names = ("batch_size",)


class Predicted(Slow):
    """Its cheaper model is a tenth off, and does not count as a pass."""

    def predict(self, designs, metrics):
        values = self.evaluate(designs, metrics).metrics
        type(self).n_passes -= 1
        return {name: 0.9 * x for name, x in values.items()}


def machine(kind):
    kind.n_passes = 0
    return kind(Request.model_validate(REQUEST), Record())


def test_a_machine_without_the_parameter_takes_the_batch_of_its_workload():
    serving = design_machine(machine(Counted), {"size": 1}, LIMITS, ARRIVALS, 0.9)
    assert serving.step_times.step_s(EngineStep([], 4, 4 * 20)) == pytest.approx(80e-6)
    assert serving.limits.cache_tokens == 800  # a byte for a token, 100 of weights
    assert np.isnan(serving.power_watts)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Stubborn, "but of 1 requests it processes 2 together"),
        (Forgetful, "expected an evaluator that reports memory_capacity_bytes, memory_used_bytes"),
    ],
)
def test_a_machine_that_cannot_serve_what_arrives_is_refused(kind, words):
    with pytest.raises(InputError, match=words):
        design_machine(machine(kind), {"size": 1}, LIMITS, ARRIVALS, 0.9)


@pytest.mark.parametrize(("kind", "most"), [(Slow, 4 * 7 + 7), (Predicted, 3 * 4 + 4)])
def test_a_slow_machine_is_asked_for_few_passes(kind, most):
    """Eight batches and 64 contexts, at every second or fourth, each way."""
    times = DesignStepTimes(machine(kind), {"size": 1}, 8, 64)
    step = EngineStep([PromptChunk(30, 0)], 5, 5 * 50)
    assert times.step_s(step) == pytest.approx(1e-6 * (31 + 250), rel=0.02)
    assert kind.n_passes == most
    exact = DesignStepTimes(machine(Counted), {"size": 1}, 8, 64)
    assert exact.step_s(step) == pytest.approx(1e-6 * (31 + 250), rel=0.005)
    assert Counted.n_passes > 4 * most


class OtherRequest(Request):
    pass


class Other(Counted):
    Workload = OtherRequest


class Careless(Counted):
    def __init__(self, workload, options):
        super().__init__(workload, options)
        del self.options


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Other, "with machines for one phase of a request, such as npu, got mine"),
        (Careless, "keeps what it is built from: mine has no attribute 'options'"),
    ],
)
def test_an_evaluator_without_machines_of_one_phase_is_refused(kind, words):
    assert checked_machine(machine(Counted), "mine")
    with pytest.raises(InputError, match=words):
        checked_machine(machine(kind), "mine")
