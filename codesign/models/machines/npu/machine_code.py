"""Loops over formulas as machine code, made by numba and kept on the disk.

The formulas are functions of the operations of ``hardware/formula_operations.py``, which are said
here for single numbers. The arithmetic is neither fused nor reordered, so that its bits are those
of NumPy.
"""

from __future__ import annotations

import hashlib
import math
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from codesign.base.columns import FloatArray, Function, IntArray, IntegerTuple, StringList
from codesign.base.errors import InputError
from codesign.base.resources import user_cache
from codesign.models.hardware import formula_operations

_INLINE: Any = {"forceinline": True}


Record = TypeVar("Record", bound=tuple[Any, ...])


def fields_at(record: type[Record], values: FloatArray, first: int, step: int) -> Record:
    """The record whose fields lie in ``values``, one every ``step``."""
    return record(*values[first::step])


def design_at(record: Record, i: int, order: IntArray, places: IntegerTuple) -> Record:
    """The record of one design.

    Args:
        record: Of arrays (n,), and (t, n) for its tiers.
        i: Position of the design.
        order: (t,) which tier comes at each place.
        places: The numbers from 0 to t.
    """
    return type(record)(
        *(
            of[i] if of.ndim == 1 else tuple(of[order[place], i] for place in places)
            for of in record
        )
    )


def functions_of(*modules: ModuleType) -> tuple[Function, ...]:
    """The formulas of modules, which loops share with the NumPy path, each once.

    Args:
        modules: With formulas of one another only, those of ``formula_operations.py`` apart.
    """
    names = {module.__name__ for module in modules}
    known = [var for module in modules for var in vars(module).values() if isfunction(var)]
    return tuple(dict.fromkeys(item for item in known if item.__module__ in names))


def compile_loop(loop: Function, helpers: tuple[Function, ...], allocates: bool = True) -> Function:
    """A loop as machine code, made when it is first called, or read from the disk if it is there.

    Args:
        loop: A function of numbers, arrays, and tuples of them.
        helpers: All that it calls, the operations of ``formula_operations.py`` apart.
        allocates: False if it makes no arrays, so that references to them need not be counted.
    """
    import numba
    from numba.extending import register_jitable

    _define_operations()
    for function in helpers:
        register_jitable(forceinline=True)(getattr(function, "__wrapped__", function))
        if hasattr(function, "__wrapped__"):
            _define_on_tuples(function)
    folder = cache_folder()
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = "" if folder is None else str(folder)
    try:
        # The error model is IEEE 754's, as NumPy's; arithmetic is neither fused nor reordered.
        njit: Any = numba.njit  # whose types lack the last option
        settings = {"cache": folder is not None, "error_model": "numpy", "nogil": True}
        return cast(Callable[..., Any], njit(**settings, _nrt=allocates)(loop))
    finally:
        config.CACHE_DIR = before


@cache
def _define_operations() -> None:
    """Say what the operations of ``formula_operations.py`` are in compiled loops."""
    from numba.extending import overload, register_jitable

    for operation, on_numbers in _ON_NUMBERS.items():
        # Not strict: the names of arguments may differ.
        overload(operation, strict=False)(partial(_implementation, on_numbers))
    for function in (
        formula_operations.differences,
        formula_operations.inverses,
        formula_operations.products,
        formula_operations.sums,
    ):
        _define_on_tuples(function)
    overload(formula_operations.running_sums, strict=False, jit_options=_INLINE)(_running_sums)
    register_jitable(forceinline=True)(formula_operations.sum_of)
    overload(fields_at, strict=False, jit_options=_INLINE)(_fields_at)
    overload(design_at, strict=False, jit_options=_INLINE)(_design_at)


def _fields_at(record: Any, values: Any, first: Any, step: Any) -> Function:
    own_instance_class = record.instance_class
    parts = [f"values[first + {place} * step]" for place in range(len(own_instance_class._fields))]
    return _function_of(
        ["record", "values", "first", "step"], f"own({', '.join(parts)})", own=own_instance_class
    )


def _design_at(record: Any, i: Any, order: Any, places: Any) -> Function:
    own = record.instance_class
    parts = []
    for name, of in zip(own._fields, record, strict=True):
        tiers = [f"record.{name}[order[{place}], i]," for place in range(len(places))]
        parts.append(f"record.{name}[i]" if of.ndim == 1 else f"({' '.join(tiers)})")
    return _function_of(["record", "i", "order", "places"], f"own({', '.join(parts)})", own=own)


def _define_on_tuples(function: Any) -> None:
    """Say what a formula of ``elementwise.place_by_place`` is in compiled loops."""
    from numba.extending import overload

    implementation = partial(_written_out, function.__wrapped__)
    overload(function, strict=False, jit_options=_INLINE)(implementation)


def _written_out(formula: Function, *types: Any) -> Function:
    """The formula at every place of the tuples among its arguments, one after the other."""
    from numba.core.types import BaseTuple

    names = [f"argument_{number}" for number in range(len(types))]
    n_places = next(len(item) for item in types if isinstance(item, BaseTuple))
    calls = []
    for place in range(n_places):
        parts = zip(names, types, strict=True)
        values = [f"{name}[{place}]" if isinstance(of, BaseTuple) else name for name, of in parts]
        calls.append(f"formula({', '.join(values)}),")
    return _function_of(names, f"({' '.join(calls)})", formula=formula)


def _running_sums(values: Any) -> Function:
    sums = [" + ".join(f"values[{i}]" for i in range(place + 1)) for place in range(len(values))]
    return _function_of(["values"], f"({', '.join(sums)},)")


def _function_of(names: StringList, result: str, **known: Any) -> Function:
    """A function of these arguments that gives a tuple, written out."""
    # numba has no tuple whose length its code does not state; the text is all our own.
    function: Function = eval(f"lambda {', '.join(names)}: {result}", known)
    return function


_ON_NUMBERS: dict[Function, Function] = {
    formula_operations.where: lambda condition, if_true, if_false: (
        if_true if condition else if_false
    ),
    formula_operations.is_anywhere: lambda condition: condition,
    formula_operations.larger: lambda first, second: first if first > second else second,
    formula_operations.smaller: lambda first, second: first if first < second else second,
    formula_operations.rounded_up: lambda value: np.ceil(value),
    formula_operations.square_root: lambda value: math.sqrt(value),
    formula_operations.inverse: lambda value: 1.0 / value if value > 0 else 0.0,
}
"""Operations of ``formula_operations.py`` on single numbers, none of them NaN."""


def _implementation(on_numbers: Function, *_types: Any) -> Function:
    return on_numbers


@cache
def cache_folder() -> Path | None:
    """Folder of the machine code of this very source; None without a writable place.

    numba notices a change of the loop, but not of what the loop calls; so the folder's name has
    the content of everything that may take part.
    """
    content = hashlib.sha256()
    package = Path(__file__).parents[3]
    models = ("hardware", "accounts", "machines/npu", "deployments", "deployments/queueing")
    rooms = (*(f"models/{name}" for name in models), "evaluators/npu", "evaluators/sessions")
    for room in rooms:
        for path in sorted((package / room).glob("*.py")):
            content.update(path.name.encode() + path.read_bytes())
    content.update(f"{sys.version} {np.__version__}".encode())
    try:
        folder = user_cache() / f"compiled-{content.hexdigest()[:16]}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, InputError):
        return None
