"""What every test gets: each document that ``--json`` prints is checked against its schema."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from codesign.answers import answer, json_values

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

    from codesign.answers.answer import Answer

# A busy machine may take long over any example: time is no property that a test asserts.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it ended before, or while it was read
        return False
    return state != "Z"


@pytest.fixture(scope="session")
def await_ends() -> Callable[[Iterable[int]], None]:
    """Waits until processes have ended, also if nobody waits for them; Linux only.

    A process that was killed is listed until the system comes to end it.
    """

    def await_ends(pids: Iterable[int]) -> None:
        while any(map(_is_alive, pids)):
            time.sleep(0.02)

    return await_ends


@cache
def _validator(label: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    records = {record.schema_label(): record for record in answer.answers().values()}
    return Draft202012Validator(answer.schema_of(records[label]))


def _check(document: Any) -> None:
    from jsonschema.exceptions import best_match

    error = best_match(_validator(document["schema"]).iter_errors(document))
    if error is not None:
        raise AssertionError(f"{document['schema']}: {error.json_path}: {error.message}")


@pytest.fixture(scope="session")
def check_document() -> Callable[[Any], None]:
    """Raises AssertionError where a document differs from the schema that it names."""
    return _check


@pytest.fixture(scope="session", autouse=True)
def _documents_follow_their_schemas() -> Iterator[None]:
    stamped = json_values.stamped

    def checked(record: Answer) -> dict[str, Any]:
        result = stamped(record)
        _check(json.loads(json_values.json_text(result)))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "stamped", checked)
        yield
