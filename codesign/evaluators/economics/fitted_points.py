"""Instances of a device whose times come from laws that are fitted to measured kernels.

The paper's passes are one roofline of sustained rates; here each instance is a platform, and its
passes are those of the evaluator ``platform`` under its profile ``fitted``. Between two decode
steps of its batch an instance prefills the prompts of the requests that begin meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import Column, Columns, FloatArray, IntArray, column_of
from codesign.base.errors import InputError
from codesign.evaluators.economics.frontier import Grid, Points, priced
from codesign.evaluators.platform.parallelism_choices import columns_of, instances
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_limits import limits
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.models.deployments.parallelism import divisors
from codesign.models.hardware.device import Device
from codesign.models.workload import LanguageModel, load_model

if TYPE_CHECKING:
    from codesign.evaluators.economics.decoding import RequestTokens
    from codesign.evaluators.economics.serving_offer import Formats

_BATCHES = 320
"""Batches of an instance that are tried, from one request of each group [ours]."""
_MOST_TENSOR = 64
"""Devices that share a layer at most: beyond it links no longer join them [ours]."""


def fitted_points(
    model: str,
    device: Device,
    formats: Formats,
    usd_per_hour: float,
    grid: Grid | None = None,
    context_tokens: float = 0.0,
    tokens: RequestTokens | None = None,
    demand_tokens_per_s: float | None = None,
) -> Points:
    """Every buildable instance, with every batch that fits, at its fitted times.

    Limiting assumptions: one instance serves equal requests in a steady state, without a queue and
    without a draft model.

    Args:
        model: Language model, or the path of its file.
        formats: Number formats of weights, activations and KV cache.
        grid: The largest instance and the largest batch.
        context_tokens: Tokens that a decode step attends to, where no prompt is counted.
        tokens: Prompt and answer of a request, where its prefill is counted.
        demand_tokens_per_s: Tokens per second that all users together ask for.

    Raises:
        InputError: Nothing fits, or every instance generates more than the demand.
    """
    grid = grid or Grid()
    request = _request(model, context_tokens, tokens)
    evaluator = PlatformEvaluator(request, PlatformOptions(), devices={device.key: device})
    degrees = _degrees(load_model(model), int(grid.most_devices))
    others = {"device": device.key, **{f"{k}_format": v for k, v in vars(formats).items()}}
    owner, batch = _batches(degrees, grid.most_requests)
    serving = evaluator.serving(_columns(degrees[owner], others, batch))
    within = [np.asarray(values) <= 0 for values in limits(serving).values()]
    fits = np.asarray(np.all(within, axis=0), dtype=np.bool_)
    if not fits.any():
        raise InputError(
            f"{model} does not fit {int(grid.most_devices)} of {device.name} in any split that "
            "divides it; expected more devices or narrower formats"
        )
    step = serving.time_per_output_token_s
    joules = serving.energy_joules_per_token
    first = np.full_like(step, np.nan)
    if tokens is not None:
        own_batch = (degrees[:, 1] * degrees[:, 2]).tolist()
        alone = evaluator.serving(_columns(degrees, others, own_batch))
        first = alone.time_to_first_token_s[owner] + step
        step = batch / serving.output_tokens_per_s
        prompt_share = tokens.prompt_tokens / tokens.generated_tokens
        joules = joules + serving.prefill_energy_joules_per_token * prompt_share
    counted = [serving.n_devices, batch, step, np.zeros_like(step), first]
    split = np.stack(
        [np.ones(len(owner)), degrees[owner, 1], degrees[owner, 0], degrees[owner, 2]], axis=1
    )
    return priced(
        np.stack([np.asarray(column, np.float64)[fits] for column in counted]),
        usd_per_hour,
        demand_tokens_per_s,
        split[fits].astype(np.float64),
        None if device.power is None else joules[fits],
    )


def _request(model: str, context_tokens: float, tokens: RequestTokens | None) -> PlatformRequest:
    if tokens is None:
        # A step attends to its own token too.
        prompt = max(round(context_tokens) - 1, 1)
        return PlatformRequest(model=model, prompt_tokens=prompt, generated_tokens=1)
    return PlatformRequest(
        model=model,
        prompt_tokens=int(tokens.prompt_tokens),
        generated_tokens=int(tokens.generated_tokens),
    )


def _degrees(model: LanguageModel, most_devices: int) -> IntArray:
    """(f, 4) degrees, as they are searched, of the instances that divide a model and its layers."""
    split = instances(model, divisors(model.num_hidden_layers), most_devices)
    split = split[split[:, 0] <= _MOST_TENSOR]
    # The order of the points: by stages, then by groups of experts.
    split = split[np.lexsort((split[:, 0], split[:, 2], split[:, 1]))]
    return np.column_stack([split, np.ones(len(split), dtype=np.int64)])


def _batches(degrees: IntArray, most_requests: float) -> tuple[IntArray, FloatArray]:
    """(k,) the instance, and its batch: whole requests of every group and stage."""
    owner: list[int] = []
    batches: list[float] = []
    for i, (_, stages, groups, _) in enumerate(degrees.tolist()):
        least = stages * groups
        most = max(most_requests // least, 1.0)
        counts = np.unique(np.round(np.geomspace(1.0, most, _BATCHES)))
        owner += [i] * len(counts)
        batches += (least * counts).tolist()
    return np.array(owner, dtype=np.int64), np.array(batches)


def _columns(
    degrees: IntArray, others: dict[str, str], batch: FloatArray | Sequence[float]
) -> Columns:
    columns: dict[str, Column] = dict(columns_of(degrees, others))
    columns["batch_size"] = column_of([int(number) for number in batch])
    return columns
