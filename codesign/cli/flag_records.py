"""Records whose fields are flags: a command takes the record, its user sees a flag a field."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import wraps
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from codesign.cli.flags import token_count
from codesign.cli.output import AsJson

if TYPE_CHECKING:
    from codesign.base.columns import JsonObject


def flag(
    text: str = "", default: Any = None, *names: str, key: str | None = None, **settings: Any
) -> Any:
    """A field of a record that is a flag; its annotation is the type of the flag's value.

    Args:
        text: What ``--help`` says of it. If empty, the class of the flags says in a ``ClassVar``
            ``record``, as ``package.module:Record``, which record says it of the key that the flag
            fills; it is loaded where the help of the flag's own command is shown.
        default: Value of a flag that is left out.
        names: As it is written; ``--like-the-field`` if there are none.
        key: Key that it fills of an evaluator's workload or options, if that is not the field's
            name; empty if it fills none.
        settings: Further arguments of ``typer.Option``, such as ``min`` and ``metavar``.
    """
    metadata = {"names": names, "key": key, "settings": {"help": text, **settings}}
    return field(default=default, metadata=metadata)


def token_flag(text: str, *, key: str | None = None) -> Any:
    """A flag whose value is a number of tokens, such as 4096 or 32K."""
    return flag(text, None, key=key, parser=token_count, metavar="N|32K")


def spread(
    command: Callable[..., None], has_help: bool = True, answers: bool = False
) -> Callable[..., None]:
    """The command with a flag for each field of those parameters that are records of flags.

    The flags stand where the record stood. Fields that :func:`flag` did not make are flags by
    their annotation, as parameters are.

    Args:
        has_help: Whether to load the records that say what options mean.
        answers: Whether the command has ``--json``; see :func:`~.output.reports_only`.
    """
    parameters = []
    records: JsonObject = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            records[parameter.name] = parameter.annotation
            types = get_type_hints(parameter.annotation, include_extras=True)
            parameters += [
                inspect.Parameter(
                    flag_field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty
                    if flag_field.default is MISSING
                    else flag_field.default,
                    annotation=_annotation(
                        parameter.annotation if has_help else None,
                        flag_field,
                        types[flag_field.name],
                    ),
                )
                for flag_field in fields(parameter.annotation)
            ]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    if answers:
        parameters.append(inspect.Parameter(
            "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson
        ))  # fmt: skip

    @wraps(command)
    def flagged_command(**values: Any) -> None:
        for name, record in records.items():
            flags = {flag_field.name: values.pop(flag_field.name) for flag_field in fields(record)}
            values[name] = record(**flags)
        command(**values)

    flagged_command.__dict__["__signature__"] = inspect.Signature(parameters)
    flagged_command.__annotations__ = {}
    return flagged_command


def flag_names(*records: Any) -> dict[str, str]:
    """Flag by the key that it fills, as :func:`~.flags.naming` wants them."""
    return {key: _flag_of(flag_field) for record in records for key, flag_field in _keyed(record)}


def filled_keys(*records: Any) -> JsonObject:
    """Values of the flags that are set, by the key that they fill."""
    return {
        key: value
        for record in records
        for key, flag_field in _keyed(record)
        if (value := getattr(record, flag_field.name)) is not None
    }


def set_flags(record: Any) -> list[str]:
    """The flags of a record that differ from their defaults."""
    return [
        _flag_of(flag_field)
        for flag_field in fields(record)
        if getattr(record, flag_field.name) != flag_field.default
    ]


def _flag_of(flag_field: Field[Any]) -> str:
    """A field's flag as it is written."""
    names = flag_field.metadata.get("names")
    return str(names[0]) if names else f"--{flag_field.name.replace('_', '-')}"


def _keyed(record: Any) -> Iterator[tuple[str, Field[Any]]]:
    for flag_field in fields(record):
        key = flag_field.metadata.get("key")
        if key != "":
            yield key or flag_field.name, flag_field


def _annotation(flags: Any, flag_field: Field[Any], value_type: Any) -> Any:
    if "settings" not in flag_field.metadata:
        return value_type
    settings = dict(flag_field.metadata["settings"])
    if flags is not None and not settings["help"]:
        key = flag_field.metadata["key"] or flag_field.name
        from codesign.base.schema import meanings

        record, names = resolve_name(flags.record), flag_names(flags)
        text = re.sub(r"``(.*?)``", lambda word: names.get(word[1], word[1]), meanings(record)[key])
        default = inspect.signature(record).parameters[key].default
        if default is not None and not isinstance(default, bool):
            text += f" [{default:g}]" if isinstance(default, float) else f" [{default}]"
        settings["help"] = " ".join(text.split())
    return Annotated[value_type, typer.Option(*flag_field.metadata["names"], **settings)]
