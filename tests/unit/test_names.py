"""No name in the package says only that there is a thing and not which."""

import ast
from pathlib import Path

import codesign

VAGUE = {
    "one", "said", "found", "given", "asked", "told", "made", "shown", "whole", "at", "what",
    "other", "both", "these",
}  # fmt: skip
ALLOWED = frozenset()
"""Files, from the root of the package, in which such names may stay. There are none."""
ROOT = Path(codesign.__file__).parent


NAME_OF = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}
"""The nodes that bind a name, and the field that has it; not imports, which others named."""


def bound_names(tree):
    """Line and name of all that a module binds."""
    for node in ast.walk(tree):
        field = NAME_OF.get(type(node))
        is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        if field is not None and not is_read and (name := getattr(node, field)) is not None:
            yield node.lineno, name


def vague_names(text, place):
    return [
        f"{place}:{line}: {name}"
        for line, name in sorted(bound_names(ast.parse(text)))
        if name.lstrip("_") in VAGUE
    ]


def test_no_name_in_the_package_is_vague():
    vague = []
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if place not in ALLOWED:
            vague += vague_names(path.read_text("utf-8"), f"codesign/{place}")
    assert not vague, "name what the thing is:\n" + "\n".join(vague)


PLANTED = """\
import at
one = 1
first: int = 1
def given(asked, *whole, told=0, **both):
    self.said = made = asked.found
    for shown in whole:
        with shown as (_these, _):
            pass
    return [what for what in both], lambda other: other
class at:
    match_what = 0
match one:
    case [found, *made]:
        pass
try:
    del other
except ValueError as said:
    pass
"""


def test_each_kind_of_vague_name_is_noticed():
    assert vague_names(PLANTED, "planted.py") == [
        f"planted.py:{place}"
        for place in (
            "2: one",
            "4: asked",
            "4: both",
            "4: given",
            "4: told",
            "4: whole",
            "5: made",
            "5: said",
            "6: shown",
            "7: _these",
            "9: other",
            "9: what",
            "10: at",
            "13: found",
            "13: made",
            "16: other",
            "17: said",
        )
    ]
