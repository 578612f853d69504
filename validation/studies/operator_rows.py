"""Single operators of ``measured_calibration.csv`` as rows of a table of measured kernels.

They are of A100s: products, attention and NCCL's collectives by NVIDIA (ai-dynamo/aiconfigurator
@095f58a, Apache-2.0), and the operators of a layer and torch's all-reduce by Vidur
(microsoft/vidur, MIT), whose times include the start by a queue that is full. LLMCompass timed
operators of PyTorch from the host, one at a time; such rows are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from codesign.base.columns import StringList, StringMap
from codesign.base.errors import CodesignError
from validation.studies.kernel_table import KernelTable
from validation.studies.measured_rows import read_rows
from validation.studies.request_cases import (
    CALIBRATION_FILE,
    LeftOutError,
    find_model,
    number_of,
    table_model,
)

Row: TypeAlias = StringMap
_Sizes: TypeAlias = dict[str, str | float]
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
_SIXTEEN_BITS = ("fp16", "bf16", "bfloat16", "float16", "half")
_IS_HOST_TIMED = "the host starts each operator and waits for it"


def read_operator_rows() -> tuple[KernelTable, StringList]:
    """The rows of single operators, and why others of them are left out.

    Raises:
        InputError: The file cannot be read or lacks a column.
    """
    needed = ("kind", "device", "model", "precision", "value", "unit", "source")
    rows, lines, reasons = [], [], []
    for line, row in enumerate(read_rows(CALIBRATION_FILE, needed)[0], start=2):
        if row["kind"] not in ("op", "collective"):
            continue
        try:
            rows.append({key: str(value) for key, value in _kernel(row).items()})
            lines.append(line)
        except (LeftOutError, CodesignError) as error:
            reasons.append(str(error))
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: np.array([row.get(name, "") for row in rows]) for name in names}
    return KernelTable(columns, np.array(lines, dtype=np.int64)), reasons


def _kernel(row: Row) -> _Sizes:
    if "LLMCompass" in row["source"]:
        raise LeftOutError(_IS_HOST_TIMED)
    if row["unit"] not in _SECONDS:
        raise LeftOutError(f"unit {row['unit']!r} is not understood")
    if row["precision"] not in _SIXTEEN_BITS:
        raise LeftOutError(f"precision {row['precision']!r} is not modeled")
    seconds = number_of(row, "value") * _SECONDS[row["unit"]]
    if not seconds > 0:
        raise LeftOutError(f"expected a value above 0, got {row['value']!r}")
    shared: _Sizes = {"id": row["model"], "device": row["device"],
                      "latency_s": seconds, "framework": row["source"].partition(" ")[0],
                      "activation_dtype": "bf16"}  # fmt: skip
    return shared | _read(row)(row)


def _read(row: Row) -> Callable[[Row], _Sizes]:
    if row["kind"] == "collective":
        return _collective
    if row["model"] == "GEMM":
        return _gemm
    if row["model"].startswith("flash attention"):
        return _attention
    if row.get("tokens"):
        return _layer_operator
    raise LeftOutError(f"operator {row['model']!r} is not modeled")


def _gemm(row: Row) -> _Sizes:
    sizes: _Sizes = {size: number_of(row, f"gemm_{size}") for size in "mnk"}
    return {"family": "gemm", "operator": "gemm", "weight_dtype": "bf16", **sizes}


def _attention(row: Row) -> _Sizes:
    is_prefill = "prefill" in row["model"]
    tokens = number_of(row, "prompt")
    return {
        "family": "attention",
        "operator": "attention_prefill" if is_prefill else "attention_decode",
        "kv_dtype": "bf16",
        "batch": number_of(row, "batch"),
        "input_tokens": tokens if is_prefill else 1.0,
        "past_tokens": 0.0 if is_prefill else tokens,
        "query_heads": number_of(row, "heads"),
        "kv_heads": number_of(row, "kv_heads"),
        "head_dim": number_of(row, "head_dim"),
        "window": 0.0,
    }


def _layer_operator(row: Row) -> _Sizes:
    """Operators of one layer of one tensor-parallel rank, as Vidur profiles them."""
    name, _, operator = row["model"].rpartition(" ")
    model, tokens = table_model(find_model(name)), number_of(row, "tokens")
    share = number_of(row, "tp")
    queries = model.num_attention_heads * model.head_dim
    keys = model.num_key_value_heads * model.head_dim
    inner = model.intermediate_size / share
    products = {
        "attn_pre_proj": ((queries + 2 * keys) / share, model.hidden_size),
        "attn_post_proj": (model.hidden_size, queries / share),
        "mlp_up_proj": (model.n_up_matrices * inner, model.hidden_size),
        "mlp_down_proj": (model.hidden_size, inner),
    }
    if operator in products:
        n, k = products[operator]
        return {"family": "gemm", "operator": "gemm", "weight_dtype": "bf16",
                "m": tokens, "n": n, "k": k}  # fmt: skip
    # Elements that a token reads and writes in a layer's other kernels.
    moved = {
        "add": 3.0 * model.hidden_size,
        "input_layernorm": 2.0 * model.hidden_size,
        "mlp_act": (model.n_up_matrices + 1) * model.intermediate_size / share,
        "attn_rope": 2 * (queries + keys) / share,
    }
    if operator not in moved:
        raise LeftOutError(f"operator {operator!r} is not modeled")
    return {"family": "elementwise", "operator": operator, "m": tokens, "k": moved[operator]}


def _collective(row: Row) -> _Sizes:
    name = row["metric"].split()[0]
    if name not in _COLLECTIVES:
        raise LeftOutError(f"collective {name!r} is not modeled")
    column = "message_bytes" if row.get("message_bytes") else "message_size"
    devices = number_of(row, "n_devices")
    per_node = number_of(row, "devices_per_node") if row.get("devices_per_node") else devices
    return {
        "family": "collective",
        "operator": _COLLECTIVES[name],
        "message_bytes": number_of(row, column),
        "devices": devices,
        "nodes": max(1.0, devices / per_node),
    }
