"""Our numbers beside others': the studies of ``codesign validate``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from codesign.base.errors import InputError, mistakes_at
from codesign.cli.flags import token_count
from codesign.cli.heartbeat import describe_by
from codesign.cli.output import AsJson, report, say

if TYPE_CHECKING:
    from codesign.evaluators.simulation import SimulationEvaluator
    from validation.studies.study import Study


def validate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...",
            help="memexplorer, simulation, scalesim, array-bounds, kernels, energy, requests, "
            "arrivals, throughput, epoch, genz, life, systems, area, cost; all if none.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of whatever is sampled.", min=0)] = 0,
    size: Annotated[
        int | None, typer.Option(help="Number of cases, where a study samples them.", min=1)
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Your own measurements instead of the shipped ones, for kernels, requests, "
            "arrivals or throughput: a table with the columns of that study's, compared with the "
            "shipped constants."
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="Most comparisons to print.", min=0)] = 40,
    write: Annotated[
        Path | None,
        typer.Option(help="Folder for validation.md with its data and figures, such as docs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare our numbers with simulation, published tables, peers and measurements."""
    from validation.studies.studies import STUDIES, compare_table
    from validation.studies.validation_page import study_tables, write_page

    if table is None:
        studies = [_run(name, seed, size) for name in names or STUDIES]
    elif names is None or len(names) != 1:
        raise InputError("expected one study, kernels, requests, arrivals or throughput", "--table")
    else:
        with mistakes_at("--table"):
            studies = [compare_table(names[0], table)]
    if write is not None:
        sampled = f" --size {size}" if size else ""
        own = "" if table is None else f" --table {table}"
        words = " ".join(["codesign validate", *(names or []), f"--seed {seed}{sampled}{own}"])
        for path in write_page(studies, write, f"{words} --write {write}"):
            say(f"wrote {path}")
    report(
        "validate",
        as_json,
        lambda: {"studies": [asdict(study) for study in studies]},
        lambda: [table for study in studies for table in study_tables(study, rows)],
    )


def _run(name: str, seed: int, size: int | None) -> Study:
    from validation.studies.studies import run_study

    describe_by(lambda: f"study {name}")
    return run_study(name, seed, size)


def timeline(
    design: Annotated[str, typer.Option(help="A design that the space names.")],
    model: Annotated[str, typer.Option(help="Language model, or the path of a config.json.")],
    phase: Annotated[str, typer.Option(help="prefill or decode.")],
    prompt_tokens: Annotated[
        int, typer.Option(parser=token_count, metavar="N|32K", help="Tokens of a prompt.")
    ] = 4096,
    generated_tokens: Annotated[
        int, typer.Option(parser=token_count, metavar="N|32K", help="Tokens generated after it.")
    ] = 1,
    space: Annotated[str, typer.Option(help="Design space.")] = "memexplorer",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the simulation; may be repeated."),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the files.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Simulate one layer: a chart of what is busy when, and a trace for Perfetto."""
    from codesign import api
    from codesign.base.evaluator import reading_of
    from codesign.cli.evaluation import REQUEST_FLAGS, read_pairs
    from codesign.cli.flags import flag_by_key, naming
    from codesign.report.figures import save_occupancy
    from codesign.report.labels import evaluator_words
    from codesign.report.tables import pairs_table
    from validation.studies.timeline import block_timeline, occupancy, save_trace

    design_space = api.load_space(space)
    counts = {"prompt_tokens": prompt_tokens, "generated_tokens": generated_tokens}
    workload = {"model": model, "phase": phase, **counts}
    options = read_pairs("--option", option, as_yaml=True)
    with naming(REQUEST_FLAGS, flag_by_key("--option", options)):
        simulation = cast(
            "SimulationEvaluator", api.build_evaluator("simulation", workload, options)
        )
    lines = block_timeline(simulation, design_space.columns(api.find_design(design_space, design)))
    busy = occupancy(lines)
    stem = f"{design}-{model}-{phase}".replace("/", "-")
    reading = reading_of("simulation", simulation, options)
    layer = f"{design}, one layer of {model}, {phase}, {prompt_tokens:,} tokens of prompt"
    title = f"{layer}\n{evaluator_words(reading)}"
    chart = save_occupancy(output / f"{stem}.png", title, lines.operators, busy.edges_s, busy.busy)
    trace = save_trace(lines, output / f"{stem}.json")
    shares = {name: float(values.mean()) for name, values in busy.busy.items()}
    document = {"evaluator": reading, "time_s": lines.time_s, "busy_share": shares}
    document["files"] = [str(chart), str(trace)]
    summary = {"evaluator": evaluator_words(reading)}
    summary |= {"time of the layer": f"{lines.time_s:.4g} s"}
    summary |= {f"{name} busy": f"{share:.1%}" for name, share in shares.items()}
    summary |= {"chart": str(chart), "trace (ui.perfetto.dev)": str(trace)}
    report("timeline", as_json, lambda: document, lambda: [pairs_table(layer, summary)])
