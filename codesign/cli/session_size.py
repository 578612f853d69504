"""``codesign size --session``: devices that serve sessions, with caches of prompts and without."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from codesign.base.errors import InputError, mistakes_at
from codesign.base.records import frozen
from codesign.cli.flags import numbers
from codesign.cli.output import report
from codesign.cli.serving_flags import (
    RequestFlags,
    build,
    degrees_of,
    engine_settings,
    named_devices,
    question_inputs,
    store_units,
)
from codesign.cli.size_flags import SizeQuestion

if TYPE_CHECKING:
    from codesign.answers.sizing import SessionEntry
    from codesign.base.columns import FloatSequence, IntegerMap, StringMap
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.engine_settings import EngineSettings
    from codesign.evaluators.platform.session_sizing import SessionRate
    from codesign.models.deployments.queueing.prefix_cache import StoreLimits
    from codesign.models.workload.reuse import SessionReuse

_DEGREES = (1, 2, 4, 8)
"""Tensor parallelism that is tried if none is stated."""


def answer_sessions(question: SizeQuestion) -> None:
    """Report the fewest devices that serve sessions."""
    from codesign.answers.sizing import SizeAnswer
    from codesign.evaluators.platform.engine_settings import EngineSettings
    from codesign.evaluators.platform.machine_pools import prompt_stores
    from codesign.models.workload.reuse import SessionReuse
    from codesign.models.workload.sessions import check_length, load_session
    from codesign.report.size_tables import session_tables

    session = str(question.demand.session)
    rate = question.demand.sessions_per_s
    if rate is None:
        raise InputError("expected a rate with --session", "--sessions-per-s")
    rates = numbers("--sessions-per-s", rate, above=0)
    workload, options, stated = question.settings(
        EngineSettings.model_fields, request=RequestFlags(None, 1, 1)
    )
    evaluator = build(workload, options, named_devices(question.on))
    reuse = SessionReuse(load_session(session))
    if not evaluator.workload.beyond_context:
        with mistakes_at("--session"):
            check_length(reuse.longest_tokens, evaluator.workload.language_model)
    settings, formats = engine_settings(stated), question.formats.formats(question.model)
    with mistakes_at("--cache"):
        stores = prompt_stores(
            evaluator.workload.language_model, formats, settings, store_units(question.cache)
        )
    search = _Search(
        question, evaluator, settings, reuse, rates, formats, degrees_of(question.split), stores
    )
    answer = SizeAnswer(
        model=question.model,
        **question_inputs(evaluator, {**search.formats, **search.degrees}),
        sessions_per_s=rates,
        sessions=[
            search.best(device, has_caches)
            for device in evaluator.devices
            for has_caches in (True, False)
        ],
        notes=[
            "limits hold for mean times, and each machine serves an equal share of the sessions",
            "the rent includes the host; caches beyond it are not priced",
        ],
    )
    report(lambda: answer, lambda: session_tables(answer, session))


@frozen
class _Search:
    """Machines that may serve the sessions of a question."""

    question: SizeQuestion
    evaluator: PlatformEvaluator
    settings: EngineSettings
    reuse: SessionReuse
    rates: FloatSequence
    formats: StringMap
    degrees: IntegerMap
    stores: tuple[StoreLimits, ...]

    def best(self, device: str, has_caches: bool) -> SessionEntry:
        """The machine of a device that needs the fewest devices for all rates."""
        import numpy as np

        from codesign.answers.sizing import SessionEntry
        from codesign.evaluators.platform.machine_pools import serving_machine
        from codesign.evaluators.platform.session_sizing import session_rate
        from codesign.models.accounts.rents import rent_usd_per_hour
        from codesign.models.deployments.queueing import Arrivals
        from codesign.models.deployments.queueing.service_levels import LatencyLimits

        settings = self.settings
        classes = self.reuse.classes
        tokens = classes.context_tokens + classes.new_tokens + classes.generated_tokens
        usd = rent_usd_per_hour(device, self.question.price_per_hour)
        longest = Arrivals(np.zeros(1), np.array([self.reuse.longest_tokens]), np.ones(1, int))
        first, output = self.question.request.limits()
        limits = LatencyLimits(first or math.inf, output or math.inf)
        layers = self.evaluator.workload.language_model.num_hidden_layers
        entries = []
        for tp in self.degrees.values() or _DEGREES:
            machine = {"device": device, "tensor_parallel": tp}
            rate: SessionRate | str
            try:
                serving = serving_machine(
                    self.evaluator, {**self.formats, **machine}, settings.limits(), longest,
                    settings.memory_fraction,
                )  # fmt: skip
                serving = replace(serving, stores=self.stores)
                rate = session_rate(serving, self.reuse, limits, layers, has_caches=has_caches)
            except InputError as error:
                rate = "; ".join(error.problems)
            machine["has_caches"] = has_caches
            entries.append(
                SessionEntry.describe(machine, rate, self.rates, classes.total(tokens), usd)
            )

        def rank(entry: SessionEntry) -> tuple[float, int]:
            mean = math.inf if entry.mean_machines is None else entry.mean_machines
            return mean * entry.tensor_parallel, -entry.tensor_parallel

        return min(entries, key=rank)
