"""The ``npu`` evaluator: operator-level roofline over a hierarchical, double-buffered memory.

Implements and extends the system model of MemExplorer [MemExplorer]_ §2 and §4: every operator
takes the longest of its time on the array, through the on-chip port and through the off-chip
tiers, plus the first chunk that nothing hides.

.. [MemExplorer] "MemExplorer: memory system synthesis for heterogeneous NPUs".
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    Column,
    Columns,
    Domains,
    Fields,
    FloatMap,
    IntArray,
    StringMap,
    Strings,
    StringTuple,
    Value,
    compute_once,
    n_designs,
    shared_part,
)
from codesign.base.evaluator import Evaluation, Explanation, PoolPrices
from codesign.base.metrics import (
    ECONOMICS_METRICS,
    FOR_POOLS,
    METRICS,
    POOL_METRICS,
    chosen_metrics,
)
from codesign.base.records import drop_keys, select_keys
from codesign.evaluators.format_accuracy import ALGORITHM, FormatAccuracy
from codesign.evaluators.npu.best_case import UNDECIDED_PARAMETERS, BestCase
from codesign.evaluators.npu.choice import BatchAndOrderChoice, Chosen
from codesign.evaluators.npu.compiled import is_worthwhile, switch
from codesign.evaluators.npu.cost_metrics import (
    COST_METRICS,
    PARTS_OF_COST,
    absent_metrics,
    pool_prices,
)
from codesign.evaluators.npu.design_explanation import explain
from codesign.evaluators.npu.design_metrics import DesignMetrics
from codesign.evaluators.npu.npu_features import BOUNDED, BOUNDED_ALIKE, features
from codesign.evaluators.npu.npu_options import NpuOptions, account_constants
from codesign.evaluators.npu.operator_times import Pass
from codesign.evaluators.npu.preparation import STRATEGIES, Preparation
from codesign.evaluators.npu.variants import OPTION_PARAMETERS, Stated, has_variants, variants
from codesign.evaluators.phase_machine import BATCH_SIZE, PhaseMachine
from codesign.models.accounts.account_constants import (
    POWER_CONSTANTS,
    constant_ranges,
    moved_between,
)
from codesign.models.accounts.memory_prices import price_list
from codesign.models.deployments import SINGLE, Parallelism, model_part
from codesign.models.deployments.grouping import has_degrees
from codesign.models.deployments.parallelism import REPLICA_DEGREES
from codesign.models.hardware.accelerator import OPTIONAL_PARAMETERS, REQUIRED_PARAMETERS
from codesign.models.memtech import (
    Range,
    Technologies,
    load_library,
)
from codesign.models.workload import Request
from codesign.models.workload.precision import FORMAT_KEYS

CHUNK = 2048
"""Distinct designs evaluated at a time, so that the (n, o) tables stay in the cache."""
COMPILED_CHUNK = 16384
"""The same of the compiled loop, which keeps no such tables."""
LARGEST_CHUNK = 32768
"""Designs evaluated at a time at most, however many of them are the same."""
_WORTH_GROUPING = 1.25
"""Designs that are the same to the operators, on average, from which it pays to look for them."""

_OTHER_PHASE = {"prefill": "time_per_output_token_s", "decode": "time_to_first_token_s"}

_LATENCIES = ("time_per_output_token_s", "tokens_per_s_per_user", "phase_time_s")
"""Metrics within whose limits a batch size is chosen."""

POWER_METRICS = frozenset(
    {
        "tdp_watts",
        "average_power_watts",
        "energy_joules_per_token",
        "energy_joules_per_request",
        "tokens_per_joule",
        "tokens_per_joule_tdp",
        "dynamic_joules_per_token",
    }
)
"""Metrics that depend on what an operation takes, besides what designs cost."""

_NO_CONSEQUENCE = {"name", "note", "sources", "data_pins", "status", "available", "date", "edition"}
"""Keys of a technology's file that change no metric."""


class NpuEvaluator(PhaseMachine):
    """Roofline of every operator over a hierarchical, double-buffered memory, with power.

    ``explain`` lists the assumptions in force.

    Args:
        library: Memory technologies by name; all that are found if None.

    Raises:
        InputError: The model cannot be loaded, a technology file is wrong, or the environment
            asks for a compiled loop that cannot be had.
    """

    Options = NpuOptions
    options: NpuOptions

    required_parameters = REQUIRED_PARAMETERS | {*FORMAT_KEYS, *STRATEGIES}
    optional_parameters = OPTIONAL_PARAMETERS | {BATCH_SIZE, *REPLICA_DEGREES, *OPTION_PARAMETERS}

    def __init__(
        self,
        workload: Request,
        options: NpuOptions | None = None,
        *,
        library: Technologies | None = None,
    ) -> None:
        switch()  # a wrong one is better told now than with every batch
        self.workload = workload
        self.options = (options or NpuOptions()).resolved()
        self._library = load_library() if library is None else library
        if self.options.prices is not None:
            self._library = price_list(self.options.prices).priced(self._library)
        self._limits: FloatMap = {}
        self._moved_constants: FloatMap = {}
        self._spread_over(SINGLE)
        self.preparation  # noqa: B018 # options that no design can have are refused at once
        self.metrics = tuple(
            metric for metric in METRICS.values() if metric.name != _OTHER_PHASE[workload.phase]
        )
        self.metrics += (ECONOMICS_METRICS["usd_per_million_tokens"],)
        self.accuracy = FormatAccuracy(workload.language_model, self.options)
        if self.accuracy.declared:
            self.metrics += tuple(self.accuracy.declared.values())
            self.optional_parameters = self.optional_parameters | {ALGORITHM}
            clock, *later = UNDECIDED_PARAMETERS
            later = later[len(FORMAT_KEYS) :]
            self.undecided_parameters = (clock, *FORMAT_KEYS, ALGORITHM, *later)

    undecided_parameters: StringTuple = UNDECIDED_PARAMETERS
    kept_limits = frozenset({"time_per_output_token_s", "tokens_per_s_per_user", "phase_time_s"})
    metrics_for_pools = FOR_POOLS

    def _spread_over(self, parallelism: Parallelism) -> None:
        """Take the part of the model that one of several devices has."""
        self.part = model_part(self.workload, parallelism)
        self.pass_ = Pass(self.part.table, self.options, self.workload.phase)
        self._forget_models()

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        """Formats of equal widths are, without metrics of accuracy; all other values differ."""
        if self.accuracy.declared:
            return values
        return self._best_case.interchangeable(parameter, values)

    def superseded(self, values: Domains, objectives: Strings) -> Mapping[str, Sequence[bool]]:
        """Formats, and algorithms, that cost more accuracy than others of the same widths."""
        if not self.accuracy.declared:
            return {}
        keys = {
            name: self._best_case.interchangeable(name, values[name])
            if name in FORMAT_KEYS
            else [""] * len(values[name])
            for name in (*FORMAT_KEYS, ALGORITHM)
            if name in values
        }
        return self.accuracy.superseded(values, keys, objectives)

    def best_case(
        self,
        designs: Columns,
        undecided: Domains,
        metrics: Strings,
    ) -> Arrays:
        """(n,) what no completion of a design beats (see ``best_case.py``)."""
        if open_options := [name for name in OPTION_PARAMETERS if name in undecided]:
            rest = drop_keys(undecided, open_options)
            every = [
                self.best_case({**designs, **columns}, rest, metrics)
                for columns in self._open_columns(designs, undecided, metrics)
            ]
            declared = (*self.metrics, *POOL_METRICS.values())
            largest = {metric.name for metric in declared if metric.sense == "maximize"}
            return {
                name: (np.fmax if name in largest else np.fmin).reduce([x[name] for x in every])
                for name in every[0]
            }
        if has_variants(designs):
            return self._group_results(
                designs, lambda group, columns: group.best_case(columns, undecided, metrics)
            )
        best = self._best_case.bounds(designs, undecided, metrics)
        return best | self.accuracy.best_case(designs, undecided, metrics)

    def least_violations(self, designs: Columns, undecided: Domains) -> Arrays:
        if has_degrees(designs):
            return {}
        return self._best_case.least_violations(designs, undecided)

    def _open_columns(
        self,
        designs: Columns,
        undecided: Domains,
        metrics: Strings,
    ) -> Iterator[Columns]:
        """Columns of every combination of undecided options that may have the best metrics."""
        codes = np.zeros(n_designs(designs), np.int64)
        values = select_keys(undecided, OPTION_PARAMETERS)
        if "process" in values and not set(metrics) & {*COST_METRICS, *PARTS_OF_COST}:
            values["process"] = self._frugal_processes(values["process"])
        for combination in itertools.product(*values.values()):
            columns = zip(values, combination, strict=True)
            yield {name: Column((value,), codes) for name, value in columns}

    def _frugal_processes(self, processes: Sequence[Value]) -> Sequence[Value]:
        """The process with the least of every energy; all processes if there is none."""
        constants = [
            account_constants(self._options_of((("process", str(process)),)))
            for process in processes
        ]
        energies = [[getattr(x, name) for name in POWER_CONSTANTS] for x in constants]
        least = min(energies)
        if any(x[-1] != least[-1] or not np.less_equal(least, x).all() for x in energies):
            return processes
        return [processes[energies.index(least)]]

    def _forget_models(self) -> None:
        """Forget all that depends on technologies, options and limits: it is built when needed."""
        self._deployed: dict[tuple[Parallelism, Stated], NpuEvaluator] = {}
        for name in ("preparation", "_longest_pass_s", "_choice", "_best_case"):
            self.__dict__.pop(name, None)

    @cached_property
    def preparation(self) -> Preparation:
        """Tables that all designs share."""
        return Preparation(self.workload, self.part, self.options, self._library, self.pass_)

    @cached_property
    def _longest_pass_s(self) -> float:
        """Longest pass within the limits on latency."""
        limits = self._limits
        tokens = float(self.workload.tokens_of_phase)
        step_s, user_tokens_per_s, phase_s = (limits.get(name) for name in _LATENCIES)
        longest = (
            np.inf if step_s is None else step_s * tokens,
            tokens / max(user_tokens_per_s or 0.0, 1e-300),
            np.inf if phase_s is None else phase_s,
        )
        return float(min(longest) / (float(self.pass_.table.n_passes) * self.part.n_stages))

    @cached_property
    def _choice(self) -> BatchAndOrderChoice:
        return BatchAndOrderChoice(self.preparation, self._longest_pass_s)

    @cached_property
    def _best_case(self) -> BestCase:
        return BestCase(self.preparation, self._longest_pass_s)

    def technologies(self) -> Technologies:
        return self._library

    def replace_library(self, library: Technologies) -> NpuEvaluator:
        """The same evaluator over other memory technologies; the model is not lowered again."""
        return self._changed(_library=library)

    def _changed(self, **attributes: object) -> NpuEvaluator:
        evaluator = copy.copy(self)
        vars(evaluator).update(attributes)
        evaluator._forget_models()
        return evaluator

    def constant_ranges(self, metrics: Strings) -> Mapping[str, Range]:
        """Ranges of the constants that these metrics depend on, unless the options state them."""
        ranges = constant_ranges(self.options.process)
        if not set(metrics) & {*COST_METRICS, *PARTS_OF_COST}:
            names = POWER_CONSTANTS if set(metrics) & POWER_METRICS else ()
            ranges = {name: ranges[name] for name in names}
        return {
            name: Range(low=item.low, typical=item.typical, high=item.high)
            for name, item in ranges.items()
            if name not in self.options.constants
        }

    def replace_constants(self, values: FloatMap) -> NpuEvaluator:
        constants = {**self.options.constants, **values}
        options = self.options.model_copy(update={"constants": constants})
        return self._changed(_moved_constants={**self._moved_constants, **values}, options=options)

    def keep_limits(self, limits: FloatMap) -> NpuEvaluator:
        """The same evaluator; the policy ``best`` chooses batch sizes that keep these limits.

        Args:
            limits: By metric the largest value allowed, or the least of one to maximize; all but
                those on latency are ignored.
        """
        return self._changed(_limits=limits)

    def choosing_metrics(self, parameters: Collection[str]) -> frozenset[str]:
        """The latencies, where the batch size is chosen: in a decode, unless it is stated."""
        preparation = self.preparation
        fixed = preparation.fixed_batches
        is_stated = preparation.batch_policy == "capacity" or (fixed is not None and len(fixed) < 2)
        is_chosen = self.workload.phase == "decode" and BATCH_SIZE not in parameters
        return frozenset(_LATENCIES if is_chosen and not is_stated else ())

    @property
    def prices(self) -> PoolPrices:
        return pool_prices(self.options)

    def provenance(self) -> Fields:
        """Workload, model, options and technologies, as plain JSON values."""
        return {
            "workload": self.workload.model_dump(mode="json"),
            "model": self.workload.language_model.model_dump(mode="json"),
            "options": self.options.model_dump(mode="json"),
            "memtech": {
                name: item.model_dump(mode="json", exclude=_NO_CONSEQUENCE)
                for name, item in self._library.items()
            },
            **self.accuracy.provenance(),
        }

    def known_violations(self, designs: Columns) -> Arrays:
        """``capacity``, ``shoreline`` and ``levels``, as relative excess; (n,) each.

        With degrees of parallelism also ``devices``: more of them than heads, layers or experts.
        """
        if has_variants(designs):
            return self._group_results(
                designs,
                lambda group, columns: {
                    **group.known_violations(columns),
                    "devices": np.full(n_designs(columns), group.excess),
                },
            )
        return self.preparation.prepared(designs).violations

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        declared = self.metric_names
        names = chosen_metrics(declared if metrics is None else metrics, {*declared, *FOR_POOLS})
        if has_variants(designs):
            return self._evaluate_deployed(designs, names)
        n = n_designs(designs)
        of_formats = self.accuracy.metrics(designs, names)
        names = [name for name in names if name not in of_formats]
        values = {name: np.empty(n) for name in names}
        violations: ArrayDict = {}
        is_compiled = is_worthwhile(n)
        repetition, whole_repetition = compute_once(
            designs, ("repetition", self.preparation.key),
            lambda: [
                self.preparation.repetition(designs, is_whole=is_whole)
                for is_whole in (False, True)
            ],
        )  # fmt: skip
        size = min(int((COMPILED_CHUNK if is_compiled else CHUNK) * repetition), LARGEST_CHUNK)
        for start in range(0, n, size):
            part = slice(start, min(start + size, n))
            columns: Columns = compute_once(
                designs, (start, size), partial(shared_part, designs, part)
            )
            each: IntArray | slice = slice(None)
            if whole_repetition > _WORTH_GROUPING:
                columns, each = self.preparation.deduplicated(columns)
            chosen = self._chosen(columns, repetition > _WORTH_GROUPING, is_compiled)
            result = self.metrics_of(chosen)
            for name in names:
                values[name][part] = result.value(name)[each]
            for name, excess in chosen.designs.violations.items():
                violations.setdefault(name, np.empty(n))[part] = excess[each]
        return Evaluation(values | of_formats, violations)

    def _chosen(self, designs: Columns, is_grouped: bool, is_compiled: bool) -> Chosen:
        """Designs with batch size and order of tiers; of equal ones, each is worked out once."""
        if not is_grouped:
            return self._choice.choose(designs, is_compiled)
        few, number = self.preparation.distinct_to_operators(designs, self._choice.is_limited)
        choices = self._choice.choose(few, is_compiled)
        if number is None:
            return choices
        return replace(choices, designs=self.preparation.prepared(designs), repeats=number)

    def metrics_of(self, chosen: Chosen) -> DesignMetrics:
        """Every metric of designs with batch size and order of tiers."""
        return DesignMetrics(chosen)

    def explain(self, designs: Columns) -> Explanation:
        if has_variants(designs):
            ((parallelism, stated, _, columns),) = variants(designs)
            group = self.group_of(parallelism, stated)
            explanation = group.explain(columns)
            violations = {**explanation.violations, "devices": group.excess}
            return replace(explanation, violations=violations)
        return self.account(self.metrics_of(self.choose(designs)), designs)

    def account(self, results: DesignMetrics, designs: Columns) -> Explanation:
        """The account of one design that has these metrics."""
        names = [name for name in self.metric_names if name not in self.accuracy.declared]
        absent = self.absent_metrics({name: item.decoded() for name, item in designs.items()})
        absent = {name: why for name, why in absent.items() if name in names}
        return self.accuracy.added_to(explain(results, names, absent), designs)

    def absent_metrics(self, values: Domains) -> StringMap:
        is_rented = self.options.usd_per_hour is not None
        absent = absent_metrics(values, self._library, is_rented)
        return absent | self.accuracy.absent_metrics(values)

    def features(self, designs: Columns) -> Arrays:
        """(n,) what is known before any operator is looked at, for models of the metrics."""
        if has_variants(designs):
            return self._group_results(designs, NpuEvaluator.features)
        known_features = features(self.preparation.prepared(designs))
        best = self.best_case(designs, {}, BOUNDED)
        return known_features | {f"best_{name}": values for name, values in best.items()}

    def predict(self, designs: Columns, metrics: Strings) -> Arrays:
        """(n,) what designs cannot beat, of the metrics that have a bound: near what they have."""
        if has_variants(designs):
            return self._group_results(
                designs, lambda group, columns: group.predict(columns, metrics)
            )
        names = [name for name in metrics if name not in BOUNDED_ALIKE]
        bounds = self._best_case.bounds(designs, {}, names)
        return bounds | self.accuracy.metrics(designs, metrics)

    # --- several devices ---------------------------------------------------------------------

    @property
    def excess(self) -> float:
        """Excess of devices over the heads, layers or experts that they divide; relative."""
        return self.part.excess(self.workload.language_model)

    def group_of(self, parallelism: Parallelism, stated: Stated = ()) -> NpuEvaluator:
        """The evaluator of devices that serve the model together, with the options that they state.

        ``self`` for one device alone that states none.
        """
        if parallelism == self.part.parallelism and not stated:
            return self
        key = parallelism, stated
        if key not in self._deployed:
            evaluator = copy.copy(self)
            evaluator.options = self._options_of(stated)
            if parallelism == self.part.parallelism:
                evaluator._forget_models()  # no stated option changes the operators
            else:
                evaluator._spread_over(parallelism)
            self._deployed[key] = evaluator
        return self._deployed[key]

    def _options_of(self, stated: Stated) -> NpuOptions:
        """The options of designs that state some; constants are those of their process."""
        options = self.options.model_copy(update=dict(stated))
        if options.process == self.options.process or not self._moved_constants:
            return options
        moved = moved_between(self._moved_constants, self.options.process, options.process)
        return options.model_copy(update={"constants": {**self.options.constants, **moved}})

    def _group_results(
        self,
        designs: Columns,
        function: Callable[[NpuEvaluator, Columns], Arrays],
    ) -> Arrays:
        """(n,) by name what a function has for the designs of each group."""
        n = n_designs(designs)
        values: ArrayDict = {}
        groups = compute_once(designs, variants, lambda: [*variants(designs)])
        for parallelism, stated, positions, columns in groups:
            for name, of_group in function(self.group_of(parallelism, stated), columns).items():
                values.setdefault(name, np.empty(n))[positions] = of_group
        return values

    def _evaluate_deployed(self, designs: Columns, names: Strings) -> Evaluation:
        def evaluate_group(group: NpuEvaluator, columns: Columns) -> Arrays:
            result = group.evaluate(columns, names)
            devices = np.full(n_designs(columns), group.excess)
            return {**result.metrics, **result.violations, "devices": devices}

        values = dict(self._group_results(designs, evaluate_group))
        return Evaluation({name: values.pop(name) for name in names}, values)

    def choose(self, designs: Columns) -> Chosen:
        """Hardware, batch size, order of tiers and placement, from which others may start."""
        return self._choice.choose(designs)
