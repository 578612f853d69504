"""Reading models, formats and requests; what they refuse and how they say so."""

import json

import pytest

from codesign.base.errors import InputError, UnknownNameError
from codesign.base.schema import parse_document, parse_record
from codesign.models.workload import (
    FORMATS,
    Request,
    bits_per_element,
    list_models,
    list_traces,
    load_model,
    load_trace,
    multiply_bits,
    parameter_count,
    summary,
)
from codesign.models.workload.computed_keys import bailing_keys

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip

FULL = "layer_types: [full_attention, full_attention, full_attention]\n"
MIXTURE = "n_routed_experts: 4\nnum_experts_per_tok: 2\nmoe_intermediate_size: 8\n"
LINEAR = (
    "linear_num_key_heads: 2\nlinear_num_value_heads: 4\nlinear_key_head_dim: 8\n"
    "linear_value_head_dim: 8\nlinear_conv_kernel_dim: 4\n"
)


def config(tmp_path, **changes):
    file = tmp_path / "config.json"
    data = {key: value for key, value in (LLAMA | changes).items() if value != "absent"}
    file.write_text(json.dumps(data, indent=2), encoding="utf-8")
    return str(file)


def request(text):
    return parse_record(parse_document(text, "campaign.yaml"), Request)


# Formats ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "true", "plain", "rate"),
    [
        ("mxfp4", 4.25, 4, 4), ("mxfp8", 8.25, 8, 8), ("mxfp16", 16.25, 16, 16),
        ("mxint4", 4.25, 4, 4), ("mxint8", 8.25, 8, 8), ("mxint16", 16.25, 16, 16),
        ("bf16", 16, 16, 16), ("fp16", 16, 16, 16), ("fp8", 8, 8, 8), ("int8", 8, 8, 8),
        ("int4", 4, 4, 4), ("fp4", 4, 4, 4), ("nvfp4", 4.5, 4, 4),
        ("fp8_block128", 8, 8, 8),
    ],
)  # fmt: skip
def test_an_element_takes_its_bits_and_its_part_of_the_scale(name, true, plain, rate):
    assert bits_per_element(name) == true
    assert bits_per_element(name, "plain") == plain
    assert multiply_bits(name) == rate
    assert len(FORMATS) == 14


def test_an_unknown_format_offers_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown number format 'mxfp88'\. Did you mean"):
        bits_per_element("mxfp88")


# Models -------------------------------------------------------------------------------------


def test_defaults_of_a_config_are_hugging_faces(tmp_path):
    model = load_model(config(tmp_path, num_key_value_heads="absent", rope_theta=1e6))
    assert model.num_key_value_heads == 4 and model.head_dim == 16
    assert not model.tie_word_embeddings and model.name == tmp_path.name


def test_a_folder_stands_for_its_config(tmp_path):
    file = config(tmp_path)
    assert load_model(str(tmp_path)) == load_model(file)


def test_a_yaml_file_with_the_same_keys_is_a_model(tmp_path):
    file = tmp_path / "mine.yaml"
    lines = [f"{key}: {value}" for key, value in LLAMA.items() if key != "model_type"]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert parameter_count(load_model(str(file))) == parameter_count(load_model(config(tmp_path)))
    assert load_model(str(file)).name == "mine"


def test_biases_of_llama_are_on_all_four_projections_and_of_qwen2_on_three(
    tmp_path,
):
    plain = parameter_count(load_model(config(tmp_path)))
    llama = parameter_count(load_model(config(tmp_path, attention_bias=True)))
    qwen2 = parameter_count(load_model(config(tmp_path, model_type="qwen2")))
    queries_keys_values = 64 + 2 * 32
    assert llama - plain == 3 * (queries_keys_values + 64)
    assert qwen2 - plain == 3 * queries_keys_values


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "lama", "vocab_size": "absent"},
         r"config.json:2: model_type: unknown model_type 'lama'. Did you"),
        ({"hidden_size": "absent"}, r"config.json:1: hidden_size: the key is required for"),
        ({"hidden_size": -64}, r"config.json:3: hidden_size: .*greater than or equal to 1"),
        ({"hidden_size": 64.5}, r"config.json:3: hidden_size: .*valid integer"),
        ({"hidden_size": "64x"}, r"config.json:3: hidden_size: .*valid integer"),
        ({"hidden_size": 65}, r"head_dim: expected where hidden_size is not a multiple"),
        ({"num_key_value_heads": 3},
         r"config.json:7: num_key_value_heads: expected a divisor of num_attention_heads \(4\)"),
        ({"num_attention_heads": 0}, r"head_dim: expected|num_attention_heads: .*greater"),
        ({"hidden_act": "relu3"}, r"config.json:9: hidden_act: unknown activation 'relu3'"),
        ({"model_type": "qwen2", "use_sliding_window": True},
         r"config.json:1: sliding_window: the key is required, since use_sliding_window is given"),
        ({"layer_types": ["full_attention", "slidin_attention", "full_attention"]},
         r"config.json:11: layer_types.1: .*'slidin_attention'. Did you mean 'slidin"),
        ({"layer_types": ["full_attention"]},
         r"config.json:9: layer_types: .*expected one kind per layer \(3\), got 1"),
        ({"layer_types": ["sliding_attention"] * 3}, "sliding_window: required, since"),
        ({"layer_types": ["linear_attention"] * 3}, "linear_num_key_heads: required, since"),
        ({"model_type": "qwen3_5_moe"},
         r"config.json:1: text_config: expected the keys of the language model of 'qwen3_5_moe'"),
        ({"model_type": "qwen3_5_moe", "text_config": {"hidden_size": 64}},
         r"config.json:9: num_experts: the key is required for model_type 'qwen3_5_moe_text'"),
        ({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3},
         r"config.json:10: num_experts_per_tok: expected at most n_routed_experts \(2\), got 3"),
        ({"model_type": "gpt2", "hidden_size": "absent"},
         r"hidden_size: the key is required for model_type 'gpt2' \(or n_embd,"),
    ],
)  # fmt: skip
def test_a_config_that_cannot_be_used_is_refused_with_file_line_and_key(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        load_model(config(tmp_path, **changes))


WINDOW = {"use_sliding_window": True, "sliding_window": 10}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "qwen2", **WINDOW}, {"full_attention": 3}),  # 28 full ones by default
        ({"model_type": "qwen2", "max_window_layers": 1, **WINDOW},
         {"full_attention": 1, "sliding_attention": 2}),
        ({"model_type": "qwen3", "head_dim": 16, "max_window_layers": 0, **WINDOW},
         {"sliding_attention": 3}),
        ({"model_type": "qwen2", "max_window_layers": 1, **WINDOW, "use_sliding_window": False},
         {"full_attention": 3}),
        ({"model_type": "mistral", "sliding_window": 10}, {"sliding_attention": 3}),
        ({"model_type": "mistral", "sliding_window": None}, {"full_attention": 3}),
        ({"sliding_window": 10,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
         {"full_attention": 1, "sliding_attention": 2}),
        ({"sliding_window": 10, "layer_types": ["full_attention"] * 3}, {"full_attention": 3}),
    ],
)  # fmt: skip
def test_layers_slide_as_the_code_of_their_architecture_has_them(tmp_path, changes, expected):
    assert load_model(config(tmp_path, **changes)).layers_by_type == expected


def test_dense_layers_of_a_qwen3_mixture_are_those_of_its_code(tmp_path):
    changes = {"model_type": "qwen3_moe", "head_dim": 16, "num_experts": 8, "num_hidden_layers": 9,
               "num_experts_per_tok": 2, "moe_intermediate_size": 32}  # fmt: skip
    sparse = load_model(config(tmp_path, **changes, decoder_sparse_step=2, mlp_only_layers=[1, 2]))
    with_experts = [i for i in range(9) if i not in [1, 2] and (i + 1) % 2 == 0]
    assert sparse.n_moe_layers == len(with_experts) == 3
    assert load_model(config(tmp_path, **changes)).n_moe_layers == 9


def test_all_mistakes_of_a_config_are_reported_at_once(tmp_path):
    wrong = {"hidden_size": "absent", "vocab_size": "absent", "num_hidden_layers": "x"}
    file = config(tmp_path, **wrong, num_key_value_heads=3)
    with pytest.raises(InputError) as caught:
        load_model(file)
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kv_lora_rank: 8", "qk_nope_head_dim: required for multi-head latent attention"),
        ("num_experts_per_tok: 2", "n_routed_experts: required for a mixture of experts"),
        ("first_k_dense_replace: 1", "n_routed_experts: required for a mixture of experts"),
        ("position: learned", "max_position_embeddings: required with learned positions"),
        (
            "kv_lora_rank: 8\nposition: learned\npartial_rotary_factor: 0.3",
            "(?s)max_position.*qk_nope.*v_head_dim.*partial_rotary.*kv_lora_rank: latent",
        ),
        ("hiden_size: 8", "unknown key 'hiden_size'. Did you mean 'hidden_size'"),
        ("first_k_dense_replace: 4", r"mine.yaml:7: first_k_dense_replace: expected at most "),
        ("decoder_sparse_step: 2", "n_routed_experts: required for a mixture of experts"),
        ("mlp_only_layers: [1]", "n_routed_experts: required for a mixture of experts"),
        ("linear_key_head_dim: 8", "linear_num_key_heads: required for linear attention"),
        ("full_attention_interval: 2", "linear_num_key_heads: required, since layers have"),
        (
            FULL + "sliding_window: 8",
            "sliding_window: no layer has sliding_attention",
        ),
        (
            FULL + "full_attention_interval: 2",
            "full_attention_interval: layer_types differs from 2",
        ),
        ("partial_rotary_factor: 0.3", "partial_rotary_factor: expected a whole number"),
        (MIXTURE + "mlp_only_layers: [3]", "mlp_only_layers: expected positions up to 2, got 3"),
        (
            MIXTURE + "n_shared_experts: 1\nshared_expert_intermediate_size: 8",
            "shared_expert_intermediate_size: n_shared_experts is given too",
        ),
        (LINEAR, "linear_num_key_heads: no layer has linear_attention"),
        (
            LINEAR.replace("heads: 4", "heads: 3") + "full_attention_interval: 3",
            r"linear_num_value_heads: expected a multiple of linear_num_key_heads \(2\), got 3",
        ),
        (
            LINEAR + "full_attention_interval: 3\nis_diffusion: true",
            "layer_types: a diffusion model attends to everything",
        ),
    ],
)
def test_a_model_file_that_contradicts_itself_is_refused(tmp_path, line, message):
    file = tmp_path / "mine.yaml"
    lines = [f"{key}: {value}" for key, value in LLAMA.items() if key != "model_type"]
    file.write_text("\n".join([*lines, line]), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_model(str(file))


def test_a_file_that_is_no_model_is_refused_in_one_line(tmp_path):
    file = tmp_path / "other.json"
    for content in ("", "[1, 2]", '{"a": 1}', '{"a": 1, "a": 2}', "{", "\x00"):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=r"other\.json"):
            load_model(str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        load_model(str(file))
    with pytest.raises(InputError, match="no such file"):
        load_model(str(tmp_path / "absent.json"))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Qwen/Qwen3-32B", "qwen3-32b"), ("deepseek-r1", "deepseek-v3"), ("kimi-k2", "kimi-k2"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"), ("Llama 3.1 8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-70B-Instruct", "llama-3.3-70b"),
    ],
)  # fmt: skip
def test_a_repository_stands_for_the_bundled_model(name, model):
    assert load_model(name) is load_model(model)


def test_the_summary_of_every_model_is_plain_and_adds_up():
    assert len(list_models()) == 20
    for name in list_models():
        plain = summary(load_model(name))
        json.dumps(plain)
        assert sum(plain["parameters_by_part"].values()) == plain["parameters"]
        assert plain["active_parameters"] <= plain["parameters"]


# Requests -----------------------------------------------------------------------------------


def test_the_traces_are_those_of_memexplorer_and_genz():
    counts = {
        name: (load_trace(name).prompt_tokens, load_trace(name).generated_tokens)
        for name in list_traces()
    }
    assert counts == {
        "osworld": (90_000, 8_000),
        "bfcl": (114_000, 5_000),
        "gsm8k": (1_400, 200),
        "chat": (3_000, 1_000),
        "rag": (10_000, 200),
        "code": (20_000, 50),
    }


def test_a_trace_and_its_token_counts_are_the_same_request():
    named = request("model: llama-3-8b\nphase: decode\ntrace: gsm8k\n")
    counted = request(
        "model: llama-3-8b\nphase: decode\nprompt_tokens: 1_400\ngenerated_tokens: 200\n"
    )
    assert named.operators().mac_per_request.sum() == counted.operators().mac_per_request.sum()
    assert named.kv_elements_per_request == counted.kv_elements_per_request
    assert named.tokens_of_phase == 200
    assert named.model_copy(update={"phase": "prefill"}).tokens_of_phase == 1_400


def test_the_llama_of_memexplorer_fits_base_once():
    """Table 6: batch 1 on 96 GB of HBM3E and 0.1 GB of SRAM, at 8 bits plain."""
    llama = request("model: llama-3.3-70b\nphase: prefill\ntrace: osworld\n")
    room = 96.1e9 - llama.weight_elements
    assert 1 <= room / llama.kv_elements_per_request < 2
    assert llama.kv_elements_per_request == 98_000 * 163_840
    assert (llama.batch, llama.max_batch, llama.format_convention) == (None, 128, "plain")


def test_a_request_hands_its_switches_to_the_lowering():
    text = "model: llada-8b\nphase: decode\ntrace: gsm8k\n"
    assert request(text + "diffusion_steps: 7\n").operators().n_passes == 7
    text = "model: llama-3-8b\nphase: prefill\nprompt_tokens: 8\ngenerated_tokens: 4\n"
    plain = request(text).operators()
    switched = request(text + "causal: false\nlogits: all\nembedding: dense\n").operators()
    head, scores = plain.names.index("lm_head"), plain.names.index("attention_qk")
    assert (plain.m_per_request[head], switched.m_per_request[head]) == (1, 8)
    assert (plain.n[scores], switched.n[scores]) == (4.5, 8)
    assert (plain.kinds[0], switched.kinds[0]) == ("gather", "gemm")
    decode = request(text.replace("prefill", "decode"))
    assert (decode.operators().n[scores], decode.operators(context=9).n[scores]) == (10.5, 9)


def test_a_sliding_window_limits_the_cache(tmp_path):
    file = config(tmp_path, model_type="mistral", sliding_window=10)
    text = f"model: {file}\nphase: decode\nprompt_tokens: 8\ngenerated_tokens: "
    per_token = 3 * 2 * 2 * 16
    assert request(text + "1\n").kv_elements_per_request == 9 * per_token
    assert request(text + "5\n").kv_elements_per_request == 10 * per_token


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("phase: decode", "expected trace, or both prompt_tokens and generated_tokens"),
        ("phase: decode\nprompt_tokens: 5", "expected trace, or both"),
        ("phase: decode\ntrace: gsm8k\nprompt_tokens: 5", "either trace or token counts"),
        (
            "phase: decode\ntrace: gsm9k",
            r"^campaign.yaml:3: trace: unknown trace 'gsm9k'. Did you .*gsm8k, osworld, rag\.$",
        ),
        ("phase: decoding\ntrace: gsm8k", r"campaign.yaml:2: phase: .*'decoding'"),
        (
            "phase: decode\ntrace: gsm8k\nbatch: 0",
            r"campaign.yaml:4: batch: expected 'best', 'capacity', a number of requests from 1, or",
        ),
        (
            "phase: decode\ntrace: gsm8k\nbatch: most",
            r"campaign.yaml:4: batch: expected .* got 'most'$",
        ),
        ("phase: decode\ntrace: gsm8k\ndiffusion_steps: 5", "is not a diffusion model"),
        ("phase: decode\ntrace: gsm8k\ncasual: true", "unknown key 'casual'. Did you mean"),
        (
            "phase: decode\ncontext_length: 9\ngenerated_tokens: 1",
            "unknown key 'context_length'. Did you mean 'prompt_tokens'",
        ),
        ("phase: decode\nprompt_tokens: 5.5\ngenerated_tokens: 1", "prompt_tokens: .*integer"),
        ("phase: decode\nprompt_tokens: 0\ngenerated_tokens: 1", "prompt_tokens: .*greater"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        request(f"model: llama-3-8b\n{text}\n")


@pytest.mark.parametrize("model", ["lama-3-8b", "5", "[1]", "absent.json"])
def test_a_request_for_an_unknown_model_is_refused(model):
    with pytest.raises(InputError, match=r"campaign.yaml:1: model"):
        request(f"model: {model}\nphase: decode\ntrace: gsm8k\n")


@pytest.mark.parametrize(("kv_heads", "name"), [(1, "MQA"), (2, "GQA"), (4, "MHA")])
def test_the_summary_names_the_attention_by_its_heads_of_keys(kv_heads, name, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"num_key_value_heads": kv_heads}))
    assert name in json.dumps(summary(load_model(str(path))))


def test_a_bailing_model_without_a_number_of_shared_experts_has_none():
    keys = bailing_keys({"moe_intermediate_size": 512})
    assert keys == {"shared_expert_intermediate_size": None, "is_shared_expert_gated": True}
    assert bailing_keys({"moe_intermediate_size": 512, "n_shared_experts": 2}) == {
        "shared_expert_intermediate_size": 1024, "is_shared_expert_gated": False
    }  # fmt: skip
