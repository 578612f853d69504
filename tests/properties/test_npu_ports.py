"""Bytes at the on-chip port are at least the operands used there, for all operators of all models.

The operands are counted here from the shapes of the products, and from what elementwise operators
read and write; the evaluator and the simulation count bytes in ways of their own.
"""

from functools import cache

import numpy as np
import pytest

from codesign.base.columns import Column
from codesign.evaluators.npu import NpuEvaluator, operator_times
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.evaluators.simulation.simulation_evaluator import (
    SimulationEvaluator,
    SimulationOptions,
)
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.models.workload.model_library import list_models
from codesign.space import load_space

SCORE_BYTES = 2.0
ROUNDING = 1 - 1e-9
CASES = [
    pytest.param(model, phase, id=f"{model}-{phase}")
    for model in list_models()
    for phase in ("prefill", "decode")
]


@cache
def design(name, dataflow):
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    return dict(space.columns(space.encode({**space.designs[name], "dataflow": dataflow})))


def once():
    """A design whose array takes any product at once, so that no operand streams twice."""
    array = Column(((1 << 20, 1 << 20),), np.zeros(1, dtype=np.int64))
    return {**design("D2", "os"), "pe_array": array}


def request(model, phase):
    return Request(model=model, trace="gsm8k", phase=phase, batch=4)


def used_bytes(table, batch, widths):
    """(o,) least bytes that the array or the vector unit takes from the port, and puts there."""
    size = np.full((1, 1), batch)
    rows, n_products = table.rows_per_product(size)[0], table.n_products(size)[0]
    first = rows * table.k * n_products
    second = table.k * table.n * n_products
    results = rows * table.n * n_products
    is_product = (table.m_per_request > 0) & (n_products > 0)
    read_scores = table.score_read_elements_per_request * batch
    written_scores = table.score_written_elements_per_request * batch
    is_vector = table.is_kind("vector")
    is_scored = is_product & (written_scores > 0)
    # The narrowest format of the design counts for what may be in any of them.
    least = min(widths.values())
    scores_in = np.where(is_product, np.minimum(read_scores, first), read_scores)
    reads = np.where(is_product, first - scores_in + second, 0.0) * least
    reads = reads + scores_in * SCORE_BYTES
    reads = reads + is_vector * table.input_elements_per_request * batch * widths["activation"]
    writes = np.where(is_scored, results * SCORE_BYTES, results * is_product * least)
    others = table.output_elements_per_request * widths["activation"]
    others = others + table.kv_written_elements_per_request * widths["kv"]
    writes = writes + is_vector * (others * batch + written_scores * SCORE_BYTES)
    return reads, writes


def on_chip_bytes(evaluator, columns):
    """(o,) bytes of one design at the port, by operator, fills from off chip included."""
    rows = evaluator.explain(columns).operators
    table = evaluator.pass_.all_operators
    by_name = {row["name"]: row["traffic_bytes"]["on_chip"] for row in rows}
    return np.array([by_name[name] for name in table.names])


def assert_covered(evaluator, columns):
    """The array's reads and writes each, and all of an operator with the vector unit's."""
    metrics = evaluator.metrics_of(evaluator.choose(columns))
    working, pass_ = metrics.working, evaluator.pass_
    table = pass_.all_operators
    widths = {
        name: float(getattr(working, f"{name}_bytes")[0]) for name in ("weight", "activation", "kv")
    }
    reads, writes = used_bytes(table, float(working.pass_requests[0]), widths)
    places, is_product = pass_.positions, pass_.table.m_per_request > 0
    for moved, least in (
        (metrics.moved.array_reads[0][is_product], reads[places][is_product]),
        (metrics.moved.array_writes[0][is_product], writes[places][is_product]),
        (on_chip_bytes(evaluator, columns), (reads + writes) * table.count),
    ):
        assert (moved >= least * ROUNDING).all(), np.flatnonzero(moved < least * ROUNDING)


@pytest.mark.parametrize(("model", "phase"), CASES)
def test_bytes_at_the_port_are_at_least_the_operands_used_there(model, phase):
    evaluator = NpuEvaluator(request(model, phase), NpuOptions())
    for name, dataflow in (("Base", "os"), ("D2", "ws")):
        assert_covered(evaluator, design(name, dataflow))
    assert_covered(evaluator, once())


@pytest.mark.parametrize("field", ["port_kv", "scores_in", "scores_out", "port_kv_written"])
def test_an_operand_that_is_left_out_is_found(field, monkeypatch):
    original = operator_times.port_operands

    def forgetful(table, is_charged):
        operands = original(table, is_charged)
        return {**operands, field: 0.0 * operands[field]}

    monkeypatch.setattr(operator_times, "port_operands", forgetful)
    evaluator = NpuEvaluator(request("deepseek-v3", "decode"), NpuOptions())
    with pytest.raises(AssertionError):
        assert_covered(evaluator, once())


@pytest.mark.parametrize("model", ["deepseek-v3", "qwen3-next-80b-a3b", "llama-3-8b"])
@pytest.mark.parametrize("score_path", ["on_chip", "local"])
def test_the_simulation_moves_the_same_operands_by_its_own_tiles(model, score_path):
    options = SimulationOptions(score_path=score_path, most_steps=16)
    simulated = SimulationEvaluator(request(model, "decode"), options)
    closed = NpuEvaluator(request(model, "decode"), NpuOptions(score_path=score_path))
    for dataflow in ("os", "ws"):
        moved, expected = (
            on_chip_bytes(one, design("D2", dataflow)) for one in (simulated, closed)
        )
        np.testing.assert_allclose(moved, expected, rtol=1e-6)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_local_buffer_has_its_price_and_spares_the_port(phase):
    columns = design("Base", "ws")
    on_chip, local, free = (
        NpuEvaluator(request("llama-3-8b", phase), NpuOptions(score_path=path)).evaluate(columns)
        for path in ("on_chip", "local", "uncharged")
    )
    for name in ("area_mm2", "tdp_watts", "energy_joules_per_token"):
        assert (local.metrics[name] > free.metrics[name]).all(), name
    assert (on_chip.metrics["area_mm2"] == free.metrics["area_mm2"]).all()
    speed = "throughput_tokens_per_s"
    assert (on_chip.metrics[speed] <= free.metrics[speed] * (1 + 1e-9)).all()
