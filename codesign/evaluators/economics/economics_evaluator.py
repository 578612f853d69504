"""The ``economics`` evaluator: speed and price of ways to serve a model, a batch at a time.

A design is a device, how many of them, how many requests, and as much of the split, precision
and speculation as the space has parameters for; the rest is chosen for the least time, as in
[Epoch2025]_.

.. [Epoch2025] E. Erdil, Inference economics of language models, Epoch AI, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    Column,
    Columns,
    Fields,
    FloatArray,
    JsonObject,
    Strings,
    Value,
    column_of,
    combined,
    distinct,
    joined,
    taken,
)
from codesign.base.errors import InputError, UnknownNameError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import ECONOMICS_METRICS, chosen_metrics
from codesign.base.records import frozen, select_keys
from codesign.evaluators.economics.buildable import are_buildable, buildable_times
from codesign.evaluators.economics.decoding import DRAFT_LENGTHS, Decoding, Speculation
from codesign.evaluators.economics.economics_options import EconomicsOptions, EconomicsWorkload
from codesign.evaluators.economics.frontier import price_per_million_tokens
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import LAYOUTS, ElementBytes, Fixed, Load
from codesign.evaluators.economics.nccl import Fabric
from codesign.evaluators.economics.shape import shape_of
from codesign.evaluators.economics.sustained_device import (
    SustainedDevice,
    device_machine,
    paper_devices,
)
from codesign.models.accounts.rents import list_rents
from codesign.models.hardware.device import load_device
from codesign.models.workload import load_model
from codesign.models.workload.precision import DEFAULT_FORMAT, FORMAT_KEYS, bits_per_element

_SPLIT = ("pipeline_parallel", "expert_parallel", "attention_parallel")
_CHUNK = 4096
"""Designs evaluated at a time, so that the arrays stay in the cache."""
_RATES = ("flop_per_s", "bytes_per_s", "capacity_bytes", "peak_flop_per_s")
_LINKS = ("intra_bytes_per_s", "inter_bytes_per_s", "node_size")


class EconomicsEvaluator(Evaluator):
    """Price per token and speed of an instance of devices that serves one model.

    Limiting assumption: decode only, every request at the same context, an instance always busy;
    prefill, scheduling and failures are not modelled.

    Args:
        workload: The model and its draft.

    Raises:
        InputError: A model cannot be loaded, or does not decode.
    """

    Workload = EconomicsWorkload
    Options = EconomicsOptions
    workload: EconomicsWorkload
    options: EconomicsOptions

    metrics = tuple(ECONOMICS_METRICS.values())
    required_parameters = frozenset({"device", "n_devices", "batch_size"})
    optional_parameters = frozenset({*_SPLIT, *FORMAT_KEYS, "tensor_layout", "speculation"})

    def __init__(
        self, workload: EconomicsWorkload, options: EconomicsOptions | None = None
    ) -> None:
        self.workload = workload
        self.options = options or EconomicsOptions()
        self._target = shape_of(load_model(workload.model))
        self._draft = shape_of(load_model(workload.draft))

    def provenance(self) -> Fields:
        """Workload, options and the paper's figures, as plain JSON values."""
        return {
            "workload": self.workload.model_dump(mode="json"),
            "options": self.options.model_dump(mode="json"),
            "model": vars(self._target),
            "draft": vars(self._draft),
            "paper": {
                name: record.model_dump(mode="json", exclude={"sources"})
                for name, record in paper_devices().items()
            },
            "rents": {
                name: record.model_dump(mode="json") for name, record in list_rents().items()
            },
        }

    def known_violations(self, designs: Columns) -> Arrays:
        """``capacity``, relative, and ``split``, devices left over or 1 if uneven; (n,) each."""
        batch = self._prepare(designs)
        fixed = batch.decoding.target.fixed
        load = batch.load
        left_over = np.zeros(len(designs["n_devices"]))
        stage = load.n_devices
        if fixed.pipeline is not None:
            stages = np.nan_to_num(fixed.pipeline, nan=1.0)
            left_over += np.maximum(stages - np.minimum(self._target.n_layers, load.batch), 0.0)
            left_over += _remainder(load.n_devices, stages)
            stage = load.n_devices / stages
        if fixed.experts is not None:
            most = batch.decoding.target.shape.n_experts
            left_over += np.maximum(np.nan_to_num(fixed.experts, nan=1.0) - most, 0.0)
        for degree in (fixed.experts, fixed.attention):
            if degree is not None:
                left_over += _remainder(stage, np.nan_to_num(degree, nan=1.0))
        if not self.options.continuous:
            is_uneven = ~are_buildable(batch.decoding, batch.load)
            left_over = np.where(is_uneven, np.maximum(left_over, 1.0), left_over)
        return {"capacity": batch.decoding.memory_excess(batch.load), "split": left_over}

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        """Evaluate a batch.

        Raises:
            InputError: A value of a parameter that cannot be used, or a device without a price.
        """
        names = chosen_metrics(metrics, ECONOMICS_METRICS)
        n = len(designs["n_devices"])
        chunks = [slice(i, i + _CHUNK) for i in range(0, max(n, 1), _CHUNK)]
        results = joined([self._results(taken(designs, chunk)) for chunk in chunks])
        violations = dict(self.known_violations(designs))
        demand = self.options.demand_tokens_per_s
        if demand is not None:
            violations["demand"] = results["throughput_tokens_per_s"] / demand - 1.0
        return Evaluation(select_keys(results, names), violations)

    def _results(self, designs: Columns) -> ArrayDict:
        batch = self._prepare(designs)
        load = batch.load
        decoding = batch.decoding
        time = self._times(batch)
        rate = load.batch / time
        peak = load.n_devices * decoding.target.machine.peak_flop_per_s
        context = self._target.attended(load.context_tokens)
        scores = self._target.n_layers * self._target.score_flop * context
        return {
            "time_per_output_token_s": time,
            "tokens_per_s_per_user": 1.0 / time,
            "throughput_tokens_per_s": rate,
            "usd_per_million_tokens": price_per_million_tokens(
                time, load.n_devices, load.batch, batch.usd_per_hour
            ),
            "usd_per_hour": batch.usd_per_hour * load.n_devices,
            "tokens_per_s_per_device": rate / load.n_devices,
            "memory_used_bytes": decoding.stored_bytes(load),
            "memory_capacity_bytes": load.n_devices * decoding.target.machine.capacity_bytes,
            "compute_utilization": rate * (self._target.active_flop_per_token + scores) / peak,
        }

    def _times(self, batch: _PreparedDesigns) -> FloatArray:
        """(n,) seconds per token; of designs that nobody could build, as if they were real."""
        load = batch.load
        decoding = batch.decoding
        if self.options.continuous:
            return decoding.token_times(load)[0]
        times = buildable_times(decoding, load)
        if np.isinf(times).any():
            times = np.where(np.isinf(times), decoding.token_times(load)[0], times)
        return times

    # --- designs ------------------------------------------------------------------------------

    def _prepare(self, designs: Columns) -> _PreparedDesigns:
        """Machines, precisions and splits of a batch as arrays."""
        precision = ElementBytes(*(_bits(designs, name) / 8 for name in FORMAT_KEYS))
        draft_bytes = np.full(len(designs["n_devices"]), self.workload.draft_weight_bits / 8)
        n_devices = _counts(designs, "n_devices")
        batch = _counts(designs, "batch_size")
        fixed = Fixed(
            layout=_numbers(designs, "tensor_layout", _layout),
            pipeline=_numbers(designs, "pipeline_parallel", _count),
            experts=_numbers(designs, "expert_parallel", _count),
            attention=_numbers(designs, "attention_parallel", _count),
        )
        absent = column_of([DEFAULT_FORMAT] * len(designs["n_devices"]))
        target = ForwardPass(
            self._target,
            self._machine(designs, designs.get("weight_format", absent)),
            precision,
            fixed,
        )
        decoding = Decoding(target)
        load = Load(n_devices, batch, self.workload.context_tokens)
        if "speculation" in designs:
            draft_format = column_of([self.workload.draft_format] * len(draft_bytes))
            machine = self._machine(designs, draft_format)
            drafts = ElementBytes(draft_bytes, precision.activation_bytes, precision.kv_bytes)
            decoding = Decoding(
                target,
                Speculation(ForwardPass(self._draft, machine, drafts), self.workload.acceptance),
                draft_length=designs["speculation"].lookup(_length, absent=0.0),
            )
        return _PreparedDesigns(load, decoding, designs["device"].lookup(self._price))

    def _price(self, name: str) -> float:
        device = load_device(name)
        return self.options.usd_per_hour(device.name, list_rents().get(device.key), device.power)

    def _machine(self, designs: Columns, weights: Column) -> SustainedDevice:
        """One machine of arrays; rates depend on the device and on the format of the weights."""
        devices = designs["device"]
        number, positions = distinct(*combined(devices.codes, weights.codes))
        machines = []
        for i in positions.tolist():
            weight_format = str((*weights.values, None)[weights.codes[i]] or DEFAULT_FORMAT)
            device = str(devices.values[devices.codes[i]])
            machines.append(device_machine(device, weight_format, self.options))

        def column(owners: Sequence[Any], name: str) -> FloatArray:
            return np.array([getattr(owner, name) for owner in owners], np.float64)[number]

        fabrics = [machine.fabric for machine in machines]
        rates: JsonObject = {name: column(machines, name) for name in _RATES}
        fabric = Fabric(**{name: column(fabrics, name) for name in _LINKS})
        return SustainedDevice("devices", fabric=fabric, **rates)


@frozen
class _PreparedDesigns:
    """Designs of a batch, prepared for evaluation.

    Attributes:
        load: Devices, requests and context of the designs.
        usd_per_hour: (n,) price of an hour of one device.
    """

    load: Load
    decoding: Decoding
    usd_per_hour: FloatArray


def _numbers(designs: Columns, name: str, read: Any) -> FloatArray | None:
    """A column of numbers, NaN where the design leaves it open; None if all do."""
    if name not in designs:
        return None
    values = designs[name].lookup(lambda value: read(name, value), absent=np.nan)
    return None if np.isnan(values).all() else values


def _layout(name: str, value: Value) -> float:
    if value in ("auto", "best"):
        return np.nan
    if value not in LAYOUTS:
        raise UnknownNameError("layout", value, [*LAYOUTS, "auto"], name)
    return LAYOUTS.index(str(value)) + 1.0


def _count(name: str, value: Value) -> float:
    if value in ("auto", "best"):
        return np.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
        raise InputError(f"expected a number from 1, or auto, got {value!r}", name)
    if not np.isfinite(value):
        raise InputError(f"expected a finite number, got {value!r}", name)
    return float(value)


def _counts(designs: Columns, name: str) -> FloatArray:
    return designs[name].lookup(lambda value: _count(name, value))


def _bits(designs: Columns, name: str) -> FloatArray:
    """(n,) bits of an element."""
    wide = bits_per_element(DEFAULT_FORMAT, "plain")
    if name in designs:
        return designs[name].lookup(lambda record: bits_per_element(str(record), "plain"), wide)
    # What is not said of the cache holds as for the activations, from which it is made.
    if name == "kv_format" and "activation_format" in designs:
        return _bits(designs, "activation_format")
    return np.full(len(designs["n_devices"]), wide)


def _length(value: Value) -> float:
    """Tokens drafted ahead, 0 for ``none`` and NaN for ``auto``."""
    if value in ("auto", "best"):
        return np.nan
    if value in ("none", 0):
        return 0.0
    if value not in DRAFT_LENGTHS:
        words = ["none", "auto", *map(str, DRAFT_LENGTHS)]
        raise UnknownNameError("speculation", value, words, "speculation")
    return float(str(value))


def _remainder(devices: FloatArray, groups: FloatArray) -> FloatArray:
    """Devices left over; those that are missing for one each if there are too few."""
    return np.where(devices >= groups, np.mod(devices, groups), np.maximum(groups - devices, 0.0))
