"""A fleet of machines at which requests arrive: percentiles, goodput, utilization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.base.errors import InputError, UnknownNameError, mistakes_at
from codesign.cli import completion
from codesign.cli.campaigns import Folder
from codesign.cli.flag_records import flag_names, set_flags
from codesign.cli.flags import count, naming, number
from codesign.cli.fleet_flags import EngineFlags, PrefillFlags, StreamFlags
from codesign.cli.output import AsJson, report
from codesign.cli.picking import Pick, design_or_pick
from codesign.cli.platform_flags import (
    FLAGS,
    FormatFlags,
    GroupFlags,
    LimitFlags,
    Options,
    TokenFlags,
    build,
    degrees_of,
)

if TYPE_CHECKING:
    from codesign.answers.serving import PoolInputs
    from codesign.evaluators.phase_machine import PhaseMachine
    from codesign.models.deployments.queueing import Arrivals, CacheLink, EngineLimits
    from codesign.models.deployments.queueing.service_levels import ServiceLevel
    from codesign.models.deployments.queueing.serving_machine import ServingMachine


_FLAGS = {**FLAGS, **flag_names(EngineFlags, PrefillFlags)}


def arrivals(
    *,
    model: Annotated[
        str | None,
        typer.Option(
            help="Language model, or the path of a config.json.", autocompletion=completion.models
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Accelerator, or the path of its file.", autocompletion=completion.devices
        ),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            help="Serve with a design of this campaign, in place of --model and --device.",
            autocompletion=completion.campaigns,
        ),
    ] = None,
    design: Annotated[
        str | None,
        typer.Option(
            help="Number of a design on the front of --campaign, or its name in the space.",
            autocompletion=completion.designs,
        ),
    ] = None,
    pick: Pick = None,
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
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Serve requests that arrive: waiting, first token, output token, goodput, utilization."""
    from codesign.answers.serving import ArrivalsAnswer
    from codesign.models.deployments.queueing import Fleet, simulate
    from codesign.models.deployments.queueing.fleet import ROUTINGS
    from codesign.report.arrival_tables import arrivals_tables

    limits = engine.limits()
    if routing not in ROUTINGS:
        raise UnknownNameError("routing", routing, ROUTINGS, "--routing")
    n_machines = count("--machines", machines)
    if campaign is None:
        _refuse(_present({"--design": design, "--pick": pick, "--folder": folder}), "--campaign")
        if model is None or device is None:
            missing = "--model" if model is None else "--device"
            raise InputError("expected --model and --device, or --campaign and --design", missing)
        stream, workload = _stream(model, tokens, requests)
        group = _Group(device, degrees_of(split), formats.formats(), option, n_machines)
        fleet = _devices(group, prefill, workload, stream, limits, engine.memory_fraction)
    else:
        strays = _present({"--model": model, "--device": device, "--option": option})
        strays.update(*(set_flags(record) for record in (split, formats, prefill)))
        _refuse(strays, "no --campaign")
        campaign_design = _chosen_design(campaign, design_or_pick(design, pick), folder)
        model = campaign_design.evaluator.workload.model
        stream, _ = _stream(model, tokens, requests)
        fleet = _designs(campaign_design, n_machines, stream, limits, engine.memory_fraction)
    level = _service_level(tokens.use_case, times)
    pools = tuple(machine.pool(role, n) for machine, role, n in fleet.members)
    drawn = "--at-once" if requests.at_once else "--requests-per-s"
    with mistakes_at(str(requests.trace or drawn)):
        served = simulate(Fleet(pools, fleet.link, routing), stream)
    if level is not None:
        level.check_that_any_meets(served)
    rows = [_pool_row(machine, role, n) for machine, role, n in fleet.members]
    inputs = {
        "model": model,
        "profile": fleet.profile,
        **fleet.source,
        "trace": None if requests.trace is None else str(requests.trace),
        "offered_requests_per_s": requests.requests_per_s,
        "seed": None if requests.requests_per_s is None else requests.seed,
        "policy": limits.policy,
        "max_sequences": limits.max_sequences,
        "max_batched_tokens": limits.max_batched_tokens,
        "plans_ahead": limits.plans_ahead,
        "reserves_answers": limits.reserves_answers,
        "routing": routing,
    }
    question = {
        "model": model,
        **fleet.source,
        "requests": _words(stream, requests),
        "engine": f"{limits.policy}, {limits.max_sequences} requests and "
        f"{limits.max_batched_tokens:,} tokens a step",
        "routing": routing,
    }
    report(
        as_json,
        lambda: ArrivalsAnswer.describe(inputs, rows, served, level),
        lambda: arrivals_tables(question, rows, served, level),
    )


@dataclass(frozen=True)
class _Group:
    """Devices that serve together, and how many such groups there are."""

    device: str
    degrees: Mapping[str, int]
    formats: Mapping[str, str]
    option: list[str] | None
    n_machines: int


@dataclass(frozen=True)
class _Members:
    """Machines with their roles and numbers, their link, and where they come from."""

    profile: str
    members: list[tuple[ServingMachine, str, int]]
    link: CacheLink
    source: Mapping[str, str] = field(default_factory=dict)


def _devices(
    group: _Group,
    prefill: PrefillFlags,
    workload: Mapping[str, Any],
    stream: Arrivals,
    limits: EngineLimits,
    memory_fraction: float,
) -> _Members:
    """Groups of devices; with machines that only prefill, two pools."""
    from codesign.evaluators.platform.machine_pools import cache_link, serving_machine
    from codesign.models.deployments.queueing import CacheLink

    evaluator, name = build(workload, group.option, group.device)
    design = {"device": name, **group.formats, **group.degrees}
    with naming(_FLAGS):
        serving = serving_machine(evaluator, design, limits, stream, memory_fraction)
    if prefill.prefill_machines is None:
        _refuse(set(set_flags(prefill)) - {"--link-latency"}, "--prefill-machines")
        return _Members(evaluator.profile, [(serving, "serve", group.n_machines)], CacheLink())
    first_evaluator, first_device = build(
        workload, group.option, prefill.prefill_device or group.device
    )
    own_design = design | {"device": first_device}
    if prefill.prefill_tp is not None:
        own_design["tensor_parallel"] = count("--prefill-tp", prefill.prefill_tp)
    with naming(_FLAGS):
        first = serving_machine(first_evaluator, own_design, limits, stream, memory_fraction)
        latency = prefill.latency_s()
        link = cache_link(first_evaluator, first, prefill.bandwidth_bytes_per_s(), latency)
    n_first = count("--prefill-machines", prefill.prefill_machines)
    members = [(first, "prefill", n_first), (serving, "decode", group.n_machines)]
    return _Members(evaluator.profile, members, link)


@dataclass(frozen=True)
class _ChosenDesign:
    """A design of a campaign."""

    evaluator: PhaseMachine
    profile: str
    design: Mapping[str, Any]
    words: str


def _chosen_design(name: str, design: str | None, folder: Path | None) -> _ChosenDesign:
    from codesign import api
    from codesign.evaluators.phase_machine import checked_machine

    if design is None:
        raise InputError("expected --design or --pick with --campaign")
    campaign = api.load_campaign(name, folder)
    evaluator_name = campaign.problem.evaluator_name
    with mistakes_at("--campaign"):
        evaluator = checked_machine(campaign.problem.evaluator, evaluator_name)
    words, values = api.design_of_campaign(campaign, design)
    profile = evaluator.profile or evaluator_name
    return _ChosenDesign(evaluator, profile, values, f"{campaign.definition.name}, {words}")


def _designs(
    campaign_design: _ChosenDesign,
    n_machines: int,
    stream: Arrivals,
    limits: EngineLimits,
    memory_fraction: float,
) -> _Members:
    """Machines of one design."""
    from codesign.evaluators.design_machine import design_machine
    from codesign.models.deployments.queueing import CacheLink

    with naming(_FLAGS):
        machine = design_machine(
            campaign_design.evaluator, campaign_design.design, limits, stream, memory_fraction
        )
    members = [(machine, "serve", n_machines)]
    return _Members(
        campaign_design.profile, members, CacheLink(), {"design": campaign_design.words}
    )


def _stream(
    model: str, tokens: TokenFlags, requests: StreamFlags
) -> tuple[Arrivals, dict[str, Any]]:
    """The requests, and the workload that the evaluator is built with."""
    from codesign.base.schema import Document, to_record
    from codesign.evaluators.platform import PlatformRequest
    from codesign.models.deployments.queueing import poisson_arrivals, read_arrivals

    rate = requests.requests_per_s
    if requests.trace is not None:
        drawn = {"--requests-per-s": rate, "--at-once": requests.at_once or None}
        stray = [*set_flags(tokens), *_present(drawn)]
        if stray:
            raise InputError(f"expected --trace or drawn requests, got both ({', '.join(stray)})")
        return read_arrivals(requests.trace), TokenFlags(None, 1, 1).workload(model)
    if (rate is None) != requests.at_once:
        raise InputError(
            "expected --trace, or --requests-per-s or else --at-once with the tokens of a request"
        )
    rate = inf if rate is None else number("--requests-per-s", rate, "a rate", above=0)
    workload = tokens.workload(model)
    with naming(FLAGS):
        request = to_record(Document("workload", workload, {}), PlatformRequest)
    if request.n_beams > 1:
        raise InputError(f"expected 1 beam where requests arrive, got {request.n_beams}")
    generated = count("--generated-tokens", request.generated)
    stream = poisson_arrivals(rate, requests.requests, request.prompt, generated, requests.seed)
    return stream, workload


def _service_level(use_case: str | None, times: LimitFlags) -> ServiceLevel | None:
    """The limits on the two times: the flags', or else the use case's; None if there are none."""
    from codesign.evaluators.platform.use_cases import load_use_case
    from codesign.models.deployments.queueing.service_levels import ServiceLevel

    stated = None if use_case is None else load_use_case(use_case)
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


def _present(flags: Mapping[str, object]) -> set[str]:
    return {name for name, value in flags.items() if value is not None}


def _refuse(strays: set[str], expected: str) -> None:
    if strays:
        raise InputError(f"expected {expected} with {', '.join(sorted(strays))}")


def _pool_row(machine: ServingMachine, role: Any, n_machines: int) -> PoolInputs:
    from codesign.answers.serving import PoolInputs

    watts = machine.power_watts
    return PoolInputs(
        role=role,
        design={
            name: value
            for name, value in machine.design.items()
            if name != "batch_size" and value is not None
        },
        machines=n_machines,
        devices=n_machines * machine.n_devices,
        cache_tokens=machine.limits.cache_tokens,
        board_power_watts=None if watts is None else n_machines * watts,
    )


def _words(stream: Arrivals, requests: StreamFlags) -> str:
    if requests.trace is not None:
        return f"{len(stream):,} of {requests.trace}"
    prompt, generated = stream.prompt_tokens[0], stream.generated_tokens[0]
    pace = "all at once"
    if requests.requests_per_s is not None:
        pace = f"{requests.requests_per_s:g} a second at random (seed {requests.seed})"
    return f"{len(stream):,}, {pace}, {prompt} + {generated} tokens"
