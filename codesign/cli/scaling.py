"""One number of a platform varied: what each phase gains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from codesign.base.errors import InputError, check_known
from codesign.cli.flags import check_figure, count, naming, numbers
from codesign.cli.output import AsJson, report, say
from codesign.cli.platform_flags import (
    DEGREE_FLAGS,
    FLAGS,
    Batch,
    DegreeFlags,
    FormatFlags,
    Model,
    Options,
    RequestFlags,
    build,
    degrees_of,
    platform_inputs,
)


def scaling(
    *,
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
    split: DegreeFlags,
    batch: Batch = 1,
    request: RequestFlags,
    formats: FormatFlags,
    option: Options = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw both phases to this PNG or SVG file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Vary one number of a platform and see what both phases gain (GenZ section VI)."""
    from codesign.answers.serving import ScalingAnswer
    from codesign.evaluators.platform import scaling as platform_scaling
    from codesign.report import platform_tables

    check_figure("--plot", plot)
    check_known("axis", axis, platform_scaling.AXES)
    workload = request.workload(model)
    # GenZ varies numbers of an accelerator that nobody measured, so bounds are the default.
    options = ["profile=ideal"] if not any("profile=" in pair for pair in option or ()) else []
    options += [*(option or ()), *(("offload=true",) if axis == "offload" else ())]
    device_name = str(platform_scaling.REFERENCE_FILE) if device is None else device
    evaluator, name = build(workload, options, device_name)
    design = {"device": name, "batch_size": count("--batch", batch)}
    design = {**design, **degrees_of(split), **formats.formats()}
    varied = platform_scaling.AXES[axis]
    with naming(FLAGS):
        study = platform_scaling.scale(evaluator, design, varied, _read_factors(factors, varied))
    inputs = platform_inputs(evaluator, design) | {"axis": axis, "paper": varied.section}
    title = f"{model} on {name}: {varied.words}"
    files = []
    if plot is not None:
        from codesign.report.platform_figures import save_scaling

        files.append(str(save_scaling(study, title, plot)))
        say(f"wrote {files[0]}")
    report(
        as_json,
        lambda: ScalingAnswer(**inputs, rows=study.rows(), files=files),
        lambda: platform_tables.scaling_tables(title, _question(evaluator, design, varied), study),
    )
    _warn_of_limits(study)
    if axis.startswith("link-") and not study.has_messages:
        say("note: no messages are sent, so nothing changes; split the model, such as by --tp 8")


def _question(evaluator: Any, design: Mapping[str, Any], varied: Any) -> dict[str, str]:
    """Settings that are held while one number varies."""
    from codesign.report.question import context_words, format_words

    request = evaluator.workload
    degrees = {key: design[key] for key in DEGREE_FLAGS if design.get(key, 1) > 1}
    split = " x ".join(f"{key.removesuffix('_parallel')} {n}" for key, n in degrees.items())
    requests = {} if varied.parameter == "batch_size" else {"requests": f"{design['batch_size']:,}"}
    return {
        "context": context_words(request.prompt, request.generated, request.n_beams),
        **requests,
        "formats": format_words(design),
        "split": split or "one device",
        "profile": evaluator.profile,
    }


def _warn_of_limits(study: Any) -> None:
    for name, values in study.violations.items():
        n_broken = int((values > 0).sum())
        if n_broken:
            say(f"warning: {n_broken} of {len(values)} values break the limit {name!r}")


def _read_factors(text: str | None, axis: Any) -> list[float] | None:
    if text is None:
        return None
    values = numbers("--factors", text, above=0)
    for value in values:
        if axis.parameter == "batch_size" and value != round(value):
            raise InputError(f"expected whole batch sizes, got {value:g}", "--factors")
    return values
