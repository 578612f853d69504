"""Text from others, made safe for where it is printed: terminals, spreadsheets, Markdown.

A terminal obeys control characters (a color, a title, a cursor that moves up), a spreadsheet
computes a cell that begins like a formula, and a viewer of Markdown renders HTML in it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that a terminal obeys, marks that reverse the direction of text, and halves of
characters."""
_BEFORE_UNIT = re.compile(
    r"(?<=\d) (?=%|°C|mm|(?:[kMGTPmµnp]|[KMGT]i)?(?:B|W|J|s|Hz|OP|FLOP|V|m|K|USD|bit|token)\b)"
)
_FORMULA = re.compile(r"[=+\-@\t\r]")
_HTML = re.compile(r"<(?=[A-Za-z/!?])|&(?=[#A-Za-z])")


def printable(text: str) -> str:
    r"""``text`` with control characters as escapes; line ends and tabs stay.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    return (
        CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
        if CONTROL.search(text)
        else text
    )


def glued(text: str) -> str:
    """A text in which no line ends between a number and its unit.

    >>> glued("3 of 81 % and 5 GB/s").split(" ")
    ['3', 'of', '81\\xa0%', 'and', '5\\xa0GB/s']
    """
    return _BEFORE_UNIT.sub("\u00a0", text)


def one_line(text: str) -> str:
    """Text like that of :func:`printable`, with line ends and tabs as escapes too: for names and
    paths."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def json_safe(text: str) -> str:
    """A JSON document that says the same without characters that a terminal obeys."""
    # JSON leaves those above 0x7f as they are; they stand only inside strings.
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def spreadsheet_text(text: str) -> str:
    """A cell that stays text: an apostrophe stands before what would be read as a formula.

    >>> spreadsheet_text("=1+1")
    "'=1+1"
    """
    return f"'{text}" if _FORMULA.match(text) else text


def duration_words(seconds: float) -> str:
    """A duration in words: "12 s", "3 min 20 s", "2 h 05 min".

    >>> duration_words(200.4), duration_words(7500.0)
    ('3 min 20 s', '2 h 05 min')
    """
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    if whole_seconds < 3600:
        return f"{whole_seconds // 60} min {whole_seconds % 60:02d} s"
    return f"{whole_seconds // 3600:,} h {whole_seconds % 3600 // 60:02d} min"


def markdown_text(text: str) -> str:
    """``text`` whose HTML tags and entities are shown, not rendered.

    >>> markdown_text("<b>a</b> < b")
    '&lt;b>a&lt;/b> < b'
    """
    return _HTML.sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", printable(text))


def markdown_line(cells: Iterable[str]) -> str:
    """One line of a table: a bar or a line end within a cell does not end it, HTML is shown."""
    texts = (" ".join(markdown_text(cell).splitlines()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |"


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()
) -> str:
    """A table of cells in Markdown; the columns under headers in ``right`` are aligned so.

    >>> print(markdown_table(["a", "b"], [["1", "2"]], ["b"]))
    | a | b |
    | --- | ---: |
    | 1 | 2 |
    """
    rule = ["---:" if name in right else "---" for name in header]
    return "\n".join(map(markdown_line, [header, rule, *rows]))


ESCAPE = "codesign-escape"
"""Name of an error handler that writes a character that a stream lacks as JSON escapes it."""


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)
    ), error.end


codecs.register_error(ESCAPE, _escaped)


def shown_path(path: Path) -> str:
    """A path as the user would write it: from the working folder if it is in there."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError):  # no working folder any more, or a path outside it
        return str(path)
