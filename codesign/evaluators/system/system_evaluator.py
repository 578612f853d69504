"""The ``system`` evaluator: pools of machines with a role each, joined by links.

Composes the evaluators of the pools' machines (``npu``, ``platform`` or any other of one phase of a
request) by the flow of requests (:mod:`.flow`). A system's design has the parameters of every pool
with the pool's name in front, the numbers of machines, and what the links are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

import numpy as np

from codesign.base.columns import (
    MACHINES,
    ArrayDict,
    Arrays,
    Columns,
    Domains,
    Fields,
    FloatArray,
    FloatDict,
    FloatMap,
    StringList,
    StringMap,
    StringPair,
    Strings,
    parameters_of_pool,
)
from codesign.base.errors import UnknownNameError
from codesign.base.evaluator import (
    Evaluation,
    Evaluator,
    Explanation,
    Failure,
    LinkDescription,
    PoolAccount,
    PoolDescription,
)
from codesign.base.metrics import (
    ALL_METRICS,
    FORMAT_METRICS,
    HIT_METRICS,
    SYSTEM_METRICS,
    Metric,
    chosen_metrics,
)
from codesign.base.records import drop_keys, select_keys
from codesign.evaluators.system.design_pool import DesignPool
from codesign.evaluators.system.device_pool import DevicePool
from codesign.evaluators.system.flow import SUMS, SystemFlow
from codesign.evaluators.system.hand_over import TIME_METRIC
from codesign.evaluators.system.parts import ExchangeFlow, HandOverFlow, PoolFlow, StageFlow
from codesign.evaluators.system.pool_links import (
    LINK_PARAMETERS,
    OPTIONAL_LINK_PARAMETERS,
    link_rates,
    links_in_order,
    ports_usd,
)
from codesign.evaluators.system.pool_machines import pool_machine
from codesign.evaluators.system.roles import PoolTask, pool_tasks
from codesign.evaluators.system.system_explanation import explain, explain_pools
from codesign.evaluators.system.system_options import SystemOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.memtech import (
    Range,
    Technologies,
)

_QUEUED = frozenset({"queue_wait_s", "time_to_first_token_p90_s"})
"""Metrics that need ``requests_per_s``."""
_NEEDS_PREFILL = _QUEUED | {"time_to_first_token_s", "time_to_second_token_s"}
_NEEDS_DECODE = frozenset({"time_per_output_token_s", "time_to_second_token_s"})
_NEEDS_HAND_OVER = frozenset({"handover_bytes", "handover_s", "handover_exposed_s"})
_NOT_MONOTONE = frozenset({
    "average_power_watts", "handover_exposed_s", "lifetime_years", "outer_hit_share",
    "cache1_hit_share", "cache2_hit_share", "cache3_hit_share",
})  # fmt: skip
"""A faster pool draws more power and wears the others out sooner, and a faster prefill hides less
of the hand-over. A cache finds less below a larger one."""
_DECLARED = SYSTEM_METRICS | FORMAT_METRICS | HIT_METRICS

_HINTED = ("throughput_tokens_per_s", "energy_joules_per_token", "tdp_watts")
"""Metrics whose bounds are features for models of the metrics."""
_ANY_COST = ("unit_cost_usd",)
"""A metric for which constants have ranges."""

_Machine = DesignPool | DevicePool


class _ReadValues(ArrayDict):
    """The value 1 for every name; the keys are the names that were read."""

    def __missing__(self, name: str) -> FloatArray:
        return self.setdefault(name, np.ones(1))


class SystemEvaluator(Evaluator):
    """Rates, latencies, energy and power of systems of pools.

    Raises:
        InputError: The model cannot be used.
    """

    Workload = SystemWorkload
    Options = SystemOptions
    workload: SystemWorkload
    options: SystemOptions

    kept_by_pools = frozenset(
        {"accuracy_recovery", "accuracy_recovery_low", "divergence_nats", "divergence_nats_high"}
    )
    """A system has the worst of its pools."""

    def __init__(self, workload: SystemWorkload, options: SystemOptions | None = None) -> None:
        self.workload = workload
        self.options = options or SystemOptions()
        self.machines: dict[str, _Machine] = {}
        self._tasks: dict[str, PoolTask] = {}
        self._links: list[LinkDescription] = []
        self._exchanges: list[LinkDescription] = []
        self._sources: dict[str, dict[str, set[str]]] = {}
        self.metrics = tuple(SYSTEM_METRICS.values())

    def join_pools(
        self, pools: Sequence[PoolDescription], links: Sequence[LinkDescription]
    ) -> SystemEvaluator:
        """The evaluator of systems with these pools and links.

        Raises:
            InputError: A phase of the workload has no pool, a pool has no work, two pools that
                follow one another have no link, or a pool's machines cannot be evaluated.
        """
        evaluator = copy.copy(self)
        unknown = sorted(set(self.options.pools) - {pool.name for pool in pools})
        if unknown:
            raise UnknownNameError(
                "pool", unknown[0], [pool.name for pool in pools], "evaluator: pools"
            )
        evaluator._tasks = pool_tasks(self.workload, pools)
        by_name = {pool.name: pool for pool in pools}
        evaluator.machines = {
            name: pool_machine(by_name[name], task, self.workload, self.options.options_of(name))
            for name, task in evaluator._tasks.items()
        }
        evaluator._links, evaluator._exchanges = links_in_order(evaluator._tasks, links)
        evaluator._declare()
        return evaluator

    def _declare(self) -> None:
        """Say which parameters and metrics systems of these pools have."""
        phases = {task.stage.phase for task in self._tasks.values()}
        needed = {
            _NEEDS_PREFILL: "prefill" in phases,
            _NEEDS_DECODE: "decode" in phases,
            _NEEDS_HAND_OVER: self._links,
            _QUEUED: self.workload.requests_per_s,
        }
        absent = {name for names, is_there in needed.items() if not is_there for name in names}
        declared = drop_keys(_DECLARED, absent)
        for member in (*self._tasks, *(link.name for link in self._all_links)):
            name = f"{member}_utilization"
            declared[name] = Metric(
                name, "maximize", "", f"share of the time in which {member} is busy"
            )
        self._sources = {}
        for name in declared:
            pools = {pool: _ReadValues() for pool in self._tasks}
            self.flow(pools, _ReadValues()).value(name)
            self._sources[name] = {pool: set(read) for pool, read in pools.items()}
        unreported = {name for pool in self._tasks for name in self.unreported(pool)}
        self.metrics = tuple(metric for name, metric in declared.items() if name not in unreported)
        members: list[tuple[str, Collection[str], Collection[str]]] = [
            (name, [MACHINES, *machine.required_parameters], machine.optional_parameters)
            for name, machine in self.machines.items()
        ]
        parameters = LINK_PARAMETERS, OPTIONAL_LINK_PARAMETERS
        members += [(link.name, *parameters) for link in self._all_links]
        self.required_parameters, self.optional_parameters = (
            frozenset(f"{member[0]}_{name}" for member in members for name in member[place])
            for place in (1, 2)
        )

    def unreported(self, pool: str) -> StringList:
        """Names of system metrics with an input that a pool's machines do not report."""
        reported = {metric.name for metric in self.machines[pool].metrics}
        return [name for name, sources in self._sources.items() if sources[pool] - reported]

    @property
    def _all_links(self) -> list[LinkDescription]:
        return [*self._links, *self._exchanges]

    @property
    def monotone_metrics(self) -> frozenset[str]:
        """Metrics that never get worse if a pool's metrics get better; see docs/exact-fronts.md."""
        return frozenset(
            metric.name
            for metric in self.metrics
            if metric.name in _DECLARED and metric.name not in _NOT_MONOTONE
        )

    def absent_metrics(self, values: Domains) -> StringMap:
        return {
            key: f"{name}: {why}"
            for name, machine in self.machines.items()
            for key, why in machine.absent_metrics(parameters_of_pool(name, values)).items()
        }

    @property
    def profile(self) -> str:
        """The profiles of the pools' machines."""
        return ", ".join(dict.fromkeys(machine.profile for machine in self.machines.values()))

    def keep_limits(self, limits: FloatMap) -> SystemEvaluator:
        """The same evaluator; pools choose batch sizes that keep the limits on latency."""
        return self._changed(
            lambda name, machine: (
                machine.keep_limits(latencies)
                if (latencies := _latencies(limits, self._tasks[name]))
                else machine
            )
        )

    def choosing_metrics(self, parameters: Collection[str]) -> frozenset[str]:
        """The latencies of which a pool is told, where its machines choose a batch size."""
        return frozenset(
            TIME_METRIC[task.stage.phase]
            for name, task in self._tasks.items()
            if self.machines[name].choosing_metrics(
                [parameter.removeprefix(f"{name}_") for parameter in parameters]
            )
        )

    # --- ranges ------------------------------------------------------------------------------

    def technologies(self) -> Technologies:
        """Technologies that can be replaced; devices of datasheets have none."""
        return {
            name: technology
            for machine in self.machines.values()
            for name, technology in machine.technologies().items()
        }

    def replace_library(self, library: Technologies) -> SystemEvaluator:
        """The same evaluator over other memory technologies, the same in all pools."""
        return self._changed(lambda _, machine: machine.replace_library(library))

    def constant_ranges(self, metrics: Strings) -> Mapping[str, Range]:
        """Ranges of the machines' cost constants, by name.

        Pools with equal ranges share a constant. Otherwise each pool has its own, with the pool's
        name as prefix.
        """
        return dict(self._constants(metrics).values())

    def replace_constants(self, values: FloatMap) -> SystemEvaluator:
        """The same evaluator with other constants of what machines cost."""
        by_pool: dict[str, FloatDict] = {pool: {} for pool in self.machines}
        for (pool, name), (name_in_system, _) in self._constants(_ANY_COST).items():
            if name_in_system in values:  # those without a width are not varied
                by_pool[pool][name] = values[name_in_system]
        return self._changed(lambda pool, machine: machine.replace_constants(by_pool[pool]))

    def _constants(self, metrics: Strings) -> dict[StringPair, tuple[str, Range]]:
        """The name in the system, and the range, of each pool's constant."""
        of_pools = [
            (pool, name, constant_range)
            for pool, machine in self.machines.items()
            for name, constant_range in machine.constant_ranges(metrics).items()
        ]
        distinct: dict[str, list[Range]] = {}
        for _, name, constant_range in of_pools:
            ranges_of_name = distinct.setdefault(name, [])
            ranges_of_name += [] if constant_range in ranges_of_name else [constant_range]
        return {
            (pool, name): (name if len(distinct[name]) == 1 else f"{pool}_{name}", constant_range)
            for pool, name, constant_range in of_pools
        }

    def _changed(self, change: Callable[[str, _Machine], Evaluator]) -> SystemEvaluator:
        """The same evaluator with changed machines."""
        evaluator = copy.copy(self)
        evaluator.machines = {
            name: cast("_Machine", change(name, machine)) for name, machine in self.machines.items()
        }
        return evaluator

    def provenance(self) -> Fields:
        """Workload, options and all of the pools' evaluators, as plain JSON values."""
        return {
            "workload": self.workload.model_dump(mode="json"),
            "options": self.options.model_dump(mode="json"),
            "pools": {name: machine.provenance() for name, machine in self.machines.items()},
        }

    # --- designs -----------------------------------------------------------------------------

    def pool_columns(self, designs: Columns, pool: str) -> Columns:
        """The parameters of one machine of a pool."""
        return parameters_of_pool(pool, designs)

    def shared_values(self, designs: Columns) -> Arrays:
        """(n,) numbers of machines, and what the links are."""
        names = [f"{pool}_{MACHINES}" for pool in self._tasks]
        of_links = (*LINK_PARAMETERS, *OPTIONAL_LINK_PARAMETERS)
        names += [f"{link.name}_{of_link}" for link in self._all_links for of_link in of_links]
        return {name: designs[name].lookup(float) for name in names if name in designs}

    def known_violations(self, designs: Columns) -> Arrays:
        """The limits of every pool's machines, with the pool's name in front; (n,) each."""
        return {
            f"{name}_{limit}": values
            for name, machine in self.machines.items()
            for limit, values in machine.known_violations(self.pool_columns(designs, name)).items()
        }

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        names = chosen_metrics(metrics, self.metric_names)
        needed = self.pool_metrics(names)
        values = {}
        violations: ArrayDict = {}
        failures: dict[int, str | Failure] = {}
        for name, machine in self.machines.items():
            evaluation = machine.evaluate(self.pool_columns(designs, name), needed[name])
            values[name] = evaluation.metrics
            violations |= {
                f"{name}_{limit}": excess for limit, excess in evaluation.violations.items()
            }
            for position, reason in evaluation.failures.items():
                text = f"{name}: {reason}"
                failures[position] = (
                    Failure(reason.kind, text) if isinstance(reason, Failure) else text
                )
        results = self.compose(values, self.shared_values(designs), names)
        return Evaluation(results, violations, failures)

    def flow(self, pools: Mapping[str, Arrays], shared: Arrays) -> SystemFlow:
        """Requests through systems; arguments as of :meth:`compose`."""
        n_layers = self.workload.language_model.num_hidden_layers
        flows = {
            name: PoolFlow(
                name,
                task.stage,
                shared[f"{name}_{MACHINES}"],
                pools[name],
                self.machines[name].prices,
                ports_usd(name, self._all_links, shared),
            )
            for name, task in self._tasks.items()
        }
        exchanges = {
            link.sender: ExchangeFlow(
                link.name,
                flows[link.sender],
                flows[link.receiver],
                self._tasks[link.sender].keys.get("steps_per_token", n_layers),
                link_rates(link, shared),
            )
            for link in self._exchanges
        }
        stages = {
            name: StageFlow([flow, exchanges[name].ffn], exchanges[name])
            if name in exchanges
            else StageFlow([flow])
            for name, flow in flows.items()
            if self._tasks[name].layers != "ffn"
        }
        links = [
            HandOverFlow(
                link.name,
                stages[link.sender],
                stages[link.receiver],
                n_layers,
                link_rates(link, shared),
                self.options.handover_setup,
            )
            for link in self._links
        ]
        return SystemFlow(
            list(stages.values()),
            links,
            self.options.first_token == "decode",
            self.workload.requests_per_s,
        )

    def compose(
        self,
        pools: Mapping[str, Arrays],
        shared: Arrays,
        metrics: Strings,
    ) -> Arrays:
        """(n,) metrics of systems from those of one machine of each pool.

        Args:
            pools: (n,) values by name of the pool and of its metric.
            shared: (n,) numbers of machines and of links by name of the parameter.
            metrics: Those wanted.
        """
        flow = self.flow(pools, shared)
        return {name: flow.value(name) for name in metrics}

    def features(self, designs: Columns) -> Arrays:
        """(n,) what the bounds of the pools' machines allow; nothing where a pool has no bounds."""
        pools = {}
        declared = set(self.metric_names)
        hinted = [name for name in _HINTED if name in declared]
        needed = self.pool_metrics(hinted)
        for name, machine in self.machines.items():
            if not machine.offers("best_case"):
                return {}
            pools[name] = machine.best_case(self.pool_columns(designs, name), {}, needed[name])
        shared = self.shared_values(designs)
        flow = self.flow(pools, shared)
        return {f"best_{name}": flow.value(name) for name in hinted} | {
            f"best_{pool.name}_requests_per_s": pool.requests_per_s for pool in flow.pools
        }

    def predict(self, designs: Columns, metrics: Strings) -> Arrays:
        """(n,) predictions of the system metrics whose inputs all pools predict."""
        needed = self.pool_metrics(metrics)
        pools = {
            name: machine.predict(self.pool_columns(designs, name), needed[name])
            for name, machine in self.machines.items()
        }
        decisive = {metric: self.pool_metrics([metric]) for metric in metrics}
        predicted = [
            metric
            for metric, of_pools in decisive.items()
            if all(pools[name].keys() >= set(names) for name, names in of_pools.items())
        ]
        return self.compose(pools, self.shared_values(designs), predicted)

    def explain(self, designs: Columns) -> Explanation:
        """The full account of one system: its pools, its links, and the way of one request."""
        return explain(self, designs)

    def explain_pools(self, designs: Columns) -> Mapping[str, PoolAccount]:
        """One machine of each pool, explained by itself."""
        return explain_pools(self, designs)

    # --- composition -------------------------------------------------------------------------

    def pool_evaluators(self) -> Mapping[str, Evaluator]:
        """The evaluator of one machine by name of the pool."""
        return self.machines

    def pool_metrics(self, metrics: Strings) -> Mapping[str, Strings]:
        """Metrics of one machine that decide on these metrics of systems, by pool."""
        return {
            pool: [
                name
                for name in ALL_METRICS
                if any(name in self._sources[metric][pool] for metric in metrics)
            ]
            for pool in self._tasks
        }

    def pool_limits(self, limits: FloatMap) -> Mapping[str, FloatMap]:
        """Limits that every machine of a system within limits keeps, by pool."""
        names = ("tdp_watts", "unit_cost_usd", *SUMS, *sorted(self.kept_by_pools))
        of_pool = select_keys(limits, names)
        return {
            name: (
                drop_keys(of_pool, self.kept_by_pools) if task.stage.name == "draft" else of_pool
            )
            | _latencies(limits, task)
            for name, task in self._tasks.items()
        }


def _latencies(limits: FloatMap, task: PoolTask) -> FloatDict:
    """Limits on what a request waits for in a pool; of a part of the steps, on none."""
    time = TIME_METRIC[task.stage.phase]
    # Only the mean over early and late is limited. A draft takes more steps than tokens.
    is_part = task.stage.name in ("early", "late", "draft")
    return {time: limits[time]} if time in limits and not is_part else {}
