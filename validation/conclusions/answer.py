"""The claims answered: measured on exact fronts under both profiles, and what the answers need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from codesign.base.columns import IntArray
from codesign.base.errors import InfeasibleError
from codesign.base.loop_progress import counted
from codesign.base.records import drop_none, frozen
from codesign.models.workload.lowering import Phase
from codesign.report.labels import design_words
from codesign.search.enumeration import ExactFront
from codesign.search.problem import Problem
from validation.conclusions.claims import CLAIMS, Claim, ClaimedChoice, Measure
from validation.conclusions.loss import NOTICEABLE, Curve, Loss, Verdict
from validation.conclusions.setting import (
    CAP_WATTS,
    LARGEST_CAP_WATTS,
    PROFILES,
    FrontStore,
    Profile,
    Setting,
    request_of,
    varied,
)
from validation.conclusions.sharing import Sharing

CAPS_WATTS = (100.0, 200.0, 300.0, 500.0, CAP_WATTS, 1000.0, LARGEST_CAP_WATTS)
"""Limits on TDP under which every claim is looked at."""
BASES = tuple(map(Setting, PROFILES))
"""Settings of the campaigns."""
_PHASES: tuple[Phase, ...] = ("prefill", "decode")


@frozen
class AnsweredDesign:
    """A design that shows what an answer means.

    Attributes:
        role: What it is the best of.
        words: The design.
        tokens_per_s: Of its phase.
        tdp_watts: Of the device.
    """

    role: str
    words: str
    tokens_per_s: float
    tdp_watts: float


@frozen
class Answer:
    """Answer of the exact fronts of one profile to a claim.

    Attributes:
        losses: What leaving out the claim's choice costs, by cap.
        beside: The same at the campaigns' cap for other choices, by name.
        points: Points of the front up to that cap, and how many have a design with the choice;
            None where no single front answers.
        designs: The best with the choice allowed and without.
        shifts: Loss at the campaigns' cap in other settings, by what is different; None: no
            design is feasible there.
    """

    claim: Claim
    profile: Profile
    losses: Mapping[float, Loss]
    beside: Mapping[str, Loss]
    points: tuple[int, int] | None
    designs: Sequence[AnsweredDesign]
    shifts: Mapping[str, Loss | None]

    @property
    def loss(self) -> Loss:
        """At the campaigns' cap."""
        return self.losses[CAP_WATTS]

    @property
    def verdict(self) -> Verdict:
        """At the campaigns' cap."""
        return self.loss.verdict(self.claim.measures)

    @property
    def flips(self) -> Mapping[str, Loss]:
        """Changes that give another verdict: other caps, then other settings."""
        others = {f"cap {cap:,.0f} W": loss for cap, loss in self.losses.items()}
        return {
            name: loss
            for name, loss in (others | drop_none(self.shifts)).items()
            if loss.verdict(self.claim.measures) != self.verdict
        }


def answer_claims(
    store: FrontStore,
    claims: Sequence[Claim] = CLAIMS,
    bases: Sequence[Setting] = BASES,
) -> list[Answer]:
    """Answer each claim in each setting.

    Args:
        bases: One setting per profile, with the largest cap.

    Raises:
        InfeasibleError: Nothing is feasible at the campaigns' cap in one of these settings.
    """
    pairs = [(claim, base) for claim in claims for base in bases]
    return [_ClaimInSetting(store, *pair).answer() for pair in counted(pairs, "claims")]


class _ClaimInSetting:
    """A claim in a setting."""

    def __init__(self, store: FrontStore, claim: Claim, base: Setting) -> None:
        self._store, self._claim, self._base = store, claim, base
        self._shared: dict[Setting, Sharing] = {}

    def answer(self) -> Answer:
        claim, base = self._claim, self._base
        others = [varied(replace(base, cap_watts=CAP_WATTS), name) for name in claim.varied]
        return Answer(
            claim=claim,
            profile=base.profile,
            losses={cap: loss for cap in CAPS_WATTS if (loss := self._loss(base, cap)) is not None},
            beside={
                other_choice.name: loss
                for other_choice in claim.beside
                if (loss := self._loss(base, CAP_WATTS, other_choice)) is not None
            },
            points=self._points(),
            designs=self._designs(),
            shifts={setting.label: self._loss(setting, CAP_WATTS) for setting in others},
        )

    def _loss(
        self, setting: Setting, cap: float, choice: ClaimedChoice | None = None
    ) -> Loss | None:
        """None where nothing at all is feasible."""
        left_out = choice or self._claim.choice
        if self._claim.phase is None or left_out is None:
            return self._loss_of_sharing(setting, cap)
        fronts = self._fronts(setting, self._claim.phase, left_out)
        if setting.objectives:
            best = tuple(
                max((-float(front.objectives[0, 0]) for front in part if front), default=0.0)
                for part in fronts
            )
            return Loss(cap, (float("nan"), float("nan")), (best[0], best[1]))
        everything, without = (Curve.joined(front) for front in fronts)
        loss = Loss.compare(everything, without, cap)
        return loss if loss.rate[0] > 0 else None

    def _fronts(
        self, setting: Setting, phase: Phase, choice: ClaimedChoice
    ) -> tuple[list[ExactFront | None], list[ExactFront | None]]:
        """Fronts of all designs, and of designs without the choice, in slices."""
        fronts_without = [
            self._store.front(setting, phase, variation) for variation in choice.without
        ]
        return [self._store.front(setting, phase)], fronts_without

    def _points(self) -> tuple[int, int] | None:
        claim = self._claim
        if claim.phase is None or claim.choice is None:
            return None
        front = self._store.front(self._base, claim.phase)
        if front is None:
            return None
        space = self._store.problem(self._base, claim.phase).space
        has = space.parse(claim.choice.condition).evaluate(space.values(front.rows)) > 0
        inside = front.objectives[front.point, 1] <= CAP_WATTS
        return len(np.unique(front.point[inside])), len(np.unique(front.point[inside & has]))

    # Prefill and decode together

    def _sharing(self, setting: Setting) -> Sharing:
        if setting not in self._shared:
            problems = {phase: self._store.problem(setting, phase) for phase in _PHASES}
            tokens = {phase: self._tokens(setting, phase) for phase in _PHASES}
            self._shared[setting] = Sharing(problems, tokens)
        return self._shared[setting]

    def _tokens(self, setting: Setting, phase: Phase) -> float:
        return float(request_of(self._store.problem(setting, phase)).tokens_of_phase)

    def _loss_of_sharing(self, setting: Setting, cap: float) -> Loss | None:
        sharing = self._sharing(setting)
        measured = []
        for measure in self._claim.measures:
            total = 0.0
            for phase in _PHASES:
                best = Curve.joined([self._store.front(setting, phase)]).best(measure, cap)
                total += self._tokens(setting, phase) / best if best > 0 else float("inf")
            if not np.isfinite(total):
                return None
            try:
                shared = sharing.best(measure, cap).cost
            except InfeasibleError:
                shared = float("inf")
            measured.append((1.0 / total, 1.0 / shared))
        return Loss(cap, measured[0], measured[1])

    # Designs that show what the answer means

    def _designs(self) -> list[AnsweredDesign]:
        claim, base = self._claim, self._base
        if claim.phase is not None and claim.choice is not None:
            everything, without = self._fronts(base, claim.phase, claim.choice)
            problem = self._store.problem(base, claim.phase)
            measure, less = claim.measures[0], f"best without {claim.choice.name}"
            return [
                *_cheapest("best of all", problem, everything, measure),
                *_cheapest(less, problem, without, measure),
            ]
        described_designs = []
        problems = {phase: self._store.problem(base, phase) for phase in _PHASES}
        for phase, problem in problems.items():
            described_designs += _cheapest(
                f"best for {phase}", problem, [self._store.front(base, phase)]
            )
        shared = self._sharing(base).best("rate", CAP_WATTS)
        for phase, problem in problems.items():
            described_designs.append(
                _describe_design(f"shared memory, {phase}", problem, shared.rows[phase])
            )
        return described_designs


def _cheapest(
    role: str,
    problem: Problem,
    fronts: Sequence[ExactFront | None],
    measure: Measure = "rate",
) -> list[AnsweredDesign]:
    """The design of least TDP among those near the best at the campaigns' cap; none if there are
    none."""
    best = Curve.joined(fronts).best(measure, CAP_WATTS)
    near = []
    for position, front in enumerate(fronts):
        if front is not None:
            rate, tdp = -front.objectives[:, 0], front.objectives[:, 1]
            values = rate if measure == "rate" else rate / tdp
            enough = (values >= (1.0 - NOTICEABLE) * best) & (tdp <= CAP_WATTS)
            near += [(float(tdp[i]), position, int(i)) for i in np.flatnonzero(enough)]
    if not near:
        return []
    _, position, i = min(near)
    front = fronts[position]
    assert front is not None
    return [_describe_design(role, problem, front.representatives()[i][None, :])]


def _describe_design(role: str, problem: Problem, row: IntArray) -> AnsweredDesign:
    metrics = problem.evaluate(row).metrics
    (words,) = design_words(problem.space, problem.space.decode(row))
    rate, tdp = metrics["throughput_tokens_per_s"], metrics["tdp_watts"]
    return AnsweredDesign(role, words, float(rate[0]), float(tdp[0]))
