"""Measure the house and hold it: ``python -m tests.gate.house``; exit code 1 if a figure grew.

Size is counted in nodes of the syntax tree, which neither dense text nor short lines change.
Each figure has a limit, which is lowered when the figure falls, and the goal beside it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

EMPTY = """
item items part parts kind own known chosen kept thing one said found given asked told made shown
whole what other both these wanted left taken
"""
"""Names that say that there is a thing and not which."""
VAGUE = "What Which Of As Those That By In From With To Where How Why If"
"""Words at the begin of a docstring that hang on the signature."""
PREPOSITIONS = """
of by in from with to at on for as into within without under over per beyond between after before
against until
"""
MOST_WORDS = 30
"""Words of a sentence."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Figure:
    """A measured number with the most that the gate lets through."""

    name: str
    value: float
    limit: float
    goal: float

    @property
    def is_share(self) -> bool:
        """True if the figure is printed in percent."""
        return isinstance(self.limit, float)

    def __str__(self) -> str:
        numbers = (self.value, self.limit, self.goal)
        texts = [f"{100 * x:.2f} %" if self.is_share else f"{x:,.0f}" for x in numbers]
        return f"{self.name:<44}{texts[0]:>10}   limit {texts[1]:>9}   goal {texts[2]:>9}"


def nodes(trees: list[ast.Module]) -> int:
    """Nodes of syntax trees."""
    return sum(sum(1 for _ in ast.walk(tree)) for tree in trees)


def single_caller_share(trees: list[ast.Module]) -> float:
    """Private functions that their module uses once, as a share of all functions."""
    n_functions = n_single = 0
    for tree in trees:
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        names = [node.name for node in ast.walk(tree) if isinstance(node, Function)]
        n_functions += len(names)
        n_single += sum(uses[name] == 1 for name in names if re.match("_[^_]", name))
    return n_single / n_functions


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Names that a module assigns, and the parameters of its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, Function) and not node.name.startswith("__"):
            parameters = (*node.args.args, *node.args.kwonlyargs)
            yield from (x.arg for x in parameters if x.arg not in {"self", "cls"})


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Texts of modules, classes and functions, and those below fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node):
            yield ast.get_docstring(node) or ""
        if isinstance(node, ast.Module | ast.ClassDef):
            for field, text in pairwise(node.body):
                is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
                if isinstance(field, ast.Assign | ast.AnnAssign) and is_text:
                    yield str(text.value.value)


def begins_vaguely(text: str) -> bool:
    """True if the first word, after shapes in brackets, is one that a text must not begin with."""
    words = re.sub(r"^\([^)]*\)\s*", "", text.strip()).split()
    return bool(words) and words[0].strip("`*:,") in VAGUE.split()


def sentences(markdown: str) -> list[str]:
    """Sentences of the running text of a page: no code, no table, no quotation."""
    text = re.sub(r"^(```|~~~).*?^\1$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?: {4}|\||#|>).*$|<[^>]*>", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", text))
    paragraphs = re.split(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. ", text)
    return [x for p in paragraphs for x in re.split(r"(?<=[.!?])\s+", " ".join(p.split())) if x]


def _trees(folder: Path) -> list[ast.Module]:
    paths = sorted((ROOT / folder).rglob("*.py"))
    return [ast.parse(path.read_text(encoding="utf-8")) for path in paths]


def _share(flags: list[bool]) -> float:
    return sum(flags) / max(len(flags), 1)


def _pages() -> list[str]:
    paths = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    return [path.read_text(encoding="utf-8") for path in paths]


def figures() -> list[Figure]:
    """Every figure with its limit and its goal."""
    package, validation, tests = (_trees(Path(x)) for x in ("codesign", "validation", "tests"))
    house = [*package, *validation]
    names = [name for tree in house for name in bound_names(tree)]
    defined = [x.name for tree in house for x in ast.walk(tree) if isinstance(x, Function)]
    texts = [text for tree in house for text in docstrings(tree)]
    summaries = [text.strip().split("\n\n")[0] for text in texts]
    pages = _pages()
    written = [x for page in [*pages, *summaries] for x in sentences(page)]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return [
        Figure("nodes of the package", nodes(package), 632_710, 520_000),
        Figure("nodes of validation", nodes(validation), 84_841, 85_000),
        Figure("nodes of the tests", nodes(tests), 409_349, 312_000),
        Figure("private functions with one caller", single_caller_share(house), 0.1464, 0.15),
        Figure("empty names", _share([x in EMPTY.split() for x in names]), 0.0048, 0.01),
        Figure(
            "functions whose name begins with a preposition",
            sum(x.lstrip("_").split("_")[0] in PREPOSITIONS.split() for x in defined), 0, 0,
        ),
        Figure(
            "docstrings that begin vaguely",
            _share([begins_vaguely(x) for x in texts]), 0.0005, 0.01,
        ),
        Figure(
            f"sentences of more than {MOST_WORDS} words",
            _share([len(x.split()) > MOST_WORDS for x in written]), 0.0002, 0.0,
        ),
        Figure("words of docs", sum(len(page.split()) for page in pages), 34_440, 35_000),
        Figure("words of the changelog", len(changes.split()), 2_000, 2_500),
    ]  # fmt: skip


def main() -> int:
    """Print the figures; the exit code."""
    measured = figures()
    print("\n".join(map(str, measured)))
    beyond = [figure.name for figure in measured if figure.value > figure.limit]
    if beyond:
        print(f"beyond their limit: {', '.join(beyond)}", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
