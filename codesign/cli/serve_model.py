"""Requests replayed on machines that serve a model: percentiles, goodput, utilization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InputError, mistakes_at
from codesign.base.records import drop_keys, drop_none, frozen
from codesign.cli.flag_records import filled_keys, flag, set_flags
from codesign.cli.flags import count, flag_by_key, naming, number
from codesign.cli.found_designs import design_name, named_machine
from codesign.cli.output import report, say
from codesign.cli.serving_flags import (
    FLAGS,
    Convention,
    Device_,
    DraftFlags,
    FormatFlags,
    GroupFlags,
    LinkFlags,
    Model,
    Options,
    PowerLimit,
    RequestFlags,
    Stores,
    build,
    degrees_of,
    engine_settings,
    named_devices,
    settings_by_record,
    single_device,
    store_units,
)

if TYPE_CHECKING:
    from codesign.answers.serving import PoolInputs
    from codesign.base.columns import Fields, IntegerMap, JsonObject, StringDict, StringMap
    from codesign.evaluators.platform.engine_settings import EngineSettings
    from codesign.models.deployments.queueing import (
        Arrivals,
        CacheLink,
        ServedRequests,
    )
    from codesign.models.deployments.queueing.service_levels import LatencyLimits
    from codesign.models.deployments.queueing.serving_machine import ServingMachine


@frozen
class StreamFlags:
    """The requests that arrive."""

    requests_per_s: float | None = flag("Requests that begin in a second, at random.")
    at_once: bool = flag(
        "Instead of --requests-per-s: all requests wait at the start, as in offline benchmarks.",
        False,
        "--at-once",
    )
    trace: Path | None = flag(
        "Instead of random requests: a CSV file with columns arrival_s, prompt_tokens and "
        "generated_tokens, or a .jsonl or .gz file with hashes of blocks."
    )
    session: str | None = flag(
        "Instead of random requests: a session of 'codesign list workloads', or a YAML file."
    )
    sessions_per_s: float | None = flag("Sessions that begin in a second, at random.")
    requests: int = flag("Number of random requests, in whole sessions.", 1000, min=1)
    seed: int = flag("Seed of random requests.", 0, min=0)


@frozen
class PoolFlags:
    """Machines that only prefill; layers or a draft model on devices of their own."""

    prefill_machines: int | None = flag(
        "Machines that only prefill; all other machines only decode.", min=1
    )
    prefill_on: str | None = flag("Device of the prefilling machines. [as --on]")
    prefill_tp: int | None = flag("Tensor parallelism of the prefilling machines. [as --tp]", min=1)
    prefill_ep: int | None = flag("Expert parallelism of the prefilling machines. [as --ep]", min=1)
    ffn_on: str | None = flag(
        "Device of the decoding machines' feed-forward layers; --on has their attention."
    )
    ffn_tp: int | None = flag("Tensor parallelism of the feed-forward layers. [as --tp]", min=1)
    ffn_ep: int | None = flag("Expert parallelism of the feed-forward layers. [as --ep]", min=1)
    attention_instances: int = flag(
        "Instances of --tp devices with the attention of a decoding machine.", 1, min=1
    )
    overlapped_batches: int = flag(
        "Micro-batches that alternate between attention and feed-forward layers.", 1, min=1
    )
    draft_on: str | None = flag("A device of the draft model alone. [the model's own devices]")


def serve_model(
    *,
    model: Model,
    on: Device_ = None,
    split: GroupFlags,
    machines: Annotated[int, typer.Option(help="Machines, each of --tp x --ep devices.")] = 1,
    pools: PoolFlags,
    cache: Stores = None,
    requests: StreamFlags,
    request: RequestFlags,
    draft: DraftFlags,
    formats: FormatFlags,
    convention: Convention = None,
    link: LinkFlags,
    power_limit: PowerLimit = None,
    option: Options = None,
) -> None:
    """Replay requests on a deployment: waiting, first token, output token, goodput, overload."""
    from codesign.answers.serving import ServeModelAnswer
    from codesign.evaluators.platform import PlatformOptions
    from codesign.evaluators.platform.engine_settings import EngineSettings
    from codesign.models.deployments.queueing import Fleet, simulate
    from codesign.report.arrival_tables import arrivals_tables

    stated, more, lengths = settings_by_record(option, EngineSettings, PlatformOptions, _LENGTHS)
    settings = engine_settings(stated)
    n_machines = count("--machines", machines)
    stores: IntegerMap = store_units(cache)
    name = design_name(machine_name := single_device(on))
    if name is None:
        stream, workload = _stream(model, request, requests, lengths | filled_keys(draft))
        more |= {"power_limit": f"{power_limit} W"} if power_limit else {}
        more |= drop_none({"profile": convention}) | filled_keys(link)
        machine = {"device": machine_name, **formats.formats(model), **degrees_of(split)}
        fleet = _devices(machine, n_machines, more, pools, workload, stream, settings)
    else:
        strays = [flag for record in (formats, pools, draft, link) for flag in set_flags(record)]
        strays += [f"--option {key}" for key in more]
        flags = {"--convention": convention, "--power-limit": power_limit}
        _refuse(flags | dict.fromkeys(strays, ""), "a device")
        stream, fleet, cached = _design(
            machine_name, name, model, n_machines, split, settings, request, requests, lengths
        )
        stores = stores or cached
    level = _service_level(request)
    if stores:
        _store_prompts(fleet, model, settings, stores)
    stream = stream if settings.caches_prompts else replace(stream, blocks=None)
    drawn = "--at-once" if requests.at_once else "--requests-per-s"
    with mistakes_at(str(requests.trace or requests.session or drawn)):
        machine_pools = tuple(machine.pool(role, n) for machine, role, n in fleet.members)
        served = simulate(Fleet(machine_pools, fleet.link, settings.routing), stream)
    if level is not None and (miss := level.nearest_miss(served)):
        nearest = "no request keeps both limits; the nearest is request {}: {}"
        raise InputError(nearest.format(*miss))
    has_rate = requests.requests_per_s is not None or requests.session is not None
    needed = _machines_needed(served, n_machines) if has_rate else None
    rows = _pool_inputs(fleet)
    inputs = {
        "model": model,
        "convention": fleet.convention,
        **fleet.source,
        "trace": None if requests.trace is None else str(requests.trace),
        "session": requests.session,
        "offered_requests_per_s": requests.requests_per_s,
        "offered_sessions_per_s": requests.sessions_per_s,
        "machines_needed": needed,
        "seed": None if requests.trace or requests.at_once else requests.seed,
        **{name: getattr(settings, name) for name in _ENGINE_KEYS},
    }
    question = {"model": model, **fleet.source, **_words(settings, stream, requests)}
    report(
        lambda: ServeModelAnswer.describe(inputs, rows, served, level),
        lambda: arrivals_tables(question, rows, served, level, more.get("engine", "graphs")),
    )
    if needed is not None:
        say(f"warning: overloaded: {needed} machines needed, got {n_machines}")


_LENGTHS = ["beyond_context"]
"""Keys of the workload that ``--option`` takes."""
_ENGINE_KEYS = (
    "policy", "max_sequences", "max_batched_tokens", "plans_ahead", "reserves_answers", "routing",
)  # fmt: skip


_LEAST_REQUESTS = 32
"""Least number of requests whose waits can show a trend [ours]."""
_OVERLOAD = 0.05
"""Machines are overloaded if waits grow faster, in seconds per second of arrivals [ours]."""


def _machines_needed(served: ServedRequests, n_machines: int) -> int | None:
    """Number of machines that would keep up with the arrivals; None if the present ones do.

    If r requests arrive and m are answered per second, each second of arrivals adds r / m - 1
    seconds to the wait of the next request.
    """
    import numpy as np

    order = np.argsort(served.arrivals.arrival_s, kind="stable")
    arrival_s = served.arrivals.arrival_s[order]
    wait_s = served.time_to_first_token_s[order]
    if len(arrival_s) < _LEAST_REQUESTS:
        return None
    quarters = np.array_split(np.arange(len(arrival_s)), 4)
    span_s = arrival_s[quarters[3]].mean() - arrival_s[quarters[1]].mean()
    growth = float(wait_s[quarters[3]].mean() - wait_s[quarters[1]].mean()) / float(span_s)
    return max(ceil(n_machines * (1 + growth)), n_machines + 1) if growth > _OVERLOAD else None


@frozen
class _Members:
    """Machines with their roles and numbers, their link, and where they come from."""

    convention: str
    members: list[tuple[ServingMachine, str, int]]
    link: CacheLink
    source: StringMap = field(default_factory=dict)


def _devices(
    design: Fields,
    n_machines: int,
    options: Fields,
    pools: PoolFlags,
    workload: Fields,
    stream: Arrivals,
    settings: EngineSettings,
) -> _Members:
    """Groups of devices; with machines that only prefill, two pools."""
    from codesign.evaluators.platform.machine_pools import (
        cache_link,
        joint_machine,
        serving_machine,
    )
    from codesign.evaluators.platform.platform_request import UNDRAFTED
    from codesign.models.deployments.queueing import CacheLink
    from codesign.models.hardware.device import load_device

    stated = [*set_flags(pools), *["--draft"] * ("draft" in workload)]
    for prefix, needed in _NEEDED_FLAGS.items():
        if needed not in stated:
            _refuse({name: "" for name in stated if name.startswith(prefix)}, needed)
    _refuse({"--ffn-on": pools.ffn_on and workload.get("draft")}, "no --draft")
    places = {"--on": design["device"], "--prefill-on": pools.prefill_on}
    places |= {"--ffn-on": pools.ffn_on, "--draft-on": pools.draft_on}
    keys = {place: load_device(name, place).key for place, name in places.items() if name}
    evaluator = build(
        workload, options, named_devices([*dict.fromkeys(drop_none(places).values())])
    )
    request = evaluator.workload

    def machine(place: str, updates: Fields, **degrees: int | None) -> ServingMachine:
        """The devices of a flag, for a request with other keys."""
        on = {**design, "device": keys.get(place, keys["--on"]), **drop_none(degrees)}
        of_machine = evaluator.replace_request(request.updated(updates))
        prefix = place.removesuffix("on")
        flags = {"tensor_parallel": f"{prefix}tp", "expert_parallel": f"{prefix}ep",
                 "memory": f"{place}: memory"}  # fmt: skip
        with naming(flags):
            return serving_machine(
                of_machine, on, settings.limits(), stream, settings.memory_fraction
            )

    pairs = flag_by_key("--option", type(settings).model_fields)
    with naming({**FLAGS, "ffn_on": "--ffn-on"}, pairs):
        if pools.ffn_on or pools.draft_on:
            degrees = {"tensor_parallel": pools.ffn_tp, "expert_parallel": pools.ffn_ep}
            if pools.draft_on:
                degrees = {"tensor_parallel": 1, "expert_parallel": 1}
                first = machine("--on", {**UNDRAFTED, "checked_tokens": request.n_drafted + 1})
                second = machine("--draft-on", {**UNDRAFTED, "model": request.draft}, **degrees)
            else:
                first = machine("--on", {"layers": "attention"}, expert_parallel=1)
                second = machine("--ffn-on", {"layers": "ffn"}, **degrees)
            serving = joint_machine(
                evaluator, first, second, settings.link_latency,
                pools.attention_instances, pools.overlapped_batches,
            )  # fmt: skip
        else:
            serving = machine("--on", {})
        members = [(serving, "serve", n_machines)]
        link = CacheLink()
        if pools.prefill_machines is not None:
            degrees = {"tensor_parallel": pools.prefill_tp, "expert_parallel": pools.prefill_ep}
            first = machine("--prefill-on", {}, **degrees)
            link = cache_link(evaluator, first, settings.link_bandwidth, settings.link_latency)
            prefilling = (first, "prefill", pools.prefill_machines)
            members = [prefilling, (serving, "decode", n_machines)]
    return _Members(evaluator.options.profile, members, link)


_NEEDED_FLAGS = {
    ("--prefill", "--ffn-on"): "--prefill-machines",
    ("--ffn", "--attention", "--overlapped"): "--ffn-on",
    ("--draft-on",): "--draft",
}
"""Flag that flags with these first letters need."""


def _design(
    machine_name: str,
    name: str,
    model: str,
    n_machines: int,
    split: GroupFlags,
    settings: EngineSettings,
    request: RequestFlags,
    requests: StreamFlags,
    lengths: Fields,
) -> tuple[Arrivals, _Members, IntegerMap]:
    """Requests, machines of a found design, and units of the stores that its campaign has."""
    from codesign.evaluators.design_machine import design_machine
    from codesign.models.deployments.queueing import CacheLink

    with mistakes_at(f"--on {machine_name}"):
        evaluator, values, stores = named_machine(name, model)
    lengths = {"beyond_context": evaluator.workload.beyond_context, **lengths}
    stream, _ = _stream(model, request, requests, lengths)
    with naming(FLAGS, flag_by_key("--option", type(settings).model_fields)):
        serving = design_machine(
            evaluator, {**values, **degrees_of(split)}, settings.limits(), stream,
            settings.memory_fraction,
        )  # fmt: skip
    convention = evaluator.profile or name.partition("#")[0]
    members = [(serving, "serve", n_machines)]
    return stream, _Members(convention, members, CacheLink(), {"design": machine_name}), stores


def _pool_inputs(fleet: _Members) -> list[PoolInputs]:
    """Role, design, machines, cache and board power (watts) of each pool."""
    from codesign.answers.serving import PoolInputs

    return [
        PoolInputs(
            role=role,
            design=drop_keys(drop_none(machine.design), ["batch_size"]),
            machines=n,
            devices=n * machine.n_devices,
            cache_tokens=machine.limits.cache_tokens,
            board_power_watts=n * machine.power_watts,
        )
        for machine, role, n in fleet.members
    ]


def _store_prompts(
    fleet: _Members, model: str, settings: EngineSettings, stores: IntegerMap
) -> None:
    """Put stores behind the machines that prefill."""
    from codesign.evaluators.platform.machine_pools import prompt_stores
    from codesign.models.workload import load_model

    machine, role, n = fleet.members[0]
    with mistakes_at("--cache"):
        behind = prompt_stores(load_model(model), machine.design, settings, stores)
    fleet.members[0] = (replace(machine, stores=behind), role, n)


def _stream(
    model: str, request: RequestFlags, requests: StreamFlags, lengths: Fields
) -> tuple[Arrivals, JsonObject]:
    """The requests, and the workload that the evaluator is built with.

    Args:
        lengths: Keys of the workload that are no tokens.
    """
    from codesign.base.schema import Document, parse_record
    from codesign.evaluators.platform import PlatformRequest
    from codesign.models.deployments.queueing import poisson_arrivals
    from codesign.models.workload.sessions import check_length

    rate = requests.requests_per_s
    has_file = requests.trace is not None or requests.session is not None
    if not has_file:
        _refuse({"--sessions-per-s": requests.sessions_per_s}, "--session")
        if (rate is None) != requests.at_once:
            raise InputError(
                "expected --trace, --session, or the tokens of a request with either "
                "--requests-per-s or --at-once"
            )
    workload = {**(RequestFlags(None, 1, 1) if has_file else request).workload(model), **lengths}
    with naming(FLAGS, {**flag_by_key("--option", lengths), **FLAGS}):
        stated = parse_record(Document("workload", workload, {}), PlatformRequest)
    if has_file:
        tokens = replace(request, first_token=None, output_token=None)
        others: JsonObject = {"--requests-per-s": rate, "--at-once": requests.at_once or None}
        if requests.session is None:
            others["--sessions-per-s"] = requests.sessions_per_s
        else:
            others["--trace"] = requests.trace
        stray = [*set_flags(tokens), *drop_none(others)]
        if stray:
            source = "--session" if requests.session else "--trace"
            raise InputError(f"expected requests of {source} alone, got {', '.join(stray)} too")
        stream = _stated_stream(requests)
        if not stated.beyond_context:
            with mistakes_at("--session" if requests.session else "--trace"):
                longest = int((stream.prompt_tokens + stream.generated_tokens).max())
                for language_model in stated.models:
                    check_length(longest, language_model)
        return stream, workload
    rate = inf if rate is None else number("--requests-per-s", rate, "a rate", above=0)
    if stated.n_beams > 1:
        raise InputError(f"expected --beams 1 where requests arrive, got {stated.n_beams}")
    generated = count("--generated-tokens", stated.generated)
    stream = poisson_arrivals(rate, requests.requests, stated.prompt, generated, requests.seed)
    return stream, workload


def _stated_stream(requests: StreamFlags) -> Arrivals:
    """The requests of a trace, or of sessions."""
    from codesign.models.deployments.queueing import (
        read_arrivals,
        session_arrivals,
        trace_arrivals,
    )
    from codesign.models.workload.request_trace import read_request_trace
    from codesign.models.workload.sessions import load_session

    if requests.trace is not None:
        if requests.trace.suffix in (".jsonl", ".gz"):
            return trace_arrivals(read_request_trace(requests.trace))
        return read_arrivals(requests.trace)
    if requests.sessions_per_s is None:
        raise InputError("expected a rate with --session", "--sessions-per-s")
    rate = number("--sessions-per-s", requests.sessions_per_s, "a rate", above=0)
    session = load_session(requests.session or "")
    n_sessions = ceil(requests.requests / session.n_turns)
    return session_arrivals(session, rate, n_sessions, requests.seed)


def _service_level(request: RequestFlags) -> LatencyLimits | None:
    """The limits on the two times; None if there are none."""
    from codesign.models.deployments.queueing.service_levels import LatencyLimits

    first, output = request.limits()
    if first is None and output is None:
        return None
    if first is None or output is None:
        missing = "--first-token" if first is None else "--output-token"
        raise InputError("expected a time: set both limits or neither", missing)
    return LatencyLimits(first, output)


def _refuse(flags: Mapping[str, object], expected: str) -> None:
    if listed := ", ".join(sorted(drop_none(flags))):
        raise InputError(f"expected {expected} with {listed}")


def _words(settings: EngineSettings, stream: Arrivals, requests: StreamFlags) -> StringDict:
    """Requests, engine and routing in words."""
    prompt = stream.prompt_tokens[0]
    generated = stream.generated_tokens[0]
    if requests.trace is not None:
        words = f"{len(stream):,} of {requests.trace}"
    elif requests.session is not None:
        words = (
            f"{len(stream):,} of sessions {requests.session}, {requests.sessions_per_s:g} sessions "
            f"a second at random (seed {requests.seed})"
        )
    else:
        pace = "all at once"
        if requests.requests_per_s is not None:
            pace = f"{requests.requests_per_s:g} a second at random (seed {requests.seed})"
        words = f"{len(stream):,}, {pace}, {prompt} + {generated} tokens"
    engine = (
        f"{settings.policy}, {settings.max_sequences} requests and "
        f"{settings.max_batched_tokens:,} tokens a step"
    )
    return {"requests": words, "engine": engine, "routing": settings.routing}
