"""Answers that need no evaluation: those of a sample, in memory, and in a file while it is made."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

from codesign.base.columns import IntArray
from codesign.base.errors import StoreError
from codesign.base.failures import Failure
from codesign.base.loop_progress import LoopProgress
from codesign.search.execution.answers import (
    Answer,
    Evaluate,
    EvaluateEach,
    answers_of,
    observed_answers,
    plain_answer,
    read_answer,
)
from codesign.search.execution.result_store import canonical
from codesign.search.observations import Observations
from codesign.search.problem import Problem


class KnownAnswers:
    """Designs whose answers are known, failures among them: they are not asked again."""

    def __init__(self, problem: Problem, observations: Observations) -> None:
        self._problem = problem
        keys = problem.space.keys(observations.rows).tolist()
        self._answers = dict(zip(keys, answers_of(problem, observations), strict=True))

    def evaluate(self, rows: IntArray, inner: Evaluate) -> Observations:
        """The observations of designs; ``inner`` evaluates those that are not known."""
        keys = self._problem.space.keys(rows).tolist()
        missing = [i for i, key in enumerate(keys) if key not in self._answers]
        if len(missing) == len(rows):
            return inner(rows)
        answers = {i: self._answers[key] for i, key in enumerate(keys) if i not in set(missing)}
        if missing:
            computed = answers_of(self._problem, inner(rows[missing]))
            answers |= dict(zip(missing, computed, strict=True))
        return observed_answers(self._problem, rows, [answers[i] for i in range(len(rows))])


class AnswerFile:
    """A sample while it is evaluated: each answer is durable as it ends, failures too.

    One line of JSON with its checksum for each answer; of two about one design the later counts. A
    line that was cut short is evaluated again, and so is all if the file belongs to another
    problem.

    Args:
        retries_failed: Evaluate designs again that failed before.
    """

    def __init__(self, path: Path, problem: Problem, retries_failed: bool = False) -> None:
        self._path = path
        self._problem = problem
        self._belongs_to = canonical(problem.provenance())
        self._is_begun = False
        self.answers: dict[str, Answer | Failure] = {}
        """By the number of the design, as text."""
        self._read()
        if retries_failed:
            failed = [key for key, answer in self.answers.items() if isinstance(answer, Failure)]
            for key in failed:
                del self.answers[key]

    def evaluate(self, rows: IntArray, inner: EvaluateEach) -> Observations:
        """The observations of designs; ``inner`` evaluates the missing ones.

        Args:
            rows: (n, d) designs.
            inner: Each answer is stored when it comes.

        Raises:
            StoreError: The file cannot be written.
        """
        keys = [str(key) for key in self._problem.space.keys(rows).tolist()]
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        missing = sorted(i for key, i in first.items() if key not in self.answers)
        if missing:
            n_known = len(first) - len(missing)
            with LoopProgress("reference sample", len(first), n_known) as loop:
                for position, observations in inner(rows[missing]):
                    (answer,) = answers_of(self._problem, observations)
                    self._append(keys[missing[position]], answer)
                    loop.advance()
        return observed_answers(self._problem, rows, [self.answers[key] for key in keys])

    def _read(self) -> None:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        for number, line in enumerate(lines):
            checksum, _, text = line.partition(" ")
            is_whole = checksum == _checksum(text)
            if number == 0:
                if not (is_whole and text == self._belongs_to):
                    return
                self._is_begun = True
            elif is_whole:
                key, answer = json.loads(text)
                self.answers[key] = read_answer(answer)

    def _append(self, key: str, answer: Answer | Failure) -> None:
        self.answers[key] = answer
        try:
            with self._path.open("a" if self._is_begun else "w", encoding="utf-8") as file:
                # A cut line would swallow the next one.
                start = "\n" if self._is_begun else ""
                texts = [] if self._is_begun else [self._belongs_to]
                texts.append(canonical([key, plain_answer(answer)]))
                file.write(start + "\n".join(f"{_checksum(text)} {text}" for text in texts))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot be written: {error.strerror}", str(self._path)) from error
        self._is_begun = True


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
