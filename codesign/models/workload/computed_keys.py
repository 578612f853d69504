"""Keys of a model that are computed from several keys of its file, such as the kinds of layers.

Every function takes the keys of a file, with the defaults of its family and the keys that its row
reads, and returns keys of our model record. The rows of ``families.yaml`` assign functions to
families and name the sources. Of :data:`LAYER_KEYS`, a list has a number for each layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codesign.base.columns import Fields, JsonObject, StringList

Config = Fields

EXPERTS = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
LAYER_KEYS = ("num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size")
"""Keys that layers may have a number of their own for."""
GLOBAL_HEAD_DIM = 512
"""Transformers' default of ``global_head_dim``."""


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
        value = config.get(key)
        if nested:
            value = value.get(nested) if isinstance(value, dict) else None
        if value is not None:
            return value
    raise KeyError(name.rpartition(".")[2])


def layerwise(flags: Iterable[object], if_true: Any, if_false: Any) -> list[Any]:
    """A kind, or a number, for each layer."""
    return [if_true if flag else if_false for flag in flags]


def _layers(config: Config) -> range:
    return range(config["num_hidden_layers"])


def _head_dim(config: Config) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def indexer_keys(config: Config) -> JsonObject:
    """GLM's layers that choose tokens anew: a list, a pattern of letters, or every so many."""
    letters = {"F": "full", "S": "shared"}
    types = config.get("indexer_types") or [
        letters.get(letter, letter) for letter in config.get("index_topk_pattern") or ""
    ]
    every = config["index_topk_freq"]
    if not types and every > 1:
        first = config["index_skip_topk_offset"]
        waits = (max(i - first + 1, 0) % every for i in _layers(config))
        types = layerwise(waits, "shared", "full")
    return {"indexer_types": types or None}


def sliding_but_every(config: Config, default: int, *keys: str) -> JsonObject:
    """Sliding layers, but for every last one of a period, whose key and default are stated."""
    period = named(config, [*keys, default])
    slides = ((i + 1) % period for i in _layers(config))
    kinds = layerwise(slides, "sliding_attention", "full_attention")
    return {"layer_types": config.get("layer_types", kinds)}


def half_width(config: Config) -> JsonObject:
    """Width of the MLP: half of the width stated for gate and up projection together."""
    return {"intermediate_size": config["intermediate_size"] // 2}


def shape_keys(config: Config) -> JsonObject:
    """Keys of a type without a row, from its shapes; activations without a gate are known."""
    width = config.get("intermediate_size")
    expert = config.get("moe_intermediate_size")
    shared = config.get("shared_expert_intermediate_size")
    return {
        "intermediate_size": config.get("dense_intermediate_size") or width or expert,
        "moe_intermediate_size": (expert or width) if "n_routed_experts" in config else None,
        "n_shared_experts": None if shared else config.get("n_shared_experts"),
        "shared_expert_intermediate_size": shared or None,
        "is_gated": config.get("hidden_act") not in ("relu2", "relu_squared", "xielu"),
    }


def listed_experts(config: Config) -> JsonObject:
    """Layers with experts, which files list in one of two ways."""
    flags = config.get("moe_layer_freq")
    kinds = layerwise(flags, "sparse", "dense") if isinstance(flags, list) else None
    return {"mlp_layer_types": config.get("mlp_layer_types", kinds)}


def four_times_width(config: Config) -> JsonObject:
    """The MLP's width where the file does not state it."""
    return {"intermediate_size": config.get("intermediate_size", 4 * config["hidden_size"])}


def rotated_part(config: Config, default: float = 1.0) -> JsonObject:
    """The part of a head that is rotated, as the files state it in four ways."""
    rope = config.get("rope_parameters")  # where newer files have the factor
    keys = {**config, **(rope if isinstance(rope, dict) else {})}
    width = _head_dim(config)
    factor = named(keys, ["partial_rotary_factor", "rotary_pct", "rope_pct", default])
    rotated = config.get("rotary_dim") or int(width * factor)
    return {"partial_rotary_factor": min(rotated / width, 1.0)}


def llama4_keys(config: Config) -> JsonObject:
    """Chunked attention in rotated layers, experts in every ``interleave_moe_layer_step``-th."""
    layers = _layers(config)
    step = config["interleave_moe_layer_step"]
    sparse = config.get("moe_layers", layers[step - 1 :: step])
    rotated = config.get("no_rope_layers") or [(i + 1) % 4 for i in layers]
    chunk = config.get("attention_chunk_size")
    kinds = config.get("layer_types") or layerwise(rotated, "chunked_attention", "full_attention")
    return {
        "mlp_layer_types": layerwise((i in sparse for i in layers), "sparse", "dense"),
        "layer_types": kinds if chunk else None,
        "sliding_window": chunk,
    }


def ernie_keys(config: Config) -> JsonObject:
    """Experts from a first layer on."""
    layers = _layers(config)
    step = config["moe_layer_interval"]
    first = config["moe_layer_start_index"]
    last = config["moe_layer_end_index"]
    last = last if last >= 0 else layers[-1]
    has_experts = (first <= i <= last and (i + 1) % step == 0 for i in layers)
    return {"mlp_layer_types": layerwise(has_experts, "sparse", "dense")}


def bailing_keys(config: Config) -> JsonObject:
    """Shared experts of a width of their own, none of them gated."""
    n_shared = config.get("n_shared_experts", 0)
    width = config.get("shared_expert_intermediate_size", config["moe_intermediate_size"])
    return {
        "shared_expert_intermediate_size": n_shared * width or None,
        "is_shared_expert_gated": not n_shared,
    }


def exaone4_keys(config: Config) -> JsonObject:
    """Kinds of layers as a word of L (sliding) and G (full), repeated; the last layer is full."""
    layers = _layers(config)
    pattern = config.get("sliding_window_pattern")
    kinds = config.get("layer_types")
    if kinds is None and config.get("sliding_window") and pattern:
        word = pattern if isinstance(pattern, str) else "L" * (pattern - 1) + "G"
        is_full = (word[i % len(word)] == "G" or i == layers[-1] for i in layers)
        kinds = layerwise(is_full, "full_attention", "sliding_attention")
    return {"layer_types": kinds}


def gemma3n_keys(config: Config) -> JsonObject:
    """Widths by layer."""
    widths = config["intermediate_size"]
    is_list = isinstance(widths, list)
    return {"intermediate_size": widths if is_list else [widths for _ in _layers(config)]}


def further_blocks(config: Config, keys_by_block: Mapping[str, StringList]) -> JsonObject:
    """Blocks that a family has besides, each with its own keys; those without the first are not
    there."""
    return {
        "blocks": [
            {"name": name} | {key: config[key] for key in keys}
            for name, keys in keys_by_block.items()
            if config.get(keys[0])
        ]
    }


def gemma4_keys(config: Config) -> JsonObject:
    """Wider and perhaps fewer heads where attention is full, wider MLPs where keys are shared.

    A dense MLP beside the experts is a shared expert here.
    """
    kinds = [*sliding_but_every(config, 6)["layer_types"][:-1], "full_attention"]
    is_full = [layer_type == "full_attention" for layer_type in kinds]
    heads = config["num_key_value_heads"]
    width = config["intermediate_size"]
    full_heads = (config["attention_k_eq_v"] and config.get("num_global_key_value_heads")) or heads
    first_shared = len(kinds) - config["num_kv_shared_layers"]
    factor = 2 if config["use_double_wide_mlp"] else 1
    # Files with the next key have all that differs there.
    wide = config["head_dim"] if "per_layer_config" in config else GLOBAL_HEAD_DIM
    is_shared = (i >= first_shared for i in range(len(kinds)))
    values: JsonObject = {
        "layer_types": kinds,
        "head_dim": layerwise(is_full, config.get("global_head_dim", wide), config["head_dim"]),
        "num_key_value_heads": layerwise(is_full, full_heads, heads),
        "intermediate_size_by_layer": layerwise(is_shared, width * factor, width),
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
    layers = _layers(config)
    heads = config["num_attention_heads"]
    kinds = config.get("layer_types", ["full_attention"] * len(layers))[: len(layers)]
    listed = config.get("moe_layers_enum") or layers[3:]
    listed = {int(i) for i in (listed.split(",") if isinstance(listed, str) else listed)}
    mlps = layerwise((i in listed for i in layers), "sparse", "dense")
    sliding = config.get("num_sliding_attention_heads") or named(
        config, ["attention_other_setting.num_attention_heads", heads]
    )
    slides = (layer_type == "sliding_attention" for layer_type in kinds)
    return {
        "layer_types": kinds,
        "mlp_layer_types": config.get("mlp_layer_types", mlps)[: len(layers)],
        "num_attention_heads_by_layer": layerwise(slides, sliding, heads),
    }


def mimo_keys(config: Config) -> JsonObject:
    """Sliding layers with heads of keys of their own, twice as many as others if no key says."""
    heads = config["num_key_value_heads"]
    kinds = config.get("layer_types") or ()
    slides = (
        config.get("hybrid_layer_pattern")
        or [layer_type == "sliding_attention" for layer_type in kinds]
        or [i and (i + 1) % 6 for i in _layers(config)]
    )
    for key in ("num_attention_heads", "head_dim", "v_head_dim"):
        if config.get(f"swa_{key}", config[key]) != config[key]:
            raise ValueError(f"swa_{key} differs from {key}, which is not modeled")
    sliding_heads = config.get("swa_num_key_value_heads", 2 * heads)
    return {
        "layer_types": layerwise(slides, "sliding_attention", "full_attention"),
        "num_key_value_heads": layerwise(slides, sliding_heads, heads),
    }


def layer_keys(config: Config) -> JsonObject:
    """Keys that ``per_layer_config`` states of single layers, by their position from 0.

    Raises:
        ValueError: A key that is not modeled by layer.
    """
    single_layers = {int(i): keys for i, keys in config.get("per_layer_config", {}).items()}
    values = {}
    for key in sorted({key for keys in single_layers.values() for key in keys}):
        if key not in LAYER_KEYS:
            raise ValueError(f"{key} of single layers (per_layer_config) is not modeled")
        common = _head_dim(config) if key == "head_dim" else config.get(key)
        values[key] = [single_layers.get(i, {}).get(key, common) for i in _layers(config)]
    return values


def falcon_keys(config: Config) -> JsonObject:
    """Falcon 7B has one head of keys, 40B and 180B several, the RW models all."""
    heads = config["num_attention_heads"]
    is_grouped = config.get("new_decoder_architecture", "n_head_kv" in config)
    is_parallel = is_grouped or config.get("parallel_attn")
    n_norms = config.get("num_ln_in_parallel_attn") or (2 if is_grouped else 1)
    single = 1 if config.get("multi_query") else heads
    return {
        "num_key_value_heads": config.get("num_key_value_heads", heads) if is_grouped else single,
        "norms_per_layer": n_norms if is_parallel else 2,
        "position": "none" if config.get("alibi") else "rotary",
    }


def grouped_heads(config: Config, switch: str, default: int | None = None) -> JsonObject:
    """Heads of keys: fewer than of queries if a switch is on."""
    key = "num_key_value_heads"
    is_grouped = config.get(switch)
    return {key: config.get(key, default) if is_grouped else config["num_attention_heads"]}


def norm_count(config: Config, switch: str, count: int) -> JsonObject:
    """Norms of a layer if a switch is on, else two."""
    return {"norms_per_layer": count if config.get(switch) else 2}


def opt_keys(config: Config) -> JsonObject:
    """Rows of positions: two more than there are positions."""
    width = config.get("word_embed_proj_dim")
    return {
        "max_position_embeddings": config["max_position_embeddings"] + 2,
        "word_embed_proj_dim": width if width != config["hidden_size"] else None,
    }


def gpt_neo_keys(config: Config) -> JsonObject:
    """Kinds of layers as pairs of a list and its repetitions."""
    pairs = config["attention_types"]
    return {"layer_types": [layer_type for names, times in pairs for layer_type in names * times]}


def mpt_keys(config: Config) -> JsonObject:
    """Width, positions and biases, which are on unless a switch says otherwise."""
    has_alibi = named(config, ["attn_config.alibi", False])
    biases = ("attention_bias", "attention_output_bias", "mlp_bias")
    return dict.fromkeys(biases, not config["no_bias"]) | {
        "intermediate_size": int(config["expansion_ratio"] * config["hidden_size"]),
        "position": "none" if has_alibi else "learned",
    }


def nemotron_nas_keys(config: Config) -> JsonObject:
    """Layers of Nemotron NAS: attention with heads of its own, a matrix, or none; MLP likewise.

    A layer's matrix in place of its attention or MLP is counted as as many parameters more in the
    MLPs.
    """
    hidden = config["hidden_size"]
    heads = config["num_attention_heads"]
    kv_heads = []
    widths = []
    for block in config["block_configs"]:
        attention = block["attention"]
        mlp = block["ffn"]
        group = attention.get("n_heads_in_group")
        kv_heads.append(heads // group if group else 0)
        width = 0
        if not (mlp.get("no_op") or mlp.get("replace_with_linear")):
            width = mlp.get("intermediate_size") or (
                -(-int(2 * mlp["ffn_mult"] * hidden / 3) // 256) * 256
            )
        matrices = bool(attention.get("replace_with_linear")) + bool(mlp.get("replace_with_linear"))
        widths.append(width + matrices * hidden // 3)
    return {
        "layer_types": layerwise(kv_heads, "full_attention", "no_attention"),
        "num_key_value_heads": kv_heads,
        "intermediate_size": widths,
        "mlp_layer_types": layerwise(widths, "dense", "none"),
    }


def longcat_keys(config: Config) -> JsonObject:
    """Two attentions and dense MLPs in every layer, with experts beside the first MLP; of a token's
    choices, experts that do nothing take their share."""
    layers = config["num_hidden_layers"]
    experts = config["n_routed_experts"]
    useful = experts / (experts + config["zero_expert_num"])
    return {
        "num_hidden_layers": 2 * layers,
        "mlp_layer_types": ["sparse", "dense"] * layers,
        "num_experts_per_tok": round(config["num_experts_per_tok"] * useful),
        "first_k_dense_replace": 0,
    }


def openelm_keys(config: Config) -> JsonObject:
    """Widths of the MLPs of all layers, as multiples of the model's, rounded to a divisor."""
    hidden = config["hidden_size"]
    step = config["ffn_dim_divisor"]
    return {
        "intermediate_size": [
            round(factor * hidden / step) * step for factor in config["ffn_multipliers"]
        ]
    }


# Layers with a state ---------------------------------------------------------------------------


def mamba1_keys(config: Config) -> JsonObject:
    """Channels of Mamba 1, and the rank of their rates."""
    hidden = config["hidden_size"]
    rank = config["time_step_rank"]
    return {
        "linear_num_value_heads": config.get("channels") or int(config["expand"] * hidden),
        "time_step_rank": -(-hidden // 16) if rank == "auto" else rank,
    }


def mamba2_keys(config: Config) -> JsonObject:
    """Heads of Mamba 2, or their width, where the file states the other one."""
    heads = config["linear_num_value_heads"]
    width = config["linear_value_head_dim"]
    inner = int(config.get("mamba_d_ssm") or config["expand"] * config["hidden_size"])
    return {
        "linear_num_value_heads": heads or inner // width,
        "linear_value_head_dim": inner // heads if width == "auto" else width,
    }


def mamba_ssm_keys(config: Config) -> JsonObject:
    """Files of the ``mamba_ssm`` package; rows of the table are a multiple of 16 [its code]."""
    multiple = config["pad_vocab_size_multiple"]
    rows = {"vocab_size": -(-config["vocab_size"] // multiple) * multiple}
    if config["ssm_cfg"].get("layer") == "Mamba2":
        return rows | mamba2_keys(config) | {"linear_kind": "mamba2"}
    state = named(config, ["ssm_cfg.d_state", 16])
    shape = {"linear_num_key_heads": 1, "linear_key_head_dim": state, "linear_value_head_dim": 1}
    return rows | mamba1_keys(config) | shape | {"linear_kind": "mamba"}


def listed_layers(
    config: Config, names: Any, if_true: str, if_false: str, first: int = 0
) -> JsonObject:
    """Kinds of layers, unless a file states them: those at listed positions, and all others.

    Args:
        names: Of the list, as of :func:`named`.
        first: Position of the first layer.
    """
    if kinds := config.get("layer_types"):
        return {"layer_types": kinds}
    listed = named(config, names)
    flags = (i + first in listed for i in _layers(config))
    return {"layer_types": layerwise(flags, if_true, if_false)}


def lfm2_keys(config: Config) -> JsonObject:
    """Short convolutions and attention.

    The width of LFM2's MLP is two thirds of its key, rounded up to a multiple.
    """
    width = config["dense_width"]
    kinds = listed_layers(config, "full_attn_idxs", "full_attention", "conv")["layer_types"]
    if config["block_auto_adjust_ff_dim"]:
        multiple = config["block_multiple_of"]
        scaled = int(config["block_ffn_dim_multiplier"] * int(2 * width / 3))
        width = -(-scaled // multiple) * multiple
    return {
        "layer_types": [{"conv": "linear_attention"}.get(name, name) for name in kinds],
        "intermediate_size": width,
    }


def jamba_keys(config: Config) -> JsonObject:
    """Attention and experts in periods of their own, Mamba 1 between them."""
    is_mixture = config["n_routed_experts"] > 1
    attention, experts = (
        [i % config[f"{block}_layer_period"] == config[f"{block}_layer_offset"] and is_there
         for i in _layers(config)]
        for block, is_there in (("attn", True), ("expert", is_mixture))
    )  # fmt: skip
    unused = {} if is_mixture else dict.fromkeys(EXPERTS)
    return {
        "moe_intermediate_size": config["intermediate_size"],
        "layer_types": layerwise(attention, "full_attention", "linear_attention"),
        "mlp_layer_types": layerwise(experts, "sparse", "dense"),
    } | unused


def granite_positions(config: Config) -> JsonObject:
    """Rotary positions, or none."""
    return {"position": "rotary" if config.get("position_embedding_type") == "rope" else "none"}


def granite_shared_keys(config: Config) -> JsonObject:
    """A shared expert without a gate; it is the dense MLP where no others are."""
    if not config.get("n_routed_experts"):
        return dict.fromkeys((*EXPERTS, "shared_expert_intermediate_size"))
    width = config.get("shared_intermediate_size")
    return {"is_shared_expert_gated": False, "shared_expert_intermediate_size": width or None}


def falcon_h1_keys(config: Config) -> JsonObject:
    """Mamba 2 and attention in every block, beside one another: two layers here, the MLP with the
    second."""
    blocks = len(_layers(config))
    return {
        "num_hidden_layers": 2 * blocks,
        "layer_types": ["linear_attention", "full_attention"] * blocks,
        "mlp_layer_types": ["none", "dense"] * blocks,
    }


_NEMOTRON_LAYERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def nemotron_h_keys(config: Config) -> JsonObject:
    """Every layer is a state-space layer, attention, an MLP or experts."""
    pattern = config.get("hybrid_override_pattern", "")
    kinds = config.get("layer_types") or [
        _NEMOTRON_LAYERS.get(symbol, symbol) for symbol in pattern
    ]
    mlps = {"mlp": "dense", "moe": "sparse"}
    values: JsonObject = {
        "num_hidden_layers": len(kinds) or config["num_hidden_layers"],
        "layer_types": [
            "no_attention" if layer_type in mlps else layer_type for layer_type in kinds
        ],
        "mlp_layer_types": [mlps.get(layer_type, "none") for layer_type in kinds],
        "intermediate_size": config.get("intermediate_size") or config["moe_intermediate_size"],
    }
    if "moe" in kinds:
        return values | {"n_shared_experts": None, "has_router_bias": True}
    unused = ("n_shared_experts", "shared_expert_intermediate_size", "moe_latent_size")
    return values | dict.fromkeys((*EXPERTS, *unused))


def minimax_keys(config: Config) -> JsonObject:
    """Lightning attention in most layers, with heads as softmax attention has them."""
    flags = config.get("attn_type_list") or ()
    kinds = config.get("layer_types") or layerwise(flags, "full_attention", "linear_attention")
    shared = config.get("shared_intermediate_size")
    return {
        "layer_types": kinds or None,
        "is_shared_expert_gated": not shared,
        "shared_expert_intermediate_size": shared or None,
        "linear_key_head_dim": _head_dim(config),
        "linear_value_head_dim": _head_dim(config),
    }
