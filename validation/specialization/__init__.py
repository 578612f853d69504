"""Gain of machines for one phase each over machines that are all alike, by workload.

Exact fronts of systems answer: of a prefill and a decode pool with designs of their own, and of
systems of one design. Nothing is sampled.
"""

from validation.specialization.trace_answers import TraceAnswer, answer_traces

__all__ = ["TraceAnswer", "answer_traces"]
