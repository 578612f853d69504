"""Requests that arrive at machines, step by step: percentiles, goodput, utilization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli import completion
from codesign.cli.flags import naming, prefix_problems
from codesign.cli.output import AsJson, report
from codesign.cli.platform_options import (
    FLAGS,
    Ep,
    Format,
    Generated,
    KvFormat,
    Model,
    Options,
    Prompt,
    Tp,
    UseCase,
    WeightFormat,
    build,
    count,
    degrees_of,
    formats_of,
    limits_of,
    seconds,
    workload_of,
)
from codesign.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from codesign.deployments.queueing import Arrivals, EngineLimits
    from codesign.deployments.queueing.service_levels import ServiceLevel
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.machine_pools import ServingMachine

_FLAGS = {
    **FLAGS,
    "max_sequences": "--max-sequences",
    "max_batched_tokens": "--max-batched-tokens",
    "link_bandwidth": "--link-bandwidth",
    "memory": "--memory-fraction",
}

Rate = Annotated[float | None, typer.Option(help="Requests that arrive in a second, at random.")]
Sequences = Annotated[int, typer.Option(help="Requests that a machine runs at a time.")]
BatchedTokens = Annotated[int, typer.Option(help="Tokens of a step of a machine.")]
MemoryFraction = Annotated[
    float, typer.Option(help="Part of the memory that weights and KV cache may take.")
]
Seed = Annotated[int, typer.Option(help="Of the arrivals that are drawn.", min=0)]
FirstToken = Annotated[
    str | None, typer.Option(help="Limit on the time to first token, such as '0.4 s'.")
]
OutputToken = Annotated[
    str | None, typer.Option(help="Limit on the time per output token, such as '50 ms'.")
]


def arrivals(
    model: Model,
    device: Annotated[
        str,
        typer.Option(
            help="Accelerator, or the path of its file.", autocompletion=completion.devices
        ),
    ],
    tp: Tp = None,
    ep: Ep = None,
    machines: Annotated[int, typer.Option(help="Machines of --tp x --ep devices each.")] = 1,
    prefill_machines: Annotated[
        int | None,
        typer.Option(help="Machines that only prefill; the others then only decode."),
    ] = None,
    prefill_device: Annotated[
        str | None, typer.Option(help="Accelerator of the prefilling machines. [--device]")
    ] = None,
    prefill_tp: Annotated[
        int | None, typer.Option(help="Tensor parallelism of the prefilling machines. [--tp]")
    ] = None,
    link_bandwidth: Annotated[
        str | None,
        typer.Option(
            help="Rate from a prefilling machine to the others, such as '50 GB/s'. [the network of "
            "its devices]"
        ),
    ] = None,
    link_latency: Annotated[str, typer.Option(help="Latency of that link.")] = "5 us",
    routing: Annotated[
        str, typer.Option(help="Machine of a request: least-loaded or round-robin.")
    ] = "least-loaded",
    requests_per_s: Rate = None,
    requests: Annotated[int, typer.Option(help="Requests that are drawn.", min=1)] = 1000,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="CSV file of requests, with columns arrival_s, prompt_tokens and "
            "generated_tokens, instead of drawn ones."
        ),
    ] = None,
    seed: Seed = 0,
    use_case: UseCase = None,
    prompt_tokens: Prompt = None,
    generated_tokens: Generated = None,
    policy: Annotated[
        str,
        typer.Option(
            help="chunked: chunks of prompts beside all decoding requests; prefill-first: whole "
            "prompts before any."
        ),
    ] = "chunked",
    max_sequences: Sequences = 256,
    max_batched_tokens: BatchedTokens = 2048,
    memory_fraction: MemoryFraction = 0.9,
    plans_ahead: Annotated[
        bool,
        typer.Option(
            "--plan-ahead/--no-plan-ahead",
            help="Choose the next step while one runs, so that the host costs no time.",
        ),
    ] = True,
    first_token: FirstToken = None,
    output_token: OutputToken = None,
    format_: Format = "bf16",
    weight_format: WeightFormat = None,
    kv_format: KvFormat = None,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Serve requests that arrive: waiting, first token, output token, goodput, utilization."""
    from codesign.deployments.queueing import CacheLink, EngineLimits, Fleet, simulate
    from codesign.deployments.queueing.engine_limits import POLICIES
    from codesign.deployments.queueing.fleet import ROUTINGS
    from codesign.evaluators.platform.machine_pools import cache_link
    from codesign.report import arrivals as tables

    if policy not in POLICIES:
        raise UnknownNameError("policy", policy, POLICIES, "--policy")
    if routing not in ROUTINGS:
        raise UnknownNameError("routing", routing, ROUTINGS, "--routing")
    tokens = (use_case, prompt_tokens, generated_tokens)
    stream, workload = _stream(model, tokens, trace, requests_per_s, requests, seed)
    evaluator, name = build(workload, option, device)
    level = service_level(evaluator, first_token, output_token)
    formats = formats_of(format_, weight_format, kv_format)
    design = {"device": name, **formats, **_degrees(tp, ep)}
    with naming(_FLAGS):
        limits = EngineLimits(
            max_sequences=max_sequences,
            max_batched_tokens=max_batched_tokens,
            policy=policy,
            plans_ahead=plans_ahead,
        )
        serving = _machine(evaluator, design, limits, stream, memory_fraction)
    members = [(serving, "serve", count("--machines", machines))]
    link = CacheLink()
    prefilling = {"--prefill-device": prefill_device, "--prefill-tp": prefill_tp}
    if prefill_machines is None:
        _refuse_without_prefill(prefilling | {"--link-bandwidth": link_bandwidth})
    else:
        own, own_name = build(workload, option, prefill_device or device)
        own_design = design | {"device": own_name}
        own_design |= {} if prefill_tp is None else _degrees(prefill_tp, ep)
        with naming(_FLAGS):
            first = _machine(own, own_design, limits, stream, memory_fraction)
            latency = _latency(link_latency)
            link = cache_link(own, first, _bandwidth(link_bandwidth), latency)
        n_first = count("--prefill-machines", prefill_machines)
        members = [(first, "prefill", n_first), (serving, "decode", members[0][2])]
    pools = tuple(machine.pool(role, n) for machine, role, n in members)
    fleet = Fleet(pools, link, routing)
    with prefix_problems("--requests-per-s" if trace is None else str(trace)):
        served = simulate(fleet, stream)
    if level is not None:
        level.check_that_any_meets(served)
    rows = [_pool_row(machine, role, n) for machine, role, n in members]
    inputs = {
        "model": model,
        "profile": evaluator.profile,
        "trace": None if trace is None else str(trace),
        "offered_requests_per_s": requests_per_s,
        "seed": None if trace is not None else seed,
        **_engine(limits),
        "routing": routing,
    }
    question = {
        "model": model,
        "requests": _words(stream, requests_per_s, seed, trace),
        "engine": f"{policy}, {max_sequences} requests and {max_batched_tokens:,} tokens a step",
        "routing": routing,
    }
    report(
        "arrivals",
        as_json,
        lambda: tables.arrivals_document(inputs, rows, served, level),
        lambda: tables.arrivals_tables(question, rows, served, level),
    )


def _stream(
    model: str,
    tokens: tuple[str | None, int | None, int | None],
    trace: Path | None,
    requests_per_s: float | None,
    n_requests: int,
    seed: int,
) -> tuple[Arrivals, dict[str, Any]]:
    """The requests, and the workload that the evaluator is built with."""
    from codesign.deployments.queueing import poisson_arrivals, read_arrivals
    from codesign.evaluators.platform import PlatformRequest
    from codesign.schema import Document, to_record

    if trace is not None:
        flags = ("--use-case", "--prompt-tokens", "--generated-tokens", "--requests-per-s")
        values = (*tokens, requests_per_s)
        stray = [flag for flag, value in zip(flags, values, strict=True) if value is not None]
        if stray:
            raise InputError(f"expected --trace or drawn requests, got both ({', '.join(stray)})")
        return read_arrivals(trace), workload_of(model, None, 1, 1, None)
    if requests_per_s is None:
        raise InputError("expected --trace, or --requests-per-s with the tokens of a request")
    if not 0 < requests_per_s < float("inf"):
        raise InputError(f"expected a rate above 0, got {requests_per_s:g}", "--requests-per-s")
    workload = workload_of(model, *tokens, None)
    with naming(FLAGS):
        request = to_record(Document("workload", workload, {}), PlatformRequest)
    if request.n_beams > 1:
        raise InputError(f"expected 1 beam where requests arrive, got {request.n_beams}")
    generated = count("--generated-tokens", request.generated)
    return poisson_arrivals(requests_per_s, n_requests, request.prompt, generated, seed), workload


def service_level(
    evaluator: PlatformEvaluator, first_token: str | None, output_token: str | None
) -> ServiceLevel | None:
    """The limits on the two times: the flags', or else the use case's; None if there are none."""
    from codesign.deployments.queueing.service_levels import ServiceLevel

    stated = limits_of(evaluator)
    if stated is None and first_token is None and output_token is None:
        return None
    pairs = (("--first-token", first_token), ("--output-token", output_token))
    missing = [flag for flag, text in pairs if text is None]
    if stated is None and missing:
        raise InputError("expected a time, as the limits belong together", missing[0])
    first = stated.time_to_first_token_s if stated else 0.0
    output = stated.time_per_output_token_s if stated else 0.0
    first = first if first_token is None else seconds("--first-token", first_token)
    output = output if output_token is None else seconds("--output-token", output_token)
    return ServiceLevel(first, output)


def _degrees(tp: int | None, ep: int | None) -> dict[str, int]:
    names = ("tensor_parallel", "expert_parallel")
    return degrees_of(dict(zip(names, (tp, ep), strict=True)))


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


def _refuse_without_prefill(flags: Mapping[str, object]) -> None:
    stray = [flag for flag, value in flags.items() if value is not None]
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


def _words(stream: Arrivals, rate: float | None, seed: int, trace: Path | None) -> str:
    if trace is not None:
        return f"{len(stream):,} of {trace}"
    prompt, generated = stream.prompt_tokens[0], stream.generated_tokens[0]
    return (
        f"{len(stream):,}, {rate:g} a second at random (seed {seed}), {prompt} + {generated} tokens"
    )


COMMANDS: list[Callable[..., Any]] = [arrivals]
