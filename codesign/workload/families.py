"""Families of models on Hugging Face: one row says how the files of a ``model_type`` are read.

Keys that families spell differently are in ``ALIASES``. A row states what the file does not:
defaults of the family's configuration class, what its code has built in, and a function for keys
that have to be computed, mostly the kinds of its layers. Source of all of them is the code of
Transformers 4.57 and, for families outside of it, the code beside the published weights.

To add a family, add a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from codesign.workload.model import LINEAR_KEYS

Config: TypeAlias = Mapping[str, Any]

ALIASES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "n_embed", "model_dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv",
                            "multi_query_group_num"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "mlp_hidden_size",
                          "ffn_hidden_size"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "n_ctx"),
    "hidden_act": ("hidden_act", "activation_function", "hidden_activation", "mlp_hidden_act",
                   "activation_type"),
    "tie_word_embeddings": ("tie_word_embeddings", "weight_tying", "tie_embeddings"),
    "n_routed_experts": ("num_experts", "num_local_experts", "n_routed_experts",
                         "moe_num_experts"),
    "num_experts_per_tok": ("num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk",
                            "num_experts_per_token"),
    "n_shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert",
                         "moe_num_shared_experts"),
    "shared_expert_intermediate_size": ("shared_expert_intermediate_size",
                                        "moe_shared_expert_intermediate_size",
                                        "shared_intermediate_size"),
    "mamba_ssm_dtype": ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    "layer_types": ("layer_types", "layers_block_type"),
}  # fmt: skip
"""Our key, and the names that files have for it; a key that is not listed has one name."""

ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "swiglu": "silu", "gelu": "gelu", "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu", "gelu_python": "gelu",
    "quick_gelu": "gelu", "relu": "relu", "relu2": "relu2", "relu_squared": "relu2",
}  # fmt: skip
"""Our name for an activation of a file."""

LAYER_KINDS = {
    "attention": "full_attention", "full": "full_attention", "global": "full_attention",
    "local": "sliding_attention", "chunked_attention": "sliding_attention",
    "mamba": "linear_attention", "mamba2": "linear_attention",
}  # fmt: skip
"""Our name for a kind of layer of a file. A layer with chunked attention keeps, as Transformers'
cache does, what a sliding one of the chunk's length would."""

CORE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_DIMENSIONS = (*CORE, "intermediate_size")
_DENSE = (*_DIMENSIONS, "num_key_value_heads", "head_dim", "tie_word_embeddings", "hidden_act",
          "attention_bias", "mlp_bias", "layer_types", "sliding_window")  # fmt: skip
_EXPERTS = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
_SPARSE = ("decoder_sparse_step", "mlp_only_layers", "mlp_layer_types")
_LATENT = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")

FIRST_WINDOW_LAYER = 28
"""Transformers' default of ``max_window_layers``."""
ROTATED_PART, FULL_ATTENTION_INTERVAL = 0.25, 4
"""Transformers' defaults of ``partial_rotary_factor`` and ``full_attention_interval`` for
Qwen3-Next and Qwen3.5."""


def _nothing(config: Config) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Family:
    """How the files of one ``model_type`` are read.

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
    derive: Callable[[Config], dict[str, Any]] = _nothing
    window_key: str | None = None
    first_window_key: str | None = None
    notes: tuple[str, ...] = ()


# Computed keys -------------------------------------------------------------------------------


def pick(config: Config, key: str, default: Any = None) -> Any:
    """The value of our key under any of its names in a file."""
    names = ALIASES.get(key, (key,))
    return next((config[name] for name in names if config.get(name) is not None), default)


def _joined(*derives: Callable[[Config], dict[str, Any]]) -> Callable[[Config], dict[str, Any]]:
    """The keys of several functions, a later one's before an earlier one's."""

    def derive(config: Config) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for function in derives:
            values |= function(config)
        return values

    return derive


def _layers(config: Config) -> range:
    return range(pick(config, "num_hidden_layers"))


def _sliding_but_every(default: int, *keys: str) -> Callable[[Config], dict[str, Any]]:
    """Sliding layers, but for every last one of a period, whose key and default are stated."""

    def derive(config: Config) -> dict[str, Any]:
        kinds = pick(config, "layer_types")
        if kinds is None:
            period = next((config[key] for key in keys if config.get(key)), default)
            kinds = ["full_attention" if (i + 1) % period == 0 else "sliding_attention"
                     for i in _layers(config)]  # fmt: skip
        return {"layer_types": kinds}

    return derive


def _expert_width(config: Config) -> dict[str, Any]:
    """Files whose ``intermediate_size`` is the width of an expert."""
    return {"moe_intermediate_size": pick(config, "intermediate_size")}


def _four_times(config: Config) -> dict[str, Any]:
    """The MLP's width where the file does not state it."""
    return {"intermediate_size": pick(config, "intermediate_size", 4 * pick(config, "hidden_size"))}


def _rotated(config: Config, default: float = 1.0) -> dict[str, Any]:
    """The part of a head that is rotated, as the files state it in four ways."""
    rope = config.get("rope_parameters")  # where newer files have the factor
    keys = {**config, **(rope if isinstance(rope, dict) else {})}
    width = pick(config, "head_dim") or pick(config, "hidden_size") // pick(
        config, "num_attention_heads"
    )
    factor = next((keys[key] for key in ("partial_rotary_factor", "rotary_pct", "rope_pct")
                   if keys.get(key) is not None), default)  # fmt: skip
    rotated = config.get("rotary_dim") or int(width * factor)
    return {"partial_rotary_factor": min(rotated / width, 1.0)}


def _qwen3_next(config: Config) -> dict[str, Any]:
    # A width of dense layers may be missing where every layer has experts.
    width = pick(config, "intermediate_size", config.get("moe_intermediate_size"))
    interval = config.get("full_attention_interval", FULL_ATTENTION_INTERVAL)
    rotated = _rotated(config, ROTATED_PART)
    return rotated | {"intermediate_size": width, "full_attention_interval": interval}


def _llama4(config: Config) -> dict[str, Any]:
    layers, step = _layers(config), config.get("interleave_moe_layer_step", 1)
    chosen = config.get("moe_layers")
    sparse = chosen if chosen is not None else range(step - 1, len(layers), step)
    rotated = config.get("no_rope_layers") or [(i + 1) % 4 for i in layers]
    kinds = ["chunked_attention" if flag else "full_attention" for flag in rotated]
    chunk = config.get("attention_chunk_size")
    return {
        "intermediate_size": config.get("intermediate_size_mlp", 16384),
        "moe_intermediate_size": pick(config, "intermediate_size"),
        "mlp_layer_types": ["sparse" if i in sparse else "dense" for i in layers],
        "layer_types": pick(config, "layer_types", kinds) if chunk else None,
        "sliding_window": chunk,
    }


def _ernie(config: Config) -> dict[str, Any]:
    first, step = config.get("moe_layer_start_index", 1), config.get("moe_layer_interval", 1)
    last = config.get("moe_layer_end_index", -1)
    layers = _layers(config)
    last = last if last >= 0 else len(layers) - 1
    has_experts = [first <= i <= last and (i + 1) % step == 0 for i in layers]
    return {"mlp_layer_types": ["sparse" if flag else "dense" for flag in has_experts]}


def _gemma3n(config: Config) -> dict[str, Any]:
    widths = config["intermediate_size"]
    widths = widths if isinstance(widths, list) else [widths] * len(_layers(config))
    return {
        "intermediate_size": max(widths),
        "intermediate_size_by_layer": widths,
        "num_kv_shared_layers": config["num_kv_shared_layers"],
    }


def _falcon(config: Config) -> dict[str, Any]:
    """Falcon 7B has one head of keys, 40B and 180B several, the RW models all."""
    heads, is_new = pick(config, "num_attention_heads"), config.get("new_decoder_architecture")
    kv_heads = pick(config, "num_key_value_heads")
    is_grouped = is_new if is_new is not None else config.get("n_head_kv") is not None
    if not is_grouped:
        kv_heads = 1 if config.get("multi_query") else heads
    is_parallel = is_grouped or config.get("parallel_attn")
    n_norms = config.get("num_ln_in_parallel_attn") or (2 if is_grouped else 1)
    has_bias = bool(config.get("bias"))
    return _four_times(config) | {
        "num_key_value_heads": kv_heads or heads,
        "norms_per_layer": n_norms if is_parallel else 2,
        "position": "none" if config.get("alibi") else "rotary",
        "attention_bias": has_bias,
        "attention_output_bias": has_bias,
        "mlp_bias": has_bias,
    }


def _opt(config: Config) -> dict[str, Any]:
    """Rows of positions: two more than there are positions."""
    width = config.get("word_embed_proj_dim")
    return {
        "max_position_embeddings": config["max_position_embeddings"] + 2,
        "word_embed_proj_dim": width if width != pick(config, "hidden_size") else None,
    }


def _neox(config: Config) -> dict[str, Any]:
    has_bias = config.get("attention_bias", True)
    return _rotated(config, 0.25) | {
        "attention_bias": has_bias, "attention_output_bias": has_bias,
    }  # fmt: skip


def _single_bias(key: str) -> Callable[[Config], dict[str, Any]]:
    """Files with a single switch for the biases of all projections."""

    def derive(config: Config) -> dict[str, Any]:
        value = bool(config.get(key, True))
        return {"attention_bias": value, "attention_output_bias": value, "mlp_bias": value}

    return derive


def _one_head(config: Config) -> dict[str, Any]:
    heads = pick(config, "num_attention_heads")
    return _four_times(config) | {"num_key_value_heads": 1 if config.get("multi_query") else heads}


def _stablelm(config: Config) -> dict[str, Any]:
    has_bias = config.get("use_qkv_bias", False)
    return _rotated(config, 0.25) | {
        "attention_bias": has_bias,
        "attention_output_bias": False,
        "norms_per_layer": 1 if config.get("use_parallel_residual") else 2,
        "qk_norm": config.get("qk_layernorm", False),
    }


def _gpt_neo(config: Config) -> dict[str, Any]:
    """Kinds of layers as pairs of a list and its repetitions."""
    kinds = [kind for names, times in config["attention_types"] for kind in names * times]
    return _four_times(config) | {"layer_types": kinds, "sliding_window": config["window_size"]}


def _mpt(config: Config) -> dict[str, Any]:
    attention = config.get("attn_config") or {}
    hidden, heads = pick(config, "hidden_size"), pick(config, "num_attention_heads")
    has_bias = not config.get("no_bias", False)
    return {
        "intermediate_size": int(config.get("expansion_ratio", 4) * hidden),
        "num_key_value_heads": attention.get("kv_n_heads", heads),
        "position": "none" if attention.get("alibi") else "learned",
        "max_position_embeddings": config.get("max_seq_len"),
        "attention_bias": has_bias,
        "attention_output_bias": has_bias,
        "mlp_bias": has_bias,
    }


def _dbrx(config: Config) -> dict[str, Any]:
    attention, experts = config["attn_config"], config["ffn_config"]
    width = experts["ffn_hidden_size"]
    return {
        "num_key_value_heads": attention["kv_n_heads"],
        "intermediate_size": width,
        "moe_intermediate_size": width,
        "n_routed_experts": experts["moe_num_experts"],
        "num_experts_per_tok": experts["moe_top_k"],
    }


def _chatglm(config: Config) -> dict[str, Any]:
    heads = pick(config, "num_attention_heads")
    is_grouped = config.get("multi_query_attention")
    return {
        "num_key_value_heads": pick(config, "num_key_value_heads") if is_grouped else heads,
        "attention_bias": bool(config.get("add_qkv_bias")),
        "partial_rotary_factor": 0.5,
    }


def _nemotron_nas(config: Config) -> dict[str, Any]:
    """Layers of Nemotron NAS: attention with heads of its own, a matrix, or none; MLP likewise.

    A layer's matrix in place of its attention or MLP is counted as as many parameters more in the
    MLPs.
    """
    blocks, hidden = config["block_configs"], pick(config, "hidden_size")
    heads = pick(config, "num_attention_heads")
    kinds, kv_heads, widths = [], [], []
    for block in blocks:
        attention, mlp = block["attention"], block["ffn"]
        group = attention.get("n_heads_in_group")
        kinds.append("full_attention" if group else "no_attention")
        kv_heads.append(heads // group if group else 0)
        width = 0
        if not (mlp.get("no_op") or mlp.get("replace_with_linear")):
            width = mlp.get("intermediate_size") or _deci_width(mlp["ffn_mult"], hidden)
        matrices = bool(attention.get("replace_with_linear")) + bool(mlp.get("replace_with_linear"))
        widths.append(width + matrices * hidden // 3)
    return {
        "num_key_value_heads": max(kv_heads),
        "intermediate_size": max(widths),
        "layer_types": kinds,
        "num_key_value_heads_by_layer": kv_heads,
        "intermediate_size_by_layer": widths,
        "mlp_layer_types": ["dense" if width else "none" for width in widths],
    }


def _deci_width(multiple: float, hidden: int) -> int:
    """Width of an MLP: two thirds of a multiple of the model's, up to the next 256."""
    return -(-int(2 * multiple * hidden / 3) // 256) * 256


def _deci(config: Config) -> dict[str, Any]:
    by_layer = config["num_key_value_heads_per_layer"]
    return {"num_key_value_heads": max(by_layer), "num_key_value_heads_by_layer": by_layer}


# State-space layers --------------------------------------------------------------------------


def _linear(
    kind: str, key_heads: int, value_heads: int, key: int, value: int, taps: int
) -> dict[str, Any]:
    values = (key_heads, value_heads, key, value, taps)
    return {"linear_kind": kind, **dict(zip(LINEAR_KEYS, values, strict=True))}


def _attention_free(layers: int, heads: int, hidden: int) -> dict[str, Any]:
    """A model whose layers have a state and nothing else; heads and width are not used."""
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": 1,
        "intermediate_size": hidden,
        "layer_types": ["linear_attention"] * layers,
        "mlp_layer_types": ["none"] * layers,
    }


def _mamba1_layer(config: Config, prefix: str) -> dict[str, Any]:
    """Keys of Mamba 1, which hybrids spell with a prefix."""
    names = {
        "state": ("state_size", "mamba_d_state"),
        "taps": ("conv_kernel", "mamba_d_conv"),
        "rank": ("time_step_rank", "mamba_dt_rank"),
        "expand": ("expand", "mamba_expand"),
    }
    state, taps, rank, expand = (
        config.get(names[part][bool(prefix)], default)
        for part, default in (("state", 16), ("taps", 4), ("rank", "auto"), ("expand", 2))
    )
    hidden = pick(config, "hidden_size")
    channels = int(expand * hidden)
    if not prefix:
        channels = config.get("intermediate_size", channels)
    rank = -(-hidden // 16) if rank == "auto" else rank
    return _linear("mamba", 1, channels, state, 1, taps) | {"time_step_rank": rank}


def _mamba1(config: Config) -> dict[str, Any]:
    layer = _mamba1_layer(config, "")
    layers, hidden = len(_layers(config)), pick(config, "hidden_size")
    return layer | _attention_free(layers, layer["linear_num_value_heads"], hidden)


def _mamba2(config: Config) -> dict[str, Any]:
    hidden, width = pick(config, "hidden_size"), config.get("head_dim", 64)
    heads = config.get("num_heads") or int(config.get("expand", 2) * hidden) // width
    state, taps = config.get("state_size", 128), config.get("conv_kernel", 4)
    layer = _linear("mamba2", config.get("n_groups", 8), heads, state, width, taps)
    return _attention_free(len(_layers(config)), heads, hidden) | layer


def _mamba_ssm(config: Config) -> dict[str, Any]:
    """Files of the ``mamba_ssm`` package; rows of the table are a multiple of 16 [its code]."""
    options, multiple = config["ssm_cfg"], config.get("pad_vocab_size_multiple", 8)
    rows = -(-config["vocab_size"] // multiple) * multiple
    renamed = {
        "state_size": options.get("d_state"), "conv_kernel": options.get("d_conv"),
        "expand": options.get("expand"), "head_dim": options.get("headdim"),
        "n_groups": options.get("ngroups", 1),
    }  # fmt: skip
    merged = {**config, **{key: value for key, value in renamed.items() if value is not None}}
    layer = _mamba2 if options.get("layer") == "Mamba2" else _mamba1
    return layer(merged) | {"vocab_size": rows}


def _jamba(config: Config) -> dict[str, Any]:
    layers = _layers(config)
    attention, experts = (
        [i % config[f"{part}_layer_period"] == config[f"{part}_layer_offset"] for i in layers]
        for part in ("attn", "expert")
    )
    is_mixture = config["num_experts"] > 1
    return {
        **_mamba1_layer(config, "mamba_"),
        **(_expert_width(config) if is_mixture else {}),
        "n_routed_experts": config["num_experts"] if is_mixture else None,
        "num_experts_per_tok": config["num_experts_per_tok"] if is_mixture else None,
        "layer_types": ["full_attention" if flag else "linear_attention" for flag in attention],
        "mlp_layer_types": ["sparse" if flag and is_mixture else "dense" for flag in experts],
    }


def _granite_hybrid(config: Config) -> dict[str, Any]:
    hidden, heads = pick(config, "hidden_size"), config["mamba_n_heads"]
    width = config.get("mamba_d_head", "auto")
    if width == "auto":
        width = config.get("mamba_expand", 2) * hidden // heads
    kinds = pick(config, "layer_types", ["mamba"] * len(_layers(config)))
    shared, position = config["shared_intermediate_size"], config.get("position_embedding_type")
    values: dict[str, Any] = {
        "layer_types": kinds,
        "position": "rotary" if position == "rope" else "none",
        "intermediate_size": shared,
    }
    if "mamba" in kinds:
        groups, taps = config.get("mamba_n_groups", 1), config.get("mamba_d_conv", 4)
        values |= _linear("mamba2", groups, heads, config["mamba_d_state"], width, taps)
    return values | _granite_shared(config)


def _granite_shared(config: Config) -> dict[str, Any]:
    """A shared expert without a gate; it is the dense MLP where no others are."""
    if not config.get("num_local_experts"):
        return {"n_routed_experts": None, "num_experts_per_tok": None,
                "shared_expert_intermediate_size": None}  # fmt: skip
    width = config["intermediate_size"]
    return {
        "moe_intermediate_size": width,
        "is_shared_expert_gated": False,
        "shared_expert_intermediate_size": config.get("shared_intermediate_size") or None,
    }


def _bamba(config: Config) -> dict[str, Any]:
    """Mamba 2 in all layers but those that are listed."""
    listed = config.get("attn_layer_indices") or []
    kinds = ["attention" if i in listed else "mamba" for i in _layers(config)]
    heads, groups = config.get("mamba_n_heads", 128), config.get("mamba_n_groups", 1)
    width = config.get("mamba_d_head", "auto")
    if width == "auto":
        width = config.get("mamba_expand", 2) * pick(config, "hidden_size") // heads
    state, taps = config.get("mamba_d_state", 256), config.get("mamba_d_conv", 4)
    layer = _linear("mamba2", groups, heads, state, width, taps)
    return {**layer, **_rotated(config, 0.5), "layer_types": kinds}


_NEMOTRON_LAYERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _nemotron_h(config: Config) -> dict[str, Any]:
    """Every layer is a state-space layer, attention, an MLP or experts."""
    listed = pick(config, "layer_types")
    pattern = config.get("hybrid_override_pattern") or ""
    kinds = listed or [_NEMOTRON_LAYERS.get(symbol, symbol) for symbol in pattern]
    mixers = [kind if kind not in ("mlp", "moe") else "no_attention" for kind in kinds]
    mlps = [{"mlp": "dense", "moe": "sparse"}.get(kind, "none") for kind in kinds]
    values: dict[str, Any] = {
        "num_hidden_layers": len(kinds) or pick(config, "num_hidden_layers"),
        "layer_types": mixers,
        "mlp_layer_types": mlps,
        "is_shared_expert_gated": False,
        "intermediate_size": pick(config, "intermediate_size") or config["moe_intermediate_size"],
    }
    if "moe" not in kinds:
        unused = (*_EXPERTS, "n_shared_experts", "shared_expert_intermediate_size")
        values |= dict.fromkeys(unused)
    else:
        values |= {"n_shared_experts": None, "has_router_bias": True}
    if "mamba" not in kinds and "linear_attention" not in kinds:
        return values
    return values | _linear("mamba2", config["n_groups"], config["mamba_num_heads"],
                            config["ssm_state_size"], config["mamba_head_dim"],
                            config["conv_kernel"])  # fmt: skip


def _minimax(config: Config) -> dict[str, Any]:
    """Lightning attention in most layers, with heads as softmax attention has them."""
    heads = pick(config, "num_attention_heads")
    width = pick(config, "head_dim") or pick(config, "hidden_size") // heads
    flags = config.get("attn_type_list")
    kinds = pick(config, "layer_types")
    if kinds is None and flags is not None:
        kinds = ["full_attention" if flag else "linear_attention" for flag in flags]
    shared = config.get("shared_intermediate_size")
    values = {**_rotated(config), **_expert_width(config), "layer_types": kinds,
              "shared_expert_intermediate_size": shared or None,
              "is_shared_expert_gated": not shared}  # fmt: skip
    if kinds is not None and "linear_attention" in kinds:
        values |= _linear("lightning", heads, heads, width, width, 0)
    return values


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
    required=(*_GROUPED.required, *_EXPERTS),
    keys=(*_DENSE, *_EXPERTS, *_SPARSE, "n_shared_experts", "shared_expert_intermediate_size"),
)
_OWN_WIDTH = replace(
    _MIXTURE,
    required=(*_GROUPED.required, "n_routed_experts", "num_experts_per_tok"),
    derive=_expert_width,
)
"""Mixtures whose ``intermediate_size`` is the width of an expert."""
_QWEN3_MOE = replace(
    _MIXTURE,
    required=(*_MIXTURE.required, "head_dim"),
    keys=(*_DENSE, *_EXPERTS, *_SPARSE),
    fixed={"qk_norm": True},
    window_key="use_sliding_window",
)
_QWEN3_NEXT = replace(
    _QWEN3_MOE,
    required=(*_QWEN3_MOE.required, "shared_expert_intermediate_size", *LINEAR_KEYS),
    keys=(*_QWEN3_MOE.keys, "shared_expert_intermediate_size", *LINEAR_KEYS, "mamba_ssm_dtype"),
    fixed={"qk_norm": True, "attn_output_gate": True},
    derive=_qwen3_next,
)
_DEEPSEEK = Family(
    required=(*_DIMENSIONS, *_LATENT, *_EXPERTS, "first_k_dense_replace"),
    keys=(*_DIMENSIONS, *_LATENT, *_EXPERTS, "first_k_dense_replace", "q_lora_rank",
          "n_shared_experts", "num_key_value_heads", "tie_word_embeddings", "hidden_act",
          "attention_bias"),
    expected={"moe_layer_freq": (1,)},
)  # fmt: skip
_DEEPSEEK_V3 = replace(_DEEPSEEK, fixed={"has_router_bias": True})
_SPARSE_INDEX = replace(
    _DEEPSEEK_V3,
    notes=("the choice of index_topk tokens is not modeled: every token is attended to",),
)
_GLM4_MOE = replace(
    _MIXTURE,
    keys=(*_MIXTURE.keys, "first_k_dense_replace"),
    fixed={"has_router_bias": True, "attention_output_bias": False},
    derive=lambda config: _rotated(config, 0.5) | {"qk_norm": config.get("use_qk_norm", False)},
)
_LEGACY: dict[str, Any] = {"is_gated": False, "norm": "layernorm", "attention_bias": True,
                           "attention_output_bias": True, "mlp_bias": True}  # fmt: skip
_UNGATED = Family(required=CORE, defaults=_TIED, fixed=_LEGACY, derive=_four_times)
"""MLPs of two matrices, layer norms and biases everywhere."""
_LEARNED = {**_LEGACY, "position": "learned"}
_GPT2 = replace(
    _UNGATED,
    required=(*CORE, "max_position_embeddings"),
    keys=(*_DENSE, "max_position_embeddings"),
    defaults={**_TIED, "hidden_act": "gelu"},
    fixed=_LEARNED,
)
_GPTJ = replace(
    _UNGATED,
    defaults={"hidden_act": "gelu"},
    fixed=_LEGACY | {"norms_per_layer": 1, "attention_bias": False, "attention_output_bias": False},
    derive=_joined(_four_times, _rotated),
)
_FALCON = replace(
    _UNGATED,
    defaults={**_TIED, "hidden_act": "gelu"},
    fixed={"is_gated": False, "norm": "layernorm"},
    derive=_falcon,
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
    derive=_sliding_but_every(6, "sliding_window_pattern", "_sliding_window_pattern"),
)
_GEMMA3N = replace(
    _GEMMA3,
    keys=(*_DENSE, "hidden_size_per_layer_input", "vocab_size_per_layer_input",
          "altup_num_inputs", "laurel_rank"),
    defaults=_GEMMA3_DEFAULTS | {
        "vocab_size": 262400, "hidden_size": 2048, "intermediate_size": 16384,
        "num_hidden_layers": 35, "num_key_value_heads": 2, "sliding_window": 512,
        "num_kv_shared_layers": 15, "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262144, "altup_num_inputs": 4, "laurel_rank": 64,
    },
    derive=_joined(_sliding_but_every(5), _gemma3n),
    notes=("AltUp's elementwise work and the sparse activation of Gemma 3n are not modeled",),
)  # fmt: skip
_MAMBA = Family(
    required=("hidden_size", "num_hidden_layers", "vocab_size"),
    keys=("hidden_size", "num_hidden_layers", "vocab_size", "tie_word_embeddings"),
    defaults=_TIED,
    derive=_mamba1,
)
_HYBRID = replace(
    _GROUPED,
    keys=(*_DENSE, *_EXPERTS, "n_shared_experts", "shared_expert_intermediate_size",
          "mamba_ssm_dtype"),
)  # fmt: skip
_MINIMAX = replace(_OWN_WIDTH, derive=_minimax)
_NEMOTRON_H = replace(
    _HYBRID,
    required=("hidden_size", "num_attention_heads", "vocab_size"),
    defaults={"hidden_act": "relu2", "n_groups": 8, "mamba_num_heads": 128, "mamba_head_dim": 64,
              "ssm_state_size": 128, "conv_kernel": 4, "num_key_value_heads": 8, "head_dim": 128},
    fixed={"is_gated": False, "position": "none"},
    expected={"moe_latent_size": (None,)},
    derive=_nemotron_h,
)  # fmt: skip

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
    "internlm3": replace(_LLAMA, derive=lambda config: {"attention_bias": config["qkv_bias"]}),
    "granite": _LLAMA,
    "olmo": replace(_LLAMA, fixed={"norm": "layernorm"}),
    "olmo2": replace(_LLAMA, fixed={"qk_norm": True}),
    "olmo3": replace(_LLAMA, fixed={"qk_norm": True}, derive=_sliding_but_every(4)),
    "phi3": replace(_LLAMA, derive=_rotated),
    "phi3_v": replace(_LLAMA, derive=_rotated),
    "phi4mm": replace(_LLAMA, derive=_rotated),
    "qwen": replace(
        _LLAMA,
        fixed=_QKV_BIAS,
        # The file has the width of gate and up projection together.
        derive=lambda config: {"intermediate_size": config["intermediate_size"] // 2},
    ),
    "smollm3": replace(_GROUPED, defaults=_TIED, window_key="use_sliding_window"),
    "ernie4_5": replace(_GROUPED, defaults=_TIED),
    "seed_oss": replace(_GROUPED, fixed=_QKV_BIAS),
    "glm": replace(_GROUPED, fixed={"attention_output_bias": False},
                   derive=lambda config: _rotated(config, 0.5)),
    "glm4": replace(
        _GROUPED,
        fixed={"attention_output_bias": False, "norms_per_layer": 4},
        derive=lambda config: _rotated(config, 0.5),
    ),
    "chatglm": replace(_LLAMA, derive=_chatglm),
    "stablelm": replace(_LLAMA, fixed={"norm": "layernorm"}, derive=_stablelm),
    "deci": replace(_LLAMA, derive=_deci),
    "nemotron-nas": replace(_LLAMA, required=(*CORE, "block_configs"), derive=_nemotron_nas),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "cohere": _COHERE,
    "cohere2": replace(
        _COHERE, derive=_sliding_but_every(4, "sliding_window_pattern", "layer_switch")
    ),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, fixed={"norms_per_layer": 4}, derive=_sliding_but_every(2)),
    "gemma3_text": _GEMMA3,
    "gemma3n_text": _GEMMA3N,
    # Mixtures of experts.
    "mixtral": _OWN_WIDTH,
    "phimoe": replace(
        _OWN_WIDTH, fixed={"norm": "layernorm"},
    ),
    "olmoe": replace(_OWN_WIDTH, fixed={"qk_norm": True}),
    "granitemoe": _OWN_WIDTH,
    "granitemoeshared": replace(_OWN_WIDTH, derive=_granite_shared),
    "gpt_oss": replace(
        _OWN_WIDTH,
        fixed={"has_attention_sinks": True, "mlp_bias": True, "has_router_bias": True},
        defaults={"attention_bias": True},
        derive=_joined(_expert_width, _sliding_but_every(2)),
    ),
    "dbrx": replace(_LLAMA, required=(*CORE, "attn_config", "ffn_config"),
                    fixed={"norm": "layernorm"}, derive=_dbrx),
    "llama4_text": replace(
        _OWN_WIDTH, fixed={"n_shared_experts": 1}, derive=_llama4
    ),
    "ernie4_5_moe": replace(_MIXTURE, defaults=_TIED, derive=_ernie),
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
    "minimax_text_01": _MINIMAX,
    "minimax_m1": _MINIMAX,
    "minimax": _MINIMAX,
    "minimax_m2": replace(_MINIMAX, fixed={"qk_norm": True, "has_router_bias": True}),
    # Latent attention.
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "deepseek_v32": _SPARSE_INDEX,
    "glm_moe_dsa": _SPARSE_INDEX,
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
    "mamba": _MAMBA,
    "falcon_mamba": replace(_MAMBA, defaults={}),
    "mamba2": replace(_MAMBA, defaults={}, derive=_mamba2),
    "mamba_ssm": replace(
        _MAMBA, expected={"attn_layer_idx": ([],), "d_intermediate": (0,)}, derive=_mamba_ssm
    ),
    "jamba": replace(
        _HYBRID,
        fixed={"position": "none"},
        defaults={"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2,
                  "expert_layer_offset": 1, "num_experts": 16, "num_experts_per_tok": 2},
        derive=_jamba,
    ),
    "granitemoehybrid": replace(
        _HYBRID, required=(*_GROUPED.required, "shared_intermediate_size"), derive=_granite_hybrid
    ),
    "bamba": replace(_GROUPED, keys=(*_DENSE, "mamba_ssm_dtype"), derive=_bamba),
    "nemotron_h": _NEMOTRON_H,
    # MLPs of two matrices.
    "gpt2": _GPT2,
    "gpt_bigcode": replace(
        _GPT2, derive=_one_head, defaults={**_TIED, "hidden_act": "gelu", "multi_query": True}
    ),
    "gpt_neo": replace(
        _GPT2,
        required=(*CORE, "max_position_embeddings", "attention_types", "window_size"),
        fixed=_LEARNED | {"attention_bias": False},
        derive=_gpt_neo,
    ),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "gpt_neox": replace(
        _UNGATED, required=_DIMENSIONS, defaults={"hidden_act": "gelu"}, derive=_neox
    ),
    "bloom": replace(
        _UNGATED,
        defaults={**_TIED, "hidden_act": "gelu"},
        fixed=_LEGACY | {"position": "none"},
    ),
    "opt": replace(
        _GPT2,
        required=(*_DIMENSIONS, "max_position_embeddings"),
        defaults={**_TIED, "hidden_act": "relu"},
        derive=_opt,
    ),
    "mpt": replace(
        _UNGATED,
        defaults={"hidden_act": "gelu"},
        fixed={"is_gated": False, "norm": "layernorm", "tie_word_embeddings": True},
        derive=_mpt,
    ),
    "falcon": _FALCON,
    "RefinedWeb": _FALCON,
    "RefinedWebModel": _FALCON,
    "phi": replace(
        _UNGATED,
        defaults={},
        fixed=_LEGACY | {"norms_per_layer": 1},
        derive=_joined(_four_times, lambda config: _rotated(config, 0.5)),
    ),
    "starcoder2": replace(
        _UNGATED,
        fixed={"is_gated": False, "norm": "layernorm"},
        derive=_joined(_four_times, _single_bias("use_bias")),
    ),
    "nemotron": replace(
        _LLAMA,
        defaults={"hidden_act": "relu2"},
        fixed={"is_gated": False, "norm": "layernorm"},
        derive=lambda config: _rotated(config, 0.5),
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

NESTED_PARTS = ("text_config", "language_config", "llm_config")
"""Keys of the language model in files of several models."""
NESTED_TYPES = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
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
    keys=(*_MIXTURE.keys, *_LATENT, "q_lora_rank", "first_k_dense_replace"),
)
"""A type that nobody knows, whose keys are those of Llama, of a mixture, or of DeepSeek."""

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

ALIEN_KEYS = frozenset([
    "ssm_cfg", "state_size", "ssm_state_size", "mamba_d_state", "mamba_n_heads",
    "mamba_num_heads", "conv_L_cache", "block_configs", "hybrid_override_pattern",
    "attn_type_list", "lru_width", "block_types", "attention_hidden_size", "use_cla",
    "cross_layer_sharing", "linear_attn_config", "num_kv_shared_layers",
    "cross_attention_layers", "d_kv", "encoder_layers", "decoder_layers", "zero_expert_num",
])  # fmt: skip
"""Keys of layers that are not those of Llama; a type that nobody knows must not have them."""


def known_types() -> Iterable[str]:
    """The values of ``model_type`` that have a row, or a part that has one."""
    return sorted({*FAMILIES, *NESTED_TYPES})
