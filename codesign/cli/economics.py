"""Price per token against speed of serving a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.base.errors import InputError, mistakes_at
from codesign.cli.economics_flags import (
    DEVICE,
    SPACE,
    DraftFlags,
    GridFlags,
    InstanceFlags,
    OfferFlags,
    OperandFlags,
    OwnershipFlags,
    PromptFlags,
    RuleFlags,
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

if TYPE_CHECKING:
    from codesign.answers.economics import EconomicsReport
    from codesign.evaluators.economics.decoding import RequestTokens
    from codesign.evaluators.economics.economics_options import EconomicsOptions, EconomicsWorkload
    from codesign.evaluators.economics.frontier import Grid, Points
    from codesign.evaluators.economics.serving_offer import DeviceServing, Formats, Offer
    from codesign.models.hardware.accelerator import AcceleratorBatch

_FITTED = "fitted"
_ROOFLINE_OPTIONS = (
    "compute_cap", "bandwidth_cap", "link_bandwidth", "network_bandwidth", "node_size",
)  # fmt: skip
"""Options of sustained rates, which fitted kernels do not have."""
_FLAGS = {"model": "--model", **flag_names(PromptFlags, DraftFlags, OwnershipFlags, RuleFlags)}


def economics(
    *,
    model: Model,
    offered: OfferFlags,
    formats_: OperandFlags,
    request: PromptFlags,
    times: LimitFlags,
    drafting: DraftFlags,
    owner: OwnershipFlags,
    alpha: Annotated[
        float, typer.Option(help="A token is worth its speed to this power (Epoch Eq. 45).")
    ] = 3.0,
    instance: InstanceFlags,
    largest: GridFlags,
    rules: RuleFlags,
    figure: Annotated[
        Path | None, typer.Option(help="Draw cost against speed: a .png or .svg file.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Points of the frontier to print.", min=0)] = 12,
    as_json: AsJson = False,
) -> None:
    """Price a model: dollars per million tokens against speed, fastest and best-value points."""
    from codesign.answers.economics import EconomicsAnswer
    from codesign.evaluators.economics.frontier import Grid
    from codesign.evaluators.economics.serving_offer import serve
    from codesign.report.economics_tables import economics_tables

    tried = Grid(**filled_keys(largest))
    check_numbers(alpha, instance, tried)
    check_figure("--figure", figure)
    roofline_flags = {
        "--design": offered.design is not None,
        "--speculate": bool(drafting.speculate),
        "--continuous": rules.continuous,
    }
    stray = [name for name, is_set in roofline_flags.items() if is_set] + set_flags(instance)
    if rules.profile == _FITTED and stray:
        problem = "expected --profile epoch or plain with it; fitted searches whole instances"
        raise InputError(f"{problem} of a device, without a draft", stray[0])
    is_fitted = rules.profile == _FITTED or (rules.profile is None and not stray)
    options = _options(owner, rules, is_fitted)
    tokens = request_tokens(request)
    workload = _workload(model, request, tokens, drafting)
    if request.users is not None and tokens is None and request.context_tokens is None:
        # Without a cache to read any number of requests fits, and 16 devices serve 10,000 users.
        raise InputError(
            "expected --prompt-tokens and --generated-tokens, or --context-tokens, with it",
            "--users",
        )
    if times.first_token is not None and tokens is None:
        raise InputError("expected --prompt-tokens and --generated-tokens with it", "--first-token")
    limits = times.seconds()
    if drafting.draft_kv_heads is not None:
        with mistakes_at("--draft-kv-heads"):
            options.shape(workload.draft, drafting.draft_kv_heads)
    offer, settings = _offer(offered, options)
    formats = _formats(formats_, settings)
    # No model is faster than itself.
    speculate = not is_fitted and drafting.speculate is not False and workload.draft != model
    split, devices = split_of(instance)
    serving = serve(
        workload, options, offer, formats, speculate, split, drafting.draft_kv_heads, tokens
    )
    check_split(split, devices, instance.batch, serving.decoding.target.shape, rules.continuous)
    device, users = offered.device or DEVICE, request.users
    if users is not None:
        tried = replace(tried, most_requests=min(tried.most_requests, users))
    study = _Study(device, workload, options, serving, formats, users, limits, tried, is_fitted)
    if devices is None or instance.batch is None:
        points = study.points(rules.continuous)
    else:
        points = _point(serving, devices, instance.batch, rules.continuous)
    economics_report = study.report(points.within(*limits), alpha)
    economics_report = replace(economics_report, files=_draw(economics_report, figure))
    report(
        as_json,
        lambda: EconomicsAnswer.describe(economics_report),
        lambda: economics_tables(economics_report, rows),
    )


@dataclass(frozen=True)
class _Study:
    """A priced offer and the rules of its prices."""

    device: str
    workload: EconomicsWorkload
    options: EconomicsOptions
    serving: DeviceServing
    formats: Formats
    users: int | None
    limits: tuple[float | None, float | None]
    tried: Grid
    is_fitted: bool

    def points(self, continuous: bool) -> Points:
        """Every instance of the grid."""
        from codesign.evaluators.economics.buildable import buildable_points
        from codesign.evaluators.economics.fitted_points import fitted_points
        from codesign.evaluators.economics.frontier import feasible_points
        from codesign.models.hardware.device import load_device

        decoding, workload = self.serving.decoding, self.workload
        rent, demand = self.serving.usd_per_hour, self.options.demand_tokens_per_s
        if not self.is_fitted:
            points = feasible_points if continuous else buildable_points
            return points(decoding, rent, self.tried, workload.context_tokens, demand)
        return fitted_points(
            workload.model,
            load_device(self.device, "--device"),
            self.formats,
            rent,
            self.tried,
            workload.context_tokens,
            decoding.tokens,
            demand,
        )

    def report(self, points: Points, alpha: float) -> EconomicsReport:
        """The report on the points, with the assumptions behind their numbers."""
        from codesign.answers.economics import EconomicsReport
        from codesign.models.hardware.device import load_device
        from codesign.models.machines.device.expected_error import energy_range
        from codesign.report import economics_words as words

        serving, options, model = self.serving, self.options, self.workload.model
        tokens, speculation = serving.decoding.tokens, serving.decoding.speculation
        draft = None if speculation is None else self.workload.draft
        conventions = {
            **words.question_words(model, serving, self.formats, tokens, self.users, self.limits),
            "rent": words.rent_words(serving, options),
            **(
                words.fitted_convention_words(options)
                if self.is_fitted
                else words.convention_words(serving, self.workload, draft is not None, options)
            ),
        }
        key = None if points.joules_per_token is None else load_device(self.device).key
        if key is not None:
            conventions["energy"] = words.energy_words(key, options)
        return EconomicsReport(
            serving,
            points.frontier(),
            alpha,
            conventions,
            points=points,
            users=self.users,
            notes=[
                *words.price_notes(model, draft, points, self.tried),
                *(words.error_notes(self.device) if self.is_fitted else ()),
            ],
            energy_range=None if key is None else energy_range(key, 1.0),
        )


def _options(owner: OwnershipFlags, rules: RuleFlags, is_fitted: bool) -> EconomicsOptions:
    from codesign.base.schema import Document, to_record
    from codesign.evaluators.economics.economics_options import EconomicsOptions

    named = filled_keys(owner, rules) | ({"profile": "plain"} if is_fitted else {})
    more = read_pairs("--option", rules.option, as_yaml=True)
    twice = sorted((named.keys() - {"profile"}) & more.keys())
    if twice:
        flag = _FLAGS[twice[0]]
        raise InputError(f"{twice[0]!r} is given twice, the other time by {flag}", "--option")
    with naming(_FLAGS, flag_by_key("--option", more)):
        options = to_record(Document("option", {**named, **more}, {}), EconomicsOptions)
    for name in _ROOFLINE_OPTIONS:
        if is_fitted and getattr(options, name) is not None:
            problem = "expected --profile epoch or plain with it; every fitted kernel has its own"
            raise InputError(f"{problem} efficiency", f"--option {name}")
    return options


def _workload(
    model: str, request: PromptFlags, tokens: RequestTokens | None, drafting: DraftFlags
) -> EconomicsWorkload:
    from codesign.base.schema import Document, to_record
    from codesign.evaluators.economics.economics_options import EconomicsWorkload

    context = tokens.prompt_tokens + tokens.generated_tokens if tokens else request.context_tokens
    inputs = {"model": model, "context_tokens": context or 0.0, **filled_keys(drafting)}
    with naming(_FLAGS):
        return to_record(Document("workload", inputs, {}), EconomicsWorkload)


def _offer(offered: OfferFlags, options: EconomicsOptions) -> tuple[Offer, Mapping[str, Any]]:
    """The rented device, and the settings of the design that describes it."""
    from codesign.evaluators.economics.serving_offer import design_offer, device_offer

    if offered.design is None:
        if offered.space is not None:
            raise InputError("expected --design with --space")
        return device_offer(offered.device or DEVICE, options), {}
    if offered.device is not None:
        raise InputError("expected --device or --design, got both")
    from codesign import api
    from codesign.models.hardware.accelerator import REQUIRED_PARAMETERS, build_accelerators

    design_space = api.load_space(offered.space or SPACE)
    row = api.find_design(design_space, offered.design)
    columns = design_space.columns(row)
    missing = sorted(REQUIRED_PARAMETERS - columns.keys())
    if missing:
        problem = f"its designs are no accelerators: parameter {missing[0]!r} is missing"
        raise InputError(problem, f"space {design_space.name}")
    accelerators = build_accelerators(columns, api.load_library())
    settings = {name: column.to_list()[0] for name, column in columns.items()}
    watts = _tdp_watts(accelerators, settings)
    return design_offer(offered.design, accelerators, options, watts), settings


def _tdp_watts(accelerators: AcceleratorBatch, settings: Mapping[str, Any]) -> float:
    """TDP of a design in its own formats (16 bits by default), stated or from its parts."""
    import numpy as np

    from codesign.models.accounts.account_constants import constants_at
    from codesign.models.hardware.power import thermal_design_watts
    from codesign.models.workload.precision import DEFAULT_FORMAT, multiply_bits

    activation, weight, kv = (
        np.array([float(multiply_bits(settings.get(f"{name}_format") or DEFAULT_FORMAT))])
        for name in ("activation", "weight", "kv")
    )
    energies = constants_at("n7").operation_energies
    watts = thermal_design_watts(accelerators, activation, np.maximum(weight, kv), energies)
    return float(sum(watts[0] for watts in watts.values()))


def _formats(flags: OperandFlags, settings: Mapping[str, Any]) -> Formats:
    """The requested formats; else the design's own; else 16 bits."""
    from codesign.evaluators.economics.serving_offer import Formats
    from codesign.models.workload.precision import DEFAULT_FORMAT, find_format

    shared = flags.format_
    stated = {
        "weight_format": flags.weight_format or shared,
        "activation_format": flags.activation_format or shared,
        "kv_format": flags.kv_format or (DEFAULT_FORMAT if shared else None),
    }
    for name, value in stated.items():
        with mistakes_at("--format" if value == shared else f"--{name.replace('_', '-')}"):
            find_format(value or DEFAULT_FORMAT)
    formats = {
        name.removesuffix("_format"): value or settings.get(name) or DEFAULT_FORMAT
        for name, value in stated.items()
    }
    if stated["kv_format"] is None and not settings.get("kv_format"):
        formats["kv"] = formats["activation"]
    return Formats(**formats)


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


def _draw(economics_report: Any, path: Path | None) -> tuple[Path, ...]:
    if path is None:
        return ()
    from codesign.report.economics_figures import save_frontier

    serving, conventions = economics_report.serving, economics_report.conventions
    title = f"{serving.decoding.target.shape.name} on {serving.machine.name}"
    words = f"{conventions['formats'].split(',')[0]}, {conventions['rent'].split(' (')[0]}"
    return (save_frontier(economics_report.frontier, words, path, title, economics_report.alpha),)
