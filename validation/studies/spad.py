"""SPAD's [SPAD]_ chips beside ours: speed in both phases, and machines for a load.

The chips are device files with its Table 3; starts, links and what products sustain are those of
the H100. Its own times are simulated (LLMCompass), on a modelled H100.

.. [SPAD] H. Zhang et al., SPAD: Specialized Prefill and Decode Hardware for Disaggregated LLM
   Inference, arXiv 2510.08544, 2025.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from codesign.base.columns import ArrayDict, JsonObject
from validation.studies.device_pools import Phase, claim_row, claims, fastest_batch, group_metrics
from validation.studies.study import model_file

_TIMES = {"prefill": "time_to_first_token_s", "decode": "time_per_output_token_s"}


def speed_rows() -> Iterator[JsonObject]:
    """Speed of both chips in both phases over the modelled H100, the mean over a grid."""
    stated = claims()["spad"]
    for claim in stated["speed"]:
        chip, phase = claim["chip"], claim["phase"]
        yield claim_row(
            f"{chip} in {phase}, speed over the modelled H100",
            "SPAD, speed",
            claim["printed"],
            mean_speed(chip, phase),
            "Table 3",
            claim["explained"],
        )


def mean_speed(chip: str, phase: Phase) -> float:
    """Mean over batches and tokens that fit both of how much faster a chip is than the H100."""
    stated = claims()["spad"]
    batches, speeds = stated["grid"]["batch"], []
    for tokens in stated["grid"]["tokens"]:
        times = []
        fits = np.ones(len(batches), dtype=np.bool_)
        for device in (stated["reference"], chip):
            metrics = _metrics(device, phase, (tokens, 0 if phase == "prefill" else 1), batches)
            fits &= metrics["fits"] > 0
            times.append(metrics[_TIMES[phase]])
        speeds += (times[0] / times[1])[fits].tolist()
    return float(np.mean(speeds))


def _metrics(device: str, phase: Phase, tokens: tuple[int, int], batches: list[int]) -> ArrayDict:
    stated = claims()["spad"]
    return group_metrics(
        phase,
        model_file(stated["model"]),
        tokens,
        {"device": device, "tensor_parallel": stated["tensor_parallel"]},
        batches,
    )


def cluster_rows() -> Iterator[JsonObject]:
    """Machines of eight chips for 70 requests/s."""
    stated = claims()["spad"]
    for cluster in stated["clusters"]:
        chips = (cluster["prompt_chip"], cluster["token_chip"])
        prompt, token = machines_for(*chips, cluster["trace"])
        name = "H100" if chips[0] == stated["reference"] else "SPAD"
        yield claim_row(
            f"{name} machines for {stated['requests_per_s']} requests/s, {cluster['trace']}",
            "SPAD, machines for a load",
            cluster["machines"],
            prompt + token,
            "Table 4",
            f"ours {prompt} + {token}, theirs {cluster['split']}; ours without queues, all "
            "requests alike: a lower bound",
        )


def machines_for(prompt_chip: str, token_chip: str, trace: str) -> tuple[int, int]:
    """Least prompt and token machines for the load, if no request waits for another.

    Args:
        prompt_chip: Device of the prompt machines.
        token_chip: Device of the token machines.
        trace: One of Splitwise's, with its mean tokens.
    """
    stated = claims()["spad"]
    means = claims()["splitwise"]["traces"][trace]
    tokens = (means["prompt_tokens"], means["generated_tokens"])
    batches = list(range(1, stated["token_batch"] + 1))
    prefill = _metrics(prompt_chip, "prefill", (tokens[0], 0), [1])
    alone = _metrics(stated["reference"], "decode", tokens, [1])
    decode = _metrics(token_chip, "decode", tokens, batches)
    best = fastest_batch(decode, (stated["slowdown"] * float(alone["time_per_output_token_s"][0])))
    rates = (
        float(prefill["throughput_tokens_per_s"][0]) / tokens[0],
        float(decode["throughput_tokens_per_s"][best]) / tokens[1],
    )
    prompt, token = (math.ceil(stated["requests_per_s"] / rate) for rate in rates)
    return prompt, token
