"""Price of tokens against speed: instances of fitted kernels, or Epoch's paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from codesign.base.errors import InputError
from codesign.base.units import format_engineering
from codesign.cli.flags import flag_by_key, naming
from codesign.cli.output import report
from codesign.cli.serving_flags import (
    FLAGS,
    build,
    named_devices,
    settings_by_record,
    single_device,
)
from codesign.cli.size_flags import SizeQuestion

if TYPE_CHECKING:
    from codesign.answers.economics import PricedDevice
    from codesign.answers.sizing import SizeAnswer
    from codesign.base.columns import Fields, FloatPair, StringDict, StringMap
    from codesign.evaluators.economics.decoding import Decoding
    from codesign.evaluators.economics.economics_options import (
        DevicePrice,
        EconomicsOptions,
        EconomicsWorkload,
    )
    from codesign.evaluators.economics.frontier import Points
    from codesign.evaluators.economics.load import Split

_ROWS = 12
"""Points of the frontier that are printed."""


def answer_frontier(question: SizeQuestion) -> None:
    """Report the frontier of an offer."""
    from codesign.report.economics_tables import economics_tables

    answer = _papers(question) if question.convention == "epoch" else _fitted(question)
    frontier = answer.frontier
    assert frontier is not None
    title = f"{question.model} on {frontier.device.name}"
    lines = [f"Note: {note}" for note in answer.notes]
    if question.study.figure is not None:
        from codesign.report.economics_figures import save_frontier

        formats, rent = (frontier.conventions[name] for name in ("formats", "rent"))
        words = f"{formats.split(',')[0]}, {rent.split(' (')[0]}"
        path = str(save_frontier(frontier, words, question.study.figure, title))
        answer = answer.model_copy(update={"files": [path]})
        lines.append(f"wrote {path}")
    report(lambda: answer, lambda: economics_tables(title, frontier, _ROWS, lines))


def _answer(
    question: SizeQuestion,
    formats: StringMap,
    counted: StringMap,
    pricing: DevicePrice,
    device: PricedDevice,
    conventions: StringMap,
    frontier: Fields,
    **fields: Any,
) -> SizeAnswer:
    """The answer of a study.

    Args:
        formats: Number formats by parameter.
        counted: Context of the requests, and whose prefill counts, in words.
        conventions: Basis of the numbers, in words.
        frontier: Arguments of :meth:`codesign.answers.economics.PriceFrontier.describe`.
        fields: Workload, options and notes.
    """
    from codesign.answers.economics import PriceFrontier
    from codesign.answers.sizing import SizeAnswer
    from codesign.report.question import format_words

    rent = f"{device.usd_per_hour:.4g} USD/h per device"
    if pricing.capital_cost_usd is not None:
        rent += f", bought for {pricing.capital_cost_usd:,.0f} USD"
    elif device.rents is not None:
        listed = device.rents
        rent += f" ({listed.words})"
        if listed.low < listed.high:
            low, high = listed.spread
            rent += f"; over that range prices are {low:.2g} to {high:.2g} times these"
    words = {"formats": format_words(formats), **counted, "rent": rent, **conventions}
    return SizeAnswer(
        model=question.model,
        convention=conventions["convention"],
        design=formats,
        frontier=PriceFrontier.describe(**frontier, device=device, conventions=words),
        **fields,
    )


def _fitted(question: SizeQuestion) -> SizeAnswer:
    """The answer from every split and batch, with fitted or ideal kernel times."""
    import numpy as np

    from codesign.answers.economics import PricedDevice
    from codesign.evaluators.economics.economics_options import DevicePrice, FrontierSettings
    from codesign.evaluators.economics.frontier import Points, price_per_million_tokens
    from codesign.evaluators.platform.deployments import DeploymentSearch
    from codesign.evaluators.platform.instances import Demand
    from codesign.models.accounts.rents import list_rents
    from codesign.models.deployments.queueing.service_levels import LatencyLimits
    from codesign.models.machines.device.expected_error import (
        describe_expected_error,
        energy_range,
    )
    from codesign.report.question import context_words, limit_words

    owned = sorted(DevicePrice.model_fields.keys() - {"price_usd_per_hour"})
    workload, settings, bought, more = question.settings(owned, ("alpha", "most_devices"))
    evaluator = build(workload, settings, named_devices([single_device(question.on)]))
    (device,) = evaluator.devices.values()
    search = _record(FrontierSettings, more)
    stated = {"price_usd_per_hour": evaluator.options.device_usd_per_hour}
    pricing = _record(DevicePrice, {**stated, **bought})
    rents = list_rents().get(device.key)
    usd_per_hour = pricing.usd_per_hour(device.name, rents, device.power)
    formats, limits = question.formats.formats(question.model), question.request.limits()
    request, most = evaluator.workload, int(search.most_devices)
    demand = Demand(LatencyLimits(*(math.inf if limit is None else limit for limit in limits)))
    with naming(FLAGS):
        table = DeploymentSearch(
            evaluator, formats, demand, ["co-located"], most, overlaps=False
        ).feasible_instances()
    pace_s, joules = table.pace_s, table.joules
    points = Points(
        n_devices=table.n_devices,
        batch=table.batch,
        token_time_s=pace_s,
        draft_length=np.zeros(len(table), np.int64),
        usd_per_million_tokens=price_per_million_tokens(
            pace_s, table.n_devices, table.batch, np.asarray(usd_per_hour)
        ),
        first_token_s=table.first_s,
        degrees=table.degrees,
        joules_per_token=None if np.isnan(joules).any() else joules / request.generated,
    )
    prompt, generated, profile = request.prompt, request.generated, evaluator.options.profile
    counted = {
        "context": context_words(prompt, generated),
        **({} if limits == (None, None) else {"limits": limit_words(*limits)}),
        "counted": "speed of generated tokens, price of served ones, with the prefill of their "
        "prompts",
    }
    law = "laws of kernels and collectives that are fitted to measurements"
    conventions = {
        "times": law if profile == "fitted" else "rooflines of the datasheet",
        "speculation": "none",
        "convention": profile,
    }
    if points.joules_per_token is not None:
        conventions["energy"] = _energy_words(energy_range(device.key, 1.0), pricing)
    return _answer(
        question, formats, counted, pricing,
        PricedDevice(
            name=device.name, capacity_bytes=device.capacity, usd_per_hour=usd_per_hour,
            rents=pricing.listed(rents),
        ),
        conventions,
        {
            "points": points, "split_of": _split_of_degrees, "alpha": search.alpha,
            "output_share": generated / (prompt + generated),
            "energy_range": energy_range(device.key, 1.0),
        },
        workload=request.model_dump(mode="json", exclude_none=True),
        options=evaluator.options.model_dump(mode="json", exclude_unset=True),
        notes=describe_expected_error(device, evaluator.options.engine),
    )  # fmt: skip


def _split_of_degrees(front: Points, i: int) -> Split:
    from codesign.evaluators.economics.load import Split

    assert front.degrees is not None
    tensor, pipeline, experts, _ = map(float, front.degrees[i])
    return Split("1d", tensor * experts, pipeline, tensor, experts)


def _energy_words(ends: FloatPair, pricing: DevicePrice) -> str:
    """Contents of the energy of a token, its error, and its cost where it is bought."""
    words = "of the devices for a generated token, without hosts"
    words += f"; 90 % of measured kernels drew {ends[0]:.2g} to {ends[1]:.2g} times these"
    if pricing.capital_cost_usd is None:
        return words
    price = pricing.electricity_usd_per_kwh
    pue = pricing.pue
    return (
        f"{words}; 1 J/token is {price * pue / 3.6:.2g} USD/Mtoken of electricity ({price:g} "
        f"USD/kWh, PUE {pue:g}); prices count the stated power"
    )


def _record(record: Any, values: Fields) -> Any:
    """A record of the pairs of ``--option`` and of flags."""
    from codesign.base.schema import Document, parse_record

    flags = {**FLAGS, "price_usd_per_hour": "--price-per-hour"}
    with naming(flags, {**flag_by_key("--option", values), **flags}):
        return parse_record(Document("option", dict(values), {}), record)


def _papers(question: SizeQuestion) -> SizeAnswer:
    """The answer of Epoch's paper, whose devices, requests and degrees are real numbers."""
    from codesign.answers.economics import PricedDevice
    from codesign.evaluators.economics.economics_options import (
        EconomicsOptions,
        EconomicsWorkload,
        FrontierSettings,
    )
    from codesign.evaluators.economics.frontier import Grid, feasible_points, split_of
    from codesign.evaluators.economics.serving_offer import device_offer, serve
    from codesign.models.workload import load_model

    if question.power_limit is not None:
        raise InputError("expected no --power-limit with --convention epoch, got one")
    keys = sorted(EconomicsOptions.model_fields.keys() - {"profile", "continuous"})
    named, more, extra = settings_by_record(
        question.option, EconomicsWorkload, keys, FrontierSettings
    )
    workload = _record(EconomicsWorkload, {"model": question.model, **named})
    rent = question.price_per_hour
    options = _record(
        EconomicsOptions, more if rent is None else {"price_usd_per_hour": rent, **more}
    )
    settings = _record(FrontierSettings, extra)
    offer = device_offer(single_device(question.on), options)
    formats = question.formats.formats(question.model)
    speculates = settings.speculate and workload.draft != question.model  # none outruns itself
    with naming({}, flag_by_key("--option", ["draft_kv_heads"])):
        decoding = serve(workload, offer, formats, speculates, settings.draft_kv_heads)
    machine = decoding.target.machine
    context = workload.context_tokens
    usd_per_hour = options.usd_per_hour(machine.name, offer.rent, offer.power_watts)
    grid = Grid(settings.n_points, settings.most_devices, settings.most_requests)
    points = feasible_points(decoding, usd_per_hour, grid, context, options.demand_tokens_per_s)
    notes = list(machine.notes)
    cheapest = int(points.usd_per_million_tokens.argmin())
    if points.batch[cheapest] > 0.99 * grid.most_requests > 1:
        notes.append(
            f"the cheapest point has the largest batch that is tried, {grid.most_requests:,g}"
        )
    sizes = [load_model(name).vocab_size for name in (workload.draft, question.model)]
    if speculates and sizes[0] != sizes[1]:
        notes.append(
            f"{workload.draft} knows {sizes[0]:,} tokens and {question.model} {sizes[1]:,}: the "
            "draft only stands for one of its size (--option draft, speculate=false)"
        )
    read = "" if context else ": no KV cache is read (--option context_tokens)"
    return _answer(
        question, formats,
        {
            "context": f"{context:,.10g} tokens{read}",
            "counted": "speed and price of generated tokens, without any prefill",
        },
        options,
        PricedDevice(
            name=machine.name,
            sustained_flop_per_s=machine.flop_per_s,
            sustained_bytes_per_s=machine.bytes_per_s,
            capacity_bytes=machine.capacity_bytes,
            **vars(machine.fabric),
            usd_per_hour=usd_per_hour,
            rents=options.listed(offer.rent),
        ),
        _paper_words(decoding, workload, options),
        {
            "points": points, "alpha": settings.alpha,
            "split_of": lambda front, i: split_of(decoding, front, i, context),
        },
        workload=workload.model_dump(mode="json", exclude_none=True),
        options=options.model_dump(mode="json", exclude_unset=True),
        notes=notes,
    )  # fmt: skip


def _paper_words(
    decoding: Decoding, workload: EconomicsWorkload, options: EconomicsOptions
) -> StringDict:
    """Basis of the numbers, in words."""
    machine = decoding.target.machine
    rates = {"FLOP/s": machine.flop_per_s, "B/s": machine.bytes_per_s, "B": machine.capacity_bytes}
    flop, bandwidth, capacity = (
        format_engineering(float(rate), unit) for unit, rate in rates.items()
    )
    within, between = (
        f"{2 * rate / 1e9:,.4g} GB/s"
        for rate in (machine.fabric.intra_bytes_per_s, machine.fabric.inter_bytes_per_s)
    )
    size = machine.fabric.node_size
    demand = options.demand_tokens_per_s
    return {
        "sustained": f"{flop}, {bandwidth} of {capacity}",
        "network": f"{between} between devices"
        if size == 1
        else f"{within} within {size:g} devices, {between} between",
        "speculation": f"{workload.draft}, {workload.acceptance:.0%} accepted"
        if decoding.speculation is not None
        else "none",
        "convention": "epoch",
        **({} if demand is None else {"demand": f"{demand:g} token/s"}),
    }
