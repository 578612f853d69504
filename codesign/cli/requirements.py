"""Needs of a use case, and the fewest of each device that meet them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.base.errors import InputError
from codesign.cli.flag_records import flag
from codesign.cli.flags import count, naming, number
from codesign.cli.output import AsJson, report
from codesign.cli.platform_flags import (
    FLAGS,
    FormatFlags,
    LimitFlags,
    Model,
    Options,
    RequestFlags,
    build,
    limits_of,
    platform_inputs,
)

if TYPE_CHECKING:
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.fleet_sizing import OfferedLoad
    from codesign.evaluators.platform.requirements import LatencyLimits


@dataclass(frozen=True)
class DemandFlags:
    """Number of requests: together, at once in a steady state, or arriving at random."""

    batch: int | None = flag("Requests that arrive together; all must be prefilled in time. [1]")
    users: int | None = flag(
        "Instead of --batch: users served at once, whose requests arrive one by one.", min=1
    )
    requests_per_s: float | None = flag(
        "Instead of --batch: requests per second that arrive at random; a simulation finds the "
        "fewest machines."
    )
    attainment: float = flag("Share of those requests that must keep both limits.", 0.9)

    def check(self) -> None:
        """Refuse more than one of them."""
        demands = {
            "--batch": self.batch, "--users": self.users, "--requests-per-s": self.requests_per_s,
        }  # fmt: skip
        stated = [name for name, value in demands.items() if value is not None]
        if len(stated) > 1:
            is_random = self.requests_per_s is not None
            among = f"one of {', '.join(demands)}" if is_random else "--batch or --users"
            raise InputError(f"expected {among}, got {' and '.join(stated)}")


def requirements(
    *,
    model: Model,
    request: RequestFlags,
    times: LimitFlags,
    demand: DemandFlags,
    device: Annotated[
        list[str] | None,
        typer.Option(help="Device to size; may be repeated. [all that are bundled]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the requests that are drawn.", min=0)] = 0,
    formats: FormatFlags,
    most_devices: Annotated[
        int, typer.Option(help="Where the search for the fewest devices ends.")
    ] = 512,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Size the PFLOP/s, TB/s and GB that a use case needs, and the fewest of each device."""
    from codesign.answers.serving import RequirementLimits, RequirementsAnswer, SizedDevice
    from codesign.evaluators.platform import requirements as sizing
    from codesign.report import platform_tables

    workload = request.workload(model)
    evaluators = [build(workload, option, name)[0] for name in device or (None,)]
    for further in evaluators[1:]:
        evaluators[0].devices.update(further.devices)
    evaluator = evaluators[0]
    users = demand.users
    limits = _read_limits(evaluator, times, users is not None)
    demand.check()
    chosen_formats = formats.formats()
    most = count("--most-devices", most_devices)
    load = _offered_load(evaluator, limits, demand, seed)
    if load is not None:
        users = load.users
    n_requests = users or count("--batch", 1 if demand.batch is None else demand.batch)
    others = {"batch_size": n_requests, **chosen_formats}
    if users is None:
        needed = sizing.size_requirements(evaluator, limits, others)
        device_rows = sizing.fewest_devices(evaluator, limits, others, needed, most)
    else:
        with naming(FLAGS):
            needed = sizing.size_steady_state(evaluator, limits, users, chosen_formats)
        device_rows = sizing.fewest_for_users(
            evaluator, limits, users, chosen_formats, needed, most, has_stages=load is None
        )
    rows = sizing.rows_of(list(device_rows))
    if load is not None:
        rows = sizing.rows_of(
            _simulated(evaluator, load, rows, chosen_formats, most, device is None)
        )
    rows = [row | _costs(evaluator, row) for row in rows]
    inputs = platform_inputs(evaluator, others) | {
        "users": None if load else users,
        "requests_per_s": demand.requests_per_s,
        "attainment": demand.attainment if load else None,
    }
    question = _question(evaluator, others, limits, users, load)
    report(
        as_json,
        lambda: RequirementsAnswer(
            **inputs,
            limits=RequirementLimits(**vars(limits)),
            requirements=needed,
            devices=[SizedDevice(**row) for row in rows],
        ),
        lambda: platform_tables.requirements_tables(
            question, needed, rows, users is not None, load is not None
        ),
    )


def _question(
    evaluator: PlatformEvaluator,
    others: Mapping[str, Any],
    limits: LatencyLimits,
    users: int | None,
    load: OfferedLoad | None,
) -> dict[str, str]:
    """The question in the words of ``codesign economics``."""
    from codesign.report.question import context_words, format_words, limit_words

    request, options = evaluator.workload, evaluator.options
    batch = others["batch_size"]
    together = "1 at a time" if batch == 1 else f"{batch:,} that arrive together"
    shares = {"arithmetic": options.compute_efficiency, "memory": options.memory_efficiency}
    shares["links"] = options.link_efficiency
    sustained = ", ".join(f"{share:.0%} of {name}" for name, share in shares.items() if share)
    return {
        "formats": format_words(others, request.language_model.weight_block_size is not None),
        "model": request.model,
        "context": context_words(request.prompt, request.generated, request.n_beams),
        **_demand(together, users, load),
        "limits": limit_words(limits.time_to_first_token_s, limits.time_per_output_token_s),
        **({"sustained": sustained} if sustained else {}),
        "profile": options.profile,
    }


def _demand(together: str, users: int | None, load: OfferedLoad | None) -> dict[str, str]:
    from codesign.report.question import user_words

    if load is not None:
        share = f"{load.attainment:.0%} of them within both limits"
        return {"requests": f"{load.requests_per_s:g} a second at random, {share}"}
    return {"requests": together} if users is None else {"users": user_words(users)}


def _offered_load(
    evaluator: PlatformEvaluator, limits: LatencyLimits, demand: DemandFlags, seed: int
) -> OfferedLoad | None:
    """The requests that arrive at random, if they do."""
    from codesign.evaluators.platform.fleet_sizing import OfferedLoad
    from codesign.models.deployments.queueing.service_levels import ServiceLevel

    if demand.requests_per_s is None:
        return None
    rate = number("--requests-per-s", demand.requests_per_s, "a rate", above=0)
    attainment = number("--attainment", demand.attainment, "a share", above=0, most=1)
    request = evaluator.workload
    if request.n_beams > 1:
        raise InputError(f"expected 1 beam with --requests-per-s, got {request.n_beams}")
    level = ServiceLevel(limits.time_to_first_token_s, limits.time_per_output_token_s)
    generated = count("--generated-tokens", request.generated)
    return OfferedLoad(rate, request.prompt, generated, level, attainment, seed)


_MOST_SIMULATED = 5
"""Devices whose fleets are simulated where none is named: those that need the fewest [ours]."""


def _simulated(
    evaluator: PlatformEvaluator,
    load: OfferedLoad,
    rows: Sequence[Mapping[str, Any]],
    formats: Mapping[str, Any],
    most_devices: int,
    is_cut: bool,
) -> list[dict[str, Any]]:
    """The rows with fleets that were simulated, from those of users in a steady state.

    A machine is the instance of the steady state.

    Raises:
        InputError: No fleet of any device keeps the limits; says how near the nearest came.
    """
    from codesign.evaluators.platform.fleet_sizing import smallest_fleet

    bounds = ("device", "announced", "for_compute", "for_bandwidth", "for_capacity")
    fleets = []
    for row in rows[: _MOST_SIMULATED if is_cut else None]:
        degrees = {name: row.get(name, 1) for name in ("tensor_parallel", "expert_parallel")}
        design = {**formats, "device": row["device"], **degrees}
        guess = row.get("data_parallel", 1)
        fleet = smallest_fleet(evaluator, load, design, guess, most_devices)
        fleets.append({name: row[name] for name in bounds} | fleet)
    if all(fleet["devices"] is None for fleet in fleets):
        notes = [f"{fleet['device']}: {fleet['note']}" for fleet in fleets]
        raise InputError(f"no fleet keeps the limits; nearest: {notes[0]}")
    return fleets


def _costs(evaluator: PlatformEvaluator, row: Mapping[str, Any]) -> dict[str, Any]:
    """Machines, watts and dollars of a row; None where a device states no power or has no rent."""
    from codesign.models.accounts.rents import rent_usd_per_hour

    if row["devices"] is None:
        return {}
    device = evaluator.devices[row["device"]]
    rent = rent_usd_per_hour(row["device"], evaluator.options.device_usd_per_hour)
    return {
        "machines": row["data_parallel"],
        "board_power_watts": None if device.power is None else row["devices"] * device.power,
        "rent_usd_per_hour": None if math.isnan(rent) else row["devices"] * rent,
    }


def _read_limits(evaluator: PlatformEvaluator, times: LimitFlags, is_steady: bool) -> LatencyLimits:
    from codesign.evaluators.platform.requirements import LatencyLimits

    stated = limits_of(evaluator)
    # In a steady state the output tokens alone set a rate; other questions need both limits.
    unlimited = math.inf if is_steady else None
    first, output = times.seconds(
        unlimited if stated is None else stated.time_to_first_token_s,
        None if stated is None else stated.time_per_output_token_s,
    )
    if first is None or output is None:
        missing = "--first-token" if first is None else "--output-token"
        raise InputError("expected a time, or --use-case, which has one", missing)
    return LatencyLimits(first, output)
