"""Deployments of a model on devices: every split and batch, and the best for a demand.

Policies:

* ``co-located``: between two decode steps of its batch, an instance prefills the prompts of
  requests that begin meanwhile. A pass has several prompts if the time to first token allows;
* ``chunked``: beside the decode step, a pass of an instance carries a chunk of a prompt for every
  group of devices, in as many steps as the prompts need;
* ``disaggregated``: instances that only prefill hand the cache over to instances that only decode,
  which may be other devices. A prompt waits for the running pass and for its own;
* ``attention-ffn``: the same, with attention and feed-forward layers of the decode on devices of
  their own (:mod:`.attention_ffn`);
* ``together``: requests arrive at once, and all prompts are prefilled before the first step.

Where groups of devices share experts, an instance may overlap two micro-batches, each of which
hides the messages of the other. It may also hold copies of experts, so that more devices divide
them. DeepSeek-V3 is deployed with both (technical report, section 3.4). Decode steps are tried with
and without a draft model, except with chunks and overlapping micro-batches.

Limiting assumptions: instances of a pool are alike and evenly loaded; requests are alike and spread
over time, without a queue (:mod:`.fleet_sizing` draws arrivals and counts who waits).

The search tries every split that divides heads and experts, and every number of stages; the largest
stage sets the pace. All groups of devices and stages have the same number of requests. The search
tries the batches of a grid, then all batches between the largest one within the limits and the next
larger one. So it is exact if times do not fall with the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from codesign.base.columns import (
    BoolArray,
    Fields,
    FloatArray,
    FloatMap,
    FloatPair,
    IntArray,
    IntegerMap,
    JsonObject,
    StringMap,
)
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.base.units import format_engineering
from codesign.evaluators.platform.attention_ffn import (
    MICRO_BATCHES,
    MOST_DEVICE_TYPES,
    ExchangeTimes,
    devices_of,
    exchange_ways,
)
from codesign.evaluators.platform.design_times import (
    MOST_LINKED,
    DesignEvaluator,
    FoundDesign,
)
from codesign.evaluators.platform.instances import (
    Demand,
    Instances,
    InstanceTimes,
    Policy,
    Role,
    Variant,
    batches_between,
    columns_of,
    fitting,
    splits,
)
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_request import UNDRAFTED
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.evaluators.platform.serving_rules import rules_of
from codesign.models.accounts.rents import rent_usd_per_hour
from codesign.models.deployments.parallelism import REPLICA_DEGREES, SEARCHED_DEGREES
from codesign.models.hardware.device import Device

POLICIES: tuple[Policy, ...] = ("co-located", "chunked", "disaggregated", "attention-ffn")
"""Policies that serve requests which begin one by one."""
UNIFIED_POLICIES: tuple[Policy, ...] = ("together", "co-located", "chunked")
"""Policies of instances that both prefill and decode."""
CHUNKS = (512, 2048, 8192)
"""Chunk sizes to try, in tokens [ours]; vLLM's steps have 2,048 and 8,192 tokens by default."""
COPIES = (0, 32, 64)
"""Copies of experts that are tried: DeepSeek-V3 has 32 where it prefills, 64 where it decodes."""
MOST_STAGES = 16
"""Stages of a pipeline at most [ours]: engines start deeper ones in no published deployment."""
_COPIED_GROUPS = 32
"""Least number of groups of devices with which copies of experts are tried [ours]."""
MOST_DEVICES = 320
"""Devices of the largest instance that is tried by default: DeepSeek-V3 decodes on 320."""
MOST_REQUESTS = 10_000
"""Requests of the largest batch that is tried where nothing else limits it [ours]."""
_COUNTS = 28
"""Batches of the first grid [ours]."""
_MOST_PAIRS = 2_000_000
"""Most pairs of pools to compare; of more pairs, those of the cheapest instances count."""


@frozen
class Pool:
    """Instances that are alike.

    Attributes:
        devices: Devices of all instances.
        batch_size: Requests of an instance at once.
        overlapped_batches: Micro-batches that hide each other's messages; 1 if none do.
        chunk_tokens: Tokens of a chunk of a prompt; null for whole prompts.
        expert_copies: Copies of experts beside the model's own.
        draft: Draft model that runs before each decode step; null for none.
        draft_tokens: Tokens that it drafts; 0 without one.
        limited_by: Limit that forbids a larger batch.
        usd_per_hour: Price of an hour of a device by the accounts of a found design; null for a
            device that is rented.
    """

    role: Role
    device: str
    instances: int
    devices: int
    tensor_parallel: int
    pipeline_parallel: int
    expert_parallel: int
    batch_size: int
    overlapped_batches: int
    chunk_tokens: int | None
    expert_copies: int
    draft: str | None
    draft_tokens: int
    limited_by: str
    usd_per_hour: float | None = None

    def times(self, n_instances: int) -> Pool:
        """So many of the same instances."""
        devices = n_instances * self.devices // self.instances
        return replace(self, instances=n_instances, devices=devices)


@frozen
class Deployment:
    """Pools that serve a demand.

    Attributes:
        requests_per_s: Requests that are answered in a second.
        joules_per_request: Energy of the devices; NaN where no power is stated.
    """

    policy: Policy
    pools: tuple[Pool, ...]
    requests_per_s: float
    time_to_first_token_s: float
    time_per_output_token_s: float
    joules_per_request: float

    @property
    def n_devices(self) -> int:
        """Devices of all pools."""
        return sum(pool.devices for pool in self.pools)

    def usd_per_hour(self, stated: float | None) -> float:
        """Rent of all devices, or the accounts' price of found designs; NaN where none is known."""
        return sum(
            pool.devices * rent_usd_per_hour(pool.device, stated or pool.usd_per_hour)
            for pool in self.pools
        )


class DeploymentSearch:
    """Instances of a model on some devices, evaluated once, and their best use.

    Args:
        evaluator: The evaluator of the request; its options are those of all instances.
        formats: Number formats by parameter.
        demand: Requests to serve.
        policies: Policies to try.
        most_devices: Devices of the largest instance.
        fixed: Degrees that are stated, by parameter; others are searched.
        designs: Found designs that serve beside the evaluator's devices, by their keys.
        has_stages: Whether an instance may be a pipeline.
        overlaps: Whether micro-batches may overlap.
    """

    def __init__(
        self,
        evaluator: PlatformEvaluator,
        formats: StringMap,
        demand: Demand,
        policies: Sequence[Policy] = POLICIES,
        most_devices: int = MOST_DEVICES,
        fixed: IntegerMap | None = None,
        *,
        designs: Mapping[str, FoundDesign] | None = None,
        has_stages: bool = True,
        overlaps: bool = True,
    ) -> None:
        self.evaluator = evaluator
        self.formats = dict(formats)
        self.demand = demand
        self._request = evaluator.workload
        self._fixed = dict(fixed or {})
        self._designs = dict(designs or {})
        self._most_devices = most_devices
        self._most_stages = MOST_STAGES if has_stages else 1
        degrees = self._splits(evaluator)
        for name, degree in self._fixed.items():
            column = degrees[:, SEARCHED_DEGREES.index(name)]
            if degree not in column:
                choices = ", ".join(map(str, np.unique(column)))
                raise InputError(f"expected one of {choices}, got {degree}", name)
            degrees = degrees[column == degree]
        rules = rules_of(evaluator.options)
        options = evaluator.options
        is_mixture = self._request.language_model.is_mixture
        self._waves = (1, 2) if overlaps and is_mixture and options.has_data_attention else (1,)
        excluded = set() if rules.has_mixed_passes else {"chunked"}
        # Attention and experts apart have degrees of their own; serve-model simulates them.
        if not has_stages or self._fixed or len(evaluator.devices) > MOST_DEVICE_TYPES:
            excluded.add("attention-ffn")
        self._policies = [policy for policy in policies if policy not in excluded]
        if not self._policies:
            raise InputError(
                f"{', '.join(policies)}: expected --users without degrees, at most "
                f"{MOST_DEVICE_TYPES} types of devices, and a convention with chunks"
            )
        if self._request.generated < 1 and demand.burst is None:
            raise InputError("expected at least 1 where requests are served", "generated_tokens")
        self.variants = list(self._list_variants())
        self._served: dict[Any, PlatformServing] = {}
        tables = [self._table(position) for position in range(len(self.variants))]
        self.instances = Instances.joined(tables)

    def feasible_instances(self) -> Instances:
        """The instances that fit and keep the limits.

        Raises:
            InputError: There are none; the message names the nearest one.
        """
        if not self.instances.keeps.any():
            raise InputError(f"no instance keeps the limits; {self._why_none()}")
        return self.instances.rows(self.instances.keeps)

    def best(self, usd: float | None = None, *, is_priced: bool = False) -> list[Deployment]:
        """The best deployment of each policy and choice of devices, the best first.

        Args:
            usd: Rent of any device in USD per hour, in place of the listed rents.
            is_priced: Whether to rank by rent rather than by the number of devices.

        Raises:
            InputError: No deployment keeps the limits; the message names the nearest one.
        """
        devices = self._keys
        weights = {key: rent_usd_per_hour(key, usd) if is_priced else 1.0 for key in devices}
        pairs = [
            self._pair(weights, first, second, policy)
            for policy in ("disaggregated", "attention-ffn")
            if policy in self._policies
            for first in devices
            for second in devices
        ]
        deployments = [*self._joint(weights), *(pair for pair in pairs if pair is not None)]
        if not deployments:
            raise InputError(f"no deployment keeps the limits; {self._why_none()}")

        def rank(deployment: Deployment) -> FloatPair:
            cost = deployment.usd_per_hour(usd) if is_priced else float(deployment.n_devices)
            cost = 1e9 * deployment.n_devices if np.isnan(cost) else cost
            return cost, deployment.time_per_output_token_s

        return sorted(deployments, key=rank)

    # Instances.

    @property
    def _keys(self) -> list[str]:
        """Names of devices and found designs."""
        return [*self.evaluator.devices, *self._designs]

    def _list_variants(self) -> Iterator[Variant]:
        for key in self._keys:
            design = self._designs.get(key)
            device = design or self.evaluator.devices[key]
            plain = self._evaluator(key, UNDRAFTED)
            drafting = [self._evaluator(key, {})] if self._request.draft and not design else []
            policies = [name for name in ("together", "co-located") if name in self._policies]
            for evaluator in (plain, *drafting):
                yield from (Variant("serve", name, device, evaluator) for name in policies)
            if "chunked" in self._policies and not design:
                for chunk in sorted({min(chunk, self._request.prompt) for chunk in CHUNKS}):
                    chunks = {"mixed": True, "chunk_tokens": chunk}
                    mixed = self._evaluator(key, chunks | UNDRAFTED)
                    yield Variant("serve", "chunked", device, plain, mixed=mixed)
            if "attention-ffn" in self._policies and not design:
                attention = self._evaluator(key, {"layers": "attention", **UNDRAFTED})
                for ffn, waves in itertools.product(self.evaluator.devices.values(), MICRO_BATCHES):
                    yield Variant("decode", "attention-ffn", device, attention, waves, ffn=ffn)
            if "disaggregated" in self._policies:
                yield from (Variant("decode", "disaggregated", device, x) for x in drafting)
                yield from self._list_pools(device, plain, ("prefill", "decode"))
            elif "attention-ffn" in self._policies:
                yield from self._list_pools(device, plain, ("prefill",))

    def _list_pools(
        self, device: Device | FoundDesign, plain: PlatformEvaluator, roles: Sequence[Role]
    ) -> Iterator[Variant]:
        """Instances that only prefill or only decode, with and without overlap."""
        is_mixture = self._request.language_model.is_mixture
        for waves in self._waves if isinstance(device, Device) else (1,):
            for copies in COPIES if waves > 1 and is_mixture else (0,):
                update = {"expert_copies": copies, **UNDRAFTED}
                pool = plain if waves == 1 else self._evaluator(device.key, update, overlap=True)
                for role in roles:
                    yield Variant(role, "disaggregated", device, pool, waves, copies=copies)

    def _evaluator(
        self, device: str, update: Fields, *, overlap: bool = False
    ) -> PlatformEvaluator:
        """The evaluator of one device, with other keys of the request."""
        request = self._request.updated({**update, "beyond_context": True})
        options = self.evaluator.options
        options = options.model_copy(update={"overlap": overlap or options.overlap})
        if device in self._designs:
            # Groups of designs that share experts serve requests of their own.
            options = options.model_copy(update={"attention": "data"})
            evaluator = DesignEvaluator(request, options, devices={})
            evaluator.design = self._designs[device]
            return evaluator
        devices = {device: self.evaluator.devices[device]}
        return PlatformEvaluator(request, options, devices=devices)

    def _splits(self, evaluator: PlatformEvaluator) -> IntArray:
        model = evaluator.workload.language_model
        if isinstance(evaluator, DesignEvaluator):
            return splits(model, [1], min(self._most_devices, MOST_LINKED))
        devices = evaluator.devices.values()
        most_stages = min(self._most_stages, model.num_hidden_layers)
        if most_stages > 1 and any(device.device_class == "scheduled" for device in devices):
            most_stages = model.num_hidden_layers
        return splits(model, range(1, most_stages + 1), self._most_devices)

    def _table(self, position: int) -> Instances:
        """The instances of a variant: a grid of batches, then those where limits are met."""
        variant = self.variants[position]
        others: JsonObject = {**self.formats, "device": variant.device.key}
        if isinstance(variant.device, FoundDesign):
            others |= variant.device.values
        evaluate: InstanceTimes | ExchangeTimes
        if variant.ffn is not None:
            ffn = self._evaluator(variant.ffn.key, {"layers": "ffn", **UNDRAFTED})
            ways = exchange_ways(ffn, self._most_devices)
            units = (ways[:, 3] * variant.waves).astype(np.float64)
            evaluate = ExchangeTimes(variant, ffn, position, others, ways, self.demand)
            has_room = evaluate(np.arange(len(ways)), np.ones(len(ways), np.int64)).keeps
        else:
            evaluate, units, has_room = self._splits_of(variant, position, others)
        at_once = self.demand.users or self.demand.burst or MOST_REQUESTS
        most = np.maximum(np.ceil(at_once / units), 1)
        if variant.role == "prefill":
            most = np.minimum(most, np.maximum(65536 // self._request.prompt, 1))
        owners = np.flatnonzero(has_room)
        grid = {n: np.unique(np.geomspace(1, n, _COUNTS).round().astype(int)) for n in {*most}}
        grids = [grid[most[i]] for i in owners]
        owner = np.repeat(owners, [len(grid) for grid in grids])
        table = evaluate(owner, np.concatenate([np.zeros(0, np.int64), *grids]))
        users = self.demand.users or self.demand.burst
        is_unified = variant.role == "serve" and isinstance(variant.device, Device)
        while variant.role != "prefill":
            between = batches_between(table, (is_unified and users) or np.inf)
            if between is None:
                break
            table = Instances.joined([table, evaluate(*between)])
        return table

    def _splits_of(
        self, variant: Variant, position: int, others: Fields
    ) -> tuple[InstanceTimes, FloatArray, BoolArray]:
        """Times of the splits of a variant; of each split its smallest batch, and if it fits."""
        # Copies let more devices share the experts.
        degrees = self._splits(variant.evaluator)
        for name, degree in self._fixed.items():
            degrees = degrees[degrees[:, SEARCHED_DEGREES.index(name)] == degree]
        if variant.copies:
            n_experts = self._request.language_model.moe_dims.n_routed_experts
            groups = degrees[:, 2]
            degrees = degrees[(n_experts % groups != 0) & (groups >= _COPIED_GROUPS)]
        groups = np.where(variant.evaluator.options.has_data_attention, degrees[:, 2], 1)
        units = (degrees[:, 1] * groups * variant.waves).astype(np.float64)
        alone = variant.evaluator.serving(columns_of(degrees, others, units / variant.waves))
        has_room = fitting(alone) if len(degrees) else np.zeros(0, np.bool_)
        times = InstanceTimes(variant, position, others, degrees, units, self.demand, self._served)
        return times, units, has_room

    # The best use of instances.

    def _rows(self, device: str, **attributes: str | None) -> Instances:
        """Feasible instances of a device with a policy or a role."""
        positions = [
            i
            for i, variant in enumerate(self.variants)
            if variant.device.key == device
            and all(getattr(variant, name) == value for name, value in attributes.items())
        ]
        return self.instances.rows(
            self.instances.keeps & np.isin(self.instances.variant, positions)
        )

    def _joint(self, weights: FloatMap) -> Iterator[Deployment]:
        """The best instances that both prefill and decode, of each policy and device."""
        demand = self.demand
        generated = self._request.generated
        for policy, device, draft in itertools.product(
            UNIFIED_POLICIES,
            self._keys,
            dict.fromkeys((None, self._request.draft)),
        ):
            rows = self._rows(device, policy=policy, draft=draft)
            if len(rows):
                latency = rows.first_s + generated * rows.pace_s
                if demand.requests_per_s is not None:
                    at_once = np.maximum(demand.requests_per_s * latency, 1.0)
                    rate = np.full(len(rows), demand.requests_per_s)
                else:
                    users = demand.users or demand.burst or 1
                    at_once = np.full(len(rows), float(users))
                    rate = users / latency
                n = np.ceil(at_once / rows.batch - 1e-9)
                order = np.lexsort((latency, n * self._costs(rows, weights)))
                # Groups that prefill apart keep each other waiting, which only a simulation sees:
                # it gets the best of the fewest groups, too.
                fewest = int(np.argmin(rows.degrees[order, 2]))
                places = [0] if demand.requests_per_s is None else np.unique([0, fewest])
                for best in order[places].tolist():
                    pools = self._pools(rows, best, int(n[best]))
                    times = float(rows.first_s[best]), float(rows.pace_s[best])
                    joules = float(rows.joules[best])
                    yield Deployment(policy, pools, float(rate[best]), *times, joules)

    def _costs(self, rows: Instances, weights: FloatMap) -> FloatArray:
        """(k,) rent, or number, of the devices of instances."""
        pairs = [(each.device, each.ffn or each.device) for each in self.variants]
        each_device = np.array([[weights[device.key] for device in pair] for pair in pairs])
        first, ffn = each_device[rows.variant].T
        # Without devices of their own for feed-forward layers, both rents are the same.
        n_ffn = devices_of(rows.degrees)[1]
        costs = (rows.n_devices - n_ffn) * first + n_ffn * ffn
        costs = np.where(np.isnan(costs), rows.n_devices * rows.usd_per_hour, costs)
        # Devices without a rent come last, the fewest first.
        return np.where(np.isnan(costs), 1e9 * rows.n_devices, costs)

    def _pair(
        self, weights: FloatMap, prefill: str, decode: str, policy: Policy
    ) -> Deployment | None:
        """The best pools of two devices; None if there are none."""
        demand = self.demand
        generated = self._request.generated
        first = self._rows(prefill, role="prefill")
        second = self._rows(decode, role="decode", policy=policy)
        if not len(first) or not len(second):
            return None
        cheapest = []
        for rows, capacity in ((first, first.prompts_per_s), (second, second.batch)):
            costs = self._costs(rows, weights)
            keep = np.argsort(costs / capacity, kind="stable")[: int(np.sqrt(_MOST_PAIRS))]
            cheapest.append((rows.rows(keep), costs[keep]))
        (first, cost_p), (second, cost_d) = cheapest
        first_s = first.first_s[:, None]
        pace_s = second.pace_s
        latency = first_s + generated * pace_s
        rate = (demand.users or 0) / latency
        if demand.requests_per_s is not None:
            rate = np.full_like(latency, demand.requests_per_s)
        n_p = np.ceil(rate / first.prompts_per_s[:, None] - 1e-9)
        n_d = np.maximum(np.ceil(rate * generated * pace_s / second.batch - 1e-9), 1.0)
        cost = n_p * cost_p[:, None] + n_d * cost_d
        i, j = np.unravel_index(int(np.argmin(cost + 1e-9 * pace_s)), cost.shape)
        return Deployment(
            policy,
            (
                *self._pools(first, int(i), int(n_p[i, j])),
                *self._pools(second, int(j), int(n_d[i, j])),
            ),
            float(rate[i, j]),
            float(first.first_s[i]),
            float(second.pace_s[j]),
            float(first.joules[i] + second.joules[j]),
        )

    def _pools(self, rows: Instances, i: int, n_instances: int) -> tuple[Pool, ...]:
        variant = self.variants[int(rows.variant[i])]
        mixed = variant.mixed
        pool = Pool(
            variant.role,
            variant.device.key,
            n_instances,
            n_instances * int(rows.n_devices[i]),
            **dict(zip(REPLICA_DEGREES, rows.degrees[i].tolist(), strict=False)),
            batch_size=int(rows.batch[i]),
            overlapped_batches=variant.waves,
            chunk_tokens=None if mixed is None else mixed.workload.chunk_tokens,
            expert_copies=variant.copies,
            draft=variant.draft,
            draft_tokens=variant.evaluator.workload.n_drafted,
            limited_by=self._limited_by(rows, i),
            usd_per_hour=None if np.isnan(rows.usd_per_hour[i]) else float(rows.usd_per_hour[i]),
        )
        if variant.ffn is None:
            return (pool,)
        tensor, ffn_tensor, groups, n_attention = rows.degrees[i].tolist()
        attention = replace(
            pool, role="attention", instances=n_instances * n_attention,
            devices=n_instances * n_attention * tensor, pipeline_parallel=1, expert_parallel=1,
            batch_size=pool.batch_size // n_attention,
        )  # fmt: skip
        ffn = replace(
            pool, role="ffn", device=variant.ffn.key, devices=n_instances * ffn_tensor * groups,
            tensor_parallel=ffn_tensor, pipeline_parallel=1,
        )  # fmt: skip
        return attention, ffn

    def _limited_by(self, rows: Instances, i: int) -> str:
        """The limit that the next larger batch of the same instance breaks."""
        table = self.instances
        limits = self.demand.limits
        larger = (table.variant == rows.variant[i]) & (table.owner == rows.owner[i])
        larger &= (table.count > rows.count[i]) & ~table.keeps
        if not larger.any():
            is_prefill = self.variants[int(rows.variant[i])].role == "prefill"
            return "arithmetic" if is_prefill else "demand"
        j = np.argmin(np.where(larger, table.count, np.inf))
        if not table.fits[j]:
            return "memory"
        is_first = table.first_s[j] > limits.time_to_first_token_s
        return "time to first token" if is_first else "time per output token"

    def _why_none(self) -> str:
        table = self.instances
        limits = self.demand.limits
        fits = table.rows(table.fits)
        if not len(fits):
            return (
                f"the model does not fit {self._most_devices} devices in any split that divides "
                "it (--option most_devices=N tries more), or no links join enough devices"
            )
        times = {
            "first token": (fits.first_s, limits.time_to_first_token_s),
            "output token": (fits.pace_s, limits.time_per_output_token_s),
        }
        missed = []
        for name, (values, limit) in times.items():
            least = float(values[values > 0].min())  # a pool has one of the two
            if least > limit:
                words = (format_engineering(time, "s", 3) for time in (limit, least))
                missed.append("{} within {}, at best {}".format(name, *words))
        return ", ".join(missed) or "not both limits at once"
