"""The ``command`` evaluator: a program that reads a design and writes its numbers.

Each design has a fresh folder, in which its files are written and the program runs. Nothing that
the program does raises: what it fails to report is the design's failure. A time limit, and an end
to programs that never end, come from the guard (``codesign.search.execution.guard``).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from codesign.base import plugins
from codesign.base.columns import Arrays, Columns, Fields, FloatDict, Strings
from codesign.base.errors import InputError, Mistake, describe_unknown
from codesign.base.evaluator import Evaluation, Evaluator, Offer
from codesign.base.failures import Failure
from codesign.base.metrics import Metric, chosen_metrics
from codesign.base.records import drop_none
from codesign.base.schema import Document, Record, parse_record
from codesign.evaluators.command.command_options import (
    CheaperModel,
    CommandOptions,
    CommandWorkload,
    TemplateFile,
)
from codesign.evaluators.command.confinement import check_within, is_confined
from codesign.evaluators.command.numbers import Outputs, UnreadableOutputError
from codesign.evaluators.command.placeholders import filled, fixed_values, unknown_placeholders
from codesign.evaluators.command.program import MOST_OUTPUT_BYTES, ProgramRun, run_program

SCRATCH = "CODESIGN_SCRATCH"
"""Environment variable with the folder in which designs have theirs; the guard sets it."""
_MOST_LOGGED = 4000
"""Characters of each output that go into the log."""

_logger = logging.getLogger(__name__)


class CommandEvaluator(Evaluator):
    """A program as an evaluator, for any design space.

    It may have a cheaper model of its metrics, another evaluator; designs that this model knows to
    be impossible are not searched.

    Limiting assumption: the program gives the same numbers for the same design.

    Args:
        workload: Any keys.
        options: The program, its files, its metrics.
        parameters: Parameters of the design space; see :meth:`use_parameters`. The cheaper model
            is built with them.
    """

    Workload = CommandWorkload
    Options = CommandOptions

    def __init__(
        self,
        workload: CommandWorkload,
        options: CommandOptions,
        parameters: Strings | None = None,
    ) -> None:
        self._workload = workload
        self._options = options
        self._values = fixed_values(workload.model_dump(mode="json"), options.version)
        self._templates = {
            name: _read(definition.template)
            for name, definition in options.write.items()
            if isinstance(definition, TemplateFile)
        }
        self._digests = {Path(file).name: _digest(file) for file in options.files}
        self.optional_parameters = frozenset(parameters or ())
        self.metrics = tuple(
            Metric(name, definition.sense, definition.unit, definition.meaning)
            for name, definition in options.metrics.items()
        )
        self._predictor: Evaluator | None = None
        if options.predicted_by is not None and parameters is not None:
            self._predictor = _predictor(options.predicted_by, workload, parameters)

    def offers(self, method: Offer) -> bool:
        """True if the program has it; predictions need a cheaper model."""
        has_model = method != "predict" or self._predictor is not None
        return has_model and super().offers(method)

    def use_parameters(self, names: Strings) -> Evaluator:
        """The evaluator for a design space with these parameters.

        Raises:
            InputError: A placeholder has no value, or the cheaper model does not fit.
        """
        placeholders = {*names, *self._values}
        problems = [
            Mistake(problem, ("run",))
            for argument in self._options.run
            for problem in unknown_placeholders(argument, placeholders)
        ]
        problems += [
            Mistake(problem, ("write", name))
            for name, text in self._templates.items()
            for problem in unknown_placeholders(text, placeholders)
        ]
        if problems:
            raise InputError(problems)
        return CommandEvaluator(self._workload, self._options, names)

    def known_violations(self, designs: Columns) -> Arrays:
        """The violations that the cheaper model knows; none are known without one."""
        if self._predictor is None:
            return {}
        return self._predictor.known_violations(_columns_of(self._predictor, designs))

    def evaluate(self, designs: Columns, metrics: Strings | None = None) -> Evaluation:
        """Run the program for ``n`` designs, one after the other.

        Raises:
            UnknownNameError: A metric that is not declared.
            JobError: The program cannot be started.
        """
        declared = self.metric_names
        names = chosen_metrics(metrics, declared)
        columns = {name: column.decoded() for name, column in designs.items()}
        n = len(next(iter(columns.values()), []))
        numbers = {name: np.full(n, np.nan) for name in (*declared, *self._options.limits)}
        failures = {}
        for i in range(n):
            answer = self._design({name: values[i] for name, values in columns.items()})
            if isinstance(answer, Failure):
                failures[i] = answer
                continue
            for name, number in answer.items():
                numbers[name][i] = number
        return Evaluation(
            {name: numbers[name] for name in names},
            {
                **self.known_violations(designs),
                **{name: numbers[name] for name in self._options.limits},
            },
            failures,
        )

    def provenance(self) -> Fields:
        """Command line, texts of templates, digests of files, version, reading of the output, and
        the cheaper model, on which the search depends."""
        options = self._options.model_dump(
            mode="json", by_alias=True, exclude={"files", "write", "keep"}
        )
        model = self._predictor
        return {
            "workload": self._workload.model_dump(mode="json"),
            "options": options,
            "files": self._digests,
            "write": {name: self._templates.get(name, "json") for name in self._options.write},
            **({} if model is None else {"predicted_by": model.provenance()}),
        }

    def predict(self, designs: Columns, metrics: Strings) -> Arrays:
        """(n,) each, the metrics named as the cheaper model has them."""
        model = self._predictor
        known_as = self._options.predicted_by
        if model is None or known_as is None:
            return {}
        theirs = {name: known_as.metrics.get(name, name) for name in metrics}
        evaluation = model.evaluate(_columns_of(model, designs), list(theirs.values()))
        return {name: evaluation.metrics[their_name] for name, their_name in theirs.items()}

    def _design(self, design: Fields) -> FloatDict | Failure:
        """The numbers of one design."""
        parent = os.environ.get(SCRATCH)
        if parent is not None:
            Path(parent).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="design-", dir=parent))
        is_kept = False
        try:
            self._prepare(folder, design)
            values = {**self._values, **design}
            command = [filled(argument, values) for argument in self._options.run]
            program_run = run_program(command, folder, self._options.environment)
            _logger.info("design %s: exit code %d", json.dumps(design), program_run.code)
            for name, text in (("stdout", program_run.stdout), ("stderr", program_run.stderr)):
                if text.strip():
                    _logger.info("%s: %s", name, text.rstrip()[-_MOST_LOGGED:])
            answer = self._answer(folder, program_run)
            keeps = {"none": False, "failed": isinstance(answer, Failure), "all": True}
            is_kept = keeps[self._options.keep]
            return answer
        finally:
            if not is_kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _prepare(self, folder: Path, design: Fields) -> None:
        for file in self._options.files:
            place = folder / Path(file).name
            if is_confined():  # it could not follow a link
                shutil.copy(file, place)
            else:
                place.symlink_to(Path(file).resolve())
        present = drop_none(design)
        workload = self._workload.model_dump(mode="json")
        for name in self._options.write:
            if name in self._templates:
                text = filled(self._templates[name], {**self._values, **design})
            else:
                text = json.dumps({"design": present, "workload": workload}, indent=2) + "\n"
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def _answer(self, folder: Path, program_run: ProgramRun) -> FloatDict | Failure:
        if program_run.is_cut:
            return Failure("bad-output", f"printed more than {MOST_OUTPUT_BYTES >> 20} MiB")
        if program_run.code in self._options.infeasible_exit_codes:
            return Failure("infeasible", program_run.end)
        if program_run.code:
            return Failure("failed", program_run.end)
        outputs = Outputs(folder, program_run)
        numbers = {}
        sources = {
            name: (definition.source, definition.unit)
            for name, definition in self._options.metrics.items()
        }
        sources |= {name: (source, "") for name, source in self._options.limits.items()}
        for name, (source, unit) in sources.items():
            try:
                numbers[name] = outputs.number(source, unit)
            except UnreadableOutputError as error:
                return Failure("bad-output", f"{name}: {error}")
        return numbers


def _predictor(model: CheaperModel, workload: CommandWorkload, parameters: Strings) -> Evaluator:
    def record(record_class: type[Record], data: Fields) -> Record:
        return parse_record(Document("predicted_by", dict(data), {}), record_class)

    factory = plugins.load("evaluators", model.name, "predicted_by")
    stated = workload.model_dump(mode="json") if model.workload is None else model.workload
    evaluator: Evaluator = factory(
        record(factory.Workload, stated), record(factory.Options, model.options)
    )
    missing = sorted(evaluator.required_parameters - set(parameters))
    if missing:
        raise InputError(
            f"the space lacks {', '.join(missing)}, which {model.name!r} requires",
            key=("predicted_by",),
        )
    metric_names = evaluator.metric_names
    problems = [
        f"predicted_by: {describe_unknown('metric', name, metric_names)}"
        for name in model.metrics.values()
        if name not in metric_names
    ]
    if problems:
        raise InputError(problems)
    return evaluator


def _columns_of(evaluator: Evaluator, designs: Columns) -> Columns:
    """The parameters that an evaluator uses."""
    used = evaluator.required_parameters | evaluator.optional_parameters
    return {name: column for name, column in designs.items() if name in used}


def _read(path: str) -> str:
    check_within(path)
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as UTF-8 text") from error


def _digest(path: str) -> str:
    check_within(path)
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
