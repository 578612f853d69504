"""The evaluator ``benchmark-functions`` and the functions that it has."""

from codesign.evaluators.functions.benchmark_functions import (
    BenchmarkFunctions,
    FunctionOptions,
)
from codesign.evaluators.functions.zdt_and_dtlz import exact_front

__all__ = ["BenchmarkFunctions", "FunctionOptions", "exact_front"]
