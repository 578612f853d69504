"""The machine keeps the contract of an evaluator, in both phases."""

import numpy as np
import pytest
from codesign_roofline import Roofline

from codesign.models.workload import Request
from codesign.space import parse_space
from codesign.testing import check_evaluator

SPACE = """
parameters:
  tflop_per_s: [100, 500]
  gb_per_s: {low: 100, high: 1000, step: 100}
  gb: [10, 100]
"""


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_evaluator_keeps_its_contract(phase: str) -> None:
    request = Request(model="llama-3-8b", trace="gsm8k", phase=phase, batch=4)
    space = parse_space(SPACE)
    roofline = Roofline(request, Roofline.Options())
    check_evaluator(roofline, space.columns(space.sample(np.random.default_rng(0), 30)))
