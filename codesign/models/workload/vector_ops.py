"""Operations of the vector unit per element, which no evaluator counts otherwise.

One for each of addition, multiplication, comparison, reciprocal, exponential, logarithm or step
of a reduction:

==============  ===  ===========================================================================
RMS norm          4  square, sum, scale by the reciprocal root, weight
layer norm        7  sum, subtract the mean, square, sum, scale, weight, bias
L2 norm           3  square, sum, scale by the reciprocal root (and the query's own scale)
softmax           6  scale, maximum, subtract, exponential, sum, divide (as LIFE counts, Table 4)
RoPE              3  two products with cosine and sine, one sum
sigmoid           3  exponential, add one, reciprocal
SiLU              4  sigmoid, product
ReLU, squared   1 2  comparison; product
GELU              8  as x·sigmoid(2√(2/π)(x + 0.044715x³)): square, scale, add, product and SiLU
gate              1  product with the up projection
output gate       4  sigmoid of the gate, product with the attention's output
bias, residual    1  addition
convolution    2c+3  per channel: c products, c - 1 sums, SiLU
routing           6  per expert: softmax without scale, comparison for the choice of the best
index score       3  per head of an indexer: comparison with 0, product with its weight, sum
index selection   4  per score: a digit of 8 of its 32 bits, in turn (radix selection) [ours]
combination       2  per chosen expert: product with its weight, sum; a shared expert is added
==============  ===  ===========================================================================

Those of the delta rule are in ``linear_attention.py``, of other states in ``state_space.py``.
"""

from __future__ import annotations

NORM_OPS = {"rmsnorm": 4, "layernorm": 7}
ACTIVATION_OPS = {"silu": 4, "gelu": 8, "relu": 1, "relu2": 2}
L2_NORM_OPS = 3
SIGMOID_OPS = 3
OUTPUT_GATE_OPS = 4
SOFTMAX_OPS = 6
ROPE_OPS = 3
ROUTING_OPS = 6
COMBINE_OPS = 2
INDEX_OPS = 3
SELECTION_OPS = 4
"""Operations per element; the table above says what is counted."""
