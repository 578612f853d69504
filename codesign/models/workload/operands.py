"""The operands of every operator: the data that a unit reads or writes at a port.

A unit is the matrix array where an operator multiplies, else the vector unit. Bytes that a machine
charges at a port are at least those of the operands that are used there.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.models.workload.operator_rules import Access
from codesign.models.workload.operators import OperatorTable

Port = Literal["memory", "on_chip", "scores"]
FormatKey = Literal["weight_format", "activation_format", "kv_format"]


@frozen
class Operand:
    """One kind of operand of all operators of a table.

    Attributes:
        name: Unique among the operands of a table.
        port: ``memory``: stored data, which comes from the tier that holds it, through all ports
            above; ``on_chip``: activations, and stored data that are used once more; ``scores``:
            wherever attention scores travel between array and vector unit.
        format_key: Parameter that states the format of an element; None if an element is a byte
            in the model's own format.
        is_written: Whether the unit writes it.
        access: Order of access of each of the ``o`` operators.
        elements: (..., o) elements of one instance of each operator in one pass.
    """

    name: str
    port: Port
    format_key: FormatKey | None
    is_written: bool
    access: tuple[Access, ...]
    elements: FloatArray


def operands(table: OperatorTable, batch_size: ArrayLike) -> tuple[Operand, ...]:
    """Every operand of a pass, each once.

    Args:
        table: Operators of the pass.
        batch_size: (..., 1) requests processed together, or a scalar.
    """
    stored = [rule.access for rule in table.rules]
    paged: list[Access] = ["paged"] * len(table)
    streamed: list[Access] = ["streamed"] * len(table)
    batch = np.asarray(batch_size)
    rows: list[tuple[str, Port, FormatKey | None, list[Access], FloatArray]] = [
        ("kv_read", "memory", "kv_format", stored, table.kv_read_elements_per_request),
        ("kv_written", "memory", "kv_format", paged, table.kv_written_elements_per_request),
        ("kv_reused", "on_chip", "kv_format", stored, table.kv_reused_elements_per_request),
        ("state_read", "memory", None, stored, table.state_read_bytes_per_request),
        ("state_written", "memory", None, streamed, table.state_written_bytes_per_request),
        ("input_read", "on_chip", "activation_format", streamed, table.input_elements_per_request),
        ("output_written", "on_chip", "activation_format", streamed,
         table.output_elements_per_request),
        ("score_read", "scores", "activation_format", streamed,
         table.score_read_elements_per_request),
        ("score_written", "scores", "activation_format", streamed,
         table.score_written_elements_per_request),
    ]  # fmt: skip
    weights = table.weights_read(batch)
    return (
        Operand("weight_read", "memory", "weight_format", False, tuple(stored), weights),
        *(
            Operand(name, port, key, name.endswith("written"), tuple(access), batch * elements)
            for name, port, key, access, elements in rows
        ),
    )
