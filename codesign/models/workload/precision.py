"""Number formats: what an element occupies, and the width at which it multiplies.

The microscaling (MX) formats share one 8-bit scale among 32 elements [OCP2023]_. That standard
defines MXFP8, MXFP6, MXFP4 and MXINT8 only; MXINT4, MXINT16 and MXFP16 come from MASE and
PLENA, on which MemExplorer builds (its Table 2 and the accuracy simulator of §4), and are taken
to have the same block and scale.

.. [OCP2023] Open Compute Project, Microscaling Formats (MX) Specification, version 1.0, 2023,
   §5.2, Table 1.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from codesign.base.columns import FloatPair
from codesign.base.errors import UnusableValueError, entry_named
from codesign.base.schema import Record, read_records
from codesign.models.format_mixture import format_shares, is_mixed

Convention = Literal["plain", "exact"]

FORMAT_KEYS = ("weight_format", "activation_format", "kv_format")
"""Parameters of a design that say how wide each kind of data is."""


class NumberFormat(Record):
    """A number format of ``number_formats.yaml``.

    Attributes:
        element_bits: Bits of one element, its shared scale apart.
        block_size: Elements that share a scale; 1 if there is none.
        scale_bits: Bits of that scale; 0 if there is none.
        source: Document that defines the sizes.
    """

    element_bits: int
    block_size: int = 1
    scale_bits: int = 0
    source: str

    @property
    def exact_bits(self) -> float:
        """Bits of an element with its part of the shared scale."""
        return self.element_bits + self.scale_bits / self.block_size


FORMATS = read_records(Path(__file__).with_name("number_formats.yaml"), NumberFormat)
"""Every number format by name."""
DEFAULT_FORMAT = "bf16"
"""Format of weights, activations and KV cache on devices where a question names none, as most
models are published."""


def find_format(name: str, where: str | None = None) -> NumberFormat:
    """The format of that name.

    Raises:
        UnknownNameError: No such format; the nearest is offered.
        UnusableValueError: A mixture of formats.
    """
    if is_mixed(name):
        problem = f"expected one number format, got {name!r}: only weights of an npu may be mixed"
        raise UnusableValueError(problem, name, where)
    return entry_named("number format", name, FORMATS, where)


def bits_per_element(name: str, convention: Convention = "exact") -> float:
    """Bits that an element of a format occupies in memory.

    Args:
        name: Such as ``mxfp8``.
        convention: ``exact`` counts the shared scale (8.25 for ``mxfp8``); ``plain`` leaves it
            out (8.0), as MemExplorer's printed batches need (Table 6, P2).

    Raises:
        UnknownNameError: No such format.

    Examples:
        >>> bits_per_element("mxfp8"), bits_per_element("mxfp8", "plain")
        (8.25, 8.0)
    """
    number_format = find_format(name)
    return number_format.exact_bits if convention == "exact" else float(number_format.element_bits)


def multiply_bits(name: str) -> int:
    """Rate class of a format: the width, 4, 8 or 16 bits, of the multiplier that it needs.

    A product of two formats runs at the wider of the two.

    Raises:
        UnknownNameError: No such format.
    """
    return find_format(name).element_bits


@cache
def weight_groups(name: str, convention: Convention = "exact") -> tuple[FloatPair, ...]:
    """Shares of the layers, and the bits of a weight in each group, fewest bits first.

    Formats of equal bits are one group: nothing that is stored or moved tells them apart.

    Args:
        name: Of a format, or of a mixture of formats by layers (see
            ``codesign.models.format_mixture``). convention: As of :func:`bits_per_element`.

    Raises:
        UnknownNameError: No such format.
        UnusableValueError: A mixture that is not one.

    Examples:
        >>> weight_groups("0.25*mxfp8+0.75*mxfp4")
        ((0.75, 4.25), (0.25, 8.25))
    """
    shares: dict[float, float] = {}
    for share, word in format_shares(name, FORMATS):
        bits = bits_per_element(word, convention)
        shares[bits] = shares.get(bits, 0.0) + share
    if len(shares) == 1:
        return ((1.0, next(iter(shares))),)
    return tuple((shares[bits], bits) for bits in sorted(shares))


def bits_per_weight(name: str, convention: Convention = "exact") -> float:
    """Bits that a weight occupies, on average over the layers of a mixture.

    Raises:
        UnknownNameError: No such format.
        UnusableValueError: A mixture that is not one.

    Examples:
        >>> bits_per_weight("0.75*mxfp4+0.25*mxfp8")
        5.25
    """
    return sum(share * bits for share, bits in weight_groups(name, convention))


def weight_multiply_bits(name: str) -> int:
    """Rate class of a weight's format; of a mixture, the widest that a layer needs.

    Raises:
        UnknownNameError: No such format.
        UnusableValueError: A mixture that is not one.
    """
    return max(multiply_bits(group.format) for group in format_shares(name, FORMATS))
