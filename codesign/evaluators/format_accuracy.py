"""Accuracy that the formats of a design cost: metrics that need no hardware.

The formats of the phase hold for the whole model: weights, inputs of products with weights, KV
cache. The recovery of accuracy is a published score if one is known for exactly these formats,
algorithm and model. Otherwise the rule of ``codesign.models.quantization.loss_rule`` estimates it.
A table of ``codesign accuracy quantize`` gives the divergence, in full or as a sum of its parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    Columns,
    Domains,
    Fields,
    FloatDict,
    StringDict,
    StringList,
    Strings,
    Value,
    ValueTuple,
    first_values,
    n_designs,
)
from codesign.base.errors import InputError, describe_unknown
from codesign.base.evaluator import Explanation
from codesign.base.metrics import ACCURACY_METRICS, DIVERGENCE_METRICS, Metric
from codesign.base.schema import Record
from codesign.models.quantization.loss_rule import algorithms, estimate, load_rule
from codesign.models.quantization.measured import MeasuredTable, read_measured_table
from codesign.models.quantization.published import FormatChoice
from codesign.models.workload import LanguageModel, parameter_count
from codesign.models.workload.precision import FORMAT_KEYS

ALGORITHM = "quantization_algorithm"
PARAMETERS = (*FORMAT_KEYS, ALGORITHM)
"""Parameters in the order of ``FormatChoice``."""
_WIDE = "bf16"
"""The format of what has none of its own."""


def _checked_table(path: str) -> str:
    try:
        read_measured_table(path)
    except InputError as error:
        raise ValueError(error.problems[0]) from None
    return str(Path(path))


class AccuracyOptions(Record):
    """Options of an evaluator that knows what formats cost in accuracy."""

    accuracy: bool = False
    """Adds the metrics ``accuracy_recovery``, ``accuracy_recovery_low`` and ``_high``, by which
    formats of equal widths differ; an exact front then takes longer."""
    quantization_algorithm: str = "rtn"
    """Quantization algorithm where no parameter states it; it affects accuracy alone."""
    accuracy_table: Annotated[str, AfterValidator(_checked_table)] | None = Field(
        None, exclude=True
    )
    """Path of a table of ``codesign accuracy quantize``, from the folder of the run. It adds the
    metrics ``divergence_nats``, ``divergence_nats_low`` and ``_high``. Results depend on the
    content of the table, not on its path."""

    def check_fields(self) -> None:
        table = self.measured_table()
        declared = {*algorithms(), *(table.algorithms if table else ())}
        if self.quantization_algorithm not in declared:
            words = describe_unknown(
                "quantization algorithm", self.quantization_algorithm, sorted(declared)
            )
            raise ValueError(f"{ALGORITHM}: {words}")

    def measured_table(self) -> MeasuredTable | None:
        """The table of measurements, if one is named."""
        return None if self.accuracy_table is None else read_measured_table(self.accuracy_table)


class FormatAccuracy:
    """Accuracy that formats and algorithm cost; nothing where the options ask for no metric of it.

    Args:
        model: Whose answers.
        options: Which metrics there are, and the algorithm where the space does not say it.
    """

    def __init__(self, model: LanguageModel, options: AccuracyOptions) -> None:
        self._model = model
        self._has_recovery = options.accuracy
        self._table = options.measured_table()
        algorithm = {ALGORITHM: options.quantization_algorithm}
        self._defaults = dict.fromkeys(PARAMETERS, _WIDE) | algorithm
        self._known: dict[ValueTuple, FloatDict] = {}

    @cached_property
    def _n_parameters(self) -> float:
        return float(parameter_count(self._model))

    @cached_property
    def declared(self) -> dict[str, Metric]:
        """The metrics by name."""
        recovery = ACCURACY_METRICS if self._has_recovery else {}
        return {**recovery, **(DIVERGENCE_METRICS if self._table else {})}

    def metrics(self, designs: Columns, names: Strings) -> ArrayDict:
        """(n,) of those names that are metrics of accuracy; NaN where nothing is known."""
        return self.best_case(designs, {}, names)

    def best_case(self, designs: Columns, undecided: Domains, names: Strings) -> ArrayDict:
        """(n,) what no completion of a design beats: the best of the formats that are open."""
        required = [name for name in names if name in self.declared]
        if not required:
            return {}
        tables = self._costs(
            [
                designs[name].values
                if name in designs
                else undecided.get(name, (self._defaults[name],))
                for name in PARAMETERS
            ]
        )
        n = n_designs(designs)
        open_axes = tuple(i for i, name in enumerate(PARAMETERS) if name not in designs)
        codes = tuple(designs[name].codes for name in PARAMETERS if name in designs)
        best = {}
        for name in required:
            costs = np.fmin.reduce(tables[name], axis=open_axes) if open_axes else tables[name]
            best[name] = np.broadcast_to(self.declared[name].flipped(costs[codes]), (n,)).copy()
        return best

    def _costs(self, axes: Sequence[Sequence[Value]]) -> Arrays:
        """Every metric over the product of the axes, as numbers to minimize."""
        numbers = [self._numbers(*choices) for choices in itertools.product(*axes)]
        shape = [len(axis) for axis in axes]
        return {
            name: metric.flipped(np.array([entry[name] for entry in numbers]).reshape(shape))
            for name, metric in self.declared.items()
        }

    def _numbers(self, *choices: Value) -> FloatDict:
        if choices not in self._known:
            formats = FormatChoice(*(str(value) for value in choices))
            recovery = [math.nan] * len(ACCURACY_METRICS)
            if self._has_recovery and formats.algorithm in algorithms():
                result = estimate(formats, self._model.name, self._n_parameters)
                recovery = [result.ratio, result.low, result.high]
            divergence = [math.nan] * len(DIVERGENCE_METRICS)
            loss = self._table.loss(formats, self._n_parameters) if self._table else None
            if loss is not None:
                ends = loss.divergence_nats
                divergence = [ends.mean, ends.low, ends.high]
            names = (*ACCURACY_METRICS, *DIVERGENCE_METRICS)
            self._known[choices] = dict(zip(names, [*recovery, *divergence], strict=True))
        return self._known[choices]

    def absent_metrics(self, values: Domains) -> StringDict:
        """The reason why a metric has no value for some designs, by its name.

        Args:
            values: Of every parameter of the space.
        """
        axes = [values.get(name, (self._defaults[name],)) for name in PARAMETERS]
        reasons: StringDict = {}
        for choices in itertools.product(*axes) if self.declared else ():
            absent = [
                name for name, number in self._numbers(*choices).items() if math.isnan(number)
            ]
            formats = FormatChoice(*(str(value) for value in choices))
            for name in set(absent) & set(self.declared) - set(reasons):
                reasons[name] = (
                    describe_unknown("quantization algorithm", formats.algorithm, algorithms())
                    if name in ACCURACY_METRICS or self._table is None
                    else f"the accuracy table of {self._table.model} has neither {formats} nor "
                    f"{self._table.missing(formats)[0]}; codesign accuracy quantize measures them"
                )
        return reasons

    def superseded(
        self,
        values: Domains,
        keys: Mapping[str, Sequence[Hashable]],
        objectives: Strings,
    ) -> dict[str, list[bool]]:
        """For each parameter, a mask of values that one of the same key always dominates.

        Args:
            values: Of every parameter of the space.
            keys: By parameter a key for each value; values of equal keys differ in accuracy alone.
            objectives: Metrics that are objectives in their own sense.
        """
        required = [name for name in objectives if name in self.declared]
        if not required:
            return {}
        tables = self._costs([values.get(name, (self._defaults[name],)) for name in PARAMETERS])
        beaten = {}
        for place, name in enumerate(PARAMETERS):
            if name in values:
                rows = {key: np.moveaxis(entry, place, 0) for key, entry in tables.items()}
                beaten[name] = [
                    any(
                        keys[name][better] == keys[name][value]
                        and _beats(rows, better, value, required)
                        for better in range(len(values[name]))
                    )
                    for value in range(len(values[name]))
                ]
        return beaten

    def added_to(self, account: Explanation, designs: Columns) -> Explanation:
        """The account of one design with metrics of accuracy, and where they come from."""
        values = self.metrics(designs, list(self.declared))
        metrics = first_values(values)
        return replace(
            account,
            metrics={**account.metrics, **metrics},
            notes=[*account.notes, *self.notes(designs)],
        )

    def notes(self, designs: Columns) -> StringList:
        """Notes on the sources of the numbers of one design."""
        choices = [
            designs[name].decoded()[0] if name in designs else self._defaults[name]
            for name in PARAMETERS
        ]
        formats = FormatChoice(*map(str, choices))
        notes = []
        if self._has_recovery and formats.algorithm in algorithms():
            result = estimate(formats, self._model.name, self._n_parameters)
            notes.append(f"accuracy_recovery is {result.basis}: {result.source}")
        loss = self._table.loss(formats, self._n_parameters) if self._table else None
        if loss is not None:
            ratio = loss.perplexity_ratio
            notes.append(
                f"divergence_nats is {loss.basis}: {loss.source}; perplexity over that at 16 bits "
                f"{ratio.mean:.4f} ({ratio.low:.4f} to {ratio.high:.4f})"
            )
        return notes

    def provenance(self) -> Fields:
        """The constants of the rule and what the table says, under ``accuracy``."""
        rule = load_rule().model_dump(mode="json") if self._has_recovery else {}
        table = {} if self._table is None else {"table": self._table.content()}
        return {"accuracy": {**rule, **table}} if self.declared else {}


def _beats(rows: Arrays, better: int, worse: int, required: Strings) -> bool:
    """Whether a value never costs more than another, and always less in a wanted metric."""
    is_never_above = all((row[better] <= row[worse]).all() for row in rows.values())
    return is_never_above and any(
        (rows[name][better] < rows[name][worse]).all() for name in required
    )
