"""Flags of ``codesign economics``, and checks that they agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from codesign.base.errors import InputError, UnknownNameError
from codesign.cli.flag_records import flag, token_flag
from codesign.cli.flags import count, number
from codesign.cli.platform_flags import Format

if TYPE_CHECKING:
    from codesign.evaluators.economics.decoding import RequestTokens
    from codesign.evaluators.economics.frontier import Grid
    from codesign.evaluators.economics.load import Fixed
    from codesign.evaluators.economics.shape import ModelShape


DEVICE = "h100"
SPACE = "memexplorer"
_RECORDS = "codesign.evaluators.economics"


@dataclass(frozen=True)
class OfferFlags:
    """The rented or bought machine: a device, or a design."""

    device: str | None = flag(f"A device, or the path of its file. [{DEVICE}]")
    design: str | None = flag("Instead of a device: a design that --space names.")
    space: str | None = flag(f"Design space. [{SPACE}]")


@dataclass(frozen=True)
class OperandFlags:
    """Number formats."""

    format_: Format = None
    weight_format: str | None = flag("Number format of the weights alone, such as int4.")
    activation_format: str | None = flag("Number format of the activations alone.")
    kv_format: str | None = flag("Number format of the KV cache. [as the activations]")


@dataclass(frozen=True)
class PromptFlags:
    """The tokens of a request, and how many requests there are at once."""

    record: ClassVar[str] = f"{_RECORDS}.economics_options:EconomicsWorkload"
    context_tokens: float | None = flag()
    prompt_tokens: int | None = token_flag("Tokens of a prompt, whose prefill is counted.")
    generated_tokens: int | None = token_flag("Tokens generated after it; with --prompt-tokens.")
    users: int | None = flag(
        "Users served at once: how many devices all of them take.", key="", min=1
    )


@dataclass(frozen=True)
class DraftFlags:
    """The model that drafts."""

    record: ClassVar[str] = f"{_RECORDS}.economics_options:EconomicsWorkload"
    speculate: bool | None = flag(
        "Draft tokens ahead with a smaller model where it is faster. [not under fitted]", key=""
    )
    draft: str | None = flag()
    draft_kv_heads: int | None = flag(
        "Key and value heads of the model that drafts, instead of its own.", key=""
    )
    acceptance: float | None = flag()


@dataclass(frozen=True)
class OwnershipFlags:
    """Price of a device, and demand of all users."""

    record: ClassVar[str] = f"{_RECORDS}.economics_options:EconomicsOptions"
    price_per_hour: float | None = flag(key="price_usd_per_hour")
    capital_cost: float | None = flag(key="capital_cost_usd")
    power_watts: float | None = flag()
    lifetime_years: float | None = flag()
    demand: float | None = flag(key="demand_tokens_per_s")


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

    record: ClassVar[str] = f"{_RECORDS}.frontier:Grid"
    grid: int | None = flag(key="n_points")
    max_devices: float | None = flag(key="most_devices")
    max_batch: float | None = flag(key="most_requests")


@dataclass(frozen=True)
class RuleFlags:
    """Rules by which prices are counted."""

    continuous: bool = flag(
        "The paper's frontier over real numbers of devices, requests and stages.",
        False,
        "--continuous",
        key="",
    )
    profile: str | None = flag(
        "fitted (kernels as measured), epoch (the paper's figures) or plain (sustained rates of "
        "the files). [fitted; epoch with a flag that only they have, such as --tp]"
    )
    option: list[str] | None = flag(
        "Another option of the evaluator, such as busy_share=0.8 or node_size=8; may be repeated.",
        key="",
        metavar="KEY=VALUE",
    )


def check_numbers(alpha: float, instance: InstanceFlags, grid: Grid) -> None:
    number("--alpha", alpha, least=0)
    number("--grid", grid.n_points, "a number of points", least=2, most=2000)
    counts = {
        "--devices": instance.devices,
        "--batch": instance.batch,
        "--max-devices": grid.most_devices,
        "--max-batch": grid.most_requests,
    }
    for name, value in counts.items():
        if value is not None:
            number(name, value, least=1)


def request_tokens(request: PromptFlags) -> RequestTokens | None:
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


def split_of(instance: InstanceFlags) -> tuple[Fixed, float | None]:
    """The requested parts of the split, and their number of devices."""
    from codesign.evaluators.economics.load import LAYOUTS, Fixed

    tp, pp, ep, layout, devices = (
        instance.tp, instance.pp, instance.ep, instance.layout, instance.devices,
    )  # fmt: skip
    for name, value in {"--tp": tp, "--pp": pp, "--ep": ep}.items():
        if value is not None:
            count(name, value)
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
    if (devices is None) != (instance.batch is None):
        raise InputError(
            "expected --devices and --batch together, or neither"
            " (--tp and --pp fix the devices, so they need --batch)"
        )
    dimensions = None if layout is None else LAYOUTS.index(layout) + 1.0
    return Fixed(
        dimensions, None if pp is None else float(pp), None if ep is None else float(ep)
    ), (devices)


def check_split(
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


def _check_divides(name: str, devices: float, divisor: float, noun: str) -> None:
    if devices % divisor == 0:
        return
    near = [n for n in range(1, int(devices) + 1) if devices % n == 0] or [1]
    nearest = min(near, key=lambda n: abs(n - divisor))
    raise InputError(
        f"expected a divisor of the {devices:g} {noun}, got {divisor:g}; the nearest is {nearest}",
        name,
    )
