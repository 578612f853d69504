"""The wrapper of SCALE-Sim counts what it simulates for what it leaves out."""

import json

import pytest

import codesign
from codesign.report.simulators import design_file, scalesim

_WORKLOAD = {"model": "llama-3-8b", "prompt_tokens": 16, "generated_tokens": 1, "batch": 1,
             "phase": "prefill"}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def systolic(part):
    """Weight stationary on 2048 x 256 (Samajdar et al., arXiv:1811.02883)."""
    m, n, k = map(int, part.split(","))
    return -(-k // 2048) * -(-n // 256) * (2 * 2048 + 256 + m - 2)


def test_parts_of_products_count_for_the_whole(folder, monkeypatch):
    def run_with(name, program, configuration, *parts):
        return {"version": "3", "cycles": list(map(systolic, parts)), "stalls": [0] * len(parts)}

    monkeypatch.setattr(scalesim, "run_with", run_with)
    evaluated = codesign.evaluate(design="P1", workload=_WORKLOAD, options={"array": "systolic"})
    numbers = scalesim.simulate(evaluated)
    from codesign.report.exports.scalesim import products_of

    expected = sum(
        item.times * systolic(f"{item.m},{item.n},{item.k}") for item in products_of(evaluated, "")
    )
    assert numbers["array_s"] == pytest.approx(expected / 1e9, rel=1e-12)
    # The array is slower than P1's 5 TB/s, but for the products of attention.
    assert expected / 1e9 <= numbers["latency_s"] < 1.01 * expected / 1e9


def test_a_product_takes_at_least_the_time_of_its_traffic(folder, monkeypatch):
    def run_with(name, program, configuration, *parts):
        return {"version": "3", "cycles": [1] * len(parts), "stalls": [0] * len(parts)}

    monkeypatch.setattr(scalesim, "run_with", run_with)
    evaluated = codesign.evaluate(design="P1", workload=_WORKLOAD, options={"array": "systolic"})
    # 6.98e9 8-bit weights of the layers and 0.53e9 of the head at 5 TB/s; activations on top.
    assert 7.5e9 / 5e12 < scalesim.simulate(evaluated)["latency_s"] < 8e9 / 5e12
    assert "ArrayHeight = 2048" in (folder / "machine.cfg").read_text()


def test_a_design_that_cannot_be_simulated_ends_with_a_line(folder, monkeypatch, capsys):
    path = folder / "design.json"
    path.write_text(json.dumps({"design": {"pe_array": 3}, "workload": _WORKLOAD}))
    monkeypatch.setattr("sys.argv", ["scalesim", str(path), "result.json"])
    assert design_file.answer(scalesim.simulate, "systolic") == 1
    assert "pe_array" in capsys.readouterr().err
    assert not (folder / "result.json").exists()
