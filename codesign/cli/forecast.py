"""A forecast of one model on one machine: time to first token, per output token, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import typer

from codesign.base.errors import InputError, check_known, mistakes_at
from codesign.cli.evaluation import read_pairs
from codesign.cli.flag_records import filled_keys, flag, flag_names, token_flag
from codesign.cli.flags import naming, quantity
from codesign.cli.output import AsJson, make_console, report
from codesign.cli.platform_flags import Model

if TYPE_CHECKING:
    from codesign.answers.serving import ForecastAnswer, ForecastPhase, LoraUpdate
    from codesign.evaluators.forecast import ForecastEvaluator
    from codesign.evaluators.forecast.operator_work import PassWork
    from codesign.evaluators.forecast.performance import ForecastMachine
    from codesign.report.forecast_figures import Scene

_DEFAULT_PROMPT, _DEFAULT_GENERATED = 2048, 256
_RECORDS = "codesign.evaluators.forecast.forecast_options"


@dataclass(frozen=True)
class MachineFlags:
    """A machine, by its rates or its datasheet."""

    tops: float | None = flag("Peak, in 10^12 operations per second.")
    gbps: float | None = flag("Memory bandwidth in GB/s; 2^30 B/s under `life`.")
    device: str | None = flag("A device whose datasheet gives what is left out.")


@dataclass(frozen=True)
class BatchFlags:
    """The requests that are decoded together."""

    record: ClassVar[str] = f"{_RECORDS}:ForecastRequest"
    prompt_tokens: int | None = token_flag(f"Tokens of a prompt. [{_DEFAULT_PROMPT}]")
    generated_tokens: int | None = token_flag(f"Tokens generated after it. [{_DEFAULT_GENERATED}]")
    workload: str | None = flag(key="trace")
    batch: int | None = flag()

    def inputs(self, model: str) -> dict[str, Any]:
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


@dataclass(frozen=True)
class SoftwareFlags:
    """Software of the machine, and the rules that count its work."""

    record: ClassVar[str] = f"{_RECORDS}:ForecastOptions"
    variant: str = flag(
        "Software, by a name of LIFE's Table 3, such as bf16-int4-kv4.", "bf16-bf16"
    )
    settings: list[str] | None = flag(
        "A key of the variant, such as kv_format=int8.",
        None,
        "--set",
        key="variant",
        metavar="KEY=VALUE",
    )
    profile: str | None = flag()
    compute_efficiency: str = flag("Share of the peak: 0.5, or linear=0.6,bmm=0.3.", "1")
    memory_efficiency: str = flag("Share of the bandwidth, in the same form.", "1")
    dispatch_latency: str = flag(
        "Time of launching one kernel, such as '5 us'.", "0 s", key="dispatch_latency_s"
    )
    chunk_tokens: int | None = token_flag()
    tile: int | None = flag(key="attention_tile")

    def options(self) -> dict[str, Any]:
        """The evaluator's options."""
        changes = read_pairs("--set", self.settings, as_yaml=True)
        from codesign.evaluators.forecast.variants import find_variant

        variant = {**find_variant(self.variant, "--variant").model_dump(), **changes}
        seconds = quantity("--dispatch-latency", self.dispatch_latency, "s")
        if seconds < 0:
            raise InputError(
                f"expected a time of 0 s or more, got {self.dispatch_latency}", "--dispatch-latency"
            )
        return filled_keys(self) | {
            "variant": variant,
            "compute_efficiency": _shares("--compute-efficiency", self.compute_efficiency),
            "memory_efficiency": _shares("--memory-efficiency", self.memory_efficiency),
            "dispatch_latency_s": seconds,
        }


_FLAGS = {"model": "--model", **flag_names(BatchFlags, SoftwareFlags)}


def forecast(
    *,
    model: Model,
    rates: MachineFlags,
    request: BatchFlags,
    software: SoftwareFlags,
    timeline: Annotated[
        int | None, typer.Option(help="Show this many steps of the generation.", min=2)
    ] = None,
    heat_map: Annotated[
        bool, typer.Option("--heat-map", help="Compute over memory time for 100 machines around.")
    ] = False,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="Draw operators, ratio, efficiency, chunks, timeline, tiles or lora; repeatable."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path(),
    figure_format: Annotated[str, typer.Option("--format", help="png or svg.")] = "png",
    as_json: AsJson = False,
) -> None:
    """Forecast time to first token and per output token from peak rates alone."""
    from codesign import api
    from codesign.report.forecast_tables import forecast_tables

    names = figure or []
    from codesign.report.drawing import check_format
    from codesign.report.forecast_figures import FIGURES

    with mistakes_at("--format"):
        check_format(figure_format)
    for name in names:
        check_known("figure", name, FIGURES, "--figure")
    options, inputs = software.options(), request.inputs(model)
    with naming(_FLAGS):
        evaluator = cast("ForecastEvaluator", api.build_evaluator("forecast", inputs, options))
    if rates.device is not None:
        from codesign.evaluators.forecast.fit import NARROW, misfit
        from codesign.models.hardware.device import load_device

        sheet = load_device(rates.device, "--device")
        exact, narrow = evaluator.forecast({}), evaluator.forecast(NARROW)
        problem = misfit(exact, narrow, evaluator.workload, sheet.capacity)
        if problem is not None:
            raise InputError(problem, f"--device: {sheet.name}")
    machine = _machine(evaluator, rates)
    from codesign.report.forecast_figures import Scene

    tokens = evaluator.workload.tokens
    scene = Scene(
        evaluator.workload.language_model,
        evaluator.inference({}),
        machine,
        tokens.prompt_tokens,
        tokens.generated_tokens,
    )
    files = _draw(scene, figure or [], output, figure_format)
    answer = _answer(evaluator, scene, timeline, heat_map, files)
    report(as_json, lambda: answer, lambda: forecast_tables(answer, make_console().width))


def _shares(name: str, text: str) -> Any:
    """A share, or shares by operator; their range is checked with the others' options."""
    if "=" not in text:
        return quantity(name, text, "1")
    shares = read_pairs(name, text.split(","))
    return {key: quantity(name, value, "1") for key, value in shares.items()}


def _machine(evaluator: ForecastEvaluator, rates: MachineFlags) -> ForecastMachine:
    from codesign.evaluators.forecast.performance import ForecastMachine
    from codesign.evaluators.forecast.plain import rules_of
    from codesign.models.hardware.device import load_device

    options = evaluator.options
    peak = None if rates.tops is None else _positive("--tops", rates.tops) * 1e12
    gigabyte = rules_of(options.profile).gigabyte
    bandwidth = None if rates.gbps is None else _positive("--gbps", rates.gbps) * gigabyte
    if rates.device is not None:
        sheet = load_device(rates.device, "--device")
        precision = options.variant.activation_format
        peak = sheet.peak_flop_per_s(precision) if peak is None else peak
        bandwidth = sheet.bandwidth if bandwidth is None else bandwidth
    if peak is None or bandwidth is None:
        missing = "--tops" if peak is None else "--gbps"
        raise InputError(f"expected {missing}, or a --device whose datasheet says it")
    return ForecastMachine(peak, bandwidth, options.dispatch_latency_s, options.efficiencies)


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"expected a finite number above 0, got {value:g}", name)
    return value


def _answer(
    evaluator: ForecastEvaluator,
    scene: Scene,
    n_steps: int | None,
    has_ratios: bool,
    files: list[str],
) -> ForecastAnswer:
    from codesign.answers.serving import (
        ForecastAnswer,
        ForecastMachineEntry,
        ForecastRequestEntry,
        ForecastStep,
    )
    from codesign.base.columns import design_columns
    from codesign.evaluators.forecast.forecast_explanation import notes
    from codesign.evaluators.forecast.scenarios import timeline
    from codesign.report.forecast_figures import ratio_grid

    machine, request, options = scene.machine, evaluator.workload, evaluator.options
    rates = {
        "peak_ops_per_s": float(machine.peak_ops_per_s),
        "bandwidth_bytes_per_s": float(machine.bandwidth_bytes_per_s),
    }
    evaluation = evaluator.evaluate(design_columns(rates))
    counted = evaluator.forecast({})
    more: dict[str, Any] = {"files": files} if files else {}
    if update := _lora_update(evaluator, scene):
        more["lora_update"] = update
    if has_ratios:
        more["ratios"] = ratio_grid(scene)
    if n_steps is not None:
        steps = timeline(
            scene.inference,
            machine,
            scene.prompt_tokens,
            scene.generated_tokens,
            n_steps,
            counted.batch_size,
        )
        more["timeline"] = [ForecastStep(**row) for row in steps.rows()]
    return ForecastAnswer(
        model=request.model,
        profile=options.profile,
        variant=options.variant,
        request=ForecastRequestEntry(
            prompt_tokens=scene.prompt_tokens,
            generated_tokens=scene.generated_tokens,
            batch_size=counted.batch_size,
            chunk_tokens=options.chunk_tokens,
        ),
        machine=ForecastMachineEntry(
            **rates,
            dispatch_latency_s=machine.dispatch_latency_s,
            compute_efficiency=options.compute_efficiency,
            memory_efficiency=options.memory_efficiency,
        ),
        metrics={name: float(values[0]) for name, values in evaluation.metrics.items()},
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


def _lora_update(evaluator: ForecastEvaluator, scene: Scene) -> LoraUpdate | None:
    """Operations and time of merging the adapters into all layers once (LIFE Eq. 7)."""
    from codesign.answers.serving import LoraUpdate
    from codesign.evaluators.forecast.scenarios import lora_update_ops

    variant, model = evaluator.options.variant, scene.model
    if variant.lora == "none" or model.is_latent or model.is_mixture:
        return None
    ops = sum(lora_update_ops(model, variant.lora_rank).values()) * model.num_hidden_layers
    share = evaluator.options.efficiencies.compute.get("linear", 1.0)
    rate = float(scene.machine.peak_ops_per_s) * share
    return LoraUpdate(ops=ops, time_s=ops / rate)


def _draw(scene: Scene, names: list[str], folder: Path, form: str) -> list[str]:
    from codesign.report.forecast_figures import save_forecast_figure

    stem = Path(scene.model.name).name
    return [
        str(save_forecast_figure(name, scene, folder / f"{stem}-{name}.{form}")) for name in names
    ]
