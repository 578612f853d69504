"""Price per token against speed of serving a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.economics_flags import (
    DraftFlags,
    GridFlags,
    InstanceFlags,
    OperandFlags,
    OwnershipFlags,
    PromptFlags,
    check_numbers,
    check_split,
    request_tokens,
    split_of,
)
from codesign.cli.evaluation import read_pairs
from codesign.cli.flag_records import filled_keys, flag_names, set_flags
from codesign.cli.flags import check_figure, flag_by_key, naming
from codesign.cli.output import AsJson, report
from codesign.cli.platform_flags import LimitFlags, Model
from codesign.errors import InputError, mistakes_at

if TYPE_CHECKING:
    from codesign.evaluators.economics.decoding import RequestTokens
    from codesign.evaluators.economics.economics_options import EconomicsOptions, EconomicsWorkload
    from codesign.evaluators.economics.frontier import Grid, Points
    from codesign.evaluators.economics.serving_offer import DeviceServing, Formats, Offer
    from codesign.hardware.accelerator import AcceleratorBatch

_SPACE = "memexplorer"
_DEVICE = "h100"
_OWNERSHIP = "busy_share, electricity_usd_per_kwh, pue, compute_cap, bandwidth_cap, node_size, ..."
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
    from codesign.evaluators.economics.serving_offer import serve
    from codesign.hardware.device import load_device
    from codesign.machines.device.expected_error import energy_range
    from codesign.report.economics_tables import EconomicsReport, to_document, to_tables
    from codesign.report.economics_words import (
        convention_words,
        energy_words,
        error_notes,
        fitted_convention_words,
        price_notes,
        question_words,
        rent_words,
    )

    check_numbers(alpha, instance, largest)
    check_figure("--figure", figure)
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
    tokens = request_tokens(request)
    workload = _workload(model, request, tokens, drafting)
    if users is not None and tokens is None and request.context_tokens is None:
        # Without a cache to read any number of requests fits, and 16 devices serve 10,000 users.
        raise InputError(
            "expected --prompt-tokens and --generated-tokens, or --context-tokens, with it",
            "--users",
        )
    limits = _limits(times, tokens)
    if drafting.draft_kv_heads is not None:
        with mistakes_at("--draft-kv-heads"):
            options.shape(drafting.draft, drafting.draft_kv_heads)
    offer, settings = _offer(device, design, space, options)
    formats = _formats(formats_, settings)
    speculate = speculate and drafting.draft != model  # no model is faster than itself
    split, devices = split_of(instance)
    batch = instance.batch
    if (devices is None) != (batch is None):
        raise InputError(
            "expected --devices and --batch together, or neither"
            " (--tp and --pp fix the devices, so they need --batch)"
        )
    serving = serve(
        workload, options, offer, formats, speculate, split, drafting.draft_kv_heads, tokens
    )
    check_split(split, devices, batch, serving.decoding.target.shape, continuous)
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
    key = None if points.joules_per_token is None else load_device(device or _DEVICE).key
    economics_report = EconomicsReport(
        serving,
        points.frontier(),
        alpha,
        question_words(model, serving, formats, tokens, users, limits)
        | {"rent": rent_words(serving, options)}
        | (
            fitted_convention_words(options)
            if is_fitted
            else convention_words(serving, workload, speculate, options)
        )
        | ({} if key is None else {"energy": energy_words(key, options)}),
        points=points,
        users=users,
        notes=[
            *price_notes(model, drafting.draft if speculate else None, points, tried),
            *(error_notes(device or _DEVICE) if is_fitted else ()),
        ],
        energy_range=None if key is None else energy_range(key, 1.0),
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


def _options(named: Mapping[str, Any], more: Mapping[str, Any]) -> EconomicsOptions:
    from codesign.evaluators.economics.economics_options import EconomicsOptions
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
    from codesign.evaluators.economics.economics_options import EconomicsWorkload
    from codesign.schema import Document, to_record

    context = tokens.prompt_tokens + tokens.generated_tokens if tokens else request.context_tokens
    inputs = {"model": model, "context_tokens": context or 0.0, **filled_keys(drafting)}
    with naming(_FLAGS):
        return to_record(Document("workload", inputs, {}), EconomicsWorkload)


def _offer(
    device: str | None, design: str | None, space: str | None, options: EconomicsOptions
) -> tuple[Offer, Mapping[str, Any]]:
    """The rented device, and the settings of the design that describes it."""
    from codesign.evaluators.economics.serving_offer import design_offer, device_offer

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

    from codesign.accounts.account_constants import constants_at
    from codesign.hardware.power import thermal_design_watts
    from codesign.workload.precision import DEFAULT_FORMAT, multiply_bits

    activation, weight, kv = (
        np.array([float(multiply_bits(settings.get(f"{name}_format") or DEFAULT_FORMAT))])
        for name in ("activation", "weight", "kv")
    )
    energies = constants_at("n7").operation_energies
    parts = thermal_design_watts(accelerators, activation, np.maximum(weight, kv), energies)
    return float(sum(watts[0] for watts in parts.values()))


def _formats(flags: OperandFlags, settings: Mapping[str, Any]) -> Formats:
    """The requested formats; else the design's own; else 16 bits."""
    from codesign.evaluators.economics.serving_offer import Formats
    from codesign.evaluators.economics.sustained_device import element_bits
    from codesign.workload.precision import DEFAULT_FORMAT

    for name, value in vars(flags).items():
        with mistakes_at(f"--{name.replace('_', '-')}"):
            element_bits(value or DEFAULT_FORMAT)
    chosen = {
        name.removesuffix("_format"): value or settings.get(name) or DEFAULT_FORMAT
        for name, value in vars(flags).items()
    }
    if flags.kv_format is None and not settings.get("kv_format"):
        chosen["kv"] = chosen["activation"]
    return Formats(**chosen)


def _point(serving: DeviceServing, devices: float, batch: float, continuous: bool) -> Points:
    """The one instance that is asked about."""
    from codesign.evaluators.economics.buildable import buildable_point
    from codesign.evaluators.economics.serving_offer import check_fits, single_point

    if continuous:
        return single_point(serving, devices, batch)
    check_fits(serving, devices, batch)
    return buildable_point(
        serving.decoding, serving.usd_per_hour, int(devices), int(batch), serving.context_tokens
    )


def _limits(times: LimitFlags, tokens: RequestTokens | None) -> tuple[float | None, float | None]:
    """Limits on the time to first token and per output token, in seconds."""
    if times.first_token is not None and tokens is None:
        raise InputError("expected --prompt-tokens and --generated-tokens with it", "--first-token")
    return times.seconds()


def _draw(economics_report: Any, path: Path | None) -> tuple[Path, ...]:
    if path is None:
        return ()
    from codesign.report.economics_figures import save_frontier

    serving, conventions = economics_report.serving, economics_report.conventions
    title = f"{serving.decoding.target.shape.name} on {serving.machine.name}"
    words = f"{conventions['formats'].split(',')[0]}, {conventions['rent'].split(' (')[0]}"
    return (save_frontier(economics_report.frontier, words, path, title, economics_report.alpha),)
