"""Local checkpoints of Hugging Face: a folder with ``config.json``, safetensors and a tokenizer.

Nothing is downloaded. A folder without a tokenizer and with a vocabulary of 256 is byte-level.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from codesign.base.columns import IntegerTuple
from codesign.base.errors import InputError, KeyedValueError, UnknownNameError, needing_extra
from codesign.base.schema import Document, Positive, Record, parse_record
from codesign.models.quantization.decoder import Decoder, DecoderShape, layer_prefix
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.model_library import read_model

_TYPES = ("llama", "mistral", "qwen2", "qwen3")
_FLOATS = ("F64", "F32", "F16", "BF16")
"""Types of weights; codes of a quantized checkpoint are no weights."""
_BYTES = 256
_CHUNK_BYTES = 1 << 24
_MOST_MISTAKES = 20
_UNMODELED = "quantize models only {} = {}"

_PositiveFloat = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


class _Llama3Scaling(Record):
    factor: Annotated[float, Field(ge=1, strict=True, allow_inf_nan=False)]
    low_freq_factor: _PositiveFloat
    high_freq_factor: _PositiveFloat
    original_max_position_embeddings: Positive

    def check_fields(self) -> None:
        if self.high_freq_factor <= self.low_freq_factor:
            raise KeyedValueError(
                "high_freq_factor",
                f"expected more than low_freq_factor, {self.low_freq_factor:g}, "
                f"got {self.high_freq_factor:g}",
            )


class _Constants(Record):
    rms_norm_eps: Annotated[float, Field(gt=0, lt=1, strict=True)] = 1e-6
    rope_theta: Annotated[float, Field(ge=1, strict=True, allow_inf_nan=False)] = 10000.0


def load_checkpoint(folder: Path, device: str = "cpu") -> Decoder:
    """The decoder of a folder, in float32.

    Raises:
        InputError: The folder lacks a file, or has a layout or a weight that cannot be used.
        MissingExtraError: The library that reads weights is not installed.
    """
    model, document = _read_config(folder)
    shape = _decoder_shape(model, document)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{folder}: expected weights in *.safetensors, got none")
    with needing_extra("reading weights", "accuracy"):
        from safetensors import SafetensorError, safe_open
        from safetensors.torch import load_file
    weights = {}
    expected = dict(_tensor_sizes(model))
    try:
        sizes: dict[str, IntegerTuple] = {}
        for path in files:
            with safe_open(path, "pt") as file:  # headers first: a wrong file is not loaded
                _add_sizes(path, file, sizes)
        if model.tie_word_embeddings and "lm_head.weight" not in sizes:
            del expected["lm_head.weight"]
        _check_sizes(folder, expected, sizes)
        for path in files:
            for name, tensor in load_file(path).items():
                weights[name] = tensor.float().to(device)
                if not torch.isfinite(weights[name]).all():
                    raise InputError(f"{name}: expected finite weights in float32", str(path))
    except (SafetensorError, OSError, RuntimeError) as error:  # torch opens files itself
        raise InputError(str(error), str(path)) from error
    return Decoder(shape, weights)


def _add_sizes(path: Path, file: Any, sizes: dict[str, IntegerTuple]) -> None:
    """Note the sizes of a file's tensors.

    Raises:
        InputError: A tensor is in two files, or holds no floating-point numbers.
    """
    for name in file.keys():  # noqa: SIM118 # no mapping
        if name in sizes:
            raise InputError(f"{name}: is in another *.safetensors, too", str(path))
        tensor = file.get_slice(name)
        if tensor.get_dtype() not in _FLOATS:
            raise InputError(
                f"{name}: expected one of {', '.join(_FLOATS)}, got {tensor.get_dtype()}", str(path)
            )
        sizes[name] = tuple(tensor.get_shape())


def _check_sizes(
    folder: Path,
    expected: Mapping[str, IntegerTuple],
    sizes: Mapping[str, IntegerTuple],
) -> None:
    """See that a folder has the tensors of its configuration and no further ones.

    Raises:
        InputError: It has not.
    """
    missing = [name for name in expected if name not in sizes]
    if missing:
        raise InputError(
            f"{folder}: expected the tensors of a Llama-like decoder, got none called "
            f"{missing[0]!r} ({len(missing)} are missing)"
        )
    # Old checkpoints hold the frequencies of positions, which follow from the configuration.
    unknown = [name for name in sizes.keys() - expected if not name.endswith(".inv_freq")]
    if unknown:
        raise InputError(
            f"{folder}: expected only the tensors of its config.json, got {min(unknown)!r} "
            f"({len(unknown)} are unknown)"
        )
    mistakes = [
        f"{folder}: {name}: expected the size {size} of config.json, got {sizes[name]}"
        for name, size in expected.items()
        if sizes[name] != size
    ]
    if mistakes:
        raise InputError(mistakes[:_MOST_MISTAKES])


def _tensor_sizes(model: LanguageModel) -> Iterator[tuple[str, IntegerTuple]]:
    """Names and sizes of all tensors of a decoder."""
    hidden = model.hidden_size
    inner = model.intermediate_size
    width = model.head_dim
    queries = model.num_attention_heads * width
    keys = model.num_key_value_heads * width
    products = {
        "self_attn.q_proj": (queries, hidden, model.attention_bias),
        "self_attn.k_proj": (keys, hidden, model.attention_bias),
        "self_attn.v_proj": (keys, hidden, model.attention_bias),
        "self_attn.o_proj": (hidden, queries, model.attention_output_bias),
        "mlp.gate_proj": (inner, hidden, model.mlp_bias),
        "mlp.up_proj": (inner, hidden, model.mlp_bias),
        "mlp.down_proj": (hidden, inner, model.mlp_bias),
    }
    yield "model.embed_tokens.weight", (model.vocab_size, hidden)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (model.vocab_size, hidden)
    for layer in range(model.num_hidden_layers):
        prefix = layer_prefix(layer)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}{norm}.weight", (hidden,)
        if model.qk_norm:
            yield f"{prefix}self_attn.q_norm.weight", (width,)
            yield f"{prefix}self_attn.k_norm.weight", (width,)
        for name, (rows, columns, has_bias) in products.items():
            yield f"{prefix}{name}.weight", (rows, columns)
            if has_bias:
                yield f"{prefix}{name}.bias", (rows,)


def _read_config(folder: Path) -> tuple[LanguageModel, Document]:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder}: expected a folder with config.json and *.safetensors")
    return read_model(path, _TYPES)


def _decoder_shape(model: LanguageModel, document: Document) -> DecoderShape:
    """Sizes and constants of a decoder.

    Raises:
        InputError: The decoder does not do what the configuration says.
    """
    for key, got, expected in (
        ("hidden_act", model.hidden_act, "silu"),
        ("partial_rotary_factor", model.partial_rotary_factor, 1.0),
        ("v_head_dim", model.value_head_dim or model.head_dim, model.head_dim),
        ("head_dim", model.head_dim % 2, 0),
        ("num_attention_heads", model.num_attention_heads % model.num_key_value_heads, 0),
    ):
        if got != expected:
            raise InputError(_UNMODELED.format(key, expected), document.where(key))
    config = document.data
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise InputError(f"expected keys and values, got {rope!r}", document.where("rope_scaling"))
    values = {**config, **({"rope_theta": rope["rope_theta"]} if rope.get("rope_theta") else {})}
    names = (name for name in _Constants.model_fields if values.get(name) is not None)
    constants = parse_record(document, _Constants, {name: values[name] for name in names})
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type not in ("default", "llama3"):
        where = document.where("rope_scaling")
        raise UnknownNameError("scaling of positions", rope_type, ["default", "llama3"], where)
    scaling = None
    if rope_type == "llama3":
        names = (name for name in _Llama3Scaling.model_fields if name in rope)
        path = ("rope_parameters" if config.get("rope_parameters") else "rope_scaling",)
        data = {name: rope[name] for name in names}
        scaling = parse_record(document, _Llama3Scaling, data, path).model_dump()
    windows = [
        model.sliding_window if layer_type == "sliding_attention" else None
        for layer_type in model.attention_kinds()
    ]
    computed = {**dict(constants), "rope_scaling": scaling, "windows": tuple(windows)}
    names = (field.name for field in fields(DecoderShape) if field.name not in computed)
    return DecoderShape(**{name: getattr(model, name) for name in names}, **computed)


def read_tokens(folder: Path, path: Path) -> Tensor:
    """(n,) tokens of a text by the folder's tokenizer.

    Raises:
        InputError: No such text, or the folder has no tokenizer that fits its vocabulary.
        MissingExtraError: The tokenizer's library is not installed.
    """
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from error
    model, _ = _read_config(folder)
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        if model.vocab_size != _BYTES:
            raise InputError(f"{folder}: expected tokenizer.json, got none")
        return torch.tensor(list(content), dtype=torch.long)
    with needing_extra("reading text", "accuracy"):
        from tokenizers import Tokenizer
    try:
        encoded = Tokenizer.from_file(str(tokenizer)).encode(content.decode("utf-8", "replace"))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"expected a tokenizer: {error}", str(tokenizer)) from error
    tokens = torch.tensor(encoded.ids, dtype=torch.long)
    if len(tokens) and int(tokens.max()) >= model.vocab_size:
        raise InputError(f"{folder}: its tokenizer has more words than its vocabulary")
    return tokens


def fingerprint(folder: Path, text: Path) -> str:
    """Digest of all bytes that a measurement reads: a checkpoint, its tokenizer and a text."""
    digest = hashlib.sha256()
    names = ("config.json", "tokenizer.json")
    files = [folder / name for name in names] + sorted(folder.glob("*.safetensors")) + [text]
    for path in filter(Path.is_file, files):
        digest.update(f"{path.name}:{path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()[:16]
