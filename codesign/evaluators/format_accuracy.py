"""What the formats of a design cost in accuracy: a metric that needs no hardware.

The formats of the phase hold for the whole model: weights, inputs of products with weights, KV
cache. Where a score is published for exactly these formats, algorithm and model, it counts; all
else is estimated by the rule of ``codesign.quantization.loss_rule``, with an interval.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from codesign.columns import Columns, FloatArray, Value
from codesign.evaluators.base import Explanation
from codesign.metrics import ACCURACY_METRICS
from codesign.quantization.loss_rule import Estimate, estimate, load_rule
from codesign.quantization.published import FormatChoice
from codesign.workload import LanguageModel, parameter_count

QuantizationAlgorithm: TypeAlias = Literal["rtn", "gptq", "quarot", "spinquant", "autoround"]
ALGORITHM = "quantization_algorithm"
PARAMETERS = ("weight_format", "activation_format", "kv_format", ALGORITHM)
"""In the order of ``FormatChoice``."""
_WIDE = "bf16"
"""The format of what has none of its own."""
_ATTRIBUTES = dict(zip(ACCURACY_METRICS, ("ratio", "low", "high"), strict=True))


class FormatAccuracy:
    """Recovery of the accuracy at 16 bits by formats and algorithm.

    Args:
        model: Whose answers.
        algorithm: How formats are reached, where the space does not say it.
    """

    def __init__(self, model: LanguageModel, algorithm: str) -> None:
        self._model = model.name
        self._n_parameters = float(parameter_count(model))
        self._defaults = dict.fromkeys(PARAMETERS, _WIDE) | {ALGORITHM: algorithm}
        self._known: dict[tuple[Value, ...], Estimate] = {}

    def metrics(self, designs: Columns, names: Sequence[str]) -> dict[str, FloatArray]:
        """(n,) of those names that are metrics of accuracy."""
        return self.best_case(designs, {}, names)

    def best_case(
        self, designs: Columns, undecided: Mapping[str, Sequence[Value]], names: Sequence[str]
    ) -> dict[str, FloatArray]:
        """(n,) what no completion of a design beats: the best of the formats that are open."""
        wanted = [name for name in names if name in _ATTRIBUTES]
        if not wanted:
            return {}
        values = [self._values(name, designs, undecided) for name in PARAMETERS]
        estimates = [self._estimate(*chosen) for chosen in itertools.product(*values)]
        n = len(next(iter(designs.values())))
        open_axes = tuple(i for i, name in enumerate(PARAMETERS) if name not in designs)
        codes = tuple(designs[name].codes for name in PARAMETERS if name in designs)
        best = {}
        for name in wanted:
            table = np.array([getattr(item, _ATTRIBUTES[name]) for item in estimates])
            table = table.reshape([len(of_axis) for of_axis in values]).max(axis=open_axes)
            best[name] = np.broadcast_to(table[codes], (n,)).copy()
        return best

    def _values(
        self, name: str, designs: Columns, undecided: Mapping[str, Sequence[Value]]
    ) -> Sequence[Value]:
        if name in designs:
            return designs[name].values
        return undecided.get(name, (self._defaults[name],))

    def _estimate(self, *chosen: Value) -> Estimate:
        if chosen not in self._known:
            formats = FormatChoice(*(str(value) for value in chosen))
            self._known[chosen] = estimate(formats, self._model, self._n_parameters)
        return self._known[chosen]

    def superseded(
        self,
        values: Mapping[str, Sequence[Value]],
        keys: Mapping[str, Sequence[Hashable]],
        objectives: Sequence[str],
    ) -> dict[str, list[bool]]:
        """By parameter, which values one with the same key beats in every design.

        Args:
            values: Of every parameter of the space.
            keys: By parameter a key for each value; values of equal keys differ in accuracy alone.
            objectives: Metrics to maximize.
        """
        wanted = [name for name in objectives if name in _ATTRIBUTES]
        if not wanted:
            return {}
        axes = [values.get(name, (self._defaults[name],)) for name in PARAMETERS]
        estimates = [self._estimate(*chosen) for chosen in itertools.product(*axes)]
        shape = [len(axis) for axis in axes]
        tables = {
            name: np.array([getattr(item, attribute) for item in estimates]).reshape(shape)
            for name, attribute in _ATTRIBUTES.items()
        }
        beaten = {}
        for place, name in enumerate(PARAMETERS):
            if name in values:
                rows = {key: np.moveaxis(item, place, 0) for key, item in tables.items()}
                beaten[name] = [
                    any(
                        keys[name][better] == keys[name][value]
                        and _beats(rows, better, value, wanted)
                        for better in range(shape[place])
                    )
                    for value in range(shape[place])
                ]
        return beaten

    def added_to(self, account: Explanation, designs: Columns) -> Explanation:
        """The account of one design with metrics of accuracy, and where they come from."""
        recovery = self.metrics(designs, list(ACCURACY_METRICS))
        metrics = {name: float(values[0]) for name, values in recovery.items()}
        return replace(
            account,
            metrics={**account.metrics, **metrics},
            notes=[*account.notes, self.note(designs)],
        )

    def note(self, designs: Columns) -> str:
        """Where the number of one design comes from."""
        chosen = [
            designs[name].to_list()[0] if name in designs else self._defaults[name]
            for name in PARAMETERS
        ]
        result = self._estimate(*chosen)
        return f"accuracy_recovery is {result.basis}: {result.source}"

    def provenance(self) -> Mapping[str, Any]:
        """The constants of the rule."""
        return load_rule().model_dump(mode="json")


def _beats(rows: Mapping[str, FloatArray], better: int, worse: int, wanted: Sequence[str]) -> bool:
    """Whether a value is never below another in a metric, and always above it in a wanted one."""
    is_never_below = all((row[better] >= row[worse]).all() for row in rows.values())
    return is_never_below and any((rows[name][better] > rows[name][worse]).all() for name in wanted)
