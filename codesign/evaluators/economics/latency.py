"""Time of one forward pass in decode over many devices, at the best way to split it.

The full model of [Epoch2025]_ section 3: reads from memory overlap with arithmetic, kernels and
the network overlap with nothing (Eqs. 29 and 30). A pass of a pipeline stage costs

* kernel launches: 4 per layer, 4 us each (section 4, Eq. 44);
* collectives after the products of a layer (:mod:`.nccl`): four under 2-D tensor
  parallelism, where a group is the square root of the devices, two under 1-D;
* two all-to-alls per layer among the devices with a token's experts (section 3.5);
* reads of weights, KV cache and activations (Eqs. 31-35, with activations read once per slice of
  the weights), against arithmetic (Eqs. 36-38).

Devices and requests are real numbers, as in the paper. How a pass is split is searched over: 1-D
or 2-D, ten pipeline depths up to the smaller of requests and layers, six sizes of the group that
holds one copy of the attention, experts over devices where a stage has tokens for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

import numpy as np

from codesign.base.columns import ArrayList, BoolArray, FloatArray, Floats
from codesign.base.records import frozen
from codesign.evaluators.economics.load import LAYOUTS, ElementBytes, Fixed, Load, Split
from codesign.evaluators.economics.nccl import ONE_WAY, Collective, collective
from codesign.evaluators.economics.shape import ModelShape
from codesign.evaluators.economics.sustained_device import SustainedDevice

KERNELS_PER_LAYER = 4
"""Products after one another in a layer (Eq. 44)."""
KERNEL_S = 4e-6
"""Launch of one kernel (section 4)."""
N_DEPTHS = 10
"""Pipeline depths tried: powers of the deepest with exponents 0, 1/9, ..., 1 [ours]."""
N_SHRINKS = 6
"""Attention groups tried: powers of the stage's devices with exponents 1, 4/5, ..., 0
[ours]."""


class Parts(NamedTuple):
    """Seconds of one pass: ``network + kernel + max(read, arithmetic)`` is its time."""

    network_s: FloatArray
    read_s: FloatArray
    arithmetic_s: FloatArray


@frozen
class _Stage:
    """One pipeline stage: arrays that depend on devices and requests, not on queries.

    Attributes:
        devices: Tensor-parallel devices of the stage.
        requests: Requests of a micro-batch.
        stages: Stages of the pipeline.
    """

    devices: FloatArray
    requests: FloatArray
    stages: FloatArray


_Candidate = tuple[_Stage, int, int]
"""A stage, and the numbers of its layout and of the size of its attention groups."""


class _StepWork(NamedTuple):
    """The tokens that pass a stage together.

    Attributes:
        tokens: Requests times queries.
        experts_met: Share of the experts that the tokens need.
        rest: Times of what the pass has besides layers.
    """

    tokens: FloatArray
    experts_met: Floats
    rest: Parts


@frozen
class _Attention:
    """Terms of a layer's attention; times of the tokens of a pass are linear in them.

    Attributes:
        projections: Collectives with their bytes per token.
        stored_read_s: Seconds to read the weights, and the cache of all requests of the stage.
    """

    projections: Sequence[tuple[Collective, FloatArray]]
    stored_read_s: FloatArray
    activation_read_s: FloatArray
    arithmetic_s: FloatArray

    def parts(self, tokens: FloatArray) -> Parts:
        network = _network(self.projections, tokens)
        read = self.activation_read_s * tokens + self.stored_read_s
        return Parts(network, read, self.arithmetic_s * tokens)


def _network(sends: Sequence[tuple[Collective, FloatArray]], tokens: FloatArray) -> FloatArray:
    """Sum of collectives, all after one another."""
    total: FloatArray | None = None
    for group, bytes_per_token in sends:
        time = group.time_s(bytes_per_token * tokens)
        total = time if total is None else np.add(total, time, out=total)
    assert total is not None
    return total


@frozen
class ForwardPass:
    """Forward passes of one model on one machine.

    Attributes:
        machine: The devices; its arrays broadcast with those of the loads.
        precision: Bytes of an element; its arrays broadcast in the same way.
        fixed: Degrees of the split that are not searched.
    """

    shape: ModelShape
    machine: SustainedDevice
    precision: ElementBytes
    fixed: Fixed = field(default_factory=Fixed)

    def best_times(self, load: Load) -> ArrayList:
        """Time of a pass for every number of queries, each at its best split."""
        best: ArrayList = []
        for _, times in self._candidates(load):
            pairs = zip(best, times, strict=True)
            best = [np.minimum(least, time, out=least) for least, time in pairs] if best else times
        return best

    def best_split(self, load: Load) -> Split:
        """The split of the fastest pass of a single design with one number of queries."""
        candidates = self._candidates(load)
        (stage, layout, shrink), _ = min(candidates, key=lambda candidate: candidate[1][0].item())
        degrees = (
            stage.devices, stage.stages, self._attention_devices(stage, shrink),
            self._expert_groups(stage),
        )  # fmt: skip
        return Split(LAYOUTS[layout], *(float(degree[0]) for degree in degrees))

    def stored_bytes(self, load: Load) -> FloatArray:
        """Weights and KV cache of all requests, each held once (section 3.6)."""
        shape = self.shape
        precision = self.precision
        cached = shape.n_layers * shape.kv_elements * shape.attended(load.context_tokens)
        weights = shape.stored_parameters * precision.weight_bytes
        return weights + cached * precision.kv_bytes * load.batch

    def _candidates(self, load: Load) -> Iterator[tuple[_Candidate, ArrayList]]:
        """Every split that is tried, and the time of its pass for every number of queries."""
        shape = self.shape
        stated_layout = self.fixed.layout
        for depth in range(1 if self.fixed.pipeline is not None else N_DEPTHS):
            deepest = _collapsed(np.minimum(load.batch, self.shape.n_layers))
            stages = np.maximum(deepest, 1.0) ** (depth / (N_DEPTHS - 1))
            if self.fixed.pipeline is not None:
                stages = np.where(np.isnan(self.fixed.pipeline), stages, self.fixed.pipeline)
            stages = np.minimum(stages, load.n_devices)
            stage = _Stage(load.n_devices / stages, load.batch / stages, stages)
            works = [self._work(stage, queries) for queries in load.queries]
            for layout in range(len(LAYOUTS)):
                excluded: BoolArray | None = None
                if stated_layout is not None:
                    excluded = ~np.isnan(stated_layout) & (stated_layout != layout + 1)
                    if excluded.all():
                        continue
                # A layer's block has its share of what a pass has besides layers.
                blocks = [
                    Parts(
                        *(
                            a + b * (1.0 / shape.n_layers)
                            for a, b in zip(
                                self._feedforward(stage, layout, work), work.rest, strict=True
                            )
                        )
                    )
                    for work in works
                ]
                for shrink in range(1 if self.fixed.attention is not None else N_SHRINKS):
                    attention = self._attention(stage, layout, shrink, load)
                    pass_times = []
                    for work, block in zip(works, blocks, strict=True):
                        times = attention.parts(work.tokens)
                        read = times.read_s + block.read_s
                        time = np.maximum(read, times.arithmetic_s + block.arithmetic_s)
                        time += times.network_s
                        time += block.network_s
                        time *= shape.n_layers
                        if excluded is not None:
                            time = np.where(excluded, np.inf, time)
                        pass_times.append(time)
                    yield (stage, layout, shrink), pass_times

    def _work(self, stage: _Stage, queries: int) -> _StepWork:
        """The part of a pass that does not depend on how matrices are sliced."""
        tokens = stage.requests * queries
        shape = self.shape
        machine = self.machine
        message = shape.hidden_size * self.precision.activation_bytes * tokens / stage.devices
        # Neighbors are on different nodes as soon as the instance has more than one.
        nodes = np.minimum(machine.fabric.nodes(stage.devices * stage.stages), 2.0)
        hop = collective(np.full_like(nodes, 2.0), nodes, machine.fabric, ONE_WAY)
        network = (stage.stages - 1.0) * hop.time_s(message)
        network += shape.n_layers * KERNELS_PER_LAYER * KERNEL_S
        weights = shape.unembedding_parameters * self.precision.weight_bytes
        read = weights / stage.devices / machine.bytes_per_s
        work = 2.0 * shape.unembedding_parameters / stage.devices / machine.flop_per_s
        # Experts that some token of the pass needs, as a share (Eq. 22).
        met = 1.0 - (1.0 - 1.0 / shape.sparsity) ** tokens if shape.is_mixture else 1.0
        return _StepWork(tokens, met, Parts(network, read, work * tokens))

    def _reductions(
        self, devices: FloatArray, layout: int, inner_width: float, outer_width: float
    ) -> list[tuple[Collective, FloatArray]]:
        """All-reduces of a block of two products: after both under 2-D, after the second in 1-D.

        Under 2-D every group reduces its slice of the columns.
        """
        ranks = devices
        nodes = self.machine.fabric.nodes(devices)
        if LAYOUTS[layout] == "2d":
            ranks = np.sqrt(devices)
            nodes = np.sqrt(nodes)
        group = collective(ranks, nodes, self.machine.fabric)
        if LAYOUTS[layout] == "1d":
            return [(group, np.asarray(outer_width * self.precision.activation_bytes))]
        slices = self.precision.activation_bytes / ranks
        return [(group, inner_width * slices), (group, outer_width * slices)]

    def _activation_read(self, devices: FloatArray, outputs: float, inputs: float) -> FloatArray:
        """Seconds per token and device for operands of a product sliced over devices.

        The slices are as square as they can be, so that inputs are read by every slice of the
        outputs and sums are read by every slice of the inputs.
        """
        slices = np.clip(np.sqrt(outputs * devices / inputs), 1.0, np.maximum(devices, 1.0))
        elements = slices * inputs + devices / slices * outputs
        rate = devices * self.machine.bytes_per_s
        return np.asarray(elements * self.precision.activation_bytes / rate)

    def _attention_devices(self, stage: _Stage, shrink: int) -> FloatArray:
        devices = stage.devices ** (1.0 - shrink / (N_SHRINKS - 1))
        if self.fixed.attention is not None:
            fixed = np.minimum(self.fixed.attention, stage.devices)
            devices = np.where(np.isnan(fixed), devices, fixed)
        return devices

    def _attention(self, stage: _Stage, layout: int, shrink: int, load: Load) -> _Attention:
        """A layer's attention, whose weights every group of ``devices`` holds and applies.

        Cache and scores are spread over all devices of the stage, as Eqs. 29, 33 and 36 have
        them and as the cache is stored, once; the messages that this takes are neglected (§3.1).
        """
        shape = self.shape
        machine = self.machine
        devices = self._attention_devices(stage, shrink)
        memory = devices * machine.bytes_per_s
        context = shape.attended(load.context_tokens)
        cached = shape.kv_elements * context * self.precision.kv_bytes
        scores = shape.score_flop * context / stage.devices
        stored = shape.attention_parameters * self.precision.weight_bytes / memory
        if context:
            # Queries of one request share a read of its cache.
            stored = stored + cached / (stage.devices * machine.bytes_per_s) * stage.requests
        projected = self._activation_read(devices, shape.qkv_width, shape.hidden_size)
        output = self._activation_read(devices, shape.hidden_size, shape.attention_width)
        return _Attention(
            projections=self._reductions(devices, layout, shape.qkv_width, shape.hidden_size),
            stored_read_s=stored,
            activation_read_s=projected + output,
            arithmetic_s=(2.0 * shape.attention_parameters / devices + scores) / machine.flop_per_s,
        )

    def _expert_groups(self, stage: _Stage) -> FloatArray:
        """Groups of devices among which the experts of a layer are spread."""
        if not self.shape.is_mixture:
            return np.ones_like(stage.devices)
        most = np.minimum(stage.devices, self.shape.n_experts)
        # With fewer requests than this, experts apart would idle (section 3.5).
        groups = np.where(stage.requests >= 2.0 * self.shape.sparsity, most, 1.0)
        if self.fixed.experts is None:
            return groups
        return np.where(np.isnan(self.fixed.experts), groups, np.minimum(self.fixed.experts, most))

    def _feedforward(self, stage: _Stage, layout: int, load: _StepWork) -> Parts:
        """A layer's MLP or experts."""
        degree = self._expert_groups(stage)
        shape = self.shape
        machine = self.machine
        devices = stage.devices / degree
        # Every token goes to this many groups, all groups alike.
        targets = np.minimum(shape.n_active_experts, degree)
        routed = load.tokens * (targets / degree)
        width = shape.n_up_matrices * shape.feedforward_width
        network = _network(self._reductions(devices, layout, width, shape.hidden_size), routed)
        if shape.is_mixture:
            fabric = self.machine.fabric
            group = collective(targets, fabric.nodes(targets), fabric, ONE_WAY)
            activation_bytes = (
                self.shape.hidden_size * self.precision.activation_bytes * targets / stage.devices
            )
            network = network + 2.0 * group.time_s(activation_bytes * load.tokens)
        up = self._activation_read(devices, shape.feedforward_width, shape.hidden_size)
        down = self._activation_read(devices, shape.hidden_size, shape.feedforward_width)
        met = load.experts_met * shape.routed_parameters + shape.shared_parameters
        read = met * self.precision.weight_bytes / (stage.devices * machine.bytes_per_s)
        read = read + (shape.n_up_matrices * up + down) * routed
        work = shape.routed_parameters / shape.sparsity + shape.shared_parameters
        rate = stage.devices * machine.flop_per_s
        return Parts(network, read, 2.0 * work / rate * load.tokens)


def _collapsed(values: FloatArray) -> FloatArray:
    """A single value where all are equal, so that what follows from it is computed once."""
    first = values.ravel()[:1]
    if values.size > 1 and values.ndim == 2 and bool((values == first).all()):
        return first.reshape(1, 1)
    return values
