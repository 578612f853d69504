"""Service of a platform: times, throughput and memory, each computed when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.evaluators.platform.device_memory import DeviceFootprint, Residence, reside
from codesign.evaluators.platform.device_work import DeviceWork, Stream
from codesign.evaluators.platform.pass_messages import list_messages
from codesign.evaluators.platform.pass_work import list_work
from codesign.evaluators.platform.passes import Prompt, RequestPasses
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.evaluators.platform.serving_rules import rules_of
from codesign.evaluators.platform.timed_pass import TimedPass, time_pass
from codesign.models.accounts.rents import rent_usd_per_hour
from codesign.models.machines.device.clock import BURST_S

PRICES = ("usd_per_hour", "usd_per_million_output_tokens")
"""Metrics in proportion to the rent of a device."""


class PlatformServing:
    """Results of ``n`` platforms; properties are (n,) and have the names of metrics.

    Args:
        request: The requests of the batch.
        passes: Operators of the request's passes.

    Attributes:
        draft: Service of the draft model, on the same devices; None: there is none.
    """

    def __init__(
        self,
        request: PlatformRequest,
        options: PlatformOptions,
        passes: RequestPasses,
        platform: Platform,
    ) -> None:
        self.request = request
        self.options = options
        self.platform = platform
        self.model = request.language_model
        self.passes = passes
        self.rules = rules_of(options)
        self.sharding = self.rules.sharding(self.model, platform)
        self.sharding.layers = request.layers
        self.micro_batch = self.rules.micro_batch(platform)
        self.draft: PlatformServing | None = None
        if passes.draft is not None:
            self.draft = PlatformServing(passes.draft.request, options, passes.draft, platform)

    def work(self, streams: list[Stream]) -> list[DeviceWork]:
        """The work of one device in a pass."""
        return list_work(self.sharding, streams, self.rules)

    def time(self, streams: list[Stream], footprint: DeviceFootprint) -> TimedPass:
        """The time of a pass while a device keeps so many bytes."""
        messages = list_messages(self.sharding, streams, self.rules)
        timing = self.rules.timing(self.model, self.platform, self.residence(footprint))
        return time_pass(timing, streams, self.work(streams), messages)

    def _streams(self, prompt: Prompt) -> list[Stream]:
        if self.request.mixed:
            return self.passes.mixed(prompt, self.micro_batch, self.platform.attention_groups)
        return self.passes.prefill(prompt, self.micro_batch)

    @cached_property
    def prefill_footprint(self) -> DeviceFootprint:
        """The bytes that a device keeps while it prefills."""
        return self._footprint(self._streams(self.passes.prompts[0]))

    @cached_property
    def decode_footprint(self) -> DeviceFootprint:
        """The bytes that a device keeps when the last token is generated."""
        return self._footprint(self.passes.decode(self.micro_batch))

    def _footprint(self, streams: list[Stream]) -> DeviceFootprint:
        model_footprint = self.rules.footprint(
            self.sharding, self.passes.cached, lambda: self.work(streams)
        )
        if self.draft is None:
            return model_footprint
        draft_footprint = self.draft.decode_footprint
        return replace(
            model_footprint,
            weight_bytes=model_footprint.weight_bytes + draft_footprint.weight_bytes,
            kv_bytes=model_footprint.kv_bytes + draft_footprint.kv_bytes,
        )

    @cached_property
    def prefill_passes(self) -> list[tuple[int, TimedPass]]:
        """The passes of the first prefill after idling, with how often each runs."""
        passes = [
            (prompt.count, self.time(self._streams(prompt), self.prefill_footprint))
            for prompt in self.passes.prompts
        ]
        total_s = sum((n * timed.total_s for n, timed in passes), np.zeros_like(self.platform.tp))
        share = np.minimum(BURST_S / np.maximum(total_s, BURST_S), 1.0)
        return [(n, timed.mix_burst(share)) for n, timed in passes]

    @cached_property
    def decode_pass(self) -> TimedPass:
        """A decode step among many, together with a chunk of a prompt in mixed passes.

        With a draft model, the verification.
        """
        if self.request.mixed:
            return self.prefill_passes[0][1].sustained
        return self.time(self.passes.decode(self.micro_batch), self.decode_footprint).sustained

    def residence(self, footprint: DeviceFootprint) -> Residence:
        """Places of data, and the bandwidth of their reads."""
        return reside(footprint, self.platform, self.options, self.rules.slow_efficiency)

    @cached_property
    def _waits(self) -> FloatArray:
        """Micro-batches of a replica, which follow one another through the slowest stage."""
        return np.ceil(self.platform.batch / self.micro_batch)

    def _paced(self, total_s: FloatArray, stage_s: FloatArray) -> FloatArray:
        """Time from one pass of a micro-batch to its next, if all stages are kept busy."""
        return self.rules.paced_s(total_s, stage_s, self._waits)

    def _prefill_s(self, *parts: str) -> FloatArray:
        zero = np.zeros_like(self.platform.tp)
        return sum((n * timed_pass.part_s(*parts) for n, timed_pass in self.prefill_passes), zero)

    @cached_property
    def time_to_first_token_s(self) -> FloatArray:
        """Prefill of a micro-batch through the whole pipeline, the first after idling."""
        return self._prefill_sum(lambda timed_pass: timed_pass.total_s)

    def _prefill_sum(self, seconds: Callable[[TimedPass], FloatArray]) -> FloatArray:
        """Sum over the passes of a prefill, those of the draft model too."""
        passes = self.prefill_passes + (self.draft.prefill_passes if self.draft else [])
        zero = np.zeros_like(self.platform.tp)
        return sum((n * seconds(timed_pass) for n, timed_pass in passes), zero)

    @cached_property
    def time_per_output_token_s(self) -> FloatArray:
        """A decode step, and the wait for the slowest stage if the pipeline is uneven.

        With a draft model, its decode steps and the verification, over the tokens they yield.
        """
        drafted = self.draft.time_per_output_token_s if self.draft else 0.0
        return self._amortized(self.verification_s, drafted)

    @property
    def verification_s(self) -> FloatArray:
        """A verification or decode step, with the wait for the slowest stage."""
        return self._paced(self.decode_pass.total_s, self.decode_pass.stage_s)

    def _amortized(self, verification: FloatArray, drafted: Floats) -> FloatArray:
        """Sum of a verification and of the drafting before it, per token that they yield."""
        request = self.request
        total_s = verification + request.n_drafted * drafted
        return total_s * request.steps_per_token / request.tokens_per_verification

    @cached_property
    def sustained_time_to_first_token_s(self) -> FloatArray:
        """The first token of requests that follow one another, at the clock of the power limit."""
        return self._prefill_sum(lambda timed_pass: timed_pass.sustained.total_s)

    @property
    def request_latency_s(self) -> FloatArray:
        """First token, then a step for every generated token (GenZ §III-D)."""
        return self.time_to_first_token_s + self.time_per_output_token_s * self.request.generated

    @property
    def throughput_tokens_per_s(self) -> FloatArray:
        """Generated tokens per second; beams of a request count as one (GenZ §III-D)."""
        return self.platform.batch * self.platform.dp / self.time_per_output_token_s

    @property
    def tokens_per_s_per_user(self) -> FloatArray:
        """Generated tokens per second of one request."""
        return 1.0 / self.time_per_output_token_s

    @property
    def _prefilled_together(self) -> FloatArray:
        """Requests of a replica whose prompts pass together: in mixed passes one of each group."""
        return self.platform.attention_groups if self.request.mixed else self.platform.batch

    @property
    def prefill_requests_per_s(self) -> FloatArray:
        """Prompts per second while nothing is generated."""
        stages = self._prefill_sum(lambda timed_pass: timed_pass.sustained.stage_s)
        return (
            self._prefilled_together
            * self.platform.dp
            / self._paced(self.sustained_time_to_first_token_s, stages)
        )

    @property
    def output_tokens_per_s(self) -> FloatArray:
        """Generated tokens per second in a steady state, in which prompts are prefilled too.

        Between two decode steps of its batch a platform prefills the prompts of the requests that
        begin meanwhile; mixed passes carry the prompts along, as many as they can.
        """
        begun = self.prefill_requests_per_s * self.request.generated
        generated = self.throughput_tokens_per_s
        if self.request.mixed:
            return np.minimum(generated, begun)
        total = generated + begun  # nothing where either takes for ever
        return generated * begun / np.where(total > 0, total, 1.0)

    @cached_property
    def usd_per_hour(self) -> FloatArray:
        """Rent of all devices; NaN where none is listed of them."""
        stated = self.options.device_usd_per_hour
        rents = self.platform.devices.lookup(lambda name: rent_usd_per_hour(str(name), stated))
        return self.n_devices * rents

    @property
    def usd_per_million_output_tokens(self) -> FloatArray:
        """Rent over the tokens that are generated in a steady state; NaN where there are none."""
        rate = self.output_tokens_per_s
        return self.usd_per_hour / 3600.0 / np.where(rate > 0, rate, np.nan) * 1e6

    def _energy_joules(self, timed_pass: TimedPass, time_s: FloatArray) -> FloatArray:
        """Energy of all devices from one pass of every micro-batch to the next."""
        platform = self.platform
        joules = timed_pass.energy_joules(platform.stage_devices, platform.pp, time_s / self._waits)
        return joules * self._waits * platform.dp

    @cached_property
    def energy_joules_per_token(self) -> FloatArray:
        """Energy of a decode step of all devices over the tokens that it generates."""
        step = self._energy_joules(self.decode_pass, self.verification_s)
        drafted = self.draft.energy_joules_per_token if self.draft else 0.0
        return self._amortized(step / (self.platform.batch * self.platform.dp), drafted)

    @property
    def tokens_per_joule(self) -> FloatArray:
        """Generated tokens per joule."""
        return 1.0 / self.energy_joules_per_token

    @property
    def average_power_watts(self) -> FloatArray:
        """Energy of a decode step of all devices over its time, at most their power limits."""
        watts = self.energy_joules_per_token * self.throughput_tokens_per_s
        return np.fmin(watts, self.board_power_watts)

    @property
    def prefill_energy_joules_per_token(self) -> FloatArray:
        """Energy of the prefill of all devices over the tokens of the prompts."""
        energy = np.zeros_like(self.platform.tp)
        for n, timed_pass in self.prefill_passes:
            steady = timed_pass.sustained
            time = self._paced(steady.total_s, steady.stage_s)
            energy = energy + n * self._energy_joules(steady, time)
        requests = self._prefilled_together * self.platform.dp
        drafted = self.draft.prefill_energy_joules_per_token if self.draft else 0.0
        return energy / (requests * self.request.prompt) + drafted

    @property
    def tokens_per_s_per_device(self) -> FloatArray:
        """Throughput divided by the number of devices."""
        return self.throughput_tokens_per_s / self.n_devices

    @property
    def n_devices(self) -> FloatArray:
        """Number of all devices."""
        return self.platform.n_devices

    @property
    def board_power_watts(self) -> FloatArray:
        """Board power limits of all devices; NaN where none is stated."""
        return self.n_devices * self.platform.power_watts

    @property
    def memory_used_per_device_bytes(self) -> FloatArray:
        """Bytes that the fullest device keeps in fast and slow memory."""
        footprints = (self.prefill_footprint, self.decode_footprint)
        return np.maximum(*(footprint.need_bytes / footprint.stages for footprint in footprints))

    @property
    def offloaded_share(self) -> FloatArray:
        """Share of weights and KV cache in the slow memory."""
        return self.residence(self.decode_footprint).offloaded_share

    @property
    def prefill_linear_s(self) -> FloatArray:
        """Time of the products with weights in the prefill."""
        return self._prefill_s("linear")

    @property
    def prefill_attention_s(self) -> FloatArray:
        """Time of the products with keys and values in the prefill."""
        return self._prefill_s("attention")

    @property
    def prefill_collective_s(self) -> FloatArray:
        """Time of the messages in the prefill."""
        return self._prefill_s("collective", "send")

    @property
    def decode_linear_s(self) -> FloatArray:
        """Time of the products with weights in a decode step."""
        return self.decode_pass.part_s("linear")

    @property
    def decode_attention_s(self) -> FloatArray:
        """Time of the products with keys and values in a decode step."""
        return self.decode_pass.part_s("attention")

    @property
    def decode_collective_s(self) -> FloatArray:
        """Time of the messages in a decode step."""
        return self.decode_pass.part_s("collective", "send")
