"""The examples of docs/how-to/problem-set.md run as they are printed, with fewer evaluations."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "problem-set.md").read_text("utf-8")
BLOCKS = dict(re.findall(r'^```python title="([^"]+)"\n(.*?)^```', PAGE, re.M | re.S))
SHORTER = {
    "optuna_user.py": [("n_trials=100", "n_trials=40"), ("(20, 50, 100)", "(20, 30, 40)")],
    "botorch_user.py": [("< 60", "< 21"), ("(20, 40, 60)", "(10, 20, 21)")],
}


@pytest.fixture(autouse=True)
def _torch_as_before(monkeypatch):
    import torch

    # BoTorch compiles a faster form of the acquisition at its first use, which takes 18 s.
    monkeypatch.setattr("botorch.acquisition.multi_objective.logei._load_attempted", True)
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_num_threads(1)  # more of them wait for one another where tests share the cores
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore")  # those of the libraries that the page is about
@pytest.mark.parametrize("name", SHORTER)
def test_an_example_runs_and_its_score_grows(name, capsys):
    code = BLOCKS[name]
    assert len([line for line in code.splitlines() if line.strip()]) <= 32
    for text, shorter in SHORTER[name]:
        assert text in code
        code = code.replace(text, shorter)
    names = {}
    exec(compile(code, name, "exec"), names)
    shares = [float(text) for text in re.findall(r": ([\d.]+)%", capsys.readouterr().out)]
    assert len(shares) == 3 and shares == sorted(shares)
    assert 0 < shares[-1] <= 100


def test_the_page_has_no_other_example():
    assert set(BLOCKS) == set(SHORTER)
