"""Requests that arrive at machines, step by step: percentiles, goodput, utilization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.flag_records import flag, flag_names, set_flags
from codesign.cli.flags import naming, prefix_problems
from codesign.cli.output import AsJson, report
from codesign.cli.platform_flags import (
    FLAGS,
    Device,
    FormatFlags,
    GroupFlags,
    LimitFlags,
    Model,
    Options,
    TokenFlags,
    build,
    count,
    degrees_of,
    limits_of,
)
from codesign.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from codesign.deployments.queueing import Arrivals, EngineLimits
    from codesign.deployments.queueing.service_levels import ServiceLevel
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.machine_pools import ServingMachine


@dataclass(frozen=True)
class StreamFlags:
    """The requests that arrive."""

    requests_per_s: float | None = flag("Requests that arrive in a second, at random.")
    requests: int = flag("Requests that are drawn.", 1000, min=1)
    trace: Path | None = flag(
        "CSV file of requests, with columns arrival_s, prompt_tokens and generated_tokens, instead "
        "of drawn ones."
    )
    seed: int = flag("Of the arrivals that are drawn.", 0, min=0)


@dataclass(frozen=True)
class EngineFlags:
    """How a machine forms its steps."""

    policy: str = flag(
        "chunked: chunks of prompts beside all decoding requests; prefill-first: whole prompts "
        "before any.",
        "chunked",
    )
    max_sequences: int = flag("Requests that a machine runs at a time.", 256)
    max_batched_tokens: int = flag("Tokens of a step of a machine.", 2048)
    memory_fraction: float = flag(
        "Part of the memory that weights and KV cache may take.", 0.9, key="memory"
    )
    plans_ahead: bool = flag(
        "Choose the next step while one runs, so that the host costs no time.",
        True,
        "--plan-ahead/--no-plan-ahead",
    )


@dataclass(frozen=True)
class PrefillFlags:
    """Machines that only prefill, and the link from them."""

    prefill_machines: int | None = flag("Machines that only prefill; the others then only decode.")
    prefill_device: str | None = flag("Accelerator of the prefilling machines. [--device]")
    prefill_tp: int | None = flag("Tensor parallelism of the prefilling machines. [--tp]")
    link_bandwidth: str | None = flag(
        "Rate from a prefilling machine to the others, such as '50 GB/s'. [the network of its "
        "devices]",
    )
    link_latency: str = flag("Latency of that link.", "5 us")


_FLAGS = {**FLAGS, **flag_names(EngineFlags, PrefillFlags)}


def arrivals(
    *,
    model: Model,
    device: Device,
    split: GroupFlags,
    machines: Annotated[int, typer.Option(help="Machines of --tp x --ep devices each.")] = 1,
    prefill: PrefillFlags,
    routing: Annotated[
        str, typer.Option(help="Machine of a request: least-loaded or round-robin.")
    ] = "least-loaded",
    requests: StreamFlags,
    tokens: TokenFlags,
    engine: EngineFlags,
    times: LimitFlags,
    formats: FormatFlags,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Serve requests that arrive: waiting, first token, output token, goodput, utilization."""
    from codesign.deployments.queueing import CacheLink, EngineLimits, Fleet, simulate
    from codesign.deployments.queueing.engine_limits import POLICIES
    from codesign.deployments.queueing.fleet import ROUTINGS
    from codesign.evaluators.platform.machine_pools import cache_link
    from codesign.report.arrival_tables import arrivals_document, arrivals_tables

    if engine.policy not in POLICIES:
        raise UnknownNameError("policy", engine.policy, POLICIES, "--policy")
    if routing not in ROUTINGS:
        raise UnknownNameError("routing", routing, ROUTINGS, "--routing")
    stream, workload = _stream(model, tokens, requests)
    evaluator, name = build(workload, option, device)
    level = _service_level(evaluator, times)
    design = {"device": name, **formats.formats(), **degrees_of(split)}
    with naming(_FLAGS):
        limits = EngineLimits(
            max_sequences=engine.max_sequences,
            max_batched_tokens=engine.max_batched_tokens,
            policy=engine.policy,
            plans_ahead=engine.plans_ahead,
        )
        serving = _machine(evaluator, design, limits, stream, engine.memory_fraction)
    members = [(serving, "serve", count("--machines", machines))]
    link = CacheLink()
    if prefill.prefill_machines is None:
        _refuse_without_prefill(prefill)
    else:
        own, own_name = build(workload, option, prefill.prefill_device or device)
        own_design = design | {"device": own_name}
        if prefill.prefill_tp is not None:
            own_design |= degrees_of(GroupFlags(prefill.prefill_tp, split.ep))
        with naming(_FLAGS):
            first = _machine(own, own_design, limits, stream, engine.memory_fraction)
            latency = _latency(prefill.link_latency)
            link = cache_link(own, first, _bandwidth(prefill.link_bandwidth), latency)
        n_first = count("--prefill-machines", prefill.prefill_machines)
        members = [(first, "prefill", n_first), (serving, "decode", members[0][2])]
    pools = tuple(machine.pool(role, n) for machine, role, n in members)
    fleet = Fleet(pools, link, routing)
    with prefix_problems("--requests-per-s" if requests.trace is None else str(requests.trace)):
        served = simulate(fleet, stream)
    if level is not None:
        level.check_that_any_meets(served)
    rows = [_pool_row(machine, role, n) for machine, role, n in members]
    inputs = {
        "model": model,
        "profile": evaluator.profile,
        "trace": None if requests.trace is None else str(requests.trace),
        "offered_requests_per_s": requests.requests_per_s,
        "seed": None if requests.trace is not None else requests.seed,
        **_engine(limits),
        "routing": routing,
    }
    question = {
        "model": model,
        "requests": _words(stream, requests),
        "engine": f"{limits.policy}, {limits.max_sequences} requests and "
        f"{limits.max_batched_tokens:,} tokens a step",
        "routing": routing,
    }
    report(
        "arrivals",
        as_json,
        lambda: arrivals_document(inputs, rows, served, level),
        lambda: arrivals_tables(question, rows, served, level),
    )


def _stream(
    model: str, tokens: TokenFlags, requests: StreamFlags
) -> tuple[Arrivals, dict[str, Any]]:
    """The requests, and the workload that the evaluator is built with."""
    from codesign.deployments.queueing import poisson_arrivals, read_arrivals
    from codesign.evaluators.platform import PlatformRequest
    from codesign.schema import Document, to_record

    rate = requests.requests_per_s
    if requests.trace is not None:
        stray = [*set_flags(tokens), *(() if rate is None else ("--requests-per-s",))]
        if stray:
            raise InputError(f"expected --trace or drawn requests, got both ({', '.join(stray)})")
        return read_arrivals(requests.trace), TokenFlags(None, 1, 1).workload(model)
    if rate is None:
        raise InputError("expected --trace, or --requests-per-s with the tokens of a request")
    if not 0 < rate < float("inf"):
        raise InputError(f"expected a rate above 0, got {rate:g}", "--requests-per-s")
    workload = tokens.workload(model)
    with naming(FLAGS):
        request = to_record(Document("workload", workload, {}), PlatformRequest)
    if request.n_beams > 1:
        raise InputError(f"expected 1 beam where requests arrive, got {request.n_beams}")
    generated = count("--generated-tokens", request.generated)
    stream = poisson_arrivals(rate, requests.requests, request.prompt, generated, requests.seed)
    return stream, workload


def _service_level(evaluator: PlatformEvaluator, times: LimitFlags) -> ServiceLevel | None:
    """The limits on the two times: the flags', or else the use case's; None if there are none."""
    from codesign.deployments.queueing.service_levels import ServiceLevel

    stated = limits_of(evaluator)
    if stated is None and not set_flags(times):
        return None
    missing = "--first-token" if times.first_token is None else "--output-token"
    first, output = times.seconds(
        stated.time_to_first_token_s if stated else None,
        stated.time_per_output_token_s if stated else None,
    )
    if first is None or output is None:
        raise InputError("expected a time, as the limits belong together", missing)
    return ServiceLevel(first, output)


def _machine(
    evaluator: PlatformEvaluator,
    design: Mapping[str, Any],
    limits: EngineLimits,
    stream: Arrivals,
    memory_fraction: float,
) -> ServingMachine:
    from codesign.evaluators.platform.machine_pools import serving_machine

    if not 0 < memory_fraction <= 1:
        raise InputError(f"expected a part from 0 to 1, got {memory_fraction:g}", "memory")
    return serving_machine(evaluator, design, limits, stream, memory_fraction)


def _refuse_without_prefill(prefill: PrefillFlags) -> None:
    stray = [name for name in set_flags(prefill) if name != "--link-latency"]
    if stray:
        raise InputError(f"expected --prefill-machines with {', '.join(stray)}")


def _engine(limits: EngineLimits) -> dict[str, Any]:
    """How the engines form steps, for the report."""
    return {
        "policy": limits.policy,
        "max_sequences": limits.max_sequences,
        "max_batched_tokens": limits.max_batched_tokens,
        "plans_ahead": limits.plans_ahead,
    }


def _bandwidth(text: str | None) -> float | None:
    from codesign.units import parse_quantity

    if text is None:
        return None
    with prefix_problems("--link-bandwidth"):
        rate = parse_quantity(text, "B/s")
    if rate <= 0:
        raise InputError(f"expected a rate above 0, got {text!r}", "--link-bandwidth")
    return rate


def _latency(text: str) -> float:
    from codesign.units import parse_quantity

    with prefix_problems("--link-latency"):
        value = parse_quantity(text, "s")
    if value < 0:
        raise InputError(f"expected a time from 0, got {text!r}", "--link-latency")
    return value


def _pool_row(machine: ServingMachine, role: str, n_machines: int) -> dict[str, Any]:
    watts = machine.board_power_watts
    return {
        "role": role,
        "design": {name: machine.design[name] for name in machine.design if name != "batch_size"},
        "machines": n_machines,
        "devices": n_machines * machine.n_devices,
        "cache_tokens": machine.limits.cache_tokens,
        "board_power_watts": None if watts is None else n_machines * watts,
    }


def _words(stream: Arrivals, requests: StreamFlags) -> str:
    if requests.trace is not None:
        return f"{len(stream):,} of {requests.trace}"
    prompt, generated = stream.prompt_tokens[0], stream.generated_tokens[0]
    return (
        f"{len(stream):,}, {requests.requests_per_s:g} a second at random (seed {requests.seed}), "
        f"{prompt} + {generated} tokens"
    )


COMMANDS: list[Callable[..., Any]] = [arrivals]
