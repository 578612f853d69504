"""Each refusal of ours is provoked: by its message in the tests beside it, or here."""

import ast
import re
import sqlite3
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from codesign.cli import main
from codesign.cli.campaigns import limit_of
from codesign.cli.flags import numbers
from codesign.evaluators.command.command_options import CommandOptions, NumberSource
from codesign.evaluators.command.numbers import Outputs
from codesign.evaluators.functions.benchmark_functions import FunctionOptions
from codesign.evaluators.platform.design_times import found_design
from codesign.evaluators.system.workload import SystemWorkload
from codesign.insight.comparison.published_problems import files_of
from codesign.insight.explanation.variation import _refuse_to_fix
from codesign.models.quantization.accuracy_table import usable_device
from codesign.models.quantization.element_types import float_type
from codesign.models.quantization.model_checkpoint import _add_sizes
from codesign.models.workload import load_model
from codesign.models.workload.model import LanguageModel
from codesign.report.exports.scalesim import products_of
from codesign.report.simulators.environments import SIMULATORS, _call
from codesign.search.campaign.store import Store
from codesign.search.campaign.store_errors import explained
from codesign.serve.server import _codes
from codesign.serve.session import Session
from codesign.space import parse_space
from codesign.space.expression_parser import MAX_LENGTH
from codesign.space.parameters import MAX_LEVELS, read_values
from codesign.testing import _require

ROOT = Path(__file__).resolve().parents[2]
MEMORY = ROOT / "memtech" / "hbf.yaml"
SIMULATOR = next(iter(SIMULATORS.values()))
STAND_IN = SimpleNamespace
"""A record of any type, with the fields alone that a refusal reads."""
N_UNNAMED = 26


def _store_without_description():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE meta (key, value, checksum)")
    connection.execute("CREATE TABLE runs (run, optimizer, seed, ended, checksum)")
    return Store(Path("a"), connection)


"""Refusals whose words no test has yet; it only falls."""

COMMANDS = {
    "size llama-3-8b --on h100-pcie --use-case chat --link pcie-host": (
        "--link: h100-pcie has no PCIe link: add a generation, such as pcie4-host"
    ),
    "size llama-3-8b --on l4 --use-case chat --devices 8 --draft-tokens 4": "needs --draft",
    "size llama-3-8b --on l4 --use-case chat --batch 8 --draft-tokens 65": "equal to 64, got 65",
    "size llama-3-8b --on l4 --use-case chat --devices 8 --pp 2": ("--pp: expected it with one of"),
    "status cache show --max-size 1GB": "takes no --evaluator, --older-than-days and --max-size",
    "list model a b": "list: expected [KIND] NAME, got 3 words",
    "list simulators --install": "--install: name one of",
}


def space(text):
    return parse_space(text, {}, "a.yaml")


def output(**source):
    """A number of what a program wrote in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.csv").write_text("x\n1\n", encoding="utf-8")
        (Path(folder) / "long.csv").write_text("x" * 200_000, encoding="utf-8")
        (Path(folder) / "folder").mkdir()
        run = STAND_IN(stdout="x=1", stderr="")
        return Outputs(Path(folder), run).number(NumberSource(**source, unit="s"), "s")


def sqlite_error(name, code):
    """Raise what SQLite raises with an error code."""

    def fail():
        error = sqlite3.OperationalError(name)
        error.sqlite_errorcode = code
        with explained(Path("a.sqlite")):
            raise error

    return fail


CALLS = {
    r"--factors: expected numbers such as 1,2,4, got 'b'": lambda: numbers(
        "--factors", "1,b", above=0.0
    ),
    r"a problem of the set needs a reference_point": lambda: files_of(
        "a", "b", 1, STAND_IN(problem=None, reference_point=None, path=Path("a.yaml")),
        STAND_IN(),
    ),
    r"fix parameters before constraints are changed": lambda: _refuse_to_fix({}, None),
    r"element type 'e0m1': expected 1 to \d exponent": lambda: float_type(0, 1),
    r"a.sqlite: cannot be opened or written": sqlite_error("no", sqlite3.SQLITE_CANTOPEN),
    r"a.sqlite: another program is using the store": sqlite_error("no", sqlite3.SQLITE_BUSY),
    r"expected \{\"codes\": \[whole numbers\]\}": lambda: _codes(b'{"codes": [1.5]}'),
    r"the expression has \d+ characters; at most": lambda: space(
        f"parameters: {{x: [1, 2]}}\nconstraints: ['{'x + ' * MAX_LENGTH} x <= 2']\n"
    ),
    r"\d+ values; at most \d+": lambda: read_values(list(range(MAX_LEVELS + 1)), "x"),
    r"expected \d+ coordinates, got 1": lambda: space("parameters: {x: [1, 2], y: [1, 2]}")
    .sobol_rows(np.zeros((3, 1))),
    r"an integer parameter needs whole numbers": lambda: space(
        "parameters: {x: {values: [1, 1.5], kind: integer}}"
    ),
    r"'<' compares numbers; names are equal or not": lambda: space(
        "parameters: {x: [a, b], y: [a, c]}\nconstraints: [x < y]"
    ),
    r"the dimension has an exponent above 99": lambda: space(
        f"parameters: {{x: {{values: [1 s, 2 s]}}}}\nconstraints: ['{'x * ' * 100}x > 0']"
    ),
    r"expected no --limit 3: --all shows every design": lambda: limit_of(3, show_all=True),
    r"a.csv has 1 rows, no row 5": lambda: output(csv="a.csv", column="x", row=5),
    r"a.csv has no 'y' in row 0": lambda: output(csv="a.csv", column="y", row=0),
    r"stdout has no match for 'y": lambda: output(regex="y=(.*)", file="stdout"),
    r"folder is no file": lambda: output(regex="y=(.*)", file="folder"),
    r"'files' and 'write' put '\w+.yaml' into": lambda: CommandOptions.model_validate(
        {
            "run": ["a"], "files": [str(MEMORY)], "write": {MEMORY.name: "json"},
            "metrics": {"a_s": {"sense": "minimize", "unit": "s", "from": {"regex": "(.*)"}}},
        }
    ),
    r"expected a design of a fast evaluator with batches and parallelism": lambda: found_design(
        "a", STAND_IN(is_slow=True, required_parameters=set(), optional_parameters=set()), {}
    ),
    r"phases: expected each phase once, got \['decode', 'decode'\]": lambda: SystemWorkload(
        model="llama-3-8b", trace="chat", phases=("decode", "decode")
    ),
    r"--device nonsense: torch cannot use it": lambda: usable_device("nonsense"),
    r"cannot be installed: .*No such file": lambda: _call(["/no/program"], SIMULATOR),
    r"cannot be installed: not today": lambda: _call(
        [sys.executable, "-c", "import sys; sys.exit('not today')"], SIMULATOR
    ),
    r"P1: SCALE-Sim needs a workload with matrix products": lambda: products_of(
        STAND_IN(workload=None), "P1"
    ),
    r"its description is incomplete": lambda: _store_without_description(),
    r"an observation has the wrong length": lambda: Store._matrix(
        STAND_IN(path=Path("a")), [b"x"], "<i4", 2
    ),
    r"codes: expected 2 positions, got 1": lambda: Session._row(
        STAND_IN(_space=space("parameters: {x: [1, 2], y: [1, 2]}")), [0]
    ),
    r"latent attention has no output gate": lambda: LanguageModel.model_validate(
        load_model("deepseek-v3").model_dump() | {"attn_output_gate": True}
    ),
    r"layer_types.31": lambda: LanguageModel.model_validate(
        load_model("llama-3-8b").model_dump()
        | {"layer_types": ["full_attention"] * 31 + ["fuller"]}
    ),
    r"a: is in another \*.safetensors, too": lambda: _add_sizes(
        Path("b"), STAND_IN(keys=lambda: ["a"]), {"a": (1,)}
    ),
    r"an optimizer's contract: it ends": lambda: _require(False, "it ends"),
    r"every variable of .* is used, got unused 2": lambda: FunctionOptions(
        function="dtlz2", n_objectives=2, unused=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_that_contradicts_itself_is_refused(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    assert COMMANDS[words] in capsys.readouterr().err


@pytest.mark.parametrize("message", CALLS)
def test_a_value_that_cannot_be_used_is_refused(message):
    with pytest.raises(Exception, match=message):
        CALLS[message]()


def _words(text):
    return " ".join(re.findall(r"[A-Za-z_]+", text)).lower()


def _fragments(call):
    """Fixed texts of a message, in words."""
    texts = [
        node.value
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [words for words in map(_words, texts) if len(words.split()) > 1]


def _refusals():
    """Place and fixed texts of every message that the package raises."""
    for path in sorted((ROOT / "codesign").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                fragments = _fragments(node.exc)
                if fragments:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", fragments


def _is_named(fragment, tests):
    """True if three words in a row of a message, or all of a short one, stand in a test."""
    words = fragment.split()
    return any(" ".join(words[i : i + 3]) in tests for i in range(max(1, len(words) - 2)))


def test_the_message_of_each_refusal_stands_in_a_test():
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))]
    tests = _words(" ".join(texts))
    unnamed = [
        f"{place}: {fragments[0]}"
        for place, fragments in _refusals()
        if not any(_is_named(fragment, tests) for fragment in fragments)
    ]
    assert len(unnamed) <= N_UNNAMED, "\n".join(unnamed)
