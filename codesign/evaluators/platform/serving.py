"""What a platform serves: times, throughput and memory, each computed when it is asked for."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.communication import list_messages
from codesign.evaluators.platform.memory import (
    DeviceFootprint,
    Residence,
    footprint,
    genz_footprint,
    reside,
)
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.pass_time import TimedPass, time_pass
from codesign.evaluators.platform.passes import Prompt, RequestPasses
from codesign.evaluators.platform.platforms import Platform
from codesign.evaluators.platform.request import PlatformRequest
from codesign.evaluators.platform.sharding import Sharding
from codesign.evaluators.platform.work import DeviceWork, Stream, list_work


class PlatformServing:
    """Results of ``n`` platforms; properties are (n,) and bear the names of metrics.

    Args:
        request: The requests of the batch.
        options: Resolved options.
        passes: Operators of the request's passes.
        platform: Devices, links, parallelism.
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
        self.sharding = Sharding(self.model, platform, options.is_genz)
        self.micro_batch = platform.micro_batch(options.is_genz)

    def work(self, streams: list[Stream]) -> list[DeviceWork]:
        """The work of one device in a pass."""
        return list_work(self.model, self.platform, self.sharding, streams, self.options)

    def _time(self, streams: list[Stream], kept: DeviceFootprint) -> TimedPass:
        messages = list_messages(self.model, self.platform, self.sharding, streams, self.options)
        residence = reside(kept, self.platform, self.options)
        work = self.work(streams)
        return time_pass(self.model, self.platform, work, messages, residence, self.options)

    def _streams(self, prompt: Prompt) -> list[Stream]:
        if self.request.mixed:
            return self.passes.mixed(prompt, self.micro_batch)
        return self.passes.prefill(prompt, self.micro_batch)

    @cached_property
    def prefill_footprint(self) -> DeviceFootprint:
        """The bytes that a device keeps while it prefills."""
        if not self.options.is_genz:
            return self.decode_footprint
        work = self.work(self._streams(self.passes.prompts[0]))
        return genz_footprint(self.model, self.platform, self.sharding, work)

    @cached_property
    def decode_footprint(self) -> DeviceFootprint:
        """The bytes that a device keeps when the last token is generated."""
        if not self.options.is_genz:
            return footprint(self.model, self.platform, self.sharding, self.passes)
        work = self.work(self.passes.decode(self.micro_batch))
        return genz_footprint(self.model, self.platform, self.sharding, work)

    @cached_property
    def prefill_passes(self) -> list[tuple[int, TimedPass]]:
        """The passes of a prefill, with how often each runs."""
        return [
            (prompt.count, self._time(self._streams(prompt), self.prefill_footprint))
            for prompt in self.passes.prompts
        ]

    @cached_property
    def decode_pass(self) -> TimedPass:
        """A decode step, together with a chunk of a prompt in mixed passes."""
        if self.request.mixed:
            return self.prefill_passes[0][1]
        return self._time(self.passes.decode(self.micro_batch), self.decode_footprint)

    def residence(self, kept: DeviceFootprint) -> Residence:
        """Where data lie and how fast they are read."""
        return reside(kept, self.platform, self.options)

    @property
    def device_key(self) -> str:
        """Key of the first platform's device."""
        devices = self.platform.devices
        return str(devices.values[devices.codes[0]])

    @cached_property
    def _waits(self) -> FloatArray:
        """Micro-batches of a replica, which follow one another through the slowest stage."""
        return np.ceil(self.platform.batch / self.micro_batch)

    def _paced(self, total_s: FloatArray, stage_s: FloatArray) -> FloatArray:
        """Time from one pass of a micro-batch to its next, if all stages are kept busy.

        GenZ's tool takes the stages as balanced.
        """
        if self.options.is_genz:
            return total_s
        return np.maximum(total_s, self._waits * stage_s)

    def _prefill_s(self, *parts: str) -> FloatArray:
        zero = np.zeros_like(self.platform.tp)
        return sum((n * timed_pass.part_s(*parts) for n, timed_pass in self.prefill_passes), zero)

    @cached_property
    def time_to_first_token_s(self) -> FloatArray:
        """Prefill of a micro-batch through the whole pipeline."""
        zero = np.zeros_like(self.platform.tp)
        return sum((n * timed_pass.total_s for n, timed_pass in self.prefill_passes), zero)

    @cached_property
    def time_per_output_token_s(self) -> FloatArray:
        """A decode step, and the wait for the slowest stage if the pipeline is uneven."""
        return self._paced(self.decode_pass.total_s, self.decode_pass.stage_s)

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
    def prefill_requests_per_s(self) -> FloatArray:
        """Prompts per second while nothing is generated."""
        zero = np.zeros_like(self.platform.tp)
        stages = sum((n * timed_pass.stage_s for n, timed_pass in self.prefill_passes), zero)
        batch = np.ones_like(zero) if self.request.mixed else self.platform.batch
        return batch * self.platform.dp / self._paced(self.time_to_first_token_s, stages)

    def _energy_joules(self, timed_pass: TimedPass, time_s: FloatArray) -> FloatArray:
        """Energy of all devices from one pass of every micro-batch to the next."""
        platform = self.platform
        own = timed_pass.energy_joules(platform.stage_devices, platform.pp, time_s / self._waits)
        return own * self._waits * platform.dp

    @cached_property
    def energy_joules_per_token(self) -> FloatArray:
        """Energy of a decode step of all devices over the tokens that it generates."""
        step = self._energy_joules(self.decode_pass, self.time_per_output_token_s)
        return step / (self.platform.batch * self.platform.dp)

    @property
    def tokens_per_joule(self) -> FloatArray:
        """Generated tokens per joule."""
        return 1.0 / self.energy_joules_per_token

    @property
    def average_power_watts(self) -> FloatArray:
        """Energy of a decode step of all devices over its time."""
        return self.energy_joules_per_token * self.throughput_tokens_per_s

    @property
    def prefill_energy_joules_per_token(self) -> FloatArray:
        """Energy of the prefill of all devices over the tokens of the prompts."""
        energy = np.zeros_like(self.platform.tp)
        for n, timed_pass in self.prefill_passes:
            time = self._paced(timed_pass.total_s, timed_pass.stage_s)
            energy = energy + n * self._energy_joules(timed_pass, time)
        requests = 1.0 if self.request.mixed else self.platform.batch * self.platform.dp
        return energy / (requests * self.request.prompt)

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
        stages = self.platform.pp if self.options.is_genz else 1.0
        kept = np.maximum(self.prefill_footprint.need_bytes, self.decode_footprint.need_bytes)
        return np.asarray(kept / stages)

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
