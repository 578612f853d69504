"""Over how many devices a model is spread, and in which way."""

from __future__ import annotations

from dataclasses import dataclass

TENSOR_PARALLEL = "tensor_parallel"
PIPELINE_PARALLEL = "pipeline_parallel"
DEGREES = (TENSOR_PARALLEL, PIPELINE_PARALLEL)
"""Parameters of a space that say how many devices serve the model together."""


@dataclass(frozen=True)
class Parallelism:
    """Degrees of parallelism of one replica.

    Attributes:
        tensor: Devices over which every layer is cut.
        pipeline: Stages, each with a part of the layers.
    """

    tensor: int = 1
    pipeline: int = 1

    @property
    def n_devices(self) -> int:
        """Devices of the replica."""
        return self.tensor * self.pipeline


SINGLE = Parallelism()
"""One device alone."""
