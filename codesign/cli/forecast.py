"""A forecast of one model on one machine: time to first token, per output token, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import typer

from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.cli.evaluation import read_pairs
from codesign.cli.flag_records import filled_keys, flag, flag_names, token_flag
from codesign.cli.flags import flag_by_key, naming, number, quantity
from codesign.cli.output import make_console, report
from codesign.cli.serving_flags import Convention, Model, Options, settings_by_record

if TYPE_CHECKING:
    from codesign.answers.serving import ForecastAnswer, ForecastPhase
    from codesign.base.columns import JsonObject
    from codesign.evaluators.forecast import ForecastEvaluator
    from codesign.evaluators.forecast.operator_work import PassWork
    from codesign.evaluators.forecast.performance import ForecastMachine

_DEFAULT_PROMPT = 2048
_DEFAULT_GENERATED = 256
_RECORDS = "codesign.evaluators.forecast.forecast_options"


@frozen
class RateFlags:
    """A machine, by its rates or its datasheet."""

    tops: float | None = flag("Peak, in 10^12 operations per second.")
    gbps: float | None = flag("Memory bandwidth in GB/s; 2^30 B/s under `life`.")
    on: str | None = flag("A device whose datasheet gives what is left out.")


@frozen
class BatchFlags:
    """The requests that are decoded together."""

    record: ClassVar[str] = f"{_RECORDS}:ForecastRequest"
    prompt_tokens: int | None = token_flag(f"Tokens of a prompt. [{_DEFAULT_PROMPT}]")
    generated_tokens: int | None = token_flag(f"Tokens generated after it. [{_DEFAULT_GENERATED}]")
    workload: str | None = flag(key="trace")
    batch: int | None = flag()

    def inputs(self, model: str) -> JsonObject:
        """The evaluator's workload.

        Raises:
            InputError: The tokens are set in two ways.
        """
        counts = {"prompt_tokens": _DEFAULT_PROMPT, "generated_tokens": _DEFAULT_GENERATED}
        filled = filled_keys(self)
        if self.workload is None:
            return {"model": model, **counts, **filled}
        if counts.keys() & filled.keys():
            raise InputError(
                "expected --workload, or --prompt-tokens and --generated-tokens, got both"
            )
        return {"model": model, **filled}


_FLAGS = {"model": "MODEL", "profile": "--convention", **flag_names(BatchFlags)}


def forecast(
    *,
    model: Model,
    rates: RateFlags,
    request: BatchFlags,
    variant: str | None = None,
    convention: Convention = None,
    option: Options = None,
    timeline: Annotated[
        int | None, typer.Option(help="Show this many steps of the generation.", min=2)
    ] = None,
    heat_map: bool = False,
) -> None:
    """Forecast one device and one user: both times, from peak rates alone.

    Args:
        variant: Software, by a name of LIFE's Table 3, such as bf16-int4-kv4. [bf16-bf16, or as the
            model is published]
        heat_map: Ratio of compute to memory time for 100 machines around this one.
    """
    from codesign import api
    from codesign.evaluators.forecast.fit import NARROW, misfit
    from codesign.evaluators.forecast.forecast_options import ForecastOptions, ForecastRequest
    from codesign.evaluators.forecast.performance import ForecastMachine
    from codesign.evaluators.forecast.plain import rules_of
    from codesign.evaluators.forecast.variants import Variant, find_variant
    from codesign.models.hardware.device import load_device
    from codesign.models.workload.model_library import load_model
    from codesign.report.forecast_tables import forecast_tables

    changes, settings, more = settings_by_record(option, Variant, ForecastOptions, ForecastRequest)
    for key in _SHARES:
        if key in settings:
            settings[key] = _shares(f"--option {key}", settings[key])
    if isinstance(latency := settings.get(_LATENCY), str):
        settings[_LATENCY] = quantity(f"--option {_LATENCY}", latency, "s")
    published = {} if variant or convention == "life" else load_model(model).published_formats
    software = find_variant(variant or "bf16-bf16", "--variant")
    settings["variant"] = software.model_dump() | published | changes
    if convention is not None:
        settings["profile"] = convention
    inputs = {**request.inputs(model), **more}
    pairs = flag_by_key("--option", {*settings, *more})
    with naming(_FLAGS, {**pairs, "variant": "--option", **_FLAGS}):
        evaluator = cast("ForecastEvaluator", api.build_evaluator("forecast", inputs, settings))
    options = evaluator.options
    peak = None if rates.tops is None else number("--tops", rates.tops, above=0) * 1e12
    gigabyte = rules_of(options.profile).gigabyte
    bandwidth = None if rates.gbps is None else number("--gbps", rates.gbps, above=0) * gigabyte
    if rates.on is not None:
        sheet = load_device(rates.on, "--on")
        exact = evaluator.forecast({})
        narrow = evaluator.forecast(NARROW)
        problem = misfit(exact, narrow, evaluator.workload, sheet.capacity)
        if problem is not None:
            raise InputError(problem, f"--on: {sheet.name}")
        peak = sheet.peak_flop_per_s(options.variant.activation_format) if peak is None else peak
        bandwidth = sheet.bandwidth if bandwidth is None else bandwidth
    if peak is None or bandwidth is None:
        missing = "--tops" if peak is None else "--gbps"
        raise InputError(f"expected {missing}, or --on with a device whose datasheet states it")
    machine = ForecastMachine(peak, bandwidth, options.dispatch_latency_s, options.efficiencies)
    answer = _answer(evaluator, machine, timeline, heat_map)
    report(lambda: answer, lambda: forecast_tables(answer, make_console().width))


_SHARES = ("compute_efficiency", "memory_efficiency")
_LATENCY = "dispatch_latency_s"


def _shares(name: str, text: Any) -> Any:
    """A share, or shares by operator; their range is checked with the others' options."""
    if not isinstance(text, str):
        return text
    if "=" not in text:
        return quantity(name, text, "1")
    shares = read_pairs(name, text.split(","))
    return {key: quantity(name, value, "1") for key, value in shares.items()}


def _answer(
    evaluator: ForecastEvaluator,
    machine: ForecastMachine,
    n_steps: int | None,
    has_ratios: bool,
) -> ForecastAnswer:
    from codesign.answers.serving import (
        ForecastAnswer,
        ForecastMachineEntry,
        ForecastRequestEntry,
        ForecastStep,
        LoraUpdate,
    )
    from codesign.base.columns import design_columns, first_values
    from codesign.evaluators.forecast.forecast_explanation import notes
    from codesign.evaluators.forecast.scenarios import lora_update_ops, ratio_grid, timeline

    request = evaluator.workload
    options = evaluator.options
    inference = evaluator.inference({})
    tokens = request.tokens
    rates = {
        "peak_ops_per_s": float(machine.peak_ops_per_s),
        "bandwidth_bytes_per_s": float(machine.bandwidth_bytes_per_s),
    }
    evaluation = evaluator.evaluate(design_columns(rates))
    counted = evaluator.forecast({})
    more: JsonObject = {}
    if options.variant.lora != "none":
        # LIFE Eq. 7.
        ops = lora_update_ops(inference)
        rate = rates["peak_ops_per_s"] * options.efficiencies.compute.get("linear", 1.0)
        more["lora_update"] = LoraUpdate(ops=ops, time_s=ops / rate)
    if has_ratios:
        more["ratios"] = ratio_grid(inference, machine, tokens.prompt_tokens)
    if n_steps is not None:
        steps = timeline(
            inference,
            machine,
            tokens.prompt_tokens,
            tokens.generated_tokens,
            n_steps,
            counted.batch_size,
        )
        more["timeline"] = [
            ForecastStep(**dict(zip(steps, map(float, row), strict=True)))
            for row in zip(*steps.values(), strict=True)
        ]
    return ForecastAnswer(
        model=request.model,
        convention=options.profile,
        variant=options.variant,
        request=ForecastRequestEntry(
            prompt_tokens=tokens.prompt_tokens,
            generated_tokens=tokens.generated_tokens,
            batch_size=counted.batch_size,
            chunk_tokens=options.chunk_tokens,
        ),
        machine=ForecastMachineEntry(
            **rates,
            dispatch_latency_s=machine.dispatch_latency_s,
            compute_efficiency=options.compute_efficiency,
            memory_efficiency=options.memory_efficiency,
        ),
        metrics=first_values(evaluation.metrics),
        prefill=_phase(counted.prefill, machine),
        decode=_phase(counted.decode, machine),
        notes=notes(counted, request),
        **more,
    )


def _phase(work: PassWork, machine: ForecastMachine) -> ForecastPhase:
    from codesign.answers.serving import ForecastOperator, ForecastPhase, WorkTotals
    from codesign.evaluators.forecast.forecast_explanation import operator_rows, totals

    compute_s, memory_s = map(float, machine.phase_times(work))
    return ForecastPhase(
        totals=WorkTotals(**totals(work)),
        compute_s=compute_s,
        memory_s=memory_s,
        bound="compute" if compute_s > memory_s else "memory",
        operators=[ForecastOperator(**row) for row in operator_rows(work, machine)],
    )
