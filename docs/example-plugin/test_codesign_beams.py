"""The plug-ins keep the contracts of codesign."""

import numpy as np
from codesign_beams import Beam, Spread

from codesign.space import parse_space
from codesign.testing import check_evaluator, check_optimizer

SPACE = """
parameters:
  width: {low: 1, high: 8}
  height: {low: 1, high: 8}
"""


def test_the_evaluator_keeps_its_contract() -> None:
    space = parse_space(SPACE)
    beam = Beam(Beam.Workload(length=3.0), Beam.Options())
    check_evaluator(beam, space.columns(space.sample(np.random.default_rng(0), 50)))


def test_the_optimizer_keeps_its_contract() -> None:
    check_optimizer(Spread)
