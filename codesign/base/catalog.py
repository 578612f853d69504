"""Named things with attributes, as a design space sees them: memory technologies, devices.

A parameter whose values come from a catalog may be used in expressions with its attributes,
such as ``tier1_technology.bandwidth``; the space never learns what the things are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from codesign.base.columns import FloatMap, StringMap
from codesign.base.errors import InputError
from codesign.base.records import frozen


@frozen
class Catalog:
    """Numbers and words by name and attribute.

    Attributes:
        units: Unit of each attribute, as ``units.py`` reads it (gives its dimension).
        entries: For each name, its attributes in coherent SI units, keys of ``units``. A parameter
            has an attribute that all of its values state.
        words: For each attribute that is no number, such as ``family``, the word of each name.
        broken: Mistakes of the things that cannot be used, by name; raised where one is named.
    """

    units: StringMap
    entries: Mapping[str, FloatMap]
    words: Mapping[str, StringMap] = field(default_factory=dict)
    broken: Mapping[str, InputError] = field(default_factory=dict)


Catalogs = Mapping[str, Catalog]
"""Catalogs by their names."""
