"""An explained front as one document, with every digit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign.base.columns import FloatArray, IntArray
    from codesign.insight.explanation import FrontExplanation
    from codesign.insight.explanation.absence import Absence, Miss
    from codesign.insight.explanation.explained_front import FoldedValue
    from codesign.insight.explanation.prices import Move, Price


def document(explanation: FrontExplanation, name: str) -> dict[str, Any]:
    """The explanation; objectives in natural sign, derived quantities in coherent SI units."""
    plain = _Plain(explanation)
    front = explanation.front
    return {
        "campaign": name,
        "n_points": len(front),
        "tolerance": explanation.tolerance,
        "n_kept_points": len(explanation.kept),
        "n_front_designs": int(front.counts.sum()),
        "n_unlisted_designs": explanation.n_unlisted,
        "n_designs": front.n_designs,
        "choices": plain.choices(),
        "derived": {
            item.name: {"low": item.low, "high": item.high, "shown_in": item.unit}
            for item in explanation.derived
        },
        "improvement": explanation.measure.kind,
        "folded": [plain.folded(item) for item in explanation.folded_values],
        "absent": [plain.absence(item) for item in explanation.absences],
        "step": explanation.prices.step,
        "reference_point": plain.natural(explanation.prices.reference),
        "hypervolume": explanation.prices.hypervolume,
        "limits": [plain.price(item) for item in explanation.prices.items],
        "unpriced": explanation.unpriced,
        "knees": plain.knees(),
        "n_enumerated": explanation.n_enumerated,
        "seconds": explanation.seconds,
    }


@dataclass(frozen=True)
class _Plain:
    """Parts of one explanation as mappings."""

    explanation: FrontExplanation

    def by_name(self, values: FloatArray) -> dict[str, float]:
        """Numbers by objective."""
        names = self.explanation.problem.objective_names
        return dict(zip(names, values.tolist(), strict=True))

    def natural(self, objectives: FloatArray) -> dict[str, float]:
        """Minimized objectives as metrics."""
        return self.by_name(self.explanation.problem.flipped(objectives))

    def design(self, row: IntArray) -> dict[str, Any]:
        """Values of the parameters that the design has."""
        (decoded,) = self.explanation.problem.space.decode(row[None, :])
        return {key: value for key, value in decoded.items() if value is not None}

    def choices(self) -> list[dict[str, Any]]:
        """Points of the front by parameter and value."""
        n = len(self.explanation.front)
        return [
            {
                "parameter": choice.name,
                "shared_by_all": choice.is_shared,
                "values": [
                    {"value": value, "points": points, "share": points / n, "kept_points": kept}
                    for value, points, kept in zip(
                        choice.values, choice.points, choice.kept_points, strict=True
                    )
                ],
            }
            for choice in self.explanation.choices
        ]

    def folded(self, item: FoldedValue) -> dict[str, Any]:
        """A value that only folded points have."""
        return {
            "parameter": item.choice.name,
            "value": item.value,
            "objectives": self.natural(self.explanation.front.objectives[item.point]),
            "folded_under": self.natural(self.explanation.front.objectives[item.host]),
        }

    def absence(self, item: Absence) -> dict[str, Any]:
        """A value that the front does not have."""
        return {
            "parameter": item.choice.name,
            "value": item.value,
            "n_designs": item.n_designs,
            "nearest_miss": None if item.miss is None else self._miss(item.miss),
            "n_looked_at": item.n_looked_at,
            "broken_limits": item.broken,
        }

    def _miss(self, item: Miss) -> dict[str, Any]:
        return {
            "design": self.design(item.row),
            "objectives": self.natural(item.objectives),
            "regret": item.regret,
            "lacks_alone": self.by_name(item.alone),
            "dominated_by": {
                "design": self.design(item.dominator),
                "objectives": self.natural(self.explanation.front.objectives[item.point]),
                "better_by": self.by_name(item.better),
            },
        }

    def price(self, item: Price) -> dict[str, Any]:
        """A limit."""
        return {
            "limit": item.limit.text,
            "set_by": item.limit.source,
            "moved_with": item.limit.tied,
            "unit": item.limit.unit,
            "state": item.state,
            "least_used": item.used[0],
            "most_used": item.used[1],
            "next_point": None if item.next_point is None else self.natural(item.next_point),
            "looser": self._move(item.looser),
            "tighter": self._move(item.tighter),
        }

    def _move(self, item: Move) -> dict[str, Any]:
        return {
            "limit": item.number,
            "n_points": item.n_points,
            "hypervolume": item.hypervolume,
            "hypervolume_change": item.change,
            "hypervolume_per_unit": item.price,
            "best": self.natural(item.best),
            "best_improvement_per_unit": self.by_name(item.best_change),
        }

    def knees(self) -> list[dict[str, Any]]:
        """The knees, the sharpest first."""
        front = self.explanation.front
        rows = front.representatives()
        return [
            {
                "distance": knee.distance,
                "objectives": self.natural(front.objectives[knee.point]),
                "design": self.design(rows[knee.point]),
            }
            for knee in self.explanation.knees
        ]
