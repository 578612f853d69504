"""Blocks that only Gemma 3n and Gemma 4 have beside attention and MLPs.

AltUp's elementwise work is not modeled.
"""

from __future__ import annotations

from codesign.base.schema import Positive
from codesign.models.workload.layer_pass import LayerPass
from codesign.models.workload.model import Block, LanguageModel
from codesign.models.workload.operator_rules import REPLICATED_PRODUCT, operator_rule
from codesign.models.workload.operators import Group, Operator, Operators, projection


def _products(
    group: Group, count: int, tokens: float, shapes: dict[str, tuple[int, int]]
) -> Operators:
    return [
        projection(name, group, count, tokens, k, n, rule=REPLICATED_PRODUCT)
        for name, (k, n) in shapes.items()
    ]


class LayerInputs(Block):
    """A second embedding table, of which every layer adds a part through a gate.

    Attributes:
        hidden_size_per_layer_input: Width that the table adds to every layer.
        vocab_size_per_layer_input: Rows of the table.
    """

    hidden_size_per_layer_input: Positive
    vocab_size_per_layer_input: Positive

    def lower(self, model: LanguageModel, layer_pass: LayerPass) -> Operators:
        """The look-up, and three products in every layer."""
        layers = model.num_hidden_layers
        width = self.hidden_size_per_layer_input
        hidden = model.hidden_size
        looked_up = layer_pass.tokens * layers * width
        table = Operator(
            "layer_input_embedding",
            "gather",
            "embedding",
            1,
            lookup_elements_per_request=looked_up,
            output_elements_per_request=looked_up,
            stored_weight_elements=self.vocab_size_per_layer_input * layers * width,
            rule=operator_rule("embedding"),
        )
        shapes = {"layer_input_projection": (hidden, width), "layer_input_gate": (hidden, width),
                  "layer_input_output": (width, hidden)}  # fmt: skip
        return [table, *_products("mlp", layers, layer_pass.tokens, shapes)]


class AlternatingUpdates(Block):
    """Copies of the residual stream, to and from all but one of which a matrix leads (AltUp).

    Attributes:
        altup_num_inputs: Copies, the residual stream itself included.
    """

    altup_num_inputs: Positive

    def lower(self, model: LanguageModel, layer_pass: LayerPass) -> Operators:
        """The matrices to and from the copies."""
        shapes = {"altup_projection": (model.hidden_size, model.hidden_size)}
        count = 2 * (self.altup_num_inputs - 1)
        return _products("embedding", count, layer_pass.tokens, shapes)


class LearnedResidual(Block):
    """Two matrices of low rank beside every layer's attention (LAuReL).

    Attributes:
        laurel_rank: Rank of the matrices.
    """

    laurel_rank: Positive

    def lower(self, model: LanguageModel, layer_pass: LayerPass) -> Operators:
        """The two products of every layer."""
        hidden = model.hidden_size
        rank = self.laurel_rank
        shapes = {"laurel_projection": (hidden, rank), "laurel_output": (rank, hidden)}
        return _products("mlp", model.num_hidden_layers, layer_pass.tokens, shapes)
