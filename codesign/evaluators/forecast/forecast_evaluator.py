"""The ``forecast`` evaluator: LIFE's hardware-agnostic forecast for batches of machines [LIFE]_.

A machine is a peak rate and a bandwidth, each with the share that software reaches. What a
model asks of it depends on the software alone, so it is counted once per variant among the
designs; a hundred thousand machines are then a handful of array operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    Columns,
    Fields,
    FloatArray,
    IntArray,
    Strings,
    Value,
    ValueMap,
    ValueTuple,
    combined,
    distinct,
    first_values,
)
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation, Evaluator, Explanation
from codesign.base.metrics import METRICS, chosen_metrics
from codesign.base.records import select_keys
from codesign.base.schema import Document, parse_record
from codesign.evaluators.forecast.forecast_explanation import Forecast, explained_forecast
from codesign.evaluators.forecast.forecast_options import ForecastOptions, ForecastRequest
from codesign.evaluators.forecast.performance import Demand, ForecastMachine, demand
from codesign.evaluators.forecast.phases import Inference
from codesign.evaluators.forecast.plain import rules_of
from codesign.evaluators.forecast.variants import Variant
from codesign.models.workload.precision import FORMAT_KEYS, find_format

_HARDWARE = frozenset({"peak_ops_per_s", "bandwidth_bytes_per_s"})
_SHARES = ("compute_efficiency", "memory_efficiency")
_CAPACITY = "memory_capacity_bytes"
_LATENCY = "dispatch_latency_s"
_OF_OPTIONS = ("chunk_tokens", "attention_tile")
_BATCH = "batch_size"
_SOFTWARE = (*Variant.model_fields, *_OF_OPTIONS, _BATCH)
_METRICS = (
    "time_to_first_token_s",
    "time_per_output_token_s",
    "tokens_per_s_per_user",
    "throughput_tokens_per_s",
    "memory_used_bytes",
    "peak_flop_per_s",
    "offchip_bandwidth_bytes_per_s",
    "batch_size",
)


class ForecastEvaluator(Evaluator):
    """Time to first token and per output token from counted work (LIFE Eqs. 1 to 6).

    Limiting assumption: arithmetic of every kind and format runs at one peak; a machine whose
    rate depends on the format is several values of ``peak_ops_per_s``.

    Args:
        options: Conventions of counting, efficiencies, software.

    Raises:
        InputError: The model cannot be loaded or cannot have the attention asked for, or a chunk of
            the prompt is longer than the prompt.
    """

    Workload = ForecastRequest
    Options = ForecastOptions
    workload: ForecastRequest
    options: ForecastOptions

    metrics = tuple(METRICS[name] for name in _METRICS)
    required_parameters = _HARDWARE
    optional_parameters = frozenset({*_SHARES, _LATENCY, _CAPACITY, *_SOFTWARE})

    def __init__(self, workload: ForecastRequest, options: ForecastOptions | None = None) -> None:
        self.workload = workload
        self.options = options or ForecastOptions()
        chunk = self.options.chunk_tokens
        prompt = self.workload.tokens.prompt_tokens
        if chunk is not None and chunk > prompt:
            problem = f"expected at most the prompt of {prompt:,} tokens, got {chunk:,}"
            raise InputError(problem, "chunk_tokens")
        self._forecasts: dict[ValueTuple, Forecast] = {}
        default = self.forecast({})
        named = dict.fromkeys(default.prefill.names + default.decode.names)
        self.options.efficiencies.check(tuple(named))

    def convention_modules(self) -> Strings:
        """Module of the counting class, which may be another package's."""
        return [rules_of(self.options.profile).__module__]

    def provenance(self) -> Fields:
        """Workload, model and options, as plain JSON values."""
        return {
            "workload": self.workload.model_dump(mode="json"),
            "model": self.workload.language_model.model_dump(mode="json"),
            "options": self.options.model_dump(mode="json"),
        }

    def known_violations(self, designs: Columns) -> Arrays:
        """(n,) relative excess of the limit ``capacity``, if the space has a capacity."""
        if _CAPACITY not in designs:
            return {}
        forecasts, position = self.distinct(designs)
        used = np.array([forecast.memory_bytes for forecast in forecasts])[position]
        return {"capacity": used / self._column(designs, _CAPACITY, np.inf) - 1.0}

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        """Evaluate a batch.

        Raises:
            InputError: A setting outside its range.
        """
        names = chosen_metrics(metrics, _METRICS)
        values = self._values(designs)
        return Evaluation(
            {name: values[name] for name in names}, dict(self.known_violations(designs))
        )

    def _values(self, designs: Columns) -> ArrayDict:
        """(n,) every metric."""
        machines = self.machines(designs)
        forecasts, position = self.distinct(designs)
        prefill, decode = (
            machines.times(Demand(*np.array(rows, np.float64).T[:, position]))
            for rows in (
                [forecast.prefill_demand for forecast in forecasts],
                [forecast.decode_demand for forecast in forecasts],
            )
        )
        bound_by_memory = rules_of(self.options.profile).is_decode_memory_bound
        step_s = decode.memory_s if bound_by_memory else decode.time_s
        held = [(forecast.memory_bytes, float(forecast.batch_size)) for forecast in forecasts]
        used, batch = np.array(held).T[:, position]
        return {
            "time_to_first_token_s": prefill.time_s,
            "time_per_output_token_s": step_s,
            "tokens_per_s_per_user": 1.0 / step_s,
            "throughput_tokens_per_s": batch / step_s,
            "memory_used_bytes": used,
            "peak_flop_per_s": self._column(designs, "peak_ops_per_s", np.nan),
            "offchip_bandwidth_bytes_per_s": self._column(designs, "bandwidth_bytes_per_s", np.nan),
            "batch_size": batch,
        }

    def explain(self, designs: Columns) -> Explanation:
        """The full account of one design: both phases, operator by operator."""
        values = first_values(self._values(designs))
        violations = first_values(self.known_violations(designs))
        (forecast,), _ = self.distinct(designs)
        return explained_forecast(
            forecast, self.workload, self.machines(designs), values, violations
        )

    # Software: counted once per variant

    def forecast(self, settings: ValueMap) -> Forecast:
        """The work of both phases under software settings; those left out are the options'.

        Raises:
            InputError: A setting that is not known or does not fit the model.
        """
        key = tuple(settings.get(name) for name in _SOFTWARE)
        if key not in self._forecasts:
            self._forecasts[key] = self._count(settings)
        return self._forecasts[key]

    def inference(self, settings: ValueMap) -> Inference:
        """The model under software settings, to look at other phases than the workload's.

        Raises:
            UnusableValueError: A format that is not known, or a mixture of formats.
            InputError: Another setting that is not known or does not fit the model.
        """
        definition = self.options.variant.model_dump()
        definition |= select_keys(settings, Variant.model_fields)
        for name in FORMAT_KEYS:
            if name in settings:
                find_format(str(settings[name]))  # its error finds the line in the space
        variant = parse_record(Document("design", definition, {}), Variant)
        tile = settings.get("attention_tile", self.options.attention_tile)
        return self.options.inference(self.workload, variant, _count(tile, "attention_tile"))

    def _count(self, settings: ValueMap) -> Forecast:
        inference = self.inference(settings)
        tokens = self.workload.tokens
        chunk = settings.get("chunk_tokens", self.options.chunk_tokens)
        batch = _count(settings.get(_BATCH, self.workload.batch), _BATCH)
        chunk = None if chunk is None else _count(chunk, "chunk_tokens")
        prefill = inference.prefill(tokens.prompt_tokens, chunk)
        decode = inference.mean_step(tokens.prompt_tokens, tokens.generated_tokens, batch)
        return Forecast(
            inference=inference,
            prefill=prefill,
            decode=decode,
            prefill_demand=demand(prefill, self.options.efficiencies),
            decode_demand=demand(decode, self.options.efficiencies),
            batch_size=batch,
            memory_bytes=inference.weight_bytes()
            + batch * inference.kv_bytes(tokens.prompt_tokens + tokens.generated_tokens),
        )

    def distinct(self, designs: Columns) -> tuple[list[Forecast], IntArray]:
        """The forecasts among the designs, and the position of each design's, (n,)."""
        present = [name for name in _SOFTWARE if name in designs]
        n = len(designs["peak_ops_per_s"])
        codes = [designs[name].codes for name in present] or [np.zeros(n, np.int64)]
        position, first = distinct(*combined(*codes))
        forecasts = []
        for row in first.tolist():
            settings = {
                name: designs[name].values[designs[name].codes[row]]
                for name in present
                if designs[name].codes[row] >= 0
            }
            forecasts.append(self.forecast(settings))
        return forecasts, position

    # Hardware

    def machines(self, designs: Columns) -> ForecastMachine:
        """The hardware of the designs, (n,) each; rates have the designs' efficiencies in them.

        Raises:
            InputError: A value outside its range.
        """

        def rate(name: str, share_name: str) -> FloatArray:
            peak = self._column(designs, name, np.nan)
            share = self._column(designs, share_name, 1)
            _require((peak > 0) & np.isfinite(peak), peak, name, "a finite number above 0")
            _require((share > 0) & (share <= 1), share, share_name, "more than 0 and at most 1")
            return peak * share

        latency = self._column(designs, _LATENCY, self.options.dispatch_latency_s)
        _require((latency >= 0) & np.isfinite(latency), latency, _LATENCY, "a finite number from 0")
        return ForecastMachine(
            rate("peak_ops_per_s", "compute_efficiency"),
            rate("bandwidth_bytes_per_s", "memory_efficiency"),
            latency,
            self.options.efficiencies,
        )

    def _column(self, designs: Columns, name: str, absent: float) -> FloatArray:
        if name not in designs:
            return np.full(len(designs["peak_ops_per_s"]), absent)
        return designs[name].lookup(float, absent)


def _require(valid: Any, values: FloatArray, name: str, expected: str) -> None:
    if not valid.all():
        raise InputError(f"expected {expected}, got {values[~valid][0]:g}", name)


def _count(value: Value, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"expected a whole number from 1, got {value!r}", name)
    return value
