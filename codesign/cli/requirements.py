"""What a use case asks of any platform, and the fewest of each device that give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.flags import naming
from codesign.cli.output import AsJson, report
from codesign.cli.platform_options import (
    FLAGS,
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
    seconds,
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
    batch: Annotated[
        int | None, typer.Option(help="Requests that arrive together; all prefilled in time. [1]")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            help="Users served at once, whose requests arrive one by one, instead.", min=1
        ),
    ] = None,
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
    if users is not None and batch is not None:
        raise InputError("expected --batch or --users, got both")
    formats = formats_of(format_, weight_format, kv_format)
    most = count("--most-devices", most_devices)
    others = {"batch_size": users or count("--batch", 1 if batch is None else batch), **formats}
    if users is None:
        needed = sizing.size_requirements(evaluator, limits, others)
        device_rows = sizing.fewest_devices(evaluator, limits, others, needed, most)
    else:
        with naming(FLAGS):
            needed = sizing.size_steady_state(evaluator, limits, users, formats)
        device_rows = sizing.fewest_for_users(evaluator, limits, users, formats, needed, most)
    rows = sizing.rows_of(list(device_rows))
    inputs = platform_inputs(evaluator, others) | {"users": users}
    question = _question(evaluator, others, limits, users)
    report(
        "requirements",
        as_json,
        lambda: platforms.requirements_document(inputs, limits, needed, rows),
        lambda: platforms.requirements_tables(question, needed, rows, users is not None),
    )


def _question(
    evaluator: PlatformEvaluator,
    others: Mapping[str, Any],
    limits: LatencyLimits,
    users: int | None,
) -> dict[str, str]:
    """What was asked, in the words of ``codesign economics``."""
    from codesign.report.question import context_words, format_words, limit_words, user_words

    request, options = evaluator.workload, evaluator.options
    batch = others["batch_size"]
    together = "1 at a time" if batch == 1 else f"{batch:,} that arrive together"
    shares = {"arithmetic": options.compute_efficiency, "memory": options.memory_efficiency}
    shares["links"] = options.link_efficiency
    sustained = ", ".join(f"{share:.0%} of {name}" for name, share in shares.items() if share)
    return {
        "model": request.model,
        "context": context_words(request.prompt, request.generated, request.n_beams),
        **({"requests": together} if users is None else {"users": user_words(users)}),
        "limits": limit_words(limits.time_to_first_token_s, limits.time_per_output_token_s),
        "formats": format_words(others),
        **({"sustained": sustained} if sustained else {}),
        "profile": options.profile,
    }


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
    if text is None and stated is None:
        raise InputError("expected a time, or --use-case, which has one", name)
    if text is None:
        assert stated is not None
        return stated
    return seconds(name, text)


COMMANDS: list[Callable[..., Any]] = [requirements]
