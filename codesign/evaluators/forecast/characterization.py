"""What one pass asks of any machine: operations, bytes and dispatches, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.forecast.conventions import (
    INVERSE_OPS,
    ROPE_TABLE_ROWS,
    SCALE_OPS,
    SOFTMAX_OPS,
    Profile,
    Rule,
    exponential_ops,
    function_table_elements,
    life_rule,
)
from codesign.evaluators.forecast.variants import (
    Variant,
    format_bytes,
    is_quantized,
    weight_bytes_per_element,
)
from codesign.workload.model import LanguageModel
from codesign.workload.operators import OperatorTable

QUANTITIES = (
    "matrix_ops",
    "vector_ops",
    "weight_bytes",
    "activation_read_bytes",
    "activation_written_bytes",
    "kv_read_bytes",
    "kv_written_bytes",
    "dispatches",
)
"""The rows of :class:`Work`. ``matrix_ops`` are those of products, ``vector_ops`` all others;
weights are read only."""
OPS = ("matrix_ops", "vector_ops")
READ = ("weight_bytes", "activation_read_bytes", "kv_read_bytes")
WRITTEN = ("activation_written_bytes", "kv_written_bytes")
CLASSES = ("linear", "bmm", "softmax", "norm", "rope", "elementwise", "embedding")
"""Kinds of operators, each of which may have efficiencies of its own."""

DEQUANTIZE_OPS = 2.0
"""Per element: shift and scale (LIFE Table 1)."""
_LAYER_PROJECTIONS = (
    "qkv_projection",
    "latent_projection",
    "query_projection",
    "key_value_projection",
    "output_projection",
    "gate_up_projection",
    "up_projection",
    "down_projection",
)
_ROTATED = ("rope", "output_projection", "down_projection")


@dataclass(frozen=True)
class Work:
    """Work of the ``o`` operators of one pass or of several, all layers together.

    Attributes:
        names: Of the operators.
        classes: One of ``CLASSES`` each.
        values: (..., q, o) one row per quantity, as in ``QUANTITIES``.
    """

    names: tuple[str, ...]
    classes: tuple[str, ...]
    values: FloatArray

    def of(self, *quantities: str) -> FloatArray:
        """(..., o) the sum of these quantities by operator."""
        rows = [QUANTITIES.index(name) for name in quantities]
        return np.asarray(self.values[..., rows, :].sum(axis=-2))

    def total(self, *quantities: str) -> FloatArray:
        """(...) the sum over the operators as well."""
        return np.asarray(self.of(*quantities).sum(axis=-1))

    def with_values(self, values: FloatArray) -> Work:
        """The same operators with other work."""
        return Work(self.names, self.classes, values)

    def rows(self) -> list[dict[str, Any]]:
        """One row per operator for people; only of work without leading axes."""
        return [
            {"name": name, "class": kind}
            | dict(zip(QUANTITIES, self.values[:, i].tolist(), strict=True))
            for i, (name, kind) in enumerate(zip(self.names, self.classes, strict=True))
        ]


def characterize(
    table: OperatorTable,
    model: LanguageModel,
    variant: Variant,
    profile: Profile,
    *,
    past_tokens: float = 0.0,
    batch_size: int = 1,
    tile: int = 1,
) -> Work:
    """The work of one pass under a profile's conventions.

    Limiting assumption: nothing but what fusion keeps stays on chip from operator to operator.

    Args:
        table: The pass, lowered; under ``life`` as a prefill of its tokens.
        model: That was lowered.
        variant: Formats, fusion and the rest.
        profile: ``plain`` or ``life``.
        past_tokens: Tokens in the cache before the pass.
        batch_size: Requests processed together.
        tile: The sizes of attention's products are rounded up to multiples of this (LIFE
            §5.4.1); padding costs operations, not traffic.
    """
    counted = _Life if profile == "life" else _Plain
    columns = counted(table, model, variant, float(past_tokens), batch_size, tile).columns()
    values = np.stack([columns[name] for name in QUANTITIES]) * table.count
    classes = tuple(
        _class_of(name, kind) for name, kind in zip(table.names, table.kinds, strict=True)
    )
    return Work(table.names, classes, values)


def _class_of(name: str, kind: str) -> str:
    known = {"gemm": "linear", "attention_qk": "bmm", "attention_pv": "bmm", "gather": "embedding"}
    if kind in known:
        return known[kind]
    if name.endswith("norm"):
        return "norm"
    return name if name in CLASSES else "elementwise"


class _Plain:
    """One instance of each operator, counted as the lowering has it."""

    profile: Profile = "plain"

    def __init__(
        self,
        table: OperatorTable,
        model: LanguageModel,
        variant: Variant,
        past_tokens: float,
        batch_size: int,
        tile: int,
    ) -> None:
        self.table, self.model, self.variant = table, model, variant
        self.past_tokens, self.batch, self.tile = past_tokens, float(batch_size), tile
        self.activation_bytes = format_bytes(variant.activation_format)
        self.kv_bytes = format_bytes(variant.kv_format)
        self.is_gemm = table.is_kind("gemm")
        self.is_vector = table.is_kind("vector")
        self.names = np.array(table.names)

    def columns(self) -> Mapping[str, FloatArray]:
        """(o,) by quantity."""
        read, written = self.activations()
        kv_read, kv_written = self.cache()
        return {
            "matrix_ops": self.matrix_ops(),
            "vector_ops": self.vector_ops() + self.dequantization() + self.rotation(),
            "weight_bytes": self.weights(),
            "activation_read_bytes": read * self.activation_bytes,
            "activation_written_bytes": written * self.activation_bytes,
            "kv_read_bytes": kv_read * self.kv_bytes,
            "kv_written_bytes": kv_written * self.kv_bytes,
            "dispatches": self.dispatches(),
        }

    # Operations

    def matrix_ops(self) -> FloatArray:
        """Two per multiply-accumulate, and merging the adapters."""
        return 2.0 * self.batch * self.macs() + self.adapter_ops()

    def macs(self) -> FloatArray:
        table, tile = self.table, self.tile
        padded = [np.ceil(sizes / tile) * tile for sizes in (table.m_per_request, table.k, table.n)]
        volume = padded[0] * padded[1] * padded[2] * table.products_per_request
        return np.where(table.is_attention, volume, table.mac_per_request)

    def vector_ops(self) -> FloatArray:
        table = self.table
        beyond = exponential_ops(self.variant, self.profile) - 1.0
        functions = np.where(self.names == "softmax", table.score_written_elements_per_request, 0.0)
        functions += np.where(self.is_activation(), table.output_elements_per_request, 0.0)
        return self.batch * (table.vector_ops_per_request + beyond * functions)

    def is_activation(self) -> Any:
        return np.char.endswith(self.names, "activation")

    def dequantization(self) -> FloatArray:
        """Two operations per quantized weight that is read, and per element of the cache."""
        ops = np.zeros(len(self.table))
        if is_quantized(self.variant.weight_format):
            ops += DEQUANTIZE_OPS * self.projection_elements()
        if is_quantized(self.variant.kv_format):
            ops += DEQUANTIZE_OPS * self.dequantized_elements()
        return ops

    def dequantized_elements(self) -> FloatArray:
        return self.cache()[0]

    def rotation(self) -> FloatArray:
        """Hadamard transforms of the inputs of QuaRot's rotated operators [ours]."""
        if not self.variant.hadamard:
            return np.zeros(len(self.table))
        width = np.where(self.names == "rope", float(self.model.head_dim), self.table.k)
        per_element = np.array([_hadamard_ops(int(max(1.0, size))) for size in width])
        rotated = np.isin(self.names, _ROTATED)
        elements = self.batch * self.table.input_elements_per_request
        return np.where(rotated, per_element * elements, 0.0)

    # Adapters

    def adapter_ops(self) -> FloatArray:
        """Merging the adapters into the weights in every pass (LIFE Table 12)."""
        if self.variant.lora != "inline":
            return np.zeros(len(self.table))
        return np.where(
            self.has_adapters(), lora_merge_ops(self._matrix, self.variant.lora_rank), 0
        )

    def adapter_elements(self) -> FloatArray:
        """Elements of the adapters, r·(k + n) a matrix (LIFE, Appendix 8.1)."""
        if self.variant.lora != "inline":
            return np.zeros(len(self.table))
        per_matrix = self.table.k * self.adapted_matrices() + self.table.n
        return np.where(self.has_adapters(), self.variant.lora_rank * per_matrix, 0.0)

    @property
    def _matrix(self) -> FloatArray:
        return self.table.k * self.table.n

    def has_adapters(self) -> Any:
        return np.isin(self.names, _LAYER_PROJECTIONS)

    def adapted_matrices(self) -> FloatArray:
        """(o,) matrices that an operator is made of, each with adapters of its own."""
        if self.variant.fused_projections:
            return np.ones(len(self.table))
        by_name = {"qkv_projection": 3.0, "latent_projection": 2.0, "gate_up_projection": 2.0}
        return np.array([by_name.get(name, 1.0) for name in self.table.names])

    # Traffic

    def projection_elements(self) -> FloatArray:
        """Elements of the projections' weights that the pass reads."""
        return np.where(self.is_gemm, self.table.weights_read(np.array(self.batch)), 0.0)

    def weights(self) -> FloatArray:
        read = self.table.weights_read(np.array(self.batch))
        own = weight_bytes_per_element(self.variant) * self.projection_elements()
        others = np.where(self.is_gemm, 0.0, read) + self.adapter_elements() + self.constants()
        return own + others * self.activation_bytes

    def constants(self) -> FloatArray:
        """Elements of the tables of approximated functions."""
        reads_one = self.is_activation() | (self.names == "softmax")
        return np.where(reads_one, function_table_elements(self.variant, self.profile), 0.0)

    def activations(self) -> tuple[FloatArray, FloatArray]:
        """Elements read and written; fused, products alone have traffic."""
        table = self.table
        read, written = table.input_elements_per_request, table.output_elements_per_request
        if self.variant.fused:
            moved = np.where(self.is_vector, 0.0, self.batch)
            return read * moved, written * moved
        read = read + table.score_read_elements_per_request
        written = written + table.score_written_elements_per_request
        return self.batch * read, self.batch * written

    def cache(self) -> tuple[FloatArray, FloatArray]:
        """Elements of the cache read and written."""
        table = self.table
        return (
            self.batch * table.kv_read_elements_per_request,
            self.batch * table.kv_written_elements_per_request,
        )

    def dispatches(self) -> FloatArray:
        return np.where(self.is_vector & self.variant.fused, 0.0, 1.0)


class _Life(_Plain):
    """The same as LIFE counts it; see ``conventions.py``."""

    profile: Profile = "life"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        model = self.model
        self.rules: Sequence[Rule] = [
            life_rule(name, model, self.variant) for name in self.table.names
        ]
        dims = model.latent_dims if model.is_latent else None
        heads, own = model.num_attention_heads, model.head_dim
        kv_width = 2.0 * model.num_key_value_heads * own
        value_width = float(own)
        if dims is not None:
            kv_width = float(heads) * (
                dims.qk_nope_head_dim + dims.qk_rope_head_dim + dims.v_head_dim
            )
            value_width = float(dims.v_head_dim)
        self.cached_elements_per_token = kv_width
        self.expanded_elements_per_token = heads * value_width
        self.is_qk = self.table.is_kind("attention_qk")
        self.is_pv = self.table.is_kind("attention_pv")
        # Keys and values of the past are in the cache as they are used.
        context = self.past_tokens + self.table.tokens_per_request
        is_up = self.names == "key_value_projection"
        self.rows_share = np.where(is_up, self.table.tokens_per_request / context, 1.0)
        self.context = float(context)

    def _factor(self, name: str) -> FloatArray:
        return np.array([getattr(rule, name) for rule in self.rules])

    def _outputs(self) -> FloatArray:
        """Everything that an operator makes, what the lowering sends to the cache too."""
        table = self.table
        made = table.output_elements_per_request + table.kv_written_elements_per_request
        return np.asarray(self.batch * made * self.rows_share)

    def _inputs(self) -> FloatArray:
        return np.asarray(self.batch * self.table.input_elements_per_request * self.rows_share)

    def _queries(self) -> FloatArray:
        table = self.table
        return self.batch * table.products_per_request * table.m_per_request * table.k

    def _scores(self) -> FloatArray:
        return self.batch * self.table.score_written_elements_per_request

    def macs(self) -> FloatArray:
        return super().macs() * self.rows_share

    def matrix_ops(self) -> FloatArray:
        table = self.table
        repeats = np.where(table.is_attention, table.products_per_request, table.experts_per_token)
        sums = table.m_per_request * table.n * repeats * self.rows_share
        return super().matrix_ops() - self.batch * sums

    def vector_ops(self) -> FloatArray:
        function = exponential_ops(self.variant, self.profile)
        per_output = self._factor("ops") + function * self._factor("exponentials")
        ops = per_output * self._outputs()
        ops += np.where(self.names == "softmax", (SOFTMAX_OPS + function) * self._scores(), 0.0)
        ops += np.where(self.is_qk, SCALE_OPS * self._queries(), 0.0)
        # The reciprocal of each row's sum, one per head and token.
        rows = self.batch * self.table.products_per_request * self.table.m_per_request
        return ops + np.where(self.is_pv, INVERSE_OPS * rows, 0.0)

    def dequantized_elements(self) -> FloatArray:
        return np.where(self.is_qk, self._operand(), 0.0)

    def _operand(self) -> float:
        """Elements of keys, or of values, expanded to all heads, over the whole context."""
        return float(self.batch * self.context * self.expanded_elements_per_token)

    def weights(self) -> FloatArray:
        # The table is read whole; the rows looked up are part of it. Table 1 and 2 have no
        # weights for norms.
        model, gather = self.model, self.names == "embedding"
        is_norm = np.char.endswith(self.names, "norm")
        own = np.where(gather | is_norm, 0.0, super().weights())
        table_bytes = model.vocab_size * model.hidden_size * self.activation_bytes
        return np.where(gather, table_bytes, own)

    def constants(self) -> FloatArray:
        rotation = 0.0 if self.model.is_latent else 2.0 * ROPE_TABLE_ROWS * self.model.head_dim
        return super().constants() + np.where(self.names == "rope", rotation, 0.0)

    def activations(self) -> tuple[FloatArray, FloatArray]:
        read = self._factor("reads") * self._inputs() + self._factor("rereads") * self._outputs()
        written = self._factor("writes") * self._outputs()
        is_attention, fused = self.is_qk | self.is_pv, self.variant.fused
        read, written = np.where(is_attention, 0.0, read), np.where(self.is_qk, 0.0, written)
        # The scaling reads queries and factors and writes queries.
        read += np.where(self.is_qk, (1.0 if fused else 3.0) * self._queries(), 0.0)
        if not fused:
            written += np.where(self.is_qk, self._queries(), 0.0)
            read += self.batch * self.table.score_read_elements_per_request
            written += self._scores()
        # Keys and values are in the cache's format; the caller multiplies by the activations'.
        operand = self._operand() * self.kv_bytes / self.activation_bytes
        return read + np.where(self.is_qk | (self.is_pv & (not fused)), operand, 0.0), written

    def cache(self) -> tuple[FloatArray, FloatArray]:
        half = self.batch * self.cached_elements_per_token / 2.0
        moved = np.where(self.is_qk | self.is_pv, half, 0.0)
        return moved * self.past_tokens, moved * self.table.tokens_per_request

    def dispatches(self) -> FloatArray:
        is_latent, fused = self.model.is_latent, self.variant.fused
        scaling = np.where(self.is_qk & (not fused) & (not is_latent), 1.0, 0.0)
        kept = (self.names == "softmax") | self.is_pv
        inside = np.where(kept & fused, 0.0, self._factor("kernels"))
        return inside + scaling


def lora_merge_ops(matrix_elements: FloatArray, rank: int) -> FloatArray:
    """Operations that merge a pair of adapters into a matrix: 2kn(r + 1).

    LIFE Table 12; its Appendix 8.1 has kn instead of 2kn for the sum, with which the table's
    totals would be 213.7 instead of 220.2 at rank 16.

    Args:
        matrix_elements: k·n of the matrices.
        rank: r.
    """
    return 2.0 * np.asarray(matrix_elements) * (rank + 1)


def _hadamard_ops(size: int) -> float:
    """Additions per element of a Hadamard transform of this size [ours].

    A power of two takes log2(size) steps; an odd factor q > 1 is a dense matrix of order 4q.
    """
    odd, steps = size, 0
    while odd % 2 == 0:
        odd, steps = odd // 2, steps + 1
    if odd == 1:
        return float(steps)
    return float(max(0, steps - 2) + 4 * odd - 1)
