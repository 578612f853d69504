"""Write charts as files for paper: SVG, PDF with fonts embedded, PNG; no browser is needed.

The same chart gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from importlib import import_module
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from codesign.answers.campaigns import progress_words
from codesign.base.columns import JsonObject, StringList, Strings
from codesign.base.errors import InputError, needing_extra
from codesign.base.files import ending_of, replacing
from codesign.base.records import frozen
from codesign.report import palette
from codesign.report.chart import Chart
from codesign.report.chosen import ChosenDesign
from codesign.report.design_charts import breakdown_chart, roofline_chart, scales_of
from codesign.report.drawing import COLUMN_MM, MM_PER_INCH, USUAL_WIDTH_MM, check_format
from codesign.report.edge import edge_words
from codesign.report.labels import evaluator_words, row_title, spoken_design
from codesign.report.machine_charts import die_chart, level_words, system_chart
from codesign.report.svg import FONT, draw, hatch_patterns, text_element, text_width, wrap
from codesign.report.system_picture import system_picture
from codesign.search.campaign import Results

PIXELS_PER_MM = 96.0 / MM_PER_INCH
_USUAL_DPI = 160.0
_PRINT_DPI = 300.0
_MARGIN = 6.0
_BOLD, _LINE = 11.0, 1.2
"""Size above which the letters of a sheet are bold, and height of a line of size 1."""
_ROOM = 1.1
"""Width of a column of values in that of its longest, as programs draw other letters [ours]."""
_NAMES = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
)
_BODY = (
    f'<p:txBody {_NAMES}><a:bodyPr anchor="b" wrap="square" lIns="0" tIns="0" rIns="0" bIns="0"/>'
    "{}</p:txBody>"
)
_PARAGRAPH = (
    '<a:p><a:pPr algn="{side}"><a:lnSpc><a:spcPts val="{line}"/></a:lnSpc><a:spcBef>'
    '<a:spcPts val="{gap}"/></a:spcBef></a:pPr><a:r><a:rPr sz="{size}" b="{bold}"><a:solidFill>'
    '<a:srgbClr val="{hue}"/></a:solidFill><a:latin typeface="Arial"/></a:rPr><a:t>{text}</a:t>'
    "</a:r></a:p>"
)
_CELL = (
    "<a:tc><a:txBody><a:bodyPr/>{}</a:txBody>"
    '<a:tcPr anchor="b" marL="0" marR="0" marT="0" marB="0"/></a:tc>'
)
_ROW = f'<a:tr h="{{}}">{_CELL}{_CELL}</a:tr>'
_TABLE = (
    f'<a:tbl {_NAMES}><a:tblPr/><a:tblGrid><a:gridCol w="{{}}"/><a:gridCol w="{{}}"/></a:tblGrid>'
    "{}</a:tbl>"
)
_RIM = (
    ".chart text { stroke: var(--paper); stroke-width: 3; stroke-linejoin: round; "
    "paint-order: stroke }"
)
"""Look of letters that may stand over lines."""
_EMU_PER_PIXEL = 9525
_BLIP = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"
_VECTOR = (
    '<a:extLst xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
    '<a:ext uri="{{96DAC541-7B7A-43D3-8B79-37D633B846F1}}">'
    '<asvg:svgBlip xmlns:asvg="http://schemas.microsoft.com/office/drawing/2016/SVG/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'r:embed="{}"/></a:ext></a:extLst>'
)
"""Vector picture in place of a raster one [MS-ODRAWXML, 2.28 svgBlip]."""


def save_chart(
    chart: Chart,
    path: Path,
    results: Results,
    width_mm: float | None = None,
    title: str = "",
    notes: Strings = (),
) -> Path:
    """Write a chart of a campaign, with a title that says how its numbers were made.

    Args:
        path: File that ends in ``.svg``, ``.pdf`` or ``.png``.
        results: Results of the campaign; the title says if it has not ended.
        width_mm: Width in print; both columns of a page if None.
        title: First lines of the title; those of the chart if empty.
        notes: Lines below the chart.

    Raises:
        InputError: The format is unknown, or the file cannot be written.
        MissingExtraError: What converts to PDF and PNG is not installed.
    """
    width, _ = width_of(width_mm)
    drawing = titled(chart, width, _header(results, title or chart.title), notes)
    return save_svg([(drawing, 0.0, 0.0)], path, width, width_mm is not None)


def save_plain(chart: Chart, path: Path, title: str) -> Path:
    """Write a chart of no campaign under a title, as wide as a page."""
    width, _ = width_of(None)
    return save_svg([(titled(chart, width, title.splitlines()), 0.0, 0.0)], path, width, False)


def _header(results: Results, title: str) -> StringList:
    """A title with the evaluator; it says if the campaign has not ended."""
    state = [f"NOT FINISHED: {progress_words(results)}"] if results.is_partial else []
    return [title, evaluator_words(results.reading), *state]


def titled(chart: Chart, width: float, lines: Strings, notes: Strings = ()) -> str:
    """A chart with title lines above and notes below it, as one ``svg`` element."""
    room = width - 2 * _MARGIN
    header = wrap("\n".join(filter(None, lines)), room, 12.0)
    body = draw(chart, room)
    top = 15.0 * header.count("\n") + 27.0
    high = top + height_of(body) + 6.0
    words = text_element(width / 2, 16.0, header, "middle", size=12.0)
    if notes:
        footer = wrap("\n".join(notes), room, 10.0)
        words += text_element(_MARGIN, high + 10.0, footer, size=10.0)
        high += 13.0 * footer.count("\n") + 17.0
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {high:.1f}">{words}'
        f'<g transform="translate({_MARGIN:.1f} {top:.1f})">{sized(body)}</g></svg>'
    )


@frozen
class TextBlock:
    """Lines of text on a sheet, one below the other.

    Attributes:
        lines: Text, size of its letters in pixels, and hue of each. What follows a tab stands at
            the right.
        width: Width to which lines are broken.
        scale: Size of the block over its pixels.
    """

    lines: Sequence[tuple[str, float, str]]
    width: float
    scale: float = 1.0

    def drawn(self) -> tuple[str, float]:
        """The texts as elements, and the height of the block in pixels of the sheet."""
        y = 0.0
        spans = []
        for text, size, hue in self.lines:
            y += _gap(size, hue)
            look: JsonObject = {
                "hue": hue, "size": size, "font_weight": 600 if size > _BOLD else "",
            }  # fmt: skip
            name, _, value = text.partition("\t")
            room = self.width - 1.1 * text_width(value, size)
            broken = wrap(name, room, size * (1.08 if size > _BOLD else 1.0))
            spans.append(text_element(0.0, y + size, broken, **look))
            if value:
                spans.append(text_element(self.width, y + size, value, "end", **look))
            y += _LINE * size * (broken.count("\n") + 1)
        group = f'<g transform="scale({self.scale:.2f})" font-family="{FONT}">'
        return f"{group}{''.join(spans)}</g>", self.scale * y


def _gap(size: float, hue: str) -> float:
    """Room above a line: a heading has some."""
    return 0.45 * size if hue == "accent" else 0.0


Piece = tuple[str | TextBlock, float, float]
"""A drawing or a text, and its place on a sheet in pixels."""


def sheet_text(
    pieces: Sequence[Piece], width: float, height: float = 0.0, scale: float = 1.0
) -> str:
    """Text of an SVG file with drawings on one sheet, the hues written in.

    Args:
        height: Height of the sheet; as high as its drawings if 0.
        scale: Size of the sheet over its pixels.
    """
    drawings = [(x if isinstance(x, str) else x.drawn()[0], left, y) for x, left, y in pieces]
    bottom = max([height, *(y + height_of(text) for text, _, y in drawings)]) + 2.0
    inside = "".join(
        f'<g transform="translate({x:.1f} {y:.1f})">{sized(text)}</g>' for text, x, y in drawings
    )
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scale * width:.2f}" '
        f'height="{scale * bottom:.2f}" '
        f'viewBox="0 0 {width:.1f} {bottom:.1f}" font-family="{FONT}"><style>{_RIM}</style>'
        f"{hatch_patterns()}"
        f'<rect width="100%" height="100%" fill="var(--paper)"/>{inside}</svg>\n'
    )
    text = re.sub(r' data-[a-z]+="[^"]*"', "", text)
    return re.sub(r"var\(--(\w+)\)", lambda hue: palette.LIGHT[hue[1]], text)


def save_svg(
    pieces: Sequence[Piece], path: Path, width: float, is_print: bool, height: float = 0.0
) -> Path:
    """Write drawings on one sheet as SVG, PDF or PNG.

    Args:
        is_print: Pixels for print, not for a screen.
        height: Height of the sheet; as high as its drawings if 0.
    """
    form = ending_of(path)
    check_format(form)
    # Screens have 96 pixels an inch; a PDF has 72 points.
    text = sheet_text(pieces, width, height, 72.0 / 96.0 if form == "pdf" else 1.0)
    with replacing(path) as unfinished:
        if form == "svg":
            unfinished.write_text(text, encoding="utf-8")
            return path
        with needing_extra("a figure as PDF or PNG", "report"):
            import vl_convert
            from pikepdf import Pdf
        if form == "png":
            dpi = _PRINT_DPI if is_print else _USUAL_DPI
            unfinished.write_bytes(vl_convert.svg_to_png(text, scale=dpi / 96.0))
        else:
            # In the order of their first mention: the converter shuffles the objects of a PDF.
            with Pdf.open(BytesIO(vl_convert.svg_to_pdf(text))) as document:
                document.save(unfinished, deterministic_id=True)
    return path


def load_pptx() -> None:
    """Import the writer of slides.

    Raises:
        MissingExtraError: It is not installed.
    """
    with needing_extra("a sheet as PPTX", "slides"):
        for module in ("pptx", "vl_convert"):
            import_module(module)


def save_slide(pieces: Sequence[Piece], path: Path, width: float, height: float) -> Path:
    """Write drawings and texts as the one slide of a presentation.

    The drawings are a vector picture, which PowerPoint can turn into shapes. Programs that draw no
    vectors show a PNG in its place. Texts and tables can be edited.
    """
    import vl_convert
    from pptx import Presentation
    from pptx.opc.constants import RELATIONSHIP_TYPE
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI
    from pptx.oxml import parse_xml
    from pptx.util import Emu

    drawings = [piece for piece in pieces if isinstance(piece[0], str)]
    text = sheet_text(drawings, width, height)
    show = Presentation()
    saved = BytesIO()
    size = [Emu(round(x * _EMU_PER_PIXEL)) for x in (width, height_of(text))]
    show.slide_width, show.slide_height = size
    slide = show.slides.add_slide(show.slide_layouts.get_by_name("Blank"))
    raster = BytesIO(vl_convert.svg_to_png(text, scale=_PRINT_DPI / 96.0))
    picture = slide.shapes.add_picture(raster, 0, 0, *size)
    vector = Part(
        PackURI("/ppt/media/sheet.svg"), "image/svg+xml", show.part.package, text.encode()
    )
    relation = slide.part.relate_to(vector, RELATIONSHIP_TYPE.IMAGE)
    picture.element.blipFill.find(_BLIP).append(parse_xml(_VECTOR.format(relation)))
    for block, x, y in pieces:
        if isinstance(block, TextBlock):
            _add_text(slide.shapes, block, x, y)
    show.save(saved)
    # Without the time of writing, so that the same sheet has the same bytes.
    with (
        replacing(path) as unfinished,
        ZipFile(saved) as source,
        ZipFile(unfinished, "w") as target,
    ):
        for name in source.namelist():
            target.writestr(ZipInfo(name), source.read(name), ZIP_DEFLATED)
    return path


def _add_text(shapes: Any, block: TextBlock, left: float, top: float) -> None:
    """Add lines of text to a slide: those with values as tables, the others as text boxes.

    Args:
        shapes: Those of the slide.
        left, top: Of the block's corner, in pixels.
    """
    from pptx.oxml import parse_xml

    points = 75.0 * block.scale  # hundredths of a point in a pixel
    for is_table, lines in groupby(block.lines, lambda line: "\t" in line[0]):
        rows = ""
        height = value_width = 0.0
        for words, size, hue in lines:
            texts = words.split("\t")
            paragraphs = [
                _PARAGRAPH.format(
                    side=side, line=round(_LINE * size * points),
                    gap=round(_gap(size, hue) * points), size=round(size * points),
                    bold=int(size > _BOLD), hue=palette.LIGHT[hue][1:], text=escape(text),
                )
                for side, text in zip("lr", texts, strict=False)
            ]  # fmt: skip
            row_height = replace(block, lines=[(words, size, hue)]).drawn()[1]
            height += row_height
            value_width = max(value_width, _ROOM * text_width(texts[-1], size) * block.scale)
            rows += (
                _ROW.format(round(_EMU_PER_PIXEL * row_height), *paragraphs)
                if is_table
                else paragraphs[0]
            )
        sides = (left, top, block.scale * block.width, height, value_width)
        *place, value_width = (round(_EMU_PER_PIXEL * side) for side in sides)
        if is_table:
            old = shapes.add_table(1, 2, *place).element.graphic.graphicData.tbl
            new = _TABLE.format(place[2] - value_width, value_width, rows)
        else:
            old, new = shapes.add_textbox(*place).element.txBody, _BODY.format(rows)
        old.getparent().replace(old, parse_xml(new))
        top += height


def width_of(width_mm: float | None) -> tuple[float, bool]:
    """Width in pixels, and True if it is one column of a page."""
    mm = USUAL_WIDTH_MM if width_mm is None else width_mm
    return mm * PIXELS_PER_MM, mm < COLUMN_MM


def height_of(text: str) -> float:
    """Height of a drawing in pixels; 0 if it does not state one."""
    box = re.match(r'<svg [^>]*viewBox="0 0 [\d.]+ ([\d.]+)"', text)
    return float(box[1]) if box else 0.0


def sized(text: str) -> str:
    """A drawing with the size of its view box, as it has inside another one."""
    return re.sub(
        r'^<svg ([^>]*)viewBox="0 0 ([\d.]+) ([\d.]+)"',
        r'<svg \1viewBox="0 0 \2 \3" width="\2" height="\3"', text,
    )  # fmt: skip


def design_chart(chart_name: str, drawn: ChosenDesign, is_narrow: bool) -> tuple[Chart, StringList]:
    """The chart of a design, and the lines below it.

    Args:
        chart_name: ``roofline``, ``breakdown``, ``hierarchy`` or ``system``.

    Raises:
        InputError: The evaluator reports nothing that such a chart shows.
    """
    evaluated = drawn.evaluated
    if chart_name == "system":
        if not drawn.pools:
            raise InputError(
                "expected a design of a space with pools, got one machine; 'hierarchy' draws it",
                drawn.title,
            )
        links = [f"{x.name}: {', '.join(filter(None, x.words))}" for x in
                 system_picture(evaluated).links]  # fmt: skip
        return system_chart(evaluated, is_narrow), links
    scales = scales_of([evaluated])
    chart = {
        "roofline": lambda: roofline_chart(evaluated, scales),
        "breakdown": lambda: breakdown_chart(evaluated, scales),
        "hierarchy": lambda: die_chart(evaluated),
    }[chart_name]()
    if chart is None:
        name = evaluated.inputs["evaluator"]
        raise InputError(
            f"evaluator {name!r} reports no {_NEEDED[chart_name]} of a design; "
            "npu and simulation do",
            drawn.title,
        )
    if chart_name != "hierarchy":
        return replace(chart, columns=1) if is_narrow else chart, []
    notes = [f"{row_title(level)}: {level_words(level)}" for level in evaluated.levels]
    edge = edge_words(evaluated)
    return chart, notes + ([f"edge for memory: {edge}"] if edge else [])


_NEEDED = {
    "roofline": "work and traffic", "breakdown": "time and power", "hierarchy": "areas",
}  # fmt: skip


def save_design_chart(
    chart_name: str, drawn: ChosenDesign, path: Path, width_mm: float | None = None
) -> Path:
    """Write a chart of a design; see :func:`design_chart` and :func:`save_chart`."""
    chart, notes = design_chart(chart_name, drawn, width_of(width_mm)[1])
    return save_chart(chart, path, drawn.results, width_mm, design_title(chart_name, drawn), notes)


def design_title(chart_name: str, drawn: ChosenDesign) -> str:
    """The title of a chart of a design: its campaign, its words, and whether it breaks a limit."""
    broken = " (breaks a limit)" if drawn.evaluated.broken else ""
    words = spoken_design(drawn.evaluated.space, drawn.evaluated.design)
    return f"{drawn.title}: {chart_name}{broken}\n{words}"


SHEET_WIDTHS_MM = (89.0, 183.0)
"""One column of a page and both: 3.5 in and 7.2 in."""


def save_sheet(
    rows: Sequence[tuple[str, Results, Callable[[bool], tuple[Chart, Strings]]]], path: Path
) -> Path:
    """Write many charts on one sheet: a row for each, a column for each of ``SHEET_WIDTHS_MM``.

    Args:
        rows: Title, results and maker of each chart; the maker takes True for one column.
    """
    pieces = []
    top = 0.0
    for title, results, make in rows:
        left_px = 0.0
        high = 0.0
        for width_mm in SHEET_WIDTHS_MM:
            width, is_narrow = width_of(width_mm)
            chart, notes = make(is_narrow)
            drawing = titled(chart, width, _header(results, title), notes)
            pieces.append((drawing, left_px, top))
            left_px = left_px + width
            high = max(high, height_of(drawing))
        top += high + 12.0
    return save_svg(pieces, path, left_px, is_print=True)
