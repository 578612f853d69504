"""Bounds on the metrics of a design, or of every completion of a partial design.

What is undecided counts with its best value; the best batch size of those allowed counts, whatever
the limits on latency. Least times and energies of a pass are in ``pass_bounds.py``; TDP follows
exactly from the hardware and the widths of the formats. ``codesign.testing`` and the enumeration's
tests check that no design beats its bounds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    ArrayPair,
    Arrays,
    Columns,
    Domains,
    FloatArray,
    IntArray,
    Strings,
    Value,
    combined,
    distinct,
)
from codesign.base.records import select_keys
from codesign.evaluators.npu.cost_metrics import (
    COST_METRICS,
    COST_OF_TOKENS,
    PARTS_OF_COST,
    SILICON_METRICS,
    STANDING,
    STANDING_CARBON,
    WEAR,
    WEAR_CARBON,
    SiliconMetrics,
)
from codesign.evaluators.npu.format_widths import element_bytes, meaning, operand_bits
from codesign.evaluators.npu.partial_designs import (
    ON_CHIP_PARAMETERS,
    HardwareExtremes,
    PartialDesigns,
)
from codesign.evaluators.npu.pass_bounds import ArrayChoice, BestInputs, PassBounds
from codesign.evaluators.npu.preparation import Preparation, requests_that_fit
from codesign.evaluators.npu.silicon_bounds import SiliconBounds
from codesign.evaluators.phase_machine import BATCH_SIZE
from codesign.models.accounts.wear import LONGEST_LIFE_YEARS
from codesign.models.hardware.accelerator import (
    AcceleratorBatch,
    positions_of,
    reordered_tiers,
)
from codesign.models.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.models.hardware.formula_operations import inverse
from codesign.models.hardware.tier_order import fastest_first
from codesign.models.machines.npu.pass_time import ROUNDING
from codesign.models.workload.precision import FORMAT_KEYS

UNDECIDED_PARAMETERS = (
    "clock_hz",
    "activation_format",
    "weight_format",
    "kv_format",
    "topology",
    "score_path",
    *ON_CHIP_PARAMETERS,
    "vector_length",
    "process",
    "bandwidth_priority",
    "dataflow",
    "storage_priority",
)
"""Clock first: the fastest has the best rate, the slowest the best power. Then formats: they set
widths, and so both power and traffic. The software comes last, as it sets no power."""

_WEARS = frozenset({WEAR, WEAR_CARBON})
_TIMES = frozenset({
    "throughput_tokens_per_s", "phase_time_s", "tokens_per_s_per_user", "tokens_per_joule_tdp",
    "time_to_first_token_s", "time_per_output_token_s",
})  # fmt: skip
_HARDWARE_METRICS = (
    "memory_capacity_bytes", "shoreline_mm", "uncharged_shoreline_mm", "peak_flop_per_s",
    "offchip_bandwidth_bytes_per_s",
)  # fmt: skip


class BestCase:
    """Bounds on the metrics of designs that may be decided in part.

    Args:
        preparation: Batch size and organization of designs.
        longest_pass_s: Longest pass within the limits on latency. Batch sizes that surely take
            longer are left out, so bounds cover only designs within the limits. The smallest batch
            size always stays.
    """

    def __init__(self, preparation: Preparation, longest_pass_s: float = np.inf) -> None:
        self._longest_pass_s = longest_pass_s
        self._preparation = preparation
        self._workload = preparation.workload
        self._options = preparation.options
        self._part = preparation.part
        self._of_pass = PassBounds(preparation)

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        """Keys of values: formats of equal width share a key, all other values differ."""
        if parameter not in FORMAT_KEYS:
            return values
        key = meaning(parameter, self._workload.format_convention, is_whole=True)
        return [key(str(value)) for value in values]

    def bounds(
        self,
        designs: Columns,
        undecided: Domains,
        metrics: Strings,
    ) -> ArrayDict:
        """(n,) bounds of the requested metrics; metrics that cannot be bounded are absent.

        Args:
            designs: Columns of all parameters but the undecided ones.
            undecided: The values that each undecided parameter may take.
            metrics: Names of the metrics of interest.
        """
        partial = PartialDesigns(designs, undecided)
        extremes = partial.hardware(self._preparation.units)
        hardware = extremes.fastest
        # The share of the array's rows that the largest batch fills at least.
        preparation = self._preparation
        most = self._widths(partial)[1]
        if BATCH_SIZE in partial.designs:
            sizes = partial.designs[BATCH_SIZE].lookup(float)
            rows = preparation.most_rows(sizes)
        else:
            fixed = preparation.fixed_batches
            sizes = preparation.powers_of_two if fixed is None else fixed
            kv = preparation.request_bytes(most["kv_format"])
            weights = self._part.weight_elements * most["weight_format"]
            largest = preparation.largest_size(sizes, extremes.least_capacity_bytes, weights, kv)
            rows = preparation.most_rows(sizes)[largest]
        filled = preparation.filled_rows(rows, hardware.array_width)
        widths = {name: partial.extremes(name, operand_bits(name)) for name in FORMAT_KEYS}
        wider = map(np.maximum, widths["weight_format"], widths["kv_format"])
        least_bits, most_bits = map(np.stack, zip(widths["activation_format"], wider, strict=True))
        least = SiliconBounds(
            (extremes.frugal, extremes.largest), (least_bits, most_bits), self._preparation, filled
        )
        case, arrays = self._case(partial, extremes, least)
        model_part = self._part
        levels = hardware.levels
        fastest = SiliconMetrics(hardware, least_bits, self._preparation, filled, {})
        room = levels.capacity_bytes.sum(axis=0) - model_part.weight_elements * case.weight_bytes
        request_bytes = self._preparation.request_bytes(case.kv_bytes)
        limits = {name: getattr(fastest, name) for name in _HARDWARE_METRICS} | {
            "tdp_watts": least.tdp_watts,
            "held_requests": requests_that_fit(room, request_bytes, model_part.n_batches),
            "idle_watts": levels.background_watts.sum(axis=0) * model_part.n_devices,
            "batch_size": case.largest_batch * model_part.n_batches,
        }
        costs = {*COST_METRICS, *PARTS_OF_COST}
        if set(metrics) - set(limits) - costs or set(metrics) & {*COST_OF_TOKENS, *_WEARS}:
            has_energy = not set(metrics) <= {*limits, *_TIMES}
            limits |= self._timed_metrics(case, arrays, has_energy)
        if set(metrics) & costs:
            limits |= _costs(least, limits, metrics)
        return select_keys(limits, metrics)

    def least_violations(self, designs: Columns, undecided: Domains) -> Arrays:
        """(n,) least relative excess of ``capacity`` and ``shoreline`` of any completion."""
        partial = PartialDesigns(designs, undecided)
        levels = partial.hardware(self._preparation.units).fastest.levels
        least = self._widths(partial)[0]
        weights = self._part.weight_elements * least["weight_format"]
        fixed = self._preparation.fixed_batches
        requests = 1.0 if fixed is None else fixed[0]
        if BATCH_SIZE in designs:
            requests = designs[BATCH_SIZE].lookup(float)
        kv = self._preparation.request_bytes(least["kv_format"])
        capacity = np.maximum(levels.capacity_bytes.sum(axis=0), 1.0)
        return {
            "capacity": (weights + requests * kv) * ROUNDING / capacity - 1.0,
            "shoreline": levels.shoreline_m.sum(axis=0) / self._options.memory_edge_m - 1.0,
        }

    def _case(
        self, partial: PartialDesigns, extremes: HardwareExtremes, silicon: SiliconMetrics
    ) -> tuple[BestInputs, list[ArrayChoice]]:
        """The best case, and the arrays that occur in it.

        Args:
            extremes: Extremes of the hardware, with the tiers in the order of the designs.
            silicon: Of the frugal one.
        """
        hardware = extremes.fastest
        frugal = extremes.frugal
        least, most = self._widths(partial)
        array, arrays = self._arrays(partial, hardware)
        smallest, largest = self._batch_range(partial, hardware, least, most)
        levels = hardware.levels
        order = fastest_first(levels.bandwidth_bytes_per_s[1:], levels.capacity_bytes[1:])
        return BestInputs(
            hardware=(hardware if order is None else reordered_tiers(hardware, order)),
            tdp_watts=silicon.tdp_watts,
            cycle_joules=np.where(hardware.stated_tdp_watts > 0, 0.0, silicon.cycle_joules),
            slowest_hz=frugal.clock_hz,
            weight_bytes=least["weight_format"],
            activation_bytes=least["activation_format"],
            kv_bytes=least["kv_format"],
            smallest_batch=smallest,
            largest_batch=largest,
            matrix_share=partial.extremes("bandwidth_priority", self._preparation.matrix_share)[1],
            array=array,
        ), arrays

    def _widths(self, partial: PartialDesigns) -> tuple[ArrayDict, ArrayDict]:
        """Bytes of an element by format parameter, at least and at most."""
        convention = self._workload.format_convention
        widths = {
            name: partial.extremes(name, element_bytes(name, convention)) for name in FORMAT_KEYS
        }
        return tuple(  # type: ignore[return-value] # two ends
            {name: ends[end] for name, ends in widths.items()} for end in (0, 1)
        )

    def _batch_range(
        self,
        partial: PartialDesigns,
        hardware: AcceleratorBatch,
        least: Arrays,
        most: Arrays,
    ) -> ArrayPair:
        """(n,) the smallest and the largest batch size that may be chosen.

        Args:
            least: Bytes of an element by format parameter, at least.
            most: Likewise, at most.
        """
        preparation = self._preparation
        workload = self._workload
        model_part = self._part
        if BATCH_SIZE in partial.designs:
            of_design = partial.designs[BATCH_SIZE].lookup(float)
            return of_design, of_design
        capacity = hardware.levels.capacity_bytes.sum(axis=0)

        def largest(widths: Arrays) -> FloatArray:
            weights = model_part.weight_elements * widths["weight_format"]
            return preparation.largest_batch(
                capacity, weights, preparation.request_bytes(widths["kv_format"])
            )

        if preparation.batch_policy == "capacity":
            return largest(most), largest(least)
        sizes = preparation.fixed_batches
        smallest = np.full(partial.n, 1.0 if sizes is None else sizes[0])
        if workload.phase == "prefill":
            return smallest, smallest
        return smallest, largest(least) if sizes is None else np.full(partial.n, sizes[-1])

    def _arrays(
        self, partial: PartialDesigns, hardware: AcceleratorBatch
    ) -> tuple[IntArray, list[ArrayChoice]]:
        """(n,) the number of each design's array, and the distinct arrays."""
        designs = partial.designs
        grid = partial.designs["pe_array"]
        organization = np.full(partial.n, ORGANIZATIONS.index(self._options.array))
        if "array_organization" in designs:
            organization = positions_of(designs, "array_organization", ORGANIZATIONS)
        # A dataflow that is undecided has a position behind all others.
        allowed = [DATAFLOWS.index(flow) for flow in partial.undecided.get("dataflow", ())]
        flow_code = np.full(partial.n, len(DATAFLOWS))
        if "dataflow" in designs:
            flow_code = positions_of(designs, "dataflow", DATAFLOWS)
        units = organization, flow_code, (hardware.scores_are_local > 0).astype(np.int64)
        sizes = len(ORGANIZATIONS), len(DATAFLOWS) + 1, 2
        number, first = distinct(*combined(grid.codes, np.ravel_multi_index(units, sizes)))
        arrays = []
        for place, kind, flow, local in zip(
            *(values[first].tolist() for values in (grid.codes, *units)), strict=True
        ):
            depth, width = grid.values[place]
            flows = [flow] if flow < len(DATAFLOWS) else allowed
            arrays.append(ArrayChoice(float(depth), float(width), flows, kind, bool(local)))
        return number, arrays

    # Times

    def _timed_metrics(
        self,
        case: BestInputs,
        arrays: list[ArrayChoice],
        has_energy: bool,
    ) -> Arrays:
        is_prefill = self._workload.phase == "prefill"
        least = np.full((5, len(case.array)), np.inf)
        tokens = float(self._workload.tokens_of_phase)
        n_passes = self._preparation.pass_.table.n_passes
        sizes = self._preparation.fixed_batches
        ends = (case.smallest_batch, case.largest_batch)
        if sizes is None and len(case.array):
            largest = np.ceil(np.log2(ends[1].max()))
            sizes = 2.0 ** np.arange(np.floor(np.log2(ends[0].min())), largest + 1)
        for batch in np.unique(
            np.concatenate([*ends, *([] if sizes is None else [sizes])])
        ).tolist():
            here = np.flatnonzero((case.smallest_batch <= batch) & (batch <= case.largest_batch))
            if not len(here):
                continue
            pass_requests = 1.0 if is_prefill else batch
            inputs = case.take(here), arrays, pass_requests, batch, has_energy
            bounds = np.stack(self._of_pass.least(*inputs))
            is_timely = (bounds[0] <= self._longest_pass_s) | (case.smallest_batch[here] == batch)
            here = here[is_timely]
            bounds = bounds[:, is_timely]
            of_token = bounds * (n_passes / (pass_requests * tokens * self._part.n_groups))
            passes = n_passes * (batch if is_prefill else 1.0)
            latency_s = bounds[0] * self._part.n_stages
            tried = (*of_token, latency_s * passes, latency_s * n_passes / tokens)
            least[:, here] = np.minimum(least[:, here], tried)
        seconds, joules, dynamic_joules, phase_s, per_user_s = least
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
            first_s = seconds * (tokens / n_passes) * self._part.n_batches
            return best | {"time_to_first_token_s": first_s}
        return best | {"time_per_output_token_s": per_user_s}


def _costs(least: SiliconBounds, limits: Arrays, metrics: Strings) -> Arrays:
    """Least accounts among the metrics; a memory that nothing is written to lasts longest."""
    standing = (*SILICON_METRICS, STANDING, STANDING_CARBON)
    costs = {name: getattr(least, name) for name in standing if name in metrics}
    if set(metrics) & {*COST_OF_TOKENS, *_WEARS}:
        per_token = inverse(limits["throughput_tokens_per_s"])
        joules = limits["energy_joules_per_token"]
        costs |= least.costs_of_tokens(joules, per_token, LONGEST_LIFE_YEARS)
        for name in _WEARS & set(metrics):
            costs[name] = getattr(least, name)(per_token, LONGEST_LIFE_YEARS)
    costs = {name: values * ROUNDING for name, values in costs.items()}
    return costs | {"lifetime_years": np.full_like(least.tdp_watts, LONGEST_LIFE_YEARS)}
