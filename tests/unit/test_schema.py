"""YAML files are read alike by the fast parser and by the plain one."""

import pytest

from codesign import resources, schema
from codesign.errors import InputError

SCALARS = "{a: 1_0, b: 1e3, c: on, d: true, e: 0x10, f: ~, g: 2020-01-01, h: [1, '2'], <<: {i: .5}}"


def _texts():
    for kind in ("spaces", "memtech", "runs"):
        for name in resources.listed(kind):
            yield resources.find(kind, name).read_text(encoding="utf-8")
    yield SCALARS
    yield "a: 1\nb:\n  - {c: 1}\n  - {c: 1, c: 2}\n"  # a key twice


def test_both_parsers_read_the_same_data_lines_and_problems():
    for text in _texts():
        fast, plain = (
            schema._load(text, "file", loader) for loader in (schema._FastLoader, schema._Loader)
        )
        assert repr(fast) == repr(plain)  # 1 and 1.0 differ as text


@pytest.mark.parametrize("start", ["[", "- ", "{a: "])
def test_a_file_that_nests_too_deeply_is_refused(start):
    with pytest.raises(InputError, match="not valid YAML: maximum recursion depth"):
        schema.parse_document("a:\n " + start * 20_000, "file")


def test_a_mistake_has_the_same_words_with_either_parser(monkeypatch):
    messages = []
    for loader in (schema._FastLoader, schema._Loader):
        monkeypatch.setattr(schema, "_FastLoader", loader)
        with pytest.raises(InputError) as caught:
            schema.parse_document("a: [off\n", "file")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "file: not valid YAML: expected ',' or ']'" in messages[0]
