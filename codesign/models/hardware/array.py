"""Cycles of the matrix array.

Three organizations are modelled. The *flattened* array of PLENA, which MemExplorer extends,
multiplies a (BLEN x MLEN) by a (MLEN x BLEN) block in BLEN cycles, MLEN x BLEN
multiply-accumulates each; columns of heads narrower than MLEN share its depth. The *systolic*
array is the R x C grid of SCALE-Sim [Samajdar2018]_, whose three mappings keep one operand in the
grid. The *ideal* array wastes nothing: a bound, and the stand-in for a GPU's many small tensor
cores. All functions broadcast.

.. [PLENA] Wu et al., "Combating the Memory Walls: Optimization Pathways for Long-Context Agentic
   LLM Inference", arXiv:2509.09505. Its simulator (``analytic_models/performance/perf_model.py``,
   decode) spends one instruction, BLEN + 2 cycles, on a tile of MLEN keys of a KV head.
.. [Samajdar2018] Samajdar et al., "SCALE-Sim: Systolic CNN Accelerator Simulator",
   arXiv:1811.02883, §II; runtime of one fold, 2R + C + T - 2.
.. [ScaleSim3] The simulator ``scalesim`` 3.0 on PyPI, ``compute/systolic_compute_os.py``: the
   trace of an output-stationary fold ends R + C + T - 2 cycles after its start. Its other two
   mappings follow the paper (checked by ``validation.studies.scalesim_study``).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, Floats, IntArray

Dataflow = Literal["ws", "is", "os"]
DATAFLOWS: tuple[Dataflow, ...] = ("ws", "is", "os")
"""Weight-, input- and output-stationary."""
Organization = Literal["flattened", "systolic", "ideal"]
ORGANIZATIONS: tuple[Organization, ...] = ("flattened", "systolic", "ideal")
"""Organizations of the array's multiply-accumulate units."""


Drain = Literal["shifted", "direct"]
"""Exit of the sums of an output-stationary fold from the grid. It is ``direct``, each as it is
finished, as SCALE-Sim 3 has it [ScaleSim3]_ and the default here. Or it is ``shifted`` down through
the grid, R cycles after the last is finished, as its first paper has it [Samajdar2018]_."""


def column_slots(
    k: FloatArray, depth: FloatArray, organization: IntArray, is_per_head: BoolArray
) -> FloatArray:
    """Columns of a product that one array works on side by side in its depth.

    The operands of a head are stored so that one cycle takes ``depth`` of their elements: where
    a head is narrower than that, several of its columns (the keys of several positions)
    [PLENA]_. Weights that all tokens share are stored whole columns deep and padded, and a
    systolic grid has no slots.

    Args:
        k: Inner size.
        depth: Depth of the array (MLEN).
        organization: Positions in ``ORGANIZATIONS``.
        is_per_head: Whether the product belongs to one head.

    Returns:
        ``max(1, floor(depth / k))`` where columns are packed, else 1.
    """
    slots = np.maximum(1.0, np.floor(depth / np.maximum(k, 1.0)))
    return np.where(is_per_head & (organization != ORGANIZATIONS.index("systolic")), slots, 1.0)


def flattened_cycles(
    m: FloatArray,
    k: FloatArray,
    n: FloatArray,
    depth: FloatArray,
    width: FloatArray,
    slots: Floats = 1.0,
) -> FloatArray:
    """Cycles of an (m x k) by (k x n) product on a flattened array.

    A cycle streams one column, or ``slots`` of them side by side, past ``width`` rows. A block ends
    after its last column, so columns need no padding; rows and the inner size do. Limiting
    assumption: filling and draining the array is hidden behind the next block. The dataflow changes
    the traffic, not the cycles. As the array takes ``depth`` operands a cycle, streaming k x n
    weights past one row takes k n / depth cycles.

    Args:
        m: Rows of the result; in attention, tokens times the query heads that share the keys.
        k: Inner size.
        n: Columns of the result, of all products whose columns may stand side by side.
        depth: MLEN, the reduction in a cycle.
        width: BLEN, the rows of a block.
        slots: Columns side by side in the depth, see :func:`column_slots`.

    Returns:
        Cycles; ``ceil(m/width) ceil(k/depth) ceil(n/slots)``.
    """
    return np.ceil(m / width) * np.ceil(k / depth) * np.ceil(n / slots)


def padded_cycles(
    m: FloatArray,
    k: FloatArray,
    n: FloatArray,
    depth: FloatArray,
    width: FloatArray,
    slots: Floats = 1.0,
) -> FloatArray:
    """Cycles of one product in PLENA's instructions [PLENA]_, which work on whole blocks.

    The arguments are those of :func:`flattened_cycles`.

    Returns:
        Cycles; ``ceil(m/width) ceil(k/depth) ceil(n/(slots width)) width``.
    """
    return flattened_cycles(m, k, np.ceil(n / (slots * width)) * width, depth, width)


def filled_rows(m: FloatArray, width: FloatArray) -> FloatArray:
    """Share of the array's rows that hold data while a product of ``m`` rows runs."""
    return m / np.maximum(np.ceil(m / width) * width, 1.0)


def systolic_cycles(
    m: FloatArray,
    k: FloatArray,
    n: FloatArray,
    rows: FloatArray,
    columns: FloatArray,
    dataflow: Dataflow,
    drain: Drain = "direct",
) -> FloatArray:
    """Cycles of an (m x k) by (k x n) product on an R x C systolic array.

    Limiting assumption: folds follow one another without overlap, as in SCALE-Sim; memory never
    stalls the array.

    Args:
        m: Rows of the result.
        k: Inner size.
        n: Columns of the result.
        rows: R.
        columns: C.
        dataflow: Operand that stays in the grid.
        drain: Way in which finished sums leave under ``os``; the other dataflows ignore it.

    Returns:
        ``(2R + C + T - 2) ceil(S_R/R) ceil(S_C/C)``, where the mapping gives (S_R, S_C, T):
        os (m, n, k), ws (k, n, m), is (k, m, n); R less in each fold for os with direct drain.
    """
    spatial_rows, spatial_columns, temporal = {
        "os": (m, n, k),
        "ws": (k, n, m),
        "is": (k, m, n),
    }[dataflow]
    folds = np.ceil(spatial_rows / rows) * np.ceil(spatial_columns / columns)
    # Under ws and is the first R cycles load what stays; under os the last R shift the sums out.
    crossings = 1 if dataflow == "os" and drain == "direct" else 2
    return np.asarray((crossings * rows + columns + temporal - 2) * folds)


def ideal_cycles(
    m: FloatArray, k: FloatArray, n: FloatArray, depth: FloatArray, width: FloatArray
) -> FloatArray:
    """Cycles of an (m x k) by (k x n) product if every unit works in every cycle."""
    return m * k * n / (depth * width)
