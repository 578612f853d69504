"""The page of trust names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trust-boundary.md").read_text(encoding="utf-8")
TESTS = re.findall(r"\(\.\./(tests/[\w/]+\.py)#(\w+)\)", PAGE)


def test_every_source_names_a_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 17
    assert [row for row in rows if not re.search(r"#test_\w+\)", row)] == []


@pytest.mark.parametrize(("file", "name"), sorted(set(TESTS)))
def test_a_test_that_the_page_names_exists(file, name):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
