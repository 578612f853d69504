"""Which designs of a page have a diagram and breakdowns, and what they are.

They are packed apart from the rest of the page, because they are what is cut when the page would
grow too large: first come those that were asked for, the named and the recommended ones, then
designs of the front, evenly spaced if it has more than fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.answers.json_values import to_json_text
from codesign.base.errors import InputError, JobError, UnknownNameError
from codesign.base.loop_progress import counted
from codesign.insight.uncertainty.uncertainty_results import Swing
from codesign.report.page.carried_designs import Carried, Named, evenly
from codesign.report.page.design_account import Account, account_document
from codesign.report.page.packing import packed

if TYPE_CHECKING:
    from codesign.insight.evaluated_design import EvaluatedDesign
    from codesign.search.campaign import Results

MOST_EXPLAINED = 1_000
"""[ours] Designs of the front; at a hundredth of a second each, what a reader waits for."""
_MOST_NAMED = 12
_MARGIN = 0.97
"""[ours] Fewer designs compress a little worse, each."""

Design = Mapping[str, Any]


@dataclass(frozen=True)
class Explainer:
    """How designs are explained.

    Attributes:
        explain: One design by its parameters; may raise ``JobError``.
        vary: Of designs, what the range of each technology number does to every metric; None
            if the evaluator has no such ranges.
    """

    explain: Callable[[Design], EvaluatedDesign]
    vary: Callable[[Sequence[Design]], Sequence[Mapping[str, Sequence[Swing]]]] | None = None


@dataclass
class Explained:
    """Accounts of the designs of one page, each worked out once.

    Attributes:
        carried: Designs of the page.
        named: Designs with a name.
        requested_numbers: Numbers, from 0, of the designs that the reader named.
        picks: Numbers of the recommended designs.
        explainer: How designs are explained; None if they are not.
    """

    results: Results
    carried: Carried
    named: Named | None
    requested_numbers: Sequence[int]
    picks: Sequence[int]
    explainer: Explainer | None
    _known: dict[int, dict[str, Any] | None] = field(default_factory=dict)

    def within(self, room_bytes: float) -> str:
        """The accounts, packed, of as many designs as there is room for.

        Those that were asked for, the named ones and the recommended ones are there in any case.
        """
        of_front = min(self.carried.n_front, MOST_EXPLAINED)
        while True:
            accounts = self.accounts(of_front)
            text = packed(to_json_text(accounts, indent=None))
            if len(text) <= room_bytes or not of_front:
                return text
            of_front = int(_MARGIN * of_front * max(room_bytes, 0.0) / len(text))

    def accounts(self, of_front: int = MOST_EXPLAINED) -> dict[str, Any]:
        """Account by the number of the design, with so many designs evenly along the front."""
        spread = evenly(np.arange(self.carried.n_front), of_front).tolist()
        designs = self._designs({*spread, *self.picks, *self.requested_numbers})
        self._explain({k: v for k, v in designs.items() if k not in self._known})
        return {str(number): self._known[number] for number in designs if self._known[number]}

    def _designs(self, numbers: Iterable[int]) -> dict[int, Design]:
        """Designs by their number on the page, the named ones too."""
        n = len(self.carried.positions)
        designs: dict[int, Design] = {
            number: self.results.design(int(self.carried.positions[number]))
            for number in sorted(numbers)
            if number < n
        }
        if self.named:
            for k, design in enumerate(self.named.designs):
                if k < _MOST_NAMED or n + k in self.requested_numbers:
                    designs[n + k] = {key: x for key, x in design.items() if x is not None}
        return designs

    def _explain(self, designs: Mapping[int, Design]) -> None:
        if self.explainer is None:
            self._known |= dict.fromkeys(designs)
            return
        metrics = self.results.problem.objective_names
        vary = self.explainer.vary
        swings = vary(list(designs.values())) if vary and designs else [{}] * len(designs)
        known = list(zip(designs.items(), swings, strict=True))
        for (number, design), of_design in counted(known, "designs to explain"):
            try:
                account = Account(self.explainer.explain(design), of_design)
            except JobError:
                # The evaluator gives up on it: the page says that it is not explained.
                self._known[number] = None
            else:
                self._known[number] = account_document(account, metrics)


def parse_design_numbers(names: Sequence[str], carried: Carried, named: Named | None) -> list[int]:
    """Numbers on the page, from 0, of designs as a reader of the page would name them.

    Args:
        names: Such as ``12``, ``#12``, or ``P1`` of the campaign's space.
        carried: Designs of the page.
        named: Designs with a name.

    Raises:
        InputError: There is no such design.
    """
    n = len(carried.positions)
    called = {name: n + k for k, name in enumerate(named.names)} if named else {}
    numbers = f"1 to {n:,}, the numbers of the page" if n else "none, the page has no design"
    design_numbers = []
    for name in names:
        number = name.strip().removeprefix("design ").removeprefix("#")
        if name in called:
            design_numbers.append(called[name])
        elif not number.isdecimal():
            raise UnknownNameError("design", name, [*called, f"({numbers})"], "--design")
        elif 1 <= int(number) <= n:
            design_numbers.append(int(number) - 1)
        else:
            raise InputError(f"expected {numbers}, got {number}", "--design")
    return design_numbers
