"""What there is to choose from: technologies, spaces, models, metrics, plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

from codesign.base.errors import InputError
from codesign.base.resources import Kind, listed
from codesign.cli import completion
from codesign.cli.output import AsJson, report, say

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
    from codesign.models.memtech import load_technology
    from codesign.report import library_tables

    if name is None:
        technologies = _usable("memtech", load_technology)
        report(
            "technologies",
            as_json,
            lambda: {"technologies": dict(technologies)},
            lambda: [library_tables.technologies_table(technologies)],
        )
        return
    technology = load_technology(name)
    report(
        "technology",
        as_json,
        lambda: technology,
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

    def document() -> dict[str, Any]:
        documents = {
            name: library_tables.space_document(design_space)
            for name, design_space in design_spaces.items()
        }
        return {"spaces": documents}

    report("spaces", as_json, document, lambda: [library_tables.spaces_table(design_spaces)])


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
    from codesign.report import library_tables

    design_space = api.load_space(name)
    report(
        "space",
        as_json,
        lambda: library_tables.space_document(design_space),
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
    from codesign.models.workload import list_models, load_model, summary
    from codesign.report import library_tables

    if name is None:
        summaries = [summary(load_model(known)) for known in list_models()]
        report(
            "models",
            as_json,
            lambda: {"models": summaries},
            lambda: [library_tables.models_table(summaries)],
        )
        return
    model = summary(load_model(name))
    report("model", as_json, lambda: model, lambda: library_tables.model_tables(model))


def workloads(as_json: AsJson = False) -> None:
    """List the named workloads: prompt and generated tokens."""
    from codesign.models.workload import list_traces, load_trace
    from codesign.report import library_tables

    traces = {name: load_trace(name).model_dump() for name in list_traces()}
    report(
        "workloads",
        as_json,
        lambda: {"workloads": traces},
        lambda: [library_tables.traces_table(traces)],
    )


def metrics(as_json: AsJson = False) -> None:
    """List the metrics of the built-in evaluators and what they mean."""
    from codesign.base.metrics import ALL_METRICS
    from codesign.report import library_tables

    report(
        "metrics",
        as_json,
        lambda: {"metrics": ALL_METRICS},
        lambda: [library_tables.metrics_table(ALL_METRICS.values())],
    )


def optimizers(as_json: AsJson = False) -> None:
    """List the optimizers and their options."""
    _list_plugins("optimizers", as_json)


def evaluators(as_json: AsJson = False) -> None:
    """List the evaluators and their options."""
    _list_plugins("evaluators", as_json)


def _list_plugins(group: Any, as_json: bool) -> None:
    from codesign.report import library_tables

    documents = _plugins(group)
    report(
        group,
        as_json,
        lambda: {group: documents},
        lambda: [library_tables.plugins_table(group, documents)],
    )


def _plugins(group: Any) -> dict[str, Mapping[str, Any]]:
    """Every registered plug-in; one that cannot be imported says why instead of failing all."""
    from codesign.base import plugins
    from codesign.base.errors import CodesignError
    from codesign.report.library_tables import plugin_document

    documents: dict[str, Mapping[str, Any]] = {}
    for name in plugins.names(group):
        try:
            documents[name] = plugin_document(plugins.load(group, name))
        except CodesignError as error:
            documents[name] = {"error": str(error)}
    return documents
