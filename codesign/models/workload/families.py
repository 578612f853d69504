"""Families of models on Hugging Face: one row says how the files of a ``model_type`` are read.

A row states what the file does not: defaults of the family's configuration class, what its code
has built in, and a function of ``computed_keys.py`` for keys that have to be computed. Source of
all of them is the code of Transformers 4.57 and, for families outside of it, the code beside the
published weights.

To add a family, add a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from codesign.models.workload.computed_keys import (
    ALIASES,
    EXPERTS,
    Config,
    bailing_keys,
    bamba_keys,
    biases_by,
    chatglm_keys,
    dbrx_keys,
    deci_keys,
    ernie_keys,
    exaone4_keys,
    expert_width,
    falcon_h1_keys,
    falcon_keys,
    four_times_width,
    gemma3n_keys,
    gemma4_keys,
    gemma_blocks,
    gpt_bigcode_keys,
    gpt_neo_keys,
    gpt_neox_keys,
    granite_hybrid_keys,
    granite_shared_keys,
    indexer_keys,
    jamba_keys,
    joined,
    kimi_linear_keys,
    lfm2_keys,
    llama4_keys,
    mamba1_keys,
    mamba2_keys,
    mamba_ssm_keys,
    mimo_keys,
    minimax_keys,
    mpt_keys,
    nemotron_h_keys,
    nemotron_nas_keys,
    opt_keys,
    pick,
    qwen3_next_keys,
    rotated_part,
    shape_keys,
    sliding_but_every,
    stablelm_keys,
    step_keys,
)
from codesign.models.workload.model import INDEX_KEYS, LINEAR_KEYS

ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "swiglu": "silu", "gelu": "gelu", "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu", "gelu_python": "gelu",
    "quick_gelu": "gelu", "relu": "relu", "relu2": "relu2", "relu_squared": "relu2",
    "xielu": "silu", "swigluoai": "silu", "situ": "silu",
}  # fmt: skip
"""Our name for an activation of a file; xIELU has a square where SiLU has a product, and those of
MiniMax-M3 and Kimi K3 clamp or bend it."""

LAYER_KINDS = {
    "attention": "full_attention", "full": "full_attention", "global": "full_attention",
    "local": "sliding_attention", "chunked_attention": "sliding_attention",
    "mamba": "linear_attention", "mamba2": "linear_attention",
    "indexed_attention": "full_attention",
}  # fmt: skip
"""Our name for a kind of layer of a file. A layer with chunked attention keeps, as Transformers'
cache does, what a sliding one of the chunk's length would. One that chooses tokens by an index
attends to all of them."""

CORE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_DIMENSIONS = (*CORE, "intermediate_size")
_DENSE = (*_DIMENSIONS, "num_key_value_heads", "head_dim", "tie_word_embeddings", "hidden_act",
          "attention_bias", "mlp_bias", "layer_types", "sliding_window")  # fmt: skip
_SPARSE = ("decoder_sparse_step", "mlp_only_layers", "mlp_layer_types")
_LATENT = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")

NUMBERS = frozenset(
    name
    for key in (*_DIMENSIONS, "num_key_value_heads", "head_dim", *EXPERTS, "n_shared_experts",
                "shared_expert_intermediate_size", *_LATENT, "q_lora_rank", *INDEX_KEYS)
    for name in ALIASES.get(key, (key,))
)  # fmt: skip
"""Keys of a file that are one number, which some files repeat for every layer."""

FIRST_WINDOW_LAYER = 28
"""Transformers' default of ``max_window_layers``."""


@dataclass(frozen=True)
class Family:
    """Rules by which the files of one ``model_type`` are read.

    Attributes:
        required: Our keys that the file must have, under any of their names.
        keys: Our keys that are read.
        defaults: Values of the file's keys where it leaves them out.
        fixed: Values of our keys that the architecture's code has built in.
        expected: Keys of the file that may only have one of these values, if present.
        derive: Our keys that are computed, from the file's with the defaults.
        window_key: Key that says whether ``sliding_window`` counts; None: it counts.
        first_window_key: Key with the number of layers before the first sliding one; None: 0.
        notes: What of the architecture is not modeled.
    """

    required: tuple[str, ...] = _DIMENSIONS
    keys: tuple[str, ...] = _DENSE
    defaults: Config = field(default_factory=dict)
    fixed: Config = field(default_factory=dict)
    expected: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    derive: Callable[[Config], dict[str, Any]] = lambda config: {}
    window_key: str | None = None
    first_window_key: str | None = None
    notes: tuple[str, ...] = ()


# Rows ----------------------------------------------------------------------------------------

_LLAMA = Family()
# Their default of num_key_value_heads is not the number of heads, so it has to be given.
_GROUPED = replace(_LLAMA, required=(*_DIMENSIONS, "num_key_value_heads"))
_WINDOWED = replace(_GROUPED, window_key="use_sliding_window", first_window_key="max_window_layers")
_QKV_BIAS = {"attention_bias": True, "attention_output_bias": False}
_TIED = {"tie_word_embeddings": True}
_QWEN2 = replace(_WINDOWED, fixed=_QKV_BIAS)
_QWEN3 = replace(_WINDOWED, required=(*_GROUPED.required, "head_dim"), fixed={"qk_norm": True})
_MIXTURE = replace(
    _GROUPED,
    required=(*_GROUPED.required, *EXPERTS),
    keys=(*_DENSE, *EXPERTS, *_SPARSE, "n_shared_experts", "shared_expert_intermediate_size"),
)
_OWN_WIDTH = replace(
    _MIXTURE,
    required=(*_GROUPED.required, "n_routed_experts", "num_experts_per_tok"),
    derive=expert_width,
)
"""Mixtures whose ``intermediate_size`` is the width of an expert."""
_QWEN3_MOE = replace(
    _MIXTURE,
    keys=(*_DENSE, *EXPERTS, *_SPARSE),
    fixed={"qk_norm": True},
    window_key="use_sliding_window",
)
_QWEN3_NEXT = replace(
    _QWEN3_MOE,
    required=(*_QWEN3_MOE.required, "head_dim", "shared_expert_intermediate_size", *LINEAR_KEYS),
    keys=(*_QWEN3_MOE.keys, "shared_expert_intermediate_size", *LINEAR_KEYS, "mamba_ssm_dtype"),
    fixed={"qk_norm": True, "attn_output_gate": True},
    derive=qwen3_next_keys,
)
_DEEPSEEK = Family(
    required=(*_DIMENSIONS, *_LATENT, *EXPERTS),
    keys=(*_DIMENSIONS, *_LATENT, *EXPERTS, "first_k_dense_replace", "q_lora_rank",
          "n_shared_experts", "num_key_value_heads", "tie_word_embeddings", "hidden_act",
          "attention_bias", "mlp_layer_types"),
    expected={"moe_layer_freq": (1,)},
)  # fmt: skip
_ONE_DENSE = {"first_k_dense_replace": 1}
_DEEPSEEK_V3 = replace(
    _DEEPSEEK, defaults={"first_k_dense_replace": 3}, fixed={"has_router_bias": True}
)
_SPARSE_INDEX = replace(
    _DEEPSEEK_V3,
    required=(*_DEEPSEEK_V3.required, "q_lora_rank", *INDEX_KEYS),
    keys=(*_DEEPSEEK_V3.keys, *INDEX_KEYS),
)
_KIMI_LINEAR = replace(
    _DEEPSEEK_V3,
    keys=(*_DEEPSEEK_V3.keys, "moe_latent_size"),
    defaults=_ONE_DENSE,
    derive=kimi_linear_keys,
    notes=(
        "Kimi Delta Attention is counted as Gated DeltaNet, its gates by channel too; a gate of "
        "latent attention and attention over earlier layers are not modeled",
    ),
)
_GLM4_MOE = replace(
    _MIXTURE,
    keys=(*_MIXTURE.keys, "first_k_dense_replace"),
    fixed={"has_router_bias": True, "attention_output_bias": False},
    derive=lambda config: rotated_part(config, 0.5) | {"qk_norm": config.get("use_qk_norm", False)},
)
_BAILING = replace(_MIXTURE, keys=(*_MIXTURE.keys, "first_k_dense_replace"), derive=bailing_keys)
_HUNYUAN = replace(
    _GROUPED,
    defaults=_TIED,
    derive=lambda config: {"qk_norm": config.get("use_qk_norm", False)},
    expected={"use_cla": (False, None)},
)
_LEGACY: dict[str, Any] = {"is_gated": False, "norm": "layernorm", "attention_bias": True,
                           "attention_output_bias": True, "mlp_bias": True}  # fmt: skip
_UNGATED = Family(required=CORE, defaults=_TIED, fixed=_LEGACY, derive=four_times_width)
"""MLPs of two matrices, layer norms and biases everywhere."""
_LEARNED = {**_LEGACY, "position": "learned"}
_GPT2 = replace(
    _UNGATED,
    required=(*CORE, "max_position_embeddings"),
    keys=(*_DENSE, "max_position_embeddings"),
    defaults={**_TIED, "hidden_act": "gelu"},
    fixed=_LEARNED,
)
_OPT = replace(
    _GPT2,
    required=(*_DIMENSIONS, "max_position_embeddings"),
    defaults={**_TIED, "hidden_act": "relu"},
    derive=opt_keys,
)
_GPTJ = replace(
    _UNGATED,
    defaults={"hidden_act": "gelu"},
    fixed=_LEGACY | {"norms_per_layer": 1, "attention_bias": False, "attention_output_bias": False},
    derive=joined(four_times_width, rotated_part),
)
_FALCON = replace(
    _UNGATED,
    defaults={**_TIED, "hidden_act": "gelu"},
    fixed={"is_gated": False, "norm": "layernorm"},
    derive=falcon_keys,
)
_COHERE = replace(
    _LLAMA,
    defaults=_TIED,
    fixed={"norm": "layernorm", "norms_per_layer": 1},
    derive=lambda config: {"qk_norm": config.get("use_qk_norm", False)},
)
_GEMMA = replace(
    _GROUPED,
    required=(*_GROUPED.required, "head_dim"),
    defaults={**_TIED, "hidden_act": "gelu"},
)
_GEMMA3_DEFAULTS: dict[str, Any] = {
    **_TIED, "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
    "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4096,
}  # fmt: skip
_GEMMA3 = replace(
    _GEMMA,
    required=(),
    defaults=_GEMMA3_DEFAULTS,
    fixed={"norms_per_layer": 4, "qk_norm": True},
    derive=sliding_but_every(6, "sliding_window_pattern", "_sliding_window_pattern"),
)
_GEMMA3N = replace(
    _GEMMA3,
    defaults=_GEMMA3_DEFAULTS | {
        "vocab_size": 262400, "hidden_size": 2048, "intermediate_size": 16384,
        "num_hidden_layers": 35, "num_key_value_heads": 2, "sliding_window": 512,
        "num_kv_shared_layers": 15, "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262144, "altup_num_inputs": 4, "laurel_rank": 64,
    },
    derive=joined(sliding_but_every(5), gemma3n_keys, gemma_blocks),
    notes=("AltUp's elementwise work and the sparse activation of Gemma 3n are not modeled",),
)  # fmt: skip
_GEMMA4 = replace(
    _GEMMA3,
    keys=(*_DENSE, *EXPERTS),
    defaults=_GEMMA3_DEFAULTS | {
        "vocab_size": 262144, "num_hidden_layers": 30,
        "sliding_window": 512, "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 0,
        "vocab_size_per_layer_input": 262144, "attention_k_eq_v": False,
        "use_double_wide_mlp": False, "enable_moe_block": False,
    },
    derive=joined(gemma4_keys, gemma_blocks),
)  # fmt: skip
_MAMBA = Family(
    required=("hidden_size", "num_hidden_layers", "vocab_size"),
    keys=("hidden_size", "num_hidden_layers", "vocab_size", "tie_word_embeddings"),
    defaults=_TIED,
    derive=mamba1_keys,
)
_HYBRID = replace(
    _GROUPED,
    keys=(*_DENSE, *EXPERTS, "n_shared_experts", "shared_expert_intermediate_size",
          "moe_latent_size", "mamba_ssm_dtype"),
)  # fmt: skip
_MINIMAX = replace(_OWN_WIDTH, derive=minimax_keys)
_NEMOTRON_H = replace(
    _HYBRID,
    required=("hidden_size", "num_attention_heads", "vocab_size"),
    defaults={"hidden_act": "relu2", "n_groups": 8, "mamba_num_heads": 128, "mamba_head_dim": 64,
              "ssm_state_size": 128, "conv_kernel": 4, "num_key_value_heads": 8, "head_dim": 128},
    fixed={"is_gated": False, "position": "none"},
    derive=nemotron_h_keys,
)  # fmt: skip

_LFM2 = replace(
    _GROUPED,
    required=(*CORE, "num_key_value_heads", "conv_L_cache"),
    defaults={**_TIED, "block_auto_adjust_ff_dim": True},
    fixed={"qk_norm": True},
    derive=lfm2_keys,
)

FAMILIES: dict[str, Family] = {
    # Llama and what has its blocks.
    "llama": _LLAMA,
    "mistral": _GROUPED,
    "ministral": _GROUPED,
    "ministral3": _GROUPED,
    "baichuan": _LLAMA,
    "internlm2": replace(
        _LLAMA,
        derive=lambda config: {"attention_bias": bool(config.get("bias")),
                               "attention_output_bias": bool(config.get("bias"))},
    ),
    "internlm3": replace(_LLAMA, derive=lambda config: {
        "attention_bias": config.get("qkv_bias", config.get("attention_bias", False))}),
    "granite": _LLAMA,
    "olmo": replace(_LLAMA, fixed={"norm": "layernorm"}),
    "olmo2": replace(_LLAMA, fixed={"qk_norm": True}),
    "olmo3": replace(_LLAMA, fixed={"qk_norm": True}, derive=sliding_but_every(4)),
    "phi3": replace(_LLAMA, derive=rotated_part),
    "phi3_v": replace(_LLAMA, derive=rotated_part),
    "phi4mm": replace(_LLAMA, derive=rotated_part),
    "qwen": replace(
        _LLAMA,
        fixed=_QKV_BIAS,
        # The file has the width of gate and up projection together.
        derive=lambda config: {"intermediate_size": config["intermediate_size"] // 2},
    ),
    "bitnet": replace(_GROUPED, defaults={"hidden_act": "relu2"}),
    "smollm3": replace(_GROUPED, defaults=_TIED, window_key="use_sliding_window"),
    "ernie4_5": replace(_GROUPED, defaults=_TIED),
    "seed_oss": replace(_GROUPED, fixed=_QKV_BIAS),
    "hunyuan_v1_dense": _HUNYUAN,
    "exaone": _LLAMA,
    "exaone4": replace(_GROUPED, fixed={"qk_norm": True}, derive=exaone4_keys),
    "glm": replace(_GROUPED, fixed={"attention_output_bias": False},
                   derive=lambda config: rotated_part(config, 0.5)),
    "glm4": replace(
        _GROUPED,
        fixed={"attention_output_bias": False, "norms_per_layer": 4},
        derive=lambda config: rotated_part(config, 0.5),
    ),
    "chatglm": replace(_LLAMA, derive=chatglm_keys),
    "stablelm": replace(_LLAMA, fixed={"norm": "layernorm"}, derive=stablelm_keys),
    "deci": replace(_LLAMA, derive=deci_keys),
    "nemotron-nas": replace(_LLAMA, required=(*CORE, "block_configs"), derive=nemotron_nas_keys),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "cohere": _COHERE,
    "cohere2": replace(
        _COHERE, derive=sliding_but_every(4, "sliding_window_pattern", "layer_switch")
    ),
    "gemma": _GEMMA,
    "muse_glimmer_text": replace(
        _GROUPED, fixed={"attn_output_gate": True, "norms_per_layer": 4}
    ),
    "gemma2": replace(_GEMMA, fixed={"norms_per_layer": 4}, derive=sliding_but_every(2)),
    "gemma3_text": _GEMMA3,
    "gemma3n_text": _GEMMA3N,
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": replace(
        _GEMMA4,
        defaults={**_GEMMA4.defaults, "hidden_size_per_layer_input": 0, "sliding_window": 1024},
    ),
    # Mixtures of experts.
    "mixtral": _OWN_WIDTH,
    "phimoe": replace(
        _OWN_WIDTH, fixed={"norm": "layernorm"},
    ),
    "olmoe": replace(_OWN_WIDTH, fixed={"qk_norm": True}),
    "granitemoe": _OWN_WIDTH,
    "granitemoeshared": replace(_OWN_WIDTH, derive=granite_shared_keys),
    "gpt_oss": replace(
        _OWN_WIDTH,
        fixed={"has_attention_sinks": True, "mlp_bias": True, "has_router_bias": True},
        defaults={"attention_bias": True},
        derive=joined(expert_width, sliding_but_every(2)),
    ),
    "dbrx": replace(_LLAMA, required=(*CORE, "attn_config", "ffn_config"),
                    fixed={"norm": "layernorm"}, derive=dbrx_keys),
    "llama4_text": replace(
        _OWN_WIDTH, fixed={"n_shared_experts": 1}, derive=llama4_keys
    ),
    "ernie4_5_moe": replace(_MIXTURE, defaults=_TIED, derive=ernie_keys),
    "hunyuan_v1_moe": replace(
        _HUNYUAN,
        required=(*_HUNYUAN.required, *EXPERTS[:2]),
        keys=_MIXTURE.keys,
        defaults={**_TIED, "num_shared_expert": 1},
        derive=lambda config: _HUNYUAN.derive(config) | {
            "moe_intermediate_size": pick(config, "moe_intermediate_size",
                                          config["intermediate_size"])},
    ),
    "dots1": replace(
        _MIXTURE,
        keys=(*_MIXTURE.keys, "first_k_dense_replace"),
        fixed={"qk_norm": True, "has_router_bias": True},
    ),
    "afmoe": replace(
        _MIXTURE,
        fixed={"attn_output_gate": True, "qk_norm": True, "norms_per_layer": 4,
               "has_router_bias": True},
        keys=(*_MIXTURE.keys, "first_k_dense_replace"),
        defaults=_ONE_DENSE,
        derive=sliding_but_every(4, "global_attn_every_n_layers"),
    ),
    "bailing_moe": _BAILING,
    "bailing_moe_v2": _BAILING,
    "glm4_moe": _GLM4_MOE,
    "glm4v_moe_text": _GLM4_MOE,
    "qwen2_moe": replace(
        _MIXTURE,
        required=(*_MIXTURE.required, "shared_expert_intermediate_size"),
        fixed=_QKV_BIAS,
        window_key="use_sliding_window",
        first_window_key="max_window_layers",
    ),
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "mimo_v2_flash": replace(
        _MIXTURE,
        required=(*_MIXTURE.required, "head_dim", "v_head_dim"),
        fixed={"has_router_bias": True},
        derive=mimo_keys,
    ),
    "step3p5": replace(
        _MIXTURE,
        fixed={"qk_norm": True, "is_shared_expert_gated": False, "has_router_bias": True},
        derive=step_keys,
    ),
    "minimax_text_01": _MINIMAX,
    "minimax_m1": _MINIMAX,
    "minimax": _MINIMAX,
    "minimax_m2": replace(_MINIMAX, fixed={"qk_norm": True, "has_router_bias": True}),
    # Latent attention.
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "glm4_moe_lite": replace(_DEEPSEEK_V3, defaults=_ONE_DENSE),
    "deepseek_v32": _SPARSE_INDEX,
    "glm_moe_dsa": replace(_SPARSE_INDEX, derive=indexer_keys),
    # Layers with a state.
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5_moe_text": replace(
        _QWEN3_NEXT,
        # Every layer has experts; a width of dense ones is not in the file.
        required=tuple(key for key in _QWEN3_NEXT.required if key != "intermediate_size"),
        keys=tuple(key for key in _QWEN3_NEXT.keys if key not in _SPARSE),
        expected={"attn_output_gate": (True,)},
    ),
    "qwen3_5_text": replace(
        _QWEN3_NEXT,
        required=(*_GROUPED.required, "head_dim", *LINEAR_KEYS),
        keys=(*_DENSE, *LINEAR_KEYS, "mamba_ssm_dtype"),
        expected={"attn_output_gate": (True,)},
    ),
    "kimi_linear": replace(
        _KIMI_LINEAR, expected={"moe_layer_freq": (1,), "mla_use_nope": (True,)}
    ),
    "bailing_hybrid": _KIMI_LINEAR,
    "mamba": _MAMBA,
    "falcon_mamba": replace(_MAMBA, defaults={}),
    "mamba2": replace(_MAMBA, defaults={}, derive=mamba2_keys),
    "mamba_ssm": replace(
        _MAMBA, expected={"attn_layer_idx": ([],), "d_intermediate": (0,)}, derive=mamba_ssm_keys
    ),
    "jamba": replace(
        _HYBRID,
        fixed={"position": "none"},
        defaults={"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2,
                  "expert_layer_offset": 1, "num_experts": 16, "num_experts_per_tok": 2},
        derive=jamba_keys,
    ),
    "granitemoehybrid": replace(
        _HYBRID,
        required=(*_GROUPED.required, "shared_intermediate_size"),
        derive=granite_hybrid_keys,
    ),
    "bamba": replace(_GROUPED, keys=(*_DENSE, "mamba_ssm_dtype"), derive=bamba_keys),
    "falcon_h1": replace(
        _GROUPED,
        keys=(*_DENSE, "mamba_ssm_dtype"),
        derive=falcon_h1_keys,
        notes=("a block's state-space layer and its attention, which run side by side, are counted "
               "as two layers, one after the other",),
    ),
    "nemotron_h": _NEMOTRON_H,
    "lfm2": _LFM2,
    "lfm2_moe": replace(
        _LFM2,
        required=(*_LFM2.required, *EXPERTS),
        keys=(*_LFM2.keys, *EXPERTS, "first_k_dense_replace"),
        defaults={**_LFM2.defaults, "use_expert_bias": True, "block_auto_adjust_ff_dim": False},
    ),
    "lfm3": replace(_LFM2, defaults={**_TIED, "block_auto_adjust_ff_dim": False}),
    # MLPs of two matrices.
    "gpt2": _GPT2,
    "gpt_bigcode": replace(
        _GPT2,
        defaults={**_TIED, "hidden_act": "gelu", "multi_query": True},
        derive=gpt_bigcode_keys,
    ),
    "gpt_neo": replace(
        _GPT2,
        required=(*CORE, "max_position_embeddings", "attention_types", "window_size"),
        fixed=_LEARNED | {"attention_bias": False},
        derive=gpt_neo_keys,
    ),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "gpt_neox": replace(
        _UNGATED, required=_DIMENSIONS, defaults={"hidden_act": "gelu"}, derive=gpt_neox_keys
    ),
    "gpt_neox_japanese": replace(
        _UNGATED,
        fixed={"is_gated": False, "norm": "layernorm"},
        expected={"intermediate_multiple_size": (4,)},
    ),
    "bloom": replace(
        _UNGATED,
        defaults={**_TIED, "hidden_act": "gelu"},
        fixed=_LEGACY | {"position": "none"},
    ),
    "opt": _OPT,
    "mpt": replace(
        _UNGATED,
        defaults={"hidden_act": "gelu"},
        fixed={"is_gated": False, "norm": "layernorm", "tie_word_embeddings": True},
        derive=mpt_keys,
    ),
    "falcon": _FALCON,
    "RefinedWeb": _FALCON,
    "RefinedWebModel": _FALCON,
    "phi": replace(
        _UNGATED,
        defaults={},
        fixed=_LEGACY | {"norms_per_layer": 1},
        derive=joined(four_times_width, lambda config: rotated_part(config, 0.5)),
    ),
    "starcoder2": replace(
        _UNGATED,
        fixed={"is_gated": False, "norm": "layernorm"},
        derive=joined(four_times_width, biases_by("use_bias")),
    ),
    "nemotron": replace(
        _LLAMA,
        defaults={"hidden_act": "relu2"},
        fixed={"is_gated": False, "norm": "layernorm"},
        derive=lambda config: rotated_part(config, 0.5),
    ),
    "jais2": replace(
        _LLAMA,
        defaults={"hidden_act": "relu2", "attention_bias": True, "mlp_bias": True},
        fixed={"is_gated": False, "norm": "layernorm"},
    ),
    "persimmon": replace(
        _UNGATED,
        defaults={"hidden_act": "relu2", "qk_layernorm": True},
        derive=lambda config: rotated_part(config, 0.5) | {"qk_norm": config["qk_layernorm"]},
    ),
    "biogpt": replace(_GPT2, required=_OPT.required, derive=opt_keys),
    "openai-gpt": _GPT2,
    "xglm": replace(_UNGATED, fixed=_LEGACY | {"position": "none"}),
    "ctrl": replace(_UNGATED, defaults={**_TIED, "hidden_act": "relu"},
                    fixed=_LEGACY | {"position": "none"}),
    "apertus": replace(
        _GROUPED, defaults={"hidden_act": "xielu"}, fixed={"is_gated": False, "qk_norm": True}
    ),
    "arcee": replace(_LLAMA, defaults={"hidden_act": "relu2"}, fixed={"is_gated": False}),
    # Diffusion.
    "llada": replace(
        _LLAMA,
        fixed={"is_diffusion": True},
        expected={
            "block_type": ("llama",),
            "rope": (True,),
            "include_bias": (False,),
            "include_qkv_bias": (False, None),
            "layer_norm_type": ("rms",),
        },
        derive=lambda config: {"vocab_size": config.get("embedding_size") or config["vocab_size"]},
    ),
}  # fmt: skip

NESTED_PARTS = ("text_config", "language_config", "llm_config", "thinker_config")
"""Keys of the language model in files of several models."""
NESTED_TYPES = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen2_vl": "qwen2_vl_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "llava": "llama",
    "llava_next": "llama",
}
"""Type of the language model in files of these types, where the part does not state its own."""

BY_SHAPE = Family(
    required=CORE,
    keys=(
        *_MIXTURE.keys,
        *_LATENT,
        *LINEAR_KEYS,
        "q_lora_rank",
        "first_k_dense_replace",
        "moe_latent_size",
    ),
    derive=shape_keys,
)
"""A type that nobody knows, whose keys are those of Llama, of a mixture, of DeepSeek, or of Gated
DeltaNet."""

ALIEN_TYPES = {
    "doge": "experts of single rows",
    "jetmoe": "attention whose heads are experts",
}
"""Types whose layers are not those of Llama, which none of their keys says."""

NO_DECODERS = frozenset([
    "albert", "align", "bart", "bert", "big_bird", "bigbird_pegasus", "blenderbot",
    "blenderbot-small", "blip", "camembert", "chinese_clip", "clap", "clip", "deberta",
    "deberta-v2", "deit", "dinov2", "distilbert", "electra", "encoder-decoder", "ernie",
    "flava", "fsmt", "led", "longformer", "longt5", "m2m_100", "marian", "mbart", "mobilebert",
    "modernbert", "mpnet", "mt5", "mvp", "nllb-moe", "opus", "pegasus", "pegasus_x", "plbart",
    "prophetnet", "roberta", "roformer", "seamless_m4t", "siglip", "siglip2",
    "speech-encoder-decoder", "speech_to_text", "switch_transformers", "t5", "t5gemma",
    "t5gemma2", "umt5", "vision-encoder-decoder", "vit", "whisper", "x_clip", "xlm",
    "xlm-roberta", "xlm-roberta-xl", "xlnet",
])  # fmt: skip
"""Types of encoders, and of models with an encoder."""

ALIEN_KEYS: dict[str, str] = {
    **dict.fromkeys(
        ("ssm_cfg", "state_size", "ssm_state_size", "mamba_d_state", "mamba_n_heads",
         "mamba_num_heads", "hybrid_override_pattern"),
        "layers with a state-space model",
    ),
    **dict.fromkeys(("linear_attn_config", "attn_type_list"), "layers with linear attention"),
    **dict.fromkeys(("lru_width", "block_types"), "layers with a linear recurrence"),
    **dict.fromkeys(
        ("attention_hidden_size", "decay_low_rank_dim"), "layers with RWKV's recurrence"
    ),
    **dict.fromkeys(("hybrid_layer_ids", "num_mem_blocks"), "attention whose weights layers share"),
    **dict.fromkeys(
        ("use_cla", "cross_layer_sharing", "num_kv_shared_layers", "kv_source_layers"),
        "layers that share the keys of others",
    ),
    **dict.fromkeys(
        ("hybrid_layer_pattern", "swa_num_key_value_heads"),
        "sliding layers with heads of their own",
    ),
    **dict.fromkeys(
        ("d_kv", "encoder_layers", "decoder_layers", "cross_attention_layers",
         "cross_layer_interval"),
        "attention to another sequence",
    ),
    "conv_L_cache": "short convolutions in place of attention",
    "block_configs": "layers that differ in a way of their own",
    **dict.fromkeys(
        ("moe_layers", "moe_layers_enum", "moe_layer_start_index", "interleave_moe_layer_step"),
        "a choice of layers with experts",
    ),
    **dict.fromkeys(("hc_mult", "hc_count"), "several residual streams"),
    **dict.fromkeys(("H_cycles", "n_recurrent_loops"), "layers that run more than once"),
    "compress_rates": "attention to compressed keys",
    "attention_probs_dropout_prob": "blocks of BERT",
    "depth_decoder_config": "a second decoder",
    "share_q_dim": "queries of low rank",
    "zero_expert_num": "experts that do nothing",
}  # fmt: skip
"""Keys of layers that are not those of Llama, and what they speak of; a type that nobody knows must
not have them."""


def known_types() -> Iterable[str]:
    """The values of ``model_type`` that have a row, or a part that has one."""
    return sorted({*FAMILIES, *NESTED_TYPES})
