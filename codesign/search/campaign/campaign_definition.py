"""A campaign's definition: what ``runs/NAME.yaml`` says, and what it resolves to."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from codesign.base import plugins, resources
from codesign.base.columns import (
    Fields,
    FloatArray,
    FloatDict,
    FloatMap,
    JsonObject,
    StringTuple,
    plain_value,
)
from codesign.base.errors import (
    InputError,
    ProblemList,
    check_known,
    describe_unknown,
    mistakes_at,
)
from codesign.base.evaluator import Evaluator, reading_of
from codesign.base.records import drop_keys, frozen, select_keys
from codesign.base.schema import (
    Document,
    KeyPath,
    Record,
    accepted_by,
    one_of,
    parse_record,
    unstored_at,
)
from codesign.base.units import parse_quantity
from codesign.search.campaign.execution_settings import Execution
from codesign.search.campaign.observations import Run
from codesign.search.campaign.screening import Screening, screening_problem
from codesign.search.campaign.settings import FLAG, read_campaign
from codesign.search.derived_metrics import MetricDefinition
from codesign.search.execution.guard import is_foreign
from codesign.search.optimizers.base import HintUse, Optimizer, SearchSpace
from codesign.search.problem import Problem
from codesign.search.problem_builder import (
    build_problem,
    read_sense,
    share_pools,
)
from codesign.space import DesignSpace, load_space

SAMPLE_SIZE = 512
"""Designs of the reference sample of an evaluator of this package."""
INITIAL_DESIGNS = "initial designs"
"""The reference sample of other evaluators."""
PositiveInt = Annotated[int, Field(strict=True, ge=1, le=10**9)]
DesignCount = Annotated[int, Field(strict=True, ge=1, le=10**6)]
"""Number of designs that are held in memory together."""
_MOST_SEEDS = 10_000
_MOST_WORKERS = 1024
Seed = Annotated[int, Field(strict=True, ge=0)]


def _check_label(value: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise ValueError(f"expected letters, digits, '.', '_' and '-', got {value!r}")


Label = Annotated[str, accepted_by(_check_label)]
"""A name that may be part of a path."""


def _choice_of(*keys: str) -> BeforeValidator:
    """``nsga2`` or ``{name: nsga2, population: 50}``: these keys apart from the options."""

    def read(value: object) -> object:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, Mapping):
            raise ValueError(f"expected a name or a mapping with 'name', got {value!r}")
        return select_keys(value, keys) | {"options": drop_keys(value, keys)}

    return BeforeValidator(read)


def _seeds(value: object) -> object:
    """A number of seeds, or the seeds."""
    if isinstance(value, bool) or not isinstance(value, int | list | tuple):
        raise ValueError(f"expected a number of seeds or a list of them, got {value!r}")
    if isinstance(value, int) and not 1 <= value <= _MOST_SEEDS:
        raise ValueError(
            f"expected a number of seeds from 1 to {_MOST_SEEDS}, or a list of them, got {value}"
        )
    return list(range(value)) if isinstance(value, int) else value


class PluginChoice(Record):
    """An evaluator or an optimizer with its options."""

    name: str
    label: Label | None = None
    """Tells two optimizers of one name apart; the name if not given."""
    options: JsonObject = Field(default_factory=dict)


Hints = Annotated[Literal["on", "off"], one_of("on", "off")]
"""Whether an optimizer is told what the evaluator knows of designs in advance."""
Start = Annotated[Literal["spread", "hints"], one_of("spread", "hints")]
"""The initial designs: spread over the space, or the best of many by the evaluator's hints."""


class OptimizerChoice(PluginChoice):
    """An optimizer with its options, and what it is told in advance."""

    hints: Hints | None = None
    """Use of hints; the file's value for all if not given."""
    start: Start = "spread"
    """Optimizers that start in the same way share their initial designs."""


EvaluatorChoice = Annotated[PluginChoice, _choice_of("name", "label")]
_OPTIMIZER_KEYS = ("name", "label", "hints", "start")
_STAND_INS: Fields = {
    "optimizers": ["random"],
    "initial": 1,
    "budget": 10**9,
    "space": "",
    "evaluator": "",
    "objectives": [""],
}
"""Values in place of those that cannot be read, so that the rest of the file is checked too."""


class SearchSettings(Record):
    """Optimizers, seeds and budgets of a search; nothing of the problem."""

    optimizers: Annotated[
        tuple[Annotated[OptimizerChoice, _choice_of(*_OPTIMIZER_KEYS)], ...], Field(min_length=1)
    ]
    """Names, or mappings with ``name``, options, and a ``label`` where a name is used twice."""
    hints: Hints = "on"
    """Use of hints by optimizers that do not state it themselves."""
    initial: DesignCount = 20
    """Designs that every optimizer of one seed evaluates first (MemExplorer §4.4)."""
    budget: PositiveInt
    """Distinct designs that each run evaluates, the initial ones included."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1), BeforeValidator(_seeds)] = (0,)
    """Number of seeds (0, 1, ...), or a list of them."""
    batch: DesignCount | None = None
    """Designs asked for at one time; each optimizer's own number if not given."""
    workers: Annotated[int, Field(strict=True, ge=1, le=_MOST_WORKERS)] | None = None
    """Processes; one per core if not given. Does not change any result."""
    execution: Execution = Execution()
    """Execution of evaluations; not part of a campaign's identity."""

    @property
    def labels(self) -> StringTuple:
        """The optimizers' names here, in the order of the file."""
        return tuple(choice.label or choice.name for choice in self.optimizers)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every optimizer with every seed, in the order in which they are started."""
        return tuple(Run(label, seed) for label in self.labels for seed in self.seeds)


class Definition(SearchSettings):
    """The keys of a campaign file."""

    _asked_as: str = ""
    name: Label
    """Name of the campaign and of its folder; the file's name if not given."""
    description: str = ""
    """For people; may change at any time."""
    space: str
    """Name of a design space, or the path of its file."""
    evaluator: EvaluatorChoice
    """Name of the evaluator, or ``name`` and its options."""
    workload: JsonObject = Field(default_factory=dict)
    """Work of the evaluator; the evaluator's own record defines the keys."""
    metrics: Annotated[dict[str, MetricDefinition], unstored_at({})] = Field(default_factory=dict)
    """Further metrics by name, computed from those of the evaluator."""
    objectives: Annotated[StringTuple, Field(min_length=1)]
    """``maximize METRIC`` or ``minimize METRIC``."""
    constraints: StringTuple = ()
    """Conditions over metrics, parameters and derived quantities."""
    fixed: JsonObject = Field(default_factory=dict)
    """Parameters that do not vary, with their values."""
    reference_point: JsonObject | None = None
    """Bound of the hypervolume by objective; taken from a sample if not given."""
    screening: Screening | None = None
    """A cheaper evaluator, asked of promising designs before the dear one; optimizers that cannot
    choose between the two do without."""
    reference_sample: DesignCount | None = None
    """Designs evaluated, outside every budget, to find the reference point. If not given, 512 for
    evaluators of this package, and for others the initial designs of the first seed."""

    @property
    def asked_as(self) -> str:
        """Words by which commands find the campaign: its name or path, and its folder."""
        return self._asked_as or self.name


@frozen
class ConfiguredOptimizer:
    """An optimizer ready to be built for a run.

    Attributes:
        label: Its name in this campaign.
        name: Under which it is registered.
        factory: Its class.
        hints: Whether it is told what the evaluator knows in advance.
        start: Where its initial designs are from.
    """

    label: str
    name: str
    factory: Any
    options: Record
    hints: Hints = "on"
    start: Start = "spread"

    @property
    def hint_use(self) -> HintUse:
        """Use of hints in the search, if the evaluator gives any."""
        use: HintUse = getattr(self.factory, "hint_use", "none") if self.hints == "on" else "none"
        return "start" if use == "none" and self.start == "hints" else use

    @property
    def identity(self) -> JsonObject:
        """All that its suggestions depend on, as JSON values; the usual is not mentioned."""
        settings = {"hints": (self.hints, "on"), "start": (self.start, "spread")}
        unusual = {key: value for key, (value, usual) in settings.items() if value != usual}
        return {"name": self.name, **self.options.model_dump(mode="json"), **unusual}

    def build(
        self, space: SearchSpace, n_objectives: int, seed: int, reference: FloatArray
    ) -> Optimizer:
        """A fresh optimizer that has been told nothing but, if it wants it, the reference point."""
        if self.hint_use in ("none", "start"):
            space = space.hintless()
        takes_reference = getattr(self.factory, "takes_reference_point", False)
        reference_argument = {"reference_point": reference} if takes_reference else {}
        optimizer: Optimizer = self.factory(
            space, n_objectives, seed, self.options, **reference_argument
        )
        return optimizer


@frozen
class ResolvedDefinition:
    """A definition with everything that it names loaded and checked.

    Attributes:
        problem: Space, evaluator, objectives and constraints.
        optimizers: In the order of the file.
        reference_point: The bound that the file gives, by metric, in natural sign.
        screening: The same objectives and constraints as the cheaper evaluator has them.
        settings: Values that replaced those of the file, by dotted key.
    """

    path: Path
    definition: Definition
    problem: Problem
    optimizers: tuple[ConfiguredOptimizer, ...]
    reference_point: FloatMap | None
    screening: Problem | None = None
    settings: Fields = field(default_factory=dict)

    def optimizer_of(self, run: Run) -> ConfiguredOptimizer:
        """The optimizer that a run uses."""
        return next(optimizer for optimizer in self.optimizers if optimizer.label == run.optimizer)

    def replace_execution(self, execution: Execution | None) -> ResolvedDefinition:
        """The same campaign, evaluated in another way; None: as its file says."""
        if execution is None:
            return self
        definition = self.definition.model_copy(update={"execution": execution})
        return replace(self, definition=definition)

    def identity(self) -> JsonObject:
        """All that the results depend on besides library versions, as JSON values."""
        definition = self.definition
        sample: int | str | None = definition.reference_sample
        if sample is None:
            sample = INITIAL_DESIGNS if is_foreign(self.problem.evaluator) else SAMPLE_SIZE
        data = {
            "problem": self.problem.provenance(),
            "optimizers": {optimizer.label: optimizer.identity for optimizer in self.optimizers},
            "initial": definition.initial,
            "budget": definition.budget,
            "seeds": definition.seeds,
            "batch": definition.batch,
            "reference_point": self.reference_point,
            "reference_sample": None if self.reference_point else sample,
        }
        if self.definition.screening is not None and self.screening is not None:
            costs = self.definition.screening.model_dump(include={"cost", "target_cost", "share"})
            data["screening"] = {**costs, "problem": self.screening.provenance()}
        return plain_json(data)


def campaign_reading(definition: Definition, problem: Problem) -> JsonObject:
    """Reading of designs by a campaign's evaluator; see :func:`reading_of`."""
    choice = definition.evaluator
    return reading_of(choice.name, problem.evaluator, choice.options)


def plain_json(data: Fields) -> JsonObject:
    """``data`` as JSON gives it back: lists for tuples, plain numbers for NumPy's."""
    values: JsonObject = json.loads(json.dumps(data, default=plain_value))
    return values


def load_definition(name_or_path: str | Path, settings: Fields | None = None) -> ResolvedDefinition:
    """A campaign's definition, resolved.

    Args:
        name_or_path: ``osworld-prefill`` for ``runs/osworld-prefill.yaml``, or a path.
        settings: Values that replace those of the file, by dotted key.

    Raises:
        InputError: With file, line and key of what is wrong, and the nearest valid choice.
    """
    path = resources.find("runs", str(name_or_path))
    problems = ProblemList()
    document, definition, unread = _read_keys(path, settings, problems)
    optimizers: tuple[ConfiguredOptimizer, ...] = ()
    with problems.caught():
        optimizers = tuple(configured_optimizers(document, definition))
    problem = reference_point = screening = None
    with problems.caught():
        problem = _problem(document, definition, unread)
    if definition.reference_point is not None and "objectives" not in unread:
        with problems.caught():
            reference_point = _reference_point(document, definition, problem)
    if definition.screening is not None:
        with problems.caught():
            screening = screening_problem(
                document, definition.screening, definition.workload, problem
            )
    ProblemList(dict.fromkeys(problems)).raise_any()
    assert problem is not None  # or there would be a mistake
    return ResolvedDefinition(
        path.resolve(), definition, problem, optimizers, reference_point, screening, settings or {}
    )


def load_problem(name_or_path: str | Path) -> Problem:
    """The problem of a campaign's definition; its optimizers are not looked at.

    Raises:
        InputError: As :func:`load_definition`.
    """
    return _problem(*read_definition(resources.find("runs", str(name_or_path))))


def load_screening(name_or_path: str | Path) -> Problem:
    """The problem of a campaign's cheaper evaluator.

    Raises:
        InputError: As :func:`load_definition`.
    """
    screening = load_definition(name_or_path).screening
    assert screening is not None  # nothing else asks for it
    return screening


def read_definition(path: Path) -> tuple[Document, Definition]:
    """Content of a campaign file, checked by itself; no file that it names is loaded.

    Args:
        path: Path of the file, or of the settings that stand for it.

    Raises:
        InputError: With file, line and key of what is wrong.
    """
    problems = ProblemList()
    document, definition, _ = _read_keys(path, None, problems)
    problems.raise_any()
    return document, definition


def _read_keys(
    path: Path, settings: Fields | None, problems: ProblemList
) -> tuple[Document, Definition, set[str]]:
    """Content of a campaign file, and its keys without a usable value: those have stand-ins.

    Args:
        path: Path of the file, or of the settings that stand for it.
        settings: As of :func:`load_definition`.
        problems: Takes the mistakes of the keys, each by itself and together.
    """
    document = read_campaign(path, settings)
    data = {"name": path.stem, **document.data}
    unread = set()
    try:
        definition = parse_record(document, Definition, data)
    except InputError as error:
        problems += error.problems
        for mistake in error.mistakes:
            key = mistake.place.partition(f"{FLAG} ")[2] or str(*mistake.key[:1])
            unread.add(key.partition(".")[0])
        data = {"name": path.stem, **drop_keys(data, unread), **select_keys(_STAND_INS, unread)}
        try:
            definition = parse_record(document, Definition, data)
        except InputError:
            raise error from None
    if definition.name != path.stem:
        problems.append(
            f"{document.where('name')}: expected the name of the file, {path.stem!r}, "
            f"got {definition.name!r}"
        )
    problems += contradictions(document, definition)
    if definition.evaluator.label is not None:
        problems.append(f"{document.where('evaluator', 'label')}: only optimizers have a label")
    return document, definition, unread


def contradictions(document: Document, settings: SearchSettings) -> Iterator[str]:
    """Contradictions in the settings of a file, one line each."""
    if settings.budget < settings.initial:
        yield (
            f"{document.where('budget')}: expected at least the {settings.initial} initial "
            f"designs, got {settings.budget}; raise budget or lower initial"
        )
    if len(set(settings.seeds)) < len(settings.seeds):
        yield f"{document.where('seeds')}: expected distinct seeds, got {list(settings.seeds)}"
    for i, choice in enumerate(settings.optimizers):
        if choice.start == "hints" and (choice.hints or settings.hints) == "off":
            yield (
                f"{document.where('optimizers', i, 'start')}: expected 'spread' without hints, "
                "got 'hints'"
            )
    for i, label in enumerate(settings.labels):
        if label in settings.labels[:i]:
            yield (
                f"{document.where('optimizers', i)}: {label!r} is used twice; "
                "tell them apart by 'label: NAME'"
            )


def configured_optimizers(
    document: Document, settings: SearchSettings
) -> Iterator[ConfiguredOptimizer]:
    """The optimizers that a file names, found and with checked options.

    Raises:
        InputError: An unknown optimizer or option; the nearest is offered.
    """
    problems = ProblemList()
    for i, choice in enumerate(settings.optimizers):
        with problems.caught():
            yield _configured_optimizer(document, settings, choice, ("optimizers", i))
    problems.raise_any()


def _configured_optimizer(
    document: Document, settings: SearchSettings, choice: OptimizerChoice, path: KeyPath
) -> ConfiguredOptimizer:
    factory = plugins.load("optimizers", choice.name, document.where(*path))
    if not hasattr(factory, "Options"):
        problem = "has no Options, the record of the keys that a campaign may set"
        remedy = "codesign.search.optimizers.base.BaseOptimizer brings an empty one"
        raise InputError(
            f"the class of optimizer {choice.name!r} {problem}; {remedy}", document.where(*path)
        )
    option_names = {*factory.Options.model_fields, *_OPTIMIZER_KEYS}
    unknown = [
        f"{document.where(*path, key)}: {describe_unknown('key', key, option_names)}"
        for key in choice.options
        if key not in option_names
    ]
    if unknown:
        raise InputError(unknown)
    options = parse_record(document, factory.Options, choice.options, path)
    hints = choice.hints or settings.hints
    label = choice.label or choice.name
    return ConfiguredOptimizer(label, choice.name, factory, options, hints, choice.start)


def _problem(document: Document, definition: Definition, unread: Collection[str] = ()) -> Problem:
    """Problem of a definition.

    Args:
        unread: Keys with stand-ins; checks that depend on them are left out.
    """
    catalogs = {name: plugins.load("catalogs", name)() for name in plugins.names("catalogs")}
    problems = ProblemList()
    space: DesignSpace | None = None
    evaluator: Evaluator | None = None
    with problems.caught():
        if "space" not in unread:
            space = load_space(definition.space, catalogs, document.where("space"))
        if space is not None and definition.fixed:
            space = space.fix(definition.fixed, document.where("fixed"))
    factory: Any = None
    if {"evaluator", "workload"}.isdisjoint(unread):
        with problems.caught():
            factory = plugins.load(
                "evaluators", definition.evaluator.name, document.where("evaluator")
            )
            evaluator = _evaluator(document, definition, factory, space)
    objectives = definition.objectives if {"objectives", "metrics"}.isdisjoint(unread) else ()
    is_ours = getattr(factory, "__module__", "").startswith("codesign.")
    if space is not None and (evaluator is not None or is_ours):
        return build_problem(
            space,
            evaluator,
            objectives,
            () if "metrics" in unread else definition.constraints,
            definition.evaluator.name,
            document.where,
            definition.metrics,
            problems if problems or unread else None,
        )
    for i, text in enumerate(objectives):
        with problems.caught():
            where = document.where("objectives", i)
            _, name = read_sense(text, where)
            if evaluator is not None and not evaluator.offers("join_pools"):
                check_known("metric", name, [*evaluator.metric_names, *definition.metrics], where)
    raise InputError(problems)


def _evaluator(
    document: Document, definition: Definition, factory: Any, space: DesignSpace | None
) -> Evaluator:
    """The evaluator of a campaign.

    Raises:
        InputError: Mistakes of its options, of the workload and, if the rest of them can be used,
            of pools and links.
    """
    problems = ProblemList()
    records = []
    for key, record, data in (
        ("evaluator", factory.Options, definition.evaluator.options),
        ("workload", factory.Workload, definition.workload),
    ):
        try:
            records.append(parse_record(document, record, data, (key,)))
        except InputError as error:
            problems += error.problems
            wrong = [key for mistake in error.mistakes for key in mistake.key[1:2]]
            with suppress(InputError):
                records.append(parse_record(document, record, drop_keys(data, wrong), (key,)))
    if len(records) < 2:
        raise InputError(problems)
    with problems.caught():
        with mistakes_at(document.where("workload")):
            evaluator: Evaluator = plugins.build(factory, *reversed(records))
        if problems and space is not None:
            share_pools(space, evaluator, definition.evaluator.name, document.where)
    problems.raise_any()
    return evaluator


def _reference_point(
    document: Document, definition: Definition, problem: Problem | None
) -> FloatDict:
    """Reference point by objective; the units are checked if there is a problem."""
    values = definition.reference_point or {}
    names = [text.split()[-1] for text in definition.objectives if text.split()]
    problems = ProblemList(
        f"{document.where('reference_point', name)}: {describe_unknown('objective', name, names)}"
        for name in values
        if name not in names
    )
    units = {} if problem is None else {metric.name: metric.unit for metric in problem.metrics}
    point = {}
    for name in dict.fromkeys(names):
        with problems.caught(), mistakes_at(document.where("reference_point", name)):
            value = values.get(name)
            if name not in values:
                raise InputError("the key is required")
            if problem is not None:
                point[name] = parse_quantity(value, units[name] if isinstance(value, str) else "")
    problems.raise_any()
    return point
