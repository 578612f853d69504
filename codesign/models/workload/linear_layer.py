"""Operators that all kinds of linear attention have: projections, convolution, norm of the output.

The recurrences are in ``linear_attention.py`` and ``state_space.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from codesign.base.records import frozen
from codesign.models.workload.layer_dims import LinearDims
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operators import Operator, Operators, projection
from codesign.models.workload.vector_ops import ACTIVATION_OPS, NORM_OPS

STATE_OPS = 3
"""Operations of an element of a state and token: decay, outer product, sum."""


@frozen
class LinearLayer(ABC):
    """One pass of a layer with linear attention.

    Attributes:
        count: Number of such layers.
        dims: Dimensions of its linear attention.
        tokens: Tokens that a request brings.
        has_past: Whether the pass reads a state.
    """

    model: LanguageModel
    count: int
    dims: LinearDims
    tokens: float
    has_past: bool

    def inputs(self) -> Operators:
        """Projection, and convolution where there is one."""
        dims = self.dims
        tokens = self.tokens
        convolved = tokens * dims.conv_channels
        projected = projection(
            "linear_projection",
            "attention",
            self.count,
            tokens,
            self.model.hidden_size,
            dims.projected_width,
        )
        if not convolved:
            return [projected]
        return [
            projected,
            Operator(
                "linear_convolution",
                "vector",
                "attention",
                self.count,
                weight_elements=dims.conv_weights,
                input_elements_per_request=convolved,
                output_elements_per_request=convolved,
                state_read_bytes_per_request=dims.window_bytes if self.has_past else 0,
                state_written_bytes_per_request=dims.window_bytes,
                stored_bytes_per_request=dims.window_bytes,
                vector_ops_per_request=convolved
                * (2 * dims.conv_kernel - 1 + ACTIVATION_OPS["silu"]),
            ),
        ]

    @abstractmethod
    def step(self) -> Operators:
        """The recurrence of one token."""

    @abstractmethod
    def scan(self) -> Operators:
        """The recurrence of a prompt."""

    def product(
        self,
        name: str,
        *,
        rows: float,
        k: float,
        n: float,
        times: float,
        inputs: float,
        outputs: float = 0.0,
        scores_read: float = 0.0,
        scores_written: float = 0.0,
        state_read: float = 0.0,
        state_written: float = 0.0,
    ) -> Operator:
        """``times`` products of a request; ``inputs`` and ``outputs`` are elements per token."""
        return Operator(
            name,
            "linear_attention",
            "attention",
            self.count,
            m_per_request=rows,
            k=k,
            n=n,
            products_per_request=times,
            input_elements_per_request=self.tokens * inputs,
            output_elements_per_request=self.tokens * outputs,
            score_read_elements_per_request=scores_read,
            score_written_elements_per_request=scores_written,
            state_read_bytes_per_request=state_read,
            state_written_bytes_per_request=state_written,
            stored_bytes_per_request=state_written,
        )

    def decays(self, n_read: int, ops: float) -> Operator:
        """Decays and rates of value heads.

        Args:
            n_read: Numbers that the projection gives each head.
            ops: Operations of a head and token.
        """
        heads = self.tokens * self.dims.n_value_heads
        return Operator(
            "linear_decay",
            "vector",
            "attention",
            self.count,
            weight_elements=self.dims.head_parameters,
            input_elements_per_request=heads * n_read,
            output_elements_per_request=heads * 2,
            vector_ops_per_request=heads * ops,
        )

    def recurrence(self, n_products: int, value_ops: float) -> Operators:
        """Products of one token with the state, and its update.

        Args:
            n_products: Products with the state, which is read once for all.
            value_ops: Operations of an element of a value.
        """
        dims = self.dims
        tokens = self.tokens
        state = self.dims.state_bytes
        products = self.product(
            "linear_state_products",
            rows=n_products,
            k=dims.key_dim,
            n=dims.value_dim,
            times=dims.n_value_heads * tokens,
            inputs=n_products * dims.key_width,
            outputs=n_products * dims.value_width,
            state_read=state,
        )
        update = Operator(
            "linear_state_update",
            "vector",
            "attention",
            self.count,
            # Keys, values and the products.
            input_elements_per_request=tokens
            * (dims.key_width + (n_products + 1) * dims.value_width),
            output_elements_per_request=tokens * dims.value_width,
            state_written_bytes_per_request=state,
            stored_bytes_per_request=state,
            vector_ops_per_request=tokens
            * (STATE_OPS * dims.state_elements + value_ops * dims.value_width),
        )
        return [products, update]

    def outputs(self) -> Operators:
        """RMS norm of each value head, gate, output projection."""
        width = self.dims.value_width
        tokens = self.tokens
        ops = NORM_OPS["rmsnorm"] + ACTIVATION_OPS["silu"] + 1
        return [
            Operator(
                "linear_norm",
                "vector",
                "attention",
                self.count,
                weight_elements=self.dims.norm_width,
                input_elements_per_request=2 * tokens * width,
                output_elements_per_request=tokens * width,
                vector_ops_per_request=tokens * width * ops,
            ),
            projection(
                "linear_output_projection",
                "attention",
                self.count,
                tokens,
                width,
                self.model.hidden_size,
            ),
        ]
