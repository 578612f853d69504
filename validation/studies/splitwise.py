"""Splitwise's [Splitwise]_ times, powers, clusters and hand-over, beside ours.

.. [Splitwise] P. Patel et al., Splitwise: Efficient Generative LLM Inference Using Phase
   Splitting, ISCA 2024; and its simulator, Mutinifni/splitwise-sim @8f99e7d (MIT).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    FloatArray,
    IntArray,
    JsonObject,
    column_of,
    design_columns,
)
from codesign.base.evaluator import LinkDescription, PoolDescription
from codesign.base.units import parse_quantity
from codesign.evaluators.platform import PlatformOptions
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.system_options import SystemOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.accounts.rents import list_rents
from codesign.models.hardware.device import load_device
from validation.studies.device_pools import claim_row, claims, fastest_batch, group_metrics
from validation.studies.measured_rows import read_rows
from validation.studies.request_cases import SPLITWISE_FILE, RequestCase, read_requests
from validation.studies.requests import predict
from validation.studies.study import model_file

EAGER = PlatformOptions(engine="eager")
"""Its serving engine of 2023 started every kernel from the host."""
_H100_MACHINES = 40
"""Machines of the cluster whose power and cost the others have: section 6.2."""
_DESIGN = ("device", "tensor_parallel", "batch_size")


def time_rows() -> Iterator[JsonObject]:
    """Prefill and token times of Llama-2-70B; the study ``requests`` has them by device."""
    groups = {"TTFT": "Splitwise, prefill time", "TPOT": "Splitwise, token time"}
    for case in read_requests(SPLITWISE_FILE):
        if isinstance(case, RequestCase):
            yield claim_row(
                str(case), groups[case.quantity], case.value, predict(case), case.source
            )


def power_rows() -> Iterator[JsonObject]:
    """Mean power of whole requests, and the peak, in parts of the devices' power limits."""
    for row in read_rows(SPLITWISE_FILE)[0]:
        if row["mean_power_over_tdp"] and row["power_capped"] == "0":
            degree, batch, prompt, output = (
                int(row[name]) for name in ("tp", "batch", "prompt_tokens", "output_tokens")
            )
            design = {"device": "a100-sxm-80gb", "tensor_parallel": degree}
            model = model_file("llama-2-70b")
            prefill = group_metrics("prefill", model, (prompt, 0), design, [batch], EAGER)
            decode = group_metrics("decode", model, (prompt, output), design, [batch], EAGER)
            # The first token is the prefill's, each of the others takes a step.
            times = np.array(
                [
                    prefill["time_to_first_token_s"],
                    decode["time_per_output_token_s"] * (output - 1),
                ]
            )
            watts = np.array([prefill["average_power_watts"], decode["average_power_watts"]])
            setting = f"A100 80GB, TP {degree}, batch {batch}, {prompt}:{output} tokens"
            shares = watts / prefill["tdp_watts"]
            for group, column, ours in (
                ("Splitwise, mean power", "mean_power_over_tdp", np.average(shares, weights=times)),
                ("Splitwise, peak power", "peak_power_over_tdp", shares.max()),
            ):
                yield claim_row(
                    f"{group.rpartition(', ')[2]}, {setting}",
                    group,
                    float(row[column]),
                    float(ours),
                    row["source"],
                )


def budget_rows() -> Iterator[JsonObject]:
    """Numbers of A100 machines with the power limits, and the rent, of 40 H100 machines."""
    stated = claims()["splitwise"]
    keys = stated["machines"]
    old, new = (load_device(keys[machine]).power for machine in ("A", "H"))
    assert old is not None and new is not None  # both files state it
    rents = [list_rents()[keys[machine]].typical for machine in ("A", "H")]
    for budget, exchange in (("power", new / old), ("cost", rents[1] / rents[0])):
        claim = stated["budgets"][budget]
        yield claim_row(
            f"A100 machines at the {budget} of 40 H100 machines",
            "Splitwise, equal budgets",
            claim["machines"],
            _H100_MACHINES * exchange,
            claim["source"],
            claim["explained"],
        )


def cluster_rows() -> Iterator[JsonObject]:
    """Share of a cluster's machines that prefill."""
    stated = claims()["splitwise"]
    for cluster in stated["clusters"]:
        where = (cluster["design"], cluster["budget"], cluster["trace"])
        prompt, token = best_split(*where)
        relaxed = " + ".join(str(n) for n in best_split(*where, slowdown=np.inf))
        stated_split = (cluster["prompt"], cluster["token"])
        mixed = [
            mixed_pool_requests_per_s(where[0], where[2], *split)
            for split in ((prompt, token), stated_split)
        ]
        shares = (
            cluster["prompt"] / sum(stated_split),
            prompt / (prompt + token),
        )
        yield claim_row(
            f"{cluster['design']}, {cluster['trace']}, equal {cluster['budget']}: prompt machines' "
            f"share of {cluster['prompt']} + {cluster['token']}",
            "Splitwise, prompt machines' share",
            *shares,
            cluster["source"],
            f"ours {prompt} + {token}, {relaxed} without a limit on the token time; its machines "
            "change roles under load (mixed pool), with which ours serves "
            f"{mixed[0]:.1f} requests/s at our split and {mixed[1]:.1f} at its own: "
            + (
                "every split serves as many"
                if np.isclose(mixed[0], mixed[1])
                else "its own serves more"
            ),
        )


def mixed_pool_requests_per_s(design: str, trace: str, prompts: int, tokens: int) -> float:
    """Requests/s of a cluster whose surplus machines take the work of the others.

    Args:
        design: Kinds of the prompt and of the token machines, such as ``HA``.
        trace: ``coding`` or ``conversation``.
    """
    slowdown = float(claims()["splitwise"]["slowdown"])
    single, many = np.array([1]), np.array([100_000])  # of the many, none is the slowest
    prompt_rates, token_rates = (
        [float(requests_per_s(2 * kind, trace, *sizes, slowdown)[0]) for kind in design]
        for sizes in ((single, many), (many, single))
    )
    prompt_rate, token_rate = prompts * prompt_rates[0], tokens * token_rates[1]
    surplus = prompt_rate - token_rate
    if surplus >= 0:  # some prompt machines generate tokens
        return token_rate + surplus * token_rates[0] / (prompt_rates[0] + token_rates[0])
    return prompt_rate - surplus * prompt_rates[1] / (prompt_rates[1] + token_rates[1])


def best_split(
    design: str, budget: str, trace: str, slowdown: float | None = None
) -> tuple[int, int]:
    """Prompt and token machines with the most requests/s within a budget.

    Args:
        design: Kinds of the prompt and of the token machines, such as ``HA``.
        budget: ``power`` or ``cost`` of 40 H100 machines.
        trace: ``coding`` or ``conversation``.
        slowdown: Limit on the token time, in parts of that of one request on A100; Splitwise's if
            None.
    """
    stated = claims()["splitwise"]
    exchange = stated["budgets"][budget]["machines"] / _H100_MACHINES
    price = {"H": exchange, "A": 1.0}
    total = exchange * _H100_MACHINES
    prompts = np.arange(1, int(total / price[design[0]]) + 1)
    tokens = np.floor((total - prompts * price[design[0]]) / price[design[1]] + 1e-9).astype(int)
    is_system = tokens >= 1
    prompts, tokens = prompts[is_system], tokens[is_system]
    limit = float(stated["slowdown"]) if slowdown is None else slowdown
    best = int(np.argmax(requests_per_s(design, trace, prompts, tokens, limit)))
    return int(prompts[best]), int(tokens[best])


def requests_per_s(
    design: str, trace: str, prompts: IntArray, tokens: IntArray, slowdown: float
) -> FloatArray:
    """(n,) requests/s of clusters that serve a trace's mean request, by the evaluator ``system``.

    Limiting assumption: token machines run the fastest batch that fits and keeps a limit on the
    time between tokens.

    Args:
        design: Kinds of the prompt and of the token machines.
        trace: ``coding`` or ``conversation``.
        prompts: (n,) prompt machines.
        tokens: (n,) token machines.
        slowdown: Limit on the token time, in parts of that of one request on A100.
    """
    stated = claims()["splitwise"]
    means, degree = stated["traces"][trace], stated["tensor_parallel"]
    workload = SystemWorkload(model=model_file(stated["model"]), **means)
    evaluator = SystemEvaluator(workload, SystemOptions(platform=EAGER)).join_pools(
        [PoolDescription(name, name, _DESIGN) for name in ("prefill", "decode")],
        [LinkDescription("link", "prefill", "decode")],
    )
    devices = [stated["machines"][machine] for machine in design]
    batches = (stated["prompt_batch"], _token_batch(devices[1], trace, slowdown))
    bandwidth = min(load_device(device).network_bandwidth or np.inf for device in devices)
    fixed: JsonObject = {
        "link_bandwidth_bytes_per_s": bandwidth * degree,  # every device has a port
        "link_latency_s": 0.0,
        "link_energy_joules_per_byte": 0.0,
    }
    for name, device, batch in zip(("prefill", "decode"), devices, batches, strict=True):
        fixed |= {f"{name}_device": device, f"{name}_tensor_parallel": degree}
        fixed |= {f"{name}_batch_size": batch}
    columns = {name: column_of([value] * len(prompts)) for name, value in fixed.items()}
    columns["prefill_machines"] = column_of(prompts.tolist())
    columns["decode_machines"] = column_of(tokens.tolist())
    return evaluator.evaluate(columns, ["requests_per_s"]).metrics["requests_per_s"]


def _token_batch(device: str, trace: str, slowdown: float) -> int:
    stated = claims()["splitwise"]
    means, degree = stated["traces"][trace], stated["tensor_parallel"]
    tokens = (means["prompt_tokens"], means["generated_tokens"])
    model, reference = model_file(stated["model"]), stated["machines"]["A"]

    def step(key: str, batches: Sequence[int]) -> ArrayDict:
        return group_metrics(
            "decode", model, tokens, {"device": key, "tensor_parallel": degree}, batches, EAGER
        )

    alone_s = float(step(reference, [1])["time_per_output_token_s"][0])
    batches = range(1, stated["token_batch"] + 1)
    return batches[fastest_batch(step(device, batches), slowdown * alone_s)]


def handover_rows() -> Iterator[JsonObject]:
    """Exposed time of the hand-over of one prompt, layer by layer."""
    stated = claims()["splitwise"]["handover"]
    model, prompt = model_file(stated["model"]), stated["prompt_tokens"]
    for machine, link in stated["machines"].items():
        evaluator = SystemEvaluator(
            SystemWorkload(model=model, prompt_tokens=prompt, generated_tokens=1),
            SystemOptions(platform=EAGER),
        ).join_pools(
            [PoolDescription(name, name, _DESIGN) for name in ("prefill", "decode")],
            [LinkDescription("link", "prefill", "decode")],
        )
        values: JsonObject = {
            "link_bandwidth_bytes_per_s": parse_quantity(link["bandwidth"], "B/s"),
            "link_latency_s": EAGER.network_latency,
            "link_energy_joules_per_byte": 0.0,
        }
        for name in ("prefill", "decode"):
            values |= {
                f"{name}_device": claims()["splitwise"]["machines"][machine],
                f"{name}_tensor_parallel": claims()["splitwise"]["tensor_parallel"],
                f"{name}_batch_size": 1,
                f"{name}_machines": 1,
            }
        exposed = evaluator.evaluate(design_columns(values), ["handover_exposed_s"]).metrics[
            "handover_exposed_s"
        ]
        yield claim_row(
            f"exposed hand-over of {prompt} tokens between {machine}100, s",
            "Splitwise, exposed hand-over",
            parse_quantity(link["exposed"], "s"),
            float(exposed[0]),
            "section 6.1, about 8 and about 5 ms, whatever the prompt",
            "one layer's part on the link, and the setup of a hand-over, whose 8 ms are those of "
            "the A100 here: messages for blocks of the cache and semaphores",
        )
