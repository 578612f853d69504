"""Attention of DeepSeek-V4 to a window and to compressed tokens before it [DeepSeek2026]_.

Groups of tokens share one key, which is the value too. Layers with small groups have an index, and
attend to the ``index_topk`` highest of its scores; others attend to all. Caches have 16 bits an
element, those of indexes 8.

Limiting assumptions: every device computes all heads, as engines do that divide requests; the
projections are one product of as many weights; the window is always full; norms, the softmax, the
sums that compress and writes to the cache are neglected; the products of an index count as
further keys.

.. [DeepSeek2026] DeepSeek-AI, DeepSeek-V4, 2026, §2.3, and ``modeling_deepseek_v4.py`` of
   Transformers 5.24.
"""

from __future__ import annotations

from math import inf

from codesign.base.schema import Natural, Positive
from codesign.models.workload.layer_pass import LayerPass
from codesign.models.workload.model import Block, LanguageModel
from codesign.models.workload.operator_rules import REPLICATED_PRODUCT, STREAMED_STATE
from codesign.models.workload.operators import Operator, Operators, projection


class CompressedAttention(Block):
    """Attention of all layers.

    Attributes:
        compress_ratios: Tokens that share a key, of each layer and of those that predict further
            tokens; 0: none.
        sliding_window: Last tokens, which are attended to uncompressed.
        q_lora_rank: Rank of the queries.
        o_groups: Groups of heads whose outputs are projected apart.
        o_lora_rank: Width of the output of each group.
        index_n_heads: Heads of the index.
        index_head_dim: Width of the index's queries and keys.
        index_topk: Groups that the index chooses.
    """

    compress_ratios: tuple[Natural, ...]
    sliding_window: Positive
    q_lora_rank: Positive
    o_groups: Positive
    o_lora_rank: Positive
    index_n_heads: Positive
    index_head_dim: Positive
    index_topk: Positive

    def lower(self, model: LanguageModel, layer_pass: LayerPass) -> Operators:
        """A product, scores and a cache for the layers of each ratio."""
        ratios = self.compress_ratios[: model.num_hidden_layers]
        operators = Operators()
        key = 2 * model.head_dim
        heads = model.num_attention_heads
        tokens = layer_pass.tokens
        queries = heads * model.head_dim
        hidden = model.hidden_size
        for ratio in sorted({*ratios}):
            count = ratios.count(ratio)
            size = ratio or inf
            index = self.index_head_dim * (ratio == 4)  # only groups of 4 tokens have one
            indexes = self.index_n_heads * index
            entries = layer_pass.context / size
            attended = self.sliding_window + (min(entries, self.index_topk) if index else entries)
            # Keys with their gates; with an index, those of two overlapping groups.
            compressed = 2 * key + 4 * index + self.index_n_heads if index else key * (ratio > 0)
            weights = hidden * (key / 2 + compressed + self.o_groups * self.o_lora_rank)
            weights += self.q_lora_rank * (hidden + queries + indexes) + queries * self.o_lora_rank
            operators += [
                projection(f"projections_{ratio}", "attention", count, tokens, hidden,
                           weights / hidden, rule=REPLICATED_PRODUCT),
                Operator(f"products_{ratio}", "gemm", "attention", count, tokens * heads, key,
                         attended + entries * indexes / (2 * queries), rule=REPLICATED_PRODUCT,
                         input_elements_per_request=tokens * queries,
                         output_elements_per_request=tokens * queries),
                Operator(f"cache_{ratio}", "vector", "attention", count, rule=STREAMED_STATE,
                         state_read_bytes_per_request=key * attended + index * entries,
                         stored_bytes_per_token=(key + index) / size,
                         stored_bytes_per_request=key * self.sliding_window),
            ]  # fmt: skip
        return operators
