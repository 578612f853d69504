"""Answers about one design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from pydantic import SkipValidation

from codesign.answers.answer import Answer, Design, Entry, Number, Numbers
from codesign.answers.uncertainty import Uncertainty
from codesign.base.columns import Fields, FloatArray, IntArray, JsonObject, Strings
from codesign.base.explanation_rows import CostRow, FloorplanRow, LevelRow, OperatorRow, PowerRow
from codesign.base.records import drop_none
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.explanation.distance import Measure
from codesign.search.problem import Problem


class TimelineRow(Entry):
    """A pool or a link on the way of one request that never waits.

    Attributes:
        name: Name of the pool or the link.
        machines: Machines of the pool, or pairs that send side by side on the link.
        start_s: Arrival of the request, from the start of its prefill. A hand-over begins with the
            first data of the sender, a prefill with its first layer.
        step_s: Time of the prefill or of one decode step; delay of the request on a link.
        batch_size: Requests of a machine; null where the machines do not report it.
        requests_per_s: Rate of all its machines if they are always busy.
        utilization: Share of the time in which it is busy.
        joules_per_request: Energy; null where the machines report none.
        bytes: Bytes of the request on a link; 0 for a pool.
        sets_rate: True if it sets the system's rate.
    """

    name: str
    kind: Literal["prefill", "decode", "hand-over", "exchange"]
    machines: int
    start_s: float
    end_s: float
    step_s: float
    batch_size: Number
    requests_per_s: Number
    utilization: float
    joules_per_request: Number
    bytes: float
    sets_rate: bool


class FrontDistance(Entry):
    """Distance of a feasible design to the exact front of its campaign.

    Attributes:
        improvement: Measure: factors (1: none), or shares of the range of the front (0: none).
        regret: Improvement of one objective, the others as they are, that reaches the front.
        n_dominating: Points of the front that dominate the design.
        dominator: Design of the front that dominates it by the largest margin; null on the front.
        objectives: Metrics of the dominator.
    """

    improvement: Literal["factor", "share of range"]
    regret: float
    n_dominating: int
    dominator: Design | None
    objectives: Numbers | None

    @property
    def words(self) -> str:
        """The distance in a sentence."""
        if not self.n_dominating:
            return "Nothing on the front dominates this design."
        measure = f"regret {self.regret:.4g}, a {self.improvement}"
        return f"{self.n_dominating:,} points of the front dominate this design: {measure}."

    @classmethod
    def describe(
        cls, problem: Problem, front: FloatArray, rows: IntArray, metrics: Numbers
    ) -> Self:
        """The distance of a design with these metrics.

        Args:
            front: (p, m) points, minimized.
            rows: (p, d) a design of each point.
        """
        natural = np.array([[metrics[name] for name in problem.objective_names]], float)
        point = problem.flipped(natural)
        measure = Measure.build(front, problem.senses)
        regret = float(measure.regret(point)[0])
        places = measure.dominating(point[0]) if measure.matters(regret) else ()
        fields: JsonObject = {"dominator": None, "objectives": None}
        if len(places):
            leads = [measure.gaps_between(point[0], front[k]).max() for k in places]
            place = places[np.argmax(leads)]
            fields = {
                "dominator": problem.space.design(rows[place]),
                "objectives": problem.natural_values(front[place]),
            }
        return cls(improvement=measure.kind, regret=regret, n_dominating=len(places), **fields)


class EvaluateAnswer(Answer, version=2):
    """One design explained: metrics, limits, operators, memories, power.

    Attributes:
        campaign: Campaign; with --campaign.
        workload: Workload by the keys of the evaluator.
        options: Options that were set.
        profile: Profile of the evaluator; null if it has none.
        derived: Derived quantities of the space, SI units.
        feasible: True if it keeps every limit.
        violations: Relative excess by limit; at most 0 if the design keeps it.
        operators: Operators; rows of an evaluator may have further keys, here and below.
        levels: Levels of memory.
        costs: Area and price of one device, by block and part.
        floorplan: Rectangles of the die's blocks; empty if an area is unknown.
        notes: Limits of the numbers, one sentence each.
        pass_s: Time of one pass; null if the evaluator has no passes.
        timeline: One request through a system: a row for each pool and hand-over.
        uncertainty: Metrics over the ranges; with --uncertainty.
        distance: Distance to the exact front, if it is stored; with --campaign, for a feasible
            design.
    """

    space: str
    campaign: str | None = None
    evaluator: str
    workload: Fields
    options: Fields
    profile: str | None
    design: Design
    derived: Numbers
    feasible: bool
    metrics: Numbers
    violations: Numbers
    operators: SkipValidation[Sequence[OperatorRow]]
    levels: SkipValidation[Sequence[LevelRow]]
    power: SkipValidation[Sequence[PowerRow]]
    costs: SkipValidation[Sequence[CostRow]]
    floorplan: SkipValidation[Sequence[FloorplanRow]]
    notes: Strings
    pass_s: Number
    timeline: Sequence[TimelineRow] | None = None
    uncertainty: Uncertainty | None = None
    distance: FrontDistance | None = None

    @classmethod
    def describe(cls, evaluated: EvaluatedDesign, **fields: Any) -> Self:
        """The answer about an evaluated design; absent parameters are left out."""
        explanation = evaluated.explanation
        if explanation.timeline:
            fields["timeline"] = explanation.timeline
        return cls.read(
            explanation,
            space=evaluated.space.name,
            **evaluated.inputs,
            profile=evaluated.reading.get("profile"),
            design=drop_none(evaluated.design),
            derived=evaluated.derived,
            feasible=evaluated.is_feasible,
            violations=evaluated.violations,
            **fields,
        )
