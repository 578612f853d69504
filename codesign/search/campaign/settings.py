"""Settings that replace keys of a campaign's file; they are stored in the campaign's folder.

Workers read the stored file in place of the campaign's file. Its key ``campaign`` is the path of
that file; ``set`` has the new values by dotted key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any

import yaml

from codesign.base.columns import Fields, JsonObject, Strings
from codesign.base.errors import CodesignError, InputError, Mistake, check_known, mistakes_at
from codesign.base.files import write_text
from codesign.base.records import frozen
from codesign.base.schema import Document, KeyPath, parse_document, read_document
from codesign.search.campaign.store_file import STORE

FLAG = "--set"
_KEYS = {"campaign", "set"}


def parse_settings(pairs: Iterable[str]) -> JsonObject:
    """Values by dotted key of texts such as ``constraints.0=tdp_watts <= 400``.

    Raises:
        InputError: A text is no KEY=VALUE, repeats a key, or has no YAML value.
    """
    settings = {}
    for pair in pairs:
        key, equals, text = (word.strip() for word in pair.partition("="))
        if not (equals and all(key.split("."))):
            raise InputError(f"expected KEY=VALUE, such as budget=200, got {pair!r}", FLAG)
        if key in settings:
            raise InputError(f"{key!r} is given twice", FLAG)
        settings[key] = parse_document(f"value: {text}", f"{FLAG} {key}").data["value"]
    return settings


def settings_words(settings: Fields) -> str:
    """Settings as they are written on a command line."""
    pairs = (
        f"{key}={yaml.safe_dump(value, default_flow_style=True, width=10**6).splitlines()[0]}"
        for key, value in settings.items()
    )
    return " ".join(f"{FLAG} {quote(pair)}" for pair in pairs) or f"no {FLAG}"


@frozen
class _SetDocument(Document):
    """A document of which settings replaced some values.

    Attributes:
        settings: Dotted key by path.
    """

    settings: Mapping[KeyPath, str] | None = None

    def mistake(self, message: str, path: KeyPath) -> Mistake:
        """A mistake at its line, or at the setting of its key."""
        for key, name in (self.settings or {}).items():
            is_new = path not in self.lines and key[: len(path)] == path
            if path[: len(key)] == key or is_new:
                return Mistake(message, path[len(key) :], f"{FLAG} {name}")
        return super().mistake(message, path)


def replace_values(document: Document, settings: Fields) -> Document:
    """The document with other values of some keys.

    Raises:
        InputError: A key leads to nothing in the document.
    """
    data: Any = document.data
    paths = {}
    for name, value in settings.items():
        with mistakes_at(f"{FLAG} {name}"):
            data, path = _replaced(data, name.split("."), value)
        paths[path] = name
    return _SetDocument(document.source, data, document.lines, document.base, paths)


def _replaced(place: Any, keys: Strings, value: Any) -> tuple[Any, KeyPath]:
    """A value with another one inside, and the path to that; a list may grow by one value."""
    if not keys:
        return value, ()
    first, *rest = keys
    key: str | int = first
    values: Any = place
    if isinstance(place, list):
        check_known("position", first, list(map(str, range(len(place) + (not rest)))))
        values = dict(enumerate(place))
        key = int(first)
    elif not isinstance(place, dict):
        raise InputError(f"{first!r} is below {place!r}, which has no keys")
    inner, path = _replaced(values.get(key, {}), rest, value)
    changed = values | {key: inner}
    return list(changed.values()) if isinstance(place, list) else changed, (key, *path)


def read_campaign(path: Path, settings: Fields | None = None) -> Document:
    """Content of a campaign's file, with the values that its settings replace.

    Raises:
        InputError: The file or a setting cannot be used.
    """
    document = read_document(path)
    if document.data.keys() == _KEYS:
        return replace_values(read_document(document.data["campaign"]), document.data["set"])
    return replace_values(document, settings) if settings else document


def settings_path(folder: Path) -> Path:
    """Path of the settings in a campaign's folder; the file has the campaign's name."""
    return folder / f"{folder.name}.yaml"


def stored_settings(folder: Path) -> JsonObject:
    """Settings stored in a campaign's folder; empty if there are none."""
    path = settings_path(folder)
    return read_document(path).data.get("set", {}) if path.is_file() else {}


def check_settings(folder: Path, settings: Fields | None, stored: Fields) -> None:
    """Refuse settings other than those with which a campaign was begun.

    Raises:
        InputError: The settings differ.
    """
    if settings and settings != stored and (stored or (folder / STORE).is_file()):
        raise InputError(
            f"begun with {settings_words(stored)}, got {settings_words(settings)}; give the same "
            "or none, or another --folder",
            str(folder),
        )


@contextmanager
def keeping_settings(folder: Path, campaign: Path, settings: Fields) -> Iterator[None]:
    """Store the settings in a campaign's folder; remove them if the campaign is refused."""
    path = settings_path(folder)
    has_begun = not settings or path.exists()
    if settings:
        folder.mkdir(parents=True, exist_ok=True)
        stored = {"campaign": str(campaign), "set": dict(settings)}
        write_text(path, yaml.safe_dump(stored, sort_keys=False))
    try:
        yield
    except CodesignError:
        if not has_begun and not (folder / STORE).exists():
            path.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()  # where nothing else is
        raise
