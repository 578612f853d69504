"""Configurations of every family (tests/golden/tables/models_families.yaml)."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.schema import read_document
from codesign.models.workload import (
    Request,
    active_parameter_count,
    kv_elements_per_token,
    load_model,
    lower,
    parameter_count,
    parameters_by_part,
    state_bytes,
)
from codesign.models.workload.dimension_parts import largest_parts
from codesign.models.workload.families import family_table
from codesign.models.workload.model import UNQUANTIZED_PARTS, describe_unlike_attention
from codesign.models.workload.storage import kv_elements

_TABLE = Path(__file__).parents[3] / "golden" / "tables" / "models_families.yaml"
ROWS = read_document(_TABLE).data["models"]
TOLERANCE = 0.01
EVERY_ROW = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])

SHAPES = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip


def read(folder, config):
    file = folder / "config.json"
    data = {key: value for key, value in config.items() if value != "absent"}
    file.write_text(json.dumps(data, indent=2), encoding="utf-8")
    return load_model(str(file))


# Published models ---------------------------------------------------------------------------


@EVERY_ROW
def test_a_public_configuration_gives_the_published_parameters(row, tmp_path):
    model = read(tmp_path, row["config"])
    assert parameter_count(model) == pytest.approx(row["total"], rel=TOLERANCE), row["source"]
    if "active" in row:
        active = active_parameter_count(model)
        active -= sum(parameters_by_part(model)[part] for part in row.get("without", ()))
        assert abs(active - row["active"]) <= row["rounded_to"] / 2


@EVERY_ROW
def test_cache_and_state_are_those_counted_by_hand(row, tmp_path):
    model = read(tmp_path, row["config"])
    assert kv_elements_per_token(model) == row.get("kv", kv_elements_per_token(model))
    assert state_bytes(model) == row.get("state", state_bytes(model))
    assert state_bytes(model, 1) - state_bytes(model) == row.get("keys", 0)
    if "kv_at" in row:
        assert kv_elements(model, row["kv_at"]["tokens"]) == row["kv_at"]["elements"]


@EVERY_ROW
def test_the_block_scales_of_a_checkpoint_are_read(row, tmp_path):
    model = read(tmp_path, row["config"])
    stated = row["config"].get("quantization_config", {}).get("weight_block_size")
    assert model.weight_block_size == (None if stated is None else tuple(stated))
    assert "weight_block_size" not in model.model_dump()


@pytest.mark.parametrize(
    ("quantized", "added", "removed"),
    [
        ({"quant_method": "awq", "modules_to_not_convert": None}, [], []),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
         ["attention"], []),
        ({"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp.up_proj"]}, [], []),
        ({"quant_method": "compressed-tensors", "ignore": []}, [], ["lm_head"]),
        ({"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*experts.*"]},
         ["experts"], []),
        ({"quant_method": "gptq", "lm_head": True}, [], ["lm_head"]),
    ],
)  # fmt: skip
def test_parts_that_a_checkpoint_leaves_in_16_bits_are_read(quantized, added, removed, tmp_path):
    model = read(tmp_path, SHAPES | {"quantization_config": quantized})
    assert {*model.unquantized_parts} == {*UNQUANTIZED_PARTS, *added} - {*removed}


@pytest.mark.parametrize("size", [None, [128], [0, 128], "128", [128, 128, 128]])
def test_block_scales_that_make_no_sense_are_none(size, tmp_path):
    quantized = {"quant_method": "fp8", "weight_block_size": size}
    assert read(tmp_path, SHAPES | {"quantization_config": quantized}).weight_block_size is None


CHECKPOINTS = [
    # As the classes of Transformers 5.24 and the tools beside it write them.
    ({"quant_method": "bitsandbytes", "load_in_8bit": False, "load_in_4bit": True,
      "_load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bitsandbytes load_in_4bit nf4"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bitsandbytes load_in_8bit"),
    ({"bits": 4, "quant_method": "gptq", "group_size": 128, "format": "gptq_v2"}, "gptq gptq_v2 4"),
    ({"quant_method": "awq", "bits": 4, "format": "gemm"}, "awq gemm 4"),
    ({"quant_method": "awq", "w_bit": 4}, "awq 4"),
    ({"quant_method": "aqlm", "num_codebooks": 1, "nbits_per_codebook": 16}, "aqlm 16"),
    ({"quant_method": "vptq", "config_for_layers": {}}, "vptq"),
    ({"quant_method": "quanto", "weights": "int8", "activations": None}, "quanto int8"),
    ({"quant_method": "eetq", "weights": "int8"}, "eetq int8"),
    ({"quant_method": "higgs", "bits": 4, "p": 2}, "higgs 4"),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}, "hqq 4"),
    ({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
        "group_0": {"input_activations": {"num_bits": 8, "type": "int"}, "weights": {
            "num_bits": 4, "type": "int"}}}}, "compressed-tensors pack-quantized int 4"),
    ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, "fbgemm_fp8"),
    ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}},
     "torchao Int4WeightOnlyConfig"),
    ({"quant_method": "bitnet"}, "bitnet"),
    ({"quant_method": "spqr", "bits": 3}, "spqr 3"),
    ({"quant_method": "fp8", "weight_block_size": [128, 128], "expert_dtype": "fp4"}, "fp8 fp4"),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
     "quark fp8_e4m3"),
    ({"quant_method": "fp_quant", "forward_dtype": "nvfp4"}, "fp_quant nvfp4"),
    ({"quant_method": "auto-round", "bits": 4, "sym": True}, "auto-round 4"),
    ({"quant_method": "mxfp4"}, "mxfp4"),
    ({"quant_method": "nvfp4"}, "nvfp4"),
    ({"quant_method": "mxfp8"}, "mxfp8"),
    ({"quant_method": "metal", "bits": 4}, "metal 4"),
    ({"quant_method": "fouroversix", "dtype": "nvfp4"}, "fouroversix nvfp4"),
    ({"quant_method": "sinq", "nbits": 4}, "sinq 4"),
    ({"quant_method": "gemma", "num_bits": 4}, "gemma 4"),
    ({"quant_method": "gguf"}, "gguf"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"},
     "modelopt NVFP4 FP8"),
    ({"quant_method": "modelopt", "config_groups": {"group_0": {
        name: {"type": "float", "num_bits": 4, "group_size": 16}
        for name in ("weights", "input_activations")}}},
     "modelopt float 4"),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
    ({"quant_method": "gptq", "bits": 8}, "gptq 8"),
    ({"group_size": 64}, "no method"),
]  # fmt: skip


READ = {
    "gptq gptq_v2 4": ["int4"], "awq gemm 4": ["int4"], "auto-round 4": ["int4"],
    "compressed-tensors pack-quantized int 4": ["int4", "int8"], "fbgemm_fp8": ["fp8"] * 2,
    "mxfp4": ["mxfp4"], "nvfp4": ["nvfp4"] * 2, "modelopt NVFP4 FP8": ["nvfp4"] * 2,
    "modelopt float 4": ["nvfp4"] * 2, "fp8": ["fp8"] * 2, "gptq 8": ["int8"],
}  # fmt: skip


@pytest.mark.parametrize(("stated", "words"), CHECKPOINTS, ids=lambda value: str(value))
def test_a_quantized_checkpoint_is_named_with_its_format(stated, words, tmp_path):
    model = read(tmp_path, SHAPES | {"quantization_config": stated})
    (note,) = model.notes
    verb = "sets" if words in READ else "does not set"
    assert note.startswith(f"quantization_config ({words}) {verb} the formats of weights")
    assert list(model.published_formats.values()) == READ.get(words, [])
    nested = {"model_type": "llava", "quantization_config": stated, "text_config": SHAPES}
    assert read(tmp_path, nested).notes == (note,)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"quantization": {"group_size": 64, "bits": 4}}, "quantization (4)"),
        ({"quantization_bit": 4}, "quantization_bit (4)"),
        ({"quantization_config": "fp8"}, "quantization_config (fp8)"),
        (
            {"compression_config": {"quant_method": "compressed-tensors"}},
            "compression_config (comp",
        ),
    ],
)
def test_other_keys_of_a_quantized_checkpoint_are_a_note_too(stated, words, tmp_path):
    assert read(tmp_path, SHAPES | stated).notes[0].startswith(words)
    assert not read(tmp_path, SHAPES | dict.fromkeys(stated)).notes


def test_formats_may_stand_in_a_file_beside_or_matrix_by_matrix(tmp_path):
    """As ModelOpt writes them; a file of MiniMax-M3 lists 22,422 matrices."""
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    assert read(tmp_path, SHAPES).notes[0].startswith("quantization (NVFP4) sets")
    stated = {"quant_method": "modelopt", "exclude_modules": ["lm_head"] * 100_001,
              "quantized_layers": {"layers.0.weight": {"quant_algo": "MXFP8"}}}  # fmt: skip
    (note,) = read(tmp_path, SHAPES | {"quantization_config": stated}).notes
    assert note.startswith("quantization_config (modelopt MXFP8) does not set")


@EVERY_ROW
def test_what_a_file_says_and_is_not_modeled_is_a_note(row, tmp_path):
    notes = read(tmp_path, row["config"]).notes
    assert bool(notes) == ("notes" in row)
    assert all(re.search(row["notes"], note) for note in notes)


@EVERY_ROW
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_operators_hold_every_weight_once_and_have_rules(row, phase, tmp_path):
    model = read(tmp_path, row["config"])
    table = lower(model, phase, 100, 10)
    held = table.count * table.n_experts * table.weight_elements
    is_end = np.isin(table.groups, ["embedding", "lm_head"])
    parts = parameters_by_part(model)
    inside = parameter_count(model) - parts["embedding"] - parts["lm_head"]
    assert held[~is_end].sum() == pytest.approx(inside, rel=1e-12)
    parameters = largest_parts(model, np.array(2.0))
    assert all(rule.dimension in parameters for rule in table.rules)
    assert len(set(table.names)) == len(table)


def test_the_table_has_every_family_that_the_issue_names():
    listed = {row["config"].get("model_type", "mamba_ssm") for row in ROWS}
    assert len(ROWS) >= 37 and len(listed & {*family_table().families, "gemma3", "llama4"}) >= 37


def test_the_page_about_models_names_every_type():
    page = (Path(__file__).parents[4] / "docs" / "models.md").read_text(encoding="utf-8")
    assert [kind for kind in family_table().known_types() if f"`{kind}`" not in page] == []
    assert f"{len(ROWS)} public models" in page


# Models that change from layer to layer ------------------------------------------------------


def block(kv_group, ffn_mult, **attention):
    """A layer as Nemotron NAS writes it."""
    return {
        "attention": {"n_heads_in_group": kv_group, "no_op": False, "replace_with_linear": False}
        | attention,
        "ffn": {"ffn_mult": ffn_mult, "no_op": ffn_mult is None, "replace_with_linear": False},
    }


def test_layers_of_nemotron_nas_have_heads_and_widths_of_their_own(tmp_path):
    """The first blocks of Llama-3_1-Nemotron-51B's kind: groups of 8 and 16, none, a matrix."""
    blocks = [block(8, 1.3125), block(16, 5.25), block(None, 2.625, no_op=True),
              block(None, 2.625, replace_with_linear=True), block(8, None)]  # fmt: skip
    model = read(tmp_path, {
        "model_type": "nemotron-nas", "hidden_size": 8192, "num_hidden_layers": 5,
        "num_attention_heads": 64, "num_key_value_heads": None, "intermediate_size": None,
        "vocab_size": 128256, "block_configs": blocks, "tie_word_embeddings": False,
    })  # fmt: skip
    widths = [7168, 28672, 14336, 14336]  # two thirds of 8192 x 1.3125, 5.25, 2.625
    heads = [8, 4, 8]
    assert kv_elements_per_token(model) == 2 * 128 * sum(heads)
    hand = sum(3 * 8192 * width for width in widths) + 8192 * 8192
    hand += sum(2 * 8192 * 8192 + 2 * 8192 * 128 * head for head in heads)
    hand += 2 * 128256 * 8192
    assert parameter_count(model) == pytest.approx(hand, rel=1e-3)
    assert model.layers_by_type == {"full_attention": 3, "no_attention": 2}


def test_single_layers_may_have_heads_of_their_own(tmp_path):
    """Four layers of 4 query heads, 2 heads of keys and a width of 16, but for two of them."""
    own = {"1": {"num_attention_heads": 8, "num_key_value_heads": 1}, "02": {"head_dim": 32}}
    model = read(tmp_path, SHAPES | {"per_layer_config": own})
    queries, keys = [64, 128, 128, 64], [32, 16, 64, 32]
    assert kv_elements_per_token(model) == 2 * sum(keys)
    parts = parameters_by_part(model)
    assert parts["attention"] == 2 * 64 * (sum(queries) + sum(keys))
    decode = lower(model, "decode", 1, 1, context=100)
    for name in ("attention_qk", "attention_pv"):
        position = decode.names.index(name)
        work = decode.count * decode.mac_per_request
        assert work[position] == pytest.approx(100 * sum(queries))
    read_elements = (decode.count * decode.kv_read_elements_per_request).sum()
    assert read_elements == pytest.approx(100 * 2 * sum(keys))
    assert "layers have the same heads, got num_attention_heads_by_layer" in str(
        describe_unlike_attention(model)
    )


def test_gemma_4_is_the_same_model_in_both_spellings(tmp_path):
    """Wide heads of full attention as a key of their own, or layer by layer."""
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    config = SHAPES | {"model_type": "gemma4_text", "head_dim": 16, "layer_types": kinds}
    published = read(tmp_path, config | {"global_head_dim": 32})
    by_layer = read(tmp_path, config | {"per_layer_config": {"3": {"head_dim": 32}}})
    assert published == by_layer
    assert kv_elements_per_token(published) == 2 * 2 * (3 * 16 + 32)
    assert read(tmp_path, config | {"per_layer_config": {}}).head_dim == 16


def test_values_may_be_narrower_than_keys(tmp_path):
    """Heads of 16 and values of 8: queries and keys as ever, half the values and outputs."""
    model = read(tmp_path, SHAPES | {"v_head_dim": 8})
    assert kv_elements_per_token(model) == 4 * 2 * (16 + 8)
    assert parameters_by_part(model)["attention"] == 4 * 64 * (64 + 32 + 16 + 32)
    decode = lower(model, "decode", 1, 1, context=100)
    work = dict(zip(decode.names, decode.count * decode.mac_per_request, strict=True))
    assert work["attention_qk"] == 2 * work["attention_pv"] == 4 * 4 * 16 * 100
    written = (decode.count * decode.kv_written_elements_per_request).sum()
    assert written == kv_elements_per_token(model)
    assert "got value_head_dim 8" in str(describe_unlike_attention(model))


def test_layers_that_share_keys_hold_none(tmp_path):
    """Gemma 3n E2B: 20 of 30 layers hold keys, every fifth of them of all tokens."""
    model = read(tmp_path, {"model_type": "gemma3n", "text_config": {
        "model_type": "gemma3n_text", "hidden_size": 2048, "intermediate_size": [8192] * 30,
        "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 256, "num_kv_shared_layers": 10, "sliding_window": 512,
        "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144,
        "vocab_size": 262400}})  # fmt: skip
    assert kv_elements_per_token(model) == 20 * 2 * 2 * 256
    assert kv_elements(model, 10_000) == 1024 * (4 * 10_000 + 16 * 512)
    # 262,144 rows of 256 numbers for each of 30 layers.
    embedding = parameters_by_part(model)["embedding"]
    assert embedding == 262400 * 2048 + 262144 * 30 * 256 + 2 * 3 * 2048**2
    assert parameter_count(model) == pytest.approx(4.46e9, rel=TOLERANCE)  # of 5.44 with towers
    assert "AltUp" in model.notes[0]


def test_chunked_layers_keep_no_more_than_a_chunk(tmp_path):
    kinds = ["chunked_attention"] * 3 + ["full_attention"]
    config = SHAPES | {"model_type": "llama4_text", "num_local_experts": 4, "layer_types": kinds,
                       "num_experts_per_tok": 1, "attention_chunk_size": 8}  # fmt: skip
    model = read(tmp_path, config)
    assert kv_elements(model, 100) == 2 * 2 * 16 * (3 * 8 + 100)
    assert kv_elements(read(tmp_path, config | {"attention_chunk_size": None}), 100) == (
        2 * 2 * 16 * 4 * 100
    )


# Operators of state-space layers, by hand ----------------------------------------------------

MAMBA2 = {"model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 8,
          "head_dim": 16, "n_groups": 2, "state_size": 32, "conv_kernel": 4,
          "vocab_size": 1000}  # fmt: skip
MAMBA1 = {"model_type": "mamba", "hidden_size": 64, "intermediate_size": 128, "state_size": 16,
          "num_hidden_layers": 2, "time_step_rank": 4, "vocab_size": 1000}  # fmt: skip


def column(table, name, what):
    return float(getattr(table, what)[table.names.index(name)])


def test_mamba_2_scans_in_chunks_and_steps_over_its_state(tmp_path):
    model = read(tmp_path, MAMBA2)
    prefill, decode = lower(model, "prefill", 512, 1), lower(model, "decode", 512, 1)
    chunks = 2
    heads = 8
    groups = 2
    key = 32
    value = 16
    hand = {
        "scan_scores": groups * chunks * 256 * 256 * key,
        "scan_state_products": heads * chunks * 256 * key * value,
        "scan_outputs": heads * chunks * 256 * 256 * value,
        "scan_state_update": heads * chunks * 256 * key * value,
    }
    assert {name: column(prefill, name, "mac_per_request") for name in hand} == hand
    state = 4 * heads * key * value
    window = 2 * 3 * (heads * value + 2 * groups * key)
    for name, moved in (("linear_state_products", state), ("linear_convolution", window)):
        assert column(decode, name, "state_read_bytes_per_request") == moved
    assert column(decode, "linear_state_update", "state_written_bytes_per_request") == state
    assert column(decode, "linear_projection", "n") == 2 * 128 + 2 * groups * key + heads
    assert model.n_attention_layers == kv_elements_per_token(model) == 0


def test_mamba_1_scans_element_by_element(tmp_path):
    model = read(tmp_path, MAMBA1)
    prefill, decode = lower(model, "prefill", 100, 1), lower(model, "decode", 100, 1)
    per_token = 7 * 128 * 16 + 12 * 128
    assert column(prefill, "selective_scan", "vector_ops_per_request") == 100 * per_token
    assert column(decode, "selective_scan", "vector_ops_per_request") == per_token
    assert column(decode, "selective_scan", "state_read_bytes_per_request") == 4 * 128 * 16
    assert column(prefill, "selective_scan", "state_read_bytes_per_request") == 0
    assert column(prefill, "scan_projection", "n") == 4 + 2 * 16
    assert not prefill.is_attention.any()


def test_a_short_convolution_has_two_gates_and_no_state_but_its_window(tmp_path):
    kinds = ["conv", "full_attention", "conv", "conv"]
    model = read(tmp_path, SHAPES | {"model_type": "lfm2", "conv_L_cache": 3,
                                     "layer_types": kinds})  # fmt: skip
    assert parameters_by_part(model)["linear_attention"] == 3 * (4 * 64 * 64 + 3 * 64)
    prefill, decode = lower(model, "prefill", 100, 1), lower(model, "decode", 100, 1)
    assert column(prefill, "linear_projection", "n") == 3 * 64
    for table, tokens in ((prefill, 100), (decode, 1)):
        assert column(table, "convolution_gates", "vector_ops_per_request") == tokens * 2 * 64
    assert state_bytes(model) == 3 * 2 * 2 * 64
    read_bytes = (decode.count * decode.state_read_bytes_per_request).sum()
    assert read_bytes == state_bytes(model)


# Numbers, unknown types, refusals ------------------------------------------------------------


def test_whole_numbers_may_be_written_as_floats_or_text(tmp_path):
    plain = read(tmp_path, SHAPES)
    assert read(tmp_path, SHAPES | {"hidden_size": 64.0, "vocab_size": "1e3"}) == plain
    assert read(tmp_path, SHAPES | {"intermediate_size": "160.0"}) == plain


def test_a_number_may_be_repeated_for_every_layer(tmp_path):
    lists = {"num_key_value_heads": [2] * 4, "intermediate_size": [160.0] * 4}
    assert read(tmp_path, SHAPES | lists) == read(tmp_path, SHAPES)
    latent = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    index = {"q_lora_rank": 32, "index_n_heads": 4, "index_head_dim": 16, "index_topk": 8}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    sparse = SHAPES | latent | index | experts | {"model_type": "deepseek_v32"}
    lists = {key: [sparse[key]] * 4 for key in ("index_topk", "q_lora_rank", "v_head_dim")}
    assert read(tmp_path, sparse | lists) == read(tmp_path, sparse)


def test_values_as_wide_as_keys_are_no_latent_attention(tmp_path):
    assert read(tmp_path, SHAPES | {"v_head_dim": 16}) == read(tmp_path, SHAPES)


def test_latent_attention_needs_no_width_of_a_head(tmp_path):
    latent = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    model = read(tmp_path, SHAPES | latent | {"model_type": "novel", "num_attention_heads": 6,
                                              "num_key_value_heads": 6})  # fmt: skip
    assert kv_elements_per_token(model) == 4 * (32 + 8)


def test_latent_attention_alternates_with_layers_that_have_a_state(tmp_path):
    """Kimi Linear: in the state's layers convolutions of queries, keys and values, a matrix each;
    decay and gate are counted as Gated DeltaNet's."""
    row = next(row for row in ROWS if row["config"].get("model_type") == "kimi_linear")
    model = read(tmp_path, row["config"])
    hidden, wide = 2304, 32 * 128
    matrices = hidden * (4 * wide + 2 * 32) + wide * hidden
    hand = 20 * (matrices + 4 * 3 * wide + 2 * 32)
    assert parameters_by_part(model)["linear_attention"] == hand
    for phase in ("prefill", "decode"):
        names = lower(model, phase, 100, 10).names
        assert {"latent_projection", "linear_projection"} <= set(names)


def test_an_unknown_type_is_read_by_its_shapes_with_a_warning(tmp_path, caplog):
    model = read(tmp_path, SHAPES | {"model_type": "novel"})
    assert parameter_count(model) == parameter_count(read(tmp_path, SHAPES))
    assert len(caplog.records) == 1 and "'novel' is not known: read by its shapes" in caplog.text
    mixture = SHAPES | {"model_type": "novel", "n_routed_experts": 8, "num_experts_per_tok": 2,
                        "moe_intermediate_size": 32, "n_shared_experts": 1}  # fmt: skip
    assert parameters_by_part(read(tmp_path, mixture))["experts"] == 4 * 8 * 3 * 64 * 32


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "gated MLPs, RMS norms, rotary positions and untied"),
        ({"transformers_version": "4.50.0"}, "positions and tied"),
        ({"transformers_version": "4.50.0", "tie_word_embeddings": False}, "untied"),
        ({"hidden_act": "relu2"}, "ungated MLPs"),
        ({"sliding_window": 8}, "a sliding window in every layer"),
    ],
)  # fmt: skip
def test_the_warning_about_an_unknown_type_names_what_is_assumed(tmp_path, changes, words):
    model = read(tmp_path, SHAPES | {"model_type": "novel"} | changes)
    assert words in model.notes[0]
    assert model.tie_word_embeddings == (" tied" in words)
    assert model.is_gated == ("ungated" not in words)


def test_a_language_model_may_be_nested_twice(tmp_path):
    thinker = {"model_type": "qwen2_5_omni_thinker",
               "text_config": SHAPES | {"model_type": "qwen2"}}  # fmt: skip
    model = read(tmp_path, {"model_type": "qwen2_5_omni", "thinker_config": thinker})
    assert parameter_count(model) == parameter_count(read(tmp_path, SHAPES)) + 4 * 2 * 64
    assert model.attention_bias and not model.notes


@pytest.mark.parametrize(
    ("version", "outer", "part", "is_tied"),
    [
        ("5.24.0", True, False, True),
        ("5.24.0", False, True, False),
        ("5.24.0", None, True, True),
        ("4.57.1", False, True, True),
        ("4.57.1", True, False, False),
        (None, True, None, True),
        (None, False, True, True),
    ],
)
def test_the_outer_key_ties_embeddings_of_files_of_transformers_5(
    tmp_path, version, outer, part, is_tied
):
    """LLaVA-OneVision 0.5B's file of version 4 has false outside and true inside, and is tied."""
    model = read(tmp_path, {
        "model_type": "novel_vl", "transformers_version": version, "tie_word_embeddings": outer,
        "text_config": SHAPES | {"tie_word_embeddings": part},
    })  # fmt: skip
    assert model.tie_word_embeddings == is_tied


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "t5"}, r"config.json:2: model_type: expected a decoder-only .* got 't5'"),
        ({"model_type": "bert", "type_vocab_size": 2}, "'bert', which has an encoder"),
        ({"model_type": "novel", "is_encoder_decoder": True}, "'novel', which has an encoder"),
        ({"model_type": "novel", "architectures": ["NovelForMaskedLM"]}, "has an encoder"),
        ({"num_hidden_layers": "absent"}, "num_hidden_layers: the key is required for model_type"),
        ({"model_type": "novel", "num_hidden_layers": "absent"},
         "unknown model_type 'novel'.* Its shapes do not suffice: num_hidden_layers is missing"),
        ({"model_type": "novel", "mamba_d_state": 16},
         r"'novel' is not known.*: mamba_d_state is not modeled \(layers with a state-space model"),
        ({"model_type": "novel", "conv_L_cache": 3}, r"\(short convolutions in place of attention"),
        ({"model_type": "novel", "attention_probs_dropout_prob": 0.1}, r"\(blocks of BERT\)"),
        ({"model_type": "novel", "parallel_attn_mlp_res": True, "lightning_nh": 4, "use_it": False},
         r"shapes do not suffice: got parallel_attn_mlp_res, lightning_nh, which would be ignored"),
        ({"model_type": "novel", "n_routed_experts": 8, "num_experts_per_tok": 2,
          "moe_layer_freq": 2}, "got moe_layer_freq, which would be ignored"),
        ({"model_type": "novel", "hc_mult": 4}, r"\(several residual streams\)"),
        ({"model_type": "novel", "moe_layers_enum": "1,3"}, r"\(a choice of layers with experts\)"),
        ({"model_type": "novel", "index_topk": 8}, "suffice: got index_topk, which would be"),
        ({"model_type": "jetmoe"}, "do not suffice: attention whose heads are experts"),
        ({"num_key_value_heads": [2, 2, 2, 4]}, "num_key_value_heads: .*valid integer"),
        ({"num_key_value_heads": [2, 2]}, "num_key_value_heads: .*valid integer"),
        ({"hidden_size": "64.5"}, "config.json:3: hidden_size: .*valid integer"),
        ({"layer_types": ["conv"] * 4}, r"layer_types\.0: unknown choice 'conv'"),
        ({"model_type": "gemma3", "text_config": {"num_hidden_layers": 2.5}}, "integer, got 2.5"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M-X*"}, "unknown choice"),
        ({"model_type": "nemotron-nas", "block_configs": [{}]}, "attention: the key is required"),
        ({"model_type": "nemotron-nas", "block_configs": 3}, "keys of the layers do not fit"),
        ({"per_layer_config": {"0": {"kv_lora_rank": 8}}}, "kv_lora_rank of single layers"),
        ({"per_layer_config": [1]}, "keys of the layers do not fit"),
        ({"per_layer_config": {"1": {"num_attention_heads": 3}}},
         "every layer with softmax attention, got 2 of 3"),
        ({"per_layer_config": {"1": {"num_key_value_heads": 0}}}, "got 0 of 4"),
        ({"hidden_act": [["relu"]]}, "unknown activation"),
        ({"architectures": 7, "hidden_size": True}, "hidden_size: expected a valid integer"),
        ({"num_hidden_layers": 1e12}, "num_hidden_layers: expected at most 10000 layers"),
        ({"num_key_value_head": 2, "use_it": False},
         "'llama': got num_key_value_head, which .* Did you mean 'num_key_value_heads'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_a_line_for_each_mistake(tmp_path, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, SHAPES | changes)
    assert all(str(tmp_path) in line for line in str(caught.value).splitlines())


def test_a_request_counts_the_state_of_a_model_without_attention(tmp_path):
    read(tmp_path, MAMBA2)
    request = Request.model_validate(
        {"model": str(tmp_path), "phase": "decode", "prompt_tokens": 8, "generated_tokens": 4}
    )
    assert request.kv_elements_per_request == 0
    assert request.state_bytes_per_request == 2 * (4 * 8 * 16 * 32 + 2 * 3 * (128 + 128))
