"""Values as JSON knows them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel

from codesign.answers.answer import Answer, Entry
from codesign.base.columns import JsonObject
from codesign.base.text import json_safe


def plain_value(value: Any) -> Any:
    """``value`` with only what JSON has: NaN and infinity become None, arrays become lists."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, np.generic | np.ndarray):
        return plain_value(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Entry):
        return {
            field.alias or name: plain_value(getattr(value, name))
            for name, field in type(value).model_fields.items()
            if field.is_required() or name in value.model_fields_set
        }
    if isinstance(value, BaseModel):
        return plain_value({name: getattr(value, name) for name in type(value).model_fields})
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_value(element) for key, element in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        elements = sorted(value) if isinstance(value, set | frozenset) else value
        return [plain_value(element) for element in elements]
    return str(value)


def stamped(answer: Answer) -> JsonObject:
    """The document of an answer: its schema and the version of codesign, then its keys."""
    import codesign

    stamp = {"schema": answer.schema_label(), "codesign_version": codesign.__version__}
    return {**stamp, **plain_value(answer)}


def json_text(value: Any, indent: int | None = 2) -> str:
    """One JSON document; numbers keep every digit, so reading gives the same float.

    Text is as it is but for what a terminal obeys, which is written as ``\\u009b``.
    """
    text = json.dumps(plain_value(value), indent=indent, ensure_ascii=False, allow_nan=False)
    return json_safe(text)
