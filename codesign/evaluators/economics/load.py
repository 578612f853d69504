"""The work of a forward pass, its number formats, and the way it is cut over devices."""

from __future__ import annotations

from codesign.base.columns import FloatArray, Floats, IntegerSequence
from codesign.base.records import frozen

LAYOUTS = ("1d", "2d")
"""Tensor parallelism along one or both sides of a weight matrix."""


@frozen
class ElementBytes:
    """Bytes of an element; each broadcasts with the designs."""

    weight_bytes: Floats = 2.0
    activation_bytes: Floats = 2.0
    kv_bytes: Floats = 2.0


@frozen
class Fixed:
    """Parts of the split that are not searched; None, or NaN in an array, leaves a part open.

    Attributes:
        layout: ``1d`` or ``2d``; an array of 1.0 and 2.0 for designs.
        pipeline: Stages of the pipeline.
        experts: Degree of expert parallelism.
        attention: Devices that hold one copy of the attention.
    """

    layout: Floats | None = None
    pipeline: Floats | None = None
    experts: Floats | None = None
    attention: Floats | None = None


@frozen
class Load:
    """The work of an instance of devices; arrays broadcast.

    Attributes:
        n_devices: Devices of an instance.
        batch: Requests of an instance.
        context_tokens: Tokens that each request attends to.
        queries: Tokens of a request in one pass; several are computed together.
    """

    n_devices: FloatArray
    batch: FloatArray
    context_tokens: float = 0.0
    queries: IntegerSequence = (1,)


@frozen
class Split:
    """Split of a pass.

    Attributes:
        layout: ``1d`` or ``2d``.
        tensor: Devices of a pipeline stage.
        pipeline: Stages of the pipeline.
        attention: Devices that hold one copy of the attention.
        experts: Groups of devices among which the experts are spread.
    """

    layout: str
    tensor: float
    pipeline: float
    attention: float
    experts: float

    @property
    def n_devices(self) -> float:
        """Devices of an instance."""
        return self.pipeline * self.tensor
