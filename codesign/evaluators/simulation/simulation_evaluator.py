"""The ``simulation`` evaluator: what ``npu`` computes, found by moving every chunk.

Shared with ``npu`` are its inputs (hardware, batch size, order of the tiers, placement of the data)
and what its metrics mean; times and traffic come from the simulation alone. Operators of a pass
run one after the other, each from idle ports to idle ports.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from codesign.base.columns import (
    ArrayDict,
    ArrayPair,
    Arrays,
    Columns,
    Fields,
    FloatArray,
    FloatMap,
    FloatPair,
    Strings,
    first_values,
    n_designs,
    taken,
)
from codesign.base.evaluator import Evaluation, Evaluator, Explanation, PoolPrices
from codesign.base.explanation_rows import OperatorRow
from codesign.base.forwarding import forwarded
from codesign.base.metrics import FOR_POOLS, chosen_metrics
from codesign.evaluators.npu.choice import Chosen
from codesign.evaluators.npu.design_metrics import DesignMetrics
from codesign.evaluators.npu.npu_evaluator import NpuEvaluator
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.evaluators.npu.operator_times import Pass, sum_over_operators
from codesign.evaluators.npu.prepared_designs import PreparedDesigns
from codesign.evaluators.npu.variants import variants
from codesign.evaluators.phase_machine import PhaseMachine
from codesign.models.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.models.machines.npu.stage_records import PassTimes, PassTotals
from codesign.models.machines.simulation.simulated_npu import (
    SimulatedNpu,
    SimulatedOperator,
    simulate,
)
from codesign.models.machines.simulation.tiles import (
    OperatorWork,
    Steps,
    Tiling,
    score_tile_elements,
    steps,
)
from codesign.models.memtech import (
    Technologies,
)
from codesign.models.workload import Request
from codesign.models.workload.precision import find_format

_SCORE_BYTES = 2.0
"""A score of 16 bits."""
DemandTiming = Literal["paced", "first_use"]


class SimulationOptions(NpuOptions):
    """Options of the ``simulation`` evaluator: those of ``npu``, and how fine it is."""

    most_steps: Annotated[int, Field(ge=4)] = 256
    """About how many steps an operator is cut into at most; the finest step is one tile of the
    array."""
    landing_steps: Annotated[int, Field(ge=1)] = 2
    """Steps that a landing buffer holds: two for double buffering."""
    demand: DemandTiming = "paced"
    """When an operand that the array sweeps several times comes from off chip: spread over all
    sweeps, as a compiler can arrange by blocking rows and columns alike or by prefetching for
    the operator before, or all during the first sweep."""

    def check_fields(self) -> None:
        super().check_fields()
        if super().resolved().blocking == "array":
            raise ValueError(
                "expected blocking capacity (profile plain): array is fitted to printed tables "
                "and has no transactions to simulate"
            )

    def resolved(self) -> SimulationOptions:
        """These options with the profile's choices filled in."""
        return self.model_copy(update=dict(super().resolved()))


class Simulator:
    """Runs single operators of single designs of a batch.

    Args:
        designs: As they work for ``npu``.
    """

    def __init__(self, designs: PreparedDesigns, pass_: Pass, options: SimulationOptions) -> None:
        self.designs = designs
        self.pass_ = pass_
        self.options = options
        self._weight_elements = pass_.table.weights_read(designs.pass_requests[:, None])
        self._rows = pass_.table.rows_per_product(designs.pass_requests[:, None])
        self._n_products = pass_.table.n_products(designs.pass_requests[:, None])

    def run(
        self,
        design: int,
        operator: int,
        is_transfer_only: bool = False,
        keeps_transactions: bool = False,
    ) -> SimulatedOperator:
        """Simulates one instance of an operator; design and operator are positions."""
        return simulate(
            self.steps(design, operator),
            self.machine(design, operator),
            is_transfer_only,
            keeps_transactions,
        )

    def steps(self, design: int, operator: int) -> Steps:
        """The operator as the design cuts it."""
        work = self.work(design, operator)
        return steps(work, self.tiling(design), self.options.most_steps)

    def work(self, design: int, operator: int) -> OperatorWork:
        """Sizes and bytes of the operator on the design."""
        table = self.pass_.table
        designs = self.designs
        requests = float(designs.pass_requests[design])
        activation = float(designs.activation_bytes[design])
        kv = float(designs.kv_bytes[design])
        score = float(designs.accelerators.scores_on_chip[design]) * _SCORE_BYTES

        def moved(name: str) -> float:
            return float(getattr(self.pass_.operators, name)[operator]) * requests

        scores_in = moved("scores_in")
        scores_out = moved("scores_out")
        return OperatorWork(
            n_products=float(self._n_products[design, operator]),
            rows=float(self._rows[design, operator]),
            is_per_head=bool(self.pass_.is_per_head[operator]),
            inner=float(table.k[operator]),
            columns=float(table.n[operator]),
            weight_bytes=float(
                self._weight_elements[design, operator] * designs.weight_bytes[design]
            ),
            kv_bytes=moved("kv_read") * kv + moved("state_read"),
            n_requests=requests,
            input_bytes=moved("inputs") * activation,
            output_bytes=moved("outputs") * activation,
            kv_written_bytes=moved("kv_written") * kv + moved("state_written"),
            sum_bytes=activation,
            port_stationary_bytes=moved("port_kv") * kv
            + moved("state_read")
            + moved("port_activations") * activation,
            port_output_bytes=moved("port_outputs") * activation,
            port_written_bytes=moved("port_kv_written") * kv + moved("port_state_written"),
            kv_written_elements=moved("port_kv_written"),
            score_in_bytes=scores_in * score,
            score_out_bytes=scores_out * score,
            is_scored=scores_in + scores_out > 0,
        )

    def vector_bytes(self, design: int) -> FloatPair:
        """Bytes that the vector unit reads from on-chip memory in a pass and writes to it.

        Scores go through it tile by tile.
        """
        table = self.pass_.all_operators
        designs = self.designs
        if not designs.accelerators.scores_on_chip[design]:
            return 0.0, 0.0
        requests = float(designs.pass_requests[design])
        tiling = self.tiling(design)
        activation = float(designs.activation_bytes[design])
        reads = writes = 0.0
        for i, kind in enumerate(table.kinds):
            instances = float(table.count[i]) * requests
            moves_scores = kind in ("attention_qk", "linear_attention")
            written = float(
                table.score_written_elements_per_request[i]
                if moves_scores
                else table.output_elements_per_request[i]
            )
            read = written
            if kind == "attention_qk":
                rows = float(table.m_per_request[i])
                tiles = score_tile_elements(rows, float(table.n[i]), tiling)
                read = float(tiles.sum()) * float(table.products_per_request[i])
            elif kind == "vector" and self.options.fused:
                read = float(table.input_elements_per_request[i])
            elif not moves_scores and not (kind == "gemm" and table.vector_ops_per_request[i] > 0):
                continue
            element_bytes = _SCORE_BYTES if moves_scores else activation
            reads += instances * read * element_bytes
            writes += instances * written * element_bytes
        return reads, writes

    def tiling(self, design: int) -> Tiling:
        """Array, on-chip memory and dataflow by which the design cuts an operator."""
        designs = self.designs
        options = self.options
        hardware = designs.accelerators
        return Tiling(
            depth=float(hardware.array_depth[design]),
            width=float(hardware.array_width[design]),
            dataflow=DATAFLOWS[int(designs.dataflow[design])],
            organization=ORGANIZATIONS[int(designs.organization[design])],
            on_chip_bytes=float(hardware.levels.capacity_bytes[0, design]),
            held_bytes=designs.onchip_bytes[:, design].tolist(),
            pinned=designs.pinned[:, design].tolist(),
            tile_bytes=float(hardware.macs_per_cycle[design] * designs.weight_bytes[design]),
            is_padded=options.work == "padded",
            is_local=bool(hardware.scores_are_local[design]),
            is_paced=options.demand == "paced",
        )

    def machine(self, design: int, operator: int) -> SimulatedNpu:
        """The array and the memory ports of the design, as an operator meets them."""
        designs = self.designs
        options = self.options
        levels = designs.accelerators.levels
        n_levels = int(levels.exists[:, design].sum())
        latency = levels.latency_s[:n_levels, design].tolist()
        usable = designs.tier_bytes_per_s * (options.offchip_efficiency or 1.0)
        bandwidth = np.concatenate([levels.bandwidth_bytes_per_s[:1], usable])[:n_levels, design]
        # Time of a byte over that of a streamed one: weights, KV cache read, anything written.
        slowdowns = np.stack(
            [levels.gathered_slowdown, levels.paged_slowdown, levels.written_slowdown]
        )[:, 1:n_levels, design]
        if not self.pass_.table.is_routed[operator]:
            slowdowns[0] = 1.0
        tails = designs.tails[:, : n_levels - 1, design]
        matrix = float(designs.matrix_share[design])
        is_shared = bool(designs.is_shared_freely[design])
        return SimulatedNpu(
            clock_hz=float(designs.accelerators.clock_hz[design]),
            bandwidth_bytes_per_s=bandwidth.tolist(),
            latency_s=latency,
            stream_share=(matrix, 1.0 if is_shared else 1.0 - matrix),
            has_one_port=is_shared,
            is_staged=designs.preparation.modelling.is_staged,
            own=tails - np.concatenate([tails[:, 1:], np.zeros((len(tails), 1))], axis=1),
            slowdowns=slowdowns,
            landing_steps=options.landing_steps,
        )


class SimulatedMetrics(DesignMetrics):
    """The metrics of ``npu``, from simulated times and traffic."""

    def __init__(self, simulator: Simulator, chosen: Chosen) -> None:
        super().__init__(chosen)
        self._simulator = simulator

    @cached_property
    def runs(self) -> list[list[SimulatedOperator]]:
        """(n,) lists of (o,) simulated operators."""
        n_operators = len(self.pass_.table)
        return [
            [self._simulator.run(design, operator) for operator in range(n_operators)]
            for design in range(len(self.batch_size))
        ]

    def _run_values(self, name: str) -> FloatArray:
        return np.array([[getattr(run, name) for run in row] for row in self.runs])

    @cached_property
    def times(self) -> PassTimes:
        return PassTimes(
            compute_s=self._run_values("compute_s"),
            on_chip_s=self._run_values("on_chip_s"),
            off_chip_s=self._run_values("off_chip_s"),
            time_s=self._run_values("time_s"),
        )

    @property
    def operators_s(self) -> FloatArray:
        return sum_over_operators(self.times.time_s, self.pass_.table.count)

    @property
    def matrix_s(self) -> FloatArray:
        port_bytes = self.reads[0] + self.writes[0]
        if self.options.vector == "serial":
            port_bytes = port_bytes - self._vector_bytes.sum(axis=0)
        port_s = port_bytes / self.placed_levels("bandwidth_bytes_per_s")[0]
        longest = np.maximum(port_s, self.power_limits_s.max(axis=0))
        return np.asarray(np.maximum(self.operators_s, longest))

    @cached_property
    def _vector_bytes(self) -> FloatArray:
        """(2, n) bytes that the vector unit reads from on-chip memory in a pass, and writes."""
        return np.array(
            [self._simulator.vector_bytes(design) for design in range(len(self.batch_size))]
        ).T

    def operator_traffic(self) -> ArrayPair:
        moved = np.zeros((2, len(self._levels.exists), len(self.runs), len(self.pass_.table)))
        for design, row in enumerate(self.runs):
            for operator, run in enumerate(row):
                moved[:, : len(run.reads), design, operator] = run.reads, run.writes
        reads, writes = moved
        return reads, writes

    def operator_cycles(self) -> FloatArray:
        return self._run_values("active_cycles")

    @cached_property
    def totals(self) -> PassTotals:
        count = self.pass_.table.count
        reads, writes = (np.einsum("lno,o->ln", moved, count) for moved in self.operator_traffic())
        reads[0] += self._vector_bytes[0]
        writes[0] += self._vector_bytes[1]
        cycles = sum_over_operators(self.operator_cycles(), count)
        return self.chosen.totals._replace(active_cycles=cycles, reads=reads, writes=writes)

    @cached_property
    def offchip_bytes(self) -> FloatArray:
        """Bytes between off-chip and on-chip memory in one pass."""
        return sum_over_operators(self._run_values("off_chip_bytes"), self.pass_.table.count)


class SimulationEvaluator(PhaseMachine):
    """Every chunk moved through ports, one event after the other; metrics and rows as ``npu``.

    ``explain`` lists the assumptions in force.

    Args:
        library: Memory technologies by name; all that are found if None.

    Raises:
        InputError: The model cannot be loaded, or a technology file is wrong.
    """

    Options = SimulationOptions
    options: SimulationOptions

    required_parameters = NpuEvaluator.required_parameters
    optional_parameters = NpuEvaluator.optional_parameters
    metrics_for_pools = FOR_POOLS
    is_slow = True

    technologies = forwarded(Evaluator.technologies, "analytical")
    choosing_metrics = forwarded(Evaluator.choosing_metrics, "analytical")
    features = forwarded(Evaluator.features, "analytical")
    absent_metrics = forwarded(Evaluator.absent_metrics, "analytical")

    def __init__(
        self,
        workload: Request,
        options: SimulationOptions | None = None,
        *,
        library: Technologies | None = None,
    ) -> None:
        self.workload = workload
        self.options = (options or SimulationOptions()).resolved()
        self.analytical = NpuEvaluator(workload, self.options, library=library)
        self.pass_ = self.analytical.pass_
        self.metrics = self.analytical.metrics
        self.optional_parameters = self.analytical.optional_parameters

    @property
    def prices(self) -> PoolPrices:
        return self.analytical.prices

    def provenance(self) -> Fields:
        """Workload, model, options and technologies, as plain JSON values."""
        return {
            **self.analytical.provenance(),
            "options": self.options.model_dump(mode="json"),
        }

    def keep_limits(self, limits: FloatMap) -> SimulationEvaluator:
        """The same evaluator with batch sizes within the limits, by the closed form of ``npu``."""
        limited_evaluator = copy.copy(self)
        limited_evaluator.analytical = self.analytical.keep_limits(limits)
        return limited_evaluator

    def known_violations(self, designs: Columns) -> Arrays:
        """(n,) each, those of ``npu``.

        Raises:
            UnusableValueError: Weights in a mixture of formats, of which no layer is simulated.
        """
        _check_formats(designs)
        return self.analytical.known_violations(designs)

    def predict(self, designs: Columns, metrics: Strings) -> Arrays:
        """(n,) each, the metrics named as ``npu`` has them: thousands of times cheaper."""
        return self.analytical.evaluate(designs, metrics).metrics

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        """Evaluate a batch; only designs that need it are simulated."""
        declared = self.metric_names
        names = chosen_metrics(declared if metrics is None else metrics, {*declared, *FOR_POOLS})
        n = n_designs(designs)
        of_formats = self.analytical.accuracy.metrics(designs, names)
        names = [name for name in names if name not in of_formats]
        values = {name: np.full(n, np.nan) for name in names}
        violations: ArrayDict = {}
        failures = {}
        for i in range(n):
            column = taken(designs, slice(i, i + 1))
            results = self._results(column)
            for name, excess in self.known_violations(column).items():
                violations.setdefault(name, np.empty(n))[i] = excess[0]
            if results.chosen.designs.violations["levels"][0] > 0:
                failures[i] = "there is no on-chip or no off-chip memory to stream through"
                continue
            for name in names:
                values[name][i] = results.value(name)[0]
        return Evaluation(values | of_formats, violations, failures)

    def explain(self, designs: Columns) -> Explanation:
        results = self._results(designs)
        account = self.analytical.account(results, designs)
        steps_of = {
            name: run.n_steps
            for name, run in zip(self.pass_.table.names, results.runs[0], strict=True)
        }
        operators: list[OperatorRow] = [
            {**row, "steps": steps_of.get(row["name"], 0)} for row in account.operators
        ]
        note = (
            "simulated: ports serve one transaction at a time, in order of arrival; landing "
            f"buffers hold {self.options.landing_steps} steps and what the latency keeps waiting"
        )
        violations = first_values(self.known_violations(designs))
        return replace(
            account, operators=operators, violations=violations, notes=[*account.notes, note]
        )

    def timeline(self, designs: Columns) -> list[tuple[str, float, SimulatedOperator]]:
        """Operators of one design in order, with their count in a pass and all transactions."""
        simulator = self.simulator(designs)
        table = self.pass_.table
        return [
            (name, float(table.count[i]), simulator.run(0, i, keeps_transactions=True))
            for i, name in enumerate(table.names)
        ]

    def simulator(self, designs: Columns) -> Simulator:
        """Single operators of single designs of a batch, on one device each."""
        _check_formats(designs)
        return Simulator(self.analytical.choose(designs).working, self.pass_, self.options)

    def _results(self, designs: Columns) -> SimulatedMetrics:
        """The metrics of one design."""
        _check_formats(designs)
        ((parallelism, stated, _, columns),) = variants(designs)
        analytical = self.analytical.group_of(parallelism, stated)
        chosen_choose = analytical.choose(columns)
        simulator = Simulator(chosen_choose.working, analytical.pass_, self.options)
        return SimulatedMetrics(simulator, chosen_choose)


def _check_formats(designs: Columns) -> None:
    """Refuse weights in a mixture of formats, of which no single layer is simulated."""
    designs["weight_format"].lookup(lambda name: find_format(name).element_bits)
