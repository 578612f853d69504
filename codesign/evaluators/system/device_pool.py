"""Devices that exist, of datasheets, as the machines of a pool.

They report, of one group of devices in the role of its pool, the metrics that systems follow from.
They are rented: what one costs is the rent of its devices, electricity included.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import (
    Arrays,
    Columns,
    Domains,
    Fields,
    FloatArray,
    StringMap,
    Strings,
    first_values,
)
from codesign.base.evaluator import Evaluation, Evaluator, Explanation, PoolPrices
from codesign.base.explanation_rows import OperatorRow, PowerRow
from codesign.base.metrics import ALL_METRICS, EXCHANGED, POOL_METRICS, chosen_metrics
from codesign.evaluators.npu.preparation import requests_that_fit
from codesign.evaluators.platform import PlatformEvaluator
from codesign.evaluators.platform.device_memory import excess
from codesign.evaluators.platform.fitted_messages import ROW_BITS
from codesign.evaluators.platform.platform_limits import limits
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.evaluators.system.hand_over import (
    OWN_METRICS,
    TIME_METRIC,
    HandOverBytes,
)
from codesign.evaluators.system.roles import PoolTask
from codesign.evaluators.system.system_options import MachineOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.accounts.ownership import LIFETIME_YEARS, written_off_per_hour
from codesign.models.accounts.rents import list_rents, why_no_rent
from codesign.models.accounts.shipped_devices import device_accounts

_OF_SILICON = ("area_mm2", "unit_cost_usd")
_PRICE = "usd_per_million_tokens"
_STANDING = "standing_usd_per_hour"
_WEAR = "wear_usd_per_token"
_OF_MAKING = ("standing_kgco2e_per_hour", "wear_kgco2e_per_token")
_CARBON = ("embodied_kgco2e", "kgco2e_per_million_tokens", *_OF_MAKING)
"""Metrics of which no device has an account."""


def _published(name: str, device: str) -> float:
    """Area in mm^2 or cost in USD of one device; NaN where nothing is published."""
    field, scale = ("area", 1e6) if name == "area_mm2" else ("unit_cost", 1.0)
    stated = getattr(device_accounts().get(device), field, None)
    return np.nan if stated is None else stated.typical * scale


def _part_values(serving: PlatformServing, tokens: FloatArray) -> Arrays:
    """(n,) metrics of machines with a part of every layer; they send ``tokens`` in a pass."""
    model = serving.model
    footprint = serving.decode_footprint
    room = footprint.room_bytes * footprint.stages - footprint.weight_bytes
    of_token = float(model.num_hidden_layers * model.hidden_size) * ROW_BITS / 8.0
    return {
        "held_requests": serving.platform.dp
        * requests_that_fit(room, footprint.kv_bytes / serving.platform.batch, 1),
        "exchange_bytes": of_token * tokens,
        "exchange_bytes_per_token": np.full_like(tokens, of_token),
    }


class DevicePool(Evaluator):
    """A group of devices of one datasheet that serve the model together in one phase.

    Args:
        task: What its devices do.
    """

    Workload = PlatformEvaluator.Workload
    Options = PlatformEvaluator.Options
    evaluator_name = "platform"

    def __init__(self, task: PoolTask, workload: SystemWorkload, options: MachineOptions) -> None:
        stage = task.stage
        request = PlatformRequest(
            prompt_tokens=stage.prompt_tokens,
            generated_tokens=stage.generated_tokens if stage.phase == "decode" else 0,
            **task.keys,
            beyond_context=True,  # the system's workload was checked
        )
        self.platform = PlatformEvaluator(request, options.device_options)
        self._stage = stage
        self._hand_over = HandOverBytes(stage, workload)
        names = ["throughput_tokens_per_s", TIME_METRIC[stage.phase], "batch_size", "tdp_watts"]
        names += ["energy_joules_per_token", "tokens_per_joule", "average_power_watts"]
        names += [*_OF_SILICON, _PRICE, *(name for name in _CARBON if name not in _OF_MAKING)]
        names += self.platform.accuracy.declared
        names += [name for name in OWN_METRICS if task.layers != "all" or name not in EXCHANGED]
        names += ["held_requests"] if task.layers == "attention" and stage.phase == "decode" else []
        names += ["idle_watts", "dynamic_joules_per_token", _STANDING, _WEAR, *_OF_MAKING]
        self.metrics = tuple(ALL_METRICS[name] for name in names)
        self.required_parameters = self.platform.required_parameters
        self.optional_parameters = self.platform.optional_parameters

    @property
    def evaluator(self) -> PlatformEvaluator:
        """The evaluator of the devices in both phases."""
        return self.platform

    @property
    def prices(self) -> PoolPrices:
        """Prices of all but devices, whose rent includes electricity; carbon has no account."""
        return PoolPrices(float(written_off_per_hour(1.0, LIFETIME_YEARS)), 0.0, np.nan)

    @property
    def profile(self) -> str:
        return self.platform.options.profile

    def convention_modules(self) -> Strings:
        """Modules of the profile's rules."""
        return self.platform.convention_modules()

    def known_violations(self, designs: Columns) -> Arrays:
        """Whether parallelism divides, links exist and the memory of this phase suffices."""
        return self._violations(self.platform.serving(designs))

    def _violations(self, serving: PlatformServing) -> Arrays:
        is_prefill = self._stage.phase == "prefill"
        kept_prefill_footprint = (
            serving.prefill_footprint if is_prefill else serving.decode_footprint
        )
        return {
            **limits(serving),
            "memory": excess(kept_prefill_footprint, serving.platform, serving.options),
        }

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        names = chosen_metrics(metrics, self.metric_names)
        serving = self.platform.serving(designs)
        values = self.platform.accuracy.metrics(designs, names)
        for name in names:
            if name not in values:
                values[name] = np.array(self._value(name, serving, designs), np.float64)
        return Evaluation(values, self._violations(serving))

    def _value(self, name: str, serving: PlatformServing, designs: Columns) -> FloatArray:
        is_prefill = self._stage.phase == "prefill"
        devices = serving.platform.devices
        batch = serving.platform.batch * serving.platform.dp
        if name in _CARBON:
            return np.full(len(devices), np.nan)
        if name in _OF_SILICON:
            published = devices.lookup(lambda device: _published(name, str(device)))
            return serving.n_devices * published
        direct = {
            "batch_size": batch,
            # Prompts of a batch end together, answers one by one.
            "handover_requests": batch if is_prefill else np.ones_like(batch),
            "handover_bytes": self._hand_over.request_bytes(designs, len(devices)),
            "tdp_watts": serving.board_power_watts,
            _WEAR: np.zeros(len(devices)),
            _STANDING: serving.usd_per_hour,
            **_part_values(serving, batch * (self._stage.prompt_tokens if is_prefill else 1)),
        }
        if name in direct:
            return direct[name]
        if name == "throughput_tokens_per_s" and is_prefill:
            return serving.prefill_requests_per_s * float(self._stage.prompt_tokens)
        if name == "energy_joules_per_token" and is_prefill:
            return serving.prefill_energy_joules_per_token
        if name == "idle_watts":
            timed = serving.prefill_passes[0][1] if is_prefill else serving.decode_pass
            return serving.n_devices * timed.idle_watts
        if name in (_PRICE, "dynamic_joules_per_token", "tokens_per_joule", "average_power_watts"):
            rate = self._value("throughput_tokens_per_s", serving, designs)
            if name == _PRICE:
                return serving.usd_per_hour / 3600.0 / rate * 1e6
            joules = self._value("energy_joules_per_token", serving, designs)
            if name == "dynamic_joules_per_token":
                return joules - self._value("idle_watts", serving, designs) / rate
            watts = np.fmin(joules * rate, serving.board_power_watts)
            return 1.0 / joules if name == "tokens_per_joule" else watts
        # Pools serve request after request.
        is_first = name == TIME_METRIC["prefill"]
        values: FloatArray = getattr(serving, f"sustained_{name}" if is_first else name)
        return values

    def absent_metrics(self, values: Domains) -> StringMap:
        """Area, cost and rent where nobody has published those of a device; carbon of any."""
        absent = dict(self.platform.absent_metrics(values))
        devices = [str(device) for device in values.get("device", ())]
        for name in _OF_SILICON:
            lacking = [device for device in devices if np.isnan(_published(name, device))]
            if lacking:
                absent[name] = f"nothing is published of {', '.join(lacking)}"
        why = (
            f"what making {', '.join(devices) or 'devices'} emits is unknown: memories and "
            "packages of devices have no account"
        )
        absent |= dict.fromkeys(_CARBON, why)
        if no_rent := why_no_rent(devices, self.platform.options.device_usd_per_hour):
            absent[_PRICE] = no_rent
        return absent

    def explain(self, designs: Columns) -> Explanation:
        """The full account of one group in its phase."""
        evaluation = self.evaluate(designs)
        metrics = {
            metric.name: float(evaluation.metrics[metric.name][0]) for metric in self.metrics
        }
        of_both_phases = self.platform.explain(designs)
        absent = self.absent_metrics({"device": designs["device"].decoded()})
        power: PowerRow = {
            "name": "devices",
            "tdp_watts": metrics["tdp_watts"],
            "average_watts": metrics["average_power_watts"],
        }
        rows = [row for row in of_both_phases.operators if row["phase"] == self._stage.phase]
        operators: list[OperatorRow] = [{**row} for row in rows]
        for row in operators:
            del row["phase"]
        return Explanation(
            metrics=metrics,
            violations=first_values(evaluation.violations),
            operators=operators,
            levels=of_both_phases.levels,
            power=[power] if of_both_phases.power else [],
            notes=[
                *of_both_phases.notes,
                *(f"no {name}: {why}" for name, why in absent.items() if name not in POOL_METRICS),
            ],
        )

    def provenance(self) -> Fields:
        """Provenance of the evaluator ``platform``, and rents."""
        rents = {name: rent.typical for name, rent in list_rents().items()}
        stated = self.platform.options.device_usd_per_hour
        return {**self.platform.provenance(), "rents": rents if stated is None else stated}
