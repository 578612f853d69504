"""Tables of ``codesign size``: fleets, one instance in full, ranked choices, studies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from codesign.answers.sizing import DeploymentEntry, SizeAnswer
from codesign.base.columns import Fields, StringDict, StringList, StringMap
from codesign.base.metrics import PLATFORM_METRICS
from codesign.base.records import select_keys
from codesign.base.units import format_engineering
from codesign.evaluators.platform.deployments import Pool
from codesign.evaluators.platform.design_times import FoundDesign
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_options import LINK_NOTE
from codesign.evaluators.platform.scaling import Scaling
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.machines.device.expected_error import describe_expected_error
from codesign.report.labels import counted, format_metric, format_value, metric_title
from codesign.report.question import context_words, format_words
from codesign.report.tables import (
    Tables,
    format_cell,
    pairs_table,
    plain_table,
    record_table,
    rows_table,
    spaced,
)

_MOST_DEPLOYMENTS = 12
"""Most deployments that are printed."""
_LONG_WAIT = 0.1
"""Wait for the first token, as a share of the answer's time, that is noted [ours]."""
_FIRST = ("phase", "name", "time_s", "time_share", "bound")
_CHOICE_METRICS = (
    "time_to_first_token_s",
    "time_per_output_token_s",
    "throughput_tokens_per_s",
    "memory_used_per_device_bytes",
)


def fleet_tables(answer: SizeAnswer, question: StringMap) -> Tables:
    """The question, the verdict, the deployments, and their pools."""
    every = answer.deployments or ()
    entries = every[:_MOST_DEPLOYMENTS]
    n_more = len(every) - _MOST_DEPLOYMENTS
    needed = answer.requirements
    launch = [line for name, lines in (answer.launch or {}).items() for line in ("", *lines)]
    titles = _titles(entries)
    rows = [{"title": title, **vars(x)} for title, x in zip(titles, entries, strict=True)]
    fields = (
        "title=deployment devices racks board_power_watts=power"
        " usd_per_million_tokens:=USD/_Mtoken tokens_per_joule:=token/J"
        " time_to_first_token_s=first_token time_per_output_token_s=output_token"
    )
    table = record_table("Deployments, the best first", rows, fields, digits=3)
    table.caption = (
        "Served tokens are those of prompts and answers; power is the limit of the boards."
    )
    fields = (
        "title=deployment machines usd_per_hour:=USD/h requests_per_s:=requests/s"
        " tokens_per_s:=token/s output_tokens_per_s:=output_token/s"
        " usd_per_million_output_tokens:=USD/_Moutput"
    )
    if any(entry.attainment is not None for entry in entries):
        fields += " attainment:%=in_time_%"
    rates = record_table("Rates and rents", rows, fields)
    pools = (
        (t, _pool_words(pool)) for t, x in zip(titles, entries, strict=True) for pool in x.pools
    )
    return spaced(
        pairs_table(answer.model, question),
        _verdict(entries),
        table,
        rates,
        plain_table("Pools", ["deployment", "instances"], (), pools),
        pairs_table(
            "Lower bounds, from each resource alone",
            {
                "arithmetic": f"{format_engineering(needed.flop_per_s, 'FLOP/s')} "
                f"({format_engineering(needed.flop, 'FLOP')} to prefill)",
                "memory bandwidth": f"{format_engineering(needed.bandwidth_bytes_per_s, 'B/s')} "
                f"({format_engineering(needed.step_bytes, 'B')} a decode step)",
                "memory": f"{format_engineering(needed.capacity_bytes, 'B')} "
                f"({format_engineering(needed.weight_bytes, 'B')} weights, "
                f"{format_engineering(needed.kv_bytes, 'B')} KV cache)",
            },
        )
        if needed
        else [],
        [f"{n_more} more deployments with --json"] if n_more > 0 else [],
        [f"Note: {note}" for note in answer.notes],
        launch,
    )


def session_tables(answer: SizeAnswer, session: str) -> Tables:
    """Devices that serve sessions, with caches of prompts and without."""
    rates = answer.sessions_per_s or ()
    words = {
        "sessions": f"{session}, {sum(rates) / len(rates):.3g} begin in a second on average",
        "formats": format_words(answer.design),
        "convention": answer.convention,
    }
    numbers = ["devices", "machines", "USD/ Mtoken", "found", "first token", "output token"]
    headers = ["device", "caches", "split", *numbers]
    table = plain_table("Devices at the highest rate", headers, numbers)
    problems = []
    for entry in answer.sessions or ():
        caches = "yes" if entry.has_caches else "none"
        rate = entry.rate
        if rate is None:
            table.add_row(entry.device, caches, "", *["–"] * len(numbers))
            problems.append(f"{entry.device}, caches {caches}: {entry.problem}")
            continue
        table.add_row(
            entry.device,
            caches,
            f"TP {entry.tensor_parallel}",
            f"{entry.peak_devices:,}",
            f"{entry.mean_machines:.3g} to {entry.peak_machines}"
            if len(rates) > 1
            else f"{entry.peak_machines}",
            format_value(entry.usd_per_million_tokens, "", 3),
            f"{rate.prompt_hit_share:.0%}",
            format_engineering(rate.time_to_first_token_s, "s", 3),
            format_engineering(rate.time_per_output_token_s, "s", 3),
        )
    hours = [
        f"{entry.device}, machines at each rate: {', '.join(map(str, entry.machines))}"
        for entry in answer.sessions or ()
        if len(rates) > 1 and entry.machines
    ]
    return spaced(
        pairs_table(answer.model, words),
        table,
        [*problems, *hours],
        [f"Note: {note}" for note in answer.notes],
    )


def _verdict(entries: Sequence[DeploymentEntry]) -> str:
    """The best deployment in a sentence, and by how much it beats the next."""
    best = entries[0]
    titles = _titles(entries)
    words = f"{counted(best.devices, 'device')}, {titles[0]}"
    if best.usd_per_million_tokens is not None:
        words += f", {best.usd_per_million_tokens:.3g} USD per million served tokens"
    limits = {
        f"{pool.role} by {pool.limited_by}" if len(best.pools) > 1 else pool.limited_by: None
        for pool in best.pools
    }
    words += f"; limited: {', '.join(limits)}."
    if len(entries) < 2:
        return words
    rest = entries[1]
    share = 1.0 - best.devices / rest.devices
    difference = f"{share:.0%} fewer devices" if share > 0.005 else "as many devices"
    if share < 0 and best.usd_per_hour is not None and rest.usd_per_hour is not None:
        difference = f"{1.0 - best.usd_per_hour / rest.usd_per_hour:.0%} less rent"
    return (
        f"{words} Next best: {titles[1]}, {counted(rest.devices, 'device')}; {titles[0]} needs "
        f"{difference}."
    )


def _titles(entries: Sequence[DeploymentEntry]) -> StringList:
    """The policies, with the devices if these are of several kinds."""
    devices = [" + ".join(dict.fromkeys(pool.device for pool in each.pools)) for each in entries]
    has_several = len(set(devices)) > 1
    return [
        f"{entry.policy}{' with drafts' if any(pool.draft for pool in entry.pools) else ''}"
        f"{f' ({words})' if has_several else ''}"
        for entry, words in zip(entries, devices, strict=True)
    ]


def _pool_words(pool: Pool) -> str:
    """A pool in a sentence.

    Examples:
        >>> degrees = {"tensor_parallel": 1, "pipeline_parallel": 1, "expert_parallel": 96}
        >>> print(_pool_words(Pool(
        ...     role="decode", device="h20", instances=1, devices=96, batch_size=9600,
        ...     overlapped_batches=1, chunk_tokens=None, expert_copies=0, draft=None,
        ...     draft_tokens=0, limited_by="memory", **degrees,
        ... )))
        decode: 1 x 96 h20 (EP 96), 9,600 requests each; limited by memory
    """
    degrees = {"TP": pool.tensor_parallel, "PP": pool.pipeline_parallel, "EP": pool.expert_parallel}
    split = " ".join(f"{name} {n}" for name, n in degrees.items() if n > 1)
    how = [
        *([f"chunks of {pool.chunk_tokens:,} tokens"] if pool.chunk_tokens else []),
        *([f"{pool.overlapped_batches} batches overlap"] if pool.overlapped_batches > 1 else []),
        *([f"{pool.expert_copies} copies of experts"] if pool.expert_copies else []),
        *([f"{pool.draft} drafts {pool.draft_tokens} tokens"] if pool.draft else []),
    ]
    return (
        f"{pool.role}: {pool.instances:,} x {pool.devices // pool.instances:,} {pool.device}"
        f"{f' ({split})' if split else ''}, "
        f"{counted(pool.batch_size, 'request')} each; "
        f"{', '.join(how)}{'; ' if how else ''}limited by {pool.limited_by}"
    )


def fleet_notes(
    evaluator: PlatformEvaluator,
    limits: LatencyLimits,
    entries: Sequence[DeploymentEntry],
    designs: Mapping[str, FoundDesign],
) -> StringList:
    """Assumptions of a fleet, and known errors of its devices' predictions."""
    first_s = entries[0].time_to_first_token_s
    answer_s = evaluator.workload.generated * entries[0].time_per_output_token_s
    waits = math.isinf(limits.time_to_first_token_s) and first_s > _LONG_WAIT * answer_s
    conditions = {
        "No limit on the first token is stated. Users wait "
        f"{format_engineering(first_s, 's', 3)} for it, so requests begin "
        "less often and need fewer devices; --first-token limits it.": waits,
        "Requests are alike, evenly spaced, and do not queue: --requests-per-s draws random "
        "arrivals and counts their waits."
        if all(entry.attainment is None for entry in entries)
        else "Random arrivals are simulated without pipelines, overlapping batches and copies of "
        "experts; --users tries these.": True,
        "All experts have equal loads here. The loads of real requests made SGLang's pools 15 "
        "to 20 % slower; --option engine=sglang counts them.": any(
            pool.overlapped_batches > 1 for entry in entries for pool in entry.pools
        ),
        "Attention and feed-forward layers on devices of their own: links run at their full "
        "rate, and no published deployment was reproduced.": any(
            pool.role == "ffn" for pool in entries[0].pools
        ),
        f"Deployments were tried with and without draft model {evaluator.workload.draft}. The "
        "acceptance is your assumption; times with drafts were not validated.": (
            evaluator.workload.draft
        ),
    }
    notes = [note for note, is_met in conditions.items() if is_met]
    notes += [
        note
        for design in designs.values()
        for note in (
            f"{design.key} is not built. Its times are rooflines without kernel launches, so it "
            "looks too good beside measured devices; --convention ideal has rooflines of both. "
            "Power is its TDP, energy that of a board: 19 % of the TDP at rest, 80 pJ for each "
            "off-chip byte moved over the die, and losses of regulators (88 % efficient). "
            f"Formats: {format_words(design.values)}. Links of "
            f"{format_engineering(design.network_bandwidth, 'B/s')} join up to {design.n_linked}.",
            f"{design.key} cannot be rented. Its price is manufacturing cost, written off, with "
            "electricity of chip and memories, and wear, without margin or host; "
            "--price-per-hour states a rent instead.",
        )
    ]
    if evaluator.profile == "fitted":
        keys = [pool.device for pool in entries[0].pools if pool.device in evaluator.devices]
        for key in dict.fromkeys(keys):
            notes += describe_expected_error(evaluator.devices[key], evaluator.options.engine)
            if evaluator.devices[key].link_kind == "pcie":
                notes.append(LINK_NOTE)
    return notes


def instance_tables(answer: SizeAnswer, width: int) -> Tables:
    """One instance for the terminal, ``width`` columns wide."""
    instance = answer.instance
    assert instance is not None
    names = ("convention", "workload", "options", "design")
    inputs = {name: format_cell("", getattr(answer, name)) for name in names}
    rows = []
    for name, value in instance.metrics.items():
        metric = PLATFORM_METRICS[name]
        words = format_metric(value, metric)
        if name in instance.ranges:
            ends = instance.ranges[name]
            words += f" ({format_metric(ends.low, metric)} to {format_metric(ends.high, metric)})"
        rows.append((metric_title(metric), words))
    return spaced(
        pairs_table(f"An instance, {answer.design['batch_size']:,} requests at once", inputs),
        plain_table("Metrics", ["metric", "value"], ["value"], rows),
        [rows_table("Limits of the use case", list(map(dict, instance.limits)), width)]
        if instance.limits
        else [],
        rows_table("Operators and messages", instance.operators, width, _FIRST),
        rows_table("Memories of one device", instance.levels, width),
        [f"Note: {note}" for note in instance.notes],
    )


def choices_table(answer: SizeAnswer, n_rows: int, width: int) -> Tables:
    """Ways to spread the work, the best first."""
    choices = answer.choices
    assert choices is not None
    title = (
        f"{len(choices.ways)} of {choices.tried} ways to use {choices.devices} devices keep every "
        "limit"
    )
    listed_rows = [
        {**{key: row[key] for key in row if key not in PLATFORM_METRICS},
         **select_keys(row, _CHOICE_METRICS)}
        for row in choices.ways[:n_rows]
    ]  # fmt: skip
    table = rows_table(title, listed_rows, width)
    if len(choices.ways) > n_rows:
        table.caption = f"{len(choices.ways) - n_rows} more with --json"
    return [table]


def scaling_question(evaluator: PlatformEvaluator, design: Fields, parameter: str) -> StringDict:
    """Settings that are held while one parameter varies."""
    request = evaluator.workload
    degrees = {key: n for key, n in design.items() if key.endswith("_parallel") and n > 1}
    split = " x ".join(f"{key.removesuffix('_parallel')} {n}" for key, n in degrees.items())
    requests = {} if parameter == "batch_size" else {"requests": f"{design['batch_size']:,}"}
    return {
        "context": context_words(request.prompt, request.generated, request.n_beams),
        **requests,
        "formats": format_words(design),
        "split": split or "one device",
        "convention": evaluator.options.profile,
    }


def scaling_tables(title: str, question: StringMap, study: Scaling) -> Tables:
    """One study, a table for each phase: times, their parts, the gain over the first value."""
    values = (format_engineering(row["value"], study.axis.unit, 3) for row in study.rows())
    rows = [row | {"value": value} for row, value in zip(study.rows(), values, strict=True)]
    phases = {"prefill": "time_to_first_token_s=first_token",
              "decode": "time_per_output_token_s=output_token"}  # fmt: skip
    sections = [pairs_table(title, question)]
    for phase, total in phases.items():
        fields = f"value={study.axis.words.replace(' ', '_')} {total} {phase}_gain=gain"
        fields += f" {phase}_linear_s=linear {phase}_attention_s=atten-_tion"
        fields += f" {phase}_collective_s=messages offloaded_share=offloaded fits"
        sections.append(record_table(phase.capitalize(), rows, fields, digits=3))
    return spaced(*sections)
