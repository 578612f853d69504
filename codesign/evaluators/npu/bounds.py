"""What a design, or all that can become of a partial design, cannot beat.

A pass takes at least as long as each unit needs for the work of all operators together: the
array for its cycles, each port for the bytes that must cross it, the vector unit for its
operations. (The evaluator takes the longest unit operator by operator, so it is never below.)
What is undecided counts with its best value, and what placement decides with the best placement:

- Pinned on chip, weights and KV cache each have all of its memory; every operand is read once
  at least, or as often as ``array`` blocking streams it.
- Every byte from off chip crosses the port of the fastest tier once at least, where bytes pass from
  tier to tier in any order; else the tiers share the bytes by their bandwidths.
- Of weights and KV cache, what exceeds the capacity of a set of tiers lives in the others, and
  crosses a port of theirs as often as the less read of the two is read.
- The best batch size of those allowed counts, whatever the limits on latency.
- The first chunk of a transfer and all latencies count as nothing; activations that do not fit
  on chip likewise.
- Layers of several formats count as if every weight had their average. What a pass takes at least
  is the largest of straight lines in the bytes of a weight, so its mean over layers is never less.

TDP follows exactly from the hardware and the widths of the formats. ``codesign.testing`` and
the enumeration's tests check that no design beats its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from codesign.accounts.wear import LONGEST_LIFE_YEARS
from codesign.columns import Column, Columns, FloatArray, IntArray, Value
from codesign.deployments import ModelPart
from codesign.evaluators.npu.calibrated import SCALE_BYTES, weight_passes
from codesign.evaluators.npu.cost_metrics import (
    COST_METRICS,
    COST_OF_TOKENS,
    HEAT_METRICS,
    PARTS_OF_COST,
    SILICON_METRICS,
    STANDING,
    STANDING_CARBON,
    WEAR,
    WEAR_CARBON,
    SiliconMetrics,
)
from codesign.evaluators.npu.npu_options import (
    ACCUMULATOR_BYTES,
    MATRIX_SHARE,
    TILE_BUFFER_SHARE,
    NpuOptions,
    link_time,
)
from codesign.evaluators.npu.operators import Pass
from codesign.evaluators.npu.pass_setup import modelling_of
from codesign.evaluators.npu.pass_time import ROUNDING, whole_pass_s
from codesign.evaluators.npu.preparation import (
    BATCH_SIZE,
    FORMATS,
    Preparation,
    meaning,
    operand_bits,
    requests_that_fit,
)
from codesign.hardware.accelerator import AcceleratorBatch, build_accelerators, take
from codesign.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.hardware.hierarchy import inverse
from codesign.hardware.power import VECTOR_LANE_ENERGY_JOULES, thermal_design_watts
from codesign.hardware.tier_order import fastest_first, worth_trying
from codesign.memtech import MemoryTechnology
from codesign.workload import Request, bits_per_element, bits_per_weight

UNDECIDED_PARAMETERS = (
    "activation_format",
    "weight_format",
    "kv_format",
    "vector_length",
    "dataflow",
    "bandwidth_priority",
    "storage_priority",
)
"""Formats first: they set widths, and so both power and traffic."""

_WIDEST_BYTES = 4.0
"""No number format is wider."""
_WEARS = frozenset({WEAR, WEAR_CARBON})


class _Totals(NamedTuple):
    """Sums over the operators of a pass for one array, dataflow and batch size.

    Elements, of ``near`` between array and on-chip memory, of ``far`` from off chip; states in
    bytes.
    """

    cycles: float
    near_weights: float
    near_kv: float
    near_inputs: float
    outputs: float
    sums: float
    near_state: float
    far_weights: float
    far_kv: float
    far_state: float
    written_kv: float
    written_state: float


@dataclass(frozen=True)
class _Case:
    """The best case of ``n`` designs; every array is (n,) or (l, n).

    Attributes:
        hardware: With the longest vector that is possible, the fastest tier first.
        tdp_watts: With the shortest.
        array_watts: Of the array, at least; 0 where the TDP is stated.
        weight_bytes: Of an element, at least; likewise the others.
        smallest_batch: That the policy may choose.
        largest_batch: Likewise, with the narrowest formats.
        matrix_share: Of the off-chip bandwidth for weights and KV cache, at most.
        array: Position of each design's array, dataflow where decided, and organization.
    """

    hardware: AcceleratorBatch
    tdp_watts: FloatArray
    array_watts: FloatArray
    weight_bytes: FloatArray
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    smallest_batch: FloatArray
    largest_batch: FloatArray
    matrix_share: FloatArray
    array: IntArray

    def take(self, positions: IntArray) -> _Case:
        """The case of some of the designs."""
        if len(positions) == len(self.array):
            return self
        taken = {
            item.name: getattr(self, item.name)[positions]
            for item in fields(self)
            if item.name != "hardware"
        }
        return _Case(hardware=take(self.hardware, positions), **taken)


class BestCase:
    """Bounds on the metrics of designs that may be decided in part.

    Args:
        pass_: The operators.
        preparation: Batch size and organization of designs.
        workload: What is run.
        options: Resolved options.
        library: Memory technologies.
    """

    def __init__(
        self,
        pass_: Pass,
        preparation: Preparation,
        workload: Request,
        options: NpuOptions,
        library: Mapping[str, MemoryTechnology],
    ) -> None:
        self._pass = pass_
        self._preparation = preparation
        self._workload = workload
        self._options = options
        self._library = library
        self._modelling = modelling_of(options, workload.phase)
        self._part = preparation.part
        self._link = link_time(preparation.part, options)
        self._totals: dict[tuple[float, float, int, int, float], _Totals] = {}

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        """Formats of equal widths are; all other values differ."""
        if parameter not in FORMATS:
            return values
        key = meaning(parameter, self._workload.format_convention, is_whole=True)
        return [key(str(value)) for value in values]

    def bounds(
        self,
        designs: Columns,
        undecided: Mapping[str, Sequence[Value]],
        metrics: Sequence[str],
        longest_pass_s: float = np.inf,
    ) -> dict[str, FloatArray]:
        """(n,) bounds by metric, of those asked for that can be bounded.

        Args:
            designs: Columns of all parameters but the undecided ones.
            undecided: The values that each of the others may take.
            metrics: Names of the metrics of interest.
            longest_pass_s: Batch sizes that surely take longer are left out, but the smallest: no
                bound then for designs that keep no such limit, which may choose any batch size.
        """
        reader = _Reader(designs, undecided)
        hardware = build_accelerators(
            reader.with_most_lanes(), self._library, self._options.technology_level
        )
        case, arrays = self._case(reader, hardware)
        limits = _hardware_metrics(hardware, case, self._part)
        costs = {*COST_METRICS, *PARTS_OF_COST}
        if set(metrics) - set(limits) - costs or set(metrics) & {*COST_OF_TOKENS, *_WEARS}:
            limits |= self._timed_metrics(case, arrays, longest_pass_s)
        if set(metrics) & costs:
            limits |= self._costs(reader, hardware, limits, metrics)
        return {name: limits[name] for name in metrics if name in limits}

    def _case(
        self, reader: _Reader, hardware: AcceleratorBatch
    ) -> tuple[_Case, list[tuple[float, float, IntArray, int]]]:
        """The best case, and the arrays that occur in it.

        Args:
            reader: The designs.
            hardware: With the longest vector, the tiers as the designs list them.
        """
        lanes, _ = reader.extremes("vector_length", float)
        widths = {name: reader.extremes(name, self._element_bytes(name)) for name in FORMATS}
        least = {name: ends[0] for name, ends in widths.items()}
        most = {name: ends[1] for name, ends in widths.items()}
        bits = {name: reader.extremes(name, operand_bits(name))[0] for name in FORMATS}
        wider = np.maximum(bits["weight_format"], bits["kv_format"])
        slowest = replace(hardware, vector_length=lanes)
        watts = thermal_design_watts(slowest, bits["activation_format"], wider)
        array, arrays = self._arrays(reader)
        smallest, largest = self._batch_range(reader, hardware, least, most)
        case = _Case(
            hardware=_fastest_first(hardware),
            tdp_watts=sum(watts.values(), start=np.zeros(reader.n)) * self._part.n_devices,
            array_watts=np.where(hardware.stated_tdp_watts > 0, 0.0, watts["array"]),
            weight_bytes=least["weight_format"],
            activation_bytes=least["activation_format"],
            kv_bytes=least["kv_format"],
            smallest_batch=smallest,
            largest_batch=largest,
            matrix_share=reader.extremes("bandwidth_priority", self._matrix_share)[1],
            array=array,
        )
        return case, arrays

    def _costs(
        self,
        reader: _Reader,
        hardware: AcceleratorBatch,
        limits: Mapping[str, FloatArray],
        metrics: Sequence[str],
    ) -> dict[str, FloatArray]:
        """What of the wanted metrics designs cost at least.

        Area, price and carbon grow with the widths of the operands and the vector, so that the
        narrowest count; heat has their power on the dies of the widest. A memory that nothing is
        written to lasts longest.
        """
        least = self._silicon(reader, hardware, 0)
        costs = {name: getattr(least, name) for name in SILICON_METRICS if name in metrics}
        if set(metrics) & set(HEAT_METRICS):
            heat = least.heat(self._silicon(reader, hardware, 1).footprint_mm2)
            celsius = heat.junction_celsius(least.constants, self._options.cooling)
            costs |= dict(zip(HEAT_METRICS, (heat.density_w_per_mm2, celsius), strict=True))
        if set(metrics) & set(COST_OF_TOKENS):
            per_token = inverse(limits["throughput_tokens_per_s"])
            joules = limits["energy_joules_per_token"]
            costs |= least.costs_of_tokens(joules, per_token, LONGEST_LIFE_YEARS)
        for name in {STANDING, STANDING_CARBON} & set(metrics):
            costs[name] = getattr(least, name)
        for name in _WEARS & set(metrics):
            per_token = inverse(limits["throughput_tokens_per_s"])
            costs[name] = getattr(least, name)(per_token, LONGEST_LIFE_YEARS)
        costs = {name: values * ROUNDING for name, values in costs.items()}
        return costs | {"lifetime_years": np.full(reader.n, LONGEST_LIFE_YEARS)}

    def _silicon(self, reader: _Reader, hardware: AcceleratorBatch, end: int) -> SiliconMetrics:
        """Of designs with the narrowest operands and shortest vectors (0), or the other end (1)."""
        bits = {name: reader.extremes(name, operand_bits(name))[end] for name in FORMATS}
        wider = np.maximum(bits["weight_format"], bits["kv_format"])
        lanes = reader.extremes("vector_length", float)[end]
        operands = np.stack([bits["activation_format"], wider])
        changed = replace(hardware, vector_length=lanes)
        return SiliconMetrics(changed, operands, self._part, self._options)

    def _element_bytes(self, parameter: str) -> Callable[[str], float]:
        convention = self._workload.format_convention
        bits = bits_per_weight if parameter == "weight_format" else bits_per_element
        return lambda name: bits(name, convention) / 8

    def _matrix_share(self, priority: str) -> float:
        is_shared = self._options.bandwidth_sharing == "shared"
        # Calibrated, an even share of a decode is all of the bandwidth.
        is_whole = self._modelling.is_series and priority == "equal"
        return 1.0 if is_shared or is_whole else MATRIX_SHARE[priority] or 1.0

    def _batch_range(
        self,
        reader: _Reader,
        hardware: AcceleratorBatch,
        least: Mapping[str, FloatArray],
        most: Mapping[str, FloatArray],
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the smallest and the largest batch size that may be chosen.

        Args:
            reader: The designs.
            hardware: Of them.
            least: Bytes of an element by format parameter, at least.
            most: Likewise, at most.
        """
        preparation, workload, part = self._preparation, self._workload, self._part
        if BATCH_SIZE in reader.designs:
            of_design = reader.designs[BATCH_SIZE].lookup(float)
            return of_design, of_design
        capacity = hardware.levels.capacity_bytes.sum(axis=0)

        def largest(widths: Mapping[str, FloatArray]) -> FloatArray:
            kv = part.kv_elements_per_request * widths["kv_format"]
            return preparation.largest_batch(
                capacity,
                part.weight_elements * widths["weight_format"],
                kv + part.state_bytes_per_request,
            )

        if preparation.batch_policy == "capacity":
            return largest(most), largest(least)
        sizes = preparation.fixed_batches
        smallest = np.full(reader.n, 1.0 if sizes is None else sizes[0])
        if workload.phase == "prefill":
            return smallest, smallest
        return smallest, largest(least) if sizes is None else np.full(reader.n, sizes[-1])

    def _arrays(self, reader: _Reader) -> tuple[IntArray, list[tuple[float, float, IntArray, int]]]:
        """Numbers the distinct arrays: depth, width, possible dataflows, organization."""
        organization = reader.codes("array_organization", ORGANIZATIONS)
        if organization is None:
            organization = np.full(reader.n, ORGANIZATIONS.index(self._options.array))
        dataflow = reader.codes("dataflow", DATAFLOWS)
        allowed = np.array([DATAFLOWS.index(flow) for flow in reader.undecided.get("dataflow", ())])
        grid = reader.designs["pe_array"]
        flow_code = np.full(reader.n, len(DATAFLOWS)) if dataflow is None else dataflow
        key = (grid.codes * len(ORGANIZATIONS) + organization) * (len(DATAFLOWS) + 1) + flow_code
        present, number = np.unique(key, return_inverse=True)
        arrays = []
        for code in present.tolist():
            rest, flow = divmod(code, len(DATAFLOWS) + 1)
            place, kind = divmod(rest, len(ORGANIZATIONS))
            depth, width = grid.values[place]
            flows = allowed if dataflow is None else np.array([flow])
            arrays.append((float(depth), float(width), flows, kind))
        return number.ravel(), arrays

    # Times

    def _timed_metrics(
        self,
        case: _Case,
        arrays: list[tuple[float, float, IntArray, int]],
        longest_pass_s: float,
    ) -> dict[str, FloatArray]:
        n = len(case.array)
        is_prefill = self._workload.phase == "prefill"
        seconds, phase_s = np.full(n, np.inf), np.full(n, np.inf)
        per_user_s, joules = np.full(n, np.inf), np.full(n, np.inf)
        dynamic_joules = np.full(n, np.inf)
        tokens = float(self._workload.tokens_of_phase)
        n_passes = self._pass.table.n_passes
        for batch in _batches(case, self._preparation.fixed_batches):
            here = np.flatnonzero((case.smallest_batch <= batch) & (batch <= case.largest_batch))
            in_pass = 1.0 if is_prefill else batch
            bounds = np.stack(self._pass_bounds(case.take(here), arrays, in_pass, batch))
            kept = (bounds[0] <= longest_pass_s) | (case.smallest_batch[here] == batch)
            here, (pass_s, pass_joules, dynamic) = here[kept], bounds[:, kept]
            share = n_passes / (in_pass * tokens)
            passes = n_passes * (batch if is_prefill else 1.0)
            seconds[here] = np.minimum(seconds[here], pass_s * share)
            joules[here] = np.minimum(joules[here], pass_joules * share)
            dynamic_joules[here] = np.minimum(dynamic_joules[here], dynamic * share)
            latency_s = pass_s * self._part.n_stages
            phase_s[here] = np.minimum(phase_s[here], latency_s * passes)
            per_user_s[here] = np.minimum(per_user_s[here], latency_s * n_passes / tokens)
        best = {
            "throughput_tokens_per_s": inverse(seconds),
            "phase_time_s": phase_s,
            "tokens_per_s_per_user": inverse(per_user_s),
            "energy_joules_per_token": joules,
            "dynamic_joules_per_token": dynamic_joules,
            "tokens_per_joule": inverse(joules),
            "tokens_per_joule_tdp": inverse(seconds * case.tdp_watts),
        }
        if is_prefill:
            first_s = seconds * (tokens / n_passes) * self._part.n_stages
            return best | {"time_to_first_token_s": first_s}
        return best | {"time_per_output_token_s": per_user_s}

    def _pass_bounds(
        self,
        case: _Case,
        arrays: list[tuple[float, float, IntArray, int]],
        in_pass: float,
        held: float,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Least time, energy and dynamic energy of a pass with so many requests in it and held."""
        hardware = case.hardware
        levels = hardware.levels
        totals = self._totals_of(case, arrays, in_pass)
        weights, kv, written = self._off_chip_bytes(case, totals, held)
        moved = weights + kv + written
        near_reads = (
            totals.near_weights * case.weight_bytes
            + totals.near_kv * case.kv_bytes
            + totals.near_state
            + totals.near_inputs * case.activation_bytes
            + totals.sums * ACCUMULATOR_BYTES
        )
        near_writes = totals.outputs * case.activation_bytes + totals.sums * ACCUMULATOR_BYTES
        on_chip = (near_reads + near_writes + moved) * inverse(levels.bandwidth_bytes_per_s[0])
        compute = totals.cycles / hardware.clock_hz
        off_chip = self._off_chip_s(case, totals, moved, in_pass, held)
        if self._modelling.is_series:
            matrix = np.maximum(compute + off_chip, on_chip)
        else:
            matrix = np.maximum(np.maximum(compute, on_chip), off_chip)
        requests = np.full(len(case.array), in_pass)
        operations = self._pass.vector_operations(requests)
        vector_s = self._pass.vector_s(requests, hardware)
        pass_s = whole_pass_s(matrix, vector_s, self._modelling)
        pass_s = pass_s + self._link.seconds(requests, case.activation_bytes)
        energy = near_reads * levels.read_energy_joules_per_byte[0]
        energy = energy + near_writes * levels.write_energy_joules_per_byte[0]
        exists = levels.exists[1:]
        least_read_energy = np.where(exists, levels.read_energy_joules_per_byte[1:], np.inf)
        energy = energy + (weights + kv) * least_read_energy.min(axis=0, initial=1.0)
        energy = energy + compute * case.array_watts + operations * VECTOR_LANE_ENERGY_JOULES
        sent = self._link.sent_bytes(requests, case.activation_bytes)
        dynamic = (energy + sent * self._options.link_energy) * self._part.n_devices
        at_rest = levels.background_watts.sum(axis=0) * self._part.n_devices
        energy = dynamic + at_rest * pass_s
        return pass_s * ROUNDING, energy * ROUNDING, dynamic * ROUNDING

    def _off_chip_bytes(
        self, case: _Case, totals: _Totals, held: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Least bytes of weights and KV cache read, and of KV cache written, in a pass."""
        for_tiles = TILE_BUFFER_SHARE if self._options.blocking == "capacity" else 0.0
        room = (1.0 - for_tiles) * case.hardware.levels.capacity_bytes[0]
        weights, kv = self._resident_bytes(case, held)
        loose_weights = 1.0 - np.minimum(1.0, room / np.maximum(weights, 1.0))
        loose_kv = 1.0 - np.minimum(1.0, room / np.maximum(kv, 1.0))
        # Calibrated, an element takes more in a decode on its way from memory.
        scale = SCALE_BYTES if self._modelling.is_series else 0.0
        kv_read = totals.far_kv * (case.kv_bytes + scale) + totals.far_state
        kv_written = totals.written_kv * (case.kv_bytes + scale) + totals.written_state
        return (
            totals.far_weights * (case.weight_bytes + scale) * loose_weights,
            kv_read * loose_kv,
            kv_written * loose_kv,
        )

    def _resident_bytes(self, case: _Case, held: float) -> tuple[FloatArray, FloatArray]:
        kv = self._part.kv_elements_per_request * case.kv_bytes
        kv = (kv + self._part.state_bytes_per_request) * held
        return self._part.weight_elements * case.weight_bytes, kv

    def _off_chip_s(
        self, case: _Case, totals: _Totals, moved: FloatArray, in_pass: float, held: float
    ) -> FloatArray:
        """Least time of the busiest off-chip port."""
        levels, modelling = case.hardware.levels, self._modelling
        usable = (self._options.offchip_efficiency or 1.0) * case.matrix_share
        rates = usable * levels.bandwidth_bytes_per_s[1:]
        weights, kv = self._resident_bytes(case, held)
        beyond = np.maximum(weights + kv - levels.capacity_bytes[1], 0.0)
        if not modelling.is_staged:
            if not (modelling.blocks_for_capacity or modelling.is_series):
                return moved * inverse(rates[0])  # calibrated, a prefill knows the fastest tier
            elsewhere = moved * beyond * inverse(weights + kv) * inverse(rates[1:].sum(axis=0))
            return np.asarray(np.maximum(moved * inverse(rates.sum(axis=0)), elsewhere))
        per_byte = self._least_reads(case, totals, held)
        fastest = moved * inverse(rates[0])
        others = levels.capacity_bytes[2:].sum(axis=0)
        # What exceeds all tiers lives in the last, which may be the fastest.
        activations = _WIDEST_BYTES * self._preparation.largest_activations * in_pass
        surely = np.maximum(np.minimum(beyond, others - activations), 0.0)
        in_any_order = surely * per_byte * inverse(rates[1:].sum(axis=0))
        in_this_order = np.zeros_like(beyond)
        for rate, capacity in zip(rates[1:], levels.capacity_bytes[2:], strict=True):
            in_this_order = np.maximum(in_this_order, beyond * per_byte * inverse(rate))
            beyond = np.maximum(beyond - capacity, 0.0)
        orders = worth_trying(
            levels.bandwidth_bytes_per_s[1:],
            levels.capacity_bytes[1:],
            levels.write_energy_ratio[1:],
        )
        # Few requests in flight slow down some tiers more than others.
        is_certain = ~orders[1:].any(axis=0) & (self._options.requests_in_flight is None)
        deeper = np.where(is_certain, in_this_order, in_any_order)
        return np.asarray(np.maximum(fastest, deeper))

    def _least_reads(self, case: _Case, totals: _Totals, held: float) -> FloatArray:
        """How often a pass reads a resident byte of weights or KV cache, at least."""
        weights, kv, _ = self._off_chip_bytes(case, totals, held)
        resident_weights, resident_kv = self._resident_bytes(case, held)
        by_weights = weights / np.maximum(resident_weights, 1.0)
        by_kv = kv / np.maximum(resident_kv, 1.0)
        return np.where(resident_kv > 0, np.minimum(by_weights, by_kv), by_weights)

    def _totals_of(
        self, case: _Case, arrays: list[tuple[float, float, IntArray, int]], batch: float
    ) -> _Totals:
        """The sums of each design's array; (n,) in every field."""
        present = np.unique(case.array)
        table = np.zeros((len(arrays), len(_Totals._fields)))
        for number in present.tolist():
            depth, width, flows, kind = arrays[number]
            of_flows = [self._summed(depth, width, kind, flow, batch) for flow in flows.tolist()]
            table[number] = np.min(of_flows, axis=0)
        return _Totals(*table[case.array].T)

    def _summed(
        self, depth: float, width: float, organization: int, dataflow: int, batch: float
    ) -> _Totals:
        key = (depth, width, organization, dataflow, batch)
        if key not in self._totals:
            self._totals[key] = self._sum(*key)
        return self._totals[key]

    def _sum(
        self, depth: float, width: float, organization: int, dataflow: int, batch: float
    ) -> _Totals:
        pass_, table = self._pass, self._pass.table
        d, w, b = (np.array([[value]]) for value in (depth, width, batch))
        flow, kind = np.array([[dataflow]]), np.array([[organization]])
        shapes = pass_.shapes_of(d, w, kind, flow, b)
        far = np.ones((1, 1))
        if not self._modelling.blocks_for_capacity and not self._modelling.is_series:
            far = np.where(table.m_per_request > 0, weight_passes(shapes.rows, w, flow), 0.0)
        # Calibrated, the attention of a prefill moves nothing off chip.
        far_kv = 1.0 if self._modelling.blocks_for_capacity or self._modelling.is_series else 0.0
        near, kv = shapes.near, table.kv_read_elements_per_request * batch
        state = table.state_read_bytes_per_request * batch
        inputs = table.input_elements_per_request * pass_.moves_activations * batch
        outputs = table.output_elements_per_request * pass_.moves_activations * batch

        def total(values: FloatArray) -> float:
            return float((np.broadcast_to(values, (1, len(table)))[0] * table.count).sum())

        return _Totals(
            cycles=total(shapes.cycles),
            near_weights=total(shapes.weights_read * near.stationary),
            near_kv=total(kv * near.stationary),
            near_inputs=total(inputs * near.inputs),
            outputs=total(outputs),
            sums=total(outputs * near.spills),
            near_state=total(state * near.stationary),
            far_weights=total(shapes.weights_read * far),
            far_kv=far_kv * total(kv),
            far_state=far_kv * total(state),
            written_kv=far_kv * total(table.kv_written_elements_per_request * batch),
            written_state=far_kv * total(table.state_written_bytes_per_request * batch),
        )


@dataclass(frozen=True)
class _Reader:
    """Columns, and the values that what is undecided may take."""

    designs: Columns
    undecided: Mapping[str, Sequence[Value]]

    @property
    def n(self) -> int:
        return len(self.designs["pe_array"])

    def extremes(
        self, parameter: str, function: Callable[[Any], float]
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the least and the largest that a function of the parameter can be."""
        if parameter in self.designs:
            values = self.designs[parameter].lookup(function)
            return values, values
        values_of = self.undecided[parameter]
        possible = [0.0 if value is None else float(function(value)) for value in values_of]
        return np.full(self.n, min(possible)), np.full(self.n, max(possible))

    def codes(self, parameter: str, known: Sequence[str]) -> IntArray | None:
        """(n,) positions in ``known``; None if the parameter is undecided or not there."""
        if parameter not in self.designs:
            return None
        return self.designs[parameter].lookup(lambda value: float(known.index(value))).astype(int)

    def with_most_lanes(self) -> Columns:
        """The designs with a vector length, the longest if it is undecided."""
        if "vector_length" in self.designs:
            return self.designs
        longest = max(self.undecided["vector_length"], key=_number)
        lanes = Column((longest,), np.zeros(self.n, dtype=np.int64))
        return {**self.designs, "vector_length": lanes}


def _number(value: Any) -> float:
    return 0.0 if value is None else float(value)


def _batches(case: _Case, fixed: FloatArray | None) -> list[float]:
    """Every batch size that may occur.

    Args:
        case: Gives the smallest and the largest.
        fixed: Those of a list, ascending; None: the powers of two between the ends.
    """
    least, most = case.smallest_batch.min(initial=np.inf), case.largest_batch.max(initial=0.0)
    if not np.isfinite(least):
        return []
    powers = 2.0 ** np.arange(np.floor(np.log2(least)), np.ceil(np.log2(most)) + 1)
    known = powers if fixed is None else fixed
    between = known[(known >= least) & (known <= most)]
    ends = [case.smallest_batch, case.largest_batch]
    return [float(b) for b in np.unique(np.concatenate([between, *map(np.unique, ends)]))]


def _fastest_first(hardware: AcceleratorBatch) -> AcceleratorBatch:
    levels = hardware.levels
    order = fastest_first(levels.bandwidth_bytes_per_s[1:], levels.capacity_bytes[1:])
    return hardware if order is None else take(hardware, np.arange(order.shape[1]), order)


def _hardware_metrics(
    hardware: AcceleratorBatch, case: _Case, part: ModelPart
) -> dict[str, FloatArray]:
    """Those that follow from the hardware alone, summed as the designs list their tiers."""
    levels, many = hardware.levels, part.n_devices
    room = levels.capacity_bytes.sum(axis=0) - part.weight_elements * case.weight_bytes
    kept = part.kv_elements_per_request * case.kv_bytes + part.state_bytes_per_request
    bandwidth = levels.bandwidth_bytes_per_s[1:].sum(axis=0)
    return {
        "tdp_watts": case.tdp_watts,
        "held_requests": requests_that_fit(room, kept, part.n_stages),
        "idle_watts": np.asarray(levels.background_watts.sum(axis=0) * many),
        "batch_size": case.largest_batch * part.n_stages,
        "memory_capacity_bytes": np.asarray(levels.capacity_bytes.sum(axis=0) * many),
        "shoreline_mm": np.asarray(levels.shoreline_m.sum(axis=0) * 1e3),
        "uncharged_shoreline_mm": np.asarray(levels.uncharged_shoreline_m.sum(axis=0) * 1e3),
        "peak_flop_per_s": 2.0 * hardware.macs_per_cycle * hardware.clock_hz * many,
        "offchip_bandwidth_bytes_per_s": np.asarray(bandwidth * many),
    }
