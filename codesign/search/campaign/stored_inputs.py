"""A campaign's problem as its store describes it, to read what was found with other inputs.

Names, values, objectives and numbers are those of the store. Nothing can be evaluated: the code and
the data behind the numbers are no longer there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from codesign.base.columns import Columns, Fields, Strings
from codesign.base.errors import JobError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import ALL_METRICS, Metric
from codesign.search.campaign.store import Store
from codesign.search.problem import Objective, Problem
from codesign.space import DesignSpace, parse_space


class StoredEvaluator(Evaluator):
    """Description that an evaluator gave of itself when its numbers were stored.

    Args:
        metrics: That it reported.
        provenance: All that its numbers depended on.
    """

    def __init__(self, metrics: Sequence[Metric], provenance: Fields) -> None:
        self.metrics = tuple(metrics)
        self._provenance = provenance

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        """Refuse.

        Raises:
            JobError: Always.
        """
        raise JobError("the inputs with which the campaign was run are not those of today")

    def provenance(self) -> Fields:
        """Stored provenance."""
        return self._provenance


def stored_problem(store: Store, current: Problem | None) -> Problem:
    """The problem of a store.

    Args:
        current: The problem as it is today, whose space is taken if it has the same parameters:
            it knows derived quantities and named designs too.
    """
    described = store.inputs["identity"]["problem"]
    stated = {metric["name"]: Metric(**metric) for metric in store.meta.get("metrics", ())}
    today = {} if current is None else {metric.name: metric for metric in current.metrics}
    described_metrics = ALL_METRICS | today | stated
    by_name = {
        name: described_metrics.get(name, Metric(name, "minimize", "", ""))
        for name in store.layout.metrics
    }
    objectives = []
    for text in described["objectives"]:
        sense, name = text.split()
        objectives.append(Objective(by_name[name], sense))
    evaluator = dict(described["evaluator"])
    name = str(evaluator.pop("name"))
    return Problem(
        _space(described["space"], current),
        StoredEvaluator([by_name[name] for name in store.layout.metrics], evaluator),
        tuple(objectives),
        (),
        name,
    )


def _space(described: Fields, current: Problem | None) -> DesignSpace:
    sections = ("parameters", "repeated")
    if current is not None:
        today = json.loads(json.dumps(current.space.provenance()))
        if all(today[key] == described[key] for key in sections):
            return current.space.described_as(described)
    parameters = {
        parameter["name"]: {
            "values": parameter["values"],
            # Other kinds follow from the values, and stored designs meet every condition.
            **({"kind": "categorical"} if parameter["kind"] == "categorical" else {}),
            "optional": bool(parameter["optional"] or parameter["when"]),
        }
        for parameter in described["parameters"]
    }
    space = parse_space(json.dumps({"parameters": parameters}), source=described["name"])
    return space.described_as(described)
