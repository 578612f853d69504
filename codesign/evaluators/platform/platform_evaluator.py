"""The ``platform`` evaluator: inference on several devices, as GenZ [GenZ]_ models it.

.. [GenZ] A. Bambhaniya et al., Demystifying Platform Requirements for Diverse LLM Inference
   Use Cases, 2024.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from codesign.base.columns import (
    Arrays,
    Column,
    Columns,
    Domains,
    Fields,
    StringMap,
    Strings,
    design_columns,
    first_values,
)
from codesign.base.errors import InputError, KeyedValueError
from codesign.base.evaluator import Evaluation, Evaluator, Explanation
from codesign.base.metrics import PLATFORM_METRICS, chosen_metrics
from codesign.evaluators.format_accuracy import FormatAccuracy
from codesign.evaluators.platform.passes import RequestPasses
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_columns import (
    OPTIONAL_PARAMETERS,
    REQUIRED_PARAMETERS,
    build_platform,
)
from codesign.evaluators.platform.platform_explanation import explain
from codesign.evaluators.platform.platform_limits import limits
from codesign.evaluators.platform.platform_options import LINK_NOTE, PROFILES, PlatformOptions
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.evaluators.platform.platform_serving import PRICES, PlatformServing
from codesign.evaluators.platform.serving_rules import rules_of
from codesign.models.accounts.rents import why_no_rent
from codesign.models.hardware.device import Device, list_devices, load_device
from codesign.models.machines.device.formats import BLOCK_SCALED
from codesign.models.workload.model import UNQUANTIZED_PARTS, LanguageModel
from codesign.models.workload.request import TOKEN_KEYS

_BLOCK = (128, 128)
"""Weights that share a scale in the format ``BLOCK_SCALED``."""

_MOST_REQUESTS = 2**24
"""A batch beyond which memory counts as unlimited [ours]."""

_BOUNDED = (
    "time_to_first_token_s",
    "time_per_output_token_s",
    "request_latency_s",
    "throughput_tokens_per_s",
    "tokens_per_s_per_user",
    "tokens_per_s_per_device",
    "prefill_requests_per_s",
    "n_devices",
    "board_power_watts",
    "output_tokens_per_s",
    *PRICES,
)
"""Metrics that rooflines without any loss bound from their better side, or give exactly."""


class PlatformEvaluator(Evaluator):
    """Time to first token, time per output token, throughput and memory of several devices.

    Args:
        devices: Devices by the names that designs use; the bundled ones, and the options'
            files, if None.

    Raises:
        InputError: The model or a device file cannot be used.
    """

    Workload = PlatformRequest
    Options = PlatformOptions
    workload: PlatformRequest
    options: PlatformOptions

    required_parameters = REQUIRED_PARAMETERS
    optional_parameters = OPTIONAL_PARAMETERS

    def __init__(
        self,
        workload: PlatformRequest,
        options: PlatformOptions | None = None,
        *,
        devices: Mapping[str, Device] | None = None,
    ) -> None:
        self.workload = workload
        stated = options or PlatformOptions()
        self.options = stated.resolved()
        self._ideal = stated.model_copy(update={"profile": "ideal"}).resolved()
        if workload.mixed and not rules_of(self.options).has_mixed_passes:
            expected = "expected profile 'fitted' or 'ideal'"
            message = f"{expected}; {self.profile!r} has no mixed passes"
            raise InputError(message, key=("mixed",))
        if rules_of(self.options).limits_context:
            n_tokens = workload.prompt + workload.generated
            keys = ("use_case", *TOKEN_KEYS)
            try:
                for model in workload.models:
                    workload.check_context(n_tokens, model, *keys)
            except KeyedValueError as error:
                raise InputError(error.mistake) from None
        if devices is None:
            names = (*list_devices(), *self.options.device_files)
            devices = {device.key: device for device in map(load_device, names)}
        self.devices = dict(devices)
        if (link := self.options.link) is not None:
            self.devices = {key: each.joined_by(link) for key, each in self.devices.items()}
        self._passes = RequestPasses(workload, self.options)
        self.accuracy = FormatAccuracy(workload.language_model, self.options)
        self.metrics = (*PLATFORM_METRICS.values(), *self.accuracy.declared.values())

    def replace_request(self, workload: PlatformRequest) -> PlatformEvaluator:
        """The evaluator with another request."""
        return PlatformEvaluator(workload, self.options, devices=self.devices)

    def provenance(self) -> Fields:
        """Workload, model, options and devices, as plain JSON values."""
        model = self.workload.language_model
        blocks = model.weight_block_size
        plain = model.unquantized_parts
        return {
            "workload": self.workload.model_dump(mode="json"),
            "model": model.model_dump(mode="json"),
            **({} if blocks is None else {"weight_block_size": list(blocks)}),
            **({} if plain == UNQUANTIZED_PARTS else {"unquantized_parts": list(plain)}),
            "options": self.options.model_dump(mode="json"),
            "devices": {
                name: device.model_dump(
                    mode="json", exclude={"key", "name", "note", "sources", "also_called"}
                )
                for name, device in self.devices.items()
            },
            **self.accuracy.provenance(),
        }

    def convention_modules(self) -> Strings:
        """Module of the profile's rules, which may be another package's."""
        return [PROFILES.rules_class(self.options.profile).__module__]

    def platform(self, designs: Columns) -> Platform:
        """Devices, links and parallelism of a batch.

        Raises:
            UnknownNameError: A device or format that is not known.
            InputError: A parameter that means nothing under the profile.
        """
        for name in rules_of(self.options).meaningless_parameters:
            if name in designs:
                raise InputError(
                    f"expected profile {self.options.other_profiles} with it; under "
                    f"{self.profile} messages have latencies that are fitted to measurements",
                    key=(name,),
                )
        designs = _published_formats(designs, self.workload.language_model)
        return build_platform(designs, self.devices, self.options)

    def serving(self, designs: Columns) -> PlatformServing:
        """Everything that a batch's metrics follow from."""
        return self.serve(self.platform(designs))

    def serve(self, platform: Platform) -> PlatformServing:
        """Everything that the metrics of platforms built elsewhere follow from."""
        return PlatformServing(self.workload, self.options, self._passes, platform)

    def known_violations(self, designs: Columns) -> Arrays:
        """Whether parallelism divides, links exist and memory suffices; (n,) each."""
        return limits(self.serving(designs))

    def most_requests(self, design: Fields) -> int:
        """The largest batch of one design that memory holds to its last tokens; 0 if none.

        Raises:
            InputError: Memory has no limit, or the profile asks for none.
        """
        replica = self.platform(design_columns({**design, "batch_size": 1}))
        unit = int(replica.dp[0] * replica.attention_groups[0])

        def has_room(requests: int) -> bool:
            designs = design_columns({**design, "batch_size": requests * unit})
            return bool(self.known_violations(designs).get("memory", np.full(1, -np.inf))[0] <= 0)

        too_many = 1
        while has_room(too_many):
            too_many *= 2
            if too_many > _MOST_REQUESTS:
                raise InputError("expected a number, as memory holds any", key=("batch_size",))
        return unit * bisect_left(range(1, too_many), True, key=lambda n: not has_room(n))

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        names = chosen_metrics(metrics, self.metric_names)
        serving = self.serving(designs)
        values = self.accuracy.metrics(designs, names)
        with np.errstate(invalid="ignore"):
            values |= {
                name: np.array(getattr(serving, name), np.float64)
                for name in names
                if name not in values
            }
        return Evaluation(values, limits(serving))

    def predict(self, designs: Columns, metrics: Strings) -> Arrays:
        """(n,) what no platform beats, from rooflines: under ``fitted``, the profile ``ideal``.

        Other profiles are such models themselves, of which nothing is known in advance.
        """
        if not rules_of(self.options).has_ideal_bounds:
            return {}
        names = [name for name in _BOUNDED if name in metrics]
        serving = PlatformServing(
            self.workload,
            self._ideal,
            self._passes_of_ideal,
            build_platform(designs, self.devices, self._ideal),
        )
        bounds = {name: np.array(getattr(serving, name), np.float64) for name in names}
        for name in bounds.keys() & PRICES:
            # A number also where no rent is listed: devices could not be cheaper.
            bounds[name] = np.nan_to_num(bounds[name], nan=0.0)
        if "board_power_watts" in bounds:
            # A number also where no limit is stated: that of the hungriest device.
            most = max((device.power or 0.0 for device in self.devices.values()), default=0.0)
            unknown = np.isnan(bounds["board_power_watts"])
            bounds["board_power_watts"][unknown] = (most * serving.n_devices)[unknown]
        return bounds | self.accuracy.metrics(designs, metrics)

    @cached_property
    def _passes_of_ideal(self) -> RequestPasses:
        return RequestPasses(self.workload, self._ideal)

    def absent_metrics(self, values: Domains) -> StringMap:
        absent = self.accuracy.absent_metrics(values)
        devices = [str(device) for device in values.get("device", ())]
        if no_rent := why_no_rent(devices, self.options.device_usd_per_hour):
            absent |= dict.fromkeys(PRICES, no_rent)
        return absent

    def explain(self, designs: Columns) -> Explanation:
        device = self.devices[str(designs["device"].decoded()[0])]
        account = explain(self.serving(designs), list(PLATFORM_METRICS), device)
        return self.accuracy.added_to(self._ranged_by_links(account, designs, device), designs)

    def _ranged_by_links(
        self, account: Explanation, designs: Columns, device: Device
    ) -> Explanation:
        """The account; where no file says how cards reach each other, ranges to one switch."""
        is_open = device.link_kind == "pcie" and rules_of(self.options).has_ideal_bounds
        if not is_open or account.metrics["n_devices"] == 1:
            return account
        options = self.options.model_copy(update={"link": "pcie-switch"})
        evaluator = PlatformEvaluator(self.workload, options, devices={device.key: device})
        best = first_values(evaluator.evaluate(designs, list(account.metrics)).metrics)
        ranges = dict(account.ranges)
        for name, value in account.metrics.items():
            if value > 0 and (ratio := best[name] / value) != 1:
                low, high = ranges.get(name, (value, value))
                ranges[name] = (low * min(1.0, ratio), high * max(1.0, ratio))
        note = f"{LINK_NOTE} Ranges reach to one switch."
        return replace(account, ranges=ranges, notes=[*account.notes, note])


def _published_formats(designs: Columns, model: LanguageModel) -> Columns:
    """The designs, with the block scales that a model's published 8-bit weights have."""
    if model.weight_block_size != _BLOCK or "weight_format" not in designs:
        return designs
    column = designs["weight_format"]
    values = tuple(BLOCK_SCALED if value == "fp8" else value for value in column.values)
    return {**designs, "weight_format": Column(values, column.codes)}
