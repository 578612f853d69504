"""Local checkpoints of Hugging Face: a folder with ``config.json``, safetensors and a tokenizer.

Nothing is downloaded. A folder without a tokenizer and with a vocabulary of 256 is byte-level.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from codesign.base.errors import InputError, UnknownNameError, needing_extra
from codesign.models.quantization.decoder import LINEAR_NAMES, Decoder, DecoderShape, layer_prefix

_TYPES = ("llama", "mistral", "qwen2", "qwen3")
_BYTES = 256
_LLAMA3_KEYS = (
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
)


def load_checkpoint(folder: Path, device: str = "cpu") -> Decoder:
    """The decoder of a folder, in float32.

    Raises:
        InputError: The folder lacks a part, or has a layout that is not known.
        MissingExtraError: The library that reads weights is not installed.
    """
    shape = _shape(folder)
    weights = {name: tensor.to(device) for name, tensor in _weights(folder).items()}
    missing = [name for name in _needed(shape) if name not in weights]
    if missing:
        raise InputError(
            f"{folder}: expected the tensors of a Llama-like decoder, got none called "
            f"{missing[0]!r} ({len(missing)} are missing)"
        )
    _check_sizes(folder, shape, weights)
    return Decoder(shape, weights)


def _shape(folder: Path) -> DecoderShape:
    config = _config(folder)
    kind = config.get("model_type")
    if kind not in _TYPES:
        where = f"{folder / 'config.json'}: model_type"
        raise UnknownNameError("model type", kind, _TYPES, where)
    try:
        heads = int(config["num_attention_heads"])
        hidden = int(config["hidden_size"])
        return DecoderShape(
            vocab_size=int(config["vocab_size"]),
            hidden_size=hidden,
            intermediate_size=int(config["intermediate_size"]),
            num_hidden_layers=int(config["num_hidden_layers"]),
            num_attention_heads=heads,
            num_key_value_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=_rope_theta(config),
            rope_scaling=_rope_scaling(folder, config),
            tie_word_embeddings=bool(config.get("tie_word_embeddings", False)),
        )
    except KeyError as error:
        raise InputError(f"{folder / 'config.json'}: {error.args[0]}: missing") from error


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder}: expected a folder with config.json and *.safetensors")
    try:
        config = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: expected JSON: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path}: expected keys and values, got {type(config).__name__}")
    return config


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def _rope_theta(config: Mapping[str, Any]) -> float:
    return float(_rope(config).get("rope_theta") or config.get("rope_theta") or 10000.0)


def _rope_scaling(folder: Path, config: Mapping[str, Any]) -> Mapping[str, float] | None:
    scaling = _rope(config)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        where = f"{folder / 'config.json'}: rope_scaling"
        raise UnknownNameError("scaling of positions", kind, ["default", "llama3"], where)
    return {key: float(scaling[key]) for key in _LLAMA3_KEYS}


def _weights(folder: Path) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{folder}: expected weights in *.safetensors, got none")
    with needing_extra("reading weights", "accuracy"):
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    weights: dict[str, Tensor] = {}
    for path in files:
        try:
            weights |= {name: tensor.float() for name, tensor in load_file(path).items()}
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path}: {error}") from error
    return weights


def _needed(shape: DecoderShape) -> list[str]:
    names = ["model.embed_tokens.weight", "model.norm.weight"]
    if not shape.tie_word_embeddings:
        names.append("lm_head.weight")
    parts = (*LINEAR_NAMES, "input_layernorm", "post_attention_layernorm")
    for layer in range(shape.num_hidden_layers):
        names += [f"{layer_prefix(layer)}{part}.weight" for part in parts]
    return names


def _check_sizes(folder: Path, shape: DecoderShape, weights: Mapping[str, Tensor]) -> None:
    queries = shape.num_attention_heads * shape.head_dim
    expected = {
        "model.embed_tokens.weight": (shape.vocab_size, shape.hidden_size),
        f"{layer_prefix(0)}self_attn.q_proj.weight": (queries, shape.hidden_size),
        f"{layer_prefix(0)}mlp.down_proj.weight": (shape.hidden_size, shape.intermediate_size),
    }
    for name, size in expected.items():
        if tuple(weights[name].shape) != size:
            raise InputError(
                f"{folder}: {name}: expected the size {size} of config.json, got "
                f"{tuple(weights[name].shape)}"
            )


def read_tokens(folder: Path, path: Path) -> Tensor:
    """(n,) tokens of a text by the folder's tokenizer.

    Raises:
        InputError: No such text, or the folder has no tokenizer.
        MissingExtraError: The tokenizer's library is not installed.
    """
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    content = path.read_bytes()
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        if _shape(folder).vocab_size != _BYTES:
            raise InputError(f"{folder}: expected tokenizer.json, got none")
        return torch.tensor(list(content), dtype=torch.long)
    with needing_extra("reading text", "accuracy"):
        from tokenizers import Tokenizer
    encoded = Tokenizer.from_file(str(tokenizer)).encode(content.decode("utf-8", "replace"))
    return torch.tensor(encoded.ids, dtype=torch.long)


def fingerprint(folder: Path, text: Path) -> str:
    """A digest of a checkpoint and a text: of contents, but of weights only names and sizes."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name}:{path.stat().st_size}".encode())
        with path.open("rb") as file:
            digest.update(file.read(1 << 20))
    digest.update(text.read_bytes())
    return digest.hexdigest()[:16]
