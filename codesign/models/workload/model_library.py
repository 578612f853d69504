"""Language models by name or by file."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path

from codesign.base.columns import JsonObject, StringDict, StringTuple
from codesign.base.errors import InputError, UnknownNameError, check_known
from codesign.base.schema import (
    MOST_NODES,
    Document,
    parse_document,
    parse_record,
    read_document,
    read_text,
)
from codesign.models.workload.hugging_face import config_model, is_config
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.storage import (
    active_parameter_count,
    kv_elements_per_token,
    parameter_count,
    parameters_by_part,
    state_bytes,
    state_bytes_per_token,
)

_logger = logging.getLogger(__name__)
_FOLDER = Path(__file__).parent / "models"
_FORMATS_FILE = "hf_quant_config.json"
_MOST_NODES = 10 * MOST_NODES


@cache
def list_models() -> StringTuple:
    """The names of the bundled models."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load_model(name_or_path: str) -> LanguageModel:
    """Load a language model.

    Args:
        name_or_path: A bundled name (:func:`list_models`) or a repository's (``hub_names.yaml``),
            or the path of a Hugging Face ``config.json`` (it has a ``model_type``) or of a YAML
            file with the keys of :class:`LanguageModel`. A folder stands for the ``config.json``
            in it.

    Raises:
        UnknownNameError: No bundled model of that name; the nearest is offered.
        InputError: The file is missing, or something in it cannot be used.
    """
    if name_or_path in list_models():
        return _bundled(name_or_path)
    path = Path(name_or_path)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file() and (stem := _names().get(_folded(name_or_path))):
        return _bundled(stem)
    if "/" not in name_or_path and not name_or_path.endswith((".json", ".yaml", ".yml")):
        raise UnknownNameError("language model", name_or_path, list_models())
    if not path.is_file():
        raise InputError(f"no such file, and no bundled model: {name_or_path!r}")
    return read_model(path)[0]


@cache
def _names() -> StringDict:
    """Every name of a bundled model, folded, with its file's."""
    further = read_document(_FOLDER.with_name("hub_names.yaml")).data
    return {
        _folded(name): stem for stem in list_models() for name in (stem, *further.get(stem, ()))
    }


def _folded(name: str) -> str:
    """Letters and digits of a name, without a repository's owner."""
    return re.sub(r"[^a-z0-9]", "", name.rpartition("/")[2].lower())


@cache
def _bundled(name: str) -> LanguageModel:
    return read_model(_FOLDER / f"{name}.yaml")[0]


def read_model(
    path: Path, model_types: Collection[str] | None = None
) -> tuple[LanguageModel, Document]:
    """The model of a file, and the file's keys for callers that need more than dimensions.

    Args:
        model_types: Types of Hugging Face that the caller can use; None: all.

    Raises:
        InputError: Something in it cannot be used.
    """
    document = _read_json(path) if path.suffix == ".json" else read_document(path)
    if model_types is not None:
        where = document.where("model_type")
        check_known("model type", document.data.get("model_type"), model_types, where)
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    if is_config(document):
        model = config_model(document, name)
        for note in model.notes:
            _warn_once(f"{document.source}: {note}")
        return model, document
    if path.suffix == ".json":
        problem = "the key is required (is this a Hugging Face config.json?)"
        raise InputError(problem, document.where("model_type"))
    return parse_record(document, LanguageModel, {"name": name, **document.data}), document


@cache
def _warn_once(line: str) -> None:
    """Log a line; a command reads a file several times."""
    _logger.warning("%s", line)


def _read_json(path: Path) -> Document:
    """JSON is YAML, but for tabs; the YAML reader knows the lines.

    ModelOpt states formats in a file beside, and may list every matrix.
    """
    text, source = read_text(path, _MOST_NODES)
    document = parse_document(text.replace("\t", " "), source, _MOST_NODES)
    beside = path.with_name(_FORMATS_FILE)
    if path.name != "config.json" or not beside.is_file():
        return document
    return replace(
        document,
        data=document.data | {"quantization": _read_json(beside).data.get("quantization")},
    )


def summary(model: LanguageModel) -> JsonObject:
    """The summary that ``codesign list models`` shows, as plain values."""
    kv = kv_elements_per_token(model)
    softmax = _softmax_kind(model)
    names = {
        "full_attention": softmax,
        "sliding_attention": "sliding",
        "linear_attention": _LINEAR_NAMES[model.linear_kind],
    }
    kinds = [layer_type for layer_type in model.layers_by_type if layer_type in names]
    return {
        "name": model.name,
        "parameters": parameter_count(model),
        "active_parameters": active_parameter_count(model),
        "parameters_by_part": parameters_by_part(model),
        "layers": model.num_hidden_layers,
        "layers_by_attention": dict(model.layers_by_type),
        "hidden_size": model.hidden_size,
        "attention": (
            softmax
            if kinds in (["full_attention"], ["sliding_attention"])
            else "+".join(names[layer_type] for layer_type in kinds)
        ),
        "query_heads": model.num_attention_heads if model.n_attention_layers else 0,
        "kv_heads": (1 if model.is_latent else model.num_key_value_heads)
        if model.n_attention_layers
        else 0,
        "experts": model.n_routed_experts or 0,
        "experts_per_token": model.num_experts_per_tok or 0,
        "vocab_size": model.vocab_size,
        "kv_elements_per_token": kv,
        "kv_bytes_per_token_16_bit": 2 * kv,
        "state_bytes_per_request": state_bytes(model),
        "index_bytes_per_token": state_bytes_per_token(model),
        "is_diffusion": model.is_diffusion,
        "published_parameters": model.parameters.count if model.parameters else None,
        "counted": model.parameters.counted if model.parameters else None,
        "sources": list(model.sources),
        "notes": list(model.notes),
    }


_LINEAR_NAMES = {"gated_delta": "linear", "lightning": "lightning", "mamba": "Mamba",
                 "mamba2": "Mamba 2", "convolution": "convolution"}  # fmt: skip


def _softmax_kind(model: LanguageModel) -> str:
    if model.is_latent:
        return "sparse MLA" if model.is_sparse else "MLA"
    if model.num_key_value_heads == model.num_attention_heads:
        return "MHA"
    return "MQA" if model.num_key_value_heads == 1 else "GQA"
