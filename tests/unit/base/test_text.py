"""What others wrote does not act on the terminal, the spreadsheet or the page that shows it."""

import json

import pytest

from codesign.base import text


def test_control_characters_are_printed_as_escapes():
    assert text.printable("a\x1b]0;title\x07\x9bb\u202e\udcff\r") == (
        r"a\x1b]0;title\x07\x9bb\u202e\udcff\r"
    )


def test_line_ends_and_tabs_stay_but_in_names():
    assert text.printable("a\n\tb µ é 字") == "a\n\tb µ é 字"
    assert text.one_line("a\n\tb") == r"a\n\tb"


def test_a_json_document_says_the_same_without_them():
    document = {"a\x9b": "\u202e\x1b\udcff é"}
    safe = text.json_safe(json.dumps(document, ensure_ascii=False))
    assert text.CONTROL.search(safe) is None
    assert json.loads(safe) == document


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@a", "\t=1", "\r=1"])
def test_what_a_spreadsheet_would_compute_begins_with_an_apostrophe(cell):
    assert text.spreadsheet_text(cell) == f"'{cell}"
    assert text.spreadsheet_text(f"a{cell}") == f"a{cell}"


def test_html_in_markdown_is_shown_and_comparisons_stay():
    assert text.markdown_text("<script>a</script> <!-- &lt; a < b & c <= d") == (
        "&lt;script>a&lt;/script> &lt;!-- &amp;lt; a < b & c <= d"
    )


def test_html_and_line_ends_in_a_cell_of_markdown_are_shown_in_it():
    table = text.markdown_table(["<img src=x>", "a"], [["a|b\nc", "1"]], ["a"])
    assert table == "| &lt;img src=x> | a |\n| --- | ---: |\n| a\\|b c | 1 |"
