"""Figures as files: the same drawing gives the same bytes."""

from codesign.report.paper import save_svg

_LETTERS = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 70">'
    '<text x="9" y="20" font-weight="bold">bold</text><text x="9" y="40">plain</text>'
    '<text x="9" y="60" font-style="italic">italic</text></svg>'
)


def test_a_pdf_of_several_fonts_has_the_same_bytes_each_time(tmp_path):
    # The writer keeps fonts in a table that it shuffles anew for each file.
    pages = {
        save_svg([(_LETTERS, 0.0, 0.0)], tmp_path / "a.pdf", 200.0, is_print=True).read_bytes()
        for _ in range(10)
    }
    assert len(pages) == 1
    assert pages.pop().count(b"/Type /FontDescriptor") == 3
