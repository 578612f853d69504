"""Formats and widths of figures on paper."""

from __future__ import annotations

from codesign.base.errors import InputError, describe_unknown

FORMATS = ("png", "svg", "pdf")
SHEET_FORMATS = (*FORMATS, "pptx")
"""Formats of a meeting sheet."""
MM_PER_INCH = 25.4
USUAL_WIDTH_MM = 183.0
"""Both columns of a page; journals give 181 (IEEE, 43 picas) to 183 mm (Nature) [rounded]."""
NARROWEST_MM = 60.0
WIDEST_MM = 400.0
COLUMN_MM = 120.0
"""Width below which a figure fills one of two columns and stacks its panels."""


def check_width(width_mm: float) -> None:
    """Refuse a width at which nothing can be read or that no page has.

    Raises:
        InputError: It is beyond the bounds.
    """
    if not NARROWEST_MM <= width_mm <= WIDEST_MM:
        nearest = min(max(width_mm, NARROWEST_MM), WIDEST_MM)
        raise InputError(
            f"expected {NARROWEST_MM:g} to {WIDEST_MM:g} mm, got {width_mm:.4g} mm; "
            f"nearest: '{nearest:g} mm'"
        )


def check_format(form: str) -> None:
    """Refuse a format that figures are not drawn in.

    Raises:
        InputError: There is no such format.
    """
    if form not in FORMATS:
        raise InputError(describe_unknown("figure format", form, FORMATS))
