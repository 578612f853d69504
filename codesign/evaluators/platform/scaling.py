"""Studies that vary one number of a platform and keep the others (GenZ §VI)."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import numpy as np

from codesign.base.columns import (
    Arrays,
    Fields,
    FloatArray,
    FloatSequence,
    JsonRows,
    column_of,
    design_columns,
    values_at,
)
from codesign.base.records import frozen
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator

REFERENCE_FILE = Path(__file__).parent / "reference-npu.yaml"
"""The accelerator that the paper's studies start from."""


@frozen
class ScalingAxis:
    """The number that a study varies.

    Attributes:
        parameter: Parameter of the design that the study sets.
        field: The platform's number that factors multiply; empty if they are values themselves.
        factors: Factors of the paper.
        words: Name for tables and figures.
        section: Section of the paper that varies it.
    """

    parameter: str
    field: str
    factors: tuple[float, ...]
    words: str
    unit: str
    section: str


AXES: dict[str, ScalingAxis] = {
    "flops": ScalingAxis("compute_flop_per_s", "rates.peak_16bit_flop_per_s", (1, 2, 4, 8, 12),
                  "arithmetic rate", "FLOP/s", "VI-A, Fig. 10"),
    "bandwidth": ScalingAxis("fast_bandwidth_bytes_per_s", "fast_bandwidth", (1, 2, 4, 8, 12),
                      "memory bandwidth", "B/s", "VI-B, Fig. 11"),
    "link-bandwidth": ScalingAxis("link_bandwidth_bytes_per_s", "link.bandwidth_bytes_per_s",
                           (1, 2, 3, 6), "link bandwidth", "B/s", "VI-C, Fig. 12"),
    "link-latency": ScalingAxis("link_latency_s", "link.latency_s", (1, 0.5, 0.25, 0.05),
                         "link latency", "s", "VI-D, Fig. 13"),
    "offload": ScalingAxis("batch_size", "", (1, 2, 4, 8, 16, 32, 64),
                    "batch size", "", "VI-E, Fig. 14"),
}  # fmt: skip
"""The paper's studies: arithmetic, bandwidths and latency of the device, offload by batch."""


@frozen
class Scaling:
    """One study.

    Attributes:
        axis: The number that was varied.
        factors: (k,) multiples of the first value, or the values themselves where they are counts.
        values: (k,) values of the varied number.
        metrics: (k,) values by name of the metric.
        violations: (k,) violations by name of the limit.
    """

    axis: ScalingAxis
    factors: FloatArray
    values: FloatArray
    metrics: Arrays
    violations: Arrays

    def rows(self) -> JsonRows:
        """One row per value, with the gain over the first."""
        first, step = (
            self.metrics[name] for name in ("time_to_first_token_s", "time_per_output_token_s")
        )
        return [
            {
                "factor": float(self.factors[i]),
                "value": float(self.values[i]),
                **values_at(self.metrics, i),
                "prefill_gain": float(first[0] / first[i]),
                "decode_gain": float(step[0] / step[i]),
                "fits": all(float(values[i]) <= 0 for values in self.violations.values()),
            }
            for i in range(len(self.values))
        ]


def scale(
    evaluator: PlatformEvaluator,
    design: Fields,
    axis: ScalingAxis,
    factors: FloatSequence | None = None,
) -> Scaling:
    """Vary one number.

    Args:
        evaluator: The evaluator of the workload.
        design: The other parameters; its device gives the number that factors multiply.
        factors: Factors to use instead of the paper's.
    """
    factors_of_axis = np.asarray(axis.factors if factors is None else factors, np.float64)
    base = 1.0
    if axis.field:
        platform = evaluator.platform(design_columns(design))
        base = float(np.asarray(attrgetter(axis.field)(platform))[0])
    values = factors_of_axis * base
    varied = [round(value) if axis.parameter == "batch_size" else float(value) for value in values]
    columns = {
        name: column_of([value] * len(values))
        for name, value in design.items()
        if name != axis.parameter
    }
    result = evaluator.evaluate({**columns, axis.parameter: column_of(list(varied))})
    return Scaling(axis, factors_of_axis, values, result.metrics, result.violations)
