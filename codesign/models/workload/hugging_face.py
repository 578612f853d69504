"""Hugging Face's ``config.json`` as a :class:`LanguageModel`.

Each key of a file is read, known to be inert, or refused by its name: ``families.yaml`` lists
them. If a file nests a language model, such as in ``text_config``, only that part is read. A row
of that table states how to read a ``model_type``. A type without a row is read by its shapes, if
they suffice.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from codesign.base.columns import (
    Fields,
    IntegerPair,
    JsonObject,
    StringList,
    StringPair,
    Strings,
    StringTuple,
)
from codesign.base.errors import InputError, describe_unknown
from codesign.base.records import drop_none, select_keys
from codesign.base.schema import Document, parse_record
from codesign.models.workload.computed_keys import named, shape_keys
from codesign.models.workload.families import CORE, FIRST_WINDOW_LAYER, Family, family_table
from codesign.models.workload.model import MOST_LAYERS, UNQUANTIZED_PARTS, LanguageModel

_QUANTIZED = ("quantization", "compression_config")
"""Beginnings of the keys that describe a quantized checkpoint: ``quantization_config``, MLX's
``quantization``, ChatGLM's ``quantization_bit``."""
_TIED = "tie_word_embeddings"
_FORMAT_KEYS = ("quant_method", "quant_algo", "fmt", "format", "_type", "type", "dtype", "weights",
                "bits", "num_bits", "nbits", "w_bit", "nbits_per_codebook", "load_in_4bit",
                "load_in_8bit", "bnb_4bit_quant_type", "forward_dtype", "expert_dtype",
                "kv_cache_quant_algo")  # fmt: skip
"""Keys that name a format in a description of a quantized checkpoint, at any depth of it."""
_UNQUANTIZED_LISTS = (
    "modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules"
)  # fmt: skip
"""Keys with the modules that a checkpoint leaves as they are: of AWQ, FP8 and MXFP4,
compressed-tensors, fbgemm, ModelOpt, bitsandbytes."""
_MODULE_PARTS = {
    "lm_head": "lm_head|output_layer", "embedding": "embed", "shared_experts": "shared_expert",
    "router": r"router|\bgate\b", "experts": "experts", "linear_attention": "linear_attn|mamba|ssm",
    "attention": r"attn|attention|[qkvo]_proj", "mlp": "mlp|feed_forward|(gate|up|down)_proj",
}  # fmt: skip
"""Words of the names of modules by part of a model; the first that fits counts."""


def is_config(document: Document) -> bool:
    """Whether a file is a model's configuration; those of ``mamba_ssm`` have no type."""
    return "model_type" in document.data or "ssm_cfg" in document.data


def config_model(document: Document, name: str) -> LanguageModel:
    """The model that a ``config.json`` describes.

    Raises:
        InputError: An architecture that is not modeled, a missing key, or a value that makes
            no sense; all that were found.
    """
    numbers: Any = _integers(document.data)
    document = _merge_layers(_language_part(replace(document, data=numbers)))
    stated = family_table().canonical(document.data)
    model_type = document.data.get("model_type")
    if "model_type" not in stated and "ssm_cfg" in stated:
        model_type = "mamba_ssm"
    family, notes = _family(document, stated, str(model_type))
    config = {**family_table().canonical(family.defaults), **stated}
    problems = _problems(document, str(model_type), family, config)
    problems += _unread_keys(document, repr(str(model_type)), family)
    if problems:
        raise InputError([*problems, *_further_problems(document, config, problems)])
    read = select_keys(config, (*family.keys, *family.required))
    try:
        derived = family.computed(config)
    except KeyError as error:
        raise InputError("the key is required", document.where(str(error.args[0]))) from None
    except (TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise InputError(f"the keys of the layers do not fit: {error}", document.source) from None
    values = _complete(document, config, family, drop_none(read | derived)) | {
        "name": name,
        "notes": (*notes, *family.notes, *_precision_notes(document)),
    }
    values |= _block_size(document) | _unquantized_parts(document)
    names = ("published_format", "published_activation_format")
    values |= dict(zip(names, _published_formats(document), strict=False))
    if longest := _context_tokens(document.data):
        values["context_tokens"] = longest
    values = {key: value for key, value in values.items() if key in LanguageModel.model_fields}
    return parse_record(replace(document, lines=_lines(document)), LanguageModel, values)


def _context_tokens(config: Fields) -> int:
    """Longest sequence in tokens, with YaRN's scaling; 0 if not stated."""
    stated = config.get("max_position_embeddings")
    longest = stated if isinstance(stated, int) else 0
    scaling = config.get("rope_scaling")
    if isinstance(scaling, dict) and (scaling.get("rope_type") or scaling.get("type")) == "yarn":
        native = scaling.get("original_max_position_embeddings")
        factor = scaling.get("factor")
        if isinstance(native, int) and isinstance(factor, int | float):
            longest = max(longest, int(native * factor))
    return max(longest, 0)


def _integers(value: Any) -> Any:
    """Whole numbers that a file writes as 4096.0 or "4096" as whole numbers."""
    if isinstance(value, dict):
        return {str(key): _integers(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_integers(element) for element in value]
    is_number = isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?([eE]\+?\d+)?", value)
    number = float(value) if is_number else value
    return int(number) if isinstance(number, float) and number.is_integer() else value


def _merge_layers(document: Document) -> Document:
    """A number that a file repeats for every layer is that number; those that differ stay."""
    data = dict(document.data)
    table = family_table()
    layers = table.canonical(data).get("num_hidden_layers")
    for key in (name for number in table.numbers for name in table.aliases.get(number, (number,))):
        values = data.get(key)
        if isinstance(values, list) and len(values) == layers and len(set(map(str, values))) == 1:
            data[key] = values[0]
    return replace(document, data=data)


def _language_part(document: Document) -> Document:
    """The language model in a file of several models, with its lines in that file."""
    data = document.data
    table = family_table()
    model_type = str(data.get("model_type"))
    if _has_encoder(model_type, data):
        return document
    key = next((key for key in table.nested_parts if isinstance(data.get(key), dict)), None)
    if key is None or ("hidden_size" in table.canonical(data) and model_type in table.families):
        if model_type in table.nested_types and model_type not in table.families:
            got = data.get(table.nested_parts[0])
            problem = f"expected the keys of the language model of {model_type!r}, got {got!r}"
            raise InputError(problem, document.where(table.nested_parts[0]))
        return document
    lines = dict(document.lines)
    lines |= {path[1:]: line for path, line in document.lines.items() if path[:1] == (key,)}
    # Transformers 5 ties the embeddings by the outer key, and writes it; before, the part decided.
    is_new = str(data.get("transformers_version")).startswith("5.")
    decisive = (*_QUANTIZED, _TIED, "transformers_version") if is_new else _QUANTIZED
    outer = {name: data[name] for name in drop_none(data) if name.startswith(decisive)}
    nested = {"model_type": table.nested_types.get(model_type, model_type), **data[key]}
    nested[_TIED] = table.canonical(nested).get(_TIED, data.get(_TIED))
    return _language_part(replace(document, data=nested | outer, lines=lines))


def _family(document: Document, stated: Fields, model_type: str) -> tuple[Family, StringTuple]:
    """The row of a type; of a type without one that of shapes, with a note that says so."""
    config = document.data
    where = document.where("model_type")
    table = family_table()
    if _has_encoder(model_type, config):
        problem = (
            f"expected a decoder-only language model, got {model_type!r}, which has an encoder"
        )
        raise InputError(problem, where)
    if model_type in table.families:
        return table.families[model_type], ()
    reason = table.alien_types.get(model_type)
    for subject, keys in table.alien_keys.items():
        alien = next((key for key in keys if config.get(key)), None)
        if alien and reason is None:
            reason = f"{alien} is not modeled ({subject})"
    missing = [key for key in CORE if key not in stated]
    if not {"intermediate_size", "moe_intermediate_size"} & stated.keys():
        missing.append("intermediate_size")
    if reason is not None:
        problem = f"model_type {model_type!r} is not known, and its shapes do not suffice: {reason}"
        raise InputError(problem, where)
    if missing:
        problem = describe_unknown("model_type", model_type, table.known_types())
        raise InputError(f"{problem} Its shapes do not suffice: {missing[0]} is missing.", where)
    # Files that Transformers 4 wrote leave out what is true of every class that says nothing else.
    is_tied = bool(stated.get("tie_word_embeddings", "transformers_version" in config))
    family = table.templates["by-shape"].model_copy(
        update={"defaults": {"tie_word_embeddings": is_tied}}
    )
    unread = _unread_keys(
        document, f"{model_type!r} is not known, and its shapes do not suffice", family
    )
    if unread:
        raise InputError(unread)
    return family, (_assumptions(model_type, stated, is_tied=is_tied),)


def _unread_keys(document: Document, subject: str, family: Family) -> StringList:
    """A line about keys that are neither read, nor empty, nor known to be inert, if any."""
    table = family_table()
    stated = dict(document.data)
    readable = table.readable(family)
    if isinstance(stated.get("moe_layer_freq"), list) or stated.get("moe_layer_freq") == 1:
        readable.add("moe_layer_freq")
    for parent in {name.partition(".")[0] for name in readable if "." in name}:
        nested = stated.pop(parent, None)
        for key in nested if isinstance(nested, dict) else ():
            stated[f"{parent}.{key}"] = nested[key]
    inert = re.compile("|".join((*table.inert_keys, *family.inert)))
    unread = [
        key for key in stated if stated[key] and key not in readable and not inert.fullmatch(key)
    ]
    if not unread:
        return []
    close = difflib.get_close_matches(unread[0], readable, 1, 0.8)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    where = document.where(unread[0].partition(".")[0])
    return [f"{where}: model_type {subject}: got {', '.join(unread)}, which would be ignored{hint}"]


def _has_encoder(model_type: str, config: Fields) -> bool:
    """Whether a file is that of an encoder, or of a model that has one for its text."""
    names = str(config.get("architectures"))
    is_encoder = config.get("is_encoder_decoder") or "type_vocab_size" in config
    return bool(model_type in family_table().encoders or is_encoder or "ForMaskedLM" in names)


def _assumptions(model_type: str, config: Fields, *, is_tied: bool) -> str:
    gated = "gated" if shape_keys(config)["is_gated"] else "ungated"
    words = [f"{gated} MLPs", "RMS norms", "rotary positions"]
    if config.get("sliding_window") and "layer_types" not in config:
        words.append("a sliding window in every layer")
    if "head_dim" not in config and "kv_lora_rank" not in config:
        words.insert(0, "heads as wide together as the model")
    listed = ", ".join(words)
    tied = "tied" if is_tied else "untied"
    return (
        f"model_type {model_type!r} is not known: read by its shapes, with {listed} and {tied} "
        "embeddings"
    )


def _precision_notes(document: Document) -> StringList:
    """A quantized checkpoint's formats, which the command states and the file does not."""
    keys = (key for key, value in document.data.items() if key.startswith(_QUANTIZED) and value)
    key = next(keys, None)
    if key is None:
        return []
    quantized = document.data[key]
    is_described = isinstance(quantized, dict)
    stated = dict(_format_words(quantized) if is_described else {str(quantized): "quant_method"})
    words = sorted(stated, key=lambda word: _FORMAT_KEYS.index(stated[word]))
    formats = _published_formats(document)
    pairs = zip(("weights", "activations"), formats, strict=False)
    listed = " and ".join(map(" in ".join, pairs))
    note = f"{key} ({' '.join(words) or 'no method'}) "
    note += (
        f"sets the formats of {listed} where a command states none; designs state their own"
        if formats
        else "does not set the formats of weights and cache: they are those that the command or "
        "the design states"
    )
    blocks = _block_size(document).get("weight_block_size")
    if blocks:
        note += f"; 8-bit weights have its scales, for {blocks[0]} x {blocks[1]}"
    return [note]


def _format_words(quantized: Fields) -> Iterator[StringPair]:
    """Words that name a format of weights, each with the key that it was read of."""
    for key, stated in quantized.items():
        if isinstance(stated, dict) and "activation" not in key and key != "kv_cache_scheme":
            yield from _format_words(stated)
        elif key in _FORMAT_KEYS and stated not in (None, False):
            yield key if stated is True else str(stated), key


_ALGORITHMS = {
    "mxfp4": ("mxfp4",), "fp8": ("fp8", "fp8"), "fbgemm_fp8": ("fp8", "fp8"),
    "nvfp4": ("nvfp4", "nvfp4"), "w4a16_awq": ("int4",),
}  # fmt: skip
"""Formats of weights and, if not 16 bits, of activations, by method or algorithm."""
_INTEGER_METHODS = ("awq", "gptq", "gptqmodel", "auto-round", None)
"""Methods that state bits of integer weights; MLX names none."""


def _published_formats(document: Document) -> StringTuple:
    """Formats of weights and activations that a checkpoint states; none if they differ by layer."""
    data = document.data
    match data.get("quantization_config") or data.get("quantization"):
        case {"config_groups": {**groups}}:
            every = {
                (_scheme_format(group.get("weights")), _scheme_format(group.get(_INPUTS)))
                for group in groups.values()
                if isinstance(group, dict)
            }
            if len(every) == 1:
                weights, activations = every.pop()
                return tuple(filter(None, (weights, weights and activations)))
        case {"expert_dtype": _}:
            pass
        case {"bits": 4 | 8 as bits, **others} if others.get("quant_method") in _INTEGER_METHODS:
            return (f"int{bits}",)
        case {"quant_algo": str(name)} | {"quant_method": str(name)}:
            return _ALGORITHMS.get(name.lower(), ())
    return ()


_INPUTS = "input_activations"


def _scheme_format(scheme: Any) -> str | None:
    """Format of a scheme of compressed-tensors or ModelOpt; None for 16 bits or another."""
    match scheme:
        case {"type": "float", "num_bits": 8}:
            return "fp8"
        case {"type": "float", "num_bits": 4, "group_size": 16 | 32 as size}:
            return "nvfp4" if size == 16 else "mxfp4"
        case {"type": "int", "num_bits": 4 | 8 as bits}:
            return f"int{bits}"
    return None


def _block_size(document: Document) -> dict[str, IntegerPair]:
    """Rows and columns of 8-bit weights that share a scale, where a checkpoint states them."""
    quantized = document.data.get("quantization_config")
    size = quantized.get("weight_block_size") if isinstance(quantized, dict) else None
    match size:
        case [int(rows), int(columns)] if min(rows, columns) > 0:
            return {"weight_block_size": (rows, columns)}
    return {}


def _unquantized_parts(document: Document) -> dict[str, StringTuple]:
    """Parts that a quantized checkpoint lists as left in 16 bits, besides those that all leave so.

    A list that names layers by number leaves a part so if it names half of them or more.
    """
    quantized = document.data.get("quantization_config")
    if not isinstance(quantized, dict):
        return {}
    listed = [quantized.get(key) for key in _UNQUANTIZED_LISTS]
    modules = [str(name) for names in listed if isinstance(names, list) for name in names]
    count = document.data.get("num_hidden_layers")
    every = range(count if isinstance(count, int) else 1)
    layers: dict[str, set[int]] = {}
    for module in modules:
        words = _MODULE_PARTS.items()
        weights = next((name for name, word in words if re.search(word, module)), "")
        numbers = [int(number) for number in re.findall(r"\.(\d+)\.", module)[:1]]
        layers.setdefault(weights, set()).update(numbers or every)
    listed_names = [x for x in _MODULE_PARTS if 2 * len(layers.get(x, ())) >= len(every)]
    is_head_listed = quantized.get("quant_method") == "compressed-tensors"
    is_head_quantized = quantized.get("lm_head") or (
        is_head_listed and "lm_head" not in listed_names
    )
    names = dict.fromkeys((*UNQUANTIZED_PARTS, *listed_names))
    return {"unquantized_parts": tuple(x for x in names if x != "lm_head" or not is_head_quantized)}


def _problems(document: Document, model_type: str, family: Family, config: Fields) -> StringList:
    problems = []
    for key in family.required:
        if key not in config:
            first, *others = family_table().aliases.get(key, (key,))
            more = f" (or {', '.join(others)})" if others else ""
            problems.append(
                f"{document.where(first)}: the key is required for model_type {model_type!r}{more}"
            )
    problems += _count_problems(document, config)
    is_windowed = family.window_key and config.get(family.window_key)
    if is_windowed and "sliding_window" not in document.data:
        problem = f"the key is required, since {family.window_key} is given"
        problems.append(f"{document.where('sliding_window')}: {problem}")
    for key, allowed in family.expected.items():
        stated = named(document.data, [key, None])
        if stated is not None and stated not in allowed:
            choices = " or ".join(str(value) for value in allowed if value is not None)
            problems.append(
                f"{document.where(key)}: expected {choices or 'none'} (others are not modeled), "
                f"got {stated!r}"
            )
    return problems


def _count_problems(document: Document, config: Fields) -> StringList:
    """Numbers from which lists of layers are made, and by which others are divided."""
    problems = []
    for key in CORE:
        value = config.get(key)
        name = next(name for name in family_table().aliases[key] if name in {**config, key: value})
        most = MOST_LAYERS if key == "num_hidden_layers" else None
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            problems.append(f"{document.where(name)}: expected a valid integer, got {value!r}")
        elif most and value is not None and value > most:
            problems.append(f"{document.where(name)}: expected at most {most} layers, got {value}")
    return problems


def _further_problems(document: Document, config: Fields, problems: Strings) -> Iterator[str]:
    """Mistakes of stated keys that have no problem yet."""
    values = {key: x for key, x in config.items() if key in LanguageModel.model_fields}
    try:
        parse_record(replace(document, lines=_lines(document)), LanguageModel, values)
    except InputError as error:
        for mistake in error.mistakes:
            key = f"{mistake.place}: {'.'.join(map(str, mistake.key))}:"
            if not mistake.is_missing and not any(x.startswith(key) for x in problems):
                yield str(mistake)


def _lines(document: Document) -> dict[Any, int]:
    """Lines of the file, so that errors about our key point to that of the file's own."""
    lines = dict(document.lines)
    for ours, names in family_table().aliases.items():
        name = next((name for name in names if document.data.get(name) is not None), None)
        if name is not None:
            lines[(ours,)] = document.lines.get((name,), 1)
    return lines


def _complete(document: Document, config: Fields, family: Family, values: JsonObject) -> JsonObject:
    """Our spellings, and what follows from other keys."""
    spelling = str(values.get("hidden_act", "silu"))
    table = family_table()
    if spelling not in table.activations:
        problem = describe_unknown("activation", spelling, table.activations)
        names = [name for name in table.aliases["hidden_act"] if name in document.data]
        raise InputError(problem, document.where(*names[:1]))
    completed = values | {"hidden_act": table.activations[spelling]}
    if "kv_lora_rank" not in completed:
        completed.pop("v_head_dim", None)
        completed["value_head_dim"] = config.get("v_head_dim")
    completed.setdefault("attention_output_bias", completed.get("attention_bias", False))
    for key in ("layer_types", "mlp_layer_types"):
        if isinstance(completed.get(key), str):
            completed[key] = [completed[key]] * completed["num_hidden_layers"]
    kinds = completed.get("layer_types")
    if isinstance(kinds, list):
        kinds = [table.layer_kinds.get(str(layer_type), layer_type) for layer_type in kinds]
        completed["layer_types"] = kinds
    if "linear_num_value_heads" in completed:  # in a model without attention, nothing else counts
        completed.setdefault("num_attention_heads", completed["linear_num_value_heads"])
    if "linear_attention" not in (kinds or ()):
        unused = {key for key in completed if key.startswith(("linear_", "time_step_"))}
        completed = {key: completed[key] for key in completed if key not in unused - {*family.keys}}
    return completed | _windows(config, family, completed)


def _windows(config: Fields, family: Family, values: Fields) -> JsonObject:
    """Kinds of attention by layer and their window, as Transformers' configurations fill them."""
    window = values.get("sliding_window")
    kinds = values.get("layer_types")
    if family.window_key is not None and not config.get(family.window_key):
        window = None
    if kinds is not None:
        is_used = not isinstance(kinds, list) or "sliding_attention" in kinds
        return {"sliding_window": window if is_used else None, "full_attention_interval": None}
    layers = values["num_hidden_layers"]
    first = 0
    if family.first_window_key is not None:
        first = config.get(family.first_window_key, FIRST_WINDOW_LAYER)
    if window is None or not (isinstance(layers, int) and isinstance(first, int)) or first == 0:
        return {"sliding_window": window}
    if first >= layers:
        return {"sliding_window": None}
    return {"layer_types": ["full_attention"] * first + ["sliding_attention"] * (layers - first)}
