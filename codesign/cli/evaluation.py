"""One design explained, and the speed of the evaluator."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InputError, entry_named
from codesign.base.records import drop_keys, drop_none, frozen, select_keys
from codesign.cli import completion
from codesign.cli.campaigns import Folder
from codesign.cli.flag_records import (
    filled_keys,
    flag,
    flag_names,
    set_flags,
    token_flag,
)
from codesign.cli.flags import flag_by_key, naming
from codesign.cli.output import make_console, report, say
from codesign.cli.picking import Pick, design_or_pick
from codesign.cli.sampling import Samples, Seed, sampling

if TYPE_CHECKING:
    from codesign.answers.designs import FrontDistance
    from codesign.api import EvaluatedDesign
    from codesign.base.columns import Fields, IntegerMap, JsonObject, StringList, StringMap
    from codesign.search.campaign import Campaign
    from codesign.space import DesignSpace

DEFAULT_SPACE = "memexplorer"


@frozen
class QuestionFlags:
    """Workload and evaluator of a design."""

    model: str | None = flag(
        "Language model, or the path of a config.json.", autocompletion=completion.models
    )
    workload: str | None = flag("Named trace, see `codesign list workloads`.", key="trace")
    prompt_tokens: int | None = token_flag("Tokens of a prompt; instead of --workload.")
    generated_tokens: int | None = token_flag("Tokens generated after it; instead of --workload.")
    phase: str | None = flag("prefill or decode.")
    request: list[str] | None = flag(
        "Any other key of the workload, such as batch=8; repeatable.", key="", metavar="KEY=VALUE"
    )
    evaluator: str | None = flag("See `codesign list evaluators`. [npu; system for pools]", key="")
    option: list[str] | None = flag(
        "An option of the evaluator; may be repeated.", key="", metavar="KEY=VALUE"
    )


@frozen
class DesignFlags:
    """The design, and where it is described."""

    space: str | None = flag(
        "Design space, or the path of its file. [memexplorer]", autocompletion=completion.spaces
    )
    design: str | None = flag(
        "A design that the space or the design file names; with --campaign also its number on the "
        "front.",
        autocompletion=completion.designs,
    )
    pick: Pick = None
    design_file: Path | None = flag(
        "YAML file with a design, or with a front as `export` writes it; with --campaign only its "
        "designs are taken."
    )
    settings: list[str] | None = flag(
        "Change a parameter; may be repeated.", None, "--set", metavar="NAME=VALUE"
    )


def evaluate(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[DESIGN]", help="As --design.", autocompletion=completion.designs),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            help="Evaluate exactly as this campaign does: its space, evaluator, workload, limits.",
            autocompletion=completion.campaigns,
        ),
    ] = None,
    subject: DesignFlags,
    question: QuestionFlags,
    uncertainty: bool = False,
    samples: Samples = None,
    seed: Seed = None,
    folder: Folder = None,
) -> None:
    """Explain one design: time, bound, traffic, power, metrics.

    Args:
        uncertainty: Print intervals over the ranges of the technologies.
    """
    from codesign import api

    draws = sampling("--uncertainty", uncertainty, samples, seed)
    if name is not None:
        if subject.design is not None:
            raise InputError(f"expected one design, got {name!r} and --design {subject.design}")
        subject = replace(subject, design=name)
    if campaign is not None:
        stray_flags = [*(["--space"] if subject.space is not None else []), *set_flags(question)]
        _refuse(stray_flags, f"the campaign {campaign} says all of it")
        loaded = api.load_campaign(campaign, folder)
        title, result = _campaign_evaluation(loaded, subject)
    else:
        strays = {"--folder": folder, "--pick": subject.pick}
        stray = [*drop_none(strays)]
        _refuse(stray, "it is of a --campaign")
        title, result = _flag_evaluation(subject, question)
    distance = None if campaign is None else _distance(loaded, result)
    _report(result, title, draws if uncertainty else None, distance)


def _refuse(flags: StringList, why: str) -> None:
    if flags:
        raise InputError(f"expected no {', '.join(flags)}: {why}")


def _campaign_evaluation(campaign: Campaign, subject: DesignFlags) -> tuple[str, EvaluatedDesign]:
    """Title and result of a design that is evaluated as the campaign does.

    The design is one of a file, of the campaign's front or of its space, or made by ``--set``.
    """
    from codesign import api

    title = campaign.definition.name
    file = subject.design_file
    design = design_or_pick(subject.design, subject.pick)
    values: Fields = {}
    if file is not None:
        title += f", {design or file.stem}"
        values = _DesignFile.read(file).choose(design)
    elif design is not None:
        words, values = api.design_of_campaign(campaign, design)
        title += f", {words}"
    settings = read_pairs("--set", subject.settings)
    merged = {**values, **settings}
    _check_design(merged, campaign.problem.space)
    result = api.evaluate_as(campaign, merged)
    _say_what_moved(settings, result.design)
    return title, result


def _flag_evaluation(subject: DesignFlags, question: QuestionFlags) -> tuple[str, EvaluatedDesign]:
    """Title and result of a design that is evaluated as flags and its file say."""
    from codesign import api

    design = subject.design
    path = subject.design_file
    file = _DesignFile.read(path)
    more = read_pairs("--request", question.request, as_yaml=True)
    options = read_pairs("--option", question.option, as_yaml=True)
    pair_flags = flag_by_key("--request", more) | flag_by_key("--option", options)
    inputs = filled_keys(question)
    if repeated := sorted(inputs.keys() & more.keys()):
        raise InputError(f"{repeated[0]!r} is given twice", "--request")
    if "trace" in inputs and inputs.keys() & _TOKENS - {"trace"}:
        raise InputError("expected --workload, or --prompt-tokens and --generated-tokens, got both")
    inputs |= drop_none(more)
    if not (inputs or path or question.evaluator):
        raise InputError(
            f"expected a model and its work, such as: codesign evaluate {design or 'D1'} "
            "--model llama-3.3-70b --workload osworld --phase decode"
        )
    # A trace on the command line replaces the file's token counts, and the other way round.
    dropped = _TOKENS if inputs.keys() & _TOKENS else set()
    filed = drop_keys(file.workload, dropped)
    space = api.load_space(subject.space or file.space or DEFAULT_SPACE)
    pairs = read_pairs("--set", subject.settings)
    values: Fields = {}
    if path is not None:
        values = file.choose(design)
    elif design is not None:
        values = entry_named("design", design, space.designs, f"space {space.name}")
    _check_design({**values, **pairs}, space)
    workload = filed | inputs
    open_names = {*space.names} - {*values, *pairs}
    if "model" in workload and "weight_format" in open_names:
        from codesign.models.workload.model_library import load_model

        published = load_model(str(workload["model"])).published_formats
        values = {**select_keys(published, open_names & {*published}), **values}
    with naming(
        {
            key: flag
            for key, flag in REQUEST_FLAGS.items()
            if key not in more and (key not in file.workload or key in inputs)
        },
        pair_flags,
    ):
        result = api.evaluate(
            space=space,
            design={**values, **pairs},
            workload=workload,
            evaluator=question.evaluator or file.evaluator or ("system" if space.pools else "npu"),
            options={**file.options, **options},
        )
    _say_what_moved(pairs, result.design)
    return design or (path.stem if path else "Design"), result


def _check_design(values: Fields, space: DesignSpace) -> None:
    if not values:
        named = f"; {space.name} names {', '.join(space.designs)}" if space.designs else ""
        raise InputError(f"expected a design: --design, --design-file or --set{named}")


def _distance(campaign: Campaign, result: EvaluatedDesign) -> FrontDistance | None:
    """Distance of a feasible design to the exact front, if that is stored."""
    from codesign.answers.designs import FrontDistance
    from codesign.search.enumeration import stored_front

    front = stored_front(campaign.problem, campaign.folder) if result.is_feasible else None
    if front is None:
        return None
    points = front.objectives
    rows = front.representatives()
    return FrontDistance.describe(campaign.problem, points, rows, result.metrics)


def _report(
    result: EvaluatedDesign,
    title: str,
    draws: IntegerMap | None,
    distance: FrontDistance | None,
) -> None:
    from codesign.answers.designs import EvaluateAnswer
    from codesign.answers.uncertainty import Uncertainty
    from codesign.report import explanation
    from codesign.report.uncertainty_tables import design_tables

    intervals = None
    if draws is not None:
        from codesign.insight.uncertainty.uncertainty import design_uncertainty

        intervals = design_uncertainty(result, **draws)

    more: JsonObject = {"uncertainty": Uncertainty.describe(intervals)} if intervals else {}
    if distance is not None:
        more["distance"] = distance
    report(
        lambda: EvaluateAnswer.describe(result, **more),
        lambda: [
            *explanation.evaluation_tables(title, result, make_console().width),
            *(design_tables(intervals, result) if intervals else ()),
            *([distance.words] if distance else ()),
        ],
    )
    if result.broken:
        broken = ", ".join(result.broken)
        say(f"warning: this design cannot be built or used so; it breaks {broken}")


def _say_what_moved(settings: StringMap, design: Fields) -> None:
    """Point out settings that the canonical form of the design has elsewhere."""
    from codesign.report.labels import format_setting

    for name, text in settings.items():
        if name not in design:  # a pool, whose machine has been written out
            continue
        setting = format_setting(design[name])
        # A list such as [2048, 64] is printed as 2048x64.
        written = "x".join(text.strip("[] ").replace(",", " ").split())
        is_number = re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", text.strip(), re.IGNORECASE)
        if text != "none" and setting not in (text, written) and not is_number:
            say(f"note: {name} is {setting}: the space keeps its designs in one canonical order")


_TOKENS = {"trace", "prompt_tokens", "generated_tokens"}
REQUEST_FLAGS = flag_names(QuestionFlags)
"""Flag by the workload's key."""


def read_pairs(name: str, texts: StringList | None, as_yaml: bool = False) -> JsonObject:
    """``KEY=VALUE`` texts; the value as YAML reads it, or left for the design space to read.

    As YAML, a key may have keys inside: ``pools.decode.machine=npu``.
    """
    from codesign.base.schema import parse_document

    pairs: JsonObject = {}
    for pair in texts or ():
        key, equals, value = pair.partition("=")
        if not (key.strip() and equals):
            raise InputError(f"expected NAME=VALUE, got {pair!r}", name)
        *outer, last = key.strip().split(".") if as_yaml else [key.strip()]
        inner = pairs
        for key_part in outer:
            inner = inner.setdefault(key_part, {}) if isinstance(inner, dict) else inner
        if not isinstance(inner, dict) or last in inner:
            is_outer = not isinstance(inner, dict) or isinstance(inner[last], dict)
            reason = ", with a value and with keys inside" if is_outer else ""
            raise InputError(f"{key.strip()!r} is given twice{reason}", name)
        text = value.strip()
        inner[last] = parse_document(f"value: {text}", name).data["value"] if as_yaml else text
    return pairs


class _DesignFile:
    """Designs from a file, and how they were evaluated where the file says it.

    Attributes:
        designs: By name; a file that is itself a design has one, without a name.
    """

    def __init__(self, source: str, data: Fields) -> None:
        self.source = source
        is_export = isinstance(data.get("designs"), dict)
        self.designs: JsonObject = dict(data["designs"]) if is_export else {"": data}
        exported_definition = data.get("definition") if is_export else None
        definition: Fields = exported_definition if isinstance(exported_definition, dict) else {}
        evaluator_choice = definition.get("evaluator")
        choice: Fields = evaluator_choice if isinstance(evaluator_choice, dict) else {}
        self.space: str | None = definition.get("space")
        self.workload: Fields = definition.get("workload") or {}
        self.evaluator: str | None = choice.get("name")
        self.options: Fields = choice.get("options") or {}

    @classmethod
    def read(cls, path: Path | None) -> _DesignFile:
        """The designs of a file; none without one."""
        if path is None:
            return cls("", {"designs": {}})
        from codesign.base.schema import MOST_NODES, read_document

        # An export repeats the parameters of each of its designs.
        return cls(str(path), read_document(path, 10 * MOST_NODES).data)

    def choose(self, name: str | None) -> Fields:
        """The design of that name; the only one if no name is given."""
        if name is None and len(self.designs) > 1:
            listed = ", ".join(list(self.designs)[:8])
            raise InputError(
                f"holds {len(self.designs)} designs; choose one by --design: {listed}", self.source
            )
        if not self.designs:
            raise InputError("holds no design", self.source)
        design_name = next(iter(self.designs)) if name is None else name
        design = entry_named("design", design_name, self.designs, self.source)
        if not isinstance(design, dict):
            raise InputError(f"expected parameters with values, got {design!r}", self.source)
        # As a space file has it, with a source beside the values; or the values alone.
        values = design.get("values", design)
        return values if isinstance(values, dict) else design
