"""What an evaluator is: designs in, metrics and violations out, a batch at a time.

An evaluator is a pure function of the designs and of what it was built with: no clock, no
randomness, no files, no globals while evaluating. It knows nothing of search.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from codesign.base.columns import Columns, FloatArray, Value
from codesign.base.explanation_rows import CostRow, LevelRow, OperatorRow, PowerRow
from codesign.base.failures import Failure as Failure  # plug-ins find it here
from codesign.base.metrics import Metric
from codesign.base.schema import Record


@dataclass(frozen=True)
class Evaluation:
    """Results of a batch of ``n`` designs.

    Attributes:
        metrics: (n,) values by metric name. NaN marks a design without that result.
        violations: (n,) values by name of a limit; ``<= 0`` is within it.
        failures: Reason by position, for designs on which the evaluator gave up. Their other
            numbers are ignored. Plain text is a :class:`Failure` of kind ``failed``.
    """

    metrics: Mapping[str, FloatArray]
    violations: Mapping[str, FloatArray] = field(default_factory=dict)
    failures: Mapping[int, str | Failure] = field(default_factory=dict)


@dataclass(frozen=True)
class Explanation:
    """One design in full, for people: rows of plain values, ready to print or to write as JSON.

    ``explanation_rows.py`` has the keys of the rows.

    Attributes:
        violations: Limits; ``<= 0`` is within.
        operators: One row per operator: work, time, bound, traffic by level, energy.
        levels: One row per memory level: what it is, what lives there, what crosses it.
        power: One row per component: TDP and average watts.
        notes: The assumptions that limit the numbers.
        timing_notes: By component of ``power``, the one of ``notes`` that says in how much time
            its energy is counted.
        costs: One row per block or part of one device: its area and its price; None where it has
            none of the two, or nobody knows it.
        ranges: Lowest and highest value of metrics whose errors were measured, by name: 90 % of the
            measurements lie between.
        timeline: Of a system, one row per pool and hand-over: when a request that waits for nobody
            is there, and how busy it is.
        pass_s: How long one pass takes; None if the evaluator has no passes.
    """

    metrics: Mapping[str, float]
    violations: Mapping[str, float]
    operators: Sequence[OperatorRow]
    levels: Sequence[LevelRow]
    power: Sequence[PowerRow]
    notes: Sequence[str] = ()
    timing_notes: Mapping[str, str] = field(default_factory=dict)
    costs: Sequence[CostRow] = ()
    timeline: Sequence[Mapping[str, Any]] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    pass_s: float | None = None


@runtime_checkable
class Evaluator(Protocol):
    """The contract; ``codesign.testing.check_evaluator`` tests it.

    A class is registered in the entry-point group ``codesign.evaluators`` and is built as
    ``Class(workload, options)`` from its two records, which the campaign file fills under
    ``workload:`` and ``evaluator:``.
    """

    Workload: ClassVar[type[Record]]
    """What a campaign's ``workload:`` may say."""
    Options: ClassVar[type[Record]]
    """What a campaign's ``evaluator:`` may say next to ``name:``."""

    metrics: tuple[Metric, ...]
    """Every metric that ``evaluate`` can report."""
    required_parameters: frozenset[str]
    """Parameters that a design space must have."""
    optional_parameters: frozenset[str]
    """Parameters that are used if the space has them; any other is refused."""

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        """The violations that cost (almost) nothing to know; searched designs satisfy them."""
        ...

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        """Metrics of a batch; only those named, if names are given.

        Raises:
            UnknownNameError: A metric, or a name in the designs, that the evaluator does not know.
        """
        ...

    def provenance(self) -> Mapping[str, Any]:
        """Everything that the results depend on besides the designs, as plain JSON values."""
        ...


@runtime_checkable
class KeepsRecords(Protocol):
    """An evaluator that keeps the records that it was built from, for whoever explains it."""

    workload: Record
    options: Record


@runtime_checkable
class Explains(Protocol):
    """An evaluator that can show how one design's numbers come about."""

    def explain(self, designs: Columns) -> Explanation:
        """The full account of a batch of one."""
        ...


@runtime_checkable
class TakesParameters(Protocol):
    """An evaluator for any design space, such as a program that others wrote."""

    def with_parameters(self, names: Sequence[str]) -> Evaluator:
        """The evaluator for a design space with these parameters.

        Raises:
            InputError: They do not fit; the key of a mistake is the option that it is about.
        """
        ...


@runtime_checkable
class HasProfile(Protocol):
    """An evaluator with several named sets of conventions, under which the same design has
    different numbers: whatever shows results names the one in force."""

    @property
    def profile(self) -> str:
        """The profile in force, such as ``plain``."""
        ...


@runtime_checkable
class UsesConventions(Protocol):
    """An evaluator that finds conventions by their name, on whose code its answers depend too."""

    def convention_modules(self) -> Sequence[str]:
        """Full names of the modules of the classes in use."""
        ...


def profile_of(name: str, evaluator: object) -> str:
    """The profile of an evaluator, or else the name under which it is registered."""
    return evaluator.profile if isinstance(evaluator, HasProfile) else name


def reading_of(name: str, evaluator: Evaluator, options: Mapping[str, Any]) -> dict[str, Any]:
    """How an evaluator reads a design: its ``name``, its ``profile`` if it has any, its options.

    Args:
        name: Name under which the evaluator is registered.
        options: Options that the caller stated; the evaluator or its profile chooses the others.
    """
    profile = {"profile": evaluator.profile} if isinstance(evaluator, HasProfile) else {}
    return {"name": name, **profile, **options}


@runtime_checkable
class Bounds(Protocol):
    """An evaluator that can tell cheaply what designs cannot reach, so that whole blocks of a
    space can be left out of an exact enumeration (``codesign.search.enumeration``)."""

    undecided_parameters: tuple[str, ...]
    """Parameters that ``best_case`` may be left without, in the order in which to decide them:
    those that tell most first."""

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        """A key for each value of a parameter, be it decided or not: in every design, values of
        equal keys give the same metrics and violations to the last bit."""
        ...

    def best_case(
        self,
        designs: Columns,
        undecided: Mapping[str, Sequence[Value]],
        metrics: Sequence[str],
    ) -> Mapping[str, FloatArray]:
        """(n,) of each metric that can be bounded, a value that no completion of a design beats
        in the metric's own sense.

        Args:
            designs: Columns of all parameters but the undecided ones.
            undecided: The values that each of the others may take.
            metrics: Names of the metrics of interest.
        """
        ...


@runtime_checkable
class Supersedes(Protocol):
    """An evaluator that knows values of a parameter that are never better than another value, so
    that an exact enumeration need not look at designs with them."""

    def superseded(
        self, values: Mapping[str, Sequence[Value]], objectives: Sequence[str]
    ) -> Mapping[str, Sequence[bool]]:
        """By parameter, which of its values another of them beats whatever the rest of the design.

        With that other value, a design has the same violations; it has no metric that is worse, and
        one of the objectives is strictly better.

        Args:
            values: Of every parameter of the space.
            objectives: Metrics that are objectives in their own sense.
        """
        ...


@runtime_checkable
class Features(Protocol):
    """An evaluator that knows numbers about designs long before their results, such as a peak
    rate or a capacity, from which optimizers that model the results learn faster."""

    def features(self, designs: Columns) -> Mapping[str, FloatArray]:
        """(n,) finite numbers by name, always of the same names; costs (almost) nothing.

        Only designs within the violations known before evaluation are asked about, in any batch.
        """
        ...


@runtime_checkable
class Predicts(Protocol):
    """An evaluator that has a far cheaper model of what it computes, so that optimizers need to
    learn only what that model gets wrong."""

    def predict(self, designs: Columns, metrics: Sequence[str]) -> Mapping[str, FloatArray]:
        """(n,) finite numbers, the metrics named as the cheaper model has them.

        A metric that the model does not have is left out, for all designs alike. Only designs
        within the violations known before evaluation are asked about, in any batch.
        """
        ...


@runtime_checkable
class Noisy(Protocol):
    """An evaluator that can say that its results are noisy, as those of measurements and of random
    simulations are: designs that are nearly the same then differ by more than they should, and an
    optimizer that models the results need not explain it.

    A design that is evaluated again still has the same results, in whatever batch.
    """

    is_noisy: bool
    """Whether they are, with the options that the evaluator was built with."""


@runtime_checkable
class KeepsLimits(Protocol):
    """An evaluator that chooses something itself, such as a batch size, and can choose so that
    the limits of a problem are kept where a choice keeps them."""

    def within_limits(self, limits: Mapping[str, float]) -> Evaluator:
        """The same evaluator, choosing within these limits and no others.

        Args:
            limits: Largest value allowed, by metric, or the least for a metric to maximize; limits
                on metrics that no choice changes are ignored.
        """
        ...

    def choosing_metrics(self, parameters: Collection[str]) -> frozenset[str]:
        """Metrics on which a limit may change a choice, in designs with these parameters."""
        ...


@runtime_checkable
class NamesKeptLimits(KeepsLimits, Protocol):
    """An evaluator of which is known for which limits it may choose otherwise."""

    kept_limits: frozenset[str]
    """The metrics; a limit on any other changes no metric of a design."""


@dataclass(frozen=True)
class PoolDescription:
    """A pool of a system as an evaluator hears of it.

    Attributes:
        name: Stands before the names of its parameters in the system's designs.
        parameters: The parameters of one machine, without the pool's name.
        choices: Values that each of them may have.
    """

    name: str
    role: str
    parameters: tuple[str, ...]
    choices: Mapping[str, Sequence[Value]] = field(default_factory=dict)


@dataclass(frozen=True)
class LinkDescription:
    """What joins two pools; its parameters begin with its name.

    Attributes:
        sender: Name of a pool.
        receiver: Name of a pool.
    """

    name: str
    sender: str
    receiver: str


@dataclass(frozen=True)
class PoolAccount:
    """One machine of a pool, explained by itself.

    Attributes:
        evaluator_name: Under which its evaluator is registered.
        evaluator: Of the machine.
        explanation: Of the machine, always busy.
    """

    evaluator_name: str
    evaluator: Evaluator
    explanation: Explanation


@runtime_checkable
class ServesPools(Protocol):
    """An evaluator whose designs are systems of pools."""

    def with_pools(
        self, pools: Sequence[PoolDescription], links: Sequence[LinkDescription]
    ) -> Evaluator:
        """The evaluator of systems with these pools and links.

        Raises:
            InputError: The evaluator cannot serve its workload with them; the key of a mistake
                is that of the space, such as ``("pools", "decode")``.
        """
        ...

    def explain_pools(self, designs: Columns) -> Mapping[str, PoolAccount]:
        """By name of the pool, one machine of it, of a batch of one system."""
        ...


@runtime_checkable
class Composed(Protocol):
    """An evaluator of systems whose metrics follow from metrics of their pools, so that exact
    fronts of systems follow from exact fronts of the pools (``codesign.search.enumeration``)."""

    monotone_metrics: frozenset[str]
    """Metrics that never get worse if a pool's metrics get better, each in its own sense."""
    kept_by_pools: frozenset[str]
    """Metrics on which a system keeps a limit exactly if each of its pools keeps that limit on its
    own metric of that name."""

    def pool_evaluators(self) -> Mapping[str, Evaluator]:
        """The evaluator of one machine by name of the pool; its designs are those of the pool."""
        ...

    def pool_metrics(self, metrics: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """By name of the pool, the metrics of its evaluator that decide on metrics of systems."""
        ...

    def pool_limits(self, limits: Mapping[str, float]) -> Mapping[str, Mapping[str, float]]:
        """By name of the pool, limits on its metrics that every system within limits keeps.

        Args:
            limits: Worst value allowed of metrics of systems.
        """
        ...

    def compose(
        self,
        pools: Mapping[str, Mapping[str, FloatArray]],
        shared: Mapping[str, FloatArray],
        metrics: Sequence[str],
    ) -> Mapping[str, FloatArray]:
        """(n,) metrics of systems, by the same arithmetic as ``evaluate``.

        Args:
            pools: (n,) values of the pools' metrics, by name of the pool and of the metric.
            shared: (n,) values of the parameters that belong to no machine.
            metrics: Names of those wanted, monotone ones.
        """
        ...


@runtime_checkable
class HasAccounts(Protocol):
    """An evaluator some of whose metrics need facts that not every technology has."""

    def absent_metrics(self, values: Mapping[str, Sequence[Value]]) -> Mapping[str, str]:
        """Why a metric has no value for some designs, by its name; without those that have one.

        Args:
            values: What each parameter of a design space may be.
        """
        ...
