"""Named use cases: tokens, beams and the limits on time that users set (GenZ Table IV)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from codesign.base.errors import check_known
from codesign.base.schema import Positive, Record, quantity, read_records

_FILE = Path(__file__).parent / "use_cases.yaml"


class UseCase(Record):
    """Tokens of one request of an application, and its time limits.

    Attributes:
        prompt_tokens: Tokens of the prompt, retrieved passages included.
        generated_tokens: Tokens of one answer.
        beams: Answers that are generated side by side.
        time_to_first_token_s: Limit on the prefill.
        time_per_output_token_s: Limit on a decode step.
        description: Description for people.
        source: Source of the numbers.
    """

    prompt_tokens: Positive
    generated_tokens: Positive
    beams: Positive
    time_to_first_token_s: Annotated[float, quantity("s")] = Field(alias="time_to_first_token")
    time_per_output_token_s: Annotated[float, quantity("ms")] = Field(alias="time_per_output_token")
    description: str
    source: str


@cache
def _use_cases() -> dict[str, UseCase]:
    return read_records(_FILE, UseCase)


def load_use_case(name: str) -> UseCase:
    """The use case of that name.

    Raises:
        UnknownNameError: No such use case; the nearest is offered.
    """
    check_known("use case", name, _use_cases())
    return _use_cases()[name]
