"""Operands of operators, and what operators store in memory."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.models.workload import list_models, load_model, lower
from codesign.models.workload.operators import Operator, build_table
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
def test_products_with_the_cache_use_as_many_elements_at_a_port_as_their_shapes_have(name, phase):
    table = lower(load_model(name), phase, 5000, 7)
    used = table.kv_read_elements_per_request + table.kv_reused_elements_per_request
    used += table.input_elements_per_request  # keys and values of this pass, where MLA expands them
    is_product = table.is_kind("attention_qk", "attention_pv")
    is_product &= np.array([rule.kernel == "attention" for rule in table.rules])
    shapes = table.products_per_request * table.k * table.n
    assert (used >= shapes * (1 - 1e-12))[is_product].all()


def test_chosen_tokens_are_gathered():
    table = lower(load_model("deepseek-v3.2"), "decode", 9000, 7)
    access = {name: rule.access for name, rule in zip(table.names, table.rules, strict=True)}
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
