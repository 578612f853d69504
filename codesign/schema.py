"""Strict YAML to frozen records: every error names file, line and key, all of a file at once.

PyYAML alone keeps the last of two equal keys, reads ``1e9`` as text and ``on`` as a truth
value; this loader does none of that, and remembers the line of every key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from codesign.errors import InputError, describe_unknown
from codesign.units import parse_quantity

KeyPath: TypeAlias = tuple[str | int, ...]


class Record(BaseModel):
    """A frozen record that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def quantity(unit: str) -> Any:
    """The annotation of a field read from text with a unit, kept as a float in SI units.

    >>> class Disk(Record):
    ...     capacity_bytes: Annotated[float, quantity("GB")]
    """

    def read(value: object) -> float:
        try:
            return parse_quantity(value, unit)
        except InputError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(read)


Fraction: TypeAlias = Annotated[float, quantity("1")]
"""A plain number; ``"75 %"`` is read as 0.75."""


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's scalars: only true/false are truth values, 1e9 is a number."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag.endswith(("null", "merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False)$"), list("tfTF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9][0-9_]*$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
        r"|[0-9][0-9_]*[eE][-+]?[0-9]+)$"
    ),
    list("-+.0123456789"),
)


def _read_int(loader: yaml.SafeLoader, node: ScalarNode) -> int:
    return int(str(loader.construct_scalar(node)).replace("_", ""))


def _read_float(loader: yaml.SafeLoader, node: ScalarNode) -> float:
    return float(str(loader.construct_scalar(node)).replace("_", ""))


_Loader.add_constructor("tag:yaml.org,2002:int", _read_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _read_float)


def _fast_loader() -> type[Any]:
    """The loader over libyaml's parser, 5 times as fast; the plain one if PyYAML lacks it.

    PyYAML's own composer stays: libyaml's recurses without a limit, and a file that nests too
    deeply would end the process.
    """
    if not yaml.__with_libyaml__:
        return _Loader
    from yaml._yaml import CParser

    class _FastLoader(Composer, CParser, SafeConstructor, Resolver):
        yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers
        yaml_constructors = _Loader.yaml_constructors

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

    return _FastLoader


_FastLoader = _fast_loader()


@dataclass(frozen=True)
class Document:
    """What a file said, and on which line it said it.

    Attributes:
        source: The file's name as the user gave it.
        data: Mappings, lists and scalars.
        lines: Line of every key and list item, by its path from the root.
        base: The document that has what this one does not state; see :func:`overlaid`.
    """

    source: str
    data: dict[str, Any]
    lines: dict[KeyPath, int]
    base: Document | None = None

    def where(self, *path: str | int) -> str:
        """``file:line: a.b.c`` of a key; the nearest enclosing line if the key is missing."""
        if self.base is not None and path and path[:2] not in self.lines:
            return self.base.where(*path)
        known_path = path
        while known_path and known_path not in self.lines:
            known_path = known_path[:-1]
        # What was not read from a file, such as words of a command line, has no lines.
        line = f":{self.lines.get(known_path, 1)}" if self.lines else ""
        dotted = ".".join(str(part) for part in path)
        return f"{self.source}{line}: {dotted}" if dotted else f"{self.source}{line}"


def read_document(path: Path | str) -> Document:
    """Read a YAML file whose root is a mapping.

    Raises:
        InputError: The file cannot be read, is not YAML, repeats a key, or has another root.
    """
    return parse_document(*read_text(path))


def read_text(path: Path | str) -> tuple[str, str]:
    """The text of a file, and the file's name for messages.

    Raises:
        InputError: The file cannot be read.
    """
    source = _display_path(Path(path))
    try:
        return Path(path).read_text(encoding="utf-8"), source
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"cannot be read: {reason}", source) from error


def parse_document(text: str, source: str) -> Document:
    """As :func:`read_document`, from text; ``source`` is only for messages."""
    try:
        try:
            data, lines, problems = _load(text, source, _FastLoader)
        except yaml.YAMLError:  # PyYAML's own parser words it alike on every machine
            data, lines, problems = _load(text, source, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(_yaml_problem(error), source) from error
    if problems:
        raise InputError(problems)
    if not isinstance(data, dict):
        kind = "an empty file" if data is None else type(data).__name__
        raise InputError(f"expected keys with values, got {kind}", source)
    return Document(source, data, lines)


def _load(
    text: str, source: str, loader_class: type[Any]
) -> tuple[Any, dict[KeyPath, int], list[str]]:
    """The data of a text, the line of each key, and a problem for each repeated key."""
    loader = loader_class(text)
    try:
        node = loader.get_single_node()
        lines: dict[KeyPath, int] = {}
        problems = _index(node, (), lines, source)
        data = None if problems or node is None else loader.construct_document(node)
    finally:
        loader.dispose()
    return data, lines, problems


def overlaid(document: Document, base: Document) -> Document:
    """The base with what a document states in its place.

    A mapping at the root is taken key by key: a key replaces that of the base, ``null`` takes it
    out. Anything else at the root replaces what the base has there.

    Raises:
        InputError: Keys to be taken out that the base lacks.
    """
    data, problems = dict(base.data), []
    for section, stated in document.data.items():
        inherited = base.data.get(section)
        if not (isinstance(stated, dict) and isinstance(inherited, dict)):
            data[section] = stated
            continue
        removed = [key for key, value in stated.items() if value is None]
        problems += [
            f"{document.where(section, key)}: "
            + describe_unknown(f"key of {section} in {base.source}", key, inherited)
            for key in removed
            if key not in inherited
        ]
        merged = inherited | stated
        data[section] = {key: merged[key] for key in merged if key not in removed}
    if problems:
        raise InputError(problems)
    return replace(document, data=data, base=base)


def _display_path(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"not valid YAML: {reason}" + (f" (line {mark.line + 1})" if mark else "")


def _index(node: Node | None, path: KeyPath, lines: dict[KeyPath, int], source: str) -> list[str]:
    """Fill ``lines``; returns a problem for each repeated or non-text key."""
    problems: list[str] = []
    if isinstance(node, MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = key.value if isinstance(key, ScalarNode) else "?"
            here = (*path, name)
            if not isinstance(key, ScalarNode):
                problems.append(f"{source}:{line}: expected a plain key")
            elif here in lines:
                problems.append(
                    f"{source}:{line}: {name}: the key is given twice (first on line {lines[here]})"
                )
            lines.setdefault(here, line)
            problems += _index(value, here, lines, source)
    elif isinstance(node, SequenceNode):
        for position, item in enumerate(node.value):
            lines[(*path, position)] = item.start_mark.line + 1
            problems += _index(item, (*path, position), lines, source)
    return problems


R = TypeVar("R", bound=BaseModel)


def to_record(document: Document, record: type[R], data: object = None, path: KeyPath = ()) -> R:
    """Validate a document, or the part of it at ``path``, as ``record``.

    Args:
        document: Gives file and lines to the messages.
        record: The pydantic model to build.
        data: The part to validate; the whole document if None.
        path: Where that part stands in the document.

    Raises:
        InputError: With every problem found, each with file, line and key.
    """
    try:
        return record.model_validate(document.data if data is None else data)
    except ValidationError as error:
        errors = error.errors()
        raise InputError(
            [
                _problem(document, record, path, item)
                for item in errors
                if not _follows(item, errors)
            ]
        ) from None


def _follows(problem: Any, errors: Sequence[Any]) -> bool:
    """Whether a list is said to be too short only because its items were refused."""
    path = problem["loc"]
    return problem["type"] == "too_short" and any(
        len(error["loc"]) > len(path) and error["loc"][: len(path)] == path for error in errors
    )


def _problem(document: Document, record: type[BaseModel], path: KeyPath, item: Any) -> str:
    location = tuple(part for part in item["loc"] if _is_written(part))
    where = document.where(*path, *location)
    kind, got = item["type"], item.get("input")
    if kind == "extra_forbidden":
        known = _fields_at(record, location[:-1])
        return f"{where}: {describe_unknown('key', location[-1], known)}"
    if kind == "missing":
        return f"{where}: the key is required"
    message = item["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if kind == "tuple_type":  # as the file has it: YAML knows lists
        message = "expected a list"
    if kind == "too_short":
        least = item["ctx"]["min_length"]
        message = f"expected a list of at least {least}"
    # Pydantic's own sentences name limits, which may look like what was got.
    is_said = "got" in message or (kind == "value_error" and repr(got) in message)
    got_said = is_said or isinstance(got, dict)
    return f"{where}: {message}" + ("" if got_said else f", got {got!r}")


def _is_written(part: str | int) -> bool:
    """Whether a part of pydantic's location is a key of the file and not the name of a type."""
    return isinstance(part, int) or not re.search(r"[\[(]|^function-", part)


def _fields_at(record: type[BaseModel], path: KeyPath) -> list[str]:
    model: Any = record
    for part in path:
        if isinstance(part, int) or model is None:
            continue
        field = _by_alias(model).get(part)
        model = _model_in(field.annotation) if field is not None else model
    return list(_by_alias(model)) if model is not None else []


def _by_alias(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        model = _model_in(argument)
        if model is not None:
            return model
    return None


def checked(check: Callable[[Any], Any]) -> Any:
    """The annotation of a field that ``check`` turns into its value, or refuses by InputError."""

    def read(value: object) -> Any:
        try:
            return check(value)
        except InputError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(read)
