"""Methods of evaluators that are those of the evaluator over which they are built."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


def forwarded(method: _Method, attribute: str = "evaluator") -> _Method:
    """The method of the evaluator that an attribute holds.

    Args:
        method: As :class:`codesign.base.evaluator.Evaluator` has it.
    """

    @wraps(method)
    def forward(self: object, *args: Any, **options: Any) -> Any:
        return getattr(getattr(self, attribute), method.__name__)(*args, **options)

    return cast("_Method", forward)
