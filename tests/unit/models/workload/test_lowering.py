"""The operators of a pass: conservation laws and closed forms."""

from dataclasses import fields
from itertools import combinations, product

import numpy as np
import pytest

from codesign.models.workload import (
    LanguageModel,
    active_parameter_count,
    expected_distinct_experts,
    kv_elements_per_token,
    list_models,
    load_model,
    lower,
    parameter_count,
    parameters_by_part,
)
from codesign.models.workload.operators import NUMERIC_COLUMNS

PHASES = ("prefill", "decode")
EVERY_MODEL = pytest.mark.parametrize("name", list_models())
EVERY_PHASE = pytest.mark.parametrize("phase", PHASES)


def total(operators, column):
    return float((operators.count * getattr(operators, column)).sum())


def value(operators, name, column):
    return float(getattr(operators, column)[operators.names.index(name)])


def tiny(**changes):
    dimensions = {
        "name": "tiny", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
    }  # fmt: skip
    return LanguageModel.model_validate(dimensions | changes)


@EVERY_MODEL
@EVERY_PHASE
def test_the_operators_hold_every_weight_once(name, phase):
    model = load_model(name)
    operators = lower(model, phase, 100, 10)
    held = (operators.count * operators.n_experts * operators.weight_elements).sum()
    parts = parameters_by_part(model)
    head = parts["embedding"] if model.tie_word_embeddings else parts["lm_head"]
    positions = (model.max_position_embeddings or 0) * model.hidden_size
    if model.tie_word_embeddings:
        head -= positions
    assert held == parameter_count(model) - parts["embedding"] - parts["lm_head"] + head


@EVERY_MODEL
@EVERY_PHASE
def test_a_token_multiplies_with_every_active_matrix_once(name, phase):
    model = load_model(name)
    operators = lower(model, phase, 100, 10)
    is_layer = operators.is_kind("gemm") & (np.array(operators.groups) != "lm_head")
    macs = (operators.count * operators.mac_per_request)[is_layer].sum()
    parts = parameters_by_part(model)
    matrices = active_parameter_count(model) - sum(
        parts[part] for part in ("embedding", "lm_head", "norm")
    )
    # Convolutions and decays of linear attention are no products; norms are counted apart.
    is_other = operators.is_kind("vector") & ~np.char.endswith(operators.names, "norm")
    matrices -= (operators.count * operators.weight_elements)[is_other].sum()
    biases = (operators.count * operators.experts_per_token)[is_layer] * (
        operators.weight_elements - operators.k * operators.n
    )[is_layer]
    assert macs == operators.tokens_per_request * (matrices - biases.sum())


@EVERY_MODEL
@EVERY_PHASE
@pytest.mark.parametrize("batch", [1, 4, 128])
def test_the_products_of_a_batch_do_the_work_of_its_requests(name, phase, batch):
    operators = lower(load_model(name), phase, 500, 100)
    size = np.array([[batch]])
    rows, products = operators.rows_per_product(size), operators.n_products(size)
    work = rows * products * operators.k * operators.n
    assert work[0] == pytest.approx(batch * operators.mac_per_request, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in list_models() if name != "llada-8b"])
def test_the_cache_grows_by_what_the_tokens_need(name):
    model = load_model(name)
    prefill, decode = lower(model, "prefill", 100, 10), lower(model, "decode", 100, 10)
    per_token = kv_elements_per_token(model)
    assert total(prefill, "kv_written_elements_per_request") == 100 * per_token
    assert total(decode, "kv_written_elements_per_request") == per_token
    assert total(decode, "kv_read_elements_per_request") == pytest.approx(105.5 * per_token)
    assert (prefill.n_passes, decode.n_passes) == (1, 10)
    assert (prefill.tokens_per_request, decode.tokens_per_request) == (100, 1)


@EVERY_MODEL
def test_the_mean_step_is_the_mean_of_all_steps(name):
    model = load_model(name)
    steps = [lower(model, "decode", 100, 7, context=100 + step) for step in range(1, 8)]
    mean = lower(model, "decode", 100, 7)
    for column in (*NUMERIC_COLUMNS, "mac_per_request"):
        over_steps = np.mean([getattr(step, column) for step in steps], axis=0)
        assert getattr(mean, column) == pytest.approx(over_steps, rel=1e-12), column


def test_attention_of_a_full_prefill_is_four_h_s_squared_per_layer():
    """LIFE: 4 h S^2 FLOP per layer without causal halving."""
    operators = lower(load_model("llama-2-7b"), "prefill", 2048, 1, causal=False)
    flop = 2 * (operators.count * operators.mac_per_request)[operators.is_attention].sum()
    assert flop == 32 * 4 * 4096 * 2048**2


def test_a_causal_prefill_attends_to_each_earlier_token_and_itself():
    operators = lower(tiny(), "prefill", 9, 1)
    pairs = sum(range(1, 10))
    assert value(operators, "attention_qk", "mac_per_request") == 4 * 16 * pairs
    assert value(operators, "softmax", "score_read_elements_per_request") == 4 * pairs
    assert value(operators, "attention_qk", "kv_read_elements_per_request") == 9 * 2 * 16


@EVERY_PHASE
@pytest.mark.parametrize("window", [1, 5, 9, 12, 100])
def test_a_sliding_window_attends_to_the_last_tokens_only(phase, window):
    model = tiny(sliding_window=window)
    operators = lower(model, phase, 9, 6)
    contexts = range(1, 10) if phase == "prefill" else range(10, 16)
    mean = float(np.mean([min(context, window) for context in contexts]))
    assert value(operators, "attention_qk", "n") == pytest.approx(mean)
    assert value(operators, "attention_pv", "k") == pytest.approx(mean)


def test_heads_that_share_keys_are_rows_of_one_product():
    grouped = lower(tiny(), "decode", 10, 1)
    single = lower(tiny(num_key_value_heads=1), "decode", 10, 1)
    column = "products_per_request"
    assert value(grouped, "attention_qk", column) == 2
    assert value(grouped, "attention_qk", "m_per_request") == 2
    assert value(single, "attention_qk", column) == 1
    assert value(single, "attention_qk", "m_per_request") == 4
    assert total(grouped, "kv_read_elements_per_request") == 2 * total(
        single, "kv_read_elements_per_request"
    )


def test_absorbed_latent_attention_reads_the_latent_once_for_all_heads():
    """FlashMLA: 2 (576 + 512) FLOP per head and token of context, 576 elements read."""
    operators = lower(load_model("deepseek-v3"), "decode", 1, 1, context=1000)
    flop = 2 * operators.mac_per_request[operators.is_attention].sum()
    assert flop == 2 * 128 * 1000 * (576 + 512)
    assert total(operators, "kv_read_elements_per_request") == 61 * 1000 * 576


def test_expanded_and_absorbed_latent_attention_write_the_same_cache():
    model = load_model("deepseek-v3")
    one_token = lower(model, "prefill", 1, 1)
    step = lower(model, "decode", 1, 1)
    for column in ("kv_written_elements_per_request",):
        assert total(one_token, column) == total(step, column) == 61 * 576


def test_logits_and_embedding_follow_their_switches():
    last, every = (lower(tiny(), "prefill", 9, 1, logits=logits) for logits in ("last", "all"))
    assert value(last, "lm_head", "m_per_request") == 1
    assert value(every, "lm_head", "m_per_request") == 9
    assert value(last, "embedding", "lookup_elements_per_request") == 9 * 64
    dense = lower(tiny(), "prefill", 9, 1, embedding="dense")
    assert value(dense, "embedding", "mac_per_request") == 9 * 1000 * 64
    assert value(dense, "embedding", "weight_elements") == 1000 * 64


def test_a_diffusion_model_denoises_the_whole_sequence_in_both_directions():
    model = load_model("llada-8b")
    operators = lower(model, "decode", 1400, 200, diffusion_steps=50)
    assert operators.n_passes == 50 and operators.tokens_per_request == 1600
    assert value(operators, "attention_qk", "n") == 1600
    assert value(operators, "lm_head", "m_per_request") == 200
    assert lower(model, "decode", 1400, 200).n_passes == 200
    assert value(lower(model, "prefill", 1400, 200), "attention_qk", "n") == 1400


def test_what_one_operator_writes_the_next_reads():
    """Elements between neighbors of a dense layer, in the order in which they run."""
    operators = lower(tiny(qk_norm=True), "prefill", 9, 1)
    reads = "input_elements_per_request"
    writes = "output_elements_per_request"
    for writer, reader in [
        ("norm", "qkv_projection"),
        ("qkv_projection", "qk_norm"),
        ("qk_norm", "rope"),
        ("rope", "attention_qk"),
        ("attention_pv", "output_projection"),
        ("norm", "gate_up_projection"),
        ("gate_up_projection", "activation"),
        ("activation", "down_projection"),
    ]:
        assert value(operators, writer, writes) == value(operators, reader, reads), writer
    assert value(operators, "residual", reads) == 2 * value(operators, "down_projection", writes)
    # Keys are cached after their rotation, values as they are projected.
    cached = "kv_written_elements_per_request"
    keys = 9 * 2 * 16
    assert value(operators, "qkv_projection", cached) == value(operators, "rope", cached) == keys
    assert value(operators, "qk_norm", reads) == 9 * 4 * 16 + keys


def test_what_one_operator_of_a_mixture_writes_the_next_reads():
    operators = lower(
        tiny(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
             n_shared_experts=1), "prefill", 9, 1)  # fmt: skip
    reads = "input_elements_per_request"
    writes = "output_elements_per_request"
    for prefix in ("expert", "shared"):
        assert value(operators, f"{prefix}_gate_up_projection", writes) == value(
            operators, f"{prefix}_activation", reads
        )
        assert value(operators, f"{prefix}_activation", writes) == value(
            operators, f"{prefix}_down_projection", reads
        )
    assert value(operators, "expert_combination", reads) == value(
        operators, "expert_down_projection", writes
    ) + value(operators, "shared_down_projection", writes)


@pytest.mark.parametrize(("n_experts", "n_active", "n_tokens"), [(3, 2, 2), (4, 1, 3), (5, 3, 2)])
def test_expected_experts_are_the_mean_over_all_choices(n_experts, n_active, n_tokens):
    choices = list(combinations(range(n_experts), n_active))
    counts = [len(set().union(*taken)) for taken in product(choices, repeat=n_tokens)]
    got = expected_distinct_experts(np.array(n_tokens), np.array(n_experts), np.array(n_active))
    assert float(got) == pytest.approx(np.mean(counts), rel=1e-12)


def test_a_decode_batch_reads_each_chosen_expert_once():
    operators = lower(load_model("mixtral-8x7b"), "decode", 10, 10)
    position = operators.names.index("expert_down_projection")
    expert = 14336 * 4096
    weights = operators.weights_read(np.array([[1], [2], [1000]]))[:, position]
    assert weights == pytest.approx([2 * expert, 3.5 * expert, 8 * expert])


@EVERY_MODEL
@EVERY_PHASE
def test_a_table_is_small_named_uniquely_and_without_negative_numbers(name, phase):
    operators = lower(load_model(name), phase, 100, 10)
    assert 10 <= len(operators) <= 32
    assert len(set(operators.names)) == len(operators)
    arrays = [field.name for field in fields(operators) if field.name in NUMERIC_COLUMNS]
    assert set(arrays) == set(NUMERIC_COLUMNS)
    for column in arrays:
        numbers = getattr(operators, column)
        assert numbers.shape == (len(operators),) and (numbers >= 0).all(), column
    own = operators.is_kind("attention_qk", "attention_pv", "linear_attention")
    assert (operators.is_attention == own).all()


LATENT = {"kv_lora_rank": 24, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 14}


@EVERY_PHASE
@pytest.mark.parametrize("q_lora_rank", [None, 20])
def test_latent_attention_with_unlike_widths_holds_its_weights(phase, q_lora_rank):
    model = tiny(q_lora_rank=q_lora_rank, **LATENT)
    operators = lower(model, phase, 9, 1)
    is_projection = operators.is_kind("gemm") & (np.array(operators.groups) == "attention")
    macs = (operators.count * operators.mac_per_request)[is_projection].sum()
    attention = parameters_by_part(model)["attention"]
    assert macs == operators.tokens_per_request * attention
    query = 64 * 64 if q_lora_rank is None else 64 * 20 + 20 * 64
    assert attention == 3 * (query + 64 * 30 + 24 * 4 * (10 + 14) + 4 * 14 * 64)
    assert ("query_projection" in operators.names) == (q_lora_rank is not None)


def test_expanded_latent_attention_has_keys_and_values_of_their_own_widths():
    operators = lower(tiny(**LATENT), "prefill", 9, 1)
    reads = "input_elements_per_request"
    pairs = sum(range(1, 10))
    assert value(operators, "attention_qk", "mac_per_request") == 4 * (10 + 6) * pairs
    assert value(operators, "attention_pv", "mac_per_request") == 4 * 14 * pairs
    # Queries and keys; the rotated part of the key is one for all heads.
    assert value(operators, "attention_qk", reads) == 9 * (4 * 16 + 4 * 10 + 6)
    assert value(operators, "attention_pv", reads) == 9 * 4 * 14
    assert total(operators, "kv_read_elements_per_request") == 0


def test_vector_operations_are_those_of_the_table_in_the_module():
    column = "vector_ops_per_request"
    gated = lower(tiny(qk_norm=True), "decode", 1, 1, context=10)
    assert value(gated, "norm", column) == 4 * 64
    assert value(gated, "residual", column) == 64
    assert value(gated, "qk_norm", column) == 4 * (64 + 32)
    assert value(gated, "rope", column) == 3 * (64 + 32)
    assert value(gated, "softmax", column) == 6 * 4 * 10
    assert value(gated, "activation", column) == (4 + 1) * 160
    assert value(gated, "qkv_projection", column) == 0
    plain = lower(
        tiny(is_gated=False, hidden_act="gelu", norm="layernorm", mlp_bias=True,
             position="learned", max_position_embeddings=50, attention_bias=True),
        "decode", 1, 1,
    )  # fmt: skip
    assert value(plain, "norm", column) == 7 * 64
    assert value(plain, "norm", "weight_elements") == 2 * 64
    assert value(plain, "activation", column) == 8 * 160
    assert value(plain, "qkv_projection", column) == 128
    assert value(plain, "output_projection", column) == 0
    assert value(plain, "down_projection", column) == value(plain, "embedding", column) == 64
    moe = lower(
        tiny(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
             n_shared_experts=1, has_router_bias=True), "decode", 1, 1)  # fmt: skip
    assert value(moe, "router", column) == (6 + 1) * 8
    assert value(moe, "expert_activation", column) == 5 * 2 * 32
    assert value(moe, "expert_combination", column) == (2 * 2 + 1) * 64


def test_looked_up_rows_are_read_by_each_request_and_weights_once():
    learned = {"position": "learned", "max_position_embeddings": 50}
    operators = lower(tiny(**learned), "prefill", 9, 1)
    read = operators.weights_read(np.array([[1], [4]]))
    embedding, head = (operators.names.index(name) for name in ("embedding", "lm_head"))
    assert read[:, embedding].tolist() == [2 * 9 * 64, 4 * 2 * 9 * 64]
    assert read[:, head].tolist() == [1000 * 64, 1000 * 64]
