"""How work and traffic of operators are counted: two profiles.

``plain`` counts as the other evaluators do: each operator of the lowering is one kernel, causal
scores are skipped, embedding rows are looked up, keys and values cross memory once.

``life`` counts as [LIFE]_ does (see ``variants.py``), with which its tables come out. The paper
gives its counts as formulas (Table 1, Appendix 8.1) and as totals (Tables 4 to 8 and 11). Where
only a total is printed, the share of one operator is ours and marked [fit]: another split with
the same sum would print the same tables.

- A product of (m, k) and (k, n) is 2mkn operations, in projections (Table 1) and in attention [fit:
  the shares of Table 4; Table 1 has 2bmkn - bmn for BMM, Appendix 8.1 2mkn - mn for GEMM]. All
  scores are computed, masked ones too, and the LM head runs on every token.
- Q, K and V, and gate and up, are products of their own, each of which reads the input.
- Every pass reads the whole embedding table, no weights of norms (Tables 1 and 2), and in every
  layer the cosines and sines of 4,096 positions [fit: 2 MiB in Table 11].
- A layer has 19 dispatches (Table 8): seven projections, two norms, two rotations, two attention
  products, softmax, activation, gate, two residuals, and one more with two inputs and an output
  of the model's width, taken to be the scaling of the queries [fit: Tables 5 and 8 need it].
- Operations per element: norm 4, rotation 3, residual 1, scaling 1, activation 2 (a
  piecewise-linear function, Table 1), gate 1, softmax 6 (maximum, subtraction, two of the
  piecewise-linear exponential, sum, product), inverses 2 (Table 2) [fit: Table 5 gives the sum of
  a token and layer, 17 h + 3 I and the inverses, to ±90 of 103,000; h is the model's width and I
  the MLP's].
- The cache is read once as it is; the products then read K and V again, expanded to all heads.
  Dequantizing the cache is 2 operations per element of one such tensor.
- Fused, the second of these reads is gone, and with it all traffic of scores, rotation, scaling,
  inside the MLP, the output of the residuals and the input of the LM head [fit: Tables 5, 7
  and 11].
- MLA is expanded in decode too: per head, the cache holds keys with their rotated part and
  values, and the products read tensors of the values' width; no table of positions [fit:
  Table 11].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from codesign.evaluators.forecast.variants import Variant
from codesign.workload.lowering import Logits
from codesign.workload.model import LanguageModel
from codesign.workload.operator_rules import OperatorRule, Role
from codesign.workload.vector_ops import NORM_OPS, ROPE_OPS

Profile: TypeAlias = Literal["plain", "life"]

INVERSE_OPS = 2.0
"""Operations of a reciprocal or inverse square root: an addition and a product (LIFE Table 2)."""
RESIDUAL_OPS, SCALE_OPS, GATE_OPS = 1.0, 1.0, 1.0
"""Operations of an element: one addition or product [fit: see above]."""
SOFTMAX_OPS = 4.0
"""Operations of a score without the exponential: maximum, subtraction, sum, product [fit: see
above]."""
PWL_OPS = 2.0
"""Operations of a piecewise-linear function: a product and a sum (LIFE Table 1)."""
ROPE_TABLE_ROWS = 4096
"""Positions of the rotation's tables (LIFE, Appendix 8.2: ``rope_table_size``)."""
FUNCTION_TABLE_ROWS = 256
"""Entries of a piecewise-linear function (LIFE, Appendix 8.2: ``actfn_table_size``)."""


@dataclass(frozen=True)
class Conventions:
    """The choices that a profile makes.

    Attributes:
        is_causal: Whether masked scores are skipped.
        logits: Tokens that go through the LM head in a prefill.
        is_decode_memory_bound: Whether the time of a decode step is that of its traffic alone,
            as in LIFE's Eqs. 4-5, or the longer of compute and traffic.
        gigabyte: Bytes of a "GB" where a bandwidth is given in GB/s.
    """

    name: Profile
    is_causal: bool
    logits: Logits
    is_decode_memory_bound: bool
    gigabyte: float

    @property
    def gigabyte_name(self) -> str:
        """GB, or GiB."""
        return "GB" if self.gigabyte == 1e9 else "GiB"


CONVENTIONS: dict[Profile, Conventions] = {
    "plain": Conventions("plain", True, "last", False, 1e9),
    # Table 10: 24 GB/s over 12.85 GiB is printed as 1.87 tokens/s.
    "life": Conventions("life", False, "all", True, 2.0**30),
}


@dataclass(frozen=True)
class CountingRule:
    """How one operator is counted, as factors on the columns of the lowering.

    Attributes:
        kernels: Dispatches of the operator.
        reads: Times that the inputs are read.
        rereads: Times that the outputs are read.
        writes: Times that the outputs are written, with what goes to the cache.
        ops: Elementwise operations per output element, with what goes to the cache.
        exponentials: Approximated functions per output element, as a part of ``ops``.
    """

    kernels: float = 1.0
    reads: float = 1.0
    rereads: float = 0.0
    writes: float = 1.0
    ops: float = 0.0
    exponentials: float = 0.0


NORMS: tuple[Role, ...] = ("norm", "qk_norm")
"""Roles of the operators that normalize."""
_UNCOUNTED: tuple[Role, ...] = ("qk_norm", "router", "combination")
"""Operators that LIFE's Table 8 has no dispatch for: Qwen3 and DeepSeek have 19 a layer too."""


def life_rule(operator: OperatorRule, model: LanguageModel, variant: Variant) -> CountingRule:
    """How LIFE counts an operator of the lowering; attention's products are counted apart."""
    role = operator.role
    split = 1.0 if variant.fused_projections else n_matrices(role, model)
    rule = CountingRule(kernels=split, reads=split)
    if role == "activation":
        rule = _activation_rule(model)
    elif role in NORMS:
        rule = CountingRule(ops=NORM_OPS["rmsnorm"] + INVERSE_OPS / model.hidden_size)
    elif role == "rope":
        rule = CountingRule(kernels=2.0, ops=ROPE_OPS)
    elif role == "residual":
        rule = CountingRule(ops=RESIDUAL_OPS)
    if variant.fused:
        rule = _fused(role, rule)
    is_uncounted = role in _UNCOUNTED or operator.dimension == "shared"
    return replace(rule, kernels=0.0) if is_uncounted else rule


def n_matrices(role: Role, model: LanguageModel) -> float:
    """Matrices that one operator of the lowering multiplies with, had each its own product."""
    return {"qkv": 3.0, "latent": 2.0, "up": float(model.n_up_matrices)}.get(role, 1.0)


def _activation_rule(model: LanguageModel) -> CountingRule:
    if not model.is_gated:
        return CountingRule(exponentials=1.0)
    # The function is a kernel of one input and one output, the gate one of two inputs.
    return CountingRule(kernels=2.0, rereads=1.0, writes=2.0, ops=GATE_OPS, exponentials=1.0)


def _fused(role: Role, rule: CountingRule) -> CountingRule:
    if role in ("rope", "activation"):
        return replace(rule, kernels=0.0, reads=0.0, rereads=0.0, writes=0.0)
    if role == "residual":
        return replace(rule, kernels=0.0, writes=0.0)
    if role == "up":
        return replace(rule, writes=0.0)
    if role in ("down", "lm_head"):
        return replace(rule, reads=0.0)
    return rule


def exponential_ops(variant: Variant, profile: Profile) -> float:
    """Operations of one approximated function (LIFE Table 1).

    Left open by the variant, ``life`` has piecewise-linear ones, and ``plain`` counts one
    instruction, as the lowering does.
    """
    if variant.nonlinear == "polynomial":
        n = variant.polynomial_degree
        return n * (n + 1) / 2.0 + n
    return 1.0 if variant.nonlinear is None and profile == "plain" else PWL_OPS


def function_table_elements(variant: Variant, profile: Profile) -> float:
    """Elements that an approximated function reads besides its inputs (LIFE Table 1)."""
    if variant.nonlinear == "polynomial":
        return float(variant.polynomial_degree)
    return 0.0 if variant.nonlinear is None and profile == "plain" else FUNCTION_TABLE_ROWS
