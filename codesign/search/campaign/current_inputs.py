"""Today's inputs of a campaign against those that its store has: what may change, and when."""

from __future__ import annotations

import logging
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import codesign
from codesign.base.code_digest import code_digest
from codesign.base.columns import JsonObject, StringDict, StringList
from codesign.base.errors import InputError, StoreError
from codesign.base.records import frozen
from codesign.search.campaign.campaign_definition import (
    Definition,
    ResolvedDefinition,
)
from codesign.search.campaign.differences import Difference, differences
from codesign.search.campaign.store import Store
from codesign.search.execution.result_cache import evaluator_modules
from codesign.search.problem import Problem

_LIBRARIES = ("numpy", "scipy", "moocore", "torch", "botorch", "gpytorch", "pymoo", "optuna")
_MOST_DIFFERENCES = 20
_MAY_CHANGE = (
    ("budget",),
    ("batch",),
    ("initial",),
    ("reference_sample",),
    ("optimizers",),
    ("problem", "evaluator"),
    ("problem", "space", "catalogs"),
    ("problem", "space", "sources"),
)
"""Inputs that may be accepted: stored designs, runs and columns mean the same without them."""

_logger = logging.getLogger(__name__)


@frozen
class CurrentInputs:
    """Current inputs of a campaign, on which its results depend.

    Attributes:
        store_path: Of the store that they are compared with.
        error: Why the definition cannot be used today, if it cannot.
    """

    resolved: ResolvedDefinition
    store_path: Path
    error: InputError | None = None

    @property
    def definition(self) -> Definition:
        """Definition in the campaign file."""
        return self.resolved.definition

    @property
    def problem(self) -> Problem:
        """Problem that the campaign evaluates."""
        return self.resolved.problem

    def stored_form(self) -> JsonObject:
        """Form in which a store keeps the inputs."""
        return {
            "definition": self.definition.model_dump(mode="json"),
            "identity": self.resolved.identity(),
            "versions": library_versions(),
            "code": self._code(),
        }

    def _code(self) -> str:
        """Digest of the code behind an evaluation."""
        return code_digest(
            (*evaluator_modules(self.problem.evaluator), "codesign.search.problem_builder")
        )[:12]

    def changes(self, store: Store) -> StringList:
        """``key: stored -> now`` of the inputs that differ, one line each."""
        if self.error is not None:
            return list(self.error.problems)
        return [str(difference) for difference in self._differences(store)]

    def _differences(self, store: Store) -> list[Difference]:
        return list(differences(store.inputs.get("identity", {}), self.resolved.identity()))

    def accepted_changes(self, store: Store, accept: bool = False) -> StringList:
        """The changes if they are accepted.

        Raises:
            StoreError: They are not, or stored designs and numbers would mean something else.
        """
        if self.error is not None:
            raise self.error
        found_differences = self._differences(store)
        changes = [str(difference) for difference in found_differences]
        fixed = [
            str(difference)
            for difference in found_differences
            if not any(difference.path[: len(key)] == key for key in _MAY_CHANGE)
        ]
        if (self.definition.runs, self.problem.metric_names) != (
            store.runs,
            store.layout.metrics,
        ):
            fixed = changes
        if changes and (fixed or not accept):
            remedy = "" if fixed else ", or accept the changes by --accept-changes"
            listed = (fixed or changes)[:_MOST_DIFFERENCES]
            if len(fixed or changes) > len(listed):
                listed.append(f"... and {len(fixed or changes) - len(listed)} more")
            raise StoreError(
                [
                    f"{self.store_path}: the store belongs to another definition; change it "
                    f"back, give the campaign another name, or move its folder away{remedy}. "
                    "Stored -> now:",
                    *(f"  {line}" for line in listed),
                ]
            )
        self.warn_of_versions(store)
        if store.notice:
            _logger.warning("%s; it is evaluated again", store.notice)
        return changes

    def accepted_code(self, store: Store, changes: StringList, accept: bool) -> StringList:
        """The change of the evaluator's code, if there is one, something is left to do, and it is
        accepted.

        Raises:
            StoreError: It is not accepted.
        """
        stored = store.inputs.get("code", self._code())
        now = self._code()
        is_complete = all(count.has_ended for count in store.counts())
        if stored == now or (is_complete and not changes):
            return []
        if not accept:
            begun = store.inputs.get("versions", {}).get("codesign", "unknown")
            text = (
                "the code of the evaluator has changed since the campaign was begun "
                f"(digest {stored}, codesign {begun}; now {now}); go on with the old code, or "
                "mark what follows as of the new code by --accept-changes"
            )
            raise StoreError(text, str(self.store_path))
        return [f"code: {stored} -> {now}"]

    def warn_of_versions(self, store: Store) -> None:
        """Warn where libraries, or the evaluator's code, are not those of the store."""
        name = self.definition.name
        for line in differences(store.inputs.get("versions", {}), library_versions()):
            _logger.warning("%s was begun with other versions: %s", name, line)
        if store.inputs.get("code", self._code()) != self._code():
            _logger.warning("%s was begun with other code of its evaluator", self.definition.name)


@cache
def library_versions() -> StringDict:
    """Versions of all that can change the last bits of a result."""
    versions = {"python": platform.python_version(), "codesign": codesign.__version__}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
