"""Share of one device in every operator when a layer is split over a group of devices.

How an operator is divided is a row of :mod:`codesign.models.workload.operator_rules`. Attention
heads and the vocabulary are divided among the devices of tensor and expert parallelism,
feed-forward layers among those of tensor parallelism.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen, select_keys
from codesign.evaluators.platform.platform import Platform
from codesign.models.workload.dimension_parts import largest_parts
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operator_rules import Dimension, OperatorRule, Role
from codesign.models.workload.operators import OperatorTable
from codesign.models.workload.request import LayerPart

_TENSOR_PARALLEL: tuple[Dimension, ...] = ("mlp", "shared", "expert")
"""Dimensions that expert parallelism does not divide."""


@frozen
class RankShare:
    """A rank's part of an operator; (n,) each, of the work, the input and the output."""

    work: FloatArray
    input: FloatArray
    output: FloatArray


class Sharding:
    """Parts of a model's dimensions that one device of ``n`` platforms has.

    Args:
        parts: Parts of dimensions, instead of the largest that a rank has.
        shares: Parts of operators by role, instead of those that their rules give.
        unquantized: Parts of the model whose weights stay in 16 bits.

    Attributes:
        layers: The part of every layer that the devices run.
    """

    layers: LayerPart = "all"

    def __init__(
        self,
        model: LanguageModel,
        platform: Platform,
        parts: Mapping[Dimension, FloatArray] | None = None,
        shares: Mapping[Role, RankShare] | None = None,
        unquantized: Collection[str] = (),
    ) -> None:
        self.unquantized = unquantized
        self.model = model
        self.platform = platform
        ranks = platform.attention_ranks
        tp = platform.tp
        self.heads_per_rank = np.ceil(model.num_attention_heads / ranks)
        by_tensor = largest_parts(model, tp)
        self.parts = largest_parts(model, ranks) | select_keys(by_tensor, _TENSOR_PARALLEL)
        self.parts |= parts or {}
        self._shares = shares or {}

    def share(self, rule: OperatorRule) -> RankShare:
        """A rank's part of the operators of a rule."""
        if rule.role in self._shares:
            return self._shares[rule.role]
        share_of_dimension = self.parts[rule.dimension]
        undivided = np.ones_like(share_of_dimension)
        return RankShare(
            work=share_of_dimension,
            input=undivided if rule.axis == "columns" else share_of_dimension,
            output=undivided if rule.axis == "rows" else share_of_dimension,
        )

    def weight_bytes(self, table: OperatorTable, i: int) -> FloatArray:
        """(n,) bytes of a weight of an operator."""
        is_plain = table.parts[i] in self.unquantized
        return self.platform.plain_bytes if is_plain else self.platform.weight_bytes

    def ranks(self, rule: OperatorRule) -> FloatArray:
        """(n,) devices among which the operators of a rule are divided."""
        by_tensor = rule.dimension in _TENSOR_PARALLEL
        return self.platform.tp if by_tensor else self.platform.attention_ranks
