"""The answer about devices for a model: deployments, one instance in full, price against speed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import SkipValidation
from typing_extensions import TypedDict

from codesign.answers.answer import Answer, Design, Entry, Finite, Number, Numbers
from codesign.answers.economics import PriceFrontier
from codesign.base.columns import Fields, FloatSequence, IntegerPair, IntegerSequence, Strings
from codesign.base.evaluator import Explanation
from codesign.base.explanation_rows import LevelRow, OperatorRow, PowerRow
from codesign.evaluators.platform.deployments import Deployment, Pool
from codesign.evaluators.platform.design_times import FoundDesign
from codesign.evaluators.platform.instances import Policy
from codesign.evaluators.platform.requirements import Requirements
from codesign.evaluators.platform.session_sizing import SessionRate
from codesign.models.hardware.device import Device

HOST_FACTOR = 10_200.0 / (8 * 700.0)
"""Power of a machine over that of its devices: a DGX H100 draws at most 10.2 kW with eight H100 of
700 W (NVIDIA, DGX H100 User Guide, "Power Specifications")."""
RACK_WATTS = 41e3
"""Power of a rack: four DGX H100 (NVIDIA, DGX SuperPOD reference architecture for DGX H100). A
machine that draws more, such as one of 72 devices, has a rack of its own."""


class Ends(Entry):
    """Ends of a range."""

    low: float
    high: float


class DemandEntry(Entry):
    """Requests to serve, and the limits on their times.

    Attributes:
        users: Users at once, each with the next request when the last is answered.
        requests_per_s: Requests that begin in a second, at random.
        attainment: Share of these requests that must keep both limits.
        burst: Requests that arrive together.
        time_to_first_token_s: Limit; null for none.
        time_per_output_token_s: Limit; null for none.
    """

    users: int | None = None
    requests_per_s: Number = None
    attainment: Number = None
    burst: int | None = None
    time_to_first_token_s: Finite
    time_per_output_token_s: Finite


class DeploymentEntry(Entry):
    """Machines that serve the demand, and the cost of a served token.

    A served token is one of a prompt or of an answer.

    Attributes:
        machines: Machines of as many devices as links join.
        racks: Racks of 41 kW, hosts included.
        board_power_watts: Board power limits of all devices, of designs their TDP; null where none
            is stated.
        usd_per_hour: Rent of all devices, or the price of found designs by their accounts; null
            where none is known.
        usd_per_million_tokens: Rent over all served tokens.
        usd_per_million_output_tokens: Rent over the generated tokens alone.
        tokens_per_joule: Served tokens per joule of the boards; null where no power is stated.
        tokens_per_s: Served tokens.
        attainment: Share of the simulated requests within both limits; the times are then of the
            90th percentile.
        utilization: Mean share of the time in which a simulated machine ran steps.
    """

    policy: Policy
    devices: int
    machines: int
    racks: int
    board_power_watts: Finite
    usd_per_hour: Finite
    usd_per_million_tokens: Finite
    usd_per_million_output_tokens: Finite
    tokens_per_joule: Finite
    tokens_per_s: float
    output_tokens_per_s: float
    requests_per_s: float
    time_to_first_token_s: float
    time_per_output_token_s: float
    attainment: Number = None
    utilization: Number = None
    pools: Sequence[Pool]

    @classmethod
    def describe(
        cls,
        deployment: Deployment,
        devices: Mapping[str, Device | FoundDesign],
        tokens: IntegerPair,
        usd: float | None,
        **simulated: Any,
    ) -> Self:
        """The entry of a deployment.

        Args:
            devices: Devices by the names that pools use.
            tokens: Tokens of a prompt and of an answer.
            usd: Rent of any device per hour, in place of the listed rents.
            simulated: Fields from a simulation.
        """
        prompt, generated = tokens
        rate = deployment.requests_per_s
        machines = 0
        watts = 0.0
        racks = 0.0
        for pool in deployment.pools:
            device = devices[pool.device]
            n_machines = math.ceil(pool.devices / device.n_linked)
            machines += n_machines
            power = device.power or math.nan
            watts += pool.devices * power
            racks += n_machines / max(1, RACK_WATTS // (device.n_linked * power * HOST_FACTOR))
        rent = deployment.usd_per_hour(usd)
        per_hour = rate * 3600.0 / 1e6
        return cls.read(
            deployment,
            devices=deployment.n_devices,
            machines=machines,
            racks=math.ceil(racks - 1e-9),
            board_power_watts=watts,
            usd_per_hour=rent,
            usd_per_million_tokens=rent / (per_hour * (prompt + generated)),
            usd_per_million_output_tokens=rent / (per_hour * (generated or math.nan)),
            tokens_per_joule=(prompt + generated) / deployment.joules_per_request,
            tokens_per_s=rate * (prompt + generated),
            output_tokens_per_s=rate * generated,
            **simulated,
        )


class LatencyLimitEntry(Entry):
    """A limit on a time.

    Attributes:
        found_s: Time of the instance.
    """

    limit: str
    allowed_s: float
    found_s: Number
    state: Literal["kept", "broken"]


class InstanceAccount(Entry):
    """One way to run a batch on devices, in full.

    Attributes:
        ranges: Range of each metric whose error was measured; it holds 90 % of the measured
            kernels.
        operators: Operators and messages.
        levels: Memories of one device.
        notes: Limits of the numbers, one sentence each.
    """

    metrics: Numbers
    ranges: Mapping[str, Ends]
    limits: Sequence[LatencyLimitEntry]
    operators: SkipValidation[Sequence[OperatorRow]]
    levels: SkipValidation[Sequence[LevelRow]]
    power: SkipValidation[Sequence[PowerRow]]
    notes: Strings

    @classmethod
    def describe(
        cls, explanation: Explanation, first_token_s: float | None, output_token_s: float | None
    ) -> Self:
        """The account of an explained instance, with limits on its two times."""
        limits = {
            "time_to_first_token_s": first_token_s, "time_per_output_token_s": output_token_s
        }  # fmt: skip
        entries = [
            LatencyLimitEntry(
                limit=name.removesuffix("_s").replace("_", " "),
                allowed_s=allowed,
                found_s=explanation.metrics[name],
                state="kept" if explanation.metrics[name] <= allowed else "broken",
            )
            for name, allowed in limits.items()
            if allowed is not None and name in explanation.metrics
        ]
        ranges = {
            name: Ends(low=low, high=high) for name, (low, high) in explanation.ranges.items()
        }
        return cls.read(explanation, ranges=ranges, limits=entries)


class Choices(Entry):
    """Every way to spread a batch over so many devices.

    Attributes:
        ranked_by: Metric by which the ways are ranked.
        tried: Ways that were tried.
        ways: Ways that keep every limit, the best first.
    """

    devices: int
    ranked_by: str
    tried: int
    ways: Sequence[Numbers]


class ScalingRow(TypedDict):
    """A value of the varied number; further keys are metrics.

    Attributes:
        value: Value of the varied number, SI units.
        fits: True if it keeps every limit.
    """

    factor: float
    value: float
    prefill_gain: float
    decode_gain: float
    fits: bool


class ScalingStudy(Entry):
    """One number of an instance varied.

    Attributes:
        axis: Number that is varied.
        paper: Section of GenZ with the study.
        rows: One row per factor.
    """

    axis: str
    paper: str
    rows: SkipValidation[Sequence[ScalingRow]]


class SessionEntry(Entry):
    """Devices that serve sessions, with caches of prompts or without.

    Attributes:
        has_caches: True if prompts wait in caches between turns.
        problem: Reason for which no number of machines keeps the limits; null if some number does.
        rate: Largest rate of one machine within the limits.
        machines: Machines at each stated rate.
        usd_per_hour: Mean rent of all devices, hosts included; null where none is listed.
        usd_per_million_tokens: Rent over the tokens of prompts and answers.
    """

    device: str
    tensor_parallel: int
    has_caches: bool
    problem: str | None
    rate: SessionRate | None
    machines: IntegerSequence
    mean_machines: Number
    peak_machines: int | None
    peak_devices: int | None
    usd_per_hour: Finite
    usd_per_million_tokens: Finite

    @classmethod
    def describe(
        cls,
        machine: Fields,
        rate: SessionRate | str,
        sessions_per_s: FloatSequence,
        tokens: float,
        usd: float,
    ) -> Self:
        """The entry of machines.

        Args:
            machine: Fields that name the machine.
            rate: Rate of one machine, or the reason for which it has none.
            sessions_per_s: Stated rates.
            tokens: Tokens of a session.
            usd: Rent of a device per hour; NaN where none is listed.
        """
        if isinstance(rate, str):
            names = ("rate", "mean_machines", "peak_machines", "peak_devices", "usd_per_hour",
                     "usd_per_million_tokens")  # fmt: skip
            return cls(**machine, **dict.fromkeys(names), machines=[], problem=rate)
        machines = [math.ceil(each / rate.sessions_per_s - 1e-9) for each in sessions_per_s]
        mean = sum(machines) / len(machines)
        rent = mean * machine["tensor_parallel"] * usd
        served = 3600.0 * tokens * sum(sessions_per_s) / len(sessions_per_s)
        return cls(
            **machine,
            problem=None,
            rate=rate,
            machines=machines,
            mean_machines=mean,
            peak_machines=max(machines),
            peak_devices=max(machines) * machine["tensor_parallel"],
            usd_per_hour=rent,
            usd_per_million_tokens=rent / served * 1e6,
        )


class SizeAnswer(Answer, version=2):
    """Devices that serve a model: the best deployments, or another question about them.

    Attributes:
        convention: Counting rules of work and time.
        workload: Request by the keys of the evaluator.
        options: Options that were set.
        design: Stated device, formats and split.
        demand: Requests to serve; with --users, --requests-per-s or --burst.
        deployments: The best deployment of each policy and choice of devices, the best first.
        requirements: Rates and memory that the demand asks of all devices together.
        instance: One instance in full; with --batch or a split.
        choices: Every way to use so many devices; with --devices.
        scaling: A varied number; with --vary.
        frontier: Price against speed; without a demand.
        sessions_per_s: Rates at which sessions begin; with --session.
        sessions: The fewest devices with caches and without; with --session.
        launch: Command lines of engines for the best deployment, untested; with --launch.
        notes: Limits of the numbers, one sentence each.
        files: Paths of the files that were written.
    """

    model: str
    convention: str
    workload: Fields
    options: Fields
    design: Design
    demand: DemandEntry | None = None
    deployments: Sequence[DeploymentEntry] | None = None
    requirements: Requirements | None = None
    instance: InstanceAccount | None = None
    choices: Choices | None = None
    scaling: ScalingStudy | None = None
    frontier: PriceFrontier | None = None
    sessions_per_s: FloatSequence | None = None
    sessions: Sequence[SessionEntry] | None = None
    launch: Mapping[str, Strings] | None = None
    notes: Strings = ()
    files: Strings = ()
