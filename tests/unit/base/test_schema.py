"""YAML files are read alike by the fast parser and by the plain one."""

import pytest

from codesign.base import resources, schema
from codesign.base.errors import InputError, Mistake
from codesign.evaluators.platform.platform_request import PlatformRequest

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
    with pytest.raises(InputError, match="expected at most 64 levels of nesting"):
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


def test_aliases_that_stand_for_many_values_are_refused():
    levels = "".join(f"b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 9)}]\n" for i in range(1, 9))
    with pytest.raises(InputError, match="file: expected at most 100,000 keys, values and items"):
        schema.parse_document(f"b0: &b0 [x]\n{levels}", "file")


def test_an_alias_within_what_it_stands_for_is_refused():
    with pytest.raises(InputError, match="repeats itself by an alias"):
        schema.parse_document("a: &a [*a]\n", "file")


def test_a_file_that_is_too_long_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "long.yaml"
    path.write_bytes(b"a: " + b"x" * 20_000_000)
    with pytest.raises(InputError, match="expected at most 10,000,000 bytes, got more"):
        schema.read_document(path)


@pytest.mark.parametrize("text", ['"a\\e[31m": 1', 'a: "\\x9b31m"', 'a: ["\\u202Eb"]'])
def test_control_characters_are_refused_and_not_repeated(text):
    with pytest.raises(InputError, match=r"file:1: expected .* control characters") as caught:
        schema.parse_document(text, "file")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("number", ["9" * 20, "-" + "9" * 5000, "9_" * 4000 + "9"])
def test_a_whole_number_that_no_machine_holds_is_refused(number):
    with pytest.raises(InputError, match="expected a whole number up to 9223372036854775807"):
        schema.parse_document(f"a: {number}\n", "file")


@pytest.mark.parametrize("key", ["a[b]", "[/red]", "function-a", "tuple(x)"])
def test_an_unknown_key_is_named_whatever_it_looks_like(key):
    class Disk(schema.Record):
        size: int = 1

    document = schema.parse_document(f"'{key}': 1\n", "file")
    with pytest.raises(InputError) as caught:
        schema.parse_record(document, Disk)
    assert str(caught.value) == f"file:1: {key}: unknown key '{key}'. Known: size."


def test_a_key_of_a_listed_record_has_its_nearest():
    class Disk(schema.Record):
        size: int = 1

    class Machine(schema.Record):
        disks: tuple[Disk, ...] | None = None

    with pytest.raises(InputError, match=r"disks\.0\.siz: .* Did you mean 'size'\?"):
        schema.parse_record(schema.parse_document("disks: [{siz: 1}]", "file"), Machine)


def test_a_long_value_is_repeated_in_part():
    class Disk(schema.Record):
        size: int = 1

    with pytest.raises(InputError, match=r"size: .*, got \[2048, 2048, [2048, ]{60,80}…$"):
        schema.parse_record(schema.parse_document(f"size: {[2048] * 61}", "file"), Disk)


def test_of_many_problems_the_first_are_worded():
    class Disk(schema.Record):
        size: int = 1

    text = "".join(f"k{i}: 1\n" for i in range(20_000))
    with pytest.raises(InputError) as caught:
        schema.parse_record(schema.parse_document(text, "file"), Disk)
    assert len(caught.value.problems) == 51
    assert caught.value.problems[-1] == "file:1: 19,950 more problems"


@pytest.mark.parametrize(
    ("text", "count"), [("32K", 32_768), ("32k", 32_000), ("1 Mi", 1_048_576), ("8", 8)]
)
def test_a_count_may_be_written_short(text, count):
    class Prompt(schema.Record):
        tokens: schema.Positive

    document = schema.parse_document(f"tokens: {text}\n", "file")
    assert schema.parse_record(document, Prompt).tokens == count


def test_a_mistake_is_a_record_of_place_key_and_message(tmp_path):
    path = tmp_path / "request.yaml"
    path.write_text("model: llama-3-8b\nprompt_tokens: 8\ngenerated_tokens: 1\nmixed: true\n")
    with pytest.raises(InputError, match="mixed: expected chunk_tokens") as caught:
        schema.parse_record(schema.read_document(path), PlatformRequest)
    message = "expected chunk_tokens, the prompt tokens of one pass"
    assert caught.value.mistakes == (Mistake(message, ("mixed",), f"{path}:4", ("chunk_tokens",)),)
    moved = InputError(caught.value.mistakes, "--request")
    assert moved.problems == (f"--request: {path}:4: mixed: {message}",)


@pytest.mark.parametrize(
    "text",
    ["a: !!bool perhaps", "a: !!timestamp x", "a: !!int x", "a: !!float x", "a: !!binary é",
     "a: !!set 3", "a: !!omap 3", "a: !!python/object:os.system x", "!!map 3"],
)  # fmt: skip
def test_a_tag_of_yaml_that_does_not_fit_is_refused_in_one_line(text):
    with pytest.raises(InputError, match=r"^file: (not valid YAML: |expected)[^\n]+$"):
        schema.parse_document(text, "file")
