"""Strict YAML to frozen records: every error names file, line and key, all of a file at once.

PyYAML alone keeps the last of two equal keys, reads ``1e9`` as text and ``on`` as a truth
value; this loader does none of that, and remembers the line of every key.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from yaml.composer import Composer
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from codesign.base.columns import JsonObject, StringDict, StringMap, StringTuple
from codesign.base.errors import (
    ContradictionsError,
    InputError,
    KeyedValueError,
    Mistake,
    describe_unknown,
    reraised_as_value_error,
)
from codesign.base.records import frozen
from codesign.base.text import CONTROL, one_line, shown_path
from codesign.base.units import parse_quantity

KeyPath = tuple[str | int, ...]

MOST_NODES = 100_000
"""Keys, values and items that a file may have, each as often as aliases repeat it. A file of
designs may have ten times as many."""
_NODES = "keys, values and items"
_MOST_LEVELS = 64
_MOST_BYTES_PER_NODE = 100
_MOST_FALLBACK_CHARACTERS = 50_000
"""A longer text is not read a second time by the slow parser for the wording of its mistake."""
_MOST_PROBLEMS = 50
_LARGEST_INTEGER = 2**63 - 1
_LONGEST_GOT = 80
"""Characters of a value that an error repeats."""
_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n      .*)*)", re.MULTILINE)
"""A line of the section ``Attributes`` of a docstring."""


class Record(BaseModel):
    """A frozen record that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
    other_words: ClassVar[StringMap] = {}
    """Keys that people write who mean one of the record's: it is offered to them."""

    def check_fields(self) -> Iterable[KeyedValueError] | None:
        """Return an error for each contradiction of fields, or raise a ValueError for one."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if errors := list(self.check_fields() or ()):
            raise ContradictionsError(*errors)
        return self


@cache
def meanings(record: type) -> StringDict:
    """Text of each field, from below it or from ``Attributes``; base classes first."""
    texts: StringDict = {}
    for base in reversed(record.__mro__):
        if base in (object, dict, BaseModel, Record):
            continue
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("Attributes:")
        texts |= dict(_ATTRIBUTE.findall(attributes))
        for field, text in pairwise(_classes(base.__module__)[base.__name__].body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                texts[ast.unparse(field.target)] = str(ast.literal_eval(text.value))
    return texts


@cache
def _classes(module: str) -> dict[str, Any]:
    # Python's own search for the source of a class parses its module each time.
    return {
        node.name: node
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
        if isinstance(node, ast.ClassDef)
    }


def quantity(unit: str) -> Any:
    """The annotation of a field read from text with a unit, kept as a float in SI units.

    >>> class Disk(Record):
    ...     capacity_bytes: Annotated[float, quantity("GB")]
    """

    def read(value: object) -> float:
        with reraised_as_value_error():
            return parse_quantity(value, unit)

    return BeforeValidator(read)


def unstored_at(default: object) -> Any:
    """The annotation of a field that a dump leaves out at its default.

    So what was stored or published before the field existed stays of the same definition.

    >>> class Disk(Record):
    ...     spare: Annotated[int, unstored_at(0)] = 0
    >>> Disk().model_dump(), Disk(spare=1).model_dump()
    ({}, {'spare': 1})
    """
    return Field(exclude_if=lambda value: value == default)


def one_of(*words: str) -> Any:
    """The annotation of a field that is one of some words; the nearest is offered."""

    def read(value: object) -> object:
        if value not in words:
            raise ValueError(describe_unknown("choice", value, words))
        return value

    return BeforeValidator(read)


Fraction = Annotated[float, quantity("1")]
"""A plain number; ``"75 %"`` is read as 0.75."""


_COUNT = re.compile(r"(\d{1,12})\s*(k|K|Ki|Mi)")
_MULTIPLES = {"k": 1000, "K": 1024, "Ki": 1024, "Mi": 1024**2}


def read_count(value: object) -> object:
    """A whole number written short, as model cards do: ``32K`` is 32,768 and ``32k`` 32,000.

    >>> read_count("32K")
    32768
    """
    match = _COUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    return int(match[1]) * _MULTIPLES[match[2]] if match else value


Positive = Annotated[int, BeforeValidator(read_count), Field(ge=1, le=10**9, strict=True)]
"""A whole number from 1; see :func:`read_count`. More than 1e9 of anything is a slip."""
Natural = Annotated[int, BeforeValidator(read_count), Field(ge=0, le=10**9, strict=True)]
"""A whole number from 0."""
Share = Annotated[Fraction, Field(gt=0, le=1)]
"""A share above 0; ``"75 %"`` is read as 0.75."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveAmount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, quantity("s"), Field(ge=0)]
Latency = Annotated[float, quantity("us"), Field(ge=0)]
Bandwidth = Annotated[float, quantity("GB/s"), Field(gt=0)]


class _Counting(Composer):
    """A composer that stops at a number of nodes, before they fill the memory."""

    most_nodes = MOST_NODES
    n_nodes = 0
    depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self.n_nodes += 1
        if self.n_nodes > self.most_nodes:
            raise _TooLargeError(f"expected at most {self.most_nodes:,} {_NODES}, got more")
        if self.depth >= _MOST_LEVELS:
            raise _TooLargeError(f"expected at most {_MOST_LEVELS} levels of nesting, got more")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _TooLargeError(Exception):
    """More nodes than a file may have, or more of them inside one another."""


class _Loader(_Counting, yaml.SafeLoader):
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
    text = str(loader.construct_scalar(node)).replace("_", "")
    # The length first: Python refuses, in words of its own, to read thousands of digits.
    if len(text.lstrip("+-0")) <= 19 and abs(value := int(text)) <= _LARGEST_INTEGER:
        return value
    problem = f"expected a whole number up to {_LARGEST_INTEGER}, got {text[:40]}"
    raise ConstructorError(None, None, problem, node.start_mark)


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

    class _FastLoader(_Counting, CParser, SafeConstructor, Resolver):
        yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers
        yaml_constructors = _Loader.yaml_constructors

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

    return _FastLoader


_FastLoader = _fast_loader()


@frozen
class Document:
    """Content of a file, with the line of every key.

    Attributes:
        source: The file's name as the user gave it.
        data: Mappings, lists and scalars.
        lines: Line of every key and list item, by its path from the root.
        base: The document that has what this one does not state; see :func:`overlaid`.
    """

    source: str
    data: JsonObject
    lines: dict[KeyPath, int]
    base: Document | None = None

    def origin(self, path: KeyPath) -> tuple[Document, KeyPath]:
        """The document that a key comes from, and its path there."""
        if self.base is not None and path and path[:2] not in self.lines:
            return self.base.origin(path)
        return self, path

    def mistake(self, message: str, path: KeyPath) -> Mistake:
        """A mistake about a key, at its line; the nearest enclosing line if it is missing."""
        document, key = self.origin(path)
        known_path = key
        while known_path and known_path not in document.lines:
            known_path = known_path[:-1]
        # What was not read from a file, such as words of a command line, has no lines.
        line = f":{document.lines.get(known_path, 1)}" if document.lines else ""
        return Mistake(message, key, f"{document.source}{line}")

    def where(self, *path: str | int) -> str:
        """``file:line: a.b.c`` of a key; the nearest enclosing line if the key is missing."""
        return str(self.mistake("", path))


def read_document(path: Path | str, most_nodes: int = MOST_NODES) -> Document:
    """Read a YAML file whose root is a mapping.

    Args:
        most_nodes: Keys, values and items that it may have.

    Raises:
        InputError: The file cannot be read, is too large, is not YAML, repeats a key, or has
            another root.
    """
    return parse_document(*read_text(path, most_nodes), most_nodes)


def read_text(path: Path | str, most_nodes: int = MOST_NODES) -> tuple[str, str]:
    """The text of a file, and the file's name for messages.

    Raises:
        InputError: The file cannot be read, or is far longer than ``most_nodes`` nodes are.
    """
    path = Path(path)
    source = one_line(shown_path(path))
    most_bytes = most_nodes * _MOST_BYTES_PER_NODE
    try:
        with path.open("rb") as file:  # not its size first: a pipe has none
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise InputError(f"expected at most {most_bytes:,} bytes, got more", source)
        return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read(), source
    except (OSError, ValueError) as error:  # a null byte in a path is a ValueError
        is_coded = isinstance(error, UnicodeDecodeError)
        reason = "not UTF-8 text" if is_coded else getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {reason}", source) from error


def parse_document(text: str, source: str, most_nodes: int = MOST_NODES) -> Document:
    """Read a document from text, like :func:`read_document`; ``source`` is only for messages."""
    try:
        try:
            data, lines, problems = _load(text, source, _FastLoader, most_nodes)
        except yaml.YAMLError:  # PyYAML's own parser words it alike on every machine
            if len(text) > _MOST_FALLBACK_CHARACTERS:
                raise
            data, lines, problems = _load(text, source, _Loader, most_nodes)
    except _TooLargeError as error:
        raise InputError(str(error), source) from None
    except Exception as error:  # tags of YAML call constructors that raise anything
        raise InputError(_yaml_problem(error), source) from error
    if problems:
        raise InputError(problems)
    if not isinstance(data, dict):
        root = "an empty file" if data is None else repr(data)[:_LONGEST_GOT]
        raise InputError(f"expected keys with values, got {root}", source)
    return Document(source, data, lines)


def _load(
    text: str, source: str, loader_class: type[Any], most_nodes: int = MOST_NODES
) -> tuple[Any, dict[KeyPath, int], list[str]]:
    """The data of a text, the line of each key, and a problem for each repeated key."""
    loader = loader_class(text)
    loader.most_nodes = most_nodes
    try:
        node = loader.get_single_node()
        index = _Index(source, most_nodes)
        index.add(node, ())
        problems = index.problems
        data = None if problems or node is None else loader.construct_document(node)
    finally:
        loader.dispose()
    return data, index.lines, problems


def overlaid(document: Document, base: Document) -> Document:
    """The base with what a document states in its place.

    A mapping at the root is taken key by key: a key replaces that of the base, ``null`` takes it
    out. Anything else at the root replaces what the base has there.

    Raises:
        InputError: Keys to be taken out that the base lacks.
    """
    data = dict(base.data)
    problems = []
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


def _yaml_problem(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "not valid YAML: it repeats itself by an alias"
    mark = getattr(error, "problem_mark", None)
    lines = str(error).splitlines() or [type(error).__name__]
    reason = getattr(error, "problem", None) or lines[0]
    return f"not valid YAML: {reason}" + (f" (line {mark.line + 1})" if mark else "")


class _Index:
    """The line of every key and item of a document, and what its nodes may not have.

    What an alias repeats counts each time, so that a few lines cannot stand for 1e9 values.
    """

    def __init__(self, source: str, most_nodes: int) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[str] = []
        self._source = source
        self._most_nodes = most_nodes
        self._n_nodes = 0

    def add(self, node: Node | None, path: KeyPath) -> None:
        """Take in a node that stands at ``path``, and all below it.

        Raises:
            _TooLargeError: More nodes than a file may have.
        """
        self._n_nodes += 1
        if self._n_nodes > self._most_nodes:
            raise _TooLargeError(f"expected at most {self._most_nodes:,} {_NODES}, got more")
        if isinstance(node, MappingNode):
            for key, value in node.value:
                self._add_key(key, path)
                name = key.value if isinstance(key, ScalarNode) else "?"
                self.add(value, (*path, name))
        elif isinstance(node, SequenceNode):
            for position, element in enumerate(node.value):
                self.lines[(*path, position)] = element.start_mark.line + 1
                self.add(element, (*path, position))
        elif isinstance(node, ScalarNode) and CONTROL.search(node.value):
            where = f"{self._source}:{node.start_mark.line + 1}"
            self.problems.append(
                f"{where}: expected no control characters, got {node.value[:80]!r}"
            )

    def _add_key(self, key: Node, path: KeyPath) -> None:
        line = key.start_mark.line + 1
        where = f"{self._source}:{line}"
        if not isinstance(key, ScalarNode):
            self.problems.append(f"{where}: expected a plain key")
            return
        here = (*path, key.value)
        if here in self.lines:
            first = self.lines[here]
            self.problems.append(
                f"{where}: {one_line(key.value)}: the key is given twice (first on line {first})"
            )
        elif CONTROL.search(key.value):
            self.problems.append(
                f"{where}: expected a key without control characters, got {key.value[:80]!r}"
            )
        self.lines.setdefault(here, line)


R = TypeVar("R", bound=BaseModel)


def read_records(path: Path, record: type[R], *section: str) -> dict[str, R]:
    """The records of a YAML file, or of a section of it, by their keys, in its order.

    Raises:
        InputError: As :func:`read_document` and :func:`parse_record`.
    """
    document = read_document(path)
    records = document.data
    for key in section:
        records = records[key]
    return {
        name: parse_record(document, record, data, (*section, name))
        for name, data in records.items()
    }


def parse_record(document: Document, record: type[R], data: object = None, path: KeyPath = ()) -> R:
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
    except ValidationError as problem:
        errors = [
            each | {"ctx": {**each.get("ctx", {}), "error": cause}}
            for each in problem.errors()
            for error in [each.get("ctx", {}).get("error")]
            for cause in (error.args if isinstance(error, ContradictionsError) else [error])
        ]
        problems = [
            _mistake(document, record, path, error)
            for error in errors[:_MOST_PROBLEMS]
            if not _follows(error, errors)
        ]
        more = len(errors) - _MOST_PROBLEMS
        if more > 0:
            problems.append(document.mistake(f"{more:,} more problems", path))
        raise InputError(problems) from None


def _follows(problem: Any, errors: Sequence[Any]) -> bool:
    """Whether a list is said to be too short only because its items were refused."""
    path = problem["loc"]
    return problem["type"] == "too_short" and any(
        len(error["loc"]) > len(path) and error["loc"][: len(path)] == path for error in errors
    )


def _mistake(document: Document, record: type[BaseModel], path: KeyPath, item: Any) -> Mistake:
    location = tuple(step for step in item["loc"] if _is_written(step))
    if item["type"] == "extra_forbidden":  # the last part is the file's own, however it looks
        outer = item["loc"][:-1]
        location = (*(step for step in outer if _is_written(step)), item["loc"][-1])
    cause = item.get("ctx", {}).get("error")
    named: StringTuple = ()
    if isinstance(cause, KeyedValueError):
        location = (*location, *cause.mistake.key)
        named = cause.mistake.named
    mistake = document.mistake(_message(record, location, item), (*path, *location))
    return replace(mistake, named=named, is_missing=item["type"] == "missing")


def _message(record: type[BaseModel], location: KeyPath, item: Any) -> str:
    error_type = item["type"]
    got = item.get("input")
    if error_type == "extra_forbidden":
        model = _model_at(record, location[:-1])
        key = str(location[-1])
        known_by_alias = [] if model is None else list(_aliased_fields(model))
        meant = getattr(model, "other_words", {}).get(key)
        return describe_unknown("key", key, known_by_alias, meant=meant)
    if error_type == "missing":
        return "the key is required"
    message = sentence_of(item)
    message = message[:1].lower() + message[1:]
    if error_type == "tuple_type":  # as the file has it: YAML knows lists
        message = "expected a list"
    if error_type in {"model_type", "dict_type"}:
        message = "expected keys with values"
    if error_type == "too_short":
        least = item["ctx"]["min_length"]
        message = f"expected a list of at least {least}"
    # Pydantic's own sentences name limits, which may look like what was got.
    is_said = "got" in message or (error_type == "value_error" and repr(got) in message)
    # A mapping that a check of a whole record refused is all of the record.
    got_said = is_said or (isinstance(got, dict) and not error_type.endswith("_type"))
    words = repr(got) if len(repr(got)) <= _LONGEST_GOT else f"{repr(got)[:_LONGEST_GOT]}…"
    return message + ("" if got_said else f", got {words}")


def sentence_of(item: Any) -> str:
    """Sentence of a problem of a ``ValidationError``, in the words of the check that refused it."""
    cause = item.get("ctx", {}).get("error")
    if isinstance(cause, KeyedValueError):
        return cause.mistake.message
    message: str = item["msg"]
    return message.removeprefix("Value error, ")


def _is_written(step: str | int) -> bool:
    """Whether a part of pydantic's location is a key of the file and not the name of a type."""
    return isinstance(step, int) or not re.search(r"[\[(]|^function-", step)


def _model_at(record: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    model: Any = record
    for step in path:
        if isinstance(step, int) or model is None:
            continue
        field = _aliased_fields(model).get(step)
        model = _model_in(field.annotation) if field is not None else model
    nested: type[BaseModel] | None = model
    return nested


def _aliased_fields(model: type[BaseModel]) -> JsonObject:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        model = _model_in(argument)
        if model is not None:
            return model
    return None


def accepted_by(check: Callable[[Any], object]) -> Any:
    """The annotation of a field whose value stays as it is unless ``check`` raises.

    A check raises an InputError or a ValueError.
    """

    def read(value: object) -> object:
        with reraised_as_value_error():
            check(value)
        return value

    return AfterValidator(read)


def checked(check: Callable[[Any], Any]) -> Any:
    """The annotation of a field that ``check`` turns into its value, or refuses by InputError."""

    def read(value: object) -> Any:
        with reraised_as_value_error():
            return check(value)

    return BeforeValidator(read)
