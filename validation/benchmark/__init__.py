"""Speed of the tool on this machine: ``python -m validation bench``."""

from validation.benchmark.benchmark import FULL, QUICK, benchmark
from validation.benchmark.timing import Effort

__all__ = ["FULL", "QUICK", "Effort", "benchmark"]
