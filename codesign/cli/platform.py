"""Inference on one or several devices: one way to spread the work, or every way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.base.errors import InputError, Mistake, check_known
from codesign.cli.flag_records import set_flags
from codesign.cli.flags import count, naming
from codesign.cli.output import AsJson, make_console, report
from codesign.cli.platform_flags import (
    FLAGS,
    Device,
    FormatFlags,
    Model,
    Options,
    PassFlags,
    ReplicaFlags,
    build,
    degrees_of,
    limits_of,
    platform_inputs,
)

if TYPE_CHECKING:
    from codesign.base.evaluator import Explanation
    from codesign.evaluators.platform import PlatformEvaluator

_MOST_CHOICES = 20


def platform(
    *,
    model: Model,
    device: Device,
    split: ReplicaFlags,
    devices: Annotated[
        int | None,
        typer.Option(help="Try every way to spread the work over so many devices instead."),
    ] = None,
    best: Annotated[
        str | None,
        typer.Option(
            help="Metric by which --devices ranks. [throughput_tokens_per_s; time_to_first_token_s "
            "if nothing is generated]"
        ),
    ] = None,
    batch: Annotated[
        str,
        typer.Option(
            metavar="<int>|max",
            help="Requests served together, over all replicas; max: as many as memory holds.",
        ),
    ] = "1",
    request: PassFlags,
    formats: FormatFlags,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Time to first token, time per output token and memory on one or several devices."""
    evaluator, name = build(request.workload(model), option, device)
    design: dict[str, Any] = {"device": name, **formats.formats()}
    if devices is None:
        design |= degrees_of(split)
        design |= {"batch_size": _requests(evaluator, design, batch)}
        from codesign.answers.serving import PlatformAnswer
        from codesign.base.columns import design_columns
        from codesign.evaluators.platform.platform_limits import describe_limits
        from codesign.report import platform_tables

        columns = design_columns(design)
        with naming(FLAGS):
            broken = describe_limits(evaluator.serving(columns))
            if broken:
                raise InputError(broken)
        explanation = _meaningful_explanation(evaluator, evaluator.explain(columns))
        answer = PlatformAnswer.describe(
            platform_inputs(evaluator, design), explanation, limits_of(evaluator)
        )
        report(
            as_json,
            lambda: answer,
            lambda: platform_tables.platform_tables(answer, make_console().width),
        )
        return
    if degree_flags := set_flags(split):
        raise InputError(f"expected --devices or degrees, got both ({', '.join(degree_flags)})")
    design |= {"batch_size": _requests(None, design, batch)}
    _report_choices(evaluator, design, count("--devices", devices), best, as_json)


def _requests(evaluator: PlatformEvaluator | None, design: Mapping[str, Any], batch: str) -> int:
    """The requests that ``--batch`` states; ``max`` only where there is one way to serve them."""
    if batch == "max" and evaluator is not None:
        with naming(FLAGS):
            return max(evaluator.most_requests(design), 1)
    if not batch.lstrip("+-").isdigit():
        expected = "with --devices" if evaluator is None else "or max"
        raise InputError(f"expected a whole number {expected}, got {batch!r}", "--batch")
    return count("--batch", int(batch))


_RATES = (
    "throughput_tokens_per_s",
    "tokens_per_s_per_user",
    "tokens_per_s_per_device",
    "energy_joules_per_token",
    "tokens_per_joule",
    "average_power_watts",
    "output_tokens_per_s",
    "usd_per_million_output_tokens",
)
"""Metrics that count generated tokens, or what they take."""
_STEPS = (
    "time_per_output_token_s",
    "decode_linear_s",
    "decode_attention_s",
    "decode_collective_s",
)
"""Metrics of a decode step; the public tool of GenZ has one where nothing is generated, too."""


def _meaningless(evaluator: PlatformEvaluator) -> tuple[str, ...]:
    """Metrics that mean nothing for a request."""
    if evaluator.workload.generated:
        return ()
    return _RATES if evaluator.profile == "genz" else (*_RATES, *_STEPS)


def _meaningful_explanation(evaluator: PlatformEvaluator, explanation: Explanation) -> Explanation:
    """The explanation without rates of generated tokens if nothing is generated."""
    if evaluator.workload.generated:
        return explanation
    hidden = _meaningless(evaluator)
    metrics = {name: value for name, value in explanation.metrics.items() if name not in hidden}
    ranges = {name: value for name, value in explanation.ranges.items() if name not in hidden}
    note = (
        "Nothing is generated: there is no rate of generated tokens, and no time of one"
        if set(_STEPS) <= set(hidden)
        else "Nothing is generated: the time per output token is that of a first decode step"
    )
    return replace(explanation, metrics=metrics, ranges=ranges, notes=[*explanation.notes, note])


def _report_choices(
    evaluator: PlatformEvaluator,
    design: Mapping[str, Any],
    n_devices: int,
    best: str | None,
    as_json: bool,
) -> None:
    from codesign.answers.serving import PlatformChoicesAnswer
    from codesign.base.metrics import PLATFORM_METRICS
    from codesign.evaluators.platform.parallelism_choices import (
        evaluate_choices,
        factorizations,
        ranked,
    )
    from codesign.report import platform_tables

    generates = bool(evaluator.workload.generated)
    best = best or ("throughput_tokens_per_s" if generates else "time_to_first_token_s")
    check_known("metric", best, PLATFORM_METRICS, "--best")
    degrees = factorizations(n_devices)
    choices = evaluate_choices(evaluator, degrees, design)
    rows = ranked(choices, PLATFORM_METRICS[best])
    hidden = _meaningless(evaluator)
    if hidden:
        rows = [{key: row[key] for key in row if key not in hidden} for row in rows]
    inputs = platform_inputs(evaluator, design) | {"devices": n_devices, "ranked_by": best}
    if not rows:
        with naming(FLAGS):
            raise InputError(_why_none(evaluator, design, choices, n_devices))
    title = f"{len(rows)} of {len(degrees)} ways to use {n_devices} devices keep every limit"
    report(
        as_json,
        lambda: PlatformChoicesAnswer(**inputs, tried=len(degrees), choices=rows),
        lambda: platform_tables.choices_table(title, rows, _MOST_CHOICES, make_console().width),
    )


def _why_none(
    evaluator: PlatformEvaluator, design: Mapping[str, Any], choices: Any, n_devices: int
) -> list[str | Mistake]:
    """Broken limits of the best way: fewest limits broken, then least memory."""
    import numpy as np

    from codesign.base.columns import design_columns
    from codesign.evaluators.platform.platform_limits import describe_limits, limits
    from codesign.models.deployments.parallelism import SEARCHED_DEGREES

    broken = np.sum([values > 0 for values in limits(choices.serving).values()], axis=0)
    nearest = np.lexsort((choices.serving.memory_used_per_device_bytes, broken))[0]
    degrees = dict(zip(SEARCHED_DEGREES, choices.degrees[nearest].tolist(), strict=True))
    columns = design_columns({**design, **degrees})
    split = ", ".join(f"{FLAGS[name]} {value}" for name, value in degrees.items())
    words = describe_limits(evaluator.serving(columns))
    return [
        f"no way to use {n_devices} devices keeps every limit; nearest: {split}",
        *words,
    ]
