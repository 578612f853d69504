"""The die edge that a design's memories take, and what of them the space does not charge."""

from __future__ import annotations

from collections.abc import Mapping

from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.models.hardware.accelerator import UNCHARGED_EDGE


def memory_edge_mm(evaluated: EvaluatedDesign) -> float | None:
    """Die edge that the evaluator lets memory take; None if it knows no such limit."""
    options = evaluated.evaluator.provenance().get("options")
    edge = options.get("memory_edge_m") if isinstance(options, Mapping) else None
    return 1e3 * float(edge) if isinstance(edge, int | float) else None


def edge_words(evaluated: EvaluatedDesign) -> str:
    """Such as "44 of 66 mm; 36 mm of LPDDR not charged"; empty if the evaluator knows no edge."""
    limit_mm = memory_edge_mm(evaluated)
    charged_mm = evaluated.metrics.get("shoreline_mm")
    if limit_mm is None or charged_mm is None:
        return ""
    words = f"{charged_mm:.4g} of {limit_mm:.4g} mm"
    uncharged_mm = evaluated.metrics.get("uncharged_shoreline_mm", 0.0)
    if not uncharged_mm:
        return words
    return f"{words}; {uncharged_mm:.4g} mm of {evaluated.design[UNCHARGED_EDGE]} not charged"
