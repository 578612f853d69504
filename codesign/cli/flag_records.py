"""Records whose fields are flags: a command takes the record, its user sees a flag a field."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, field, fields, is_dataclass
from functools import wraps
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, get_origin

import typer

from codesign.cli.flags import token_count
from codesign.cli.output import AsJson

if TYPE_CHECKING:
    from codesign.base.columns import JsonObject, StringDict, StringList


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

    The flags stand where the record stood; a record may hold further ones. Fields that :func:`flag`
    did not make are flags by their annotation, as parameters are. A parameter whose annotation is
    a plain type is an argument without a default and a flag with one, and the section ``Args`` of
    the command's docstring is its help.

    Args:
        has_help: Whether to load the records that say what options mean.
        answers: Whether the command has ``--json``; see :func:`~.output.reports_only`.
    """
    parameters = list(_flags_of(command, has_help))
    if answers:
        parameters.append(inspect.Parameter(
            "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson
        ))  # fmt: skip

    @wraps(command)
    def flagged_command(**values: Any) -> None:
        _called(command, values)

    flagged_command.__doc__ = command_help(command)
    flagged_command.__dict__["__signature__"] = inspect.Signature(parameters)
    flagged_command.__annotations__ = {}
    return flagged_command


def command_help(command: Callable[..., None]) -> str:
    """The docstring of a command without the help of its flags."""
    return (inspect.getdoc(command) or "").partition("\n\nArgs:")[0]


def _flags_of(owner: Any, has_help: bool) -> Iterator[inspect.Parameter]:
    """A flag for each parameter of a command, and for each field of a record."""
    for parameter in _parameters(owner):
        if is_dataclass(parameter.annotation):
            yield from _flags_of(parameter.annotation, has_help)
        else:
            yield parameter.replace(
                kind=inspect.Parameter.KEYWORD_ONLY,
                annotation=_annotation(owner, parameter, has_help),
            )


def _called(owner: Any, values: JsonObject) -> Any:
    """Call a command or a record; its flags are taken out of the values."""
    return owner(**{
        parameter.name: _called(parameter.annotation, values)
        if is_dataclass(parameter.annotation)
        else values.pop(parameter.name)
        for parameter in _parameters(owner)
    })  # fmt: skip


def _parameters(owner: Any) -> Iterable[inspect.Parameter]:
    return inspect.signature(owner, eval_str=True).parameters.values()


def flag_names(*records: Any) -> StringDict:
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


def set_flags(record: Any) -> StringList:
    """The flags of a record that differ from their defaults."""
    return [
        _flag_of(flag_field)
        for flag_field in fields(record)
        if getattr(record, flag_field.name) != flag_field.default
    ]


def _flag_of(flag_field: Field[Any]) -> str:
    """A field's flag as it is written."""
    names = flag_field.metadata.get("names")
    return str(names[0]) if names else f"--{flag_field.name.rstrip('_').replace('_', '-')}"


def _keyed(record: Any) -> Iterator[tuple[str, Field[Any]]]:
    for flag_field in fields(record):
        key = flag_field.metadata.get("key")
        if key != "":
            yield key or flag_field.name, flag_field


def _annotation(owner: Any, parameter: inspect.Parameter, has_help: bool) -> Any:
    """The type of a flag with what :func:`flag` says of it."""
    flag_field = getattr(owner, "__dataclass_fields__", {}).get(parameter.name)
    if flag_field is None or "settings" not in flag_field.metadata:
        if get_origin(parameter.annotation) is Annotated:
            return parameter.annotation
        section = (inspect.getdoc(owner) or "").partition("\nArgs:")[2]
        entry = re.search(rf"^    {parameter.name}: (.*(?:\n {{5}}.*)*)", section, re.MULTILINE)
        words = " ".join(entry[1].split()) if entry else ""
        if parameter.default is parameter.empty:
            return Annotated[parameter.annotation, typer.Argument(help=words)]
        name = f"--{parameter.name.replace('_', '-')}"
        return Annotated[parameter.annotation, typer.Option(name, help=words)]
    settings = dict(flag_field.metadata["settings"])
    if has_help and not settings["help"]:
        key = flag_field.metadata["key"] or flag_field.name
        from codesign.base.schema import meanings

        record = resolve_name(owner.record)
        names = flag_names(owner)
        text = re.sub(r"``(.*?)``", lambda word: names.get(word[1], word[1]), meanings(record)[key])
        default = inspect.signature(record).parameters[key].default
        if default is not None and not isinstance(default, bool):
            text += f" [{default:g}]" if isinstance(default, float) else f" [{default}]"
        settings["help"] = " ".join(text.split())
    return Annotated[parameter.annotation, typer.Option(*flag_field.metadata["names"], **settings)]
