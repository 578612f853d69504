"""Evaluators: designs in, metrics and violations out, a batch at a time.

An evaluator is a pure function of the designs and of what it was built with: no clock, no
randomness, no files, no globals while evaluating. It knows nothing of search.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Literal

from codesign.base.columns import (
    Arrays,
    Columns,
    Domains,
    Fields,
    FloatMap,
    FloatPair,
    JsonObject,
    StringList,
    StringMap,
    Strings,
    StringTuple,
    Value,
)
from codesign.base.errors import InputError
from codesign.base.explanation_rows import CostRow, FloorplanRow, LevelRow, OperatorRow, PowerRow
from codesign.base.failures import Failure as Failure  # plug-ins find it here
from codesign.base.metrics import Metric
from codesign.base.records import frozen
from codesign.base.schema import Record


@frozen
class Evaluation:
    """Results of a batch of ``n`` designs.

    Attributes:
        metrics: (n,) values by metric name. NaN marks a design without that result.
        violations: (n,) values by name of a limit; ``<= 0`` is within it.
        failures: Reason by position, for designs on which the evaluator gave up. Their other
            numbers are ignored. Plain text is a :class:`Failure` of kind ``failed``.
    """

    metrics: Arrays
    violations: Arrays = field(default_factory=dict)
    failures: Mapping[int, str | Failure] = field(default_factory=dict)


@frozen
class Explanation:
    """One design in full, for people: rows of plain values, ready to print or to write as JSON.

    ``explanation_rows.py`` has the keys of the rows.

    Attributes:
        violations: Limits; ``<= 0`` is within.
        operators: One row per operator: work, time, bound, traffic by level, energy.
        levels: One row per memory level: what it is, what lives there, what crosses it.
        power: One row per component: TDP and average watts.
        notes: The assumptions that limit the numbers.
        timing_notes: By component of ``power``, the note that states over how much time its energy
            is counted.
        costs: One row per block or part of one device: its area and its price; None where absent or
            unknown.
        floorplan: Rectangles of the blocks of one device; empty where an area is unknown.
        ranges: Lowest and highest value of each metric whose error was measured, by name; 90 % of
            the measurements lie between them.
        timeline: For a system, one row per pool and hand-over: its utilization, and when a request
            that never waits is there.
        pass_s: How long one pass takes; None if the evaluator has no passes.
    """

    metrics: FloatMap
    violations: FloatMap
    operators: Sequence[OperatorRow]
    levels: Sequence[LevelRow]
    power: Sequence[PowerRow]
    notes: Strings = ()
    timing_notes: StringMap = field(default_factory=dict)
    costs: Sequence[CostRow] = ()
    floorplan: Sequence[FloorplanRow] = ()
    timeline: Sequence[Fields] = ()
    ranges: Mapping[str, FloatPair] = field(default_factory=dict)
    pass_s: float | None = None


@frozen
class PoolDescription:
    """A pool of a system, as an evaluator of systems is given it.

    Attributes:
        name: Stands before the names of its parameters in the system's designs.
        parameters: The parameters of one machine, without the pool's name.
        choices: Values that each of them may have.
    """

    name: str
    role: str
    parameters: StringTuple
    choices: Domains = field(default_factory=dict)


@frozen
class LinkDescription:
    """A link that joins two pools; its parameters begin with its name.

    Attributes:
        sender: Name of a pool.
        receiver: Name of a pool.
    """

    name: str
    sender: str
    receiver: str


@frozen
class PoolAccount:
    """One machine of a pool, explained by itself.

    Attributes:
        evaluator_name: Name under which its evaluator is registered.
        evaluator: Evaluator of the machine.
        explanation: Account of the machine, always busy.
    """

    evaluator_name: str
    evaluator: Evaluator
    explanation: Explanation


@frozen
class PoolPrices:
    """Prices of the machines of a pool beside those that their metrics state.

    Attributes:
        usd_per_hour_of_capital: Part of a price that falls on an hour of serving.
        usd_per_joule: Price of electricity; nothing where the machines' rent includes it.
        kgco2e_per_joule: CO2 equivalents of electricity.
    """

    usd_per_hour_of_capital: float
    usd_per_joule: float
    kgco2e_per_joule: float

    def joule_price(self, unit: str) -> float:
        """Dollars (``usd``) or CO2 equivalents (``kgco2e``) of electricity."""
        return self.usd_per_joule if unit == "usd" else self.kgco2e_per_joule


Offer = Literal[
    "explain", "features", "predict", "best_case", "superseded", "keep_limits", "technologies",
    "replace_library", "join_pools", "compose",
]  # fmt: skip
"""Methods whose default does nothing; :meth:`Evaluator.offers` tells which an evaluator has."""


class Evaluator:
    """The base class of evaluators; ``codesign.testing.check_evaluator`` tests its contract.

    A class is registered in the entry-point group ``codesign.evaluators`` and is built as
    ``Class(workload, options)`` from its two records, which the campaign file fills under
    ``workload:`` and ``evaluator:``. It states the first five attributes and defines ``evaluate``
    and ``provenance``. Everything else has a default that stands for "none".
    """

    Workload: ClassVar[type[Record]] = Record
    """Keys of a campaign's ``workload:``."""
    Options: ClassVar[type[Record]] = Record
    """Keys of a campaign's ``evaluator:`` next to ``name:``."""
    metrics: tuple[Metric, ...] = ()
    """Every metric that ``evaluate`` can report."""
    required_parameters: frozenset[str] = frozenset()
    """Parameters that a design space must have."""
    optional_parameters: frozenset[str] = frozenset()
    """Parameters that are used if the space has them; any other is refused."""

    workload: Record | None = None
    """The record from which it was built, for explanations."""
    options: Record | None = None
    """The options with which it was built, for explanations."""
    is_noisy: bool = False
    """True if results are noisy, as those of measurements and of random simulations are. Designs
    that are nearly the same then differ by more than they should. A design that is evaluated again
    still has the same results, in whatever batch."""
    is_slow: bool = False
    """True if a design takes so long that tables of its passes should have few points."""
    metrics_for_pools: frozenset[str] = frozenset()
    """Names from ``metrics.POOL_METRICS`` that ``evaluate`` takes besides the declared ones."""
    kept_limits: frozenset[str] | None = None
    """Metrics on which a limit may change a choice of ``keep_limits``; None: any metric."""
    undecided_parameters: StringTuple = ()
    """Parameters that ``best_case`` may be left without, in the order in which to decide them:
    the most telling first."""
    kept_by_pools: frozenset[str] = frozenset()
    """Metrics for which the system meets a limit if and only if every pool meets it."""

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        """Metrics of a batch; only those named, if names are given.

        Raises:
            UnknownNameError: A metric, or a name in the designs, that the evaluator does not know.
        """
        raise NotImplementedError

    def provenance(self) -> Fields:
        """Everything that the results depend on besides the designs, as plain JSON values."""
        raise NotImplementedError

    def known_violations(self, designs: Columns) -> Arrays:
        """The violations that cost (almost) nothing to know; searched designs satisfy them."""
        return {}

    def offers(self, method: Offer) -> bool:
        """True if a method has more than its default, which does nothing."""
        return getattr(type(self), method) is not getattr(Evaluator, method)

    @property
    def metric_names(self) -> StringList:
        """Names of the metrics."""
        return [metric.name for metric in self.metrics]

    @property
    def profile(self) -> str | None:
        """The named set of conventions in force, such as ``plain``, by default an option; None:
        there is only one."""
        return getattr(self.options, "profile", None)

    @property
    def prices(self) -> PoolPrices | None:
        """Prices of links and electricity, if the standing price and carbon and the wear of
        ``metrics.POOL_METRICS`` are reported."""
        return None

    def convention_modules(self) -> Strings:
        """Full names of the modules of conventions that are found by their name."""
        return ()

    def absent_metrics(self, values: Domains) -> StringMap:
        """The reason why a metric has no value for some designs, by its name.

        Args:
            values: Values that each parameter of a design space may have.
        """
        return {}

    def use_parameters(self, names: Strings) -> Evaluator:
        """The evaluator for a design space with these parameters.

        Raises:
            InputError: They do not fit; the key of a mistake is the option that it is about.
        """
        return self

    # --- explanation ---------------------------------------------------------------------------

    def explain(self, designs: Columns) -> Explanation | None:
        """The full account of a batch of one."""
        return None

    def explain_pools(self, designs: Columns) -> Mapping[str, PoolAccount]:
        """One machine of each pool, by name of the pool, of a batch of one system."""
        return {}

    # --- hints for optimizers ------------------------------------------------------------------

    def features(self, designs: Columns) -> Arrays:
        """(n,) finite numbers that cost (almost) nothing, such as a peak rate, always of the same
        names.

        Only designs within the violations known before evaluation are asked about, in any batch.
        """
        return {}

    def predict(self, designs: Columns, metrics: Strings) -> Arrays:
        """(n,) finite numbers, the metrics named as a far cheaper model has them.

        A metric that the model does not have is left out, for all designs alike. Only designs
        within the violations known before evaluation are asked about, in any batch.
        """
        return {}

    # --- bounds for exact enumeration ----------------------------------------------------------

    def best_case(
        self,
        designs: Columns,
        undecided: Domains,
        metrics: Strings,
    ) -> Arrays:
        """Bounds by metric, (n,): no completion of a design is better in the metric's own sense.

        Metrics that cannot be bounded are absent. After ``keep_limits``, the bounds cover only
        completions that keep these limits.

        Args:
            designs: Columns of all parameters but the undecided ones.
            undecided: The values that each undecided parameter may take.
            metrics: Names of the metrics of interest.
        """
        return {}

    def least_violations(self, designs: Columns, undecided: Domains) -> Arrays:
        """Lower bounds of known violations by name, (n,), over all completions of a design.

        Violations that the decided parameters do not bound are absent. The arguments are those of
        :meth:`best_case`.
        """
        return {}

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        """A key for each value of a parameter, be it decided or not: in every design, values of
        equal keys give the same metrics and violations to the last bit."""
        return range(len(values))

    def superseded(self, values: Domains, objectives: Strings) -> Mapping[str, Sequence[bool]]:
        """For each parameter, a mask of values that another value always dominates.

        With that other value, a design has the same violations; it has no metric that is worse, and
        one of the objectives is strictly better.

        Args:
            values: Values of every parameter of the space.
            objectives: Metrics that are objectives in their own sense.
        """
        return {}

    # --- choices of the evaluator --------------------------------------------------------------

    def keep_limits(self, limits: FloatMap) -> Evaluator:
        """The same evaluator, choosing (such as batch sizes) within these limits and no others.

        Args:
            limits: Largest value allowed, by metric, or the least for a metric to maximize; limits
                on metrics that no choice changes are ignored.
        """
        return self

    def choosing_metrics(self, parameters: Collection[str]) -> frozenset[str]:
        """Metrics on which a limit may change a choice, in designs with these parameters."""
        return frozenset()

    # --- numbers with ranges -------------------------------------------------------------------

    def technologies(self) -> Fields:
        """The memory technologies in use, by name."""
        return {}

    def replace_library(self, library: Fields) -> Evaluator:
        """The same evaluator with other memory technologies under the same names."""
        return self

    def constant_ranges(self, metrics: Strings) -> Fields:
        """The ranges, by name, of the evaluator's constants that any of these metrics depends on,
        beside those of technologies."""
        return {}

    def replace_constants(self, values: FloatMap) -> Evaluator:
        """The same evaluator with these values of the constants named."""
        return self

    # --- systems of pools ----------------------------------------------------------------------

    @property
    def monotone_metrics(self) -> frozenset[str]:
        """Metrics that never get worse if a pool's metrics get better, each in its own sense."""
        return frozenset()

    def join_pools(
        self, pools: Sequence[PoolDescription], links: Sequence[LinkDescription]
    ) -> Evaluator:
        """The evaluator of systems with these pools and links.

        Raises:
            InputError: The evaluator cannot serve its workload with them; the key of a mistake
                is that of the space, such as ``("pools", "decode")``.
        """
        return self

    def pool_evaluators(self) -> Mapping[str, Evaluator]:
        """The evaluator of one machine by name of the pool; its designs are those of the pool."""
        return {}

    def pool_metrics(self, metrics: Strings) -> Mapping[str, Strings]:
        """The metrics of each pool's evaluator that decide on metrics of systems, by pool."""
        return {}

    def pool_limits(self, limits: FloatMap) -> Mapping[str, FloatMap]:
        """Limits on each pool's metrics that every system within limits keeps, by pool.

        Args:
            limits: Worst value allowed of metrics of systems.
        """
        return {}

    def compose(
        self,
        pools: Mapping[str, Arrays],
        shared: Arrays,
        metrics: Strings,
    ) -> Arrays:
        """(n,) metrics of systems, by the same arithmetic as ``evaluate``.

        Args:
            pools: (n,) values of the pools' metrics, by name of the pool and of the metric.
            shared: (n,) values of the parameters that belong to no machine.
            metrics: Names of monotone metrics.
        """
        return {}


def checked_evaluator(evaluator: object, name: str) -> Evaluator:
    """The evaluator, if its class derives from :class:`Evaluator`.

    Raises:
        InputError: It does not, as of a plug-in that only has the methods.
    """
    if isinstance(evaluator, Evaluator):
        return evaluator
    module = f"{Evaluator.__module__}.{Evaluator.__qualname__}"
    raise InputError(
        f"evaluator {name!r}: expected a class derived from {module}, "
        f"got {type(evaluator).__name__}, which is not"
    )


def reading_of(name: str, evaluator: Evaluator, options: Fields) -> JsonObject:
    """The reading of a design: the evaluator's name, its profile if it has any, its options.

    Args:
        name: Name under which the evaluator is registered.
        options: Options that the caller stated; the evaluator or its profile chooses the others.
    """
    profile = {} if evaluator.profile is None else {"profile": evaluator.profile}
    return {"name": name, **profile, **options}
