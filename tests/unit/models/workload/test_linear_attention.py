"""Models whose layers differ in their attention: what they hold, and formulas written by hand."""

import numpy as np
import pytest

from codesign.models.workload import (
    LanguageModel,
    Request,
    kv_elements_per_token,
    load_model,
    lower,
    parameter_count,
    state_bytes,
)
from codesign.models.workload.storage import kv_elements

HYBRIDS = ("qwen3-next-80b-a3b", "qwen3.5-397b-a17b")
# Unlike in every dimension, so that none is taken for another.
KEY_HEADS = 3
VALUE_HEADS = 6
KEY = 8
VALUE = 20
TAPS = 5
HIDDEN = 64
LINEAR_LAYERS = 4


def hybrid(**changes):
    dimensions = {
        "name": "hybrid", "hidden_size": HIDDEN, "intermediate_size": 160, "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000,
        "full_attention_interval": 3, "linear_num_key_heads": KEY_HEADS,
        "linear_num_value_heads": VALUE_HEADS, "linear_key_head_dim": KEY,
        "linear_value_head_dim": VALUE, "linear_conv_kernel_dim": TAPS,
    }  # fmt: skip
    return LanguageModel.model_validate(dimensions | changes)


def value(operators, name, column):
    return float(getattr(operators, column)[operators.names.index(name)])


def total(operators, column):
    return float((operators.count * getattr(operators, column)).sum())


def scan_macs(operators):
    is_linear = operators.is_kind("linear_attention")
    return float((operators.count * operators.mac_per_request)[is_linear].sum())


# Layers -------------------------------------------------------------------------------------


def test_every_fourth_layer_of_qwen3_next_has_full_attention():
    model = load_model("qwen3-next-80b-a3b")
    listed = ["linear_attention"] * 3 + ["full_attention"]
    definition = {"full_attention_interval": None, "layer_types": listed * 12}
    again = LanguageModel.model_validate(model.model_dump() | definition)
    assert model.layers_by_type == again.layers_by_type
    assert again.layers_by_type == {"full_attention": 12, "linear_attention": 36}
    assert parameter_count(again) == parameter_count(model)


def test_a_linear_layer_has_the_parameters_of_its_tensors():
    full = hybrid(layer_types=["full_attention"] * 5 + ["linear_attention"],
                  full_attention_interval=None)  # fmt: skip
    keys, values = KEY_HEADS * KEY, VALUE_HEADS * VALUE
    tensors = {
        "in_proj_qkvz": HIDDEN * (2 * keys + 2 * values),
        "in_proj_ba": HIDDEN * 2 * VALUE_HEADS,
        "conv1d": (2 * keys + values) * TAPS,
        "dt_bias": VALUE_HEADS,
        "A_log": VALUE_HEADS,
        "norm": VALUE,
        "out_proj": values * HIDDEN,
    }
    softmax = HIDDEN * (4 + 2 * 2) * 16 + 4 * 16 * HIDDEN
    assert parameter_count(hybrid()) - parameter_count(full) == 3 * (
        sum(tensors.values()) - softmax
    )


def test_an_output_gate_doubles_the_query_projection():
    plain, gated = hybrid(), hybrid(attn_output_gate=True)
    assert parameter_count(gated) - parameter_count(plain) == 2 * HIDDEN * 4 * 16
    operators = lower(gated, "prefill", 9, 1)
    assert value(operators, "qkv_projection", "n") == (2 * 4 + 2 * 2) * 16
    assert value(operators, "output_gate", "vector_ops_per_request") == 4 * 9 * 4 * 16
    assert "output_gate" not in lower(plain, "prefill", 9, 1).names


def test_a_part_of_each_head_is_rotated_and_every_key_is_cached():
    complete, quarter = (
        lower(hybrid(partial_rotary_factor=part), "decode", 1, 1) for part in (1.0, 0.25)
    )
    column = "vector_ops_per_request"
    assert value(complete, "rope", column) == 4 * value(quarter, "rope", column) == 3 * (4 + 2) * 16
    for operators in (complete, quarter):
        assert total(operators, "kv_written_elements_per_request") == 2 * 2 * 2 * 16


def test_a_gated_shared_expert_has_a_column_of_the_router():
    mixture = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    plain, shared = hybrid(**mixture), hybrid(**mixture, shared_expert_intermediate_size=24)
    assert parameter_count(shared) - parameter_count(plain) == 6 * (3 * HIDDEN * 24 + HIDDEN)
    operators = lower(shared, "decode", 1, 1)
    assert value(operators, "router", "n") == 8 + 1
    assert value(operators, "router", "vector_ops_per_request") == 6 * 8 + 3
    assert value(operators, "expert_combination", "vector_ops_per_request") == (2 * 2 + 2) * HIDDEN


# Cache and state ----------------------------------------------------------------------------


def test_only_softmax_layers_have_a_cache_and_the_state_does_not_grow():
    model = hybrid()
    assert kv_elements_per_token(model) == 2 * 2 * 2 * 16
    assert kv_elements(model, 100) == 100 * 2 * 2 * 2 * 16
    channels = 2 * KEY_HEADS * KEY + VALUE_HEADS * VALUE
    recurrent = VALUE_HEADS * KEY * VALUE
    assert state_bytes(model) == LINEAR_LAYERS * (4 * recurrent + 2 * (TAPS - 1) * channels)
    half = hybrid(mamba_ssm_dtype="bfloat16")
    assert state_bytes(model) - state_bytes(half) == LINEAR_LAYERS * 2 * recurrent
    assert state_bytes(load_model("llama-3-8b")) == 0


@pytest.mark.parametrize("name", HYBRIDS)
def test_a_step_reads_and_writes_the_state_once_and_a_prefill_writes_it(name):
    model, read, written = (
        load_model(name), "state_read_bytes_per_request", "state_written_bytes_per_request",
    )  # fmt: skip
    request = Request(model=name, phase="decode", trace="osworld")
    assert request.state_bytes_per_request == state_bytes(model)
    step, prefill = request.operators(), lower(model, "prefill", 90_000, 8_000)
    assert total(step, read) == total(step, written) == state_bytes(model)
    assert (total(prefill, read), total(prefill, written)) == (0, state_bytes(model))
    later = lower(model, "prefill", 1_000, 1, past_tokens=500)
    assert total(later, read) == total(later, written) == state_bytes(model)


# Work ---------------------------------------------------------------------------------------


def test_a_step_multiplies_the_state_with_key_and_query():
    operators = lower(hybrid(), "decode", 500, 100)
    assert scan_macs(operators) == LINEAR_LAYERS * VALUE_HEADS * 2 * KEY * VALUE
    column = "vector_ops_per_request"
    state, values = VALUE_HEADS * KEY * VALUE, VALUE_HEADS * VALUE
    channels = 2 * KEY_HEADS * KEY + values
    assert value(operators, "linear_state_update", column) == 3 * state + 6 * values
    assert value(operators, "linear_convolution", column) == channels * (2 * TAPS + 3)
    assert value(operators, "linear_qk_norm", column) == 3 * 2 * KEY_HEADS * KEY
    assert value(operators, "linear_decay", column) == 9 * VALUE_HEADS
    assert value(operators, "linear_norm", column) == (4 + 4 + 1) * values


@pytest.mark.parametrize("tokens", [1, 63, 64, 640, 1000])
def test_a_scan_does_the_products_of_its_chunks(tokens):
    """Gated DeltaNet, chunkwise: per token and head in a chunk of C tokens, by hand."""
    operators = lower(hybrid(), "prefill", tokens, 1)
    chunk = min(64, tokens)
    per_token = (
        chunk * KEY  # K Kᵀ
        + chunk * KEY  # Q Kᵀ
        + chunk * KEY  # T K
        + chunk * VALUE  # T V
        + KEY * VALUE  # W S
        + KEY * VALUE  # Q S
        + chunk * VALUE  # A U
        + KEY * VALUE  # Kᵀ U
    )
    assert scan_macs(operators) == pytest.approx(
        LINEAR_LAYERS * VALUE_HEADS * tokens * per_token, rel=1e-12
    )
    is_linear = operators.is_kind("linear_attention")
    assert (operators.kv_read_elements_per_request[is_linear] == 0).all()


def test_the_substitution_of_a_chunk_is_counted_on_the_vector_unit():
    """Entry (i, j) of the inverse sums over the i - j - 1 entries between."""
    chunk = 64
    entries = sum(i - j - 1 for i in range(chunk) for j in range(i))
    per_chunk = 2 * entries + 5 * chunk**2 + 2 * KEY * VALUE + chunk * 3 * (KEY + VALUE)
    operators = lower(hybrid(), "prefill", 10 * chunk, 1)
    assert value(operators, "scan_decay", "vector_ops_per_request") == pytest.approx(
        10 * VALUE_HEADS * per_chunk
    )


def test_a_scan_works_in_proportion_to_its_tokens_and_attention_does_not():
    short, long = (lower(hybrid(), "prefill", tokens, 1) for tokens in (1_000, 10_000))
    assert scan_macs(long) == pytest.approx(10 * scan_macs(short))
    scores = [value(table, "attention_qk", "mac_per_request") for table in (short, long)]
    assert scores[1] > 99 * scores[0]


def test_what_one_operator_of_linear_attention_writes_the_next_reads():
    reads = "input_elements_per_request"
    writes = "output_elements_per_request"
    channels = 2 * KEY_HEADS * KEY + VALUE_HEADS * VALUE
    values = VALUE_HEADS * VALUE
    for operators, tokens in ((lower(hybrid(), "prefill", 9, 1), 9),
                              (lower(hybrid(), "decode", 9, 1), 1)):  # fmt: skip
        projected = value(operators, "linear_projection", writes)
        beyond = tokens * (values + 2 * VALUE_HEADS)  # gate, rates and decays
        assert value(operators, "linear_convolution", reads) == projected - beyond
        assert value(operators, "linear_convolution", writes) == tokens * channels
        assert value(operators, "linear_norm", reads) == 2 * tokens * values
        assert value(operators, "linear_norm", writes) == value(
            operators, "linear_output_projection", reads
        )
    scan = lower(hybrid(), "prefill", 90, 1)
    score_writes, score_reads = (
        f"score_{verb}_elements_per_request" for verb in ("written", "read")
    )
    assert value(scan, "scan_scores", score_writes) == value(scan, "scan_decay", score_reads)
    assert value(scan, "scan_decay", score_writes) == value(
        scan, "scan_corrections", score_reads
    ) + value(scan, "scan_outputs", score_reads)


# Other alternations -------------------------------------------------------------------------

LLAMA = {
    "name": "alternating", "hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip
PATTERNS = {  # gpt-oss: every second layer slides; Gemma 3: five of six
    "gpt-oss": (["sliding_attention", "full_attention"] * 3, 128),
    "gemma-3": ((["sliding_attention"] * 5 + ["full_attention"]) * 2, 512),
}


def alternating(pattern):
    """The model, and the same with its full and with its sliding layers alone."""
    kinds, window = PATTERNS[pattern]
    definition = {**LLAMA, "num_hidden_layers": len(kinds), "layer_types": kinds}
    full, sliding = kinds.count("full_attention"), kinds.count("sliding_attention")
    return (
        LanguageModel.model_validate({**definition, "sliding_window": window}),
        LanguageModel.model_validate({**LLAMA, "num_hidden_layers": full}),
        LanguageModel.model_validate(
            {**LLAMA, "num_hidden_layers": sliding, "sliding_window": window}
        ),
    )


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("tokens", [100, 1_000, 20_000])
def test_sliding_layers_hold_their_window_and_full_ones_all(pattern, tokens):
    mixed, full, sliding = alternating(pattern)
    kinds, window = PATTERNS[pattern]
    by_hand = sum(
        2 * 2 * 16 * (tokens if kind == "full_attention" else min(tokens, window)) for kind in kinds
    )
    assert kv_elements(mixed, tokens) == by_hand
    assert by_hand == kv_elements(full, tokens) + kv_elements(sliding, tokens)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_attention_of_mixed_layers_is_that_of_either_kind(pattern, phase):
    tables = [lower(model, phase, 3_000, 700) for model in alternating(pattern)]  # type: ignore[arg-type]  # one of the two phases
    for column in ("mac_per_request", "kv_read_elements_per_request", "vector_ops_per_request",
                   "kv_written_elements_per_request"):  # fmt: skip
        mixed, full, sliding = (
            float(
                (table.count * getattr(table, column))[np.array(table.groups) == "attention"].sum()
            )
            for table in tables
        )
        assert mixed == pytest.approx(full + sliding, rel=1e-12), column
    assert {"attention_qk", "sliding_attention_qk"} <= set(tables[0].names)


def test_dense_layers_are_those_that_any_key_names():
    definition = {
        **LLAMA, "num_hidden_layers": 10, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "first_k_dense_replace": 1, "decoder_sparse_step": 2,
        "mlp_only_layers": [1, 5],
    }  # fmt: skip
    model = LanguageModel.model_validate(definition)
    assert (model.n_dense_layers, model.n_moe_layers) == (7, 3)  # experts: 3, 7 and 9
    operators = lower(model, "decode", 1, 1)
    assert value(operators, "gate_up_projection", "count") == 7
    assert value(operators, "router", "count") == 3
