"""Instances of a found design, by the evaluator of its campaign.

A design is one device. Tensor and expert parallelism spread a model over up to ``MOST_LINKED`` of
them, which the links of the evaluator's options join.

Limiting assumption: caches leave a prefilling pool over the same links, as in the space
``system-pd``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codesign.base.columns import BoolArray, Columns, Fields, FloatArray, column_of, design_columns
from codesign.base.errors import InputError
from codesign.base.records import drop_keys, frozen
from codesign.evaluators.phase_machine import BATCH_SIZE, PhaseMachine, machine_for
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.models.deployments.parallelism import EXPERT_PARALLEL, REPLICA_DEGREES
from codesign.models.hardware.power import board_joules_per_token

MOST_LINKED = 32
"""Found designs that links join at most, as in the space ``memexplorer-parallel``."""


@frozen
class FoundDesign:
    """A design as a device of deployments.

    Attributes:
        key: Name of the design in answers.
        machine: Evaluator of the design.
        values: Value by parameter, without a batch and degrees of parallelism.
        power: Thermal design power in watts.
        network_bandwidth: Bytes per second that it sends to others.
    """

    key: str
    machine: PhaseMachine
    values: Fields
    power: float
    network_bandwidth: float
    n_linked: int = MOST_LINKED


def found_design(key: str, machine: PhaseMachine, design: Fields) -> FoundDesign:
    """A design as a device of deployments; its degrees of parallelism are searched anew.

    Args:
        key: Name of the design in answers.
        machine: Evaluator of the design; its workload counts for the power alone.
        design: Value by parameter of the evaluator.

    Raises:
        InputError: The evaluator is slow, or its designs have no batch or no degrees.
    """
    parameters = machine.required_parameters | machine.optional_parameters
    if machine.is_slow or not {BATCH_SIZE, *REPLICA_DEGREES} <= parameters:
        raise InputError(
            "expected a design of a fast evaluator with batches and parallelism, such as npu; "
            "codesign serve-model --on replays requests on others"
        )
    values = drop_keys(dict(design), [BATCH_SIZE, *REPLICA_DEGREES])
    columns = design_columns({**values, BATCH_SIZE: 1})
    watts = machine.evaluate(columns, ["tdp_watts"]).metrics["tdp_watts"][0]
    options: Any = machine.options
    return FoundDesign(key, machine, values, float(watts), options.link_bandwidth)


@frozen
class DesignServing:
    """Service of ``n`` instances of a design; all (n,), as in :class:`PlatformServing`.

    Energies are those of boards, as for devices. One board serves both phases, so its power at rest
    follows from the larger TDP. The price counts electricity of chip and memories alone.

    Attributes:
        fits: True if the design keeps its own limits and memory holds the batch.
        usd_per_hour: (2, n) price of an hour of prefills and of decode steps.
    """

    n_devices: FloatArray
    prefill_requests_per_s: FloatArray
    sustained_time_to_first_token_s: FloatArray
    prefill_energy_joules_per_token: FloatArray
    time_per_output_token_s: FloatArray
    energy_joules_per_token: FloatArray
    fits: BoolArray
    usd_per_hour: FloatArray
    draft: None = None


class DesignEvaluator(PlatformEvaluator):
    """Instances of a found design, with the parameters of the design in place of a device's."""

    design: FoundDesign

    def serving(self, designs: Columns) -> Any:
        degrees = [designs[name].lookup(float) for name in REPLICA_DEGREES]
        batch = designs[BATCH_SIZE].lookup(float) / designs[EXPERT_PARALLEL].lookup(float)
        columns = drop_keys(designs, ["device", "data_parallel"])
        columns[BATCH_SIZE] = column_of(batch.astype(int).tolist())
        request = self.workload
        machine = self.design.machine
        keys: Fields = {
            "model": request.model, "prompt_tokens": request.prompt, "batch": 1,
            "generated_tokens": request.generated, "beyond_context": True,
        }  # fmt: skip
        prefill, decode = (
            machine_for(type(machine), {**keys, "phase": phase}, machine.options, machine).evaluate(
                columns
            )
            for phase in ("prefill", "decode")
        )
        tdp = np.maximum(prefill.metrics["tdp_watts"], decode.metrics["tdp_watts"])
        first, step = (dict(x.metrics) | {"tdp_watts": tdp} for x in (prefill, decode))
        usd = [x["usd_per_million_tokens"] * x["throughput_tokens_per_s"] for x in (first, step)]
        room = self.options.usable_memory * step["memory_capacity_bytes"]
        broken = [excess > 0 for excess in decode.violations.values()]
        return DesignServing(
            np.prod(degrees, axis=0),
            first["throughput_tokens_per_s"] / request.prompt,
            first["time_to_first_token_s"],
            board_joules_per_token(first),
            step["time_per_output_token_s"],
            board_joules_per_token(step),
            ~np.any([*broken, step["memory_used_bytes"] > room], axis=0),
            np.array(usd) * 3600.0 / 1e6,
        )
