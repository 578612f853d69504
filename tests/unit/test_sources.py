"""No number of the bundled data without a source, and no source that nobody could look up."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from codesign.base import resources
from codesign.models.accounts.rents import list_rents
from codesign.models.hardware.device import list_devices, load_device
from codesign.models.memtech import load_library
from codesign.models.workload import list_models, load_model

PACKAGE = Path(resources.__file__).parents[1]
DEVICES = PACKAGE / "models" / "hardware" / "devices"
PAPER_DEVICES = PACKAGE / "evaluators" / "economics" / "epoch.yaml"
SPACES = sorted(path.stem for path in Path("spaces").glob("*.yaml"))

NOT_NUMBERS = {"name", "vendor", "device_class", "is_announced", "also_called", "note", "sources"}
NOT_NUMBERS |= {
    "link_kind",
    "has_asynchronous_cores",
    "kernels_of",
}  # the source of link_bandwidth says it
DATED = re.compile(r"\b(19|20)\d\d\b")
PLACED = re.compile(r"\b(Tables?|Fig\.|Eq\.|Eqs\.|sections?|Appendix|code)\b|§|\.yaml\b|\.json\b")
OURS = re.compile(r"\[ours\]|\[fit\]|\b[Oo]urs?\b")
KINDS = re.compile(r"^\[unchecked: stated from [^\]]+\]|^read in |; agrees with |^\[ours\] ")
"""How a device's number was found; see docs/sources.md."""


def problem_of(source):
    """Why nobody could look a source up, if so."""
    if not source.strip():
        return "is empty"
    if not (DATED.search(source) or PLACED.search(source) or OURS.search(source)):
        return "names neither a year nor a table, section or equation, nor says that it is ours"
    return None


def problems_of(numbers, sources):
    """Numbers without a source, sources without a number, and sources of no use."""
    needed = set(numbers)
    found = [f"{name}: no source" for name in sorted(needed - set(sources))]
    found += [f"{name}: a source of no number" for name in sorted(set(sources) - needed)]
    ways = ((name, problem_of(text)) for name, text in sources.items())
    return found + [f"{name}: {problem}" for name, problem in ways if problem]


def numbers_of(document):
    return set(document) - NOT_NUMBERS


def device_file(name):
    return yaml.safe_load((DEVICES / f"{name}.yaml").read_text("utf-8"))


@pytest.mark.parametrize("name", list_devices())
def test_every_number_of_a_device_says_where_it_was_read(name):
    assert problems_of(numbers_of(device_file(name)), load_device(name).sources) == []


@pytest.mark.parametrize("name", list_devices())
def test_every_source_of_a_device_says_whether_it_was_checked(name):
    unclear = {
        key: text for key, text in load_device(name).sources.items() if not KINDS.search(text)
    }
    assert unclear == {}


def test_what_nobody_could_check_says_so_in_one_wording():
    texts = [text for name in list_devices() for text in load_device(name).sources.values()]
    texts += [text for item in load_library().values() for text in item.sources.values()]
    loose = [text for text in texts if "unchecked" in text.replace("[unchecked: stated from ", "")]
    assert loose == []
    # Few, and falling: whoever adds one finds this number. 45 are of 13 devices of later.
    assert sum("[unchecked:" in text for text in texts) <= 60


@pytest.mark.parametrize("name", list(load_library()))
def test_every_source_of_a_memory_technology_can_be_looked_up(name):
    technology = load_library()[name]
    assert [text for text in technology.sources.values() if problem_of(text)] == []


@pytest.mark.parametrize("name", list(yaml.safe_load(PAPER_DEVICES.read_text())["devices"]))
def test_every_figure_and_price_of_the_papers_devices_has_a_source_of_its_own(name):
    document = yaml.safe_load(PAPER_DEVICES.read_text("utf-8"))["devices"][name]
    assert problems_of(numbers_of(document), document["sources"]) == []


@pytest.mark.parametrize("name", list_rents())
def test_every_rent_is_of_a_shipped_device_and_says_where_and_when_it_was_read(name):
    rent = list_rents()[name]
    assert name in list_devices()
    assert KINDS.search(rent.source) and DATED.search(rent.source) and DATED.search(rent.date)


@pytest.mark.parametrize("name", SPACES)
def test_every_source_of_a_space_can_be_looked_up(name):
    document = yaml.safe_load((resources.find("spaces", name)).read_text("utf-8"))
    sources = document["sources"]
    assert sources
    assert [text for text in sources.values() if problem_of(text)] == []


@pytest.mark.parametrize("name", list_models())
def test_every_model_names_a_configuration_or_a_dated_paper(name):
    sources = load_model(name).sources
    assert any("on Hugging Face" in text or DATED.search(text) for text in sources)


def bare_constants(text):
    """Names of module-level numbers with neither a docstring below nor a comment."""
    lines, body = text.splitlines(), ast.parse(text).body
    found = []
    for position, statement in enumerate(body):
        name = _constant(statement)
        if name is None:
            continue
        last = position
        while last + 1 < len(body) and _follows(body, last) and _constant(body[last + 1]):
            last += 1  # several in a row share a docstring
        below = body[last + 1] if last + 1 < len(body) and _follows(body, last) else None
        is_documented = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if not is_documented and "#" not in lines[statement.lineno - 1]:
            found.append(name)
    return found


def _constant(statement):
    """The name of an upper-case number, if the statement is one."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name, value = statement.targets[0].id, statement.value
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        name, value = statement.target.id, statement.value
    else:
        return None
    parts = list(ast.walk(value)) if value is not None else []
    arithmetic = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    is_number = parts and all(
        isinstance(part, arithmetic) and isinstance(getattr(part, "value", 0.0), int | float)
        for part in parts
    )
    return name if name.isupper() and is_number else None


def _follows(body, position):
    end = body[position].end_lineno or 0
    return body[position + 1].lineno == end + 1


MODULES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for part in ("models/hardware", "models/memtech", "models/workload", "evaluators")
    for path in (PACKAGE / part).rglob("*.py")
)


def test_no_number_of_a_model_stands_without_a_word():
    bare = {name: bare_constants((PACKAGE / name).read_text("utf-8")) for name in MODULES}
    assert {name: found for name, found in bare.items() if found} == {}


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("GAIN = 0.7\n", ["GAIN"]),
        ('GAIN = 0.7\n"""Part that lasts [ours]."""\n', []),
        ("GAIN = 0.7  # [ours]\n", []),
        ('A = 1.0\nB = 2 * 3.0\n"""Both [ours]."""\n', []),
        ('A = 1.0\n\nB: float = 2.0\n"""Only this."""\n', ["A"]),
        ('KINDS = ("a", 1)\nname = 3\n', []),
    ],
)
def test_a_bare_number_is_found(text, bare):
    assert bare_constants(text) == bare


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({"power": "datasheet (2021)"}, ["capacity: no source"]),
        ({"power": "datasheet", "capacity": "read in Paper, Table 3"}, ["power: names neither"]),
        ({"power": " ", "capacity": "[ours] a guess"}, ["power: is empty"]),
        (
            {"power": "A (2020)", "capacity": "A (2020)", "price": "A (2020)"},
            ["price: a source of no number"],
        ),
    ],
)
def test_a_missing_or_vague_source_is_found(sources, said):
    found = problems_of({"power", "capacity"}, sources)
    assert [item[: len(text)] for item, text in zip(found, said, strict=True)] == said
