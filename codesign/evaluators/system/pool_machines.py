"""The machines of a pool as evaluators of one machine: NPUs of a space, and devices that exist.

Both report, of one machine in the role of its pool, the metrics that systems follow from. They add
``handover_bytes``, what a request takes to the next pool, and ``n_devices``.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from codesign.columns import Column, Columns, FloatArray, Value
from codesign.deployments.parallelism import DEGREES
from codesign.errors import InputError, UnknownNameError
from codesign.evaluators.base import Evaluation, Explanation, PoolDescription
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.npu.options import NpuOptions
from codesign.evaluators.platform import PlatformEvaluator
from codesign.evaluators.platform.limits import limits
from codesign.evaluators.platform.memory import excess
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.request import PlatformRequest
from codesign.evaluators.platform.serving import PlatformServing
from codesign.evaluators.system.roles import StageRequest
from codesign.evaluators.system.workload import SystemWorkload
from codesign.metrics import METRICS, PLATFORM_METRICS, POOL_METRICS, SYSTEM_METRICS, Metric
from codesign.schema import Record
from codesign.workload import Request
from codesign.workload.model import kv_elements, state_bytes
from codesign.workload.precision import bits_per_element

TIME_METRIC = {"prefill": "time_to_first_token_s", "decode": "time_per_output_token_s"}
"""What a request waits for in a phase: its first token, or each of the next ones."""
_OWN = {
    "handover_bytes": SYSTEM_METRICS["handover_bytes"],
    "n_devices": PLATFORM_METRICS["n_devices"],
}


def pool_machine(
    pool: PoolDescription,
    stage: StageRequest,
    workload: SystemWorkload,
    npu: NpuOptions,
    platform: PlatformOptions,
) -> NpuPool | DevicePool:
    """The evaluator of one machine of a pool, by the parameters that its designs have.

    Raises:
        InputError: Parameters of no machine that is known, or formats that it does not have.
    """
    _check_formats(pool)
    if "device" in pool.parameters:
        machine = DevicePool(stage, workload, platform)
        _check_devices(pool, machine.platform)
        return machine
    if "pe_array" in pool.parameters:
        return NpuPool(stage, workload, npu)
    raise InputError(
        f"pools.{pool.name}: expected machines with the parameter 'pe_array' or 'device', "
        f"got {', '.join(pool.parameters) or 'no parameter'}"
    )


_FORMATS = ("weight_format", "activation_format", "kv_format")


def _check_formats(pool: PoolDescription) -> None:
    for name in _FORMATS:
        for value in pool.choices.get(name, ()):
            try:
                bits_per_element(str(value))
            except InputError as error:
                raise InputError(f"pools.{pool.name}: {name}: {error}") from None


def _check_devices(pool: PoolDescription, platform: PlatformEvaluator) -> None:
    """Try every device with every format, the rest being what is listed first."""
    tried = {name: list(pool.choices.get(name, ())) for name in ("device", *_FORMATS)}
    rows = list(itertools.product(*(values or [None] for values in tried.values())))
    columns = {
        name: Column(tuple(values), np.array([values.index(row[place]) for row in rows]))
        for place, (name, values) in enumerate(tried.items())
        if values
    }
    for name, values in pool.choices.items():
        if name not in columns and values:
            columns[name] = Column((values[0],), np.zeros(len(rows), dtype=np.int64))
    missing = sorted(platform.required_parameters - columns.keys())
    if missing:
        raise InputError(f"pools.{pool.name}: expected the parameter {missing[0]!r} of devices")
    try:
        platform.serving(columns)
    except InputError as error:
        raise InputError(f"pools.{pool.name}: {error}") from None


class _HandOver:
    """What a request takes along when it leaves a stage."""

    def __init__(self, stage: StageRequest, workload: SystemWorkload) -> None:
        model = workload.language_model
        self._elements = float(kv_elements(model, stage.cached_tokens))
        self._state_bytes = float(state_bytes(model))

    def bytes_of(self, format_: object) -> float:
        """Bytes of the KV cache in a format, and of recurrent states."""
        return self._elements * bits_per_element(str(format_)) / 8.0 + self._state_bytes

    def of(self, designs: Columns, n: int) -> FloatArray:
        """(n,) bytes of one request, in the format of the machine that sends it."""
        if "kv_format" not in designs:
            return np.full(n, self.bytes_of("bf16"))
        return designs["kv_format"].lookup(self.bytes_of)


class NpuPool:
    """One NPU of a pool, or several that serve the model together; bounds included.

    Args:
        stage: What is asked of it.
        workload: Of the system.
        options: How NPUs are read.
    """

    Workload: ClassVar[type[Record]] = NpuEvaluator.Workload
    Options: ClassVar[type[Record]] = NpuEvaluator.Options

    def __init__(
        self, stage: StageRequest, workload: SystemWorkload, options: NpuOptions | None
    ) -> None:
        request = Request(
            model=workload.model,
            phase=stage.phase,
            prompt_tokens=stage.prompt_tokens,
            generated_tokens=stage.generated_tokens,
            max_batch=workload.max_batch,
        )
        self._use(NpuEvaluator(request, options))
        self._hand_over = _HandOver(stage, workload)

    def _use(self, npu: NpuEvaluator) -> None:
        self.npu = npu
        self.metrics: tuple[Metric, ...] = (*npu.metrics, *POOL_METRICS.values(), *_OWN.values())
        self.required_parameters = npu.required_parameters
        self.optional_parameters = npu.optional_parameters
        self.undecided_parameters = npu.undecided_parameters

    @property
    def profile(self) -> str:
        """The named set of conventions in force."""
        return self.npu.profile

    def within_limits(self, limits: Mapping[str, float]) -> NpuPool:
        """The same; batch sizes are chosen within these limits on latency."""
        pool = object.__new__(NpuPool)
        pool._hand_over = self._hand_over
        pool._use(self.npu.within_limits(limits))
        return pool

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        """As of the evaluator ``npu``."""
        return self.npu.known_violations(designs)

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        """Metrics of ``n`` machines; only those named."""
        names = [item.name for item in self.metrics] if metrics is None else metrics
        evaluation = self.npu.evaluate(designs, [name for name in names if name not in _OWN])
        own = self._own(designs, names, len(designs["pe_array"]))
        return Evaluation({**evaluation.metrics, **own}, evaluation.violations, evaluation.failures)

    def _own(self, designs: Columns, names: Sequence[str], n: int) -> dict[str, FloatArray]:
        own: dict[str, FloatArray] = {}
        if "handover_bytes" in names:
            own["handover_bytes"] = self._hand_over.of(designs, n)
        if "n_devices" in names:
            degrees = [designs[name].lookup(float, 1.0) for name in DEGREES if name in designs]
            own["n_devices"] = np.prod([np.ones(n), *degrees], axis=0)
        return own

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        """As of the evaluator ``npu``."""
        return self.npu.interchangeable(parameter, values)

    def best_case(
        self,
        designs: Columns,
        undecided: Mapping[str, Sequence[Value]],
        metrics: Sequence[str],
    ) -> Mapping[str, FloatArray]:
        """(n,) what no completion of a design beats."""
        n = len(designs["pe_array"])
        known = dict(designs)
        if "kv_format" in undecided:
            formats = undecided["kv_format"]
            least = min(formats, key=lambda item: bits_per_element(str(item)))
            known["kv_format"] = Column((least,), np.zeros(n, dtype=np.int64))
        return {
            **self.npu.best_case(designs, undecided, metrics),
            **self._own(known, metrics, n),
        }

    def features(self, designs: Columns) -> Mapping[str, FloatArray]:
        """As of the evaluator ``npu``."""
        return self.npu.features(designs)

    def explain(self, designs: Columns) -> Explanation:
        """The full account of one machine."""
        return self.npu.explain(designs)

    def provenance(self) -> Mapping[str, Any]:
        """As of the evaluator ``npu``."""
        return self.npu.provenance()


class DevicePool:
    """A group of devices of one datasheet that serve the model together in one phase.

    Args:
        stage: What is asked of it.
        workload: Of the system.
        options: How devices are read.
    """

    Workload: ClassVar[type[Record]] = PlatformEvaluator.Workload
    Options: ClassVar[type[Record]] = PlatformEvaluator.Options

    def __init__(
        self, stage: StageRequest, workload: SystemWorkload, options: PlatformOptions
    ) -> None:
        request = PlatformRequest(
            model=workload.model,
            prompt_tokens=stage.prompt_tokens,
            generated_tokens=stage.generated_tokens if stage.phase == "decode" else 0,
        )
        self.platform = PlatformEvaluator(request, options)
        self._stage = stage
        self._hand_over = _HandOver(stage, workload)
        names = ["throughput_tokens_per_s", TIME_METRIC[stage.phase], "batch_size", "tdp_watts"]
        names += ["energy_joules_per_token", "tokens_per_joule", "average_power_watts"]
        self.metrics: tuple[Metric, ...] = (
            *(METRICS[name] for name in names),
            *POOL_METRICS.values(),
            *_OWN.values(),
        )
        self.required_parameters = self.platform.required_parameters
        self.optional_parameters = self.platform.optional_parameters

    @property
    def profile(self) -> str:
        """The named set of conventions in force."""
        return self.platform.profile

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        """Whether parallelism divides, links exist and the memory of this phase suffices."""
        return self._violations(self.platform.serving(designs))

    def _violations(self, serving: PlatformServing) -> Mapping[str, FloatArray]:
        is_prefill = self._stage.phase == "prefill"
        kept = serving.prefill_footprint if is_prefill else serving.decode_footprint
        return {**limits(serving), "memory": excess(kept, serving.platform, serving.options)}

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        """Metrics of ``n`` groups of devices; only those named.

        Raises:
            UnknownNameError: A metric, device or format that is not known.
        """
        known = {item.name for item in self.metrics}
        names = known if metrics is None else metrics
        serving = self.platform.serving(designs)
        values = {}
        for name in names:
            if name not in known:
                raise UnknownNameError("metric", name, known)
            values[name] = np.array(self._value(name, serving, designs), dtype=np.float64)
        return Evaluation(values, self._violations(serving))

    def _value(self, name: str, serving: PlatformServing, designs: Columns) -> FloatArray:
        is_prefill = self._stage.phase == "prefill"
        if name == "handover_bytes":
            return self._hand_over.of(designs, len(serving.platform.tp))
        if name == "throughput_tokens_per_s" and is_prefill:
            return serving.prefill_requests_per_s * float(self._stage.tokens)
        if name == "energy_joules_per_token" and is_prefill:
            return serving.prefill_energy_joules_per_token
        if name == "batch_size":
            return serving.platform.batch * serving.platform.dp
        if name == "tdp_watts":
            return serving.board_power_watts
        if name == "idle_watts":
            timed = serving.prefill_passes[0][1] if is_prefill else serving.decode_pass
            return serving.n_devices * timed.idle_watts
        if name in ("dynamic_joules_per_token", "tokens_per_joule", "average_power_watts"):
            joules = self._value("energy_joules_per_token", serving, designs)
            rate = self._value("throughput_tokens_per_s", serving, designs)
            if name == "dynamic_joules_per_token":
                return joules - self._value("idle_watts", serving, designs) / rate
            return 1.0 / joules if name == "tokens_per_joule" else joules * rate
        values: FloatArray = getattr(serving, name)
        return values

    def explain(self, designs: Columns) -> Explanation:
        """The full account of one group in the phase of its pool."""
        account, own = self.platform.explain(designs), self.evaluate(designs)
        return replace(
            account,
            metrics={name: float(values[0]) for name, values in own.metrics.items()},
            violations={name: float(values[0]) for name, values in own.violations.items()},
            operators=[
                {key: value for key, value in row.items() if key != "phase"}
                for row in account.operators
                if row["phase"] == self._stage.phase
            ],
            power=[
                {"component": row["name"], **{k: v for k, v in row.items() if k != "name"}}
                for row in account.power
            ],
        )

    def provenance(self) -> Mapping[str, Any]:
        """As of the evaluator ``platform``."""
        return self.platform.provenance()
