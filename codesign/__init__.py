"""Multi-objective co-design of memory and compute for LLM-inference accelerators."""

__version__ = "0.1.0"
