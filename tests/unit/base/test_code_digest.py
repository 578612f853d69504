"""A digest of code is that of a module and what it imports, and of nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import codesign
from codesign.base.code_digest import code_digest, imported_files

NPU = "codesign.evaluators.npu.npu_evaluator"


@pytest.fixture
def package(tmp_path, monkeypatch):
    files = {
        "mylib/__init__.py": "from mylib import everything\n",
        "mylib/everything.py": "",
        "mylib/model/__init__.py": "",
        "mylib/model/main.py": "from . import near\nfrom ..far import (\n    thing,  # why\n)\n",
        "mylib/model/near.py": "def f():\n    import mylib.late as late\n",
        "mylib/model/numbers.yaml": "a: 1\n",
        "mylib/far.py": 'thing = "mylib.named:thing"\n',
        "mylib/late.py": "import os\n",
        "mylib/named.py": "",
        "mylib/other.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mylib", raising=False)
    __import__("mylib")
    yield tmp_path / "mylib"
    for name in [name for name in sys.modules if name.partition(".")[0] == "mylib"]:
        del sys.modules[name]


def test_imports_of_every_form_are_followed(package):
    expected = ["mylib.far", "mylib.late", "mylib.model", "mylib.model.main", "mylib.model.near",
                "mylib.model/numbers.yaml", "mylib.named"]  # fmt: skip
    assert sorted(imported_files(["mylib.model.main"])) == expected


@pytest.mark.parametrize(
    ("name", "is_changed"),
    [("late.py", True), ("model/numbers.yaml", True), ("other.py", False), ("__init__.py", False)],
)
def test_only_what_is_imported_counts(package, name, is_changed):
    before = code_digest.__wrapped__(("mylib.model.main",))
    with (package / name).open("a") as file:
        file.write("# touched\n")
    assert (code_digest.__wrapped__(("mylib.model.main",)) != before) is is_changed


def test_a_module_without_a_file_counts_as_nothing():
    assert code_digest(("__main__x",)) == code_digest(())


DIGEST = (
    "import sys; sys.path.insert(0, sys.argv[1]); import codesign; "
    "from codesign.base.code_digest import code_digest; "
    "search = 'codesign.search.enumeration', 'codesign.search.problem_builder'; "
    f"print(code_digest((*search, '{NPU}')))"
)


def test_a_front_outlives_a_change_of_reports_and_not_one_of_the_model(tmp_path):
    root = Path(codesign.__file__).parent
    shutil.copytree(root, tmp_path / "codesign", ignore=shutil.ignore_patterns("__pycache__"))

    def digest():
        words = [sys.executable, "-I", "-c", DIGEST, str(tmp_path)]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def touch(name):
        with (tmp_path / "codesign" / name).open("a") as file:
            file.write("# touched\n")

    before = digest()
    for name in (
        "report/tables.py",
        "cli/app.py",
        "search/optimizers/tpe.py",
        "search/campaign/store.py",
    ):
        touch(name)
    assert digest() == before
    for name in (
        "evaluators/npu/npu_evaluator.py",
        "models/accounts/constants.yaml",
        "space/space.py",
    ):
        touch(name)
        now = digest()
        assert now != before
        before = now
