"""How fast the tool is on this machine: ``codesign bench``."""

from codesign.benchmark.benchmark import FULL, QUICK, benchmark
from codesign.benchmark.timing import Effort

__all__ = ["FULL", "QUICK", "Effort", "benchmark"]
