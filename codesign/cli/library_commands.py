"""What there is to choose from: technologies, spaces, models, metrics, plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from codesign.base.errors import InputError
from codesign.base.resources import Kind, listed
from codesign.cli import completion
from codesign.cli.output import AsJson, report, say

if TYPE_CHECKING:
    from codesign.answers.library import BrokenPluginEntry, PluginEntry, SpacesAnswer

T = TypeVar("T")


def memtech(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A technology, or the path of its file.", autocompletion=completion.technologies
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the memory technologies, or show one with its sources."""
    from codesign.answers.library import TechnologiesAnswer, TechnologyAnswer
    from codesign.models.memtech import load_technology
    from codesign.report import library_tables

    if name is None:
        technologies = _usable("memtech", load_technology)
        report(
            as_json,
            lambda: TechnologiesAnswer(technologies=technologies),
            lambda: [library_tables.technologies_table(technologies)],
        )
        return
    technology = load_technology(name)
    report(
        as_json,
        lambda: TechnologyAnswer.model_construct(**dict(technology)),
        lambda: library_tables.technology_tables(technology),
    )


def _usable(kind: Kind, load: Callable[[str], T]) -> dict[str, T]:
    """What can be read of a kind, by name; of the rest is said on stderr what is wrong with it."""
    items = {}
    for name, path in listed(kind).items():
        try:
            items[name] = load(str(path))
        except InputError as error:
            for problem in error.problems:
                say(f"cannot be used: {problem}")
    return items


def spaces(as_json: AsJson = False) -> None:
    """List the design spaces."""
    from codesign.models.memtech import TechnologyLibrary, load_technology
    from codesign.report import library_tables
    from codesign.space import load_space

    technologies = TechnologyLibrary(_usable("memtech", load_technology))
    catalogs = {"memtech": technologies.catalog()}
    design_spaces = _usable("spaces", lambda path: load_space(path, catalogs))

    def answer() -> SpacesAnswer:
        from codesign.answers.library import SpaceAnswer, SpacesAnswer

        return SpacesAnswer(
            spaces={name: SpaceAnswer.describe(space) for name, space in design_spaces.items()}
        )

    report(as_json, answer, lambda: [library_tables.spaces_table(design_spaces)])


def space(
    name: Annotated[
        str,
        typer.Argument(
            help="A design space, or the path of its file.", autocompletion=completion.spaces
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show a design space: parameters, constraints, size, named designs."""
    from codesign import api
    from codesign.answers.library import SpaceAnswer
    from codesign.report import library_tables

    design_space = api.load_space(name)
    report(
        as_json,
        lambda: SpaceAnswer.describe(design_space),
        lambda: library_tables.space_tables(design_space),
    )


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A model, or the path of a Hugging Face config.json.",
            autocompletion=completion.models,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the language models, or show one with its parameters counted."""
    from codesign.answers.library import ModelAnswer, ModelsAnswer
    from codesign.models.workload import list_models, load_model, summary
    from codesign.report import library_tables

    if name is None:
        models = [ModelAnswer(**summary(load_model(name))) for name in list_models()]
        report(
            as_json,
            lambda: ModelsAnswer(models=models),
            lambda: [library_tables.models_table(models)],
        )
        return
    model = ModelAnswer(**summary(load_model(name)))
    report(as_json, lambda: model, lambda: library_tables.model_tables(model))


def workloads(as_json: AsJson = False) -> None:
    """List the named workloads: prompt and generated tokens."""
    from codesign.answers.library import WorkloadsAnswer
    from codesign.models.workload import list_traces, load_trace
    from codesign.report import library_tables

    traces = {name: load_trace(name) for name in list_traces()}
    report(
        as_json,
        lambda: WorkloadsAnswer(workloads=traces),
        lambda: [library_tables.traces_table(traces)],
    )


def metrics(as_json: AsJson = False) -> None:
    """List the metrics of the built-in evaluators and what they mean."""
    from codesign.answers.library import MetricsAnswer
    from codesign.base.metrics import ALL_METRICS
    from codesign.report import library_tables

    report(
        as_json,
        lambda: MetricsAnswer(metrics=ALL_METRICS),
        lambda: [library_tables.metrics_table(ALL_METRICS.values())],
    )


def optimizers(as_json: AsJson = False) -> None:
    """List the optimizers and their options."""
    from codesign.answers.library import OptimizersAnswer
    from codesign.report import library_tables

    plugins = _plugins("optimizers")
    report(
        as_json,
        lambda: OptimizersAnswer(optimizers=plugins),
        lambda: [library_tables.plugins_table("Optimizers", plugins)],
    )


def evaluators(as_json: AsJson = False) -> None:
    """List the evaluators and their options."""
    from codesign.answers.library import EvaluatorsAnswer
    from codesign.report import library_tables

    plugins = _plugins("evaluators")
    report(
        as_json,
        lambda: EvaluatorsAnswer(evaluators=plugins),
        lambda: [library_tables.plugins_table("Evaluators", plugins)],
    )


def _plugins(group: Any) -> dict[str, PluginEntry | BrokenPluginEntry]:
    """Every registered plug-in; one that cannot be imported says why instead of failing all."""
    from codesign.answers.library import BrokenPluginEntry, PluginEntry
    from codesign.base import plugins
    from codesign.base.errors import CodesignError

    entries: dict[str, PluginEntry | BrokenPluginEntry] = {}
    for name in plugins.names(group):
        try:
            entries[name] = PluginEntry.describe(plugins.load(group, name))
        except CodesignError as error:
            entries[name] = BrokenPluginEntry(error=str(error))
    return entries
