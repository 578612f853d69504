"""Settings of the ``forecast`` evaluator in a campaign: the requests, and their counting."""

from __future__ import annotations

from typing import Annotated

from codesign.base.columns import FloatDict, JsonObject
from codesign.base.errors import InputError, KeyedValueError
from codesign.base.schema import Amount, Positive, Record, checked
from codesign.evaluators.forecast.operator_work import CLASSES
from codesign.evaluators.forecast.performance import Efficiencies
from codesign.evaluators.forecast.phases import Inference
from codesign.evaluators.forecast.plain import Profile
from codesign.evaluators.forecast.variants import Variant, find_variant
from codesign.models.workload import Request
from codesign.models.workload.lowering import Phase


def _shares(value: object) -> object:
    """One share, or shares by operator, each in (0, 1]."""
    named = value if isinstance(value, dict) else {"": value}
    for name, share in named.items():
        if not isinstance(share, int | float) or share is True or not 0.0 < share <= 1.0:
            of = f" of {name}" if name else ""
            raise InputError(f"expected a share{of} above 0 and at most 1, got {share!r}")
    return value


def _named_variant(value: object) -> object:
    return find_variant(value) if isinstance(value, str) else value


Shares = Annotated[float | FloatDict, checked(_shares)]


class ForecastRequest(Request):
    """The requests: as elsewhere, of both phases, and one at a time if nothing is said."""

    phase: Phase = "decode"
    """Whose operators ``codesign evaluate`` shows; every metric is of both phases."""
    batch: Positive = 1
    """Requests decoded together; each prompt is prefilled alone."""

    def check_fields(self) -> None:
        super().check_fields()
        if self.language_model.is_diffusion:
            raise KeyedValueError(
                "model", f"{self.model} is a diffusion model, which forecast cannot do"
            )


class ForecastOptions(Record):
    """Options of the ``forecast`` evaluator; parameters of the space replace those they name."""

    profile: Profile = "plain"
    """Counting of work and traffic: ``plain``, as in the other evaluators, ``life``, as in LIFE's
    tables, or the conventions of a plug-in."""
    variant: Annotated[Variant, checked(_named_variant)] = Variant()
    """Formats, fusion, attention, adapters: a name of LIFE's Table 3, or the keys."""
    chunk_tokens: Positive | None = None
    """Tokens of a chunk of the prompt; the whole prompt at once if left out."""
    attention_tile: Positive = 1
    """Sizes of attention's products are rounded up to multiples of this (LIFE §5.4.1)."""
    compute_efficiency: Shares = 1.0
    """Share of the peak, for all operators, or by kind or name of the operator."""
    memory_efficiency: Shares = 1.0
    """Share of the bandwidth, for all operators, or by kind or name of the operator."""
    dispatch_latency_s: Amount = 0.0
    """Time of launching one kernel."""

    @property
    def efficiencies(self) -> Efficiencies:
        """Efficiencies by operator; a single share holds for every kind of operator."""
        compute, memory = (
            dict(shares) if isinstance(shares, dict) else dict.fromkeys(CLASSES, shares)
            for shares in (self.compute_efficiency, self.memory_efficiency)
        )
        return Efficiencies(compute, memory)

    def inference(self, request: ForecastRequest, variant: Variant, tile: int) -> Inference:
        """The model of a request under a variant.

        Causality and logits that the request states go before those of the profile.

        Raises:
            InputError: The model cannot have the variant's attention.
        """
        request_choices: JsonObject = {}
        if "causal" in request.model_fields_set:
            request_choices["is_causal"] = request.causal
        if "logits" in request.model_fields_set:
            request_choices["logits"] = request.logits
        return Inference.build(
            request.language_model, variant, self.profile, **request_choices, tile=tile
        )
