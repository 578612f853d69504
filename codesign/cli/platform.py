"""Inference on several devices: one platform, what a use case asks, how numbers scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.evaluation import read_pairs
from codesign.cli.output import AsJson, make_console, report, say
from codesign.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.requirements import Limits

_MOST_CHOICES = 20
_FORMATS = ("weight_format", "activation_format", "kv_format")

Model = Annotated[str, typer.Option(help="Language model, or the path of a config.json.")]
UseCase = Annotated[
    str | None,
    typer.Option(help="question-answering, chat, rag-qa, summarization or code-generation."),
]
Prompt = Annotated[int | None, typer.Option(help="Tokens of a prompt; instead of --use-case.")]
Generated = Annotated[
    int | None, typer.Option(help="Tokens generated after it; instead of --use-case.")
]
Beams = Annotated[int | None, typer.Option(help="Answers generated side by side.")]
Chunk = Annotated[int | None, typer.Option(help="Prompt tokens prefilled in one pass. [all]")]
Mixed = Annotated[
    bool, typer.Option("--mixed", help="Every chunk's pass carries a decode step of the batch.")
]
Batch = Annotated[int, typer.Option(help="Requests served together, over all replicas.")]
Format = Annotated[
    str,
    typer.Option("--format", help="Number format of weights, activations and KV cache."),
]
KvFormat = Annotated[str | None, typer.Option(help="Number format of the KV cache alone.")]
WeightFormat = Annotated[str | None, typer.Option(help="Number format of the weights alone.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="An option of the evaluator, such as profile=genz, offload=true or "
        "compute_efficiency=0.6; may be repeated.",
    ),
]
Tp = Annotated[int | None, typer.Option("--tp", help="Tensor parallelism. [1]")]
Pp = Annotated[int | None, typer.Option("--pp", help="Stages of the pipeline. [1]")]
Ep = Annotated[int | None, typer.Option("--ep", help="Expert parallelism. [1]")]
Dp = Annotated[int | None, typer.Option("--dp", help="Replicas. [1]")]
Sp = Annotated[int | None, typer.Option("--sp", help="Sequence parallelism. [1]")]


def platform(
    model: Model,
    device: Annotated[str, typer.Option(help="Accelerator, or the path of its file.")],
    tp: Tp = None,
    pp: Pp = None,
    ep: Ep = None,
    sp: Sp = None,
    dp: Dp = None,
    devices: Annotated[
        int | None,
        typer.Option(help="Try every way to spread the work over so many devices instead."),
    ] = None,
    best: Annotated[
        str, typer.Option(help="Metric by which --devices ranks.")
    ] = "throughput_tokens_per_s",
    batch: Batch = 1,
    use_case: UseCase = None,
    prompt_tokens: Prompt = None,
    generated_tokens: Generated = None,
    beams: Beams = None,
    chunk_tokens: Chunk = None,
    mixed: Mixed = False,
    format_: Format = "bf16",
    weight_format: WeightFormat = None,
    kv_format: KvFormat = None,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Time to first token, time per output token and memory on one or several devices."""
    asked = _workload(model, use_case, prompt_tokens, generated_tokens, beams)
    asked |= {} if chunk_tokens is None else {"chunk_tokens": chunk_tokens}
    evaluator, name = _build(asked | ({"mixed": True} if mixed else {}), option, device)
    design = {"device": name, "batch_size": _count("--batch", batch)}
    design |= _formats(format_, weight_format, kv_format)
    degrees = {"--tp": tp, "--pp": pp, "--ep": ep, "--sp": sp, "--dp": dp}
    if devices is None:
        _report_one(evaluator, design | _degrees(degrees), as_json)
        return
    given = [name for name, value in degrees.items() if value is not None]
    if given:
        raise InputError(f"expected --devices or degrees, got both ({', '.join(given)})")
    _report_choices(evaluator, design, _count("--devices", devices), best, as_json)


def _workload(
    model: str,
    use_case: str | None,
    prompt_tokens: int | None,
    generated_tokens: int | None,
    beams: int | None,
) -> dict[str, Any]:
    """What was said of the requests; what was not is left out."""
    said = {
        "model": model,
        "use_case": use_case,
        "prompt_tokens": prompt_tokens,
        "generated_tokens": generated_tokens,
        "beams": beams,
    }
    return {name: value for name, value in said.items() if value is not None}


def _count(name: str, value: int) -> int:
    if value < 1:
        raise InputError(f"expected a whole number from 1, got {value}", name)
    return value


def _formats(all_: str, weight: str | None, cache: str | None) -> dict[str, str]:
    from codesign.workload.precision import find_format

    chosen = (weight or all_, all_, cache or all_)
    for name, option in zip(chosen, ("--weight-format", "--format", "--kv-format"), strict=True):
        find_format(name, option if name != all_ else "--format")
    return dict(zip(_FORMATS, chosen, strict=True))


def _degrees(given: Mapping[str, int | None]) -> dict[str, int]:
    names = {
        "--tp": "tensor_parallel",
        "--pp": "pipeline_parallel",
        "--ep": "expert_parallel",
        "--sp": "sequence_parallel",
        "--dp": "data_parallel",
    }
    return {
        names[name]: 1 if value is None else _count(name, value) for name, value in given.items()
    }


def _build(
    workload: Mapping[str, Any], options: list[str] | None, device: str | None
) -> tuple[PlatformEvaluator, str]:
    """The evaluator, and the name under which it knows the device."""
    from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
    from codesign.hardware.device import load_device
    from codesign.schema import Document, to_record

    request = to_record(Document("workload", dict(workload), {}), PlatformRequest)
    pairs = read_pairs("--option", options, as_yaml=True)
    settings = to_record(Document("--option", pairs, {}), PlatformOptions)
    if device is None:
        return PlatformEvaluator(request, settings), ""
    found = load_device(device, "--device")
    if found.is_announced:
        say(f"note: the figures of {found.name} are announced ones")
    return PlatformEvaluator(request, settings, devices={found.key: found}), found.key


def _limits(evaluator: PlatformEvaluator) -> Limits | None:
    from codesign.evaluators.platform.requirements import Limits

    case = evaluator.workload.limits
    if case is None:
        return None
    return Limits(case.time_to_first_token_s, case.time_per_output_token_s)


def _asked(evaluator: PlatformEvaluator, design: Mapping[str, Any]) -> dict[str, Any]:
    workload = evaluator.workload.model_dump(mode="json", exclude_none=True)
    options = evaluator.options.model_dump(mode="json", exclude_unset=True)
    return {"workload": workload, "options": options, "design": dict(design)}


def _report_one(evaluator: PlatformEvaluator, design: Mapping[str, Any], as_json: bool) -> None:
    from codesign.columns import column_of
    from codesign.evaluators.platform.limits import describe_limits
    from codesign.report import platforms as shown

    columns = {name: column_of([value]) for name, value in design.items()}
    broken = describe_limits(evaluator.serving(columns))
    if broken:
        raise InputError(broken)
    explanation = evaluator.explain(columns)
    slo = shown.slo_rows(explanation, _limits(evaluator))
    asked = _asked(evaluator, design)
    report(
        as_json,
        lambda: shown.platform_document(asked, explanation, slo),
        lambda: shown.platform_tables(asked, explanation, slo, make_console().width),
    )


def _report_choices(
    evaluator: PlatformEvaluator,
    design: Mapping[str, Any],
    n_devices: int,
    best: str,
    as_json: bool,
) -> None:
    from codesign.evaluators.platform.parallelism import evaluate_choices, factorizations, ranked
    from codesign.metrics import PLATFORM_METRICS
    from codesign.report import platforms as shown

    if best not in PLATFORM_METRICS:
        raise UnknownNameError("metric", best, PLATFORM_METRICS, "--best")
    degrees = factorizations(n_devices)
    choices = evaluate_choices(evaluator, degrees, design)
    rows = ranked(choices, PLATFORM_METRICS[best])
    asked = _asked(evaluator, design) | {"devices": n_devices, "ranked_by": best}
    if not rows:
        raise InputError(_why_none(evaluator, design, choices, n_devices))
    title = f"{len(rows)} of {len(degrees)} ways to use {n_devices} devices keep every limit"
    report(
        as_json,
        lambda: {**asked, "tried": len(degrees), "choices": rows},
        lambda: shown.choices_table(title, rows, _MOST_CHOICES, make_console().width),
    )


def _why_none(
    evaluator: PlatformEvaluator, design: Mapping[str, Any], choices: Any, n_devices: int
) -> list[str]:
    """What the way with the fewest broken limits, and the least memory, breaks."""
    import numpy as np

    from codesign.columns import column_of
    from codesign.evaluators.platform.limits import describe_limits, limits
    from codesign.evaluators.platform.parallelism import DEGREES

    broken = np.sum([values > 0 for values in limits(choices.serving).values()], axis=0)
    nearest = np.lexsort((choices.serving.memory_used_per_device_bytes, broken))[0]
    degrees = dict(zip(DEGREES, choices.degrees[nearest].tolist(), strict=True))
    columns = {name: column_of([value]) for name, value in {**design, **degrees}.items()}
    split = ", ".join(f"{name} {value}" for name, value in degrees.items())
    words = describe_limits(evaluator.serving(columns))
    return [
        f"no way to use {n_devices} devices keeps every limit; nearest: {split}",
        *words,
    ]


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
    from codesign.report import platforms as shown

    asked = _workload(model, use_case, prompt_tokens, generated_tokens, beams)
    evaluator, _ = _build(asked, option, None)
    limits = _asked_limits(evaluator, first_token, output_token)
    others = {"batch_size": _count("--batch", batch)}
    # mypy infers a dictionary of numbers from the line above.
    others |= _formats(format_, weight_format, kv_format)  # type: ignore[arg-type]
    needed = sizing.size_requirements(evaluator, limits, others)
    most = _count("--most-devices", most_devices)
    rows = sizing.rows_of(list(sizing.fewest_devices(evaluator, limits, others, needed, most)))
    said = _asked(evaluator, others)
    report(
        as_json,
        lambda: shown.requirements_document(said, limits, needed, rows),
        lambda: shown.requirements_tables(said, limits, needed, rows, make_console().width),
    )


def _asked_limits(
    evaluator: PlatformEvaluator, first_token: str | None, output_token: str | None
) -> Limits:
    from codesign.evaluators.platform.requirements import Limits

    stated = _limits(evaluator)
    first = None if stated is None else stated.time_to_first_token_s
    step = None if stated is None else stated.time_per_output_token_s
    first = _seconds("--first-token", first_token, first)
    step = _seconds("--output-token", output_token, step)
    return Limits(first, step)


def _seconds(name: str, text: str | None, stated: float | None) -> float:
    from codesign.units import parse_quantity

    if text is None and stated is None:
        raise InputError("expected a time, or --use-case, which has one", name)
    if text is None:
        assert stated is not None
        return stated
    try:
        value = parse_quantity(text, "s")
    except InputError as error:
        raise InputError(str(error), name) from None
    if value <= 0:
        raise InputError(f"expected a time above 0, got {text!r}", name)
    return value


def scaling(
    axis: Annotated[
        str,
        typer.Argument(help="flops, bandwidth, link-bandwidth, link-latency or offload."),
    ],
    model: Model,
    device: Annotated[
        str | None,
        typer.Option(help="Accelerator, or the path of its file. [GenZ's, section VI]"),
    ] = None,
    factors: Annotated[
        str | None,
        typer.Option(help="Factors, or batch sizes for offload, such as 1,2,4. [the paper's]"),
    ] = None,
    tp: Tp = None,
    pp: Pp = None,
    ep: Ep = None,
    sp: Sp = None,
    batch: Batch = 1,
    use_case: UseCase = None,
    prompt_tokens: Prompt = None,
    generated_tokens: Generated = None,
    beams: Beams = None,
    format_: Format = "bf16",
    weight_format: WeightFormat = None,
    kv_format: KvFormat = None,
    option: Options = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw both phases to this PNG or SVG file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Vary one number of a platform and see what both phases gain (GenZ section VI)."""
    from codesign.evaluators.platform import scaling as study
    from codesign.report import platforms as shown

    if axis not in study.AXES:
        raise UnknownNameError("axis", axis, study.AXES)
    asked = _workload(model, use_case, prompt_tokens, generated_tokens, beams)
    options = [*(option or ()), *(("offload=true",) if axis == "offload" else ())]
    chosen = str(study.REFERENCE_FILE) if device is None else device
    evaluator, name = _build(asked, options, chosen)
    design = {"device": name, "batch_size": _count("--batch", batch)}
    design |= _degrees({"--tp": tp, "--pp": pp, "--ep": ep, "--sp": sp})
    design |= _formats(format_, weight_format, kv_format)
    varied = study.AXES[axis]
    found = study.scale(evaluator, design, varied, _read_factors(factors, varied))
    said = _asked(evaluator, design) | {"axis": axis, "paper": varied.section}
    title = f"{model} on {name}: {varied.words}"
    files = []
    if plot is not None:
        from codesign.report.platform_figures import save_scaling

        files.append(str(save_scaling(found, title, plot)))
        say(f"wrote {files[0]}")
    report(
        as_json,
        lambda: {**said, "rows": found.rows(), "files": files},
        lambda: shown.scaling_tables(title, found),
    )
    _warn_of_limits(found)
    if axis.startswith("link-") and not found.has_messages:
        say("note: no messages are sent, so nothing changes; split the model, such as by --tp 8")


def _warn_of_limits(found: Any) -> None:
    for name, values in found.violations.items():
        count = int((values > 0).sum())
        if count:
            say(f"warning: {count} of {len(values)} values break the limit {name!r}")


def _read_factors(text: str | None, axis: Any) -> list[float] | None:
    import math

    if text is None:
        return None
    values = []
    for part in text.split(","):
        try:
            value = float(part)
        except ValueError:
            raise InputError(f"expected numbers such as 1,2,4, got {part!r}", "--factors") from None
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"expected finite numbers above 0, got {part.strip()}", "--factors")
        if axis.parameter == "batch_size" and value != round(value):
            raise InputError(f"expected whole batch sizes, got {part.strip()}", "--factors")
        values.append(value)
    return values


COMMANDS: list[Callable[..., Any]] = [platform, requirements, scaling]
