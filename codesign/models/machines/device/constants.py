"""Fitted constants of kernels: one file per family of kernels, one record per class of devices."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeVar

from codesign.base.errors import UnknownNameError
from codesign.base.schema import Record, parse_record, read_document

FOLDER = Path(__file__).parent / "constants"

Constants = TypeVar("Constants", bound=Record)


@cache
def load_constants(family: str, record: type[Constants], device_class: str) -> Constants:
    """The shipped constants of a family of kernels on a class of devices.

    A file has three keys: ``how`` says which command fitted the constants to which data with which
    loss; ``classes`` has one record per class of devices; ``sources`` says for each class on how
    many measurements its constants rest, or from which class they were taken.

    Args:
        family: Name of the file, such as ``gemm``.
        record: What the file holds for a class of devices.
        device_class: As a device file states it, such as ``gpu``.

    Raises:
        UnknownNameError: The file has no constants for that class.
    """
    document = read_document(FOLDER / f"{family}.yaml")
    classes = document.data["classes"]
    if device_class not in classes:
        raise UnknownNameError("class of devices", device_class, classes, f"{family} kernels")
    return parse_record(document, record, classes[device_class], ("classes", device_class))
