"""A chart of what is busy when in one layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from codesign.cli.flags import token_count
from codesign.cli.output import report

if TYPE_CHECKING:
    from codesign.evaluators.simulation import SimulationEvaluator


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
    space: str = "memexplorer",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the simulation; may be repeated."),
    ] = None,
    output: Path = Path(),
) -> None:
    """Simulate one layer: a chart of what is busy when, and a trace for Perfetto.

    Args:
        space: Design space.
        output: Folder for the files.
    """
    from codesign import api
    from codesign.answers.campaigns import TimelineAnswer
    from codesign.base.evaluator import reading_of
    from codesign.cli.evaluation import REQUEST_FLAGS, read_pairs
    from codesign.cli.flags import flag_by_key, naming
    from codesign.report.block_timeline import (
        block_timeline,
        occupancy,
        occupancy_chart,
        save_trace,
    )  # fmt: skip
    from codesign.report.labels import evaluator_words
    from codesign.report.paper import save_plain
    from codesign.report.tables import pairs_table

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
    chart = save_plain(occupancy_chart(lines, busy), output / f"{stem}.png", title)
    trace = save_trace(lines, output / f"{stem}.json")
    shares = {name: float(values.mean()) for name, values in busy.busy.items()}
    answer = TimelineAnswer(
        evaluator=reading, time_s=lines.time_s, busy_share=shares, files=[str(chart), str(trace)]
    )
    summary = {
        "evaluator": evaluator_words(reading),
        "time of the layer": f"{lines.time_s:.4g} s",
        **{f"{name} busy": f"{share:.1%}" for name, share in shares.items()},
        "chart": str(chart),
        "trace (ui.perfetto.dev)": str(trace),
    }
    report(lambda: answer, lambda: [pairs_table(layer, summary)])
