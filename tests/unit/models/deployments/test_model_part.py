"""What one of several devices holds and does, against what all of them must do together."""

from functools import cache

import numpy as np
import pytest

from codesign.models.deployments import SINGLE, Parallelism, model_part
from codesign.models.deployments.model_part import cut_operators
from codesign.models.workload import Request, list_models, lower
from tests.laws import is_at_most

PHASES = ("prefill", "decode")


@cache
def request_of(model, phase="decode"):
    return Request(model=model, phase=phase, trace="gsm8k")


def total(table, values):
    return float((values * table.count).sum())


@pytest.mark.parametrize("model", list_models())
@pytest.mark.parametrize("phase", PHASES)
def test_one_device_alone_has_everything(model, phase):
    request = request_of(model, phase)
    part = model_part(request, SINGLE)
    assert part.weight_elements == request.weight_elements
    assert part.kv_elements_per_request == request.kv_elements_per_request
    assert part.state_bytes_per_request == request.state_bytes_per_request
    assert part.messages.n_messages == 0


@pytest.mark.parametrize("model", list_models())
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("ranks", [2, 8])
def test_devices_together_do_no_less_than_one_alone(model, phase, ranks):
    request = request_of(model, phase)
    table = request.operators()
    part = model_part(request, Parallelism(ranks, 1))
    for name in ("mac_per_request", "kv_read_elements_per_request", "state_read_bytes_per_request"):
        of_all, of_part = getattr(table, name), getattr(part.table, name)
        assert is_at_most(of_all, of_part * ranks), name
        assert is_at_most(of_part, of_all), name
    assert is_at_most(request.weight_elements, part.weight_elements * ranks)
    # What is not cut: norms, routers, latents and more of their like.
    assert part.weight_elements * ranks <= request.weight_elements * 1.02


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("model", ["llama-3.3-70b", "qwen3-32b", "mixtral-8x22b"])
def test_where_every_dimension_divides_products_are_cut_exactly(model, phase):
    table = request_of(model, phase).operators()
    part = cut_operators(table, request_of(model, phase).language_model, 8)
    is_cut = np.array([name != "router" for name in table.names])
    np.testing.assert_allclose(8 * part.mac_per_request[is_cut], table.mac_per_request[is_cut])
    attention = table.is_attention
    np.testing.assert_allclose(
        8 * part.kv_read_elements_per_request[attention],
        table.kv_read_elements_per_request[attention],
    )


def test_more_devices_than_kv_heads_share_keys_and_divide_the_queries():
    table = request_of("llama-3.3-70b").operators()  # 8 KV heads with 8 query heads each
    part = cut_operators(table, request_of("llama-3.3-70b").language_model, 16)
    i = table.names.index("attention_qk")
    assert part.products_per_request[i] == 1
    assert part.m_per_request[i] == table.m_per_request[i] / 2
    assert part.kv_read_elements_per_request[i] == table.kv_read_elements_per_request[i] / 8


def test_queries_and_uncached_columns_of_the_fused_projection_add_up():
    model = request_of("llama-3.3-70b").language_model
    table = request_of("llama-3.3-70b").operators()
    part = cut_operators(table, model, 8)
    i = table.names.index("qkv_projection")
    written, outputs = part.kv_written_elements_per_request[i], part.output_elements_per_request[i]
    assert written == table.kv_written_elements_per_request[i] / 8
    assert written + outputs == part.n[i]


def test_what_each_head_has_of_weights_is_cut_with_the_heads():
    request = request_of("qwen3-next-80b-a3b")
    model = request.language_model.model_copy(update={"has_attention_sinks": True})
    table = lower(model, "decode", 1, 1, context=100)
    part = cut_operators(table, model, 4)
    parts = {
        name: part.weight_elements[i] / table.weight_elements[i]
        for i, name in enumerate(table.names)
        if table.weight_elements[i]
    }
    # The softmax has a weight for each head here, a norm the same ones for all.
    assert parts["softmax"] == parts["linear_convolution"] == parts["linear_decay"] == 0.25
    assert parts["linear_norm"] == parts["norm"] == 1
    latent = request_of("deepseek-v3").operators()
    part = cut_operators(latent, request_of("deepseek-v3").language_model, 4)
    i = latent.names.index("query_absorption")  # a matrix for each head
    assert part.n_experts[i] == latent.n_experts[i] / 4
    assert part.weight_elements[i] == latent.weight_elements[i]


def test_a_layer_has_two_all_reduces_of_the_hidden_state():
    request = request_of("llama-3.3-70b", "prefill")
    messages = model_part(request, Parallelism(4, 1)).messages
    width = request.tokens.prompt_tokens * 8192
    # Attention and feed-forward layer of 80 layers, the embedding, and the gathered logits.
    assert messages.all_reduce_elements.tolist() == [width] * 3
    assert messages.all_reduce_count.tolist() == [1, 80, 80]
    assert messages.all_gather_elements.tolist() == [128256]
    assert messages.n_messages == 162


def test_experts_are_combined_before_their_sums_are_added_up():
    messages = model_part(request_of("deepseek-v3"), Parallelism(8, 1)).messages
    # Embedding; 61 attentions; 3 dense layers; 58 layers of routed and shared experts.
    assert messages.all_reduce_elements.tolist() == [7168] * 4
    assert messages.all_reduce_count.tolist() == [1, 61, 3, 58]


def test_a_stage_has_its_layers_and_the_requests_of_all_stages():
    request = request_of("llama-3.3-70b")
    part = model_part(request, Parallelism(1, 4))
    table = request.operators()
    layers = total(table, table.mac_per_request) - 8192 * 128256
    assert total(part.table, part.table.mac_per_request) == pytest.approx(
        layers / 4 + 8192 * 128256
    )
    assert part.kv_elements_per_request == request.kv_elements_per_request
    head = 8192 * 128256
    assert part.weight_elements == pytest.approx((request.weight_elements - 2 * head) / 4 + head)
    assert part.messages.n_messages == 1 and part.messages.sent_elements == 8192


def test_uneven_layers_count_with_the_fullest_stage():
    request = request_of("deepseek-v3")  # 61 layers: 16, 15, 15, 15
    part = model_part(request, Parallelism(1, 4))
    assert part.kv_elements_per_request == pytest.approx(
        request.kv_elements_per_request * 4 * 16 / 61
    )


def test_more_devices_than_heads_or_layers_are_too_many():
    model = request_of("llama-3.3-70b").language_model
    request = request_of("llama-3.3-70b")
    assert model_part(request, Parallelism(64, 1)).excess(model) == 0
    assert model_part(request, Parallelism(128, 1)).excess(model) == 1
    assert model_part(request, Parallelism(1, 160)).excess(model) == 1
