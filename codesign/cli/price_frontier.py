"""Price of tokens against speed: instances of fitted kernels, or the rooflines of papers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.base.columns import Fields
from codesign.base.errors import InputError, UnknownNameError, mistakes_at
from codesign.cli.flags import count, flag_by_key, naming, number
from codesign.cli.output import report
from codesign.cli.serving_flags import (
    FLAGS,
    FormatFlags,
    RequestFlags,
    SplitFlags,
    build,
    named_devices,
    settings_by_record,
)

if TYPE_CHECKING:
    from codesign.evaluators.economics.decoding import RequestTokens
    from codesign.evaluators.economics.economics_options import (
        EconomicsOptions,
        EconomicsWorkload,
        FrontierSettings,
    )
    from codesign.evaluators.economics.frontier import Grid, Points
    from codesign.evaluators.economics.load import Fixed
    from codesign.evaluators.economics.serving_offer import DeviceServing, Formats, Offer
    from codesign.evaluators.economics.shape import ModelShape
    from codesign.models.hardware.accelerator import AcceleratorBatch

ROOFLINES = ("epoch", "plain")
"""Conventions whose passes are one roofline of sustained rates."""
_ROWS = 12
"""Points of the frontier that are printed."""


@dataclass(frozen=True)
class FrontierQuestion:
    """Flags of a frontier."""

    model: str
    on: list[str] | None
    design: str | None
    space: str | None
    request: RequestFlags
    formats: FormatFlags
    split: SplitFlags
    batch: str | None
    devices: int | None
    convention: str | None
    price_per_hour: float | None
    option: list[str] | None
    figure: Path | None
    users: int | None

    @property
    def device(self) -> str:
        """The device of ``--on``.

        Raises:
            InputError: No device is given, or several are.
        """
        if not self.on or len(self.on) > 1 or self.on == ["all"]:
            raise InputError("expected one device, such as h200", "--on")
        return self.on[0]


def answer_frontier(question: FrontierQuestion, as_json: bool) -> None:
    """Report the frontier of an offer, by rooflines if the convention or a design asks for them."""
    from codesign.answers.economics import PriceFrontier
    from codesign.answers.sizing import SizeAnswer
    from codesign.report.economics_tables import economics_tables

    if question.space is not None and question.design is None:
        raise InputError("expected --design with --space")
    if question.design is not None and question.convention not in ROOFLINES:
        raise InputError(
            "expected --convention epoch or plain, because designs have no fitted kernels",
            "--design",
        )
    study = _rooflines(question) if question.convention in ROOFLINES else _fitted(question)
    economics_report = study.report()
    files = _draw(economics_report, question.figure)
    economics_report = replace(economics_report, files=files)
    answer = SizeAnswer(
        model=question.model,
        convention=study.convention,
        workload=study.inputs["workload"],
        options=study.inputs["options"],
        design={f"{name}_format": value for name, value in vars(study.formats).items()},
        frontier=PriceFrontier.describe(economics_report),
        notes=[*economics_report.serving.machine.notes, *economics_report.notes],
        files=[str(path) for path in files],
    )
    report(as_json, lambda: answer, lambda: economics_tables(economics_report, _ROWS))


@dataclass(frozen=True)
class _Study:
    """A priced offer, its points, and the assumptions behind their numbers."""

    question: FrontierQuestion
    convention: str
    workload: EconomicsWorkload
    options: EconomicsOptions
    settings: FrontierSettings
    serving: DeviceServing
    formats: Formats
    points: Points
    limits: tuple[float | None, float | None]
    inputs: Fields

    def report(self) -> Any:
        """The report on the points within the limits."""
        from codesign.answers.economics import EconomicsReport
        from codesign.models.hardware.device import load_device
        from codesign.models.machines.device.expected_error import energy_range
        from codesign.report import economics_words as words

        serving, options, model = self.serving, self.options, self.workload.model
        tokens, speculation = serving.decoding.tokens, serving.decoding.speculation
        draft = None if speculation is None else self.workload.draft
        users, is_fitted = self.question.users, self.convention not in ROOFLINES
        points = self.points.within(*self.limits)
        conventions = {
            **words.question_words(model, serving, self.formats, tokens, users, self.limits),
            "rent": words.rent_words(serving, options),
            **(
                words.fitted_convention_words(options, self.convention)
                if is_fitted
                else words.convention_words(serving, self.workload, draft is not None, options)
            ),
        }
        key = None
        if points.joules_per_token is not None:
            key = load_device(self.question.device).key
            conventions["energy"] = words.energy_words(key, options)
        tried = _grid(self.settings, users)
        return EconomicsReport(
            serving,
            points.frontier(),
            self.settings.alpha,
            conventions,
            points=points,
            users=users,
            notes=[
                *words.price_notes(model, draft, points, tried),
                *(words.error_notes(self.question.device) if is_fitted else ()),
            ],
            energy_range=None if key is None else energy_range(key, 1.0),
        )


def _grid(settings: FrontierSettings, users: int | None) -> Grid:
    from codesign.evaluators.economics.frontier import Grid

    most = settings.most_requests if users is None else min(settings.most_requests, users)
    return Grid(settings.n_points, settings.most_devices, most)


def _fitted(question: FrontierQuestion) -> _Study:
    """The study of every split and batch, with fitted or ideal kernel times."""
    import numpy as np

    from codesign.evaluators.economics.economics_options import (
        EconomicsOptions,
        EconomicsWorkload,
        FrontierSettings,
    )
    from codesign.evaluators.economics.frontier import Points, price_per_million_tokens
    from codesign.evaluators.economics.serving_offer import Formats, serve
    from codesign.evaluators.platform import PlatformOptions, PlatformRequest
    from codesign.evaluators.platform.deployments import DeploymentSearch
    from codesign.evaluators.platform.instances import Demand
    from codesign.evaluators.platform.requirements import LatencyLimits

    prices = EconomicsOptions.model_fields.keys() - PlatformOptions.model_fields.keys()
    prices -= {"continuous", "demand_tokens_per_s", *_ROOFLINE_KEYS}
    keys, settings, bought, more = settings_by_record(
        question.option, PlatformRequest, PlatformOptions, sorted(prices), _FITTED_KEYS
    )
    if question.convention is not None:
        settings["profile"] = question.convention
    request = question.request
    workload = {**request.workload(question.model), **keys}
    evaluator = build(workload, settings, named_devices([question.device]))
    extra = _record(FrontierSettings, more)
    bought = {"profile": "plain", **_price(question), **bought}
    options = _record(EconomicsOptions, bought)
    tokens = _tokens(evaluator.workload.prompt, evaluator.workload.generated)
    stated = EconomicsWorkload(
        model=question.model, context_tokens=tokens.prompt_tokens + tokens.generated_tokens
    )
    formats_by_key = question.formats.formats(question.model)
    formats = Formats(*(formats_by_key[f"{k}_format"] for k in ("weight", "activation", "kv")))
    offer, _ = _offer(question, options)
    serving = serve(stated, options, offer, formats, False, None, None, tokens)
    demand = Demand(LatencyLimits(math.inf, math.inf))
    most = int(extra.most_devices)
    with naming(FLAGS):
        search = DeploymentSearch(
            evaluator, formats_by_key, demand, ["co-located"], most, {}, overlaps=False
        )
    table = search.instances.rows(search.instances.keeps)
    if not len(table):
        raise InputError(
            f"{question.model} does not fit {most} of {serving.machine.name} in any split that "
            "divides it; expected more devices or narrower formats"
        )
    split = np.column_stack([np.ones(len(table)), table.degrees[:, [1, 0, 2]]])
    joules = None if np.isnan(table.joules).any() else table.joules / tokens.generated_tokens
    price = price_per_million_tokens(
        table.pace_s, table.n_devices, table.batch, np.asarray(serving.usd_per_hour)
    )
    points = Points(
        table.n_devices, table.batch, table.pace_s, np.zeros(len(table), dtype=np.int64), price,
        table.first_s, split.astype(np.float64), joules,
    )  # fmt: skip
    inputs = {
        "workload": evaluator.workload.model_dump(mode="json", exclude_none=True),
        "options": evaluator.options.model_dump(mode="json", exclude_unset=True) | _price(question),
    }
    return _Study(
        question, evaluator.profile, stated, options, extra, serving, formats, points,
        request.limits(), inputs,
    )  # fmt: skip


_ROOFLINE_KEYS = (
    "profile", "compute_cap", "bandwidth_cap", "link_bandwidth", "network_bandwidth", "node_size",
)  # fmt: skip
"""Options of sustained rates, which fitted kernels do not have."""


_FITTED_KEYS = ("alpha", "most_devices")
"""Settings of a frontier that fitted kernels have."""


def _price(question: FrontierQuestion) -> dict[str, float]:
    price = question.price_per_hour
    return {} if price is None else {"price_usd_per_hour": price}


def _record(record: Any, values: Fields) -> Any:
    """A record of the pairs of ``--option`` and of flags."""
    from codesign.base.schema import Document, to_record

    flags = {**FLAGS, "price_usd_per_hour": "--price-per-hour"}
    with naming(flags, {**flag_by_key("--option", values), **flags}):
        return to_record(Document("option", dict(values), {}), record)


def _tokens(prompt: float, generated: float) -> RequestTokens:
    from codesign.evaluators.economics.decoding import RequestTokens

    if generated < 1:
        raise InputError(
            f"expected at least 1, because the price is per generated token, got {generated:g}",
            "--generated-tokens",
        )
    return RequestTokens(float(prompt), float(generated))


def _rooflines(question: FrontierQuestion) -> _Study:
    """Instances by the rooflines of Epoch's paper, or of the devices' files."""
    from codesign.evaluators.economics.buildable import buildable_points
    from codesign.evaluators.economics.economics_options import (
        EconomicsOptions,
        EconomicsWorkload,
        FrontierSettings,
    )
    from codesign.evaluators.economics.frontier import feasible_points
    from codesign.evaluators.economics.serving_offer import serve
    from codesign.evaluators.platform import PlatformRequest

    named, more, extra = settings_by_record(
        question.option, EconomicsWorkload, EconomicsOptions, FrontierSettings
    )
    options = _record(
        EconomicsOptions, {"profile": question.convention, **_price(question), **more}
    )
    settings = _record(FrontierSettings, extra)
    request = question.request
    tokens = None
    if any(
        value is not None
        for value in (request.use_case, request.prompt_tokens, request.generated_tokens)
    ):
        if "context_tokens" in named:
            raise InputError("expected the tokens of a request or context_tokens, got both",
                             "--option")  # fmt: skip
        stated = PlatformRequest(**request.workload(question.model))
        tokens = _tokens(stated.prompt, stated.generated)
        named["context_tokens"] = tokens.prompt_tokens + tokens.generated_tokens
    workload = _record(EconomicsWorkload, {"model": question.model, **named})
    limits = request.limits()
    if tokens is None:
        needs = "expected --prompt-tokens and --generated-tokens as well"
        if limits[0] is not None:
            raise InputError(needs, "--first-token")
        if question.users is not None and not workload.context_tokens:
            # Without a cache any number of requests fits, and 16 devices serve 10,000 users.
            raise InputError(f"{needs}, or --option context_tokens", "--users")
    if settings.draft_kv_heads is not None:
        with mistakes_at("--option draft_kv_heads"):
            options.shape(workload.draft, settings.draft_kv_heads)
    offer, design = _offer(question, options)
    formats = _formats(question, design)
    # No model is faster than itself.
    speculates = settings.speculate and workload.draft != question.model
    stated_batch = None if question.batch is None else float(_batch_of("--batch", question.batch))
    stated_devices = None if question.devices is None else float(question.devices)
    split, devices = _split_of(question.split, settings.layout, stated_devices, stated_batch)
    serving = serve(
        workload, options, offer, formats, speculates, split, settings.draft_kv_heads, tokens
    )
    shape = serving.decoding.target.shape
    _check_split(split, devices, stated_batch, shape, options.continuous)
    if devices is None or stated_batch is None:
        find = feasible_points if options.continuous else buildable_points
        points = find(
            serving.decoding, serving.usd_per_hour, _grid(settings, question.users),
            workload.context_tokens, options.demand_tokens_per_s,
        )  # fmt: skip
    else:
        points = _point(serving, devices, stated_batch, options.continuous)
    inputs = {
        "workload": workload.model_dump(mode="json", exclude_none=True),
        "options": options.model_dump(mode="json", exclude_unset=True),
    }
    return _Study(
        question, options.profile, workload, options, settings, serving, formats, points, limits,
        inputs,
    )  # fmt: skip


def _batch_of(name: str, text: str) -> float:
    try:
        return number(name, float(text), least=1)
    except ValueError:
        raise InputError(f"expected a number, got {text!r}", name) from None


def _offer(question: FrontierQuestion, options: EconomicsOptions) -> tuple[Offer, Fields]:
    """The rented device, and the settings of the design that describes it."""
    from codesign.evaluators.economics.serving_offer import design_offer, device_offer

    if question.design is None:
        if question.space is not None:
            raise InputError("expected --design with --space")
        return device_offer(question.device, options), {}
    if question.on is not None:
        raise InputError("expected --on or --design, got both")
    from codesign import api
    from codesign.models.hardware.accelerator import REQUIRED_PARAMETERS, build_accelerators

    design_space = api.load_space(question.space or "memexplorer")
    row = api.find_design(design_space, question.design)
    columns = design_space.columns(row)
    missing = sorted(REQUIRED_PARAMETERS - columns.keys())
    if missing:
        problem = f"its designs are no accelerators: parameter {missing[0]!r} is missing"
        raise InputError(problem, f"space {design_space.name}")
    accelerators = build_accelerators(columns, api.load_library())
    settings = {name: column.to_list()[0] for name, column in columns.items()}
    watts = _tdp_watts(accelerators, settings)
    return design_offer(question.design, accelerators, options, watts), settings


def _tdp_watts(accelerators: AcceleratorBatch, settings: Fields) -> float:
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


def _formats(question: FrontierQuestion, settings: Fields) -> Formats:
    """Number formats: the requested ones, else those of the design, else those of the model."""
    from codesign.evaluators.economics.serving_offer import Formats

    formats, flags = question.formats.formats(question.model), question.formats
    for name in formats:
        if flags.format_ is None and getattr(flags, name) is None and settings.get(name):
            formats[name] = settings[name]
    return Formats(*(formats[f"{name}_format"] for name in ("weight", "activation", "kv")))


def _point(serving: DeviceServing, devices: float, batch: float, continuous: bool) -> Points:
    """The instance with the requested devices and batch."""
    from codesign.evaluators.economics.buildable import buildable_point
    from codesign.evaluators.economics.serving_offer import check_fits, single_point

    if continuous:
        return single_point(serving, devices, batch)
    check_fits(serving, devices, batch)
    return buildable_point(
        serving.decoding, serving.usd_per_hour, int(devices), int(batch), serving.context_tokens
    )


def _split_of(
    split: SplitFlags, layout: str | None, stated: float | None, batch: float | None
) -> tuple[Fixed, float | None]:
    """The requested degrees of the split, and the number of devices."""
    from codesign.evaluators.economics.load import LAYOUTS, Fixed

    tp, pp, ep, devices = split.tp, split.pp, split.ep, stated
    for name, value in {"--tp": tp, "--pp": pp, "--ep": ep}.items():
        if value is not None:
            count(name, value)
    if layout is not None and layout not in LAYOUTS:
        raise UnknownNameError("layout", layout, LAYOUTS, "--option layout")
    if tp is not None:
        product = float(tp * (pp or 1))
        if devices is not None and devices != product:
            raise InputError(
                f"expected --devices to be tp x pp = {product:g}, got {devices:g}", "--tp"
            )
        devices, pp = product, pp or 1
    if (pp, ep) != (None, None) and devices is None:
        raise InputError("a given split needs --devices and --batch")
    if (devices is None) != (batch is None):
        raise InputError(
            "expected --devices and --batch together, or neither"
            " (--tp and --pp fix the devices, so they need --batch)"
        )
    dimensions = None if layout is None else LAYOUTS.index(layout) + 1.0
    return Fixed(
        dimensions, None if pp is None else float(pp), None if ep is None else float(ep)
    ), (devices)


def _check_split(
    split: Fixed,
    devices: float | None,
    batch: float | None,
    shape: ModelShape,
    continuous: bool,
) -> None:
    """Refuse a split that does not divide devices, layers or experts."""
    if devices is None or batch is None:
        return
    for name, value in {"--devices": devices, "--batch": batch}.items():
        if not continuous and value != round(value):
            raise InputError(
                f"expected a whole number, or --option continuous=true, got {value:g}", name
            )
    stages = float(split.pipeline) if split.pipeline is not None else 1.0
    most = min(shape.n_layers, batch)
    if stages > most:
        raise InputError(
            f"expected at most {most:g} stages, the lesser of layers and requests, got {stages:g}",
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


def _check_divides(name: str, devices: float, divisor: float, noun: str) -> None:
    if devices % divisor == 0:
        return
    near = [n for n in range(1, int(devices) + 1) if devices % n == 0] or [1]
    nearest = min(near, key=lambda n: abs(n - divisor))
    raise InputError(
        f"expected a divisor of the {devices:g} {noun}, got {divisor:g}; the nearest is {nearest}",
        name,
    )


def _draw(economics_report: Any, path: Path | None) -> tuple[Path, ...]:
    if path is None:
        return ()
    from codesign.report.economics_figures import save_frontier

    serving, conventions = economics_report.serving, economics_report.conventions
    title = f"{serving.decoding.target.shape.name} on {serving.machine.name}"
    words = f"{conventions['formats'].split(',')[0]}, {conventions['rent'].split(' (')[0]}"
    return (save_frontier(economics_report, words, path, title),)
