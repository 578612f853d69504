"""What operators declare of their operands and of what they store in memory."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.models.workload import list_models, load_model, lower
from codesign.models.workload.operands import operands
from codesign.models.workload.operators import NUMERIC_COLUMNS, Operator, build_table
from codesign.models.workload.storage import stored_kv_elements, stored_state_bytes

EVERY_MODEL = pytest.mark.parametrize("name", list_models())


@EVERY_MODEL
def test_every_pass_stores_the_same(name):
    model = load_model(name)
    passes = [
        {"phase": "decode"}, {"phase": "prefill"}, {"phase": "decode", "embedding": "dense"},
        {"phase": "prefill", "logits": "all"},
    ]  # fmt: skip
    sums = []
    for words in passes:
        table = lower(model, prompt_tokens=5000, generated_tokens=7, **words)
        stored = (table.count * table.stored_weight_elements,
                  stored_kv_elements(table, 9000), stored_state_bytes(table, 9000))  # fmt: skip
        sums.append([float(values.sum()) for values in stored])
    np.testing.assert_allclose(sums, [sums[0]] * len(sums), rtol=1e-12)


@EVERY_MODEL
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_operands_are_all_that_an_operator_moves(name, phase):
    table = lower(load_model(name), phase, 5000, 7)
    listed = {operand.name: operand for operand in operands(table, 3.0)}
    for column in NUMERIC_COLUMNS:
        word = column.partition("_elements_per_request")[0].partition("_bytes_per_request")[0]
        if word == column or word.startswith(("stored", "lookup")):
            continue
        word = {"input": "input_read", "output": "output_written"}.get(word, word)
        np.testing.assert_array_equal(listed[word].elements, 3.0 * getattr(table, column))
    # Products with the cache use as many elements of it at a port as their shapes have.
    used = listed["kv_read"].elements + listed["kv_reused"].elements
    used += listed["input_read"].elements  # keys and values of this pass, where MLA expands them
    is_product = table.is_kind("attention_qk", "attention_pv")
    is_product &= np.array([rule.kernel == "attention" for rule in table.rules])
    shapes = 3.0 * table.products_per_request * table.k * table.n
    assert (used >= shapes * (1 - 1e-12))[is_product].all()


def test_chosen_tokens_are_gathered():
    table = lower(load_model("deepseek-v3.2"), "decode", 9000, 7)
    (read,) = (operand for operand in operands(table, 1.0) if operand.name == "kv_read")
    access = dict(zip(table.names, read.access, strict=True))
    assert access["attention_qk"] == "gathered" and access["index_scores"] == "paged"
    dense = lower(load_model("deepseek-v3"), "decode", 9000, 7)
    assert "gathered" not in {rule.access for rule in dense.rules if rule.kernel == "attention"}


STATE = Operator(
    "linear_state_update", "vector", "attention", 1, state_written_bytes_per_request=8.0,
    stored_bytes_per_request=8.0,
)  # fmt: skip
CACHE = Operator(
    "attention_qk", "attention_qk", "attention", 1, kv_read_elements_per_request=8.0,
    stored_kv_elements_per_token=2.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "change"),
    [(STATE, {"stored_bytes_per_request": 0.0}), (CACHE, {"stored_kv_elements_per_token": 0.0}),
     (STATE, {"stored_bytes_per_request": 0.0, "state_written_bytes_per_request": 0.0,
              "state_read_bytes_per_request": 8.0})],
)  # fmt: skip
def test_data_that_are_moved_and_not_stored_are_refused(operator, change):
    build_table([operator], 1, 1)
    with pytest.raises(InputError, match=f"operator {operator.name}: expected stored_"):
        build_table([replace(operator, **change)], 1, 1)
