"""Formats and widths of figures on paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.base.errors import InputError, describe_unknown, needing_extra
from codesign.base.files import ending_of, replacing
from codesign.report import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
COLORS = tuple(palette.LIGHT[name] for name in palette.SERIES)
_STYLE = {
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "grid.color": "#E3E3E3", "grid.linewidth": 0.6,
    "legend.frameon": False, "savefig.dpi": 160.0, "svg.fonttype": "path", "pdf.fonttype": 42,
    # Identifiers inside an SVG are derived from this instead of being drawn at random.
    "svg.hashsalt": "codesign",
}  # fmt: skip

MM_PER_INCH = 25.4
USUAL_WIDTH_MM = 183.0
"""Both columns of a page; journals give 181 (IEEE, 43 picas) to 183 mm (Nature) [rounded]."""
NARROWEST_MM, WIDEST_MM = 60.0, 400.0
_COLUMN_MM = 120.0
"""Narrower than this is one column of two: panels one below the other."""


def drawing_style() -> Any:
    """The look of a matplotlib figure, as a context.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with needing_extra("a figure", "report"):
        import matplotlib.style
    # From the defaults, so that a reader's own settings do not change the figure.
    return matplotlib.style.context(["default", _STYLE])


def is_column(width_mm: float) -> bool:
    """True if a figure is for one column of two."""
    return width_mm < _COLUMN_MM


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


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a matplotlib figure; the same figure gives the same bytes.

    Raises:
        InputError: The format is unknown or the file cannot be written.
    """
    form = ending_of(path)
    check_format(form)
    # Neither the date nor the version of the software belongs to the result.
    names = {"png": ("Software",), "svg": ("Date", "Creator")}
    nameless = names.get(form, ("CreationDate", "Creator", "Producer"))
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format=form, metadata=dict.fromkeys(nameless))
    return path
