"""The machines of a pool as evaluators of one machine: NPUs of a space, and devices that exist.

Both report, of one machine in the role of its pool, the metrics that systems follow from. They add
``handover_bytes``, what a request takes to the next pool, and ``n_devices``.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from codesign.accounts.shipped_devices import device_account
from codesign.columns import Column, Columns, FloatArray, Value
from codesign.deployments.parallelism import DEGREES
from codesign.errors import InputError, UnknownNameError
from codesign.evaluators.base import Evaluation, Explanation, PoolDescription
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.npu.options import NpuOptions
from codesign.evaluators.npu.preparation import BATCH_SIZE
from codesign.evaluators.platform import PlatformEvaluator
from codesign.evaluators.platform.limits import limits
from codesign.evaluators.platform.memory import excess
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.request import PlatformRequest
from codesign.evaluators.platform.serving import PlatformServing
from codesign.evaluators.system.options import MachineOptions
from codesign.evaluators.system.roles import PoolTask, StageRequest
from codesign.evaluators.system.workload import SystemWorkload
from codesign.hardware.device import list_devices
from codesign.metrics import METRICS, PLATFORM_METRICS, POOL_METRICS, SYSTEM_METRICS, Metric
from codesign.schema import Record
from codesign.workload import Request
from codesign.workload.model import kv_elements, state_bytes
from codesign.workload.precision import bits_per_element

TIME_METRIC = {"prefill": "time_to_first_token_s", "decode": "time_per_output_token_s"}
"""What a request waits for in a phase: its first token, or each of the next ones."""
_EXCHANGED = ("exchange_bytes", "exchange_bytes_per_token")
_OWN = {
    "handover_bytes": SYSTEM_METRICS["handover_bytes"],
    "n_devices": PLATFORM_METRICS["n_devices"],
    **{name: POOL_METRICS[name] for name in _EXCHANGED},
}
_OF_SILICON = ("area_mm2", "unit_cost_usd")
_OF_NPU = {name: metric for name, metric in POOL_METRICS.items() if name not in _OWN}
_OF_DEVICE = {name: POOL_METRICS[name] for name in ("idle_watts", "dynamic_joules_per_token")}


def pool_machine(
    pool: PoolDescription,
    task: PoolTask,
    workload: SystemWorkload,
    options: MachineOptions,
) -> NpuPool | DevicePool:
    """The evaluator of one machine of a pool, by the parameters that its designs have.

    Raises:
        InputError: Parameters of no machine that is known, a role or formats that it cannot have.
    """
    _check_formats(pool)
    if "device" in pool.parameters:
        if task.layers != "all":
            raise InputError(
                f"pools.{pool.name}: the role {pool.role!r} is one of NPUs, not of devices, whose "
                "kernels are measured for whole layers"
            )
        machine = DevicePool(task.stage, workload, options.platform)
        _check_devices(pool, machine.platform)
        return machine
    if "pe_array" in pool.parameters:
        return NpuPool(task, workload, options.npu)
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
    if not pool.choices:  # as where designs come from no space
        return
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


def _published(name: str, device: str) -> float:
    """Area in mm^2 or cost in USD of one device; NaN where nothing is published."""
    account = device_account(device) if device in list_devices() else None
    if account is None:
        return np.nan
    stated = account.area if name == "area_mm2" else account.unit_cost
    scale = 1e6 if name == "area_mm2" else 1.0
    return np.nan if stated is None else stated.typical * scale


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
        task: What is asked of it.
        workload: Of the system.
        options: How NPUs are read.
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
        self._hand_over = _HandOver(stage, workload)

    def _use(self, npu: NpuEvaluator) -> None:
        self.npu = npu
        self.metrics: tuple[Metric, ...] = (*npu.metrics, *_OF_NPU.values(), *_OWN.values())
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

    def choosing_metrics(self, parameters: Collection[str]) -> frozenset[str]:
        """As of the evaluator ``npu``."""
        return self.npu.choosing_metrics(parameters)

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        """As of the evaluator ``npu``."""
        return self.npu.known_violations(designs)

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        """Metrics of ``n`` machines; only those named."""
        names = [item.name for item in self.metrics] if metrics is None else metrics
        of_npu = [name for name in names if name not in _OWN]
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
            degrees = [designs[name].lookup(float, 1.0) for name in DEGREES if name in designs]
            own["n_devices"] = np.prod([np.ones(n), *degrees], axis=0)
        if set(names) & set(_EXCHANGED):
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
        """As of the evaluator ``npu``."""
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
        """(n,) what no completion of a design beats."""
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
        """As of the evaluator ``npu``."""
        return self.npu.absent_metrics(values)

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
        names += _OF_SILICON
        self.metrics: tuple[Metric, ...] = (
            *(METRICS[name] for name in names),
            *_OF_DEVICE.values(),
            *(metric for name, metric in _OWN.items() if name not in _EXCHANGED),
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
        if name in _OF_SILICON:
            published = serving.platform.devices.lookup(
                lambda device: _published(name, str(device))
            )
            return serving.n_devices * published
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

    def absent_metrics(self, values: Mapping[str, Sequence[Value]]) -> Mapping[str, str]:
        """Area and cost where nobody has published those of a device."""
        absent = {}
        for name in _OF_SILICON:
            lacking = [
                str(device)
                for device in values.get("device", ())
                if np.isnan(_published(name, str(device)))
            ]
            if lacking:
                absent[name] = f"nothing is published of {', '.join(lacking)}"
        return absent

    def explain(self, designs: Columns) -> Explanation:
        """The full account of one group in its phase."""
        evaluation = self.evaluate(designs)
        metrics = {
            metric.name: float(evaluation.metrics[metric.name][0]) for metric in self.metrics
        }
        of_both_phases = self.platform.explain(designs)
        power = {
            "component": "devices",
            "tdp_watts": metrics["tdp_watts"],
            "average_watts": metrics["average_power_watts"],
        }
        return Explanation(
            metrics=metrics,
            violations={name: float(values[0]) for name, values in evaluation.violations.items()},
            operators=[
                {key: value for key, value in row.items() if key != "phase"}
                for row in of_both_phases.operators
                if row["phase"] == self._stage.phase
            ],
            levels=of_both_phases.levels,
            power=[power] if of_both_phases.power else [],
            notes=of_both_phases.notes,
        )

    def provenance(self) -> Mapping[str, Any]:
        """As of the evaluator ``platform``."""
        return self.platform.provenance()
