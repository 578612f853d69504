"""The ``sessions`` evaluator: a machine that alternately prefills and decodes turns.

Composes any evaluator of one phase of a request (``npu``) by the levels of memory in which contexts
wait between turns (:mod:`codesign.models.deployments.cache_levels`). A design has the parameters of
the machine, the outer caches ``cache1_technology``, ``cache1_units`` and so on, ``batch_size``, and
``concurrent_sessions``. Its metrics never get worse if times, energies or hits get better, so the
machine's best cases bound them.

Limiting assumptions: prefills and decode steps take turns; the rate is the lesser of the machine's
rate and that of sessions that never wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from codesign.base.columns import (
    MOST_COMBINATIONS,
    Arrays,
    Columns,
    Domains,
    Fields,
    FloatArray,
    IntArray,
    combined,
    distinct,
    first_values,
    n_designs,
    taken,
)
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation, Evaluator, Explanation
from codesign.base.forwarding import forwarded
from codesign.base.metrics import FORMAT_METRICS, SESSION_METRICS, chosen_metrics
from codesign.base.records import frozen
from codesign.base.schema import Record
from codesign.evaluators.phase_machine import BATCH_SIZE, PhaseMachine, machine_for
from codesign.evaluators.sessions.composed_evaluator import ComposedEvaluator
from codesign.evaluators.sessions.level_columns import (
    CACHE_PARAMETERS,
    MOST_CACHES,
    DesignLevels,
    design_levels,
)
from codesign.evaluators.sessions.session_workload import (
    CONCURRENT,
    SessionsOptions,
    SessionWorkload,
)
from codesign.models.accounts.wear import lifetime_years
from codesign.models.deployments.cache_levels import CachedTurns, TurnCosts
from codesign.models.hardware.accelerator import UnitTables
from codesign.models.hardware.formula_operations import sum_of
from codesign.models.memtech import Range
from codesign.models.memtech.technology import ACCOUNT_NUMBERS
from codesign.models.workload.precision import bits_per_element
from codesign.models.workload.storage import kv_elements, state_bytes

_TTFT, _TPOT, _JOULES = (
    "time_to_first_token_s",
    "time_per_output_token_s",
    "dynamic_joules_per_token",
)
_OUTER, _ROUNDING = "outer caches", 1e-6
_OF_MACHINE = ("area_mm2", "power_density_w_per_mm2", "junction_temperature_celsius",
               "peak_flop_per_s", *FORMAT_METRICS)  # fmt: skip
"""Metrics that a design has from its decoding machine, unchanged."""
_UNBOUNDED = ("cache_lifetime_years", "outer_hit_share",
              *(f"cache{i}_hit_share" for i in range(1, MOST_CACHES + 1)))  # fmt: skip
"""Metrics that a better machine may make worse."""
_ACCOUNTS = {"name", "note", "sources", "status", "available", "date", *ACCOUNT_NUMBERS}
"""Keys of a technology that change no time and no energy of a prefill."""
_SMALL, _MOST_REMEMBERED = 2000, 32
"""Designs of a batch whose prefills are remembered, and number of such batches [ours]."""
_SOFTWARE = frozenset({CONCURRENT, *CACHE_PARAMETERS})


@frozen
class _Prefill:
    """A prefill that some classes of turns need."""

    cached_tokens: int
    prompt_tokens: int
    generated_tokens: int


@frozen
class SessionCosts:
    """Sessions on ``n`` machines with their caches.

    Attributes:
        memory: Levels that hold contexts.
        cached: Turns with the shares of contexts that each level holds.
        sessions_per_s: (n,) rate of a machine.
        turns_s: (n,) seconds of all prefills of a session.
        dynamic_joules: (n,) energy of a session without background power.
    """

    memory: DesignLevels
    cached: CachedTurns
    sessions_per_s: FloatArray
    turns_s: FloatArray
    dynamic_joules: FloatArray


class SessionsEvaluator(ComposedEvaluator[PhaseMachine]):
    """Rates, latencies, energy and price of machines that serve sessions with caches.

    Args:
        is_always_busy: True if work never runs out, as with a trace or in a mix.
        machine: Options of the machines; those of ``options.machine`` if None.

    Raises:
        InputError: The machines cannot serve the model, or report too little.
    """

    Workload: ClassVar[type[Record]] = SessionWorkload
    Options = SessionsOptions
    workload: SessionWorkload
    options: SessionsOptions
    members: dict[_Prefill | None, PhaseMachine]

    superseded = forwarded(Evaluator.superseded, "first")

    def __init__(
        self,
        workload: SessionWorkload,
        options: SessionsOptions | None = None,
        is_always_busy: bool = False,
        machine: Record | None = None,
    ) -> None:
        self.workload = workload
        self._is_always_busy = is_always_busy or workload.trace is not None
        self.options = options or SessionsOptions()
        self._reuse, classes = workload.reuse, workload.reuse.classes
        factory, record = self.options.machine.load()
        record = machine or record
        answers = classes.turns * classes.generated_tokens
        prompts = classes.context_tokens + classes.new_tokens
        mean_prompt = round(float(answers @ prompts / answers.sum()))
        mean_answer = round(float(answers.sum() / classes.turns.sum()))
        decode = self._machine(factory, record, "decode", (0, mean_prompt, mean_answer))
        self.members = {None: decode}
        # Prefills of a turn if its context, only the shared prefix, or nothing is found.
        self._keys = []
        for context, prompt, generated in zip(
            classes.context_tokens, prompts, classes.generated_tokens, strict=True
        ):
            length, reused = round(float(prompt)), round(float(context))
            answer = max(round(float(generated)), 1)
            cached_tokens = (reused, min(round(self._reuse.shared_tokens), reused), 0)
            self._keys.append([_Prefill(n, length - n, answer) for n in cached_tokens])
        for key in dict.fromkeys(key for keys in self._keys for key in keys):
            tokens = key.cached_tokens, key.prompt_tokens, key.generated_tokens
            self.members[key] = self._machine(factory, record, "prefill", tokens, decode)
        declared = {metric.name: metric for metric in self.first.metrics}
        self._needed = [_TPOT, _JOULES, "idle_watts", "memory_capacity_bytes", "memory_used_bytes",
                        "tdp_watts", "unit_cost_usd", "standing_usd_per_hour"]  # fmt: skip
        reported = {*declared, *self.first.metrics_for_pools}
        if missing := [name for name in self._needed if name not in reported]:
            raise InputError(f"expected machines that report {', '.join(missing)}", "machine")
        self._timing_constants = frozenset(self.first.constant_ranges([_TTFT, _JOULES]))
        self._constants: Mapping[str, float] = {}
        self._remembered: dict[Any, dict[_Prefill, Arrays]] = {}
        self._passed = [name for name in _OF_MACHINE if name in declared]
        self.metrics = (
            *SESSION_METRICS.values(), *(declared[name] for name in self._passed)
        )  # fmt: skip
        self.required_parameters = self.first.required_parameters
        self.optional_parameters = self.first.optional_parameters | _SOFTWARE
        caches = sorted(CACHE_PARAMETERS)
        self.undecided_parameters = (*self.first.undecided_parameters, CONCURRENT, *caches)

    def _machine(
        self,
        factory: Any,
        options: Record,
        phase: str,
        tokens: tuple[int, int, int],
        like: PhaseMachine | None = None,
    ) -> PhaseMachine:
        cached, prompt, generated = tokens
        request = {"model": self.workload.model, "phase": phase, "cached_tokens": cached,
                   "beyond_context": True,  # the session was checked
                   "prompt_tokens": prompt, "generated_tokens": generated,
                   "batch": self.workload.batch if phase == "decode" else 1}  # fmt: skip
        return machine_for(factory, request, options, like)

    # --- the machine's own ---------------------------------------------------------------------

    @property
    def tokens_per_session(self) -> float:
        """Tokens of the prompts and answers of a session."""
        classes = self._reuse.classes
        return classes.total(classes.context_tokens + classes.new_tokens + classes.generated_tokens)

    def replace_constants(self, values: Mapping[str, float]) -> Self:
        evaluator = super().replace_constants(values)
        evaluator._constants = {**self._constants, **values}
        return evaluator

    def constant_ranges(self, metrics: Sequence[str]) -> Mapping[str, Range]:
        del metrics  # times, energies and prices of the machine decide on all of them
        return super().constant_ranges(self._needed)

    def absent_metrics(self, values: Domains) -> Mapping[str, str]:
        absent = dict(super().absent_metrics(values))
        if reason := absent.get("unit_cost_usd"):
            absent["usd_per_million_asked_tokens"] = reason
        return absent

    def provenance(self) -> Fields:
        return {
            "workload": self.workload.model_dump(mode="json"),
            "turns": {name: values.tolist() for name, values in vars(self._reuse.classes).items()},
            "options": self.options.model_dump(mode="json"),
            "machine": self.first.provenance(),
        }

    def split_caches(self, design: Fields) -> tuple[Fields, dict[str, int]]:
        """The machine of a design, and the units of its outer caches by technology."""
        units = {
            str(design[f"cache{i}_technology"]): int(design[f"cache{i}_units"])
            for i in range(1, MOST_CACHES + 1)
            if design.get(f"cache{i}_technology")
        }
        return {name: design[name] for name in design if name not in _SOFTWARE}, units

    # --- designs -------------------------------------------------------------------------------

    def known_violations(self, designs: Columns) -> Arrays:
        """Violations of the decoding machine; ``sessions`` is batch size over sessions, less 1."""
        few, number = _distinct_machines(designs)
        limits = {name: values[number] for name, values in self.first.known_violations(few).items()}
        return limits | {"sessions": self._sessions_excess(designs)}

    def _sessions_excess(self, designs: Columns) -> FloatArray:
        """(n,) batch size over sessions, less 1."""
        sessions, _ = self._counts(designs, CONCURRENT, self.workload.concurrent_sessions, {})
        return self._batch(designs) / sessions - 1.0

    def _batch(self, designs: Columns) -> FloatArray:
        """(n,) requests that decode together."""
        return self._counts(designs, BATCH_SIZE, self.workload.batch, {})[0]

    def _counts(
        self, designs: Columns, name: str, default: int, undecided: Domains
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) least and largest value of a count that the design or else the workload states."""
        if name in designs:
            counts = designs[name].lookup(float)
            return counts, counts
        n = n_designs(designs)
        values = [float(cast("int", value)) for value in undecided.get(name, [default])]
        return np.full(n, min(values)), np.full(n, max(values))

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        names = chosen_metrics(metrics, self.metric_names)
        if not n_designs(designs):
            return Evaluation({name: np.empty(0) for name in names})
        few, number = _distinct_machines(designs)
        passed = [name for name in self._passed if name in names]
        decode = self.first.evaluate(few, [*self._needed, *passed])
        times, joules = self._prefill_costs(designs, self._prefill_metrics)
        values = {name: rows[number] for name, rows in decode.metrics.items()}
        used = values["memory_used_bytes"]
        kv_bytes = _least(designs, {}, "kv_format", self.first.workload.format_convention)
        results = self._composed(designs, values, times, joules, used,
                                 kv_bytes, {})  # fmt: skip
        results |= {name: values[name] for name in passed}
        failures = {
            i: decode.failures[int(j)] for i, j in enumerate(number) if j in decode.failures
        }
        limits = {name: excess[number] for name, excess in decode.violations.items()}
        limits |= {"sessions": self._sessions_excess(designs)}
        return Evaluation({name: results[name] for name in names}, limits, failures)

    def _prefill_metrics(self, few: Columns) -> dict[_Prefill, Arrays]:
        """Times and energies of every prefill.

        They are remembered for small batches: most uncertain numbers, such as prices, leave them.
        """
        prefills = {key: machine for key, machine in self.members.items() if key}

        def evaluate() -> dict[_Prefill, Arrays]:
            return {
                key: machine.evaluate(few, [_TTFT, _JOULES]).metrics
                for key, machine in prefills.items()
            }

        if n_designs(few) > _SMALL:
            return evaluate()
        names = {str(value) for column in few.values() for value in column.values}
        library, memory = self.first.technologies(), self._remembered
        moved = {
            name: value for name, value in self._constants.items() if name in self._timing_constants
        }
        key = (
            repr([library[name].model_dump(exclude=_ACCOUNTS) for name in sorted(names)
                  if name in library]),
            repr(sorted(moved.items())),
            *((name, column.values, column.codes.tobytes()) for name, column in few.items()),
        )  # fmt: skip
        memory[key] = memory.pop(key) if key in memory else evaluate()  # the last to be forgotten
        if len(memory) > _MOST_REMEMBERED:
            memory.pop(next(iter(memory)))
        return memory[key]

    def _prefill_costs(
        self, designs: Columns, of: Callable[[Columns], Mapping[_Prefill, Arrays]]
    ) -> tuple[FloatArray, FloatArray]:
        """(3, q, n) seconds and joules if context, only its shared prefix, or nothing is found."""
        few, number = _distinct_machines(designs, _SOFTWARE | {BATCH_SIZE})
        rows = of(few)
        states = list(zip(*self._keys, strict=True))
        times = np.stack([[rows[key][_TTFT] for key in keys] for keys in states])
        joules = np.stack(
            [[rows[key][_JOULES] * key.prompt_tokens for key in keys] for keys in states]
        )
        # What is found never costs more than computing it.
        times, joules = (np.minimum.accumulate(x[::-1])[::-1] for x in (times, joules))
        return times[..., number], joules[..., number]

    def _composed(
        self,
        designs: Columns,
        machine: Arrays,
        times: FloatArray,
        joules: FloatArray,
        used_bytes: FloatArray,
        kv_bytes: FloatArray,
        undecided: Domains,
    ) -> dict[str, FloatArray]:
        """(n,) every metric of sessions, from those of machines or from their best cases."""
        classes, turns = self._reuse.classes, self._reuse.classes.turns
        level: Any = getattr(self.first.options, "technology_level", "typical")
        units = UnitTables(self.first.technologies(), level)
        memory = design_levels(
            designs, units, self.options, machine["memory_capacity_bytes"], used_bytes,
            not CACHE_PARAMETERS.isdisjoint(undecided),
        )  # fmt: skip
        batch = self._batch(designs)
        fewest, sessions = self._counts(
            designs, CONCURRENT, self.workload.concurrent_sessions, undecided
        )
        cached, shared = self._cached_turns(memory, fewest, kv_bytes)
        time_costs, energy_costs = (
            TurnCosts(costs[0], shared * costs[1] + (1.0 - shared) * costs[2])
            for costs in (times, joules)
        )
        answers = classes.total(classes.generated_tokens)
        step_s, joules_per_answer_token = self._answer_costs(machine)
        busy_s = cached.session_s(time_costs, answers * step_s / batch)
        turn_s = cached.turn_s(time_costs, self.workload.language_model.num_hidden_layers)
        alone_s = self._reuse.think_s + cached.total(turn_s) + answers * step_s
        rate = 1.0 / busy_s
        if not self._is_always_busy:
            rate = np.minimum(rate, sessions / alone_s)
        prompt_total = classes.total(classes.context_tokens + classes.new_tokens)
        first = classes.is_first
        lost = 1.0 - cached.cumulative_hits[-1]
        # A shared prefix is found where the rest of a context is not.
        contexts = classes.context_tokens[:, None]
        is_shared = shared * (1.0 - first)[:, None]
        recomputed = contexts - is_shared * np.minimum(self._reuse.shared_tokens, contexts)
        computed = classes.total(classes.new_tokens) + cached.total(lost * recomputed)
        usd_per_hour, life_years = self._price(machine, memory, cached, rate)
        dynamic_joules = cached.session_joules(energy_costs) + answers * joules_per_answer_token
        session_joules = dynamic_joules + (machine["idle_watts"] + memory.background_watts) / rate
        tokens = prompt_total + answers
        usd_per_joule = getattr(self.first.prices, "usd_per_joule", np.nan)
        usd = usd_per_hour / 3600.0 / rate + session_joules * usd_per_joule
        machine_share = cached.cumulative_hits[memory.n_tiers - 1]
        shares = iter(cached.hits[memory.n_tiers :])
        by_cache = {
            f"cache{i}_hit_share": cached.total(contexts * next(shares)) / prompt_total
            if {f"cache{i}_technology", f"cache{i}_units"} <= designs.keys()
            else np.zeros_like(rate)
            for i in range(1, MOST_CACHES + 1)
        }
        costs = SessionCosts(memory, cached, rate, cached.total(turn_s), dynamic_joules)
        return {
            "sessions_per_s": rate,
            "output_tokens_per_s": rate * answers,
            "first_turn_time_to_first_token_s": _mean(turns * first, turn_s),
            "later_turn_time_to_first_token_s": _mean(turns * (1.0 - first), turn_s),
            _TPOT: step_s,
            "loaded_time_per_output_token_s": busy_s * batch / answers,
            "prompt_hit_share": 1.0 - computed / prompt_total,
            "machine_hit_share": cached.total(contexts * machine_share) / prompt_total,
            "outer_hit_share": sum_of(tuple(by_cache.values())),
            **by_cache,
            "later_turn_hit_share": _mean(turns * (1.0 - first), cached.cumulative_hits[-1]),
            "computed_tokens_per_asked_token": computed / prompt_total,
            CONCURRENT: sessions,
            "energy_joules_per_asked_token": session_joules / tokens,
            "usd_per_million_asked_tokens": usd / tokens * 1e6,
            "tdp_watts": machine["tdp_watts"] + memory.peak_watts,
            "unit_cost_usd": machine["unit_cost_usd"] + sum_of(tuple(memory.price_usd)),
            "cache_lifetime_years": life_years,
            **self._pool_metrics(machine, costs),
        }

    def _answer_costs(self, machine: Arrays) -> tuple[FloatArray, FloatArray]:
        """(n,) seconds and joules of a token of an answer."""
        return machine[_TPOT], machine[_JOULES]

    def _pool_metrics(self, machine: Arrays, costs: SessionCosts) -> Arrays:
        """(n,) further metrics of machines that only prefill."""
        return {}

    def _cached_turns(
        self, memory: DesignLevels, sessions: FloatArray, kv_bytes: FloatArray
    ) -> tuple[CachedTurns, FloatArray]:
        """The turns with the levels, and (n,) the share of shared prefixes that are found."""
        classes, model = self._reuse.classes, self.workload.language_model

        def stored(tokens: float) -> FloatArray:
            return kv_elements(model, tokens) * kv_bytes + state_bytes(model, tokens)

        contexts = classes.context_tokens
        mean = max(classes.total(contexts) / classes.turns.sum(), 1.0)
        per_token = stored(mean) / mean
        rooms = np.cumsum(memory.levels.capacity_bytes, axis=0) / per_token
        hits = np.stack([self._reuse.hit_shares(room, sessions) for room in rooms])
        added = classes.total(classes.new_tokens + classes.generated_tokens) * per_token
        context_bytes = np.stack([stored(tokens) * (tokens > 0) for tokens in contexts.tolist()])
        return CachedTurns(classes, context_bytes, added, hits[:, :-1], memory.levels), hits[-1, -1]

    def _price(
        self,
        machine: Arrays,
        memory: DesignLevels,
        cached: CachedTurns,
        rate: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) dollars of an hour without power, and years until the first level is worn out."""
        prices = self.first.prices
        per_hour = prices.usd_per_hour_of_capital if prices else np.nan
        written = np.where(memory.wear_per_byte > 0, cached.written_bytes * rate, 0.0)
        life_years = lifetime_years(written, memory.wear_per_byte)
        worn_per_hour = written * memory.wear_per_byte * 3600.0
        outer = memory.price_usd * np.maximum(worn_per_hour, per_hour)
        # A machine whose tier is worn out before it is written off is replaced as a whole.
        worn = worn_per_hour[: memory.n_tiers].max(axis=0) / (per_hour or np.inf)
        standing = machine["standing_usd_per_hour"] * np.maximum(worn, 1.0)
        return standing + sum_of(tuple(outer)), life_years

    # --- bounds --------------------------------------------------------------------------------

    def best_case(
        self,
        designs: Columns,
        undecided: Domains,
        metrics: Sequence[str],
    ) -> Arrays:
        """(n,) bounds over all completions of a design: sessions on the machine's best cases."""
        few, number = _distinct_machines(designs)
        passed = [name for name in self._passed if name in metrics]
        needed = [name for name in self._needed if name != "memory_used_bytes"]
        decode = self.first.best_case(few, undecided, [*needed, *passed])
        times, joules = self._prefill_costs(
            designs,
            lambda few: {
                key: machine.best_case(few, undecided, [_TTFT, _JOULES])
                for key, machine in self.members.items()
                if key
            },
        )
        values = {name: rows[number] for name, rows in decode.items()}
        request = self.first.workload
        batch = self._batch(designs)
        kv_bytes = _least(designs, undecided, "kv_format", request.format_convention)
        weight_bytes = _least(designs, undecided, "weight_format", request.format_convention)
        used = request.weight_elements * weight_bytes + batch * (
            request.kv_elements_per_request * kv_bytes + request.state_bytes_per_request
        )
        results = self._composed(designs, values, times, joules, used, kv_bytes, undecided)
        bounds = results | {name: values[name] for name in passed if name in values}
        return {name: bounds[name] for name in metrics if name in bounds and name not in _UNBOUNDED}

    def explain(self, designs: Columns) -> Explanation | None:
        """The account of the decoding machine, with the metrics of sessions."""
        account = self.first.explain(_distinct_machines(designs)[0])
        if account is None:
            return None
        evaluation = self.evaluate(designs)
        metrics = first_values(evaluation.metrics)
        usd, watts = (
            metrics[name] - account.metrics.get(name, np.nan)
            for name in ("unit_cost_usd", "tdp_watts")
        )
        costs, power = list(account.costs), list(account.power)
        if usd > _ROUNDING:
            costs.append({"part": _OUTER, "component": _OUTER, "n_dies": None, "area_mm2": 0.0,
                          "usd": usd})  # fmt: skip
        if watts > _ROUNDING:
            power.append({"name": _OUTER, "tdp_watts": watts, "average_watts": None})
        return replace(
            account,
            metrics=metrics,
            costs=costs,
            power=power,
            violations=first_values(evaluation.violations),
            notes=(*account.notes, "operators, power and levels are of a decode step; metrics are "
                   "of whole sessions"),
        )  # fmt: skip


def _mean(weights: FloatArray, values: FloatArray) -> FloatArray:
    """(n,) weighted mean over classes; 0 if all weights are 0."""
    total = sum_of(tuple(weights[:, None] * values))
    return total / max(float(weights.sum()), 1e-300)


def _least(designs: Columns, undecided: Domains, name: str, convention: Any) -> FloatArray:
    """(n,) least bytes of an element in a format that may be undecided."""

    def width(value: object) -> float:
        return bits_per_element(str(value), convention) / 8.0

    if name in designs:
        return designs[name].lookup(width)
    n = n_designs(designs)
    return np.full(n, min(map(width, undecided[name])))


def _distinct_machines(
    designs: Columns, ignored: frozenset[str] = _SOFTWARE
) -> tuple[Columns, IntArray]:
    """The ``u`` distinct machines of ``n`` designs, and (n,) the position of each design's."""
    machine = {name: column for name, column in designs.items() if name not in ignored}
    key, limit = combined(*(column.codes for column in machine.values()))
    if limit >= MOST_COMBINATIONS:
        return machine, np.arange(len(key))
    number, first = distinct(key, limit)
    return taken(machine, first), number
