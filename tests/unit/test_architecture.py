"""The picture of the layers is that of the contract which the gate checks; functions are short."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_picture_has_the_layers_of_the_contract_from_top_to_bottom():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    drawn = re.findall(r'^    layer\d+\["(.*)"\]$', page, re.MULTILINE)
    assert drawn == [layer.replace(" | ", " · ") for layer in layers]
    arrows = " --> ".join(f"layer{i}" for i in range(len(layers)))
    assert f"    {arrows}\n" in page


def test_every_package_is_described():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    text = page.split("## What each package knows")[1]
    modules = [path for path in (ROOT / "codesign").iterdir() if path.suffix in ("", ".py")]
    names = {path.stem for path in modules if not path.name.startswith("__")}
    assert {name for name in names if f"`{name}`" not in text} == set()


MOST_LINES = 80
"""Lines of a function, its signature and its documentation included."""
LONGER = set()
"""Functions that may have more."""


def long_functions(text, place):
    return {
        f"{place}:{node.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_LINES
    }


def test_every_function_has_at_most_80_lines():
    found = set()
    for path in sorted((ROOT / "codesign").rglob("*.py")):
        found |= long_functions(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
    assert found == LONGER, "split them, or take what is short now off the list"


def test_a_function_that_is_a_line_too_long_is_noticed():
    fits = "def fits():\n" + "    pass\n" * (MOST_LINES - 1)
    assert long_functions(fits + fits.replace("fits", "long") + "    pass\n", "x.py") == {
        "x.py:long"
    }
