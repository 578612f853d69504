"""Look shared by all figures: size on paper, axes with units, files.

Files are deterministic: the same results give the same bytes under the same matplotlib. Each
series has its own line, marker or hatch beside its color (:mod:`codesign.report.palette`), so that
prints without color can be read.

A function that draws takes the ``path`` of a PNG, SVG or PDF file. If it takes ``width_mm``, that
is how wide the figure will be printed; both columns of a page if None. It raises
``MissingExtraError`` if matplotlib is not installed, and ``InputError`` if the format is unknown or
the file cannot be written. Its own words say what is special.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.base.errors import InputError, describe_unknown, needing_extra
from codesign.base.files import ending_of, replacing
from codesign.base.units import SI_PREFIXES
from codesign.report import palette
from codesign.report.labels import axis_label, takes_prefix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from codesign.search.problem import Objective

FORMATS = ("png", "svg", "pdf")
COLORS = tuple(palette.LIGHT[name] for name in palette.SERIES)
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 2)))
_STYLE = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.dpi": 100.0,
    "savefig.dpi": 160.0,
    "svg.fonttype": "path",
    # Whole TrueType fonts inside: what publishers accept.
    "pdf.fonttype": 42,
    # Identifiers inside an SVG are derived from this instead of being drawn at random.
    "svg.hashsalt": "codesign",
}

MM_PER_INCH = 25.4
USUAL_WIDTH_MM = 183.0
"""Both columns of a page; journals give 181 (IEEE, 43 picas) to 183 mm (Nature) [rounded]."""
NARROWEST_MM, WIDEST_MM = 60.0, 400.0
_COLUMN_MM = 120.0
"""Narrower than this is one column of two: panels one below the other, smaller letters."""
_COLUMN_FONT = 8.5
"""Points; the smallest letters are then 7.1 points. Journals ask for 5 to 8 at least [ours]."""
_PRINT_DPI = 300.0
"""Pixels per inch in print, where the width of the print is stated."""


def drawing_style(width_mm: float | None = None) -> Any:
    """The look of every figure, as a context.

    Args:
        width_mm: How wide the figure will be printed; None if that is not known.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with needing_extra("a figure", "report"):
        import matplotlib.style
    more: dict[str, Any] = {}
    if width_mm is not None:
        more["savefig.dpi"] = _PRINT_DPI
        if is_column(width_mm):
            more |= {
                "font.size": _COLUMN_FONT, "lines.linewidth": 1.2, "lines.markersize": 4.5,
                "axes.linewidth": 0.6, "legend.handlelength": 1.6, "legend.columnspacing": 1.2,
            }  # fmt: skip
    # From the defaults, so that a reader's own settings do not change the figure.
    return matplotlib.style.context(["default", _STYLE | more])


def is_column(width_mm: float | None) -> bool:
    """Whether a figure is for one column of two."""
    return width_mm is not None and width_mm < _COLUMN_MM


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


def letters_that_fit(width_mm: float) -> int:
    """Letters of the usual size in a line.

    Letters and digits of DejaVu Sans are 0.6 of the font's size wide, narrow ones make up for it.
    """
    from matplotlib import rcParams

    return int(width_mm / MM_PER_INCH * 72 / (0.6 * rcParams["font.size"]))


def check_format(form: str) -> None:
    """Refuse a format that figures are not drawn in.

    Raises:
        InputError: There is no such format.
    """
    if form not in FORMATS:
        raise InputError(describe_unknown("figure format", form, FORMATS))


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the path's suffix; the same figure gives the same bytes.

    Raises:
        InputError: The format is unknown or the file cannot be written.
    """
    form = ending_of(path)
    check_format(form)
    # Neither the date nor the version of the software belongs to the result.
    metadata = _NAMELESS[form]
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format=form, metadata=metadata)
    return path


_NAMELESS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def label_objective(axis: Any, objective: Objective) -> None:
    """Name an axis after an objective, say in which direction it is better, and set its units."""
    metric = objective.metric
    arrow = "→" if axis.axis_name == "x" else "↑"
    if objective.sense == "minimize":
        arrow = "←" if axis.axis_name == "x" else "↓"
    unit = scale_ticks(axis, metric.unit)
    title = axis_label(replace(metric, unit=unit))
    axis.set_label_text(f"{title}  {arrow} better")


def scale_ticks(axis: Any, unit: str) -> str:
    """Number the ticks in the multiple of a unit that suits the largest; returns that multiple.

    ``0.5 s`` on an axis to 0.8 s is "500" in ms: a tick's "500m" would be read as metres.
    """
    from matplotlib.ticker import FuncFormatter

    factor, prefix = 1.0, ""
    if takes_prefix(unit):
        largest = max(abs(value) for value in axis.get_view_interval())
        factor, prefix = _prefix(largest, most=1.0 if unit == "s" else math.inf)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / factor:,.6g}"))
    return prefix + unit


def _prefix(largest: float, most: float) -> tuple[float, str]:
    """The SI prefix that leaves 1 to 999 of ``largest``, at most ``most``: nobody reads ks."""
    for factor, prefix in SI_PREFIXES:
        if factor <= most and largest >= factor:
            return factor, prefix
    return 1.0, ""
