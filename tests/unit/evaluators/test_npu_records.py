"""The way of one design through the evaluator, as the docstring of its package tells it."""

import importlib
import pkgutil
import re
from dataclasses import is_dataclass

from codesign.evaluators import npu as evaluator
from codesign.models.machines import npu as machine


def definitions():
    """What the modules of the evaluator and of its machine define, by name."""
    names = [
        f"{package.__name__}.{item.name}"
        for package in (evaluator, machine)
        for item in pkgutil.iter_modules(package.__path__)
    ]
    modules = [vars(importlib.import_module(name)) for name in names]
    return {
        name: value
        for known in modules
        for name, value in known.items()
        if getattr(value, "__module__", None) == known["__name__"]
    }


def is_record(value):
    return isinstance(value, type) and (is_dataclass(value) or issubclass(value, tuple))


def test_the_documented_way_of_a_design_names_every_record():
    named, defined = set(re.findall(r"(?<!`)`(\w+)`", evaluator.__doc__ or "")), definitions()
    assert named <= set(defined)
    records = {name for name, value in defined.items() if is_record(value)}
    assert {name for name in records if not name.startswith("_")} <= named
