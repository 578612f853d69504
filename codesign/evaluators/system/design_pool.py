"""Designs of a space as the machines of a pool, by any evaluator of one phase of a request.

They report, of one machine in the role of its pool, the metrics that systems follow from.
"""

from __future__ import annotations

import copy
from typing import Any, Self, cast

import numpy as np

from codesign.base.columns import (
    Arrays,
    Columns,
    Domains,
    Fields,
    FloatArray,
    FloatMap,
    Strings,
    constant_column,
    first_values,
    n_designs,
)
from codesign.base.errors import InputError, JobError
from codesign.base.evaluator import Evaluation, Evaluator, Explanation, Offer, PoolPrices
from codesign.base.forwarding import forwarded
from codesign.base.metrics import EXCHANGED, POOL_METRICS
from codesign.base.records import drop_keys
from codesign.base.schema import Record
from codesign.evaluators.phase_machine import BATCH_SIZE, PhaseMachine, machine_for
from codesign.evaluators.system.hand_over import (
    OWN_METRICS,
    TIME_METRIC,
    WIDE_FORMAT,
    HandOverBytes,
)
from codesign.evaluators.system.roles import PoolTask
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.deployments.parallelism import REPLICA_DEGREES
from codesign.models.workload import Request
from codesign.models.workload.precision import bits_per_element

_PARTS_OF_COST = [name for name in POOL_METRICS if name.startswith(("standing_", "wear_"))]
_NO_PRICES = PoolPrices(np.nan, np.nan, np.nan)


def design_pool(
    name: str, factory: Any, options: Record, task: PoolTask, workload: SystemWorkload
) -> DesignPool:
    """One machine of a pool, or several that serve the model together.

    Args:
        name: Under which the evaluator of the machines is registered.
        factory: Its class.
        task: What the machines do.

    Raises:
        InputError: The machines cannot serve this, or do not report what the role needs.
    """
    stage = task.stage
    request = {
        "phase": stage.phase,
        "prompt_tokens": stage.prompt_tokens,
        "generated_tokens": stage.generated_tokens,
        **task.keys,
        "max_batch": workload.max_batch,
        "beyond_context": True,  # the system's workload was checked
    }
    machine = machine_for(factory, request, options)
    pool = DesignPool(name, machine, HandOverBytes(stage, workload))
    reported = set(pool.metric_names)
    needed = ["throughput_tokens_per_s", TIME_METRIC[stage.phase]]
    needed += ["held_requests"] if task.layers == "attention" and stage.phase == "decode" else []
    needed += [] if task.layers == "all" else EXCHANGED
    if missing := [metric for metric in needed if metric not in reported]:
        raise InputError(
            f"its machines report {', '.join(missing)}, which evaluator {name!r} does not"
        )
    return pool


class DesignPool(Evaluator):
    """Machines of a pool, of which not more is known than what their evaluator reports.

    All is as of their evaluator, but for what a hand-over or an exchange adds.

    Args:
        evaluator_name: Under which the evaluator of the machines is registered.
    """

    Workload = Request
    Options = Record

    choosing_metrics = forwarded(Evaluator.choosing_metrics)
    technologies = forwarded(Evaluator.technologies)
    constant_ranges = forwarded(Evaluator.constant_ranges)
    known_violations = forwarded(Evaluator.known_violations)
    absent_metrics = forwarded(Evaluator.absent_metrics)
    provenance = forwarded(Evaluator.provenance)
    interchangeable = forwarded(Evaluator.interchangeable)
    # Formats of equal widths take equal bytes along.
    superseded = forwarded(Evaluator.superseded)
    features = forwarded(Evaluator.features)

    def __init__(self, evaluator_name: str, evaluator: Evaluator, handed: HandOverBytes) -> None:
        self.evaluator_name = evaluator_name
        self._hand_over = handed
        self._use(cast("PhaseMachine", evaluator))

    def _use(self, evaluator: PhaseMachine) -> None:
        self.evaluator = evaluator
        reported = {metric.name: metric for metric in evaluator.metrics}
        more = evaluator.metrics_for_pools
        reported |= {name: metric for name, metric in POOL_METRICS.items() if name in more}
        if evaluator.prices is None:
            reported = drop_keys(reported, _PARTS_OF_COST)
        added = drop_keys(OWN_METRICS, reported)
        if evaluator.workload.phase == "decode" and "batch_size" not in reported:
            added.pop("exchange_bytes", None)
        self._own_names = frozenset(added)
        self.metrics = (*reported.values(), *added.values())
        self.required_parameters = evaluator.required_parameters
        self.optional_parameters = evaluator.optional_parameters
        self.undecided_parameters = evaluator.undecided_parameters

    def offers(self, method: Offer) -> bool:
        """True if the evaluator of the machines offers it, or the pool does for any evaluator."""
        from_machine = method in (
            "best_case", "superseded", "features", "predict", "replace_library",
        )  # fmt: skip
        return self.evaluator.offers(method) if from_machine else super().offers(method)

    @property
    def prices(self) -> PoolPrices:
        """Prices of ports and electricity; unknown if the evaluator has none."""
        return self.evaluator.prices or _NO_PRICES

    @property
    def profile(self) -> str:
        """The profile of the evaluator, or else its name."""
        return self.evaluator.profile or self.evaluator_name

    def convention_modules(self) -> Strings:
        """Modules of the evaluator and of the conventions that it uses."""
        evaluator = self.evaluator
        return [type(evaluator).__module__, *evaluator.convention_modules()]

    def keep_limits(self, limits: FloatMap) -> Self:
        """The same; batch sizes are chosen within these limits on latency, if any are chosen."""
        return self.changed(self.evaluator.keep_limits(limits))

    def changed(self, evaluator: Evaluator) -> Self:
        """The same pool of machines that another evaluator of their kind reads."""
        pool = copy.copy(self)
        pool._use(cast("PhaseMachine", evaluator))
        return pool

    def replace_library(self, library: Fields) -> Self:
        return self.changed(self.evaluator.replace_library(library))

    def replace_constants(self, values: FloatMap) -> Self:
        return self.changed(self.evaluator.replace_constants(values))

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        names = self.metric_names if metrics is None else metrics
        of_machine = [name for name in names if name not in self._own_names]
        if "exchange_bytes" in names:
            of_machine.append("batch_size")
        evaluation = self.evaluator.evaluate(designs, list(dict.fromkeys(of_machine)))
        added = self._added_values(designs, names, evaluation.metrics.get("batch_size"))
        values = {**evaluation.metrics, **added}
        return Evaluation(
            {name: values[name] for name in names}, evaluation.violations, evaluation.failures
        )

    def _added_values(
        self, designs: Columns, names: Strings, batch_size: FloatArray | None
    ) -> Arrays:
        """(n,) what the evaluator does not report; batch sizes only for exchanges."""
        n = n_designs(designs)
        values = {}
        if "handover_bytes" in names:
            values["handover_bytes"] = self._hand_over.request_bytes(designs, n)
        if "handover_requests" in names:  # prompts are prefilled one by one; answers end one by one
            values["handover_requests"] = np.ones(n)
        if "n_devices" in names:
            degrees = [
                designs[name].lookup(float, 1.0) for name in REPLICA_DEGREES if name in designs
            ]
            values["n_devices"] = np.prod([np.ones(n), *degrees], axis=0)
        if set(names) & set(EXCHANGED):
            model = self.evaluator.workload.language_model
            request = self.evaluator.workload
            bits = np.full(n, bits_per_element(WIDE_FORMAT))
            if "activation_format" in designs:
                bits = designs["activation_format"].lookup(lambda name: bits_per_element(str(name)))
            of_token = float(model.num_hidden_layers * model.hidden_size) * bits / 8.0
            values["exchange_bytes_per_token"] = of_token
            is_prefill = request.phase == "prefill"
            pass_requests = float(request.tokens.prompt_tokens) if is_prefill else batch_size
            if "exchange_bytes" in names and pass_requests is not None:
                values["exchange_bytes"] = of_token * pass_requests
        return {name: values[name] for name in values if name in names and name in self._own_names}

    def explain(self, designs: Columns) -> Explanation:
        if (explanation := self.evaluator.explain(designs)) is not None:
            return explanation
        evaluation = self.evaluator.evaluate(designs)
        if evaluation.failures:
            raise JobError(f"the evaluator failed on this design: {evaluation.failures[0]}")
        return Explanation(
            metrics=first_values(evaluation.metrics),
            violations=first_values(evaluation.violations),
            operators=[],
            levels=[],
            power=[],
        )

    def best_case(
        self,
        designs: Columns,
        undecided: Domains,
        metrics: Strings,
    ) -> Arrays:
        n = n_designs(designs)
        known_designs = dict(designs)
        for name in ("kv_format", "activation_format"):
            if name in undecided:
                least = min(undecided[name], key=lambda item: bits_per_element(str(item)))
                known_designs[name] = constant_column(least, n)
        of_machine = [name for name in metrics if name not in self._own_names]
        return {
            **self.evaluator.best_case(designs, undecided, of_machine),
            **self._added_values(known_designs, metrics, _stated_batch(designs, n)),
        }

    def predict(self, designs: Columns, metrics: Strings) -> Arrays:
        of_machine = [name for name in metrics if name not in self._own_names]
        return {
            **self.evaluator.predict(designs, of_machine),
            **self._added_values(designs, metrics, _stated_batch(designs, n_designs(designs))),
        }


def _stated_batch(designs: Columns, n: int) -> FloatArray:
    """(n,) batch size that each design states; 1 if none does."""
    return designs[BATCH_SIZE].lookup(float) if BATCH_SIZE in designs else np.ones(n)
