"""Gain of a machine for each phase over one machine for both."""

from __future__ import annotations

from typing import Annotated

import typer

from codesign.base.errors import InputError
from codesign.cli.campaigns import Folder, Workers
from codesign.cli.flags import number
from validation.commands.study_page import Output, check_output, report_study

_FOLDER = "specialization"
"""Folder of the exact fronts, among those of the campaigns."""


def specialization(
    traces: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORKLOAD]...", help="Workloads by name; all if none."),
    ] = None,
    model: Annotated[str, typer.Option(help="Language model.")] = "llama-3.3-70b",
    limit: Annotated[float, typer.Option(help="TDP of a system, W.")] = 2800.0,
    machines: Annotated[
        int | None, typer.Option(min=1, help="Most machines of a role; 8 if not given.")
    ] = None,
    formats: Annotated[
        str, typer.Option(help="8-bit: mxint8 for all; all: every format of the space.")
    ] = "8-bit",
    output: Output = None,
    workers: Workers = None,
    folder: Folder = None,
) -> None:
    """Compare a design for each phase with one machine in both roles, by workload.

    Finds the exact fronts of systems of prefill and decode machines, and of machines that are all
    alike: the best ratio of machines, what specialising buys in throughput and watts. The fronts
    are kept, so that a second look takes no time.
    """
    from codesign.base.processes import n_cores
    from codesign.cli.progress import FrontsBar
    from codesign.models.workload import list_traces, load_model, load_trace
    from codesign.search.campaign.status import results_folder
    from validation.specialization import answer_traces, specialization_page
    from validation.specialization.system_problems import EIGHT_BITS, SystemSetting

    check_output(output)
    if formats not in ("8-bit", "all"):
        raise InputError(f"expected '8-bit' or 'all', got {formats!r}", "--formats")
    number("--limit", limit, "a number of watts", above=0)
    load_model(model)
    names = list(dict.fromkeys(traces or list_traces()))
    for name in names:
        load_trace(name)
    fixed = EIGHT_BITS if formats == "8-bit" else ()
    settings = [SystemSetting(name, model, limit, machines, fixed) for name in names]
    place = results_folder(folder) / _FOLDER
    place.mkdir(parents=True, exist_ok=True)
    answers = answer_traces(settings, place, workers or n_cores(), FrontsBar())
    image = None
    if output is not None:
        image = f"{output.stem}/ratios.svg"
        specialization_page.save_figure(answers, output.parent / image)
    study = specialization_page.study_report(answers, image)
    words = ["specialization", *(traces or [])]
    words += [f"--model {model}"] if model != "llama-3.3-70b" else []
    words += [f"--limit {limit:g}"] if limit != 2800.0 else []
    words += [f"--machines {machines}"] if machines is not None else []
    words += [f"--formats {formats}"] if formats != "8-bit" else []
    report_study(study, words, output)
