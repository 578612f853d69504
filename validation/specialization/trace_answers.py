"""The best systems of each kind for each workload, and what sets them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from codesign.base.columns import IntArray, Value, design_columns
from codesign.base.errors import InfeasibleError
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.design_pool import DesignPool
from codesign.evaluators.system.uniform_system import UniformSystem
from codesign.insight.explanation import FrontsProgress
from codesign.insight.explanation.variation import QuietFronts
from codesign.models.workload import bits_per_element
from codesign.models.workload.storage import kv_elements
from codesign.models.workload.traces import load_trace
from codesign.report.labels import design_words
from codesign.search.enumeration import ExactFront, exact_front
from codesign.search.enumeration.composition import compose_front
from codesign.search.enumeration.enumerate import enumerate_front
from codesign.search.problem import Problem
from validation.specialization.system_problems import (
    KINDS,
    POOLS,
    Kind,
    SystemSetting,
    problem_of,
)

_OF_MACHINE = (
    "throughput_tokens_per_s",
    "tdp_watts",
    "batch_size",
    "peak_flop_per_s",
    "offchip_bandwidth_bytes_per_s",
)


@dataclass(frozen=True)
class RolePart:
    """The machines of a system in one role.

    Attributes:
        role: ``prefill`` or ``decode``.
        machines: How many; in turns, the part of all machines' time.
        tokens: Tokens of a request that the role handles.
        tokens_per_s: Of one machine, of the role's own tokens.
        tdp_watts: Of one machine.
        batch_size: Requests that one holds.
        design: Value by parameter of the machine; what is absent is left out.
        words: The same in short.
        least_request_s: Time of a request on one machine by its peak rates alone: the arithmetic
            of a prefill at peak compute, the weights (shared by the batch) and cache of a decode
            at peak bandwidth.
    """

    role: str
    machines: float
    tokens: int
    tokens_per_s: float
    tdp_watts: float
    batch_size: float
    design: Mapping[str, Value]
    words: str
    least_request_s: float

    @property
    def request_s(self) -> float:
        """Time of one machine for one request."""
        return self.tokens / self.tokens_per_s


@dataclass(frozen=True)
class BestSystem:
    """The system of a kind with the highest throughput within the limit.

    Attributes:
        throughput_tokens_per_s: Generated tokens.
        tdp_watts: Of all machines.
        most_machines: The most machines that a role may have.
        n_systems: Systems that the front proves about.
    """

    kind: Kind
    throughput_tokens_per_s: float
    tdp_watts: float
    prefill: RolePart
    decode: RolePart
    most_machines: int
    n_systems: int
    n_points: int

    @property
    def machine_ratio(self) -> float:
        """Prefill machines to decode machines."""
        return self.prefill.machines / self.decode.machines

    @property
    def watt_ratio(self) -> float:
        """Their TDP."""
        return self.machine_ratio * self.prefill.tdp_watts / self.decode.tdp_watts

    @property
    def balanced_ratio(self) -> float:
        """Machines at which both roles are always busy: (prompt / rate) / (generated / rate)."""
        return self.prefill.request_s / self.decode.request_s

    @property
    def peak_ratio(self) -> float:
        """The same on paper, from the peak rates of these machines."""
        return self.prefill.least_request_s / self.decode.least_request_s

    @property
    def is_at_edge(self) -> bool:
        """Whether a role, or in turns the system, has as many machines as it may have."""
        machines = (self.prefill.machines, self.decode.machines)
        if self.kind == "turns":
            return round(sum(machines)) >= self.most_machines * len(machines)
        return max(machines) >= self.most_machines


@dataclass(frozen=True)
class TraceAnswer:
    """Answer of the exact fronts for one workload.

    Attributes:
        prompt_tokens: Of a request.
        systems: The best by kind; kinds of which no system is feasible are left out.
        least_watts: By kind of machines that are all alike, TDP with which a system of a design
            for each phase has at least their throughput.
    """

    setting: SystemSetting
    prompt_tokens: int
    generated_tokens: int
    systems: Mapping[Kind, BestSystem]
    least_watts: Mapping[Kind, float]

    @property
    def token_ratio(self) -> float:
        """Prompt tokens to generated tokens."""
        return self.prompt_tokens / self.generated_tokens

    @property
    def gains(self) -> dict[Kind, float]:
        """Throughput of a design for each phase over that of machines that are all alike, both
        within the limit, by kind of machine."""
        best = self.systems["specialized"].throughput_tokens_per_s
        return {
            kind: best / item.throughput_tokens_per_s
            for kind, item in self.systems.items()
            if kind != "specialized"
        }

    @property
    def watt_shares(self) -> dict[Kind, float]:
        """Likewise, TDP of a design for each phase to theirs, with at least their throughput."""
        return {
            kind: watts / self.systems[kind].tdp_watts for kind, watts in self.least_watts.items()
        }


def answer_traces(
    settings: Sequence[SystemSetting],
    folder: Path | None = None,
    workers: int = 1,
    progress: FrontsProgress | None = None,
) -> list[TraceAnswer]:
    """The best systems of each kind in each setting.

    Args:
        settings: One for each workload.
        folder: Where exact fronts are kept; None: nowhere.
        progress: Told of every front.

    Raises:
        InputError: A model or trace that is not known.
        InfeasibleError: No system of two designs keeps the limit.
    """
    watcher = progress or QuietFronts()
    watcher.expect(len(settings) * len(KINDS))
    answers = [_Comparison(setting, folder, workers, watcher).answer() for setting in settings]
    watcher.finish()
    return answers


@dataclass
class _Comparison:
    """The kinds of systems under one setting."""

    setting: SystemSetting
    folder: Path | None
    workers: int
    progress: FrontsProgress
    _fronts: dict[Kind, ExactFront] = field(default_factory=dict)
    _problems: dict[Kind, Problem] = field(default_factory=dict)

    def answer(self) -> TraceAnswer:
        for kind in KINDS:
            problem = problem_of(self.setting, kind)
            self._problems[kind] = problem
            self.progress.begin(f"{self.setting.trace}, {KINDS[kind]}", problem.space.size)
            try:
                self._fronts[kind] = self._front(problem, kind)
            except InfeasibleError as error:
                if kind == "specialized":
                    raise InfeasibleError(f"{self.setting.trace}: {error}") from None
            finally:
                self.progress.end()
        trace = load_trace(self.setting.trace)
        best = {front: self._best(front) for front in self._fronts}
        return TraceAnswer(
            self.setting,
            trace.prompt_tokens,
            trace.generated_tokens,
            best,
            {kind: watts for kind, item in best.items() for watts in self._least_watts(item)},
        )

    def _front(self, problem: Problem, kind: Kind) -> ExactFront:
        rebuild = partial(problem_of, self.setting, kind)
        if self.folder is not None:
            return exact_front(problem, self.folder, workers=self.workers, rebuild=rebuild)
        if kind == "specialized":
            return compose_front(problem, lambda pool, _: enumerate_front(pool))
        return enumerate_front(problem, workers=self.workers, rebuild=rebuild)

    def _least_watts(self, alike: BestSystem) -> list[float]:
        """None where no system of a design for each phase is as fast, or it is one itself."""
        front = self._fronts["specialized"].objectives
        watts = front[-front[:, 0] >= alike.throughput_tokens_per_s, 1]
        return [float(watts.min())] if len(watts) and alike.kind != "specialized" else []

    @cached_property
    def _system(self) -> SystemEvaluator:
        evaluator = self._problems["specialized"].evaluator
        assert isinstance(evaluator, SystemEvaluator)  # of problem_of
        return evaluator

    def _best(self, kind: Kind) -> BestSystem:
        front, problem = self._fronts[kind], self._problems[kind]
        first = int(front.objectives[:, 0].argmin())
        rate, tdp_watts = -front.objectives[first, 0], front.objectives[first, 1]
        row = front.representatives()[first][None, :]
        parts = self._pool_parts(problem, row)
        levels = {
            parameter.name: parameter.values
            for parameter in self._problems["specialized"].space.parameters
        }
        return BestSystem(
            kind,
            float(rate),
            float(tdp_watts),
            *parts,
            most_machines=max(int(str(x)) for x in levels[f"{POOLS[0]}_machines"]),
            n_systems=front.n_designs,
            n_points=len(front),
        )

    def _pool_parts(self, problem: Problem, row: IntArray) -> tuple[RolePart, RolePart]:
        (design,) = problem.space.decode(row)
        evaluator = problem.evaluator
        if isinstance(evaluator, UniformSystem):
            shares = evaluator.shares(problem.space.columns(row))
            machine = {name: value for name, value in design.items() if name != "machines"}
            prefill, decode = (
                self._part(
                    role,
                    float(share.machines[0]),
                    {**machine, **evaluator.software_of(int(share.software[0]))},
                )
                for role, share in shares.items()
            )
            return prefill, decode
        prefill, decode = (
            self._part(
                role,
                float(str(design[f"{role}_machines"])),
                {
                    name: design[f"{role}_{name}"]
                    for name in self._problems["specialized"].space.pools[role].parameter_names
                },
            )
            for role in POOLS
        )
        return prefill, decode

    def _part(self, role: str, machines: float, design: Mapping[str, Value]) -> RolePart:
        machine = self._system.machines[role]
        assert isinstance(machine, DesignPool)  # of the space system-pd
        values = machine.evaluate(design_columns(design), _OF_MACHINE).metrics
        metrics = {name: float(numbers[0]) for name, numbers in values.items()}
        (words,) = design_words(self._problems["specialized"].space.pools[role].space, [design])
        return RolePart(
            role,
            machines,
            machine.evaluator.workload.tokens_of_phase,
            metrics["throughput_tokens_per_s"],
            metrics["tdp_watts"],
            metrics["batch_size"],
            {name: value for name, value in design.items() if value is not None},
            words,
            _least_request_s(machine, metrics, design),
        )


def _least_request_s(
    machine: DesignPool, metrics: Mapping[str, float], design: Mapping[str, Value]
) -> float:
    """Least time of a request, as in ``RolePart``: 2 FLOP per multiply-accumulate. A step reads all
    weights once, and for each request a cache of the prompt and half of the generated tokens."""
    npu = machine.evaluator
    assert isinstance(npu, NpuEvaluator)  # of the space system-pd
    request = npu.workload
    if request.phase == "prefill":
        table = request.operators()
        macs = float((table.mac_per_request * table.count).sum())
        return 2.0 * macs / metrics["peak_flop_per_s"]
    weights = npu.part.weight_elements * bits_per_element(str(design["weight_format"]))
    context = request.tokens.prompt_tokens + request.tokens.generated_tokens // 2
    cached = kv_elements(request.language_model, context)
    bits = weights / metrics["batch_size"] + cached * bits_per_element(str(design["kv_format"]))
    steps = request.tokens_of_phase
    return bits / 8.0 * steps / metrics["offchip_bandwidth_bytes_per_s"]
