"""Many figures on one sheet, to look at all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from codesign.report.drawing import MM_PER_INCH, drawing_style, save_figure

SHEET_WIDTHS_MM = (89.0, 183.0)
"""One column of a page and both, at which every figure is drawn: 3.5 in and 7.2 in."""
_TITLE_INCHES = 0.25


def save_contact_sheet(pictures: Mapping[str, Sequence[Path]], path: Path) -> Path:
    """Put pictures on one sheet: a row for each figure, a column for each of its widths.

    Args:
        pictures: By title, PNG files of ``SHEET_WIDTHS_MM``.
    """
    with drawing_style():
        from matplotlib.figure import Figure
        from matplotlib.image import imread

        rows = {title: [imread(file) for file in files] for title, files in pictures.items()}
        widths = [width / MM_PER_INCH for width in SHEET_WIDTHS_MM]
        heights = [
            max(
                width * image.shape[0] / image.shape[1]
                for width, image in zip(widths, images, strict=True)
            )
            for images in rows.values()
        ]
        total = sum(heights) + _TITLE_INCHES * len(rows)
        figure = Figure((sum(widths), total))
        top = total
        for (title, images), height in zip(rows.items(), heights, strict=True):
            top -= _TITLE_INCHES
            figure.text(0.01, top / total, title, fontsize="large", va="bottom")
            left = 0.0
            for width, image in zip(widths, images, strict=True):
                own = width * image.shape[0] / image.shape[1]
                place = (left / sum(widths), (top - own) / total, width / sum(widths), own / total)
                axes = figure.add_axes(place)
                axes.imshow(image, interpolation="antialiased")
                axes.set_axis_off()
                left += width
            top -= height
        return save_figure(figure, path)
