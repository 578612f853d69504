"""``codesign list``: models, devices, memories, and everything else that has a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from codesign.base.errors import InputError, UnknownNameError, check_known
from codesign.base.resources import Kind, listed
from codesign.cli import completion
from codesign.cli.campaigns import Folder
from codesign.cli.output import report, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.answers.answer import Answer
    from codesign.base.plugins import Group

T = TypeVar("T")
_CAMPAIGNS = "campaigns"


class Status(StrEnum):
    """Market status of a memory technology."""

    SHIPS = "ships"
    SAMPLES = "samples"
    ANNOUNCED = "announced"
    TARGET = "target"


Report: TypeAlias = "tuple[Callable[[], Answer], Callable[[], Iterable[RenderableType]]]"
"""Functions that make an answer and its tables."""


def list_(
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="devices, models, memories, spaces, workloads, metrics, optimizers, evaluators, "
            "problems or campaigns; or a name, which is shown in full.",
            autocompletion=lambda incomplete: [
                *(k for k in LISTED if k.startswith(incomplete)),
                *completion.catalogue_names(incomplete),
            ],
        ),
    ] = None,
    show_all: Annotated[
        bool,
        typer.Option("--all", help="campaigns: also problems of comparisons that have not begun."),
    ] = False,
    status: list[Status] | None = None,
    year: int | None = None,
    folder: Folder = None,
) -> None:
    """List devices, models, memories, spaces, workloads, metrics, optimizers or campaigns.

    Args:
        status: memories: only of this status; repeatable.
        year: memories: only those that can be bought by this year.
    """
    if group is None:
        raise InputError(f"expected one of {', '.join(LISTED)}, or a name", "list")
    check_known("kind", group, LISTED, "list")
    if group != "memories" and (status or year is not None):
        raise InputError(f"expected no --status and no --year: {group} have none", f"list {group}")
    if group == _CAMPAIGNS:
        answer, tables = _campaigns(show_all, folder)
    elif show_all or folder is not None:
        raise InputError(f"expected no --all and no --folder: {group} have none", f"list {group}")
    elif group == "memories":
        answer, tables = _memories(None, [each.value for each in status or ()], year)
    else:
        answer, tables = KINDS[group](None)
    report(answer, tables)


list_.__name__ = "list"


def show(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[KIND] NAME",
            help="A name that `codesign list` has, or the path of a file; with its kind where two "
            "kinds have the name.",
            autocompletion=completion.catalogue_names,
        ),
    ],
) -> None:
    """Show one device, model, memory, space, workload, metric, optimizer or problem in full."""
    *kinds, name = words
    if len(kinds) > 1:
        raise InputError(f"expected [KIND] NAME, got {len(words)} words", "list")
    for group in kinds:
        check_known("kind", group, KINDS, "list")
    answer, tables = KINDS[kinds[0] if kinds else _kind_of(name)](name)
    report(answer, tables)


def _kind_of(name: str) -> str:
    """The kind of a name, or of the file of that path by its keys.

    Raises:
        UnknownNameError: No kind has the name.
    """
    from codesign.base.schema import read_document
    from codesign.models.hardware.device import load_device

    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        kinds = {"hidden_size": "models"}  # some have "parameters"
        kinds |= dict.fromkeys(("based_on", "parameters", "repeated", "pools"), "spaces")
        kinds |= {"peak": "devices", "read_energy": "memories", "turns": "workloads"}
        keys = read_document(path).data.keys()
        if "objectives" in keys:
            raise InputError("expected no campaign: 'codesign run' reads it", str(path))
        return next((group for key, group in kinds.items() if key in keys), "models")
    if path.suffix == ".json":
        return "models"
    if path.suffix in (".jsonl", ".gz"):
        return "workloads"
    from codesign.base import plugins
    from codesign.base.metrics import ALL_METRICS
    from codesign.models.hardware.device import list_devices
    from codesign.models.workload import list_models, list_traces, load_model
    from codesign.models.workload.sessions import list_sessions
    from codesign.search.problems.problem_records import published

    names = {
        "memories": lambda: listed("memtech"),
        "models": lambda: [*list_models()],
        "devices": lambda: [*list_devices()],
        "spaces": lambda: listed("spaces"),
        "workloads": lambda: [*list_traces(), *list_sessions()],
        "metrics": lambda: ALL_METRICS,
        "optimizers": lambda: plugins.names("optimizers"),
        "evaluators": lambda: plugins.names("evaluators"),
        "problems": published,
    }
    for group, group_names in names.items():
        if name in group_names():
            return group
    for group, load in (("devices", load_device), ("models", load_model)):
        with suppress(UnknownNameError):
            load(name)
            return group
    every_name = [*LISTED, *(each for group in names.values() for each in group())]
    raise UnknownNameError("name", name, every_name, "list")


def _usable(group: Kind, load: Callable[[str], T]) -> dict[str, T]:
    """Readable files of a kind by name; stderr gets the mistakes of the others."""
    records = {}
    for name, path in listed(group).items():
        try:
            records[name] = load(str(path))
        except InputError as error:
            for problem in error.problems:
                say(f"cannot be used: {problem}")
    return records


def _memories(name: str | None, status: Sequence[str] = (), year: int | None = None) -> Report:
    from codesign.answers.library import TechnologiesAnswer, TechnologyAnswer
    from codesign.models.memtech import TechnologyLibrary, load_technology
    from codesign.report import library_tables as tables

    if name is None:
        library = TechnologyLibrary(_usable("memtech", load_technology))
        technologies = dict(library.filtered(status, year))
        answer = TechnologiesAnswer(technologies=technologies)
        return lambda: answer, lambda: [tables.technologies_table(technologies)]
    technology = load_technology(name)
    memory = TechnologyAnswer.model_construct(**dict(technology))
    return lambda: memory, lambda: tables.technology_tables(technology)


def _spaces(name: str | None) -> Report:
    from codesign.answers.library import SpaceAnswer, SpacesAnswer
    from codesign.models.memtech import TechnologyLibrary, load_library, load_technology
    from codesign.report import library_tables as tables
    from codesign.space import load_space

    if name is not None:
        space = load_space(name, {"memtech": load_library().catalog()})
        return lambda: SpaceAnswer.describe(space), lambda: tables.space_tables(space)
    catalogs = {"memtech": TechnologyLibrary(_usable("memtech", load_technology)).catalog()}
    spaces = _usable("spaces", lambda path: load_space(path, catalogs))

    def answer() -> SpacesAnswer:
        answers = {key: SpaceAnswer.describe(space) for key, space in spaces.items()}
        return SpacesAnswer(spaces=answers)

    return answer, lambda: [tables.spaces_table(spaces)]


def _models(name: str | None) -> Report:
    from codesign.answers.library import ModelAnswer, ModelsAnswer
    from codesign.models.workload import list_models, load_model, summary
    from codesign.report import library_tables as tables

    if name is not None:
        model = ModelAnswer(**summary(load_model(name)))
        return lambda: model, lambda: tables.model_tables(model)
    models = [ModelAnswer(**summary(load_model(key))) for key in list_models()]
    return lambda: ModelsAnswer(models=models), lambda: [tables.models_table(models)]


def _devices(name: str | None) -> Report:
    from codesign.answers.library import DeviceAnswer, DevicesAnswer
    from codesign.models.accounts.rents import rent_words
    from codesign.models.hardware.device import list_devices, load_device
    from codesign.models.machines.device.expected_error import describe_expected_error
    from codesign.report import library_tables as tables

    if name is not None:
        device = load_device(name)
        answer = DeviceAnswer.model_construct(
            **dict(device),
            expected_errors=describe_expected_error(device),
            rent=rent_words(device.key),
        )
        return lambda: answer, lambda: tables.device_tables(answer)
    devices = {key: load_device(key) for key in list_devices()}
    return lambda: DevicesAnswer(devices=devices), lambda: [tables.devices_table(devices)]


def _workloads(name: str | None) -> Report:
    from codesign.answers.library import WorkloadsAnswer
    from codesign.models.workload.reuse import summaries
    from codesign.models.workload.traces import list_traces, load_trace
    from codesign.report import library_tables as tables

    requests = [key for key in list_traces() if name in (None, key)]
    traces = {key: load_trace(key) for key in requests}
    sessions = summaries(name)
    return lambda: WorkloadsAnswer(workloads=traces, sessions=sessions), lambda: [
        *([tables.traces_table(traces)] if traces else []),
        *([tables.sessions_table(sessions)] if sessions else []),
    ]


def _metrics(name: str | None) -> Report:
    from codesign.answers.library import MetricsAnswer
    from codesign.base.metrics import ALL_METRICS
    from codesign.report import library_tables as tables

    metrics = {key: ALL_METRICS[key] for key in _named(name, ALL_METRICS)}
    return lambda: MetricsAnswer(metrics=metrics), lambda: [tables.metrics_table(metrics.values())]


def _plugins(group: Group, name: str | None) -> Report:
    """Registered plug-ins; one that cannot be imported says why instead of failing all."""
    from codesign.answers import library
    from codesign.base import plugins
    from codesign.base.errors import CodesignError
    from codesign.report.library_tables import plugins_table

    entries: dict[str, library.PluginEntry | library.BrokenPluginEntry] = {}
    for key in _named(name, plugins.names(group)):
        try:
            entries[key] = library.PluginEntry.describe(plugins.load(group, key))
        except CodesignError as error:
            entries[key] = library.BrokenPluginEntry(error=str(error))
    answer = (
        library.OptimizersAnswer(optimizers=entries)
        if group == "optimizers"
        else library.EvaluatorsAnswer(evaluators=entries)
    )
    return lambda: answer, lambda: [plugins_table(group.capitalize(), entries)]


def _problems(name: str | None) -> Report:
    from codesign.answers.problems import ProblemAnswer, ProblemsAnswer
    from codesign.report import problem_set
    from codesign.search import problems
    from codesign.search.problems.problem_records import published

    if name is not None:
        problem = problems.load(name)
        return lambda: ProblemAnswer.describe(problem), lambda: problem_set.problem_tables(problem)
    records = published()
    answer = ProblemsAnswer(problems=list(records.values()))
    return lambda: answer, lambda: [problem_set.list_table(records)]


def _campaigns(show_all: bool, folder: Path | None) -> Report:
    from codesign.answers.campaigns import CampaignProgress, RunsAnswer
    from codesign.report.progress_tables import campaigns_tables
    from codesign.search.campaign import list_campaigns

    campaigns = list_campaigns(folder)
    visible = [
        x
        for x in campaigns
        # A problem of comparisons is hidden until it is run.
        if show_all or not x.name.startswith("problem-") or x.done or x.problem is not None
    ]
    answer = RunsAnswer(campaigns=[CampaignProgress.describe(status) for status in campaigns])
    return lambda: answer, lambda: campaigns_tables(visible, len(campaigns) - len(visible))


def _named(name: str | None, names: Iterable[str]) -> list[str]:
    """All names, or only the requested one.

    Raises:
        UnknownNameError: The requested name is none of them.
    """
    if name is None:
        return list(names)
    check_known("name", name, list(names), "list")
    return [name]


KINDS: dict[str, Callable[[str | None], Report]] = {
    "memories": _memories, "spaces": _spaces, "models": _models, "devices": _devices,
    "workloads": _workloads, "metrics": _metrics, "optimizers": partial(_plugins, "optimizers"),
    "evaluators": partial(_plugins, "evaluators"), "problems": _problems,
}  # fmt: skip
"""Reports by kind: of everything for None, else of the name."""
LISTED = (*KINDS, _CAMPAIGNS)
"""Kinds that ``codesign list`` lists."""
