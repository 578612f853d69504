"""Price per token against speed of serving a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.evaluation import read_pairs
from codesign.cli.flag_records import (
    filled_keys,
    flag,
    flag_names,
    set_flags,
    token_flag,
)
from codesign.cli.flags import flag_by_key, naming, prefix_problems
from codesign.cli.output import AsJson, report
from codesign.cli.platform_options import LimitFlags, Model
from codesign.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from codesign.evaluators.economics.decoding import RequestTokens
    from codesign.evaluators.economics.frontier import Grid, Points
    from codesign.evaluators.economics.load import Fixed
    from codesign.evaluators.economics.options import EconomicsOptions, EconomicsWorkload
    from codesign.evaluators.economics.serving import DeviceServing, Formats, Offer
    from codesign.evaluators.economics.shape import ModelShape
    from codesign.hardware.accelerator import AcceleratorBatch
    from codesign.hardware.nccl import Fabric

_SPACE = "memexplorer"
_DEVICE = "h100"
_OWNERSHIP = "busy_share, electricity_usd_per_kwh, pue, compute_cap, bandwidth_cap, node_size, ..."


@dataclass(frozen=True)
class OperandFlags:
    """Number formats."""

    weight_format: str | None = flag("Of the weights, such as bf16, int8, int4. [bf16]")
    activation_format: str | None = flag("Of the activations. [bf16]")
    kv_format: str | None = flag("Of the KV cache. [as the activations]")


@dataclass(frozen=True)
class PromptFlags:
    """The tokens of a request."""

    context_tokens: float | None = flag(
        "Tokens that every request attends to, prompts not counted. [0]"
    )
    prompt_tokens: int | None = token_flag("Tokens of a prompt, whose prefill is counted.")
    generated_tokens: int | None = token_flag("Tokens generated after it; with --prompt-tokens.")


@dataclass(frozen=True)
class DraftFlags:
    """The model that drafts."""

    speculate: bool | None = flag(
        "Draft tokens ahead with a smaller model where it is faster. [not under fitted]", key=""
    )
    draft: str = flag("The model that drafts.", "llama-3-8b")
    draft_kv_heads: int | None = flag("Its key and value heads, instead of its own.", key="")
    acceptance: float = flag("Probability that a drafted token is accepted.", 0.8)


@dataclass(frozen=True)
class OwnershipFlags:
    """What a device costs, and what all users ask of it."""

    price_per_hour: float | None = flag(
        "Rent of one device in dollars. [a typical one]", key="price_usd_per_hour"
    )
    capital_cost: float | None = flag(
        "Price of one device in dollars, bought instead.", key="capital_cost_usd"
    )
    power_watts: float | None = flag("Of a bought device. [its file's; a design's TDP]")
    lifetime_years: float | None = flag("Over which a bought device is written off. [6]")
    demand: float | None = flag(
        "Tokens per second of all users; no instance makes more.", key="demand_tokens_per_s"
    )


@dataclass(frozen=True)
class InstanceFlags:
    """One instance, and how it is split."""

    devices: float | None = flag("One instance size instead of the grid; with --batch.")
    batch: float | None = flag("One batch instead of the grid.")
    tp: int | None = flag("Devices of a pipeline stage.")
    pp: int | None = flag("Pipeline stages.")
    ep: int | None = flag("Groups that share out the experts.")
    layout: str | None = flag("Tensor parallelism along 1d or 2d. [the faster]")


@dataclass(frozen=True)
class GridFlags:
    """The instances and batches that are tried."""

    grid: int = flag("Batches that are tried; sizes too if continuous.", 400)
    max_devices: float = flag("Largest instance of the grid.", 1000.0)
    max_batch: float = flag("Largest batch of the grid.", 10_000.0)


_FLAGS = {
    "model": "--model",
    "profile": "--profile",
    **flag_names(PromptFlags, DraftFlags, OwnershipFlags),
}


def economics(
    *,
    model: Model,
    device: Annotated[
        str | None, typer.Option(help="A device, or the path of its file. [h100]")
    ] = None,
    design: Annotated[
        str | None, typer.Option(help="Instead of a device: a design that --space names.")
    ] = None,
    space: Annotated[str | None, typer.Option(help=f"Design space. [{_SPACE}]")] = None,
    formats_: OperandFlags,
    request: PromptFlags,
    users: Annotated[
        int | None,
        typer.Option(help="Users served at once: how many devices all of them take.", min=1),
    ] = None,
    times: LimitFlags,
    drafting: DraftFlags,
    owner: OwnershipFlags,
    alpha: Annotated[
        float, typer.Option(help="A token is worth its speed to this power (Epoch Eq. 45).")
    ] = 3.0,
    instance: InstanceFlags,
    largest: GridFlags,
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous",
            help="The paper's frontier over real numbers of devices, requests and stages.",
        ),
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            help="fitted (kernels as measured), epoch (the paper's figures) or plain (sustained "
            "rates of the files). [fitted; epoch with a flag that only they have, such as --tp]"
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help=f"Repeatable: {_OWNERSHIP}"),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw cost against speed: a .png or .svg file.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Points of the frontier to print.", min=0)] = 12,
    as_json: AsJson = False,
) -> None:
    """Price a model: dollars per million tokens against speed, fastest and best-value points."""
    from codesign.evaluators.economics.buildable import buildable_points
    from codesign.evaluators.economics.frontier import Grid, feasible_points
    from codesign.evaluators.economics.serving import serve
    from codesign.report.economics import EconomicsReport, to_document, to_tables

    _check_numbers(alpha, instance, largest)
    _check_figure(figure)
    roofline_flags = {
        "--design": design is not None,
        "--speculate": bool(drafting.speculate),
        "--continuous": continuous,
    }
    stray = [name for name, is_set in roofline_flags.items() if is_set] + set_flags(instance)
    profile = profile or ("epoch" if stray else _FITTED)
    is_fitted = profile == _FITTED
    if is_fitted and stray:
        problem = "expected --profile epoch or plain with it; fitted searches whole instances"
        raise InputError(f"{problem} of a device, without a draft", stray[0])
    speculate = False if is_fitted else drafting.speculate in (None, True)
    profile = "plain" if is_fitted else profile
    options = _options(
        filled_keys(owner) | {"profile": profile}, read_pairs("--option", option, as_yaml=True)
    )
    if is_fitted:
        _check_fitted_options(options)
    tokens = _request_tokens(request)
    workload = _workload(model, request, tokens, drafting)
    limits = _limits(times, tokens)
    if drafting.draft_kv_heads is not None:
        with prefix_problems("--draft-kv-heads"):
            options.shape(drafting.draft, drafting.draft_kv_heads)
    offer, settings = _offer(device, design, space, options)
    formats = _formats(formats_, settings)
    speculate = speculate and drafting.draft != model  # no model is faster than itself
    split, devices = _split(instance)
    batch = instance.batch
    if (devices is None) != (batch is None):
        raise InputError(
            "expected --devices and --batch together, or neither"
            " (--tp and --pp fix the devices, so they need --batch)"
        )
    serving = serve(
        workload, options, offer, formats, speculate, split, drafting.draft_kv_heads, tokens
    )
    _check_split(split, devices, batch, serving.decoding.target.shape, continuous)
    tried = Grid(
        largest.grid, largest.max_devices, min(largest.max_batch, users or largest.max_batch)
    )
    if is_fitted:
        points = _fitted_points(workload, options, serving, formats, tokens, device, tried)
    elif devices is not None and batch is not None:
        points = _point(serving, devices, batch, continuous)
    else:
        points = (feasible_points if continuous else buildable_points)(
            serving.decoding,
            serving.usd_per_hour,
            tried,
            workload.context_tokens,
            options.demand_tokens_per_s,
        )
    points = points.within(*limits)
    economics_report = EconomicsReport(
        serving,
        points.frontier(),
        alpha,
        _question(serving, formats, tokens, users, limits)
        | {"rent": _rent_words(serving, options)}
        | (
            _fitted_conventions(options)
            if is_fitted
            else _conventions(serving, workload, speculate, options)
        ),
        points=points,
        users=users,
        notes=[
            *_notes(model, drafting.draft if speculate else None, points, tried),
            *(_fitted_notes(device) if is_fitted else ()),
        ],
    )
    economics_report = replace(economics_report, files=_draw(economics_report, figure))
    report(
        "economics",
        as_json,
        lambda: to_document(economics_report),
        lambda: to_tables(economics_report, rows),
    )


_FITTED = "fitted"
_OF_ROOFLINES = ("compute_cap", "bandwidth_cap", "link_bandwidth", "network_bandwidth", "node_size")
"""Options of sustained rates, which fitted kernels do not have."""


def _check_fitted_options(options: EconomicsOptions) -> None:
    for name in _OF_ROOFLINES:
        if getattr(options, name) is not None:
            problem = "expected --profile epoch or plain with it; every fitted kernel has its own"
            raise InputError(f"{problem} efficiency", f"--option {name}")


def _fitted_points(
    workload: EconomicsWorkload,
    options: EconomicsOptions,
    serving: DeviceServing,
    formats: Formats,
    tokens: RequestTokens | None,
    device: str | None,
    tried: Grid,
) -> Points:
    from codesign.evaluators.economics.fitted_points import fitted_points
    from codesign.hardware.device import load_device

    return fitted_points(
        workload.model,
        load_device(device or _DEVICE, "--device"),
        formats,
        serving.usd_per_hour,
        tried,
        workload.context_tokens,
        tokens,
        options.demand_tokens_per_s,
    )


def _fitted_conventions(options: EconomicsOptions) -> dict[str, str]:
    demand = options.demand_tokens_per_s
    return {
        "times": "laws of kernels and collectives that are fitted to measurements",
        "speculation": "none",
        "profile": _FITTED,
    } | ({} if demand is None else {"demand": f"{demand:g} token/s"})


def _fitted_notes(device: str | None) -> list[str]:
    """What is known of the errors of the device's predictions."""
    from codesign.hardware.device import load_device
    from codesign.machines.device.expected_error import describe_expected_error

    return describe_expected_error(load_device(device or _DEVICE).key)


def _check_numbers(alpha: float, instance: InstanceFlags, largest: GridFlags) -> None:
    if not (math.isfinite(alpha) and alpha >= 0):
        raise InputError(f"expected a finite number from 0, got {alpha}", "--alpha")
    if not 2 <= largest.grid <= 2000:
        raise InputError(f"expected 2 to 2000 points, got {largest.grid}", "--grid")
    counts = {
        "--devices": instance.devices,
        "--batch": instance.batch,
        "--max-devices": largest.max_devices,
        "--max-batch": largest.max_batch,
    }
    for name, value in counts.items():
        if value is not None and not (math.isfinite(value) and value >= 1):
            raise InputError(f"expected a finite number from 1, got {value}", name)


def _check_figure(path: Path | None) -> None:
    if path is not None:
        from codesign.report.drawing import check_format

        with prefix_problems("--figure"):
            check_format(path.suffix.removeprefix(".").lower())


def _options(named: Mapping[str, Any], more: Mapping[str, Any]) -> EconomicsOptions:
    from codesign.evaluators.economics.options import EconomicsOptions
    from codesign.schema import Document, to_record

    twice = sorted((named.keys() - {"profile"}) & more.keys())
    if twice:
        flag = _FLAGS[twice[0]]
        raise InputError(f"{twice[0]!r} is given twice, the other time by {flag}", "--option")
    with naming(_FLAGS, flag_by_key("--option", more)):
        return to_record(Document("option", {**named, **more}, {}), EconomicsOptions)


def _workload(
    model: str, request: PromptFlags, tokens: RequestTokens | None, drafting: DraftFlags
) -> EconomicsWorkload:
    from codesign.evaluators.economics.options import EconomicsWorkload
    from codesign.schema import Document, to_record

    context = tokens.prompt_tokens + tokens.generated_tokens if tokens else request.context_tokens
    inputs = {"model": model, "context_tokens": context or 0.0, **filled_keys(drafting)}
    with naming(_FLAGS):
        return to_record(Document("workload", inputs, {}), EconomicsWorkload)


def _offer(
    device: str | None, design: str | None, space: str | None, options: EconomicsOptions
) -> tuple[Offer, Mapping[str, Any]]:
    """The rented device, and the settings of the design that describes it."""
    from codesign.evaluators.economics.serving import design_offer, device_offer

    if design is None:
        if space is not None:
            raise InputError("expected --design with --space")
        return device_offer(device or _DEVICE, options), {}
    if device is not None:
        raise InputError("expected --device or --design, got both")
    from codesign import api
    from codesign.hardware.accelerator import REQUIRED_PARAMETERS, build_accelerators

    design_space = api.load_space(space or _SPACE)
    row = api.find_design(design_space, design)
    columns = design_space.columns(row)
    missing = sorted(REQUIRED_PARAMETERS - columns.keys())
    if missing:
        problem = f"its designs are no accelerators: parameter {missing[0]!r} is missing"
        raise InputError(problem, f"space {design_space.name}")
    accelerators = build_accelerators(columns, api.load_library())
    settings = {name: column.to_list()[0] for name, column in columns.items()}
    watts = _tdp_watts(accelerators, settings)
    return design_offer(design, accelerators, options, watts), settings


def _tdp_watts(accelerators: AcceleratorBatch, settings: Mapping[str, Any]) -> float:
    """TDP of a design in its own formats (16 bits by default), stated or from its parts."""
    import numpy as np

    from codesign.hardware.power import thermal_design_watts
    from codesign.workload.precision import DEFAULT_FORMAT, multiply_bits

    activation, weight, kv = (
        np.array([float(multiply_bits(settings.get(f"{name}_format") or DEFAULT_FORMAT))])
        for name in ("activation", "weight", "kv")
    )
    parts = thermal_design_watts(accelerators, activation, np.maximum(weight, kv))
    return float(sum(watts[0] for watts in parts.values()))


def _formats(flags: OperandFlags, settings: Mapping[str, Any]) -> Formats:
    """The requested formats; else the design's own; else 16 bits."""
    from codesign.evaluators.economics.serving import Formats
    from codesign.evaluators.economics.sustained_device import element_bits
    from codesign.workload.precision import DEFAULT_FORMAT

    for name, value in vars(flags).items():
        with prefix_problems(f"--{name.replace('_', '-')}"):
            element_bits(value or DEFAULT_FORMAT)
    chosen = {
        name.removesuffix("_format"): value or settings.get(name) or DEFAULT_FORMAT
        for name, value in vars(flags).items()
    }
    if flags.kv_format is None and not settings.get("kv_format"):
        chosen["kv"] = chosen["activation"]
    return Formats(**chosen)


def _split(instance: InstanceFlags) -> tuple[Fixed, float | None]:
    """The requested parts of the split, and their number of devices."""
    from codesign.evaluators.economics.load import LAYOUTS, Fixed

    tp, pp, ep, layout, devices = (
        instance.tp, instance.pp, instance.ep, instance.layout, instance.devices,
    )  # fmt: skip
    for name, value in {"--tp": tp, "--pp": pp, "--ep": ep}.items():
        if value is not None and value < 1:
            raise InputError(f"expected a number from 1, got {value}", name)
    if layout is not None and layout not in LAYOUTS:
        raise UnknownNameError("layout", layout, LAYOUTS, "--layout")
    if tp is not None:
        product = float(tp * (pp or 1))
        if devices is not None and devices != product:
            raise InputError(
                f"expected --devices to be tp x pp = {product:g}, got {devices:g}", "--tp"
            )
        devices, pp = product, pp or 1
    if (pp, ep) != (None, None) and devices is None:
        raise InputError("a given split needs --devices and --batch")
    number = None if layout is None else LAYOUTS.index(layout) + 1.0
    return Fixed(number, None if pp is None else float(pp), None if ep is None else float(ep)), (
        devices
    )


def _point(serving: DeviceServing, devices: float, batch: float, continuous: bool) -> Points:
    """The one instance that is asked about."""
    from codesign.evaluators.economics.buildable import buildable_point
    from codesign.evaluators.economics.serving import check_fits, single_point

    if continuous:
        return single_point(serving, devices, batch)
    check_fits(serving, devices, batch)
    return buildable_point(
        serving.decoding, serving.usd_per_hour, int(devices), int(batch), serving.context_tokens
    )


def _check_split(
    split: Fixed,
    devices: float | None,
    batch: float | None,
    shape: ModelShape,
    continuous: bool,
) -> None:
    """Refuse what does not divide."""
    if devices is None or batch is None:
        return
    for name, value in {"--devices": devices, "--batch": batch}.items():
        if not continuous and value != round(value):
            raise InputError(f"expected a whole number, or --continuous, got {value:g}", name)
    stages = float(split.pipeline) if split.pipeline is not None else 1.0
    most = min(shape.n_layers, batch)
    if stages > most:
        raise InputError(
            f"expected at most {most:g} stages, as many as layers and requests, got {stages:g}",
            "--pp",
        )
    _check_divides("--pp", devices, stages, "devices")
    if not continuous:
        _check_divides("--pp", shape.n_layers, stages, "layers")
    if split.experts is not None:
        if split.experts > shape.n_experts:
            has = f"{shape.n_experts:g} experts" if shape.is_mixture else "no experts"
            raise InputError(f"{shape.name} has {has}, got {split.experts:g}", "--ep")
        _check_divides("--ep", devices / stages, float(split.experts), "devices of a stage")


def _check_divides(name: str, devices: float, parts: float, noun: str) -> None:
    if devices % parts == 0:
        return
    near = [n for n in range(1, int(devices) + 1) if devices % n == 0] or [1]
    nearest = min(near, key=lambda n: abs(n - parts))
    raise InputError(
        f"expected a divisor of the {devices:g} {noun}, got {parts:g}; the nearest is {nearest}",
        name,
    )


def _request_tokens(request: PromptFlags) -> RequestTokens | None:
    """The tokens of a request, where its prompt is counted."""
    from codesign.evaluators.economics.decoding import RequestTokens

    prompt, generated = request.prompt_tokens, request.generated_tokens
    if prompt is None and generated is None:
        return None
    if prompt is None or generated is None or request.context_tokens is not None:
        raise InputError(
            "expected both --prompt-tokens and --generated-tokens, or --context-tokens alone"
        )
    for name, value in {"--prompt-tokens": prompt, "--generated-tokens": generated}.items():
        if value < 1:
            problem = f"expected a whole number from 1, as generated tokens are priced, got {value}"
            raise InputError(problem, name)
    return RequestTokens(float(prompt), float(generated))


def _limits(times: LimitFlags, tokens: RequestTokens | None) -> tuple[float | None, float | None]:
    """Limits on the time to first token and per output token, in seconds."""
    if times.first_token is not None and tokens is None:
        raise InputError("expected --prompt-tokens and --generated-tokens with it", "--first-token")
    return times.seconds()


def _question(
    serving: DeviceServing,
    formats: Formats,
    tokens: RequestTokens | None,
    users: int | None,
    limits: tuple[float | None, float | None],
) -> dict[str, str]:
    """What was asked, in the words of ``codesign requirements``."""
    from codesign.report.question import context_words, format_words, limit_words, user_words

    counted = "speed and price of generated tokens, "
    if tokens is None:
        context = f"{serving.context_tokens:,.10g} tokens"
        context += "" if serving.context_tokens else ": no KV cache is read (--context-tokens)"
        counted += "without any prefill (--prompt-tokens and --generated-tokens count it)"
    else:
        context = context_words(int(tokens.prompt_tokens), int(tokens.generated_tokens))
        counted += "with the prefill of their prompts"
    formats_by_key = {f"{name}_format": value for name, value in vars(formats).items()}
    question = {"formats": format_words(formats_by_key), "context": context}
    question |= {} if users is None else {"users": user_words(users)}
    question |= {} if limits == (None, None) else {"limits": limit_words(*limits)}
    return question | {
        "counted": counted,
    }


def _notes(model: str, draft: str | None, points: Points, tried: Grid) -> list[str]:
    """What a reader could take for more than it is."""
    from codesign.workload import load_model

    notes = []
    cheapest = int(points.usd_per_million_tokens.argmin())
    if len(points) > 1 and points.batch[cheapest] > 0.99 * tried.most_requests > 1:
        notes.append(
            f"the cheapest point has the largest batch that is tried, {tried.most_requests:,g}; "
            "--output-token limits how slow it may be"
        )
    if draft is not None:
        sizes = {name: load_model(name).vocab_size for name in (model, draft)}
        if sizes[model] != sizes[draft]:
            notes.append(
                f"{draft} knows {sizes[draft]:,} tokens and {model} {sizes[model]:,}: it cannot "
                "draft for it, and stands for a draft of its size (--draft, --no-speculate)"
            )
    return notes


def _rent_words(serving: DeviceServing, options: EconomicsOptions) -> str:
    """What an hour of a device costs, and the range of rents that prices follow."""
    words = f"{serving.usd_per_hour:.4g} USD/h per device"
    if options.capital_cost_usd is not None:
        return f"{words}, bought for {options.capital_cost_usd:,.0f} USD"
    rent = serving.rent
    if rent is None:
        return words
    words += f" ({rent.words})"
    if rent.low == rent.high:
        return words
    low, high = rent.low / rent.typical, rent.high / rent.typical
    return f"{words}; over that range prices are {low:.2g} to {high:.2g} times these"


def _conventions(
    serving: DeviceServing, workload: EconomicsWorkload, speculate: bool, options: EconomicsOptions
) -> dict[str, str]:
    """What the numbers rest on, in words."""
    from codesign.units import format_engineering

    machine = serving.machine
    rates = {"FLOP/s": machine.flop_per_s, "B/s": machine.bytes_per_s, "B": machine.capacity_bytes}
    flop, bandwidth, capacity = (
        format_engineering(float(value), unit) for unit, value in rates.items()
    )
    speculation = f"{workload.draft}, {workload.acceptance:.0%} accepted" if speculate else "none"
    demand = options.demand_tokens_per_s
    return {
        "sustained": f"{flop}, {bandwidth} of {capacity}",
        "network": _network_words(machine.fabric),
        "speculation": speculation,
        "profile": options.profile,
    } | ({} if demand is None else {"demand": f"{demand:g} token/s"})


def _network_words(fabric: Fabric) -> str:
    """Links within a node, if it has several devices, and between nodes, one way."""
    within, between = (
        f"{2 * float(rate) / 1e9:,.4g} GB/s"
        for rate in (fabric.intra_bytes_per_s, fabric.inter_bytes_per_s)
    )
    if float(fabric.node_size) == 1:
        return f"{between} between devices"
    return f"{within} within {fabric.node_size:g} devices, {between} between"


def _draw(economics_report: Any, path: Path | None) -> tuple[Path, ...]:
    if path is None:
        return ()
    from codesign.report.economics_figures import save_frontiers

    serving, conventions = economics_report.serving, economics_report.conventions
    title = f"{serving.decoding.target.shape.name} on {serving.machine.name}"
    words = f"{conventions['formats'].split(',')[0]}, {conventions['rent'].split(' (')[0]}"
    return (
        save_frontiers({words: economics_report.frontier}, path, title, economics_report.alpha),
    )


COMMANDS: list[Callable[..., Any]] = [economics]
