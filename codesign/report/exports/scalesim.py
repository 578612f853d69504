"""A design and its workload for SCALE-Sim 3 [ScaleSim3]_: configuration, GEMM topology, layout.

Three files, named after the first: ``NAME.cfg``, ``NAME_gemm.csv`` and ``NAME_layout.csv``, run as
``scalesim -c NAME.cfg -t NAME_gemm.csv -l NAME_layout.csv -i gemm``.

.. [ScaleSim3] The simulator ``scalesim`` on PyPI, version 3; Samajdar et al., arXiv:1811.02883.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from codesign.answers.json_values import json_text
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.models.workload import Request
from codesign.report.chosen import ChosenDesign
from codesign.report.exports.design_files import (
    Written,
    commented,
    flat_memory_notes,
    format_notes,
    need_tiers,
    write_texts,
)
from codesign.report.machine import Machine

_N_LAYOUT_FIELDS = 20
"""Numbers of a line of the layout file, which is required and, without custom layouts, unused."""
_LONG_RUN_CYCLES = 5e6
"""SCALE-Sim steps through some 5,000 cycles a second: this is a quarter of an hour."""

CONFIGURATION = """\
[general]
run_name = {name}

[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
# kB
IfmapSramSzkB = {share_kb}
FilterSramSzkB = {share_kb}
OfmapSramSzkB = {share_kb}
IfmapOffset = 0
FilterOffset = 1000000000
OfmapOffset = 2000000000
Dataflow = {dataflow}
# elements per cycle, where the interface has USER's
Bandwidth = {bandwidth}
ReadRequestBuffer = 512
WriteRequestBuffer = 512

[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2

[sparsity]
SparsitySupport = false

[run_presets]
InterfaceBandwidth = {interface}
UseRamulatorTrace = False
"""
"""Settings of SCALE-Sim 3 at its defaults for offsets, request buffers and banks."""


@frozen
class ScaleSimProduct:
    """A matrix product of a pass.

    Attributes:
        m: Rows.
        n: Columns.
        k: Inner size.
        times: How often it runs in one pass.
    """

    name: str
    m: int
    n: int
    k: int
    times: float


def write_scalesim(design: ChosenDesign, path: Path) -> Written:
    """Three files; ``path`` is that of the configuration.

    Raises:
        InputError: No on-chip or off-chip memory, no dataflow, or an evaluator whose workload
            has no operators.
    """
    need_tiers(design, "SCALE-Sim")
    machine = design.machine
    if machine.sram_level is None or not machine.dataflow:
        lacking = "an on-chip memory" if machine.sram_level is None else "a dataflow"
        raise InputError(f"SCALE-Sim needs {lacking}, the design has none", design.title)
    products = products_of(design.evaluated, design.title)
    bits = max(machine.operand_bits)
    folds = sum(
        math.ceil(p.k / machine.array_rows) * math.ceil(p.n / machine.array_columns) * p.m
        for p in products
    )
    notes = [
        *flat_memory_notes(machine),
        *format_notes(machine, bits),
        "a layer NAME_xT stands for T equal products of one pass; the simulator runs it once. "
        "Sizes that are means (tokens per expert, context of a decode step) are rounded up",
        "SCALE-Sim models a systolic grid; norms, softmax and everything else of the vector unit "
        "are left out, and so is energy",
        "its three buffers get a third of the on-chip memory each, which codesign does not split",
        f"bandwidth: elements of {bits} bits per cycle of {machine.clock_hz:.6g} Hz, all off-chip "
        "tiers together",
        "banks, request buffers and address offsets are SCALE-Sim's own defaults",
    ]
    if folds > _LONG_RUN_CYCLES:
        notes.append(
            f"at least {folds:.2g} cycles to simulate: at some 5,000 cycles a second that takes "
            "hours; shorten the workload or keep a few layers"
        )
    head = commented(
        [
            f"{design.title}: {design.words}",
            *(f"Note: {note}" for note in notes),
            "Provenance:",
            *json_text(design.provenance()).splitlines(),
        ]
    )
    name = path.stem
    listed = [
        f"{product.name}_x{product.times:.6g}, {product.m}, {product.n}, {product.k},\n"
        for product in products
    ]
    fields = [
        f"{product.name}_x{product.times:.6g}{',1' * _N_LAYOUT_FIELDS},\n" for product in products
    ]
    texts = {
        path: head + "\n" + configuration_of(name, machine),
        path.parent / f"{name}_gemm.csv": "Layer, M, N, K,\n" + "".join(listed),
        path.parent / f"{name}_layout.csv": (
            f"Layer{',x' * _N_LAYOUT_FIELDS},\n" + "".join(fields)
        ),
    }
    return Written(write_texts(texts), tuple(notes))


def configuration_of(name: str, machine: Machine) -> str:
    """SCALE-Sim's configuration of a machine with an on-chip memory and a dataflow."""
    assert machine.sram_level is not None  # the caller has looked
    bits = max(machine.operand_bits)
    elements = machine.offchip_bandwidth_bytes_per_s * 8 / bits / machine.clock_hz
    return CONFIGURATION.format(
        name=name.replace(" ", "-"),
        rows=machine.array_rows,
        columns=machine.array_columns,
        share_kb=max(1, math.floor(machine.sram_level.capacity_bytes / 3 / 1024)),
        dataflow=machine.dataflow,
        bandwidth=max(1, math.floor(elements)),
        interface="USER",
    )


def products_of(evaluated: EvaluatedDesign, title: str) -> list[ScaleSimProduct]:
    """Every product of one pass, equal ones once.

    Args:
        evaluated: The design with its workload.
        title: Of the design, for messages.

    Raises:
        InputError: The workload has no matrix products.
    """
    workload = evaluated.workload
    if not isinstance(workload, Request):
        raise InputError("SCALE-Sim needs a workload with matrix products", title)
    table = workload.operators()
    # The requests of a batch are prefilled one after the other.
    is_decode = workload.phase == "decode"
    batch = np.array([evaluated.metrics["batch_size"] if is_decode else 1.0])
    rows = table.rows_per_product(batch)
    repeats = table.n_products(batch)
    return [
        ScaleSimProduct(
            name=name,
            m=math.ceil(rows[i]),
            n=math.ceil(table.n[i]),
            k=math.ceil(table.k[i]),
            times=float(table.count[i] * repeats[i]),
        )
        for i, name in enumerate(table.names)
        if table.m_per_request[i] > 0 and table.k[i] > 0
    ]
