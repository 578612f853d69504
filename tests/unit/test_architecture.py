"""The picture of the layers is that of the contract which the gate checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_picture_has_the_layers_of_the_contract_from_top_to_bottom() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    drawn = re.findall(r'^    layer\d+\["(.*)"\]$', page, re.MULTILINE)
    assert drawn == [layer.replace(" | ", " · ") for layer in layers]
    arrows = " --> ".join(f"layer{i}" for i in range(len(layers)))
    assert f"    {arrows}\n" in page


def test_every_package_is_described() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    text = page.split("## What each package knows")[1]
    modules = [path for path in (ROOT / "codesign").iterdir() if path.suffix in ("", ".py")]
    names = {path.stem for path in modules if not path.name.startswith("__")}
    assert {name for name in names if f"`{name}`" not in text} == set()
