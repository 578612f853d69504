"""A cheaper evaluator of the same objectives, which promising designs pass before the dear one.

It is a problem of its own over the same space: objectives and constraints are the campaign's, with
its metrics in the place of theirs. What it says of a design never counts as a result.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from codesign.base import plugins
from codesign.base.columns import Fields, StringList
from codesign.base.errors import ProblemList, describe_unknown
from codesign.base.evaluator import Evaluator
from codesign.base.schema import Document, parse_record
from codesign.base.units import parse_quantity
from codesign.evaluators.command.command_options import CheaperModel
from codesign.search.campaign.execution_settings import Duration
from codesign.search.optimizers.base import ScreeningTerms
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem

_KEY = "screening"


class Screening(CheaperModel):
    """The key ``screening:`` of a campaign file.

    Attributes:
        cost: Time that the cheaper evaluator takes for a design, such as ``500 ms``, as declared:
            what is measured is stored, and decides nothing.
        target_cost: Time that the campaign's own evaluator takes for a design.
        share: Most time for the cheaper evaluator, as a share of that for the campaign's own.
    """

    cost: Duration
    target_cost: Duration
    share: Annotated[float, Field(gt=0, le=10)] = 0.2

    def check_fields(self) -> None:
        if self.terms.cost >= 1:
            raise ValueError(
                f"expected a cost below target_cost, {self.target_cost}, got {self.cost}"
            )

    @property
    def cost_s(self) -> float:
        """``cost`` in seconds."""
        return parse_quantity(self.cost, "s")

    @property
    def target_cost_s(self) -> float:
        """``target_cost`` in seconds."""
        return parse_quantity(self.target_cost, "s")

    @property
    def terms(self) -> ScreeningTerms:
        """Terms that optimizers need to know."""
        return ScreeningTerms(self.cost_s / self.target_cost_s, self.share)


def screening_problem(
    document: Document, screening: Screening, workload: Fields, target: Problem | None
) -> Problem | None:
    """The campaign's problem as the cheaper evaluator has it.

    Args:
        screening: Definition of the cheaper evaluator.
        target: The campaign's problem; if None, only the definition is checked.

    Raises:
        InputError: The evaluator cannot be used; a metric that decides is missing or has another
            unit.
    """
    factory = plugins.load("evaluators", screening.name, document.where(_KEY))
    stated = workload if screening.workload is None else screening.workload
    place = ("workload",) if screening.workload is None else (_KEY, "workload")
    problems = ProblemList()
    with problems.caught():
        stated_workload = parse_record(document, factory.Workload, stated, place)
    with problems.caught():
        options = parse_record(document, factory.Options, screening.options, (_KEY, "options"))
    problems.raise_any()
    if target is None:
        return None
    evaluator: Evaluator = factory(stated_workload, options)
    names = {
        name: screening.metrics.get(name, name)
        for name in target.sources_of(target.deciding_metrics)
    }
    ProblemList(_metric_problems(document, screening, target, evaluator)).raise_any()
    return build_problem(
        target.space,
        evaluator,
        [
            f"{objective.sense} {names.get(objective.metric.name, objective.metric.name)}"
            for objective in target.objectives
        ],
        [constraint.expression.renamed(names) for constraint in target.constraints],
        screening.name,
        lambda *_: document.where(_KEY),
        (
            {
                derived_metric.metric.name: derived_metric.definition.model_copy(
                    update={"value": derived_metric.expression.renamed(names)}
                )
                for derived_metric in target.derived
                if derived_metric.metric.name in target.deciding_metrics
            }
        ),
    )


def _metric_problems(
    document: Document, screening: Screening, target: Problem, evaluator: Evaluator
) -> StringList:
    theirs = {metric.name: metric.unit for metric in evaluator.metrics}
    units = {metric.name: metric.unit for metric in target.evaluator.metrics}
    problems = [
        f"{document.where(_KEY, 'metrics', name)}: {describe_unknown('metric', name, units)}"
        for name in screening.metrics
        if name not in units
    ]
    for name in target.sources_of(target.deciding_metrics):
        their_name = screening.metrics.get(name, name)
        key = ("metrics", name) if name in screening.metrics else ("metrics",)
        where = document.where(_KEY, *key)
        if their_name not in theirs:
            problems.append(f"{where}: {describe_unknown('metric', their_name, theirs)}")
        elif theirs[their_name] != units[name]:
            problems.append(
                f"{where}: expected a metric in {units[name] or 'no unit'} for {name}, "
                f"got {their_name} in {theirs[their_name] or 'no unit'}"
            )
    return problems
