"""Counting of work and traffic of operators: the profile ``plain``.

It counts as the other evaluators do: each operator of the lowering is one kernel, causal scores are
skipped, embedding rows are looked up, keys and values cross memory once. Further profiles are
conventions of others (:mod:`codesign.conventions`): classes that override what they count
otherwise.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from codesign.base.columns import ArrayPair, Arrays, FloatArray
from codesign.base.schema import accepted_by
from codesign.evaluators.forecast.operator_work import QUANTITIES, PassWork, class_of
from codesign.evaluators.forecast.variants import (
    Nonlinear,
    Variant,
    format_bytes,
    is_quantized,
    weight_bytes_per_element,
)
from codesign.evaluators.profiles import Profiles
from codesign.models.workload.lowering import Logits
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operator_rules import Role
from codesign.models.workload.operators import OperatorTable

PROFILES = Profiles("forecast", {"plain": "codesign.evaluators.forecast.plain:PlainCount"})
"""Every class of rules is a :class:`PlainCount`."""
Profile = Annotated[
    str, accepted_by(PROFILES.rules_class), Field(json_schema_extra=PROFILES.list_in)
]

DEQUANTIZE_OPS = 2.0
"""Operations per dequantized element: shift and scale (LIFE Table 1)."""
PWL_OPS = 2.0
"""Operations of a piecewise-linear function: a product and a sum (LIFE Table 1)."""
FUNCTION_TABLE_ROWS = 256
"""Entries of a piecewise-linear function (LIFE, Appendix 8.2: ``actfn_table_size``)."""
_PROJECTIONS: tuple[Role, ...] = (
    "qkv",
    "latent",
    "query",
    "key_value",
    "attention_output",
    "up",
    "down",
)
"""Roles of the products of a layer that may have adapters."""
_ROTATED: tuple[Role, ...] = ("rope", "attention_output", "down")
"""Roles of the operators whose inputs QuaRot rotates."""


class PlainCount:
    """The operators of one pass, counted as the lowering has them.

    Args:
        table: The pass, lowered.
        model: Model that was lowered.
        variant: Formats, fusion and the rest.
        past_tokens: Tokens in the cache before the pass.
        batch_size: Requests processed together.
        tile: The sizes of attention's products are rounded up to multiples of this (LIFE
            §5.4.1); padding costs operations, not traffic.
    """

    is_causal: ClassVar[bool] = True
    """Whether masked scores are skipped, if the request does not say."""
    logits: ClassVar[Logits] = "last"
    """Tokens that go through the LM head in a prefill, if the request does not say."""
    decodes_as_prefill: ClassVar[bool] = False
    """Whether a decode step is counted as a prefill of one token."""
    is_decode_memory_bound: ClassVar[bool] = False
    """Whether the time of a decode step is that of its traffic alone, not the longer of both."""
    nonlinear: ClassVar[Nonlinear | None] = None
    """Approximation of exponentials, if the variant does not state one; None: by one instruction.
    """
    gigabyte: ClassVar[float] = 1e9
    """Bytes of the unit in which a bandwidth is given."""
    gigabyte_name: ClassVar[str] = "GB"
    """Name of this unit."""

    @classmethod
    def check(cls, model: LanguageModel) -> None:
        """Refuse a model that the profile cannot count; here none.

        Raises:
            InputError: The profile cannot count it.
        """

    def __init__(
        self,
        table: OperatorTable,
        model: LanguageModel,
        variant: Variant,
        past_tokens: float,
        batch_size: int,
        tile: int,
    ) -> None:
        nonlinear = variant.nonlinear or self.nonlinear
        self.table = table
        self.model = model
        self.variant = variant.model_copy(update={"nonlinear": nonlinear})
        self.past_tokens = float(past_tokens)
        self.batch = float(batch_size)
        self.tile = tile
        self.activation_bytes = format_bytes(variant.activation_format)
        self.kv_bytes = format_bytes(variant.kv_format)
        self.is_gemm = table.is_kind("gemm")
        self.is_vector = table.is_kind("vector")
        self.roles = np.array([rule.role for rule in table.rules])
        self.is_softmax = self.roles == "softmax"
        self.is_activation = self.roles == "activation"
        # Adapters and rotations are of the layers that every token passes through.
        self.is_dense = np.array(
            [rule.dimension not in ("shared", "expert") for rule in table.rules]
        )
        is_inline = self.variant.lora == "inline"
        self.has_adapters = np.isin(self.roles, _PROJECTIONS) & self.is_dense & is_inline

    def work(self) -> PassWork:
        """The work of the pass, all layers together.

        Limiting assumption: nothing but what fusion keeps stays on chip from operator to operator.
        """
        table = self.table
        columns = self.columns()
        values = np.stack([columns[name] for name in QUANTITIES]) * table.count
        classes = tuple(
            class_of(rule.role, operator_kind)
            for rule, operator_kind in zip(table.rules, table.kinds, strict=True)
        )
        return PassWork(table.names, classes, table.groups, table.rules, values)

    def columns(self) -> Arrays:
        """(o,) amounts of work of one instance of each operator, by name of the quantity."""
        read, written = self.activations()
        kv_read, kv_written = self.cache()
        return {
            "matrix_ops": self.matrix_ops(),
            "vector_ops": self.vector_ops() + self.dequantization() + self.rotation(),
            "weight_bytes": self.weights(),
            "activation_read_bytes": read * self.activation_bytes,
            "activation_written_bytes": written * self.activation_bytes,
            "kv_read_bytes": kv_read * self.kv_bytes
            + self.batch * self.table.state_read_bytes_per_request,
            "kv_written_bytes": kv_written * self.kv_bytes
            + self.batch * self.table.state_written_bytes_per_request,
            "dispatches": self.dispatches(),
        }

    # Operations

    def matrix_ops(self) -> FloatArray:
        """Two per multiply-accumulate, and merging the adapters."""
        return 2.0 * self.batch * self.macs() + self.adapter_ops()

    def macs(self) -> FloatArray:
        table = self.table
        tile = self.tile
        if tile == 1:  # a mean context has a fraction, which is no padding
            return table.mac_per_request
        padded = [np.ceil(sizes / tile) * tile for sizes in (table.m_per_request, table.k, table.n)]
        volume = padded[0] * padded[1] * padded[2] * table.products_per_request
        return np.where(table.is_attention, volume, table.mac_per_request)

    def vector_ops(self) -> FloatArray:
        table = self.table
        beyond = exponential_ops(self.variant) - 1.0
        functions = np.where(self.is_softmax, table.score_written_elements_per_request, 0.0)
        functions += np.where(self.is_activation, table.output_elements_per_request, 0.0)
        return self.batch * (table.vector_ops_per_request + beyond * functions)

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
        width = np.where(self.roles == "rope", float(self.model.head_dim), self.table.k)
        per_element = np.array([_hadamard_ops(int(max(1.0, size))) for size in width])
        rotated = np.isin(self.roles, _ROTATED) & self.is_dense
        elements = self.batch * self.table.input_elements_per_request
        return np.where(rotated, per_element * elements, 0.0)

    # Adapters

    def adapter_ops(self) -> FloatArray:
        """Merging the adapters into the weights in every pass (LIFE Table 12)."""
        ops = lora_merge_ops(self.table.k * self.table.n, self.variant.lora_rank)
        return np.where(self.has_adapters, ops, 0.0)

    def adapter_elements(self) -> FloatArray:
        """Elements of the adapters, r·(k + n) a matrix (LIFE, Appendix 8.1)."""
        matrices = np.ones(len(self.table))
        if not self.variant.fused_projections:  # each matrix has adapters of its own
            matrices = np.array([n_matrices(rule.role, self.model) for rule in self.table.rules])
        per_matrix = self.table.k * matrices + self.table.n
        return np.where(self.has_adapters, self.variant.lora_rank * per_matrix, 0.0)

    # Traffic

    def projection_elements(self) -> FloatArray:
        """Elements of the projections' weights that the pass reads."""
        return np.where(self.is_gemm, self.table.weights_read(np.array(self.batch)), 0.0)

    def weights(self) -> FloatArray:
        read = self.table.weights_read(np.array(self.batch))
        weight_bytes = weight_bytes_per_element(self.variant) * self.projection_elements()
        others = np.where(self.is_gemm, 0.0, read) + self.adapter_elements() + self.constants()
        return weight_bytes + others * self.activation_bytes

    def constants(self) -> FloatArray:
        """Elements of the tables of approximated functions."""
        reads_one = self.is_activation | self.is_softmax
        return np.where(reads_one, function_table_elements(self.variant), 0.0)

    def activations(self) -> ArrayPair:
        """Elements read and written; fused, products alone have traffic."""
        table = self.table
        read = table.input_elements_per_request
        written = table.output_elements_per_request
        if self.variant.fused:
            moved = np.where(self.is_vector, 0.0, self.batch)
            return read * moved, written * moved
        read = read + table.score_read_elements_per_request
        written = written + table.score_written_elements_per_request
        return self.batch * read, self.batch * written

    def cache(self) -> ArrayPair:
        """Elements of the cache read and written."""
        table = self.table
        return (
            self.batch * table.kv_read_elements_per_request,
            self.batch * table.kv_written_elements_per_request,
        )

    def dispatches(self) -> FloatArray:
        return np.where(self.is_vector & self.variant.fused, 0.0, 1.0)


def rules_of(profile: str) -> type[PlainCount]:
    """Counting rules of a profile."""
    rules: type[PlainCount] = PROFILES.rules_class(profile)
    return rules


def n_matrices(role: Role, model: LanguageModel) -> float:
    """Matrices that one operator of the lowering multiplies with, had each its own product."""
    return {"qkv": 3.0, "latent": 2.0, "up": float(model.n_up_matrices)}.get(role, 1.0)


def exponential_ops(variant: Variant) -> float:
    """Operations per value of an approximated function (LIFE Table 1); 1 for an instruction."""
    if variant.nonlinear == "polynomial":
        n = variant.polynomial_degree
        return n * (n + 1) / 2.0 + n
    return PWL_OPS if variant.nonlinear == "pwl" else 1.0


def function_table_elements(variant: Variant) -> float:
    """Elements that an approximated function reads besides its inputs (LIFE Table 1)."""
    if variant.nonlinear == "polynomial":
        return float(variant.polynomial_degree)
    return FUNCTION_TABLE_ROWS if variant.nonlinear == "pwl" else 0.0


def lora_merge_ops(matrix_elements: FloatArray, rank: int) -> FloatArray:
    """Operations that merge a pair of adapters into a matrix: 2kn(r + 1).

    LIFE Table 12; its Appendix 8.1 has kn instead of 2kn for the sum, with which the table's
    totals would be 213.7 instead of 220.2 at rank 16.

    Args:
        matrix_elements: k·n of the matrices.
        rank: r.
    """
    return 2.0 * matrix_elements * (rank + 1)


def _hadamard_ops(size: int) -> float:
    """Additions per element of a Hadamard transform of this size [ours].

    A power of two takes log2(size) steps; an odd factor q > 1 is a dense matrix of order 4q.
    """
    odd = size
    steps = 0
    while odd % 2 == 0:
        odd = odd // 2
        steps = steps + 1
    if odd == 1:
        return float(steps)
    return float(max(0, steps - 2) + 4 * odd - 1)
