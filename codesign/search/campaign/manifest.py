"""The manifest of a folder of results: digests of its files and of their inputs.

``manifest.json`` has an entry for each file that a command finished. An entry says which inputs,
code and results the file was made from, so that anybody can check a table against the store
beside it. The store itself is listed by its observations: their digest does not depend on how
SQLite lays them out.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from codesign.base.columns import Fields, IntegerTuple, StringDict
from codesign.base.errors import CodesignError, StoreError
from codesign.base.files import write_text
from codesign.base.locks import try_lock
from codesign.base.schema import Record
from codesign.search.campaign.store import Store
from codesign.search.campaign.store_file import STORE, open_store
from codesign.search.enumeration import read_front

MANIFEST = "manifest.json"
State = Literal["intact", "changed", "damaged", "missing", "outdated", "unlisted"]
FAILURES: tuple[State, ...] = ("changed", "damaged", "missing")
"""States of files that nobody should rely on."""
_IN_PROGRESS = (
    "lock", MANIFEST, f"{STORE}-*", "*.part", "*.lock", "*.log", "*.log.1", ".*"
)  # fmt: skip
"""Files that no command has finished."""
_WORDS: Mapping[State, str] = {
    "intact": "as it was written",
    "changed": "not what was written",
    "missing": "listed, and not there",
    "outdated": "as it was written, of earlier results than the store's",
    "unlisted": "no command of codesign vouches for it",
}
_MOST_DAMAGES = 3

_logger = logging.getLogger(__name__)


class Origin(Record):
    """Digests of all that a file was made from.

    Attributes:
        inputs: SHA-256 of the resolved definition: problem, optimizers, budget and reference point.
        code: Digest of the evaluator's code.
        observations: Stored observations of each run, the reference sample first; empty without a
            store.
        results: SHA-256 of these observations.
        exact_front: SHA-256 of the file of the exact front.
        campaigns: SHA-256 of the observations of each campaign of a comparison, by its folder.
        versions: Versions of the libraries that can change the last bits of a result.
    """

    inputs: str
    code: str
    observations: IntegerTuple = ()
    results: str | None = None
    exact_front: str | None = None
    campaigns: StringDict = Field(default_factory=dict)
    versions: StringDict


class FileEntry(Record):
    """A finished file.

    Attributes:
        sha256: Digest of its bytes; None for the store.
        origin: The data that it was made from.
    """

    sha256: str | None
    origin: Origin


class Manifest(Record):
    """All finished files of a campaign's folder.

    Attributes:
        version: Version of this form.
        campaign: Name of the campaign.
        files: Entries by the name of the file in the folder.
    """

    version: Literal[1] = 1
    campaign: str
    files: dict[str, FileEntry]


class FileVerdict(Record):
    """The state of a file against the manifest.

    Attributes:
        file: Name in the folder.
        state: One word for it.
        words: One sentence for it.
    """

    file: str
    state: State
    words: str


def digest_of(inputs: Fields) -> str:
    """SHA-256 of resolved inputs as a store keeps them."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_files(folder: Path, campaign: str, files: Iterable[Path], origin: Origin) -> None:
    """Enter finished files of a folder, those in the place of earlier ones.

    Args:
        files: Those elsewhere are left out.
    """
    entries = {
        path.name: FileEntry(
            sha256=None if path.name == STORE else file_digest(path), origin=origin
        )
        for path in files
        if path.parent.resolve() == folder.resolve() and path.is_file()
    }
    if not entries:
        return
    with ExitStack() as stack:
        # One process at a time changes the manifest; without locks, the last one wins.
        with suppress(OSError):  # a folder cannot be opened on Windows
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            try_lock(descriptor, math.inf)
        try:
            manifest = read_manifest(folder)
        except StoreError as error:
            _logger.warning("%s; it is begun anew", error)
            manifest = None
        known_files = manifest.files if manifest is not None else {}
        listed = Manifest(campaign=campaign, files=dict(sorted((known_files | entries).items())))
        write_text(folder / MANIFEST, listed.model_dump_json(indent=1) + "\n")


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None if there is none.

    Raises:
        StoreError: It is damaged.
    """
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror}", str(path)) from error
    except ValidationError as error:
        raise StoreError("is damaged, or no manifest of a campaign", str(path)) from error


def results_digest(folder: Path) -> str:
    """SHA-256 of all observations of a campaign's store.

    Raises:
        StoreError: The store is damaged.
    """
    with open_store(folder / STORE) as store:
        return store.digest(store.numbers())


def check_folder(folder: Path) -> list[FileVerdict]:
    """The state of every finished file of a folder, and of the campaigns of a comparison in it.

    Raises:
        StoreError: The folder has no manifest, or a damaged one.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise StoreError(
            f"expected {MANIFEST}, which 'codesign run' and 'codesign enumerate' write", str(folder)
        )
    names = {path.name for path in folder.iterdir() if path.is_file()}
    names = {name for name in names if not any(fnmatch(name, form) for form in _IN_PROGRESS)}
    with ExitStack() as stack:
        store: Store | None = None
        damage = ""
        if STORE in names:
            try:
                store = stack.enter_context(open_store(folder / STORE))
                damage = "; ".join(store.verify()[:_MOST_DAMAGES])
            except CodesignError as error:
                damage = str(error)
        check = _Check(folder, None if damage else store)
        verdicts = []
        for name in sorted(names | manifest.files.keys()):
            entry = manifest.files.get(name)
            state: State
            state = "missing"
            words = ""
            if name == STORE and damage:
                state = "damaged"
                words = damage
            elif name in names:
                state, words = check.state(name, entry)
            verdicts.append(FileVerdict(file=name, state=state, words=words or _WORDS[state]))
    paths = [*folder.glob(f"*/{MANIFEST}"), *folder.glob(f"*/{STORE}")]
    for campaign in sorted({path.parent for path in paths}):
        verdicts += [
            FileVerdict(file=f"{campaign.name}/{each.file}", state=each.state, words=each.words)
            for each in check_folder(campaign)
        ]
    return verdicts


class _Check:
    """Checks files of a folder against their entries, and against the intact store, if any."""

    def __init__(self, folder: Path, store: Store | None) -> None:
        self._folder = folder
        self._store = store
        self._digest = cache(store.digest) if store is not None else None

    def state(self, name: str, entry: FileEntry | None) -> tuple[State, str]:
        """State of a file that is there, with words that say more than the state, if any."""
        path = self._folder / name
        if fnmatch(name, "exact-*.npz"):
            try:
                read_front(path)
            except StoreError as error:
                return "damaged", str(error)
        if entry is None:
            return "unlisted", ""
        if entry.sha256 is not None and file_digest(path) != entry.sha256:
            return "changed", ""
        for campaign, digest in entry.origin.campaigns.items():
            try:
                if results_digest(self._folder / campaign) != digest:
                    return "outdated", f"as written, but results of {campaign} have changed"
            except CodesignError as error:
                return "outdated", f"as it was written; {campaign}: {error}"
        if entry.origin.results is not None and self._store is not None:
            return self._state_against(self._store, name, entry.origin)
        return "intact", ""

    def _state_against(self, store: Store, name: str, origin: Origin) -> tuple[State, str]:
        """State of a file whose bytes are intact, by the store that it was made from."""
        assert self._digest is not None
        if self._digest(origin.observations) != origin.results:
            return "changed", "made from other results than the store's"
        newer = sum(store.numbers()) - sum(origin.observations)
        if newer and name == STORE:
            return "intact", f"as it was written, and {newer:,} newer observations"
        if newer:
            return "outdated", ""
        if digest_of(store.inputs["identity"]) != origin.inputs:
            return "changed", "made from other inputs than the store's"
        if origin.exact_front not in (None, *map(file_digest, self._folder.glob("exact-*.npz"))):
            return "outdated", "as it was written, of an exact front that is not here"
        return "intact", ""
