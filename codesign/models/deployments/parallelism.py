"""Over how many devices a model is spread, and in which way."""

from __future__ import annotations

from codesign.base.records import frozen

TENSOR_PARALLEL = "tensor_parallel"
PIPELINE_PARALLEL = "pipeline_parallel"
EXPERT_PARALLEL = "expert_parallel"
DEGREES = (
    TENSOR_PARALLEL,
    PIPELINE_PARALLEL,
    EXPERT_PARALLEL,
    "sequence_parallel",
    "data_parallel",
)
"""Parameters of a space that say over how many devices each dimension of the work is spread."""
REPLICA_DEGREES = DEGREES[:3]
"""Degrees of :class:`Parallelism` that spread one copy of the model's experts."""
SEARCHED_DEGREES = tuple(name for name in DEGREES if name != "sequence_parallel")
"""Degrees over which a search for the best split goes."""


def divisors(number: float) -> list[int]:
    """Whole numbers that divide a whole number, ascending.

    Examples:
        >>> divisors(12)
        [1, 2, 3, 4, 6, 12]
    """
    return [i for i in range(1, int(number) + 1) if number % i == 0]


@frozen
class Parallelism:
    """Degrees of parallelism of one replica.

    Attributes:
        tensor: Devices over which every layer is cut.
        pipeline: Stages, each with a part of the layers.
        expert: Groups of devices of a stage among which the experts are spread; each group serves
            requests of its own and has all else of the stage's layers.
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1

    @property
    def n_devices(self) -> int:
        """Devices of the replica."""
        return self.tensor * self.pipeline * self.expert


SINGLE = Parallelism()
"""One device alone."""
