"""The finding of a benchmark, ``results/performance.json``."""

from __future__ import annotations

from codesign.base.columns import Fields
from codesign.evaluators.npu.compiled import COMPILE_AFTER, LOAD_AFTER, SWITCH
from validation.benchmark.benchmark_tables import benchmark_tables
from validation.findings import Finding, Part

_TEXT = f"""Timings on a machine that others use err upwards only. So one core is timed by the
processor time of the process, the best of a few repeats, which is wall time where nothing else
runs; neighbours still cost caches and the other half of a core. Two cores are two processes timed
by the wall from the first one's start to the last one's end; where something else runs, they show
it.

## What is done for it

- **Batches.** A design is a row of small integers; what depends on one parameter is looked up once
  per value, a memory level once per technology and number of stacks, cycles and streams of the
  array once per array, dataflow and batch size.
- **One loop over designs and operators**, compiled by numba (`pip install 'codesign[fast]'`). It
  calls the functions that also work on NumPy arrays: there is one copy of every equation. As all
  their operations are correctly rounded and sums are taken in the same order, both ways give the
  same bits; a test holds them to it over whole spaces. Results do not depend on numba.
- **Eight operators at once.** The loop has no branch that depends on an operator, and operators lie
  in blocks of eight, so that the compiler uses the widest registers of the processor.
- **Two more loops for dies and prices.** Yields are powers, which are not correctly rounded, so
  NumPy computes them between the loops; a number of dies is priced only where a lower bound says
  that it may be the cheapest.
- **Repetitions.** Designs of a chunk that differ only in vector length, or in formats of equal
  width, share placement, traffic and time: these are worked out once and gathered. The first 1,024
  designs of a batch tell in 0.1 ms whether it pays to look for them.
- **Starting late.** Importing numba and loading the loop costs about 0.6 s of CPU, compiling it
  6 s. A process begins on NumPy and loads the loop after {LOAD_AFTER:,} designs, or compiles it
  after {COMPILE_AFTER:,}. `{SWITCH}=1` starts it at once, `0` never. The machine code
  lies in the user's cache folder (`$XDG_CACHE_HOME/codesign`) under a name made from the content of
  the source, so an edited formula is never run in its old form.
- **Memory is kept.** With the loop loaded, glibc is told to keep what a batch frees, up to 64 MiB:
  handed back to the system, each page would cost a fault in the next batch.

A *sweep* is random designs, each followed by all its vector lengths and formats (320 designs, 8
of them distinct to the operators). *All metrics* are every metric that the evaluator reports.
"""


def benchmark_finding(measured: Fields) -> Finding:
    """The finding of what :func:`validation.benchmark.benchmark` returned."""
    about = "\n".join(
        f"- {name}: {value}" for name, value in measured["about"].items() if value is not None
    )
    sections: list[Part] = [about, *_TEXT.strip().split("\n\n")]
    for table in benchmark_tables(measured):
        sections += [f"## {table.title}", table, *([table.note] if table.note else [])]
    introduction = "How fast codesign is, and why."
    return Finding("Performance", introduction, "python -m validation bench", sections)
