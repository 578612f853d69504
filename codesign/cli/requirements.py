"""What a use case asks of any platform, and the fewest of each device that give it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.flags import prefix_problems
from codesign.cli.output import AsJson, make_console, report
from codesign.cli.platform_options import (
    Batch,
    Beams,
    Format,
    Generated,
    KvFormat,
    Model,
    Options,
    Prompt,
    UseCase,
    WeightFormat,
    build,
    count,
    formats_of,
    limits_of,
    platform_inputs,
    workload_of,
)
from codesign.errors import InputError

if TYPE_CHECKING:
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.requirements import LatencyLimits


def requirements(
    model: Model,
    use_case: UseCase = None,
    prompt_tokens: Prompt = None,
    generated_tokens: Generated = None,
    beams: Beams = None,
    first_token: Annotated[
        str | None, typer.Option(help="Limit on the time to first token, such as '0.4 s'.")
    ] = None,
    output_token: Annotated[
        str | None, typer.Option(help="Limit on the time per output token, such as '10 ms'.")
    ] = None,
    batch: Batch = 1,
    format_: Format = "fp8",
    weight_format: WeightFormat = None,
    kv_format: KvFormat = None,
    most_devices: Annotated[
        int, typer.Option(help="Where the search for the fewest devices ends.")
    ] = 512,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Size the PFLOP/s, TB/s and GB that a use case asks, and the fewest of each device."""
    from codesign.evaluators.platform import requirements as sizing
    from codesign.report import platforms

    workload = workload_of(model, use_case, prompt_tokens, generated_tokens, beams)
    evaluator, _ = build(workload, option, None)
    limits = _read_limits(evaluator, first_token, output_token)
    others: dict[str, Any] = {"batch_size": count("--batch", batch)}
    others |= formats_of(format_, weight_format, kv_format)
    needed = sizing.size_requirements(evaluator, limits, others)
    most = count("--most-devices", most_devices)
    rows = sizing.rows_of(list(sizing.fewest_devices(evaluator, limits, others, needed, most)))
    inputs = platform_inputs(evaluator, others)
    report(
        as_json,
        lambda: platforms.requirements_document(inputs, limits, needed, rows),
        lambda: platforms.requirements_tables(inputs, limits, needed, rows, make_console().width),
    )


def _read_limits(
    evaluator: PlatformEvaluator, first_token: str | None, output_token: str | None
) -> LatencyLimits:
    from codesign.evaluators.platform.requirements import LatencyLimits

    stated = limits_of(evaluator)
    first = None if stated is None else stated.time_to_first_token_s
    step = None if stated is None else stated.time_per_output_token_s
    first = _seconds("--first-token", first_token, first)
    step = _seconds("--output-token", output_token, step)
    return LatencyLimits(first, step)


def _seconds(name: str, text: str | None, stated: float | None) -> float:
    from codesign.units import parse_quantity

    if text is None and stated is None:
        raise InputError("expected a time, or --use-case, which has one", name)
    if text is None:
        assert stated is not None
        return stated
    with prefix_problems(name):
        value = parse_quantity(text, "s")
    if value <= 0:
        raise InputError(f"expected a time above 0, got {text!r}", name)
    return value


COMMANDS: list[Callable[..., Any]] = [requirements]
