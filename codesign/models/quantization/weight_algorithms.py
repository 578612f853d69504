"""Ways to round the weights of one product, given the inputs that it sees.

All take (out, in) weights and the (in, in) second moment ``H`` of the inputs, so that the error of
the outputs is the trace of ``E H E^T`` for an error ``E`` of the weights.

- GPTQ [Frantar2023]_ rounds one input channel after the other, and lets the channels that follow
  make up for its error.
- Clipping by the norm of outputs [ours, after MemExplorer §4.4]: every block is cut at the largest
  magnitude, among a few shares of its own, that costs the outputs least.

.. [Frantar2023] E. Frantar et al., GPTQ: accurate post-training quantization for generative
   pre-trained transformers, ICLR 2023, algorithm 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from codesign.models.quantization.block_formats import BlockFormat
from codesign.models.quantization.element_types import rounded
from codesign.models.quantization.rounding import block_scales, quantize, scale_of_tensor

DAMPING = 0.01
"""Share of the mean diagonal that is added to the diagonal of ``H`` (GPTQ, section 3.3)."""
_CLIP_SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
_COLUMNS = 128
"""Columns whose corrections are collected before they reach the columns behind."""


def gptq(weights: Tensor, moment: Tensor, block_format: BlockFormat) -> Tensor:
    """The weights rounded by GPTQ.

    The scale of a block is set when its first column is reached; the scale of a row, and that of a
    tensor, by the weights as they were.
    """
    element = block_format.element
    if element is None:
        return weights
    remaining = weights.float().clone()
    # The upper Cholesky factor of the inverse of the damped moment.
    moment = moment.to(remaining)
    diagonal = moment.diagonal().mean().clip(min=1e-12)
    damped = moment + DAMPING * diagonal * torch.eye(len(moment), device=moment.device)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    inverse = torch.linalg.cholesky(inverse, upper=True)
    stored = torch.zeros_like(remaining)
    n = remaining.shape[1]
    size = block_format.block_size or n
    tensor_scale = scale_of_tensor(remaining, block_format)
    scale = block_scales(remaining, block_format, tensor_scale)[..., 0] if size >= n else None
    step = size if size < n else min(_COLUMNS, n)
    for start in range(0, n, step):
        stop = min(start + step, n)
        if size < n:
            block = remaining[:, start:stop].contiguous()
            scale = block_scales(block, block_format, tensor_scale)[..., 0]
        assert scale is not None
        errors = torch.zeros_like(remaining[:, start:stop])
        divisor = torch.where(scale > 0, scale, torch.inf)[:, 0]
        for column in range(start, stop):
            stored[:, column] = rounded(remaining[:, column] / divisor, element) * scale[:, 0]
            error = (remaining[:, column] - stored[:, column]) / inverse[column, column]
            remaining[:, column:stop] -= torch.outer(error, inverse[column, column:stop])
            errors[:, column - start] = error
        remaining[:, stop:] -= errors @ inverse[start:stop, stop:]
    return stored


def clipped(weights: Tensor, moment: Tensor, block_format: BlockFormat) -> Tensor:
    """The weights rounded to the nearest, each block cut where that costs the outputs least.

    Blocks are cut one after the other, given the errors of all others, so the error of the
    outputs is never above that of rounding to the nearest.
    """
    if block_format.element is None:
        return weights
    exact = weights.float()
    n = exact.shape[1]
    size = min(block_format.block_size or n, n)
    tensor_scale = scale_of_tensor(exact, block_format)
    moment = moment.to(exact)
    stored: Tensor = quantize(exact, block_format)
    for first in range(0, n, size):
        columns = slice(first, first + size)
        block = exact[:, columns]
        within = moment[columns, columns]
        error = stored - exact
        of_others = error @ moment[:, columns] - error[:, columns] @ within
        largest = block.abs().amax(1, keepdim=True)
        best = torch.full_like(largest[:, 0], torch.inf)
        for share in _CLIP_SHARES:
            cut = block.clamp(-share * largest, share * largest)
            assert block_format.element is not None
            scale = block_scales(cut.contiguous(), block_format, tensor_scale)[..., 0]
            divisor = torch.where(scale > 0, scale, torch.inf)
            trial: Tensor = rounded(cut / divisor, block_format.element) * scale
            change = trial - block
            cost = (change @ within * change).sum(1) + 2 * (change * of_others).sum(1)
            is_better = cost < best
            best = torch.where(is_better, cost, best)
            stored[:, columns] = torch.where(is_better[:, None], trial, stored[:, columns])
    return stored
