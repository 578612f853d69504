"""The designs of a page that have charts of their own, and these charts.

They are packed apart from the rest of the page, because they are cut when the page would grow too
large. Requested, named and recommended designs come first, then designs spread along the front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from codesign.answers.json_values import json_text
from codesign.base.columns import Fields, IntegerList, IntegerSequence, StringDict, Strings, evenly
from codesign.base.errors import InputError, JobError, UnknownNameError
from codesign.base.loop_progress import counted
from codesign.base.records import drop_keys, drop_none, frozen
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.uncertainty.uncertainty_results import Swing
from codesign.report.design_charts import scales_of
from codesign.report.machine_charts import die_span_mm
from codesign.report.marked_designs import MarkedDesigns
from codesign.report.page.carried_designs import Carried
from codesign.report.page.design_html import Account, design_html
from codesign.report.page.packing import packed
from codesign.search.campaign import Results

MOST_EXPLAINED = 120
"""[ours] Designs of the front beside those to choose from; each takes up to a quarter of a second,
and a reader waits."""
MOST_CHOICES = 100
"""[ours] Designs to choose from that have charts in any case."""
_MOST_NAMED = 12
_MARGIN = 0.97
"""[ours] Fewer designs compress a little worse, each."""

Design = Fields


@frozen
class Explainer:
    """The ways to explain designs.

    Attributes:
        explain: Explains one design by its parameters; may raise ``JobError``.
        vary: Gives, for designs, the effect of each technology number's range on every metric;
            None if the evaluator has no such ranges.
    """

    explain: Callable[[Design], EvaluatedDesign]
    vary: Callable[[Sequence[Design]], Sequence[Mapping[str, Sequence[Swing]]]] | None = None


@dataclass
class Explained:
    """Accounts of the designs of one page, each worked out once.

    Attributes:
        carried: Designs of the page.
        marked: Designs with a name.
        requested_numbers: Numbers, from 0, of the designs that the reader named.
        picks: Numbers of the recommended designs.
        explainer: Explains the designs; None if the evaluator cannot.
    """

    results: Results
    carried: Carried
    marked: MarkedDesigns | None
    requested_numbers: IntegerSequence
    picks: IntegerSequence
    explainer: Explainer | None
    _accounts: dict[int, Account | None] = field(default_factory=dict)

    def packed_charts(self, room_bytes: float) -> str:
        """The charts as packed text that fits the room, of as many front designs as fit.

        The requested, named and recommended designs are there in any case.
        """
        n_front = min(self.carried.n_front, MOST_EXPLAINED)
        while True:
            text = packed(json_text(self.fragments(n_front), indent=None))
            if len(text) <= room_bytes or not n_front:
                return text
            n_front = int(_MARGIN * n_front * max(room_bytes, 0.0) / len(text))

    def accounts(self, n_front: int) -> dict[int, Account]:
        """Account by the number of the design, with so many designs spread along the front."""
        spread = evenly(np.arange(self.carried.n_front), n_front).tolist()
        numbers = {*spread, *self.picks, *self.requested_numbers}
        n = len(self.carried.positions)
        designs: dict[int, Design] = {
            front_number: self.results.design(int(self.carried.positions[front_number]))
            for front_number in sorted(numbers)
            if front_number < n
        }
        for marked_number, design in enumerate(self.marked.designs if self.marked else ()):
            if marked_number < _MOST_NAMED or n + marked_number in self.requested_numbers:
                designs[n + marked_number] = drop_none(design)
        self._explain(drop_keys(designs, self._accounts))
        accounts = ((number, self._accounts[number]) for number in designs)
        return {number: account for number, account in accounts if account is not None}

    def fragments(self, n_front: int) -> StringDict:
        """HTML by the number of the design; all of them share their scales."""
        accounts = self.accounts(n_front)
        designs = [account.evaluated for account in accounts.values()]
        scales = scales_of(designs)
        span = die_span_mm(designs)
        metrics = self.results.problem.objective_names
        return {
            str(number): design_html(account, metrics, scales, span)
            for number, account in accounts.items()
        }

    def _explain(self, designs: Mapping[int, Design]) -> None:
        if self.explainer is None:
            self._accounts |= dict.fromkeys(designs)
            return
        vary = self.explainer.vary
        swings = vary(list(designs.values())) if vary and designs else [{}] * len(designs)
        jobs = list(zip(designs.items(), swings, strict=True))
        for (number, design), design_swings in counted(jobs, "designs to explain"):
            try:
                account = Account(self.explainer.explain(design), design_swings)
            except JobError:
                # The evaluator gives up on it: the page says that it is not explained.
                self._accounts[number] = None
            else:
                self._accounts[number] = account


def parse_design_numbers(
    names: Strings, carried: Carried, marked: MarkedDesigns | None
) -> IntegerList:
    """Numbers on the page, from 0, of designs as a reader of the page would name them.

    Args:
        names: Such as ``12``, ``#12``, or ``P1`` of the campaign's space.
        carried: Designs of the page.
        marked: Designs with a name.

    Raises:
        InputError: There is no such design.
    """
    n = len(carried.positions)
    named = {name: n + k for k, name in enumerate(marked.names)} if marked else {}
    numbers = f"1 to {n:,}, the numbers of the page" if n else "none, the page has no design"
    design_numbers = []
    for name in names:
        number = name.strip().removeprefix("design ").removeprefix("#")
        if name in named:
            design_numbers.append(named[name])
        elif not number.isdecimal():
            raise UnknownNameError("design", name, [*named, f"({numbers})"], "--design")
        elif 1 <= int(number) <= n:
            design_numbers.append(int(number) - 1)
        else:
            raise InputError(f"expected {numbers}, got {number}", "--design")
    return design_numbers
