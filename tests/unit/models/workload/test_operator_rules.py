"""Every operator of every bundled model says how several devices divide it."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.base.errors import UnknownNameError
from codesign.models.workload import Request, list_models, load_model
from codesign.models.workload.dimension_parts import largest_parts
from codesign.models.workload.operator_rules import operator_rule
from codesign.models.workload.operators import Operator, build_table


@pytest.mark.parametrize("model", list_models())
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_operator_of_every_model_has_a_rule_and_its_dimension(model, phase):
    request = Request(model=model, phase=phase, trace="gsm8k")
    table = request.operators()
    parts = largest_parts(load_model(model), np.array(4.0))
    assert all(rule.dimension in parts for rule in table.rules)


@pytest.mark.parametrize("model", list_models())
def test_what_only_one_phase_does_is_not_shared_with_the_other(model):
    if load_model(model).is_diffusion:
        return  # both phases are whole passes
    prefill, decode = (
        dict(zip(table.names, table.rules, strict=True))
        for phase in ("prefill", "decode")
        for table in [Request(model=model, phase=phase, trace="gsm8k").operators()]
    )
    for name in prefill.keys() ^ decode.keys():
        assert (prefill | decode)[name].scope == "phase", name


def test_an_operator_without_a_rule_is_refused_when_it_is_lowered():
    with pytest.raises(UnknownNameError, match="unknown operator 'qkv_projektion'"):
        build_table([Operator("qkv_projektion", "gemm", "attention", 1)], 1, 1)


def test_parts_are_those_of_the_device_with_most_heads():
    model = load_model("llama-3.3-70b")  # 64 query heads, 8 KV heads
    parts = largest_parts(model, np.array([1.0, 3.0, 64.0]))
    np.testing.assert_allclose(parts["query_heads"], [1, 22 / 64, 1 / 64])
    np.testing.assert_allclose(parts["kv_heads"], [1, 3 / 8, 1 / 8])
    # (22 + 2 x 3) of (64 + 2 x 8) heads
    np.testing.assert_allclose(parts["query_key_value"], [1, 28 / 80, 3 / 80])


def test_every_device_keeps_all_of_a_latent_and_a_part_of_a_recurrent_state():
    assert largest_parts(load_model("deepseek-v3"), np.array(8.0))["kv_heads"] == 1
    hybrid = load_model("qwen3-next-80b-a3b")  # 32 value heads, 2 KV heads
    parts = largest_parts(hybrid, np.array(8.0))
    assert parts["value_heads"] == 1 / 8 and parts["kv_heads"] == 1 / 2


def test_feed_forward_layers_have_the_same_roles_whoever_shares_them():
    parts = ("gate_up_projection", "up_projection", "activation", "down_projection")
    roles = [[operator_rule(f"{kind}{name}").role for name in parts]
             for kind in ("", "shared_", "expert_")]  # fmt: skip
    assert roles == [["up", "up", "activation", "down"]] * 3


def test_attention_of_layers_that_slide_differs_from_other_attention_in_its_window_alone():
    for name in ("attention_qk", "softmax", "attention_pv"):
        slides = operator_rule(f"sliding_{name}")
        assert slides.is_windowed and not operator_rule(name).is_windowed
        assert replace(slides, is_windowed=False) == operator_rule(name)
