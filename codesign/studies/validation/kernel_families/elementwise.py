"""Measured kernels that only move data: those of the table, and Vidur's profile of a layer."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.columns import FloatArray
from codesign.machines.device.elementwise import (
    MIXING_KINDS,
    ElementwiseConstants,
    hyper_connection_time_s,
    mixing_bytes,
    row_time_s,
    stream_time_s,
)
from codesign.studies.validation.kernel_families.log_least_squares import fit_constants
from codesign.studies.validation.kernel_families.rows import (
    basic_reasons,
    first_reason,
    predict_rows_s,
)
from codesign.studies.validation.kernel_table import KernelTable
from codesign.studies.validation.measurements import MEASURED_FILE
from codesign.studies.validation.prediction import find_model

FAMILY = "elementwise"
STREAMS = ("quantize_bf16_to_fp8", "add")
ROW_KERNELS = ("input_layernorm", "mlp_act", "attn_rope")
OPERATORS = (*STREAMS, *ROW_KERNELS, *MIXING_KINDS)
_BYTES = {"quantize_bf16_to_fp8": 3.0}
"""Bytes read and written per element of ``k``; of the others 2, as ``k`` counts both."""
_START = {
    "stream_start": 1.6e-6,
    "row_start": 4e-6,
    "mixing_start": 6e-6,
    "projection_start": 15e-6,
    "memory": 0.85,
    "cache": 0.7,
    "stream_core": 40e9,
    "row_core": 8e9,
}
_MOST = {"memory": 1.0, "cache": 1.0}


def left_out(table: KernelTable) -> NDArray[np.str_]:
    """(q,) why a row is not predicted; empty where it is."""
    reasons = basic_reasons(table, OPERATORS, ())
    mixing = np.isin(table.words("operator"), MIXING_KINDS)
    with np.errstate(invalid="ignore"):
        for name in ("m", "k"):
            reasons[f"{name} is not stated"] = ~mixing & ~(table[name] > 0)
        for name in ("tokens", "hidden", "streams"):
            reasons[f"{name} is not stated"] = mixing & ~(table[name] > 0)
    inputs = table.words("activation_dtype")
    reasons["only inputs of 16 bits are modeled"] = ~np.isin(inputs, ("bf16", "fp16"))
    return first_reason(reasons)


def predict_s(table: KernelTable, constants: ElementwiseConstants | None = None) -> FloatArray:
    """(q,) seconds; NaN where a row is left out.

    Args:
        table: (q,) rows.
        constants: For all rows; None: those shipped for each device's class.
    """
    kept = left_out(table) == ""
    return predict_rows_s(table, kept, _law, FAMILY, ElementwiseConstants, constants)


def roofline_s(table: KernelTable) -> FloatArray:
    """(q,) bytes, each once, over the memory's datasheet rate; NaN where a row is left out."""
    bound = _moved_bytes(table) / table.rates.bandwidth_bytes_per_s
    return np.where(left_out(table) == "", bound, np.nan)


def fit(table: KernelTable) -> ElementwiseConstants:
    """The constants that fit the rows best."""
    table = table.take(left_out(table) == "")
    group = np.char.add(table.words("device"), table.words("operator"))
    times_s = _law(table)
    fitted = fit_constants(
        lambda numbers: times_s(_constants(numbers)), _START, _MOST, table["latency_s"], group
    )
    return _constants(fitted)


def read_layer_profile(path: Path | str = MEASURED_FILE) -> KernelTable:
    """Vidur's additions, norms, activations and rotations as rows of a table of kernels.

    ``m`` is the tokens, ``k`` the elements that a token reads and writes. Times include the start
    by a queue that is full. LLMCompass's rows are not here: the host starts each and waits for it.
    """
    columns = ("device", "family", "operator", "m", "k", "activation_dtype", "latency_s", "model")
    rows: list[tuple[str, ...]] = []
    lines: list[int] = []
    with Path(path).open(encoding="utf-8") as file:
        for line, row in enumerate(csv.DictReader(file), start=2):
            name, _, operator = row["model"].rpartition(" ")
            if row["source"].startswith("microsoft/vidur") and operator in (*STREAMS, *ROW_KERNELS):
                elements = str(_elements_of_token(name, operator, float(row["tp"])))
                sizes = row["tokens"], elements, "fp16", str(float(row["value"]) * 1e-3)
                rows.append((row["device"], FAMILY, operator, *sizes, name))
                lines.append(line)
    text = {name: np.array([row[i] for row in rows]) for i, name in enumerate(columns)}
    return KernelTable(text, np.array(lines, dtype=np.int64))


def joined(first: KernelTable, second: KernelTable) -> KernelTable:
    """The rows of two tables; columns that only one has are empty in the other."""
    names = dict.fromkeys((*first.text, *second.text))
    text = {name: np.concatenate([first.words(name), second.words(name)]) for name in names}
    return KernelTable(text, np.concatenate([first.lines, second.lines]))


def _elements_of_token(name: str, operator: str, share: float) -> float:
    model = find_model(name)
    queries = model.num_attention_heads * model.head_dim
    keys = model.num_key_value_heads * model.head_dim
    return {
        "add": 3.0 * model.hidden_size,
        "input_layernorm": 2.0 * model.hidden_size,
        "mlp_act": (model.n_up_matrices + 1) * model.intermediate_size / share,
        "attn_rope": 2 * (queries + keys) / share,
    }[operator]


def _constants(numbers: Mapping[str, float]) -> ElementwiseConstants:
    values: dict[str, Any] = dict(numbers)
    # Numbers are in SI units already, while the record's file has them with a unit.
    return ElementwiseConstants.model_construct(**values)


def _moved_bytes(table: KernelTable) -> FloatArray:
    operator = table.words("operator")
    each = np.array([_BYTES.get(name, 2.0) for name in operator.tolist()])
    mixed = mixing_bytes(table["tokens"], table["hidden"], table["streams"])
    return np.where(np.isin(operator, MIXING_KINDS), mixed, table["m"] * table["k"] * each)


def _law(table: KernelTable) -> Callable[[ElementwiseConstants], FloatArray]:
    """The time of rows that are not left out, as a function of the constants."""
    operator, rates = table.words("operator"), table.rates
    moved, rows = _moved_bytes(table), table["m"]
    sizes = table["tokens"], table["hidden"], table["streams"]

    def times_s(constants: ElementwiseConstants) -> FloatArray:
        with np.errstate(invalid="ignore"):
            by_row = row_time_s(rows, moved / rows, rates, constants)
            times = [
                hyper_connection_time_s(kind, *sizes, rates, constants) for kind in MIXING_KINDS
            ]
        kinds = [operator == kind for kind in MIXING_KINDS]
        streams = stream_time_s(moved, rates, constants)
        return np.select([*kinds, np.isin(operator, ROW_KERNELS)], [*times, by_row], streams)

    return times_s
