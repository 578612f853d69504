"""Systems whose machines are all alike: one design that prefills and decodes.

A design is a machine and a number of machines. The evaluator gives each machine its role, as many
to each as is best in throughput; or lets every machine prefill and decode in turns. Metrics follow
from those of the machine in both roles by the arithmetic of :class:`SystemEvaluator`, and never get
worse if these get better; so the machine's bounds in both roles bound the system, and the exact
front of such systems is found as that of machines is (docs/exact-fronts.md).

Limiting assumption: in turns, a change of role costs nothing and each role has all of the memory,
so that the rate is one that no such machine exceeds.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from codesign.base.columns import (
    MOST_COMBINATIONS,
    Column,
    Columns,
    FloatArray,
    IntArray,
    Value,
    combined,
    distinct,
    taken,
)
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import SYSTEM_METRICS, Metric, chosen_metrics
from codesign.base.schema import Record
from codesign.evaluators.system.design_pool import DesignPool
from codesign.evaluators.system.system_evaluator import MACHINES, SystemEvaluator

_RATE, _TDP = "throughput_tokens_per_s", "tdp_watts"


@dataclass(frozen=True)
class RoleShare:
    """Work of ``n`` machines in one role; every array is (n,).

    Attributes:
        machines: How many have the role; in turns, the part of all machines' time.
        metrics: Of one machine in the role, by name.
        software: Position of the values of software with which it is best.
    """

    machines: FloatArray
    metrics: Mapping[str, FloatArray]
    software: IntArray


class UniformSystem(Evaluator):
    """Throughput and TDP of systems of machines that are all alike.

    Args:
        system: Of two pools of designs with bounds, one that prefills and one that decodes.
        links: What the links between them are, by parameter.
        most_machines: Largest number of machines in a role.
        software: Parameters that each role sets for itself to what is best in throughput, with the
            values allowed; designs' own values of them do not count.
        takes_turns: Whether every machine has both roles in turns.

    Raises:
        InputError: Other pools.
    """

    Workload: ClassVar[type[Record]] = SystemEvaluator.Workload
    Options: ClassVar[type[Record]] = SystemEvaluator.Options
    metrics: tuple[Metric, ...] = (SYSTEM_METRICS[_RATE], SYSTEM_METRICS[_TDP])

    def __init__(
        self,
        system: SystemEvaluator,
        links: Mapping[str, float],
        most_machines: int,
        software: Mapping[str, Sequence[Value]],
        takes_turns: bool = False,
    ) -> None:
        pools = {
            name: item
            for name, item in system.machines.items()
            if isinstance(item, DesignPool) and item.offers("best_case")
        }
        requests = [machine.evaluator.workload for machine in pools.values()]
        tasks = [(request.phase, request.layers) for request in requests]
        if tasks != [("prefill", "all"), ("decode", "all")] or len(pools) < len(system.machines):
            raise InputError("expected a pool of npu that prefills and one that decodes")
        self.pools = pools
        self.software = list(itertools.product(*software.values()))
        self._system, self._links = system, dict(links)
        self._most, self._takes_turns = most_machines, takes_turns
        self._software_names = tuple(software)
        machine = next(iter(pools.values()))
        self.required_parameters = machine.required_parameters | {MACHINES}
        self.optional_parameters = machine.optional_parameters
        self.undecided_parameters = machine.undecided_parameters
        self._needed = system.pool_metrics([_RATE, _TDP])

    @property
    def profile(self) -> str:
        return self._system.profile

    def provenance(self) -> Mapping[str, Any]:
        return {
            "system": self._system.provenance(),
            "links": self._links,
            "most_machines": self._most,
            "software": [self._software_names, self.software],
            "takes_turns": self._takes_turns,
        }

    # --- designs -----------------------------------------------------------------------------

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        """The limits of the machine in each role, and ``roles``: a machine for each; (n,)."""
        limits = {
            f"{name}_{limit}": values
            for name, machine in self.pools.items()
            for limit, values in machine.known_violations(_machine(designs)).items()
        }
        if not self._takes_turns:
            limits["roles"] = len(self.pools) - designs[MACHINES].lookup(float)
        return limits

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        names = chosen_metrics(metrics, [metric.name for metric in self.metrics])
        values = self._totals(designs, self.shares(designs))
        limits = {
            f"{name}_{limit}": excess
            for name, machine in self.pools.items()
            for limit, excess in machine.known_violations(_machine(designs)).items()
        }
        return Evaluation({name: values[name] for name in names}, limits)

    def shares(self, designs: Columns) -> dict[str, RoleShare]:
        """Work of the machines of ``n`` systems, by the name of the pool that has the role."""
        few, number = _distinct_machines(designs)
        chosen_pools = {name: self._best_software(name, few, number) for name in self.pools}
        values = {name: metrics for name, (metrics, _) in chosen_pools.items()}
        machines = self._machines_by_role(designs[MACHINES].lookup(float), values)
        return {
            name: RoleShare(machines[name], metrics, software)
            for name, (metrics, software) in chosen_pools.items()
        }

    def _best_software(
        self, pool: str, few: Columns, number: IntArray
    ) -> tuple[dict[str, FloatArray], IntArray]:
        """(n,) metrics in a role and position of the software, of ``u`` distinct machines."""
        machine, n, v = self.pools[pool], len(next(iter(few.values()))), len(self.software)
        columns = {name: Column(x.values, np.tile(x.codes, v)) for name, x in few.items()}
        columns |= self._software_columns(np.repeat(np.arange(v), n))
        values = machine.evaluate(columns, self._needed[pool]).metrics
        best = values[_RATE].reshape(v, n).argmax(axis=0)
        rows = best * n + np.arange(n)
        return {name: x[rows][number] for name, x in values.items()}, best[number]

    def _software_columns(self, positions: IntArray) -> dict[str, Column]:
        """Columns of parameters of software, by the position of their values."""
        columns = {}
        for place, name in enumerate(self._software_names):
            values = tuple(dict.fromkeys(item[place] for item in self.software))
            codes = np.array([values.index(item[place]) for item in self.software])
            columns[name] = Column(values, codes[positions])
        return columns

    def software_of(self, position: int) -> dict[str, Value]:
        """The values of software at a position, by parameter."""
        return dict(zip(self._software_names, self.software[position], strict=True))

    # --- systems -----------------------------------------------------------------------------

    def _machines_by_role(
        self, machines: FloatArray, values: Mapping[str, Mapping[str, FloatArray]]
    ) -> dict[str, FloatArray]:
        """(n,) machines by pool, as many in each as is best in throughput.

        Args:
            machines: (n,) of the system.
            values: (n,) metrics of a machine by pool.
        """
        first, second = self.pools
        if self._takes_turns:
            times = self._request_s(values)
            return {name: machines * item / sum(times.values()) for name, item in times.items()}
        best, senders = np.full(len(machines), -1.0), np.ones(len(machines))
        for n in range(1, self._most + 1):
            others = machines - n
            is_possible = (others >= 1) & (others <= self._most)
            counts = {first: np.full(len(machines), float(n)), second: np.maximum(others, 1.0)}
            rate = self._rate(values, counts)
            is_better = is_possible & (rate > best)
            best[is_better], senders[is_better] = rate[is_better], n
        return {first: senders, second: machines - senders}

    def _request_s(self, values: Mapping[str, Mapping[str, FloatArray]]) -> dict[str, FloatArray]:
        """(n,) time of one machine for one request, by role."""
        return {
            name: float(machine.evaluator.workload.tokens_of_phase) / values[name][_RATE]
            for name, machine in self.pools.items()
        }

    def _rate(
        self,
        values: Mapping[str, Mapping[str, FloatArray]],
        machines: Mapping[str, FloatArray],
    ) -> FloatArray:
        shared = {f"{name}_{MACHINES}": count for name, count in machines.items()}
        n = len(next(iter(machines.values())))
        shared |= {name: np.full(n, value) for name, value in self._links.items()}
        return self._system.compose(values, shared, [_RATE])[_RATE]

    def _totals(self, designs: Columns, shares: Mapping[str, RoleShare]) -> dict[str, FloatArray]:
        machines = designs[MACHINES].lookup(float)
        values = {name: share.metrics for name, share in shares.items()}
        tdp_watts = machines * next(iter(values.values()))[_TDP]
        if self._takes_turns:
            times = self._request_s(values)
            tokens = float(self._system.workload.tokens.generated_tokens)
            return {_RATE: machines / sum(times.values()) * tokens, _TDP: tdp_watts}
        counts = {name: share.machines for name, share in shares.items()}
        return {_RATE: self._rate(values, counts), _TDP: tdp_watts}

    # --- bounds ------------------------------------------------------------------------------

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        """Classes of values as the machine has them."""
        return next(iter(self.pools.values())).interchangeable(parameter, values)

    def best_case(
        self,
        designs: Columns,
        undecided: Mapping[str, Sequence[Value]],
        metrics: Sequence[str],
    ) -> Mapping[str, FloatArray]:
        """(n,) what no completion of a design beats: the system of the roles' best cases."""
        few, number = _distinct_machines(designs)
        columns = {name: item for name, item in few.items() if name not in self._software_names}
        open_values = dict(undecided)
        for place, name in enumerate(self._software_names):
            open_values[name] = list(dict.fromkeys(item[place] for item in self.software))
        values = {}
        for name, machine in self.pools.items():
            best = machine.best_case(columns, open_values, self._needed[name])
            values[name] = {metric: best[metric][number] for metric in self._needed[name]}
        machines = self._machines_by_role(designs[MACHINES].lookup(float), values)
        nothing = np.zeros(len(number), dtype=np.int64)
        shares = {name: RoleShare(machines[name], values[name], nothing) for name in values}
        totals = self._totals(designs, shares)
        return {name: totals[name] for name in metrics}


def _machine(designs: Columns) -> Columns:
    """The parameters of the machine."""
    return {name: column for name, column in designs.items() if name != MACHINES}


def _distinct_machines(designs: Columns) -> tuple[Columns, IntArray]:
    """The ``u`` distinct machines of ``n`` systems, and (n,) which of them each system has."""
    machine = _machine(designs)
    key, limit = combined(*(column.codes for column in machine.values()))
    if limit >= MOST_COMBINATIONS:
        return machine, np.arange(len(key))
    number, first = distinct(key, limit)
    return taken(machine, first), number
