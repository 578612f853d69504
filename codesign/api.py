"""codesign from Python: the few calls behind the command line.

>>> import codesign
>>> base = codesign.evaluate(design="Base", model="llama-3.3-70b", workload="osworld",
...                          phase="prefill")
>>> round(base.metrics["tdp_watts"], 1)
304.1
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codesign.base import notebook, plugins
from codesign.base.columns import FieldRows, Fields, StringList, Strings, first_values
from codesign.base.errors import InputError, JobError, check_known
from codesign.base.evaluator import Evaluator, Explanation
from codesign.base.metrics import chosen_metrics
from codesign.base.records import drop_none, frozen
from codesign.base.schema import Document, parse_record
from codesign.insight.evaluated_design import AssessedDesign, EvaluatedDesign
from codesign.models.memtech import load_library
from codesign.models.workload import load_model
from codesign.report.frames import results_frame
from codesign.report.marked_designs import MarkedDesigns
from codesign.search.pareto import TOLERANCE
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem
from codesign.space import DesignSpace
from codesign.space import load_space as _load_space

if TYPE_CHECKING:
    from codesign.base.columns import IntArray
    from codesign.insight.uncertainty.uncertainty_results import Swing
    from codesign.report.chosen import ChosenDesign
    from codesign.report.page.explained import Explainer
    from codesign.report.page.recommendations import Judge
    from codesign.search.campaign import Campaign, Results
    from codesign.search.observations import Observations
    from codesign.search.study import Study

__all__ = [
    "EvaluatedDesign",
    "build_evaluator",
    "evaluate",
    "load_campaign",
    "load_library",
    "load_model",
    "load_space",
    "plot",
    "prepare",
    "results_frame",
    "write_report",
]


def load_campaign(
    name_or_path: str | Path, folder: Path | None = None, settings: Fields | None = None
) -> Campaign:
    """A campaign with its store, by the name of its definition or the path of the file.

    Args:
        name_or_path: Name of the definition, or path of its file.
        folder: Folder of the campaigns' folders.
        settings: Values that replace those of the file, by dotted key such as ``constraints.0``.

    Raises:
        InputError: The definition or the store cannot be used.
    """
    from codesign.search.campaign import Campaign  # the optimizers' interface comes with it

    return Campaign.load(name_or_path, folder, settings)


def load_space(name_or_path: str | Path) -> DesignSpace:
    """A design space, by name or by the path of its file, over the library's technologies.

    Raises:
        InputError: No such file, or something in it is wrong.
    """
    return _load_space(str(name_or_path), {"memtech": load_library().catalog()})


def build_evaluator(name: str, workload: Fields, options: Fields | None = None) -> Evaluator:
    """An evaluator from plain values, as a campaign file gives them.

    Args:
        name: Under which it is registered.
        workload: What its ``Workload`` record says.
        options: What its ``Options`` record says.

    Raises:
        InputError: A name, key or value that it does not know.
    """
    factory = plugins.load("evaluators", name)
    request = parse_record(Document("workload", dict(workload), {}), factory.Workload)
    settings = parse_record(Document("option", dict(options or {}), {}), factory.Options)
    evaluator: Evaluator = plugins.build(factory, request, settings)
    return evaluator


def evaluate(
    *,
    design: str | Fields,
    space: str | Path | DesignSpace = "memexplorer",
    model: str | None = None,
    workload: str | Fields | None = None,
    phase: str | None = None,
    evaluator: str | Evaluator = "npu",
    options: Fields | None = None,
) -> EvaluatedDesign:
    """One design in full, feasible or not.

    Args:
        design: A name that the space's file gives, or value by parameter.
        space: A design space, its name, or the path of its file.
        model: A bundled language model, or the path of a ``config.json``.
        workload: A named trace, or the keys of the evaluator's workload.
        phase: ``prefill`` or ``decode``.
        evaluator: An evaluator, or the name of one; a built one takes no workload.

    Raises:
        InputError: Something that was given is unknown or does not fit together.
        JobError: The evaluator failed on this design.
    """
    return _prepared(space, model, workload, phase, evaluator, options).explain(design)


def prepare(
    *,
    space: str | Path | DesignSpace = "memexplorer",
    model: str | None = None,
    workload: str | Fields | None = None,
    phase: str | None = None,
    evaluator: str | Evaluator = "npu",
    options: Fields | None = None,
) -> PreparedEvaluator:
    """Build all that does not depend on a design, to evaluate many of them one after the other.

    Where numba is installed the compiled loop is loaded at once, which takes a second, and three
    the first time. Arguments and errors as of :func:`evaluate`, without the design.

    Examples:
        >>> prepared = prepare(model="llama-3.3-70b", workload="osworld", phase="decode")
        >>> prepared.evaluate("D1", ["tdp_watts"]).metrics["tdp_watts"] < 700
        True
    """
    return load_compiled_loop(_prepared(space, model, workload, phase, evaluator, options))


def load_compiled_loop(prepared: PreparedEvaluator) -> PreparedEvaluator:
    """The evaluator, ready for many designs: the compiled loop is loaded if it has one."""
    from codesign.evaluators.npu import NpuEvaluator
    from codesign.evaluators.npu.compiled import load_now
    from codesign.evaluators.system import SystemEvaluator

    if isinstance(prepared.problem.evaluator, NpuEvaluator | SystemEvaluator):
        load_now()
    return prepared


def _prepared(
    space: str | Path | DesignSpace,
    model: str | None,
    workload: str | Fields | None,
    phase: str | None,
    evaluator: str | Evaluator,
    options: Fields | None,
) -> PreparedEvaluator:
    """The evaluator of a few designs, for which no compiled loop is loaded."""
    where = space if isinstance(space, DesignSpace) else load_space(space)
    keys = {"trace": workload} if isinstance(workload, str) else dict(workload or {})
    inputs = {"model": model, "phase": phase, **keys}
    stated_inputs = drop_none(inputs)
    if isinstance(evaluator, str):
        name = evaluator
        built = build_evaluator(evaluator, stated_inputs, options)
    elif isinstance(evaluator, Evaluator):
        name = type(evaluator).__name__
        built = evaluator
    else:
        raise InputError(f"evaluator: expected a name or an evaluator, got {evaluator!r}")
    record = {"evaluator": name, "workload": stated_inputs, "options": options or {}}
    metric = built.metrics[0]
    return PreparedEvaluator(
        build_problem(where, built, [f"{metric.sense} {metric.name}"], (), name), record
    )


def prepare_campaign(campaign: Campaign | Results) -> PreparedEvaluator:
    """The same with space, evaluator, workload and limits of a campaign."""
    definition = campaign.definition
    record = {
        "campaign": definition.name,
        "evaluator": campaign.problem.evaluator_name,
        "workload": definition.workload,
        "options": definition.evaluator.options,
    }
    return PreparedEvaluator(campaign.problem, record)


@frozen
class PreparedEvaluator:
    """Evaluates single designs; see :func:`prepare`.

    Attributes:
        problem: Space, evaluator and the constraints of a campaign.
        inputs: What the caller stated: evaluator, workload, options, campaign.
    """

    problem: Problem
    inputs: Fields

    def evaluate(self, design: str | Fields, metrics: Strings | None = None) -> AssessedDesign:
        """Metrics and limits of one design, by its name or by value of each parameter.

        Args:
            design: As of :func:`codesign.evaluate`.
            metrics: Names of the metrics to compute; all if None.

        Raises:
            InputError: An unknown name, parameter, value or metric.
            JobError: The evaluator failed on this design.
        """
        space = self.problem.space
        row = find_design(space, design)
        names = None
        if metrics is not None:
            chosen_names = chosen_metrics(metrics, self.problem.metric_names)
            names = [*dict.fromkeys([*chosen_names, *self.problem.deciding_metrics])]
        observed = self._observed(row, names)
        shown_names = self.problem.metric_names if metrics is None else metrics
        return AssessedDesign(
            design=space.decode(row)[0],
            metrics={name: float(observed.metrics[name][0]) for name in shown_names},
            violations=first_values(space.violations(row))
            | first_values(observed.violations_by_name),
        )

    def _observed(self, row: IntArray, metrics: Strings | None = None) -> Observations:
        observed = self.problem.evaluate(row, metrics)
        if observed.failures:
            raise JobError(f"the evaluator failed on this design: {observed.failures[0]}")
        return observed

    def explain(self, design: str | Fields) -> EvaluatedDesign:
        """One design with operators, memory levels, power and cost.

        Raises:
            InputError: An unknown name, parameter or value.
            JobError: The evaluator failed on this design.
        """
        return self.explain_row(find_design(self.problem.space, design))

    def explain_row(self, row: IntArray) -> EvaluatedDesign:
        """The same of a (1, d) row of the space."""
        space = self.problem.space
        evaluator = self.problem.evaluator
        explanation = evaluator.explain(space.columns(row))
        if explanation is None:
            observed = self._observed(row)
            limits = first_values(observed.violations_by_name)
            explanation = Explanation(first_values(observed.metrics), limits, (), (), ())
        else:
            metrics = {name: np.array([value]) for name, value in explanation.metrics.items()}
            derived = first_values(self.problem.add_derived(metrics))
            explanation = replace(explanation, metrics={**derived, **explanation.metrics})
        limits = {**first_values(space.violations(row)), **explanation.violations}
        if self.problem.constraints:
            observed = self.problem.evaluate(row, self.problem.deciding_metrics)
            limits |= first_values(observed.violations_by_name)
        return EvaluatedDesign(
            space=space,
            evaluator=evaluator,
            inputs=self.inputs,
            design=space.decode(row)[0],
            derived=first_values(space.derived(row)),
            explanation=explanation,
            violations=limits,
            derived_metrics=self.problem.derived,
        )


def find_design(space: DesignSpace, design: str | Fields) -> IntArray:
    """(1, d) row of a design that is named by the space's file or given by its values.

    Raises:
        InputError: Unknown name, parameter or value.
    """
    if not isinstance(design, str):
        return space.encode(design, "design")
    check_known("design", design, space.designs, f"space {space.name}")
    return space.encode(space.designs[design], f"design {design}")


def choose_design(results: Results, name: str) -> ChosenDesign:
    """A design of a campaign in full: by its number on the front, or by the name that its space
    gives it.

    Raises:
        InputError: No such design; what there is is listed.
        JobError: The evaluator failed on it.
    """
    from codesign.report.chosen import ChosenDesign, find_chosen

    label, row = find_chosen(results, name)
    return ChosenDesign(label, results, prepare_campaign(results).explain_row(row))


def design_of_campaign(campaign: Campaign, name: str) -> tuple[str, Fields]:
    """A design by its number on the front (:meth:`Campaign.front_results`), or by the name that the
    campaign's space gives it: where it stands, in words, and its value by parameter.

    Raises:
        InputError: No such design; no results yet; the definition is not that of the results.
    """
    from codesign.report.chosen import PICK_KEYS, find_chosen, front_number
    from codesign.search.campaign.stored_inputs import StoredEvaluator

    space = campaign.problem.space
    is_on_front = front_number(name) is not None or name in PICK_KEYS
    if name in space.designs or not (is_on_front or campaign.store_path.exists()):
        return f"design {name}", space.decode(find_design(space, name))[0]
    results = campaign.front_results()
    if isinstance(results.problem.evaluator, StoredEvaluator):
        raise InputError(
            f"design {name!r} was evaluated with other inputs than today's: "
            f"{'; '.join(campaign.status().notices)}"
        )
    label, row = find_chosen(results, name)
    return f"design {name}: {label} of {results.front_words}", space.decode(row)[0]


def evaluate_as(campaign: Campaign, design: Fields) -> EvaluatedDesign:
    """One design in full, evaluated as the campaign does, with all limits of the campaign.

    Args:
        campaign: With or without results.
        design: Value by parameter.

    Raises:
        InputError: A value that the campaign's space does not have.
        JobError: The evaluator failed on it.
    """
    return prepare_campaign(campaign).explain(design)


@frozen
class Drawing:
    """A figure that a notebook displays."""

    svg: str
    """Text of the SVG file."""

    def _repr_svg_(self) -> str:
        return self.svg


def plot(results: Results | Study) -> Drawing:
    """Draw the front of a campaign, with the recommended and the named designs, or of a study.

    In a notebook: ``plot(load_campaign("smoke").front_results())``.

    Args:
        results: Results of a campaign, or a study with results.

    Returns:
        A drawing 640 px wide.
    """
    from codesign.report.campaign_charts import front_chart, front_picture, study_chart
    from codesign.report.paper import sheet_text
    from codesign.report.svg import draw
    from codesign.search.study import Study

    if isinstance(results, Study):
        chart = study_chart(results)
    else:
        picture = front_picture(results, marked=evaluate_named(results.problem))
        chart = front_chart(picture, is_narrow=False)
    width = 640.0
    return Drawing(sheet_text([(draw(chart, width), 0.0, 0.0)], width))


notebook.front_figure = lambda results: plot(results).svg


def evaluate_named(problem: Problem) -> MarkedDesigns | None:
    """The named designs of the problem's space with their metrics, to mark them on a front.

    Without those that the problem excludes because it fixes a parameter otherwise. None if there
    are none.
    """

    designs = problem.space.designs
    if not designs:
        return None
    rows = np.concatenate([problem.space.encode(design) for design in designs.values()])
    observed = problem.evaluate(rows)
    return MarkedDesigns(
        list(designs),
        observed.metrics,
        observed.feasible & problem.admits(observed.rows),
        problem.space.decode(rows),
    )


def write_report(
    campaign: Campaign,
    path: str | Path | None = None,
    *,
    designs: Strings = (),
    samples: int | None = None,
    tolerance: float = TOLERANCE,
    every_s: float | None = None,
) -> str:
    """Write a campaign as one HTML page, or as a meeting sheet.

    Args:
        campaign: With results or an exact front.
        path: A sheet if the file ends in ``.pdf``, ``.svg``, ``.png`` or ``.pptx``;
            ``report.html`` in the campaign's folder if None.
        designs: Numbers on the page, or names, of designs that must have charts.
        samples: Draws over the ranges of technologies; 200 if None.
        tolerance: Share within which a design is folded under a cheaper one.
        every_s: Period in seconds after which a page of a running campaign reloads itself.

    Returns:
        State of the campaign that the report shows, such as ``complete``.

    Raises:
        InputError: No results, no such design, or the file cannot be written.
    """
    from codesign.base.files import ending_of
    from codesign.report.drawing import SHEET_FORMATS
    from codesign.report.meeting_sheet import write_sheet
    from codesign.report.page.html_page import write_page
    from codesign.report.page.switches import switches_of

    path = Path(path or campaign.folder / "report.html")
    if (ending := ending_of(path)) not in {"", "html", "htm", *SHEET_FORMATS}:
        listed = ", ".join(f".{name}" for name in ("html", *SHEET_FORMATS))
        raise InputError(f"expected a file that ends in {listed}, got .{ending}", path.name)
    # The state first: what is stored after it was asked for does no harm.
    status = campaign.status()
    is_searched = campaign.store_path.exists()
    results = campaign.results() if is_searched else campaign.front_results()
    is_joined = is_searched and results.exact is not None
    marked = evaluate_named(results.problem)
    explainer = _explainer(results)
    exact = campaign.front_results(results) if is_joined else None
    judge = _judge(results, samples)
    if ending in SHEET_FORMATS:
        flips = _flips(campaign, exact or results, tolerance)
        write_sheet(path, exact or results, marked, explainer, tolerance, judge, flips)
    else:
        kept_front = campaign.stored_kept_front()
        source = exact or results
        front_rows = source.rows[source.front()]
        switches = switches_of(campaign, front_rows) if judge and source.exact else ()
        write_page(
            path, results, status, marked, explainer, every_s, designs, tolerance, exact,
            judge, kept_front, switches,
        )  # fmt: skip
    if status.state != "running":
        campaign.list_files([path])
    return status.state


def _flips(campaign: Campaign, results: Results, tolerance: float) -> StringList:
    """Stored changes of constants that flip the recommendation."""
    from codesign.answers.decisions import DecideAnswer
    from codesign.insight.decisions.decide import decisions_path
    from codesign.report.meeting_sheet import flip_lines

    path = decisions_path(results.problem, tolerance, campaign.variations)
    try:
        return flip_lines(DecideAnswer.model_validate_json(path.read_bytes()), results)
    except (OSError, ValueError):  # none, or of another version
        return []


_SIMULATORS = {"npu": "simulation"}
"""Simulating counterpart of each closed-form evaluator."""


def _judge(results: Results, samples: int | None) -> Judge | None:
    """Second opinions on designs of a campaign: other profiles, and a simulation.

    None for programs and plug-ins, which cannot evaluate hundreds of further designs. None also
    for results whose inputs have changed since.
    """
    from codesign.base.errors import CodesignError
    from codesign.insight.explanation.neighborhood import Reading
    from codesign.models.machines.device.constants import load_constants
    from codesign.models.machines.device.elementwise import ElementwiseConstants
    from codesign.report.labels import percent
    from codesign.report.page.recommendations import BANDWIDTH, SAMPLES, Judge
    from codesign.search.campaign.stored_inputs import StoredEvaluator
    from codesign.search.derived_metrics import definitions_of
    from codesign.search.execution.guard import is_foreign
    from codesign.search.problem_builder import build_problem

    choice = results.definition.evaluator
    problem = results.problem
    if is_foreign(problem.evaluator) or isinstance(problem.evaluator, StoredEvaluator):
        return None
    profile = problem.evaluator.profile
    options = plugins.load("evaluators", choice.name).Options.model_json_schema()["properties"]
    others = [name for name in options.get("profile", {}).get("enum", ()) if name != profile]
    omitted = []
    simplified = [(name, f"profile {name}", choice.name, {"profile": name}) for name in others]
    if choice.name == "npu" and profile == "plain" and "offchip_efficiency" not in choice.options:
        share = load_constants("elementwise", ElementwiseConstants, "gpu").memory
        title = f"{percent(share, 2)} of the off-chip bandwidth"
        simplified.append((BANDWIDTH, title, "npu", {"offchip_efficiency": share}))
    elif any("token/s" in metric.unit for metric in problem.metrics):
        reason = f"evaluator {choice.name} was not compared with measured machines"
        if choice.name == "npu":
            reason = f"profile {profile} or an option fixes the share of the bandwidth"
        omitted.append(f"interval of speeds ({reason})")
    if choice.name in _SIMULATORS:
        simplified.append(("simulation", "simulation", _SIMULATORS[choice.name], {}))
    readings = []
    for name, title, evaluator, changes in simplified:
        try:
            built = build_evaluator(
                evaluator, results.definition.workload, choice.options | changes
            )
            # Rebuilt with the limits within which it chooses.
            reading = build_problem(
                problem.space, built, list(map(str, problem.objectives)),
                [constraint.text for constraint in problem.constraints], evaluator,
                metrics=definitions_of(problem.derived),
            )  # fmt: skip
        except CodesignError as error:
            omitted.append(f"{title} ({str(error).splitlines()[0]})")
        else:
            readings.append(Reading(name, title, reading, is_costly=evaluator != choice.name))
    return Judge(readings, SAMPLES if samples is None else samples, omitted)


def _explainer(results: Results) -> Explainer | None:
    """Explainer of the campaign's designs; None if its evaluator has none."""
    from codesign.insight.uncertainty.uncertainty import design_swings
    from codesign.report.page.explained import Explainer

    problem = results.problem
    if not problem.evaluator.offers("explain"):
        return None

    def vary(designs: FieldRows) -> list[dict[str, tuple[Swing, ...]]]:
        rows = np.concatenate([problem.space.encode(design) for design in designs])
        return design_swings(problem, rows, problem.objective_names)

    explain = prepare_campaign(results).explain
    return Explainer(explain, vary if problem.evaluator.technologies() else None)
