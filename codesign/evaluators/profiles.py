"""Profiles of an evaluator: its own rules, and others' conventions, found by their names."""

from __future__ import annotations

from dataclasses import field
from importlib import import_module
from typing import Any

from codesign.base import plugins
from codesign.base.columns import JsonObject, StringList, StringMap
from codesign.base.errors import check_known
from codesign.base.records import frozen


@frozen
class Profiles:
    """The named rules of one evaluator, each of them a class.

    Conventions register their class in the entry-point group ``codesign.conventions`` as
    ``EVALUATOR.PROFILE``, such as ``platform.genz``.

    Attributes:
        evaluator: Name of the evaluator.
        bundled: Module and class of the evaluator's own rules, imported when they are asked for.
    """

    evaluator: str
    bundled: StringMap
    _loaded: JsonObject = field(default_factory=dict)

    def names(self) -> StringList:
        """The profiles of the evaluator itself, then the conventions that are registered."""
        points = (name.partition(".") for name in plugins.names("conventions"))
        registered = [name for evaluator, _, name in points if evaluator == self.evaluator]
        return [*self.bundled, *(name for name in registered if name not in self.bundled)]

    def rules_class(self, profile: str) -> Any:
        """The class of a profile's rules.

        Raises:
            UnknownNameError: There is no such profile.
            InputError: Its conventions cannot be imported.
        """
        if profile not in self._loaded:
            check_known("profile", profile, self.names())
            if profile in self.bundled:
                module, _, name = self.bundled[profile].partition(":")
                self._loaded[profile] = getattr(import_module(module), name)
            else:
                convention = f"{self.evaluator}.{profile}"
                self._loaded[profile] = plugins.load("conventions", convention)
        return self._loaded[profile]

    def list_in(self, schema: JsonObject) -> None:
        """Put the names into the schema of a field of a record."""
        schema["enum"] = list(self.names())
