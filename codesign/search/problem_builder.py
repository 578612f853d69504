"""A checked problem from its parts: objectives and constraints as text, a space, an evaluator.

Everything that does not fit together is said at once, each with its place in the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from codesign.base.columns import StringList, StringPair, Strings
from codesign.base.errors import (
    InputError,
    ProblemList,
    UnusableValueError,
    check_known,
    describe_unknown,
    entry_named,
)
from codesign.base.evaluator import Evaluator, LinkDescription, PoolDescription, checked_evaluator
from codesign.base.metrics import ALL_METRICS, Metric
from codesign.base.units import parse_unit
from codesign.search.derived_metrics import (
    DerivedMetric,
    MetricDefinition,
    Place,
    default_place,
    read_metrics,
)
from codesign.search.problem import Constraint, Objective, Problem, bound_on, located_error
from codesign.space import DesignSpace

_NAMED_IN_PART = {"_utilization", "_sessions_per_s", "_usd_per_million_asked_tokens"}
"""Suffixes of metrics whose prefix is the name of a pool, a link or a workload of a mix."""
_OBJECTIVE = re.compile(r"^\s*(\S+)\s+(\S+)\s*$")


def build_problem(
    space: DesignSpace,
    evaluator: Evaluator | None,
    objectives: Strings,
    constraints: Strings = (),
    evaluator_name: str = "evaluator",
    where: Place = default_place,
    metrics: Mapping[str, MetricDefinition] | None = None,
    earlier: Strings | None = None,
) -> Problem:
    """A checked problem from its parts.

    Args:
        space: With everything fixed that is to be fixed.
        evaluator: Built; None if it has mistakes, which are among the earlier problems: names of
            metrics then are those of all evaluators of this package.
        objectives: Such as ``maximize throughput_tokens_per_s``.
        constraints: Such as ``tdp_watts <= 700``, over metrics, parameters, derived quantities.
        evaluator_name: For messages and provenance.
        where: ``file:line: key`` of ``("space",)``, ``("objectives", 0)``,
            ``("constraints", 0)``, ``("evaluator", OPTION)``, ``("metrics", NAME, "value")``, ...
        metrics: Further metrics by name, computed from those of the evaluator.
        earlier: Problems of the inputs, raised with those of the problem. Set if an input is
            incomplete; checks that need all of it are then left out.

    Raises:
        InputError: With every problem found, the nearest valid choice where there is one.
    """
    problems = ProblemList(earlier or ())
    metrics_read: tuple[Metric, ...] = tuple(ALL_METRICS.values())
    if evaluator is not None:
        evaluator = checked_evaluator(evaluator, evaluator_name)
        with problems.caught():
            evaluator = _parametrized(evaluator, space.names, where)
        try:
            evaluator = share_pools(space, evaluator, evaluator_name, where)
        except InputError as error:  # all else depends on the pools
            raise InputError([*problems, *error.mistakes]) from None
        problems += _parameter_problems(space, evaluator, evaluator_name, where("space"))
        metrics_read = evaluator.metrics
    derived: tuple[DerivedMetric, ...] = ()
    with problems.caught():
        names = {*space.units, *space.categories}
        derived = read_metrics(metrics or {}, metrics_read, names, where)
    metrics_read += tuple(derived_metric.metric for derived_metric in derived)
    unread = {*(metrics or {})} - {metric.name for metric in metrics_read}
    unread |= set() if evaluator else _NAMED_IN_PART
    problem_objectives = []
    conditions = []
    for i, text in enumerate(objectives):
        if not any(name in text for name in unread):
            with problems.caught():
                problem_objectives.append(
                    _read_objective(text, metrics_read, where("objectives", i))
                )
    for i, text in enumerate(constraints):
        if not any(name in text for name in unread):
            with problems.caught():
                conditions.append(
                    read_constraint(text, space, metrics_read, where("constraints", i))
                )
    if objectives or earlier is None:
        problems += _objective_problems(objectives, problem_objectives, where("objectives"))
    if earlier is not None or evaluator is None:
        raise InputError(problems)
    problems += absent_problems(space, evaluator, problem_objectives, conditions, derived)
    problems.raise_any()
    problem = Problem(
        space, evaluator, tuple(problem_objectives), tuple(conditions), evaluator_name, derived
    )
    limits = {
        min(limit.expression.names): limit.bound
        for limit in problem.evaluator_limits
        if limit.bound
    }
    if limits:
        return replace(problem, evaluator=evaluator.keep_limits(limits))
    return problem


def _parametrized(evaluator: Evaluator, names: Strings, where: Place) -> Evaluator:
    """The evaluator for a space's parameters; its problems with the places of its options."""
    try:
        return evaluator.use_parameters(names)
    except InputError as error:
        mistakes = []
        for mistake in error.mistakes:
            path = (*filter(None, [mistake.place]), *mistake.key)
            place = where("evaluator", *path[:1])
            mistakes.append(replace(mistake, key=path[1:], place=place))
        raise InputError(mistakes) from None


def share_pools(
    space: DesignSpace, evaluator: Evaluator, evaluator_name: str, where: Place
) -> Evaluator:
    """The evaluator for the pools of a space; the evaluator itself for a space of machines.

    Raises:
        InputError: One of the two has pools and the other has none, or they do not fit.
    """
    if evaluator.offers("join_pools") != bool(space.pools):
        has, lacks = ("has", "serves none") if space.pools else ("has no", "needs them")
        raise InputError(
            f"space {space.name!r} {has} pools, and evaluator {evaluator_name!r} {lacks}",
            where("space"),
        )
    if not space.pools:
        return evaluator
    values = {parameter.name: parameter.values for parameter in space.parameters}
    pools = [
        PoolDescription(
            pool.name,
            pool.role,
            pool.parameter_names,
            {name: values[pool.full_name(name)] for name in pool.parameter_names},
        )
        for pool in space.pools.values()
    ]
    links = [LinkDescription(x.name, x.sender, x.receiver) for x in space.links]
    try:
        return evaluator.join_pools(pools, links)
    except InputError as error:
        raise InputError(
            [
                replace(mistake, key=(), place=space.where(*map(str, mistake.key)))
                if mistake.key[:1] in (("pools",), ("links",))
                else replace(
                    mistake, place=mistake.place.replace("evaluator", where("evaluator"), 1)
                )
                for mistake in error.mistakes
            ]
        ) from None


def _parameter_problems(
    space: DesignSpace, evaluator: Evaluator, evaluator_name: str, where: str
) -> StringList:
    def prefix(name: str) -> str:
        for pool in space.pools:
            if name.startswith(f"{pool}_"):
                return f"{space.where('pools', pool)}: "
        return f"{where}: "

    names = set(space.names)
    known_names = evaluator.required_parameters
    missing = sorted(known_names - names)
    known_names |= evaluator.optional_parameters
    # A parameter that the evaluator reads is the quantity that its metric reports.
    problems = [
        f"{prefix(name)}parameter {name!r} of space {space.name!r} has the name of a metric of "
        f"evaluator {evaluator_name!r}"
        for name in sorted(names.intersection(evaluator.metric_names) - known_names)
    ]
    problems += [
        f"{prefix(name)}space {space.name!r} lacks parameter {name!r}, "
        f"which evaluator {evaluator_name!r} requires"
        for name in missing
    ]
    problems += [
        f"{prefix(name)}evaluator {evaluator_name!r} does not use a parameter of space "
        f"{space.name!r}: {describe_unknown('parameter', name, known_names)}"
        for name in space.names
        if name not in known_names
    ]
    return problems


def read_sense(text: str, where: str | None) -> StringPair:
    """Sense and name of an objective.

    Raises:
        InputError: The text has another form, or the sense is unknown.
    """
    match = _OBJECTIVE.match(text)
    if match is None:
        raise InputError(f"expected 'minimize METRIC' or 'maximize METRIC', got {text!r}", where)
    check_known("sense", match[1], ("minimize", "maximize"), where)
    return match[1], match[2]


def _read_objective(text: str, is_known: Iterable[Metric], where: str | None) -> Objective:
    sense, name = read_sense(text, where)
    metrics = {metric.name: metric for metric in is_known}
    metric = entry_named("metric", name, metrics, where)
    return Objective(metric, "minimize" if sense == "minimize" else "maximize", where)


def _objective_problems(
    objectives: Strings, problem_objectives: Iterable[Objective], where: str
) -> StringList:
    if not objectives:
        return [f"{where}: expected at least one objective, got none"]
    names = [objective.metric.name for objective in problem_objectives]
    return [
        f"{where}: the metric {name!r} is an objective more than once"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def read_constraint(
    text: str, space: DesignSpace, metrics: Sequence[Metric], where: str | None = None
) -> Constraint:
    """A condition on metrics, parameters or derived quantities, from text.

    Args:
        metrics: All that it may name.

    Raises:
        InputError: It cannot be read, is no condition, or names something unknown.
    """
    units = {metric.name: parse_unit(metric.unit) for metric in metrics}
    expression = space.parse(text, where, units)
    if not expression.is_condition:
        raise InputError(f"expected a condition such as 'tdp_watts <= 700', got {text!r}", where)
    is_known = not expression.names & set(units)
    bounds = (bound_on(metric, metric.sense, expression) for metric in metrics)
    bound = next((bound for bound in bounds if bound is not None), None)
    return Constraint(text, expression, is_known, bound, where)


def absent_problems(
    space: DesignSpace,
    evaluator: Evaluator,
    problem_objectives: Sequence[Objective],
    conditions: Sequence[Constraint],
    derived: Sequence[DerivedMetric] = (),
) -> StringList:
    """Objectives and constraints on metrics that some designs of the space cannot have."""
    values = {parameter.name: parameter.values for parameter in space.parameters}
    try:
        absent = evaluator.absent_metrics(values)
    except UnusableValueError as error:
        return list(located_error(error, space).problems)
    sources = {x.metric.name: x.sources for x in derived}
    used = [(x.where, str(x), frozenset({x.metric.name})) for x in problem_objectives]
    used += [(x.where, x.text, x.expression.names) for x in conditions]
    return [
        f"{where}: {text!r}: {name} has no value for some designs: {absent[name]}"
        for where, text, names in used
        for name in sorted(names.union(*(sources.get(x, ()) for x in names)) & absent.keys())
    ]
