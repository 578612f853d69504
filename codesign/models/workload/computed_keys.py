"""Keys of a model that are computed from several keys of its file, such as the kinds of layers.

Every function takes the keys of a file, with the defaults of its family, and returns keys of our
model record. The rows of ``families.yaml`` assign functions to families and name the sources.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from codesign.base.columns import Fields, JsonObject
from codesign.models.workload.model import LINEAR_KEYS

Config: TypeAlias = Fields

ALIASES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "n_embed", "model_dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads",
                            "attention_heads"),
    "num_key_value_heads": ("num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv",
                            "multi_query_group_num", "num_attention_groups"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "mlp_hidden_size",
                          "ffn_hidden_size", "dff"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "n_ctx"),
    "hidden_act": ("hidden_act", "activation_function", "hidden_activation", "mlp_hidden_act",
                   "activation_type"),
    "tie_word_embeddings": ("tie_word_embeddings", "weight_tying", "tie_embeddings"),
    "n_routed_experts": ("num_experts", "num_local_experts", "n_routed_experts",
                         "moe_num_experts"),
    "num_experts_per_tok": ("num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk",
                            "num_experts_per_token", "moe_top_k"),
    "n_shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert",
                         "moe_num_shared_experts"),
    "shared_expert_intermediate_size": ("shared_expert_intermediate_size",
                                        "moe_shared_expert_intermediate_size",
                                        "shared_intermediate_size", "share_expert_dim",
                                        "share_expert_dims"),
    "moe_latent_size": ("moe_latent_size", "routed_expert_hidden_size", "moe_hidden_size"),
    "first_k_dense_replace": ("num_dense_layers", "first_k_dense_replace"),
    "mamba_ssm_dtype": ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    "layer_types": ("layer_types", "layers_block_type"),
}  # fmt: skip
"""Our key, and the names that files have for it; a key that is not listed has one name."""

BIASES = ("attention_bias", "attention_output_bias", "mlp_bias")
EXPERTS = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")


def pick(config: Config, key: str, default: Any = None) -> Any:
    """The value of our key under any of its names in a file."""
    names = ALIASES.get(key, (key,))
    return next((config[name] for name in names if config.get(name) is not None), default)


def named(config: Config, names: Any) -> Any:
    """The value under the first of some names that a file states, or the default after them.

    Args:
        names: A name, or a list of names; after a dot stands a name within the key before it.

    Raises:
        KeyError: The file states none, and no default follows.
    """
    for name in names if isinstance(names, list) else [names]:
        if not isinstance(name, str):
            return name
        key, _, nested = name.partition(".")
        value = pick(config, key)
        if nested:
            value = (value or {}).get(nested)
        if value is not None:
            return value
    raise KeyError(name.rpartition(".")[2])


def indexer_keys(config: Config) -> JsonObject:
    """GLM's layers that choose tokens anew: a list, a pattern of letters, or every so many."""
    types, pattern = config.get("indexer_types"), config.get("index_topk_pattern")
    if types is None and pattern is not None:
        letters = {"F": "full", "S": "shared"}
        types = [letters.get(letter, letter) for letter in pattern]
    every = config.get("index_topk_freq", 1)
    if types is None and every > 1:
        first = config.get("index_skip_topk_offset", 2)
        layers = range(config["num_hidden_layers"])
        types = ["shared" if max(i - first + 1, 0) % every else "full" for i in layers]
    return {} if types is None else {"indexer_types": types}


def _layers(config: Config) -> range:
    return range(pick(config, "num_hidden_layers"))


def _head_dim(config: Config) -> int:
    width = pick(config, "head_dim")
    return int(width or pick(config, "hidden_size") // pick(config, "num_attention_heads"))


def sliding_but_every(config: Config, default: int, *keys: str) -> JsonObject:
    """Sliding layers, but for every last one of a period, whose key and default are stated."""
    kinds = pick(config, "layer_types")
    if kinds is None:
        period = next((config[key] for key in keys if config.get(key)), default)
        kinds = ["full_attention" if (i + 1) % period == 0 else "sliding_attention"
                 for i in _layers(config)]  # fmt: skip
    return {"layer_types": kinds}


def half_width(config: Config) -> JsonObject:
    """Width of the MLP: half of the width stated for gate and up projection together."""
    return {"intermediate_size": config["intermediate_size"] // 2}


def shape_keys(config: Config) -> JsonObject:
    """Keys of a type without a row, from its shapes; activations without a gate are known."""
    width, expert = pick(config, "intermediate_size"), pick(config, "moe_intermediate_size")
    shared = pick(config, "shared_expert_intermediate_size")
    has_experts = pick(config, "n_routed_experts") is not None
    return _listed_experts(config) | {
        "intermediate_size": config.get("dense_intermediate_size") or width or expert,
        "moe_intermediate_size": (expert or width) if has_experts else None,
        "n_shared_experts": None if shared else pick(config, "n_shared_experts"),
        "shared_expert_intermediate_size": shared or None,
        "is_gated": pick(config, "hidden_act") not in ("relu2", "relu_squared", "xielu"),
    }


def _listed_experts(config: Config) -> JsonObject:
    """Layers with experts, which files list in one of two ways."""
    flags = config.get("moe_layer_freq")
    kinds = ["sparse" if flag else "dense" for flag in flags] if isinstance(flags, list) else None
    return {"mlp_layer_types": pick(config, "mlp_layer_types", kinds)}


def four_times_width(config: Config) -> JsonObject:
    """The MLP's width where the file does not state it."""
    return {"intermediate_size": pick(config, "intermediate_size", 4 * pick(config, "hidden_size"))}


def rotated_part(config: Config, default: float = 1.0) -> JsonObject:
    """The part of a head that is rotated, as the files state it in four ways."""
    rope = config.get("rope_parameters")  # where newer files have the factor
    keys = {**config, **(rope if isinstance(rope, dict) else {})}
    width = _head_dim(config)
    factor = next((keys[key] for key in ("partial_rotary_factor", "rotary_pct", "rope_pct")
                   if keys.get(key) is not None), default)  # fmt: skip
    rotated = config.get("rotary_dim") or int(width * factor)
    return {"partial_rotary_factor": min(rotated / width, 1.0)}


def llama4_keys(config: Config) -> JsonObject:
    """Chunked attention in rotated layers, experts in every ``interleave_moe_layer_step``-th."""
    layers, step = _layers(config), config.get("interleave_moe_layer_step", 1)
    listed = config.get("moe_layers")
    sparse = listed if listed is not None else range(step - 1, len(layers), step)
    rotated = config.get("no_rope_layers") or [(i + 1) % 4 for i in layers]
    kinds = ["chunked_attention" if flag else "full_attention" for flag in rotated]
    chunk = config.get("attention_chunk_size")
    return {
        "mlp_layer_types": ["sparse" if i in sparse else "dense" for i in layers],
        "layer_types": pick(config, "layer_types", kinds) if chunk else None,
        "sliding_window": chunk,
    }


def ernie_keys(config: Config) -> JsonObject:
    """Experts from a first layer on."""
    first, step = config.get("moe_layer_start_index", 1), config.get("moe_layer_interval", 1)
    last = config.get("moe_layer_end_index", -1)
    layers = _layers(config)
    last = last if last >= 0 else len(layers) - 1
    has_experts = [first <= i <= last and (i + 1) % step == 0 for i in layers]
    return {"mlp_layer_types": ["sparse" if flag else "dense" for flag in has_experts]}


def bailing_keys(config: Config) -> JsonObject:
    """Shared experts of a width of their own, none of them gated."""
    n_shared = pick(config, "n_shared_experts", 0)
    width = pick(config, "shared_expert_intermediate_size", config["moe_intermediate_size"])
    return {
        "shared_expert_intermediate_size": n_shared * width or None,
        "is_shared_expert_gated": not n_shared,
    }


def exaone4_keys(config: Config) -> JsonObject:
    """Kinds of layers as a word of L (sliding) and G (full), repeated; the last layer is full."""
    layers, pattern = _layers(config), config.get("sliding_window_pattern")
    kinds = pick(config, "layer_types")
    if kinds is None and config.get("sliding_window") and pattern:
        word = pattern if isinstance(pattern, str) else "L" * (pattern - 1) + "G"
        is_full = [word[i % len(word)] == "G" or i == len(layers) - 1 for i in layers]
        kinds = ["full_attention" if flag else "sliding_attention" for flag in is_full]
    return {"layer_types": kinds}


def gemma3n_keys(config: Config) -> JsonObject:
    """Widths by layer, and layers that share earlier ones' keys."""
    widths = config["intermediate_size"]
    widths = widths if isinstance(widths, list) else [widths] * len(_layers(config))
    return {
        "intermediate_size": max(widths),
        "intermediate_size_by_layer": widths,
    }


def gemma_blocks(config: Config) -> JsonObject:
    """Blocks that only Gemma 3n and Gemma 4 have."""
    blocks: list[JsonObject] = []
    if width := config["hidden_size_per_layer_input"]:
        rows = config["vocab_size_per_layer_input"]
        blocks.append({"name": "layer-inputs", "hidden_size_per_layer_input": width,
                       "vocab_size_per_layer_input": rows})  # fmt: skip
    if (copies := config.get("altup_num_inputs", 1)) > 1:
        blocks.append({"name": "altup", "altup_num_inputs": copies})
    if rank := config.get("laurel_rank"):
        blocks.append({"name": "laurel", "laurel_rank": rank})
    return {"blocks": blocks}


def gemma4_keys(config: Config) -> JsonObject:
    """Wider and perhaps fewer heads where attention is full, wider MLPs where keys are shared.

    A dense MLP beside the experts is a shared expert here.
    """
    kinds = sliding_but_every(config, 6)["layer_types"]
    kinds = [*kinds[:-1], "full_attention"]
    is_full = [layer_type == "full_attention" for layer_type in kinds]
    heads, width = pick(config, "num_key_value_heads"), config["intermediate_size"]
    full_heads = config.get("num_global_key_value_heads") or heads
    full_heads = full_heads if config["attention_k_eq_v"] else heads
    first_shared = len(kinds) - config["num_kv_shared_layers"]
    factor = 2 if config["use_double_wide_mlp"] else 1
    # Files with the next key have all that differs there.
    wide = config["head_dim"] if "per_layer_config" in config else GLOBAL_HEAD_DIM
    wide = config.get("global_head_dim", wide)
    values: JsonObject = {
        "layer_types": kinds,
        "head_dim": max(wide, config["head_dim"]),
        "head_dim_by_layer": [wide if full else config["head_dim"] for full in is_full],
        "num_key_value_heads_by_layer": [full_heads if full else heads for full in is_full],
        "intermediate_size_by_layer": [
            width * factor if i >= first_shared else width for i in range(len(kinds))
        ],
    }
    if not config["enable_moe_block"]:
        return values | dict.fromkeys(EXPERTS)
    return values | {
        "num_experts_per_tok": config["top_k_experts"],
        "shared_expert_intermediate_size": width,
        "is_shared_expert_gated": False,
    }


def step_keys(config: Config) -> JsonObject:
    """Sliding layers with more query heads, layers with experts as a list in words; lists go on for
    layers that predict further tokens."""
    layers, heads = _layers(config), pick(config, "num_attention_heads")
    kinds = pick(config, "layer_types", ["full_attention"] * len(layers))[: len(layers)]
    listed = config.get("moe_layers_enum") or range(3, len(layers))
    listed = {int(i) for i in (listed.split(",") if isinstance(listed, str) else listed)}
    mlps = ["sparse" if i in listed else "dense" for i in layers]
    sliding = (config.get("attention_other_setting") or {}).get("num_attention_heads", heads)
    sliding = config.get("num_sliding_attention_heads") or sliding
    return {
        "layer_types": kinds,
        "mlp_layer_types": pick(config, "mlp_layer_types", mlps)[: len(layers)],
        "num_attention_heads_by_layer": [
            sliding if layer_type == "sliding_attention" else heads for layer_type in kinds
        ],
    }


GLOBAL_HEAD_DIM = 512
"""Transformers' default of ``global_head_dim``."""


def mimo_keys(config: Config) -> JsonObject:
    """Sliding layers with heads of keys of their own, twice as many as others if no key says."""
    heads, layers = pick(config, "num_key_value_heads"), _layers(config)
    slides = config.get("hybrid_layer_pattern")
    kinds = pick(config, "layer_types")
    if slides is not None:
        kinds = ["sliding_attention" if flag else "full_attention" for flag in slides]
    elif kinds is None:
        kinds = ["sliding_attention" if i and (i + 1) % 6 else "full_attention" for i in layers]
    for key in ("num_attention_heads", "head_dim", "v_head_dim"):
        if config.get(f"swa_{key}", config[key]) != config[key]:
            raise ValueError(f"swa_{key} differs from {key}, which is not modeled")
    sliding_heads = config.get("swa_num_key_value_heads", 2 * heads)
    by_layer = [
        sliding_heads if layer_type == "sliding_attention" else heads for layer_type in kinds
    ]
    return _listed_experts(config) | {
        "layer_types": kinds,
        "num_key_value_heads": max(by_layer),
        "num_key_value_heads_by_layer": by_layer,
    }


OWN_KEYS = ("num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size")
"""Keys that layers may have a number of their own for."""


def layer_keys(config: Config) -> JsonObject:
    """Keys that ``per_layer_config`` states of single layers, by their position from 0.

    Raises:
        ValueError: A key that is not modeled by layer.
    """
    single_layers = {int(i): keys for i, keys in (config.get("per_layer_config") or {}).items()}
    values: JsonObject = {}
    for key in sorted({key for keys in single_layers.values() for key in keys}):
        if key not in OWN_KEYS:
            raise ValueError(f"{key} of single layers (per_layer_config) is not modeled")
        common = _head_dim(config) if key == "head_dim" else pick(config, key)
        by_layer = [single_layers.get(i, {}).get(key, common) for i in _layers(config)]
        values |= {key: max(by_layer), f"{key}_by_layer": by_layer}
    return values


def falcon_keys(config: Config) -> JsonObject:
    """Falcon 7B has one head of keys, 40B and 180B several, the RW models all."""
    heads, is_new = pick(config, "num_attention_heads"), config.get("new_decoder_architecture")
    kv_heads = pick(config, "num_key_value_heads")
    is_grouped = is_new if is_new is not None else config.get("n_head_kv") is not None
    if not is_grouped:
        kv_heads = 1 if config.get("multi_query") else heads
    is_parallel = is_grouped or config.get("parallel_attn")
    n_norms = config.get("num_ln_in_parallel_attn") or (2 if is_grouped else 1)
    return four_times_width(config) | {
        "num_key_value_heads": kv_heads or heads,
        "norms_per_layer": n_norms if is_parallel else 2,
        "position": "none" if config.get("alibi") else "rotary",
    }


def grouped_heads(config: Config, switch: str, default: int | None = None) -> JsonObject:
    """Heads of keys: fewer than of queries if a switch is on."""
    key, is_grouped = "num_key_value_heads", config.get(switch)
    return {key: pick(config, key, default) if is_grouped else pick(config, "num_attention_heads")}


def norm_count(config: Config, switch: str, count: int) -> JsonObject:
    """Norms of a layer if a switch is on, else two."""
    return {"norms_per_layer": count if config.get(switch) else 2}


def opt_keys(config: Config) -> JsonObject:
    """Rows of positions: two more than there are positions."""
    width = config.get("word_embed_proj_dim")
    return {
        "max_position_embeddings": config["max_position_embeddings"] + 2,
        "word_embed_proj_dim": width if width != pick(config, "hidden_size") else None,
    }


def gpt_neo_keys(config: Config) -> JsonObject:
    """Kinds of layers as pairs of a list and its repetitions."""
    pairs = config["attention_types"]
    return {"layer_types": [layer_type for names, times in pairs for layer_type in names * times]}


def mpt_keys(config: Config) -> JsonObject:
    """Width, positions and biases, which are on unless a switch says otherwise."""
    has_alibi = (config.get("attn_config") or {}).get("alibi")
    biases = dict.fromkeys(BIASES, not config.get("no_bias", False))
    return biases | {
        "intermediate_size": int(config.get("expansion_ratio", 4) * pick(config, "hidden_size")),
        "position": "none" if has_alibi else "learned",
    }


def nemotron_nas_keys(config: Config) -> JsonObject:
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
            width = mlp.get("intermediate_size") or (
                -(-int(2 * mlp["ffn_mult"] * hidden / 3) // 256) * 256
            )
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


def deci_keys(config: Config) -> JsonObject:
    """Heads of keys by layer."""
    by_layer = config["num_key_value_heads_per_layer"]
    return {"num_key_value_heads": max(by_layer), "num_key_value_heads_by_layer": by_layer}


# State-space layers, and short convolutions ----------------------------------------------------


def _linear(
    linear_kind: str, key_heads: int, value_heads: int, key: int, value: int, taps: int
) -> JsonObject:
    values = (key_heads, value_heads, key, value, taps)
    return {"linear_kind": linear_kind, **dict(zip(LINEAR_KEYS, values, strict=True))}


def _attention_free(layers: int, heads: int, hidden: int) -> JsonObject:
    """A model whose layers have a state and nothing else; heads and width are not used."""
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": 1,
        "intermediate_size": hidden,
        "layer_types": ["linear_attention"] * layers,
        "mlp_layer_types": ["none"] * layers,
    }


def _mamba1_layer(config: Config, prefix: str) -> JsonObject:
    """Keys of Mamba 1, which hybrids spell with a prefix."""
    names = {
        "state": ("state_size", "mamba_d_state"),
        "taps": ("conv_kernel", "mamba_d_conv"),
        "rank": ("time_step_rank", "mamba_dt_rank"),
        "expand": ("expand", "mamba_expand"),
    }
    state, taps, rank, expand = (
        config.get(names[quantity][bool(prefix)], default)
        for quantity, default in (("state", 16), ("taps", 4), ("rank", "auto"), ("expand", 2))
    )
    hidden = pick(config, "hidden_size")
    channels = int(expand * hidden)
    if not prefix:
        channels = config.get("intermediate_size", channels)
    rank = -(-hidden // 16) if rank == "auto" else rank
    return _linear("mamba", 1, channels, state, 1, taps) | {"time_step_rank": rank}


def mamba1_keys(config: Config) -> JsonObject:
    """A model of Mamba 1 layers."""
    layer = _mamba1_layer(config, "")
    layers, hidden = len(_layers(config)), pick(config, "hidden_size")
    return layer | _attention_free(layers, layer["linear_num_value_heads"], hidden)


def mamba2_keys(config: Config) -> JsonObject:
    """A model of Mamba 2 layers."""
    hidden, width = pick(config, "hidden_size"), config.get("head_dim", 64)
    heads = config.get("num_heads") or int(config.get("expand", 2) * hidden) // width
    state, taps = config.get("state_size", 128), config.get("conv_kernel", 4)
    layer = _linear("mamba2", config.get("n_groups", 8), heads, state, width, taps)
    return _attention_free(len(_layers(config)), heads, hidden) | layer


def mamba_ssm_keys(config: Config) -> JsonObject:
    """Files of the ``mamba_ssm`` package; rows of the table are a multiple of 16 [its code]."""
    options, multiple = config["ssm_cfg"], config.get("pad_vocab_size_multiple", 8)
    rows = -(-config["vocab_size"] // multiple) * multiple
    renamed = {
        "state_size": options.get("d_state"), "conv_kernel": options.get("d_conv"),
        "expand": options.get("expand"), "head_dim": options.get("headdim"),
        "n_groups": options.get("ngroups", 1),
    }  # fmt: skip
    merged = {**config, **{key: value for key, value in renamed.items() if value is not None}}
    layer = mamba2_keys if options.get("layer") == "Mamba2" else mamba1_keys
    return layer(merged) | {"vocab_size": rows}


def kimi_linear_keys(config: Config) -> JsonObject:
    """Kimi Delta Attention in layers that are listed, counted from 1, latent attention in others;
    files of Transformers 5 state the kind of every layer.

    Its decay has a number for each channel, from a matrix of low rank, as has its output's gate,
    which is counted as a whole matrix: 0.4 % more parameters of Kimi-Linear-48B.
    """
    kinds = config.get("layer_types")
    if kinds is None:
        options = config["linear_attn_config"]
        heads, width = options["num_heads"], options["head_dim"]
        taps, listed = options["short_conv_kernel_size"], options["kda_layers"]
        kinds = ["linear_attention" if i + 1 in listed else "full_attention"
                 for i in _layers(config)]  # fmt: skip
    else:
        heads, width = config["linear_num_heads"], config["linear_head_dim"]
        taps = config["linear_conv_kernel_dim"]
    return {**_linear("gated_delta", heads, heads, width, width, taps), "layer_types": kinds}


def lfm2_keys(config: Config) -> JsonObject:
    """Short convolutions and attention.

    The width of LFM2's MLP is two thirds of its key, rounded up to a multiple.
    """
    hidden = pick(config, "hidden_size")
    kinds = [
        "linear_attention" if layer_type == "conv" else layer_type
        for layer_type in pick(config, "layer_types")
        or ["full_attention" if i in config["full_attn_idxs"] else "conv" for i in _layers(config)]
    ]
    width = config.get("block_ff_dim") or pick(config, "intermediate_size")
    if config["block_auto_adjust_ff_dim"]:
        multiple = config.get("block_multiple_of", 256)
        scaled = int(config.get("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
        width = -(-scaled // multiple) * multiple
    layer = _linear("convolution", 1, hidden, 1, 1, config["conv_L_cache"])
    return (layer if "linear_attention" in kinds else {}) | {
        "layer_types": kinds,
        "intermediate_size": width,
    }


def jamba_keys(config: Config) -> JsonObject:
    """Attention and experts in periods of their own, Mamba 1 between them."""
    layers = _layers(config)
    attention, experts = (
        [i % config[f"{block}_layer_period"] == config[f"{block}_layer_offset"] for i in layers]
        for block in ("attn", "expert")
    )
    is_mixture = config["num_experts"] > 1
    return {
        **_mamba1_layer(config, "mamba_"),
        "moe_intermediate_size": config["intermediate_size"] if is_mixture else None,
        "n_routed_experts": config["num_experts"] if is_mixture else None,
        "num_experts_per_tok": config["num_experts_per_tok"] if is_mixture else None,
        "layer_types": ["full_attention" if flag else "linear_attention" for flag in attention],
        "mlp_layer_types": ["sparse" if flag and is_mixture else "dense" for flag in experts],
    }


def _mamba2_layer(config: Config) -> JsonObject:
    """Keys of Mamba 2 as hybrids spell them."""
    heads, width = config.get("mamba_n_heads", 128), config.get("mamba_d_head", "auto")
    if width == "auto":
        width = config.get("mamba_expand", 2) * pick(config, "hidden_size") // heads
    groups, taps = config.get("mamba_n_groups", 1), config.get("mamba_d_conv", 4)
    return _linear("mamba2", groups, heads, config.get("mamba_d_state", 256), width, taps)


def granite_hybrid_keys(config: Config) -> JsonObject:
    """Mamba 2 and attention, each with a shared expert and perhaps others."""
    kinds = pick(config, "layer_types", ["mamba"] * len(_layers(config)))
    position = config.get("position_embedding_type")
    return {
        **(_mamba2_layer(config) if {"mamba", "linear_attention"} & {*kinds} else {}),
        **granite_shared_keys(config),
        "layer_types": kinds,
        "position": "rotary" if position == "rope" else "none",
        "intermediate_size": config["shared_intermediate_size"],
    }


def granite_shared_keys(config: Config) -> JsonObject:
    """A shared expert without a gate; it is the dense MLP where no others are."""
    if not config.get("num_local_experts"):
        return dict.fromkeys((*EXPERTS, "shared_expert_intermediate_size"))
    width = config.get("shared_intermediate_size")
    return {"is_shared_expert_gated": False, "shared_expert_intermediate_size": width or None}


def bamba_keys(config: Config) -> JsonObject:
    """Mamba 2 in all layers but those that are listed."""
    listed = config.get("attn_layer_indices") or []
    kinds = ["attention" if i in listed else "mamba" for i in _layers(config)]
    return {**_mamba2_layer(config), "layer_types": kinds}


def falcon_h1_keys(config: Config) -> JsonObject:
    """Mamba 2 and attention in every block, beside one another: two layers here, the MLP with the
    second."""
    blocks = len(_layers(config))
    heads = config.get("mamba_n_heads", 128)
    inner = config.get("mamba_d_ssm") or config.get("mamba_expand", 2) * pick(config, "hidden_size")
    layer = _mamba2_layer({"mamba_d_head": inner // heads, **config, "mamba_n_heads": heads})
    return layer | {
        "num_hidden_layers": 2 * blocks,
        "layer_types": ["linear_attention", "full_attention"] * blocks,
        "mlp_layer_types": ["none", "dense"] * blocks,
    }


_NEMOTRON_LAYERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def nemotron_h_keys(config: Config) -> JsonObject:
    """Every layer is a state-space layer, attention, an MLP or experts."""
    listed = pick(config, "layer_types")
    pattern = config.get("hybrid_override_pattern") or ""
    kinds = listed or [_NEMOTRON_LAYERS.get(symbol, symbol) for symbol in pattern]
    mixers = [
        layer_type if layer_type not in ("mlp", "moe") else "no_attention" for layer_type in kinds
    ]
    mlps = [{"mlp": "dense", "moe": "sparse"}.get(layer_type, "none") for layer_type in kinds]
    values: JsonObject = {
        "num_hidden_layers": len(kinds) or pick(config, "num_hidden_layers"),
        "layer_types": mixers,
        "mlp_layer_types": mlps,
        "is_shared_expert_gated": False,
        "intermediate_size": pick(config, "intermediate_size") or config["moe_intermediate_size"],
    }
    if "moe" not in kinds:
        unused = (*EXPERTS, "n_shared_experts", "shared_expert_intermediate_size",
                  "moe_latent_size")  # fmt: skip
        values |= dict.fromkeys(unused)
    else:
        values |= {"n_shared_experts": None, "has_router_bias": True}
    if "mamba" not in kinds and "linear_attention" not in kinds:
        return values
    return values | _linear("mamba2", config["n_groups"], config["mamba_num_heads"],
                            config["ssm_state_size"], config["mamba_head_dim"],
                            config["conv_kernel"])  # fmt: skip


def minimax_keys(config: Config) -> JsonObject:
    """Lightning attention in most layers, with heads as softmax attention has them."""
    heads, width = pick(config, "num_attention_heads"), _head_dim(config)
    flags = config.get("attn_type_list")
    kinds = pick(config, "layer_types")
    if kinds is None and flags is not None:
        kinds = ["full_attention" if flag else "linear_attention" for flag in flags]
    shared = config.get("shared_intermediate_size")
    values: JsonObject = {"layer_types": kinds, "is_shared_expert_gated": not shared,
                          "shared_expert_intermediate_size": shared or None}  # fmt: skip
    if kinds is not None and "linear_attention" in kinds:
        values |= _linear("lightning", heads, heads, width, width, 0)
    return values
