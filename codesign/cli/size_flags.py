"""Flags of ``codesign size``: the question that it answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.base.errors import InputError
from codesign.base.records import drop_none, frozen
from codesign.cli.flag_records import filled_keys, flag
from codesign.cli.flags import number
from codesign.cli.serving_flags import (
    Convention,
    Device_,
    DraftFlags,
    FormatFlags,
    LinkFlags,
    Model,
    Options,
    PowerLimit,
    RequestFlags,
    SplitFlags,
    Stores,
    settings_by_record,
)

if TYPE_CHECKING:
    from codesign.base.columns import JsonObject
    from codesign.evaluators.platform.instances import Demand


@frozen
class DemandFlags:
    """Requests to serve: of users at once, at random, or together."""

    users: int | None = flag(
        "Users served at once, each with the next request when the last is answered.", min=1
    )
    requests_per_s: float | None = flag(
        "Instead of --users: requests that begin in a second, at random; simulated."
    )
    burst: int | None = flag(
        "Instead of --users: requests that arrive together; all are prefilled in time.", min=1
    )
    session: str | None = flag(
        "Instead of --users: a session of 'codesign list workloads', or a YAML file."
    )
    sessions_per_s: str | None = flag(
        "Sessions that begin in a second; one rate, or one for each hour, such as 0.1,0.4,0.2."
    )
    attainment: float = flag("Share of random requests that must keep both limits.", 0.9)
    seed: int = flag("Seed of random requests.", 0, min=0)

    def demand(self, limits: tuple[float | None, float | None]) -> Demand | None:
        """The demand, if one is stated.

        Args:
            limits: Limits on the two times.

        Raises:
            InputError: Two are stated, or a limit is missing.
        """
        from codesign.evaluators.platform.instances import Demand
        from codesign.models.deployments.queueing.service_levels import LatencyLimits

        demands = {
            "--users": self.users, "--requests-per-s": self.requests_per_s, "--burst": self.burst
        }  # fmt: skip
        stated = [*drop_none(demands)]
        if not stated:
            return None
        if len(stated) > 1:
            raise InputError(f"expected one of {', '.join(demands)}, got {' and '.join(stated)}")
        if self.requests_per_s is not None:
            number("--requests-per-s", self.requests_per_s, "a rate", above=0)
            number("--attainment", self.attainment, "a share", above=0, most=1)
        first, output = limits
        if first is None and self.users is not None:
            first = math.inf  # the output tokens alone set a rate
        if first is None or output is None:
            missing = "--first-token" if first is None else "--output-token"
            raise InputError("expected a time, or --use-case, which has one", missing)
        return Demand(
            LatencyLimits(first, output), self.users, self.requests_per_s, self.burst,
            self.attainment, self.seed,
        )  # fmt: skip


@frozen
class StudyFlags:
    """Other questions than a demand."""

    devices: int | None = flag("Rank every way to run --batch on so many devices.")
    best: str | None = flag(
        "Rank by: devices or usd for a demand; a metric with --devices. [devices]"
    )
    vary: str | None = flag(
        "Vary a number of one instance (GenZ section VI): flops, bandwidth, link-bandwidth, "
        "link-latency or offload."
    )
    factors: str | None = flag("Factors of --vary, or its batches, such as 1,2,4. [the paper's]")
    launch: str | None = flag("Print command lines of vllm, sglang or trtllm, or all; untested.")
    figure: Path | None = flag("Draw price against speed, or --vary: a .png or .svg file.")


@frozen
class SizeQuestion:
    """Everything that the command line says, but for the form of the answer."""

    _: KW_ONLY
    model: Model
    on: Device_ = None
    demand: DemandFlags
    cache: Stores = None
    request: RequestFlags
    draft: DraftFlags
    formats: FormatFlags
    split: SplitFlags
    batch: str | None = flag(
        "Explain one instance with this many requests at once; max: all that memory holds.",
        metavar="<int>|max",
    )
    study: StudyFlags
    convention: Convention = None
    link: LinkFlags
    price_per_hour: float | None = flag("Rent of a device in dollars an hour. [the listed rent]")
    power_limit: PowerLimit = None
    option: Options = None

    def settings(
        self, *more: Iterable[str], request: RequestFlags | None = None
    ) -> list[JsonObject]:
        """Keys of the request, of the evaluator's options, and of each further list of keys.

        Args:
            request: Tokens of a request, in place of those of the command line.
        """
        from codesign.evaluators.platform import PlatformOptions, PlatformRequest
        from codesign.evaluators.platform.machine_pools import MEMORY_FRACTION

        keys, settings, *further = settings_by_record(
            self.option, PlatformRequest, PlatformOptions, *more
        )
        if self.convention in (None, "fitted") and not (self.demand.session or self.study.vary):
            settings.setdefault("usable_memory", MEMORY_FRACTION)
        limit = None if self.power_limit is None else f"{self.power_limit} W"
        stated = {"device_usd_per_hour": self.price_per_hour, "power_limit": limit}
        settings |= drop_none({"profile": self.convention, **stated}) | filled_keys(self.link)
        workload = (request or self.request).workload(self.model) | filled_keys(self.draft)
        return [{**workload, **keys}, settings, *further]
