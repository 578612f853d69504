"""Basis of prices in words: the question, the rent, the conventions, the notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codesign.base.units import format_engineering
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.expected_error import describe_expected_error, energy_range
from codesign.models.workload import load_model
from codesign.report.question import context_words, format_words, limit_words, user_words

if TYPE_CHECKING:
    from codesign.evaluators.economics.decoding import RequestTokens
    from codesign.evaluators.economics.economics_options import EconomicsOptions, EconomicsWorkload
    from codesign.evaluators.economics.frontier import Grid, Points
    from codesign.evaluators.economics.nccl import Fabric
    from codesign.evaluators.economics.serving_offer import DeviceServing, Formats


def question_words(
    model: str,
    serving: DeviceServing,
    formats: Formats,
    tokens: RequestTokens | None,
    users: int | None,
    limits: tuple[float | None, float | None],
) -> dict[str, str]:
    """The question, in the words of ``codesign size``."""
    counted = "speed of generated tokens, price of served ones, "
    if tokens is None:
        context = f"{serving.context_tokens:,.10g} tokens"
        context += (
            "" if serving.context_tokens else ": no KV cache is read (--option context_tokens)"
        )
        counted += "without any prefill (--prompt-tokens and --generated-tokens count it)"
    else:
        context = context_words(int(tokens.prompt_tokens), int(tokens.generated_tokens))
        counted += "with the prefill of their prompts"
    formats_by_key = {f"{name}_format": value for name, value in vars(formats).items()}
    question = {"formats": format_words(formats_by_key), "context": context}
    question |= {} if users is None else {"users": user_words(users)}
    question |= {} if limits == (None, None) else {"limits": limit_words(*limits)}
    return question | {"counted": counted}


def price_notes(model: str, draft: str | None, points: Points, tried: Grid) -> list[str]:
    """Cautions on numbers that a reader could overrate."""
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
                f"{draft} knows {sizes[draft]:,} tokens and {model} {sizes[model]:,}: the "
                "draft only stands for one of its size (--option draft, speculate=false)"
            )
    return notes


def rent_words(serving: DeviceServing, options: EconomicsOptions) -> str:
    """Cost of an hour of a device, and the range of rents that prices follow."""
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


def convention_words(
    serving: DeviceServing, workload: EconomicsWorkload, speculate: bool, options: EconomicsOptions
) -> dict[str, str]:
    """Basis of the numbers, in words."""
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
        "convention": options.profile,
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


def energy_words(key: str, options: EconomicsOptions) -> str:
    """Contents of the energy of a token, its error, and its cost where it is bought."""
    low, high = energy_range(key, 1.0)
    words = "of the devices for a generated token, without hosts"
    words += f"; 90 % of measured kernels drew {low:.2g} to {high:.2g} times these"
    if options.capital_cost_usd is None:
        return words
    price, pue = options.electricity_usd_per_kwh, options.pue
    return (
        f"{words}; 1 J/token is {price * pue / 3.6:.2g} USD/Mtoken of electricity ({price:g} "
        f"USD/kWh, PUE {pue:g}); prices count the stated power"
    )


def fitted_convention_words(options: EconomicsOptions, convention: str) -> dict[str, str]:
    """Basis of the numbers of instances whose kernels have times of their own, in words."""
    fitted = "laws of kernels and collectives that are fitted to measurements"
    times = {"fitted": fitted}.get(convention, "rooflines of the datasheet")
    return {"times": times, "speculation": "none", "convention": convention}


def error_notes(device: str) -> list[str]:
    """Known errors of the device's predictions."""
    described = load_device(device)
    return describe_expected_error(described.key, chip=described.measured_name)
