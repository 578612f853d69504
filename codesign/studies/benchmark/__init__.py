"""How fast the tool is on this machine: ``codesign bench``."""

from codesign.studies.benchmark.benchmark import FULL, QUICK, benchmark
from codesign.studies.benchmark.timing import Effort

__all__ = ["FULL", "QUICK", "Effort", "benchmark"]
