"""Decode against another implementation of the array (tables/decode_attention.yaml)."""

from pathlib import Path

import pytest
import yaml

from codesign.evaluators.npu import NpuEvaluator
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space

TABLE = yaml.safe_load(
    (Path(__file__).parent / "tables" / "decode_attention.yaml").read_text(encoding="utf-8")
)
SPACE = load_space("memexplorer", {"memtech": load_library().catalog()})
EVALUATOR = NpuEvaluator(Request(model=TABLE["model"], trace=TABLE["trace"], phase="decode"))


def throughput(tiers):
    design = {**TABLE["design"], "pe_array": tuple(TABLE["design"]["pe_array"])}
    for number in (1, 2, 3):
        technology, stacks = tiers[number - 1] if number <= len(tiers) else (None, None)
        design |= {f"tier{number}_technology": technology, f"tier{number}_stacks": stacks}
    columns = SPACE.columns(SPACE.encode(design))
    metrics = EVALUATOR.evaluate(columns, ["throughput_tokens_per_s"]).metrics
    return float(metrics["throughput_tokens_per_s"][0])


@pytest.mark.parametrize(("tiers", "tokens_per_s"), TABLE["tokens_per_s"], ids=str)
def test_decode_is_as_fast_as_in_the_other_implementation(tiers, tokens_per_s):
    assert throughput(tiers) == pytest.approx(tokens_per_s, rel=TABLE["tolerance"])


def test_an_array_bound_step_takes_every_weight_and_key_once_through_the_array():
    # 70.55e9 weights less the 1.05e9 of the embedding, which are looked up, and 94,000 positions
    # of 2 x 80 layers x 8 heads x 128; 2048 of either enter the array in a cycle of 1 ns.
    weights, keys_and_values = 69.5e9, 94_000 * 2 * 80 * 8 * 128
    seconds = (weights + keys_and_values) / 2048e9
    assert keys_and_values == pytest.approx(15.4e9, rel=1e-2)
    assert 1.0 / throughput([("hbm3e_8h", 4)]) == pytest.approx(seconds, rel=5e-3)
