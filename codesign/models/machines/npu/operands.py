"""Operands of every unit of the NPU at the on-chip port, from the shapes of its operators.

A product takes all of its two operands from the port and puts all of its results there, whatever
off-chip memory sends: a latent cache is read once and streamed as keys and as values, the state of
linear attention is updated once per chunk, and a new key goes to on-chip memory first. Scores and
the vector unit's operands have a path of their own (``score_path``).
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import Arrays
from codesign.models.machines.npu.stage_records import VectorOperands
from codesign.models.workload.operators import OperatorTable

_PORT_OPERANDS = (
    "scores_in", "scores_out", "port_kv", "port_kv_written", "port_activations", "port_outputs",
    "port_state_written",
)  # fmt: skip


def port_operands(table: OperatorTable, is_charged: bool) -> Arrays:
    """(o,) elements of one instance and request that operators move besides inputs and outputs.

    By their names in :class:`codesign.models.machines.npu.stage_records.StageOperator`.

    Args:
        is_charged: Whether all operands count, or only what memories keep (``uncharged``).
    """
    kept = table.kv_read_elements_per_request
    if not is_charged:
        return dict.fromkeys(_PORT_OPERANDS, np.zeros(len(table))) | {"port_kv": kept}
    # Products with weights of the batch move their inputs, weights and outputs as they are.
    repeats = table.products_per_request
    rows = table.m_per_request * repeats
    is_product = rows > 0
    scores_in = np.where(is_product, table.score_read_elements_per_request, 0.0)
    results = rows * table.n
    # An indexer adds the scores of its heads up in the vector unit.
    scores_out = np.where(is_product & (table.score_written_elements_per_request > 0), results, 0.0)
    first = rows * table.k - scores_in
    second = table.k * table.n * repeats
    # A byte of state counts as an element: no format of a state is narrower.
    moved = table.input_elements_per_request + kept + table.state_read_bytes_per_request
    absent = np.where(is_product, np.maximum(first + second - moved, 0.0), 0.0)
    is_softmax = table.is_kind("attention_qk", "attention_pv")
    stored = table.kv_written_elements_per_request
    state = table.state_written_bytes_per_request
    left = results - scores_out - table.output_elements_per_request - stored - state
    operands = (
        scores_in,
        scores_out,
        kept + np.where(is_softmax, absent, 0.0),
        stored,
        np.where(is_softmax, 0.0, absent),
        np.where(is_product, np.maximum(left, 0.0), 0.0),
        state,
    )
    return dict(zip(_PORT_OPERANDS, operands, strict=True))


def vector_operands(table: OperatorTable, is_fused: bool, is_by_operation: bool) -> VectorOperands:
    """(o,) operands of the vector unit in one instance of each operator, for one request.

    Args:
        is_fused: Whether elementwise operators have no other traffic.
        is_by_operation: True if every operation of the vector unit is an instruction of its own,
            which reads an operand of 16 bits on chip and writes one.
    """
    if is_by_operation:
        nothing = np.zeros(len(table))
        return VectorOperands(nothing, nothing, table.vector_ops_per_request)
    works = table.vector_ops_per_request > 0
    is_vector = table.is_kind("vector")
    is_biased = table.is_kind("gemm") & works
    read = table.input_elements_per_request
    written = table.output_elements_per_request
    scores = table.score_read_elements_per_request + table.score_written_elements_per_request
    # An indexer's scores of all heads come in, and their sum goes out.
    results = table.m_per_request * table.n * table.products_per_request
    is_index = table.is_kind("attention_qk") & works
    return VectorOperands(
        reads=np.where(is_biased, written, read * (is_vector & is_fused)),
        writes=np.where(is_biased, written, written * (is_vector & is_fused)),
        scores=np.where(is_index, results + scores, scores * is_vector) / 2.0,
    )
