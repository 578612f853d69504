"""Other people's optimizers, as their documentation shows them, each in a process of its own.

They are here to be compared with, not to be good on these spaces: each sees a plain box of levels
(what a condition makes inactive is ignored) and is told of a limit only by its violation. The
process gets all that was told at every proposal and makes its model or its generations of that
anew (``peer_worker/``), so a peer is a function of its history like every optimizer here. A
proposal that is not admissible, or was evaluated before, costs no evaluation: it is told back, and
after a few of these (``attempts``) a random new design is taken. That flatters peers which repeat
themselves.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from codesign.base.columns import (
    Fields,
    FloatList,
    IntArray,
    JsonObject,
    JsonRows,
)
from codesign.base.schema import Record
from codesign.search.observations import Observations
from codesign.search.optimizers.base import BaseOptimizer, KeySet
from codesign.search.optimizers.peer_process import PeerProcess
from codesign.search.optimizers.peer_space import PeerSpace

PeerMethod = Literal[
    "optuna-tpe",
    "optuna-gp",
    "optuna-nsga2",
    "optuna-nsga3",
    "botorch-qlognehvi",
    "ax",
    "smac-parego",
    "hebo",
    "pymoo-nsga3",
    "pymoo-agemoea",
    "pymoo-smsemoa",
]
_PROVENANCE_RESULTS = 24
"""Results of the made-up problem: more than any method wants before it uses its model. [ours]"""
_INADMISSIBLE = 1.0
"""Violation told for a design that breaks a limit known before evaluation. [ours]"""


class Peer(BaseOptimizer):
    """One method of another library; the reference point is given to those that take one.

    Raises:
        MissingExtraError: The library is not installed in the peers' interpreter.
    """

    class Options(Record):
        """Options of a peer."""

        method: PeerMethod = "optuna-tpe"
        """Library and method."""
        attempts: int = Field(default=10, ge=1)
        """Useless proposals of one step before a random design is taken; each is a new model."""

    knows_pending = True
    _options: Options

    @classmethod
    def provenance(cls, options: Options) -> Fields:
        """The method's settings as its objects say them, over a made-up problem of two objectives.

        ``proposal`` is where the library says that its proposal came from.

        Raises:
            MissingExtraError: The library is not installed in the peers' interpreter.
            InputError: The interpreter cannot be started.
            JobError: The method cannot be used.
        """
        rng = np.random.default_rng(0)
        levels = [5, 4, 3]
        results = [
            {
                "design": rng.integers(levels).tolist(),
                "objectives": rng.random(2).tolist(),
                "violations": [float(rng.random() - 0.5)],
            }
            for _ in range(_PROVENANCE_RESULTS)
        ]
        process = PeerProcess(
            {
                "method": options.method,
                "levels": levels,
                "is_ordered": [True, True, False],
                "conditions": [None] * len(levels),
                "linear": [],
                "forbidden": [],
                "n_objectives": 2,
                "reference_point": [1.1, 1.1],
                "run_seed": 0,
            }
        )
        request = {"results": results, "rejected": [], "attempt": 0, "seed": 0}
        proposal = process.propose(request)
        return {**proposal.settings, "proposal": proposal.origin}

    def _set_up(self) -> None:
        self._first = -self._space.space.structure.has_absence.astype(np.int64)
        self._records: JsonRows = []
        self._by_key: dict[int, JsonObject] = {}
        reference = self._reference
        method = self._options.method
        self._process = PeerProcess(
            {
                "method": method,
                **PeerSpace.read(self._space).expressed(method),
                "n_objectives": self._n_objectives,
                "reference_point": None if reference is None else reference.tolist(),
                "run_seed": self._seed,
            }
        )

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        waiting = self._space.no_rows if pending is None else pending
        rows = waiting
        while len(rows) < len(waiting) + n:
            row = self._new_design(rows)
            if not len(row):
                break
            rows = np.concatenate([rows, row])
        return rows[len(waiting) :]

    def _new_design(self, pending: IntArray) -> IntArray:
        """(1, d) the next proposal that is admissible and new; (0, d) if no design is left."""
        step = [self._seed, len(self._records), len(pending)]
        excluded = KeySet(self._space.space.keys(pending))
        rejected = [self._record(row, None, [_INADMISSIBLE]) for row in pending]
        # Nothing to learn from: no method is asked.
        has_results = any(record["objectives"] is not None for record in self._records)
        for attempt in range(self._options.attempts if has_results else 0):
            seed = int(np.random.default_rng([*step, attempt]).integers(2**31))
            question = {"results": self._records, "rejected": rejected}
            designs = self._process.propose(question | {"attempt": attempt, "seed": seed}).designs
            if not designs:
                continue
            points = (np.array(designs) + 0.5) / self._process.setup["levels"]
            rows = self._space.space.rows_near(points)
            fresh = self._space.distinct(self._space.unseen(rows, self._seen), excluded)
            if len(fresh):
                return fresh[:1]
            # The answer to a useless proposal is its result if it has one.
            useless = {"objectives": None, "violations": [_INADMISSIBLE]}
            for key, design in zip(self._space.space.keys(rows).tolist(), designs, strict=True):
                rejected.append({**self._by_key.get(key, useless), "design": design})
        rng = np.random.default_rng(step)
        others = self._space.sample_unseen(rng, len(pending) + 1, self._seen)
        return self._space.distinct(others, excluded)[:1]

    def _learn(self, results: Observations) -> None:
        """Keep the results; they are sent with the next proposal."""
        keys = self._space.space.keys(results.rows)
        for i, key in enumerate(keys.tolist()):
            has_failed = results.failed[i]
            values = None if has_failed else results.objectives[i].tolist()
            excess = [] if has_failed else results.violations[i].tolist()
            record = self._record(results.rows[i], values, excess)
            self._records.append(record)
            self._by_key[key] = record

    def _record(
        self, row: IntArray, objectives: FloatList | None, violations: FloatList
    ) -> JsonObject:
        design = np.maximum(row - self._first, 0).tolist()
        return {"design": design, "objectives": objectives, "violations": violations}
