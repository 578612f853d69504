"""Published servers with caches of prompts behind their memory, beside ours.

Clients send a turn as soon as the last is answered and they have thought, so the machines are
always busy. As many requests decode together as fit beside each other. The closed forms of sessions
(:mod:`codesign.models.deployments.cache_levels`) say what is found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import yaml

from codesign.base.columns import Fields, FloatArray
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.machine_pools import serving_machine
from codesign.evaluators.platform.session_sizing import batch_rate
from codesign.models.deployments.queueing import Arrivals, EngineLimits
from codesign.models.deployments.queueing.prefix_cache import StoreLimits
from codesign.models.workload.reuse import SessionReuse
from codesign.models.workload.sessions import Session
from codesign.models.workload.storage import kv_elements_per_token
from validation.studies.device_pools import claim_row
from validation.studies.study import (
    DATA,
    Study,
    count_promise,
    errors_of,
    grouped_errors,
    summarize,
)

_MOST_BATCH = 48
"""Largest batch that is tried; none of these machines holds as many contexts."""
_ENGINE = EngineLimits(max_batched_tokens=8192)
"""Tokens of a step: vLLM's default on devices with at least 70 GB."""


def closed_loop(stated: Fields, row: Fields) -> FloatArray:
    """Sessions per second of a machine, seconds per output token, and share of tokens found."""
    workload = PlatformRequest(model=stated["machine"]["model"], use_case="chat")
    model = workload.language_model
    session = Session.model_validate(stated["session"])
    longest = Arrivals(np.zeros(1), np.array([session.longest_tokens]), np.ones(1, dtype=int))
    evaluator = PlatformEvaluator(workload, PlatformOptions(link=stated.get("link")))
    design = {name: value for name, value in stated["machine"].items() if name != "model"}
    machine = serving_machine(evaluator, design, _ENGINE, longest, stated["memory_fraction"])
    per_token, layers = 2e-9 * kv_elements_per_token(model), model.num_hidden_layers
    room = stated.get("cache_tokens", machine.limits.cache_tokens)
    stores = tuple(
        StoreLimits("store", round(size / per_token), rate / per_token, layers)
        for size, rate in row["stores"]
    )
    machine = replace(machine, limits=replace(machine.limits, cache_tokens=room), stores=stores)
    clients, reuse = row["clients"] / stated["n_machines"], SessionReuse(session)
    rates = [
        (rate.concurrent_sessions, rate.sessions_per_s, rate.time_per_output_token_s,
         rate.prompt_hit_share)
        for batch in range(1, _MOST_BATCH)
        if (rate := batch_rate(machine, reuse, batch, layers, clients=clients))
    ]  # fmt: skip
    concurrent, *values = np.array(rates).T
    return np.array([np.interp(clients, concurrent, value) for value in values])


def answers(stated: Fields, row: Fields) -> dict[str, float]:
    """Numbers of ours by the quantity that a row may compare.

    A row that states the share of tokens found lies between the times with the store and without.
    """
    sessions_per_s, token_s, found = closed_loop(stated, row)
    if "found" in row:
        bare = closed_loop(stated, {**row, "stores": []})
        ends = 1.0 / np.array([bare[0], sessions_per_s])
        sessions_per_s = 1.0 / np.interp(row["found"], [bare[2], found], ends)
    classes = SessionReuse(Session.model_validate(stated["session"])).classes
    generated = classes.total(classes.generated_tokens)
    tokens = classes.total(classes.context_tokens + classes.new_tokens) + generated
    n_turns = classes.turns.sum()
    turn_s = row["clients"] / stated["n_machines"] / sessions_per_s / n_turns
    return {
        "tokens per second": stated["n_machines"] * sessions_per_s * tokens,
        "seconds of a request": turn_s,
        "seconds to the first token": turn_s - generated / n_turns * token_s,
        "USD per million tokens": 1e6
        * (stated.get("usd_per_hour", np.nan) / 3600.0)
        / (sessions_per_s * generated),
        "tokens found": found,
    }


def run() -> Study:
    """The study of published caches."""
    rows = [
        claim_row(
            f"{stated['name']}: {row['what']}, {row['quantity']}", stated["name"].split(",")[0],
            row["published"], answers(stated, row)[row["quantity"]], stated["source"],
            row.get("explained", ""),
        )
        for stated in yaml.safe_load((DATA / "prompt_caches.yaml").read_text(encoding="utf-8"))
        for row in stated["rows"]
    ]  # fmt: skip
    is_rate = np.array([" per " in row["what"] for row in rows])
    near = int((np.abs(errors_of(rows)[is_rate]) <= 0.25).sum())
    return Study(
        "caches",
        "How far are published servers with caches of prompts from ours?",
        rows,
        [summarize(name, errors) for name, errors in grouped_errors(rows).items()],
        [count_promise("dollars and tokens per second", "within 25 %", near, int(is_rate.sum()))],
        _NOTES,
    )


_NOTES = (
    "Metrum AI: assumed are eight RTX PRO 6000 as one tensor-parallel group, rounds of 1,395 new "
    "and 243 answered tokens, answers as the tokens that are paid, 55 GB/s to each device, eight "
    "drives, and think times that vary at random. The dollars an hour are fitted to the row HBM "
    "only, 256 agents: 228,000 USD over three years. Its NVMe row takes the published share of "
    "tokens found.",
    "llm-d: blocks of HBM are as published; the 41,000 blocks of DRAM of an engine are 172 GB. All "
    "requests with a prefix go to one engine; first requests of a group, a tenth, count as found. "
    "Rows with a file system are left out, because its bandwidth is not published.",
)
