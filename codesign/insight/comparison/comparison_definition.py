"""A comparison's definition: what ``runs/compare-NAME.yaml`` says.

A comparison is a set of campaigns, one per problem, that share optimizers, seeds and budget. A
problem is named by a campaign file; what that file says of the search is replaced.

Problems that share physics and space are no independent evidence, so each belongs to a kind, and
statistics count kinds. Where the file does not say a problem's kind, it is that of all problems
with the same evaluator and the same space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from codesign.base import resources
from codesign.base.columns import FloatSequence, JsonObject, StringDict, Strings, StringTuple
from codesign.base.errors import InputError, describe_unknown
from codesign.base.records import frozen
from codesign.base.schema import (
    Document,
    Fraction,
    accepted_by,
    parse_record,
    quantity,
    read_document,
)
from codesign.search.campaign.campaign_definition import (
    ConfiguredOptimizer,
    Label,
    ResolvedDefinition,
    SearchSettings,
    configured_optimizers,
    contradictions,
    load_definition,
)

TARGETS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Shares of the exact hypervolume whose first reaching is recorded. [ours]"""
EVALUATION_COSTS_S = (1e-3, 1.0, 60.0, 600.0)
"""Seconds of one design: a closed form, a model, a fast simulator and a slow one. [ours]"""

Seconds = Annotated[float, quantity("s"), Field(gt=0, allow_inf_nan=False)]


def _check_targets(values: FloatSequence) -> None:
    if any(not 0 < value < 1 for value in values) or list(values) != sorted(set(values)):
        raise ValueError(f"expected ascending shares between 0 and 1, got {list(values)}")


def _check_costs(values: FloatSequence) -> None:
    if list(values) != sorted(set(values)):
        raise ValueError(f"expected ascending times, got {[f'{value:g} s' for value in values]}")


class ComparisonDefinition(SearchSettings):
    """The keys of a comparison file."""

    name: Label
    """Name of the comparison and of its folder; the file's name if not given."""
    description: str = ""
    """For people; may change at any time."""
    problems: Annotated[StringTuple, Field(min_length=1)]
    """Campaigns whose space, evaluator, workload, objectives and constraints are taken."""
    targets: Annotated[tuple[Fraction, ...], Field(min_length=1), accepted_by(_check_targets)] = (
        TARGETS
    )
    """Shares of the exact hypervolume to be reached, such as 95 %."""
    kinds: dict[Label, Annotated[StringTuple, Field(min_length=1)]] = Field(default_factory=dict)
    """Problems that count as one where evidence is counted, by kind. Unlisted problems are of one
    kind with all that have their evaluator and their space."""
    evaluation_costs: Annotated[
        tuple[Seconds, ...], Field(min_length=1), accepted_by(_check_costs)
    ] = EVALUATION_COSTS_S
    """Cost of one design, such as 10 min, where optimizers are compared in wall time."""
    tuned_on: dict[str, StringTuple] = Field(default_factory=dict)
    """Campaigns on which an optimizer's settings were chosen: kept out of the ranking."""
    exact_up_to: Annotated[int, Field(strict=True, ge=1, lt=2**63)] = 5_000_000
    """Spaces of at most so many designs are enumerated; of others the best known front is used."""

    @property
    def n_chosen(self) -> int:
        """Designs of a run that its optimizer chooses: all but the initial ones."""
        return self.budget - self.initial


@frozen
class ResolvedComparison:
    """A comparison with its problems loaded and its optimizers checked.

    Attributes:
        problems: One per problem, with the comparison's optimizers, seeds and budget; the
            ``path`` is that of the campaign file it was taken from.
        data: What each of these campaign files says, with the search replaced.
        kinds: Kind of each problem.
    """

    definition: ComparisonDefinition
    optimizers: tuple[ConfiguredOptimizer, ...]
    problems: tuple[ResolvedDefinition, ...]
    data: tuple[JsonObject, ...]
    kinds: StringTuple


def load_comparison(name_or_path: str | Path) -> ResolvedComparison:
    """A comparison's definition, resolved.

    Args:
        name_or_path: ``compare-small`` for ``runs/compare-small.yaml``, or a path.

    Raises:
        InputError: With file, line and key of what is wrong, and the nearest valid choice.
    """
    path = resources.find("comparisons", str(name_or_path))
    document = read_document(path)
    definition = parse_record(document, ComparisonDefinition, {"name": path.stem, **document.data})
    problems = [*contradictions(document, definition), *_problems_of(document, definition, path)]
    if problems:
        raise InputError(problems)
    optimizers = tuple(configured_optimizers(document, definition))
    loaded = [
        load_definition(resources.find("runs", name, document.where("problems", i)))
        for i, name in enumerate(definition.problems)
    ]
    search = {
        "optimizers": document.data["optimizers"],
        "hints": definition.hints,
        "initial": definition.initial,
        "budget": definition.budget,
        "seeds": list(definition.seeds),
        "batch": definition.batch,
        "workers": definition.workers,
    }
    data = tuple(
        {**read_document(problem.path).data, "name": problem.definition.name, **search}
        for problem in loaded
    )
    shared = {name: getattr(definition, name) for name in SearchSettings.model_fields}
    replaced = tuple(
        replace(
            problem, definition=problem.definition.model_copy(update=shared), optimizers=optimizers
        )
        for problem in loaded
    )
    stated = {
        problem_name: kind for kind, names in definition.kinds.items() for problem_name in names
    }
    derived = (
        # No stated kind has a slash.
        f"{compared.problem.evaluator_name}/{compared.problem.space.name}"
        for compared in replaced
    )
    kinds = tuple(
        stated.get(compared.definition.name, kind)
        for compared, kind in zip(replaced, derived, strict=True)
    )
    return ResolvedComparison(definition, optimizers, replaced, data, kinds)


def _problems_of(document: Document, definition: ComparisonDefinition, path: Path) -> Iterator[str]:
    """Mistakes in the names of the file."""
    if definition.name != path.stem:
        yield (
            f"{document.where('name')}: expected the name of the file, {path.stem!r}, "
            f"got {definition.name!r}"
        )
    stems = [Path(name).stem if "/" in name else name for name in definition.problems]
    for i, stem in enumerate(stems):
        if stem in stems[:i]:
            yield f"{document.where('problems', i)}: {stem!r} is listed twice"
    yield from _kind_problems(document, definition, stems)
    campaigns = {*resources.listed("runs"), *stems}
    for label, names in definition.tuned_on.items():
        where = document.where("tuned_on", label)
        if label not in definition.labels:
            yield f"{where}: {describe_unknown('optimizer', label, definition.labels)}"
        for name in names:
            if name not in campaigns:
                yield f"{where}: {describe_unknown('campaign', name, campaigns)}"


def _kind_problems(
    document: Document, definition: ComparisonDefinition, stems: Strings
) -> Iterator[str]:
    """Mistakes in the kinds: problems that are not compared, or are of two kinds."""
    kind_by_name: StringDict = {}
    for kind, names in definition.kinds.items():
        for i, name in enumerate(names):
            where = document.where("kinds", kind, i)
            if name not in stems:
                yield f"{where}: {describe_unknown('problem', name, stems)}"
            elif name in kind_by_name:
                yield f"{where}: expected one kind, but {name!r} is of {kind_by_name[name]!r} too"
            kind_by_name[name] = kind
