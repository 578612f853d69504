"""NPUs of a space as the machines of a pool.

They report, of one machine in the role of its pool, the metrics that systems follow from.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from codesign.columns import Column, Columns, FloatArray, Value
from codesign.deployments.parallelism import REPLICA_DEGREES
from codesign.evaluators.base import Evaluation, Explanation
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.npu.cost_metrics import (
    capital_usd_per_hour,
    electricity_usd_per_joule,
    running_kgco2e_per_joule,
)
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.evaluators.npu.preparation import BATCH_SIZE
from codesign.evaluators.system.hand_over import EXCHANGED, OWN_METRICS, HandOverBytes
from codesign.evaluators.system.parts import PoolPrices
from codesign.evaluators.system.roles import PoolTask
from codesign.evaluators.system.workload import SystemWorkload
from codesign.metrics import POOL_METRICS, Metric
from codesign.schema import Record
from codesign.workload import Request
from codesign.workload.precision import bits_per_element

_OF_NPU = {name: metric for name, metric in POOL_METRICS.items() if name not in OWN_METRICS}


class NpuPool:
    """One NPU of a pool, or several that serve the model together; bounds included.

    All is as of the evaluator ``npu``, but for what a hand-over or an exchange adds.

    Args:
        task: What is asked of it.
    """

    Workload: ClassVar[type[Record]] = NpuEvaluator.Workload
    Options: ClassVar[type[Record]] = NpuEvaluator.Options

    def __init__(
        self, task: PoolTask, workload: SystemWorkload, options: NpuOptions | None
    ) -> None:
        stage = task.stage
        request = Request(
            model=workload.model,
            phase=stage.phase,
            prompt_tokens=stage.prompt_tokens,
            generated_tokens=stage.generated_tokens,
            layers=task.layers,
            max_batch=workload.max_batch,
        )
        self._use(NpuEvaluator(request, options))
        self._hand_over = HandOverBytes(stage, workload)

    def _use(self, npu: NpuEvaluator) -> None:
        self.npu = npu
        self.metrics: tuple[Metric, ...] = (*npu.metrics, *_OF_NPU.values(), *OWN_METRICS.values())
        self.required_parameters = npu.required_parameters
        self.optional_parameters = npu.optional_parameters
        self.undecided_parameters = npu.undecided_parameters

    @property
    def prices(self) -> PoolPrices:
        """Of what is no machine: ports of links, electricity."""
        options = self.npu.options
        return PoolPrices(
            capital_usd_per_hour(options),
            electricity_usd_per_joule(options),
            running_kgco2e_per_joule(options),
        )

    @property
    def profile(self) -> str:
        return self.npu.profile

    def within_limits(self, limits: Mapping[str, float]) -> NpuPool:
        """The same; batch sizes are chosen within these limits on latency."""
        return self.changed(self.npu.within_limits(limits))

    def changed(self, npu: NpuEvaluator) -> NpuPool:
        """The same pool of machines that another evaluator reads."""
        pool = copy.copy(self)
        pool._use(npu)
        return pool

    def choosing_metrics(self, parameters: Collection[str]) -> frozenset[str]:
        return self.npu.choosing_metrics(parameters)

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        return self.npu.known_violations(designs)

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        names = [item.name for item in self.metrics] if metrics is None else metrics
        of_npu = [name for name in names if name not in OWN_METRICS]
        if "exchange_bytes" in names:
            of_npu.append("batch_size")
        evaluation = self.npu.evaluate(designs, list(dict.fromkeys(of_npu)))
        own = self._own(designs, names, evaluation.metrics.get("batch_size"))
        return Evaluation({**evaluation.metrics, **own}, evaluation.violations, evaluation.failures)

    def _own(
        self, designs: Columns, names: Sequence[str], batch_size: FloatArray | None
    ) -> dict[str, FloatArray]:
        """(n,) what the evaluator ``npu`` does not report; batch sizes only for exchanges."""
        n = len(designs["pe_array"])
        own: dict[str, FloatArray] = {}
        if "handover_bytes" in names:
            own["handover_bytes"] = self._hand_over.of(designs, n)
        if "n_devices" in names:
            degrees = [
                designs[name].lookup(float, 1.0) for name in REPLICA_DEGREES if name in designs
            ]
            own["n_devices"] = np.prod([np.ones(n), *degrees], axis=0)
        if set(names) & set(EXCHANGED):
            model, request = self.npu.workload.language_model, self.npu.workload
            width = float(model.num_hidden_layers * model.hidden_size)
            of_token = width * designs["activation_format"].lookup(bits_per_element) / 8.0
            own["exchange_bytes_per_token"] = of_token
            is_prefill = request.phase == "prefill"
            in_pass = float(request.tokens.prompt_tokens) if is_prefill else batch_size
            if "exchange_bytes" in names and in_pass is not None:
                own["exchange_bytes"] = of_token * in_pass
        return {name: own[name] for name in own if name in names}

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        return self.npu.interchangeable(parameter, values)

    def superseded(
        self, values: Mapping[str, Sequence[Value]], objectives: Sequence[str]
    ) -> Mapping[str, Sequence[bool]]:
        """As of the evaluator ``npu``: formats of equal widths take equal bytes along."""
        return self.npu.superseded(values, objectives)

    def best_case(
        self,
        designs: Columns,
        undecided: Mapping[str, Sequence[Value]],
        metrics: Sequence[str],
    ) -> Mapping[str, FloatArray]:
        n = len(designs["pe_array"])
        known = dict(designs)
        for name in ("kv_format", "activation_format"):
            if name in undecided:
                least = min(undecided[name], key=lambda item: bits_per_element(str(item)))
                known[name] = Column((least,), np.zeros(n, dtype=np.int64))
        batch = designs[BATCH_SIZE].lookup(float) if BATCH_SIZE in designs else np.ones(n)
        return {
            **self.npu.best_case(designs, undecided, metrics),
            **self._own(known, metrics, batch),
        }

    def absent_metrics(self, values: Mapping[str, Sequence[Value]]) -> Mapping[str, str]:
        return self.npu.absent_metrics(values)

    def features(self, designs: Columns) -> Mapping[str, FloatArray]:
        return self.npu.features(designs)

    def explain(self, designs: Columns) -> Explanation:
        return self.npu.explain(designs)

    def provenance(self) -> Mapping[str, Any]:
        return self.npu.provenance()
