"""Every operator of every bundled model says how several devices divide it."""

import numpy as np
import pytest

from codesign.errors import UnknownNameError
from codesign.workload import Request, list_models, load_model
from codesign.workload.split_rules import kept_part, largest_parts, split_rule, state_part


@pytest.mark.parametrize("model", list_models())
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_operator_of_every_model_has_a_rule_and_its_dimension(model, phase):
    table = Request(model=model, phase=phase, trace="osworld").operators()
    parts = largest_parts(load_model(model), np.array(4.0))
    assert all(split_rule(name).dimension in parts for name in table.names)


def test_an_operator_without_a_rule_is_refused():
    with pytest.raises(UnknownNameError, match="unknown operator 'qkv_projektion'"):
        split_rule("qkv_projektion")


def test_parts_are_those_of_the_device_with_most_heads():
    model = load_model("llama-3.3-70b")  # 64 query heads, 8 KV heads
    parts = largest_parts(model, np.array([1.0, 3.0, 64.0]))
    np.testing.assert_allclose(parts["query_heads"], [1, 22 / 64, 1 / 64])
    np.testing.assert_allclose(kept_part(model, np.array([1.0, 3.0, 64.0])), [1, 3 / 8, 1 / 8])
    # (22 + 2 x 3) of (64 + 2 x 8) heads
    np.testing.assert_allclose(parts["query_key_value"], [1, 28 / 80, 3 / 80])


def test_every_device_keeps_all_of_a_latent_and_a_part_of_a_recurrent_state():
    assert kept_part(load_model("deepseek-v3"), np.array(8.0)) == 1
    hybrid = load_model("qwen3-next-80b-a3b")  # 32 value heads, 2 KV heads
    assert state_part(hybrid, np.array(8.0)) == 1 / 8
    assert kept_part(hybrid, np.array(8.0)) == 1 / 2
