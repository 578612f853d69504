"""The metrics of a batch of designs, from what the operators of one pass take and move."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from codesign.base.columns import ArrayPair, Arrays, FloatArray, compute_once
from codesign.evaluators.npu.choice import Chosen
from codesign.evaluators.npu.cost_metrics import (
    COST_OF_TOKENS,
    WEAR,
    WEAR_CARBON,
    SiliconMetrics,
)
from codesign.evaluators.npu.operator_times import Stage
from codesign.evaluators.npu.preparation import requests_that_fit
from codesign.evaluators.npu.prepared_designs import PreparedDesigns
from codesign.models.accounts.wear import lifetime_years
from codesign.models.hardware.formula_operations import inverse
from codesign.models.machines.npu.pass_time import level_at_power_limit_s, whole_pass_s
from codesign.models.machines.npu.stage_records import Moved, PassTimes, PassTotals


class DesignMetrics:
    """Metrics of ``n`` designs, each computed when it is first asked for; all (n,).

    Attributes are named as in ``codesign.base.metrics``, where each is defined. Tables by operator
    are of the ``r`` designs that are distinct to the operator stage (see ``Chosen``).
    """

    def __init__(self, chosen: Chosen) -> None:
        preparation = chosen.designs.preparation
        self.chosen = chosen
        self.part = preparation.part
        self.options = preparation.options
        self.workload = preparation.workload
        self.pass_ = preparation.pass_
        self._link = preparation.link
        self._activation_bytes = chosen.designs.activation_bytes
        self._hardware = chosen.designs.listed
        self._levels = self._hardware.levels
        self._modelling = preparation.modelling

    @property
    def working(self) -> PreparedDesigns:
        """The designs that are distinct to the operators, as they work."""
        return self.chosen.working

    @property
    def totals(self) -> PassTotals:
        """Totals of a pass of these designs."""
        return self.chosen.totals

    @cached_property
    def _stage(self) -> Stage:
        return Stage(self.working)

    def placed_levels(self, name: str) -> FloatArray:
        """(l, n) a property of the levels, the tiers in the order in which they are used."""
        return self.chosen.each(getattr(self.working.accelerators.levels, name))

    @property
    def moved(self) -> Moved:
        """(r, o) bytes that one instance of each operator moves."""
        return self._stage.moved

    @property
    def times(self) -> PassTimes:
        """(r, o) how long one instance of each operator takes."""
        return self._stage.times

    @property
    def matrix_s(self) -> FloatArray:
        """Array and memories in one pass; longer than operators where a memory waits for power."""
        return self.chosen.each(self.totals.time_s)

    @property
    def operators_s(self) -> FloatArray:
        """All operators of one pass on array and memories, one after the other."""
        return self.chosen.each(self._stage.operator_sums[0])

    @property
    def power_limits_s(self) -> FloatArray:
        """(l, n) least time of a pass in which each memory level keeps its TDP."""
        return level_at_power_limit_s(
            self.reads,
            self.writes,
            self.placed_levels("bandwidth_bytes_per_s"),
            self.placed_levels("write_energy_ratio"),
        )

    @cached_property
    def requests_in_pass(self) -> FloatArray:
        """Requests processed together in one pass."""
        is_decode = self.workload.phase == "decode"
        return self.stage_requests if is_decode else np.ones_like(self.stage_requests)

    @cached_property
    def vector_s(self) -> FloatArray:
        """Vector unit in one pass."""
        return self.pass_.vector_s(self.requests_in_pass, self._hardware, self._activation_bytes)

    @cached_property
    def message_s(self) -> FloatArray:
        """Messages between devices in one pass."""
        return self._link.seconds(self.requests_in_pass, self._activation_bytes)

    @cached_property
    def pass_s(self) -> FloatArray:
        """One pass of one stage: the prefill of one request, or one decode step of the batch."""
        return whole_pass_s(self.matrix_s, self.vector_s, self._modelling) + self.message_s

    @property
    def n_passes(self) -> FloatArray:
        """Passes of the phase: requests are prefilled one after the other (MemExplorer §4.3)."""
        per_request = self.pass_.table.n_passes
        if self.workload.phase == "prefill":
            return per_request * self.stage_requests
        return np.full_like(self.stage_requests, per_request)

    @property
    def stage_requests(self) -> FloatArray:
        """Requests that one group of devices of one stage works on."""
        return self.chosen.batch_size

    @property
    def batch_size(self) -> FloatArray:
        return self.stage_requests * self.part.n_batches

    @cached_property
    def phase_time_s(self) -> FloatArray:
        return self.pass_s * self.n_passes * self.part.n_stages

    @cached_property
    def tokens(self) -> FloatArray:
        return self.batch_size * float(self.workload.tokens_of_phase)

    @cached_property
    def throughput_tokens_per_s(self) -> FloatArray:
        return self.tokens / self.phase_time_s

    @property
    def time_to_first_token_s(self) -> FloatArray:
        return self.pass_s * self.part.n_stages

    @property
    def time_per_output_token_s(self) -> FloatArray:
        return self.phase_time_s / float(self.workload.tokens_of_phase)

    @property
    def tokens_per_s_per_user(self) -> FloatArray:
        if self.workload.phase == "prefill":
            return float(self.workload.tokens_of_phase) / self.time_to_first_token_s
        return float(self.workload.tokens_of_phase) / self.phase_time_s

    @cached_property
    def reads(self) -> FloatArray:
        """(l, n) bytes read at each level's port in one pass."""
        return self.chosen.each(self.totals.reads)

    @cached_property
    def writes(self) -> FloatArray:
        """(l, n) bytes written there."""
        return self.chosen.each(self.totals.writes)

    @cached_property
    def array_joules(self) -> FloatArray:
        """Energy of the matrix array in one pass."""
        designs = self.chosen.designs
        key = "cycle_joules", designs.preparation.key
        joules = compute_once(designs.columns, key, lambda: self.silicon.cycle_joules)
        return np.asarray(self.chosen.each(self.totals.active_cycles) * joules)

    @cached_property
    def vector_joules(self) -> FloatArray:
        """Energy of the vector unit and of its buffer in one pass, without the buffer's leakage."""
        energies = self.chosen.designs.preparation.energies
        return self.pass_.vector_joules(
            self.requests_in_pass, self._hardware, self._activation_bytes, energies
        )

    def operator_traffic(self) -> ArrayPair:
        """(l, r, o) bytes read and written at every port by one instance of each operator."""
        return self.working.port_traffic(self.moved)

    def operator_cycles(self) -> FloatArray:
        """(r, o) cycles of the array in one instance, weighted by the rows that draw power."""
        return self._stage.active_cycles

    @property
    def kv_held_share(self) -> FloatArray:
        """(l, n) part of the KV cache that each level keeps, in the order of their use."""
        return self.chosen.each(self.totals.kv_held)

    @cached_property
    def level_joules(self) -> FloatArray:
        """(l, n) dynamic energy of each memory level in one pass."""
        reads = self.reads * self.placed_levels("read_energy_joules_per_byte")
        return reads + self.writes * self.placed_levels("write_energy_joules_per_byte")

    @cached_property
    def pass_joules(self) -> FloatArray:
        """Energy of one pass of all devices and links, background power included."""
        dynamic = self.level_joules.sum(axis=0)
        compute = self.array_joules + self.vector_joules
        background = self._hardware.background_watts * self.pass_s
        return np.asarray((dynamic + compute + background + self.link_joules) * self.part.n_devices)

    @property
    def held_requests(self) -> FloatArray:
        """Requests whose KV cache fits next to the weights; infinite where there is none."""
        designs = self.chosen.designs
        room = self._levels.capacity_bytes.sum(axis=0) - designs.all_weight_bytes
        return requests_that_fit(room, designs.kv_request_bytes, self.part.n_batches)

    @property
    def dynamic_joules_per_token(self) -> FloatArray:
        """Energy of the phase per token, without the power that the devices draw at rest."""
        compute = self.array_joules + self.vector_joules
        of_device = self.level_joules.sum(axis=0) + compute + self.link_joules
        passes = self.n_passes * (self.part.n_stages * self.part.n_devices)
        return np.asarray(of_device * passes / self.tokens)

    @cached_property
    def link_joules(self) -> FloatArray:
        """Energy of what one device sends in one pass."""
        sent = self._link.sent_bytes(self.requests_in_pass, self._activation_bytes)
        return sent * self.options.link_energy

    @property
    def phase_joules(self) -> FloatArray:
        """Energy of the phase of one batch."""
        return self.pass_joules * self.n_passes * self.part.n_stages

    @cached_property
    def average_power_watts(self) -> FloatArray:
        return self.pass_joules / self.pass_s

    @property
    def energy_joules_per_token(self) -> FloatArray:
        return self.phase_joules / self.tokens

    @property
    def tokens_per_joule(self) -> FloatArray:
        return self.tokens / self.phase_joules

    @property
    def tokens_per_joule_tdp(self) -> FloatArray:
        return self.throughput_tokens_per_s / self.silicon.tdp_watts

    @property
    def compute_utilization(self) -> FloatArray:
        hardware = self._hardware
        useful = self.pass_.multiply_accumulates(self.requests_in_pass)
        return useful / (self.pass_s * hardware.macs_per_cycle * hardware.clock_hz)

    @cached_property
    def offchip_bytes(self) -> FloatArray:
        """Bytes between off-chip and on-chip memory of one device in one pass."""
        moved = self.totals.moved
        reads = moved.weight_reads + moved.kv_reads + moved.activation_reads
        return self.chosen.each(reads + moved.kv_writes + moved.activation_writes)

    @property
    def bandwidth_utilization(self) -> FloatArray:
        every_device = self.offchip_bytes * self.part.n_devices
        return every_device * inverse(self.pass_s * self.silicon.offchip_bandwidth_bytes_per_s)

    @property
    def offchip_bytes_per_token(self) -> FloatArray:
        passes = self.n_passes * (self.part.n_stages * self.part.n_devices)
        return self.offchip_bytes * passes / self.tokens

    @property
    def memory_used_bytes(self) -> FloatArray:
        designs = self.chosen.designs
        of_device = designs.all_weight_bytes + self.stage_requests * designs.kv_request_bytes
        return of_device * self.part.n_devices

    # --- cost, carbon and wear --------------------------------------------------------------

    @cached_property
    def silicon(self) -> SiliconMetrics:
        """Metrics of the hardware alone."""
        designs = self.chosen.designs
        return SiliconMetrics(
            designs.listed,
            designs.operand_bits,
            designs.preparation,
            designs.filled_rows,
            designs.columns,
        )

    @cached_property
    def written_bytes_per_s(self) -> FloatArray:
        """(l, n) writes to each level of one device, the tiers in the order of their use.

        In a decode, the prompts' KV cache comes from elsewhere, and is written once.
        """
        rates = self.writes / self.pass_s
        tokens = self.workload.tokens
        if self.workload.phase == "prefill":
            return rates
        prompt_share = tokens.prompt_tokens / (tokens.prompt_tokens + tokens.generated_tokens)
        requests_per_s = self.stage_requests / self.phase_time_s  # the cache is of all stages
        imported = self.chosen.designs.kv_request_bytes * prompt_share * requests_per_s
        return rates + imported * self.kv_held_share

    @cached_property
    def lifetime_years(self) -> FloatArray:
        busy = 1.0 - self.silicon.constants.idle_share
        return lifetime_years(self.written_bytes_per_s, self.placed_levels("wear_per_byte"), busy)

    @cached_property
    def _costs_of_tokens(self) -> Arrays:
        return self.silicon.costs_of_tokens(
            self.energy_joules_per_token, 1.0 / self.throughput_tokens_per_s, self.lifetime_years
        )

    def value(self, name: str) -> FloatArray:
        """(n,) a metric by its name, of the silicon or of the work that it does."""
        if name in COST_OF_TOKENS:
            return self._costs_of_tokens[name]
        if name in (WEAR, WEAR_CARBON):
            wear: Callable[..., FloatArray] = getattr(self.silicon, name)
            return wear(1.0 / self.throughput_tokens_per_s, self.lifetime_years)
        values: FloatArray = getattr(self if hasattr(type(self), name) else self.silicon, name)
        return values
