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

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    ArrayPair,
    Arrays,
    Columns,
    Domains,
    Fields,
    FloatArray,
    FloatMap,
    IntArray,
    IntegerDict,
    StringMap,
    Strings,
    first_values,
    n_designs,
)
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation, Evaluator, Explanation
from codesign.base.forwarding import forwarded
from codesign.base.metrics import FORMAT_METRICS, HIT_METRICS, SESSION_METRICS, chosen_metrics
from codesign.base.records import frozen
from codesign.base.schema import Record
from codesign.evaluators.npu.compiled import is_worthwhile
from codesign.evaluators.phase_machine import BATCH_SIZE, PhaseMachine, machine_for
from codesign.evaluators.sessions.compiled_sums import compiled_sums
from codesign.evaluators.sessions.composed_evaluator import ComposedEvaluator
from codesign.evaluators.sessions.level_columns import (
    CACHE_PARAMETERS,
    MOST_CACHES,
    LevelTables,
    level_tables,
)
from codesign.evaluators.sessions.session_workload import (
    CONCURRENT,
    SessionsOptions,
    SessionWorkload,
)
from codesign.evaluators.sessions.split_designs import (
    SplitDesigns,
    distinct_of,
    hit_metrics,
    split_designs,
)
from codesign.models.accounts.wear import lifetime_years
from codesign.models.deployments.cache_levels import MachineSessions, empty_workspace, session_sums
from codesign.models.hardware.accelerator import shared_tables
from codesign.models.memtech import Range
from codesign.models.memtech.technology import ACCOUNT_NUMBERS
from codesign.models.workload.precision import bits_per_element
from codesign.models.workload.storage import kv_elements, state_bytes

_TTFT = "time_to_first_token_s"
_TPOT = "time_per_output_token_s"
_JOULES = "dynamic_joules_per_token"
_OUTER = "outer caches"
_ROUNDING = 1e-6
"""Difference of sums of USD or watts that rounding explains [ours]."""
_OF_MACHINE = ("area_mm2", "power_density_w_per_mm2", "junction_temperature_celsius",
               "peak_flop_per_s", *FORMAT_METRICS)  # fmt: skip
"""Metrics that a design has from its decoding machine, unchanged."""
_UNBOUNDED = ("cache_lifetime_years", "outer_hit_share",
              *(f"cache{i}_hit_share" for i in range(1, MOST_CACHES + 1)))  # fmt: skip
"""Metrics that a better machine may make worse."""
_ACCOUNTS = {"name", "note", "sources", "status", "available", "date", *ACCOUNT_NUMBERS}
"""Keys of a technology that change no time and no energy of a prefill."""
_DETAILS = frozenset({*HIT_METRICS, "cache_lifetime_years"})
"""Metrics that need the fields and the hits of every level."""
_TURN_TIMES = frozenset({"first_turn_time_to_first_token_s", "later_turn_time_to_first_token_s"})
"""Metrics of times to the first token."""
_BLOCK = 16384
"""Designs composed at a time, so that their arrays stay in the cache."""
_SMALL, _MOST_REMEMBERED = 2000, 32
"""Designs of a batch whose prefills are remembered, and number of such batches [ours]."""
_SOFTWARE = frozenset({CONCURRENT, *CACHE_PARAMETERS})


@frozen
class _Prefill:
    """A prefill that some classes of turns need."""

    cached_tokens: int
    prompt_tokens: int
    generated_tokens: int


class SessionsEvaluator(ComposedEvaluator[PhaseMachine]):
    """Rates, latencies, energy and price of machines that serve sessions with caches.

    Args:
        is_always_busy: True if work never runs out, as with a trace or in a mix.
        machine: Options of the machines; those of ``options.machine`` if None.
        like: Evaluator of machines with the same technologies.

    Raises:
        InputError: The machines cannot serve the model, or report too little.
    """

    Workload: ClassVar[type[Record]] = SessionWorkload
    Options = SessionsOptions
    workload: SessionWorkload
    options: SessionsOptions
    members: dict[_Prefill | None, PhaseMachine]
    needs_levels: ClassVar[bool] = False
    """True if metrics of cache levels are always computed."""

    superseded = forwarded(Evaluator.superseded, "first")

    def __init__(
        self,
        workload: SessionWorkload,
        options: SessionsOptions | None = None,
        is_always_busy: bool = False,
        machine: Record | None = None,
        like: PhaseMachine | None = None,
    ) -> None:
        self.workload = workload
        self._is_always_busy = is_always_busy or workload.trace is not None
        self.options = options or SessionsOptions()
        self._reuse = workload.reuse
        classes = workload.reuse.classes
        factory, record = self.options.machine.load()
        record = machine or record
        answers = classes.turns * classes.generated_tokens
        prompts = classes.context_tokens + classes.new_tokens
        decode = self._machine(factory, record, "decode", _Prefill(
            0,
            round(float(answers @ prompts / answers.sum())),
            round(float(answers.sum() / classes.turns.sum())),
        ), like)  # fmt: skip
        self.members = {None: decode}
        # Prefills of a turn if its context, only the shared prefix, or nothing is found.
        self._keys = []
        for context, prompt, generated in zip(
            classes.context_tokens, prompts, classes.generated_tokens, strict=True
        ):
            length = round(float(prompt))
            reused = round(float(context))
            answer = max(round(float(generated)), 1)
            cached_tokens = (reused, min(round(self._reuse.shared_tokens), reused), 0)
            self._keys.append([_Prefill(n, length - n, answer) for n in cached_tokens])
        for key in dict.fromkeys(key for keys in self._keys for key in keys):
            self.members[key] = self._machine(factory, record, "prefill", key, decode)
        declared = {metric.name: metric for metric in self.first.metrics}
        self._needed = [_TPOT, _JOULES, "idle_watts", "memory_capacity_bytes", "memory_used_bytes",
                        "tdp_watts", "unit_cost_usd", "standing_usd_per_hour"]  # fmt: skip
        reported = {*declared, *self.first.metrics_for_pools}
        if missing := [name for name in self._needed if name not in reported]:
            raise InputError(f"expected machines that report {', '.join(missing)}", "machine")
        self._timing_constants = frozenset(self.first.constant_ranges([_TTFT, _JOULES]))
        self._constants: FloatMap = {}
        self._remembered: dict[Any, dict[_Prefill, Arrays]] = {}
        self._passed = [name for name in _OF_MACHINE if name in declared]
        self.metrics = (
            *SESSION_METRICS.values(), *(declared[name] for name in self._passed)
        )  # fmt: skip
        self.required_parameters = self.first.required_parameters
        self.optional_parameters = self.first.optional_parameters | _SOFTWARE
        caches = sorted(CACHE_PARAMETERS)
        self.undecided_parameters = (*self.first.undecided_parameters, *caches)

    def _machine(
        self,
        factory: Any,
        options: Record,
        phase: str,
        tokens: _Prefill,
        like: PhaseMachine | None,
    ) -> PhaseMachine:
        request = {"model": self.workload.model, "phase": phase, **vars(tokens),
                   "beyond_context": True,  # the session was checked
                   "batch": self.workload.batch if phase == "decode" else 1}  # fmt: skip
        return machine_for(factory, request, options, like)

    # --- the machine's own ---------------------------------------------------------------------

    @property
    def tokens_per_session(self) -> float:
        """Tokens of the prompts and answers of a session."""
        classes = self._reuse.classes
        return classes.total(classes.context_tokens + classes.new_tokens + classes.generated_tokens)

    def replace_constants(self, values: FloatMap) -> Self:
        evaluator = super().replace_constants(values)
        evaluator._constants = {**self._constants, **values}
        return evaluator

    def constant_ranges(self, metrics: Strings) -> Mapping[str, Range]:
        del metrics  # times, energies and prices of the machine decide on all of them
        return super().constant_ranges(self._needed)

    def absent_metrics(self, values: Domains) -> StringMap:
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

    def split_caches(self, design: Fields) -> tuple[Fields, IntegerDict]:
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
        distinct_machines, number = distinct_of(designs, _SOFTWARE)
        limits = self.first.known_violations(distinct_machines).items()
        return {
            **{name: values[number] for name, values in limits},
            "sessions": self._sessions_excess(designs),
        }

    def _sessions_excess(self, designs: Columns) -> FloatArray:
        """(n,) batch size over sessions, less 1."""
        return self._batch(designs) / self._sessions(designs) - 1.0

    def _batch(self, designs: Columns) -> FloatArray:
        """(n,) requests that decode together."""
        return _counts(designs, BATCH_SIZE, self.workload.batch)

    def _sessions(self, designs: Columns) -> FloatArray:
        """(n,) sessions at a time."""
        return _counts(designs, CONCURRENT, self.workload.concurrent_sessions)

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        names = chosen_metrics(metrics, self.metric_names)
        if not n_designs(designs):
            return Evaluation({name: np.empty(0) for name in names})
        return self.evaluate_split(split_designs(designs), names)

    def evaluate_split(self, designs: SplitDesigns, names: Strings) -> Evaluation:
        """Metrics and violations of designs that are split into machines and outer caches."""
        machines = designs.machines
        machine_index = designs.machine_index
        distinct_machines, number = distinct_of(machines, _SOFTWARE)
        passed = [name for name in self._passed if name in names]
        decode = self.first.evaluate(distinct_machines, [*self._needed, *passed])
        values = {name: rows[number] for name, rows in decode.metrics.items()}
        results = self._composed(
            designs, values, self._prefill_costs(machines, self._prefill_metrics),
            values["memory_used_bytes"], {}, names,
        )  # fmt: skip
        results |= {name: values[name][machine_index] for name in passed}
        failures = {
            i: decode.failures[int(j)]
            for i, j in enumerate(number[machine_index] if decode.failures else ())
            if j in decode.failures
        }
        limits = {name: excess[number][machine_index] for name, excess in decode.violations.items()}
        limits["sessions"] = self._sessions_excess(machines)[machine_index]
        return Evaluation({name: results[name] for name in names}, limits, failures)

    def _prefill_metrics(self, machines: Columns) -> dict[_Prefill, Arrays]:
        """Times and energies of every prefill.

        They are remembered for small batches: most uncertain numbers, such as prices, leave them.
        """
        prefills = {key: machine for key, machine in self.members.items() if key}

        def evaluate() -> dict[_Prefill, Arrays]:
            return {
                key: machine.evaluate(machines, [_TTFT, _JOULES]).metrics
                for key, machine in prefills.items()
            }

        if n_designs(machines) > _SMALL:
            return evaluate()
        names = {str(value) for column in machines.values() for value in column.values}
        library = self.first.technologies()
        memory = self._remembered
        key = (
            repr([library[name].model_dump(exclude=_ACCOUNTS) for name in sorted(names)
                  if name in library]),
            repr(sorted(x for x in self._constants.items() if x[0] in self._timing_constants)),
            *((name, column.values, column.codes.tobytes()) for name, column in machines.items()),
        )  # fmt: skip
        memory[key] = memory.pop(key) if key in memory else evaluate()  # the last to be forgotten
        if len(memory) > _MOST_REMEMBERED:
            memory.pop(next(iter(memory)))
        return memory[key]

    def _prefill_costs(
        self, machines: Columns, of: Callable[[Columns], Mapping[_Prefill, Arrays]]
    ) -> ArrayPair:
        """(3, q, u) seconds and joules if context, only its shared prefix, or nothing is found."""
        distinct_machines, number = distinct_of(machines, _SOFTWARE | {BATCH_SIZE})
        rows = of(distinct_machines)
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
        designs: SplitDesigns,
        machine: Arrays,
        costs: ArrayPair,
        used_bytes: FloatArray,
        undecided: Domains,
        names: Strings,
    ) -> ArrayDict:
        """(n,) metrics of sessions, from those of machines or from their best cases.

        Args:
            machine: (u,) metrics of the machines.
            costs: (3, q, u) seconds and joules of prefills.
            used_bytes: (u,) bytes of weights and running requests.
            names: Metrics that are needed.
        """
        machines = designs.machines
        classes = self._reuse.classes
        model = self.workload.language_model
        level: Any = getattr(self.first.options, "technology_level", "typical")
        levels = level_tables(
            machines, designs.caches,
            shared_tables(self.first.technologies(), level, "uncharged", 1.0), self.options,
            machine["memory_capacity_bytes"], used_bytes,
            not CACHE_PARAMETERS.isdisjoint(undecided),
        )  # fmt: skip
        kv_bytes = _least(machines, undecided, "kv_format", self.first.workload.format_convention)

        def stored(tokens: float) -> FloatArray:
            return kv_elements(model, tokens) * kv_bytes + state_bytes(model, tokens)

        contexts = classes.context_tokens
        mean = max(classes.total(contexts) / classes.turns.sum(), 1.0)
        sessions = self._sessions(machines)
        batch = self._batch(machines)
        step_s, token_joules = self._answer_costs(machine)
        reuse = self._reuse
        prices = self.first.prices
        answers_s = classes.total(classes.generated_tokens) * step_s
        token_bytes = stored(mean) / mean
        first = classes.turns * classes.is_first
        later = classes.turns * (1.0 - classes.is_first)
        loads = MachineSessions(
            *costs, np.stack([stored(tokens) * (tokens > 0) for tokens in contexts.tolist()]),
            token_bytes, answers_s / batch, answers_s,
            np.full_like(sessions, np.inf) if self._is_always_busy else sessions,
            machine["standing_usd_per_hour"],
            np.stack([reuse.hit_shares(room / token_bytes, sessions)
                      for room in np.cumsum(levels.tiers[0], axis=0)]),
            levels.tiers, levels.outer, reuse.table(float(sessions[0])),
            (classes.turns, first, later),
            (max(float(first.sum()), 1e-300), max(float(later.sum()), 1e-300)),
            classes.total(classes.new_tokens + classes.generated_tokens),
            model.num_hidden_layers, reuse.think_s,
            prices.usd_per_hour_of_capital if prices else np.nan,
            not self._is_always_busy or self.needs_levels or not _TURN_TIMES.isdisjoint(names),
        )  # fmt: skip
        values = {**machine, _TPOT: step_s, _JOULES: token_joules, CONCURRENT: sessions,
                  BATCH_SIZE: batch}  # fmt: skip
        results: ArrayDict = {}
        for count in np.unique(sessions).tolist():
            loads = loads._replace(reuse=reuse.table(count))
            positions = np.flatnonzero((sessions == count)[designs.machine_index])
            for start in range(0, len(positions), _BLOCK):
                block: IntArray | slice = slice(start, start + _BLOCK)
                if len(positions) < len(designs.machine_index):
                    block = positions[block]
                block_of_designs = replace(
                    designs,
                    machine_index=designs.machine_index[block],
                    cache_index=designs.cache_index[block],
                )
                metrics = self._metrics_of(block_of_designs, loads, levels, values, names)
                for name in {*names} & {*metrics}:
                    all_rows = results.setdefault(name, np.empty(len(designs.machine_index)))
                    all_rows[block] = metrics[name]
        return results

    def _metrics_of(
        self,
        designs: SplitDesigns,
        loads: MachineSessions,
        levels: LevelTables,
        machine: Arrays,
        names: Strings,
    ) -> ArrayDict:
        """(n,) metrics of a block of designs; ``machine`` has (u,) metrics of the machines."""
        classes = self._reuse.classes
        machine_index = designs.machine_index
        cache_index = designs.cache_index
        has_details = self.needs_levels or not _DETAILS.isdisjoint(names)
        if not has_details and is_worthwhile(len(machine_index)):
            sums = np.empty((8, len(machine_index)))
            compiled_sums()(machine_index, cache_index, loads, empty_workspace(loads), sums)
        else:
            workspace = empty_workspace(loads, len(machine_index))
            sums = np.stack(
                np.broadcast_arrays(*session_sums(machine_index, cache_index, loads, workspace))
            )
        rate, busy_s, _, first_s, later_s, prefill_joules, written, usd_per_hour = sums
        answers = classes.total(classes.generated_tokens)
        tokens = classes.total(classes.context_tokens + classes.new_tokens) + answers
        dynamic_joules = prefill_joules + answers * machine[_JOULES][machine_index]
        idle_watts = machine["idle_watts"][machine_index] + levels.background_watts[cache_index]
        joules = dynamic_joules + idle_watts / rate
        usd_per_joule = getattr(self.first.prices, "usd_per_joule", np.nan)
        usd = usd_per_hour / 3600.0 / rate + joules * usd_per_joule
        metrics = {
            "sessions_per_s": rate,
            "first_turn_time_to_first_token_s": first_s,
            "later_turn_time_to_first_token_s": later_s,
            "usd_per_million_asked_tokens": usd / tokens * 1e6,
            "tdp_watts": machine["tdp_watts"][machine_index] + levels.peak_watts[cache_index],
        }
        seldom: dict[str, Callable[[], FloatArray]] = {
            "output_tokens_per_s": lambda: rate * answers,
            "loaded_time_per_output_token_s": lambda: (
                busy_s * machine[BATCH_SIZE][machine_index] / answers
            ),
            "energy_joules_per_asked_token": lambda: joules / tokens,
            "unit_cost_usd": lambda: (
                machine["unit_cost_usd"][machine_index] + levels.price_usd[cache_index]
            ),
            _TPOT: lambda: machine[_TPOT][machine_index],
            CONCURRENT: lambda: machine[CONCURRENT][machine_index],
        }
        metrics |= {name: value() for name, value in seldom.items() if name in names}
        if has_details:
            metrics |= hit_metrics(designs, loads, self._reuse, workspace.hits)
            wear = workspace.levels[5]
            written_per_s = np.where(wear > 0, written * rate, 0.0)
            metrics["cache_lifetime_years"] = lifetime_years(written_per_s, wear)
            costs = {
                "joules": dynamic_joules, "idle_watts": idle_watts,
                "usd_per_hour": machine["standing_usd_per_hour"][machine_index],
                "wear": wear[: len(loads.hits)].max(axis=0),
                "outer_usd": levels.price_usd[cache_index],
            }  # fmt: skip
            metrics |= self._pool_metrics(costs, sums, workspace.levels)
        return metrics

    def _answer_costs(self, machine: Arrays) -> ArrayPair:
        """(u,) seconds and joules of a token of an answer."""
        return machine[_TPOT], machine[_JOULES]

    def _pool_metrics(self, costs: Arrays, sums: FloatArray, levels: FloatArray) -> Arrays:
        """(n,) further metrics of machines that only prefill.

        Args:
            costs: (n,) joules of a session, watts at rest, price of an hour, wear of a byte, and
                price of the outer caches.
            sums: (8, n) those of :func:`session_sums`.
            levels: (7, l, n) fields of the levels.
        """
        return {}

    # --- bounds --------------------------------------------------------------------------------

    def best_case(
        self,
        designs: Columns,
        undecided: Domains,
        metrics: Strings,
    ) -> Arrays:
        """(n,) bounds over all completions of a design: sessions on the machine's best cases."""
        split = split_designs(designs)
        distinct_machines, number = distinct_of(split.machines, _SOFTWARE)
        passed = [name for name in self._passed if name in metrics]
        needed = [name for name in self._needed if name != "memory_used_bytes"]
        decode = self.first.best_case(distinct_machines, undecided, [*needed, *passed])
        costs = self._prefill_costs(
            split.machines,
            lambda distinct_machines: {
                key: machine.best_case(distinct_machines, undecided, [_TTFT, _JOULES])
                for key, machine in self.members.items()
                if key
            },
        )
        values = {name: rows[number] for name, rows in decode.items()}
        request = self.first.workload
        machines = split.machines
        kv_bytes, weight_bytes = (
            _least(machines, undecided, name, request.format_convention)
            for name in ("kv_format", "weight_format")
        )
        used = request.weight_elements * weight_bytes + self._batch(machines) * (
            request.kv_elements_per_request * kv_bytes + request.state_bytes_per_request
        )
        bounded = [name for name in metrics if name not in _UNBOUNDED]
        bounds = self._composed(split, values, costs, used, undecided, bounded) | {
            name: values[name][split.machine_index] for name in passed if name in values
        }
        return {name: bounds[name] for name in bounded if name in bounds}

    def explain(self, designs: Columns) -> Explanation | None:
        """The account of the decoding machine, with the metrics of sessions."""
        account = self.first.explain(distinct_of(designs, _SOFTWARE)[0])
        if account is None:
            return None
        evaluation = self.evaluate(designs)
        metrics = first_values(evaluation.metrics)
        usd, watts = (
            metrics[name] - account.metrics.get(name, np.nan)
            for name in ("unit_cost_usd", "tdp_watts")
        )
        costs = list(account.costs)
        power = list(account.power)
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
            notes=(*account.notes, "operators, power and memory levels are those of a decode "
                   "step; metrics are those of whole sessions"),
        )  # fmt: skip


def _counts(designs: Columns, name: str, default: int) -> FloatArray:
    """(n,) values of a count that the design or else the workload states."""
    if name in designs:
        return designs[name].lookup(float)
    return np.full(n_designs(designs), float(default))


def _least(designs: Columns, undecided: Domains, name: str, convention: Any) -> FloatArray:
    """(n,) least bytes of an element in a format that may be undecided."""

    def width(value: object) -> float:
        return bits_per_element(str(value), convention) / 8.0

    if name in designs:
        return designs[name].lookup(width)
    return np.full(n_designs(designs), min(map(width, undecided[name])))
