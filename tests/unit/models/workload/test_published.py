"""Models and their work against numbers that others published (tests/golden/tables/models_*)."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from codesign.models.workload import (
    active_parameter_count,
    kv_elements_per_token,
    list_models,
    load_model,
    lower,
    parameter_count,
    parameters_by_part,
    state_bytes,
)

TABLES = Path(__file__).parents[3] / "golden" / "tables"


def table(name):
    return yaml.safe_load((TABLES / f"models_{name}.yaml").read_text(encoding="utf-8"))


def flop(operators):
    return 2 * operators.count * operators.mac_per_request


def vector_ops(operators, name):
    position = operators.names.index(name)
    return float((operators.count * operators.vector_ops_per_request)[position])


def agrees(got, printed, rounded_to):
    return abs(got - printed) <= rounded_to / 2


@pytest.mark.parametrize("row", table("parameters")["counts"], ids=lambda row: row["model"])
def test_the_parameter_count_is_the_published_one(row):
    got = parameter_count(load_model(row["model"]))
    assert agrees(got, row["total"], row.get("rounded_to", 1) if "rounded_to" in row else 0)


@pytest.mark.parametrize("row", table("parameters")["active"], ids=lambda row: row["model"])
def test_the_active_parameters_round_to_the_published_ones(row):
    model = load_model(row["model"])
    got = active_parameter_count(model)
    got -= sum(parameters_by_part(model)[part] for part in row.get("without", ()))
    assert agrees(got, row["active"], row["rounded_to"])


def test_every_bundled_model_has_a_published_count_in_its_file_and_in_the_table():
    listed = {row["model"] for row in table("parameters")["counts"]}
    assert listed == set(list_models())
    for name in list_models():
        model = load_model(name)
        assert model.parameters is not None and model.sources
        assert agrees(
            parameter_count(model),
            model.parameters.count,
            model.parameters.rounded_to if model.parameters.rounded_to > 1 else 0,
        )


@pytest.mark.parametrize("row", table("kv_bytes")["rows"], ids=lambda row: row["model"])
def test_kv_cache_and_state_take_the_published_bytes(row):
    model = load_model(row["model"])
    assert 2 * kv_elements_per_token(model) == row["bytes"]
    assert state_bytes(model) == row.get("state_bytes", 0)


@pytest.mark.parametrize("row", table("configs")["models"], ids=lambda row: row["name"])
def test_a_hugging_face_config_gives_the_published_count(row, tmp_path):
    file = tmp_path / "config.json"
    scaling = {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 2**20}
    extra = {"architectures": ["X"], "torch_dtype": "bfloat16", "rope_scaling": scaling}
    file.write_text(json.dumps({**row["config"], **extra}, indent="\t"), encoding="utf-8")
    model = load_model(str(file))
    assert parameter_count(model) == row["total"]
    assert "text_config" in row["config"] or model.context_tokens == 2**23


@pytest.mark.parametrize(
    "row", table("transformers")["models"], ids=lambda row: row["config"]["model_type"]
)
def test_a_file_that_transformers_5_wrote_gives_the_count_of_its_class(row, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(row["config"]), encoding="utf-8")
    assert parameter_count(load_model(str(file))) == pytest.approx(row["total"], rel=0.005)


@pytest.mark.parametrize(("batch", "prompt", "expected"), table("work")["genz"]["prefill"])
def test_a_prefill_does_the_arithmetic_of_genz(batch, prompt, expected):
    operators = lower(
        load_model("llama-2-7b"), "prefill", prompt, 1, causal=False, logits="all",
        embedding="dense",
    )  # fmt: skip
    assert batch * flop(operators).sum() / 1e6 == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("batch", "context", "expected"), table("work")["genz"]["decode"])
def test_a_decode_step_does_the_arithmetic_of_genz(batch, context, expected):
    operators = lower(load_model("llama-2-7b"), "decode", 1, 1, context=context)
    assert batch * flop(operators).sum() / 1e6 == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("row", table("work")["life"]["prefill"], ids=lambda row: row[0])
def test_a_prefill_divides_its_operations_as_in_life(row):
    prompt, operations, gemm, bmm, softmax, kv = row
    operators = lower(
        load_model("llama-2-7b"), "prefill", int(prompt), 1, causal=False, logits="all"
    )
    parts = np.array(
        [
            flop(operators)[operators.is_kind("gemm")].sum(),
            flop(operators)[operators.is_attention].sum(),
            vector_ops(operators, "softmax"),
        ]
    )
    # LIFE adds elementwise operations, 0.05 % of the total at most.
    assert parts.sum() / 1e12 == pytest.approx(operations, rel=1e-3)
    assert 100 * parts / parts.sum() == pytest.approx([gemm, bmm, softmax], abs=0.06)
    written = (operators.count * operators.kv_written_elements_per_request).sum()
    assert agrees(2 * written / 2**30, kv, 0.1)


@pytest.mark.parametrize(("prompt", "expected"), table("work")["life"]["decode"])
def test_a_decode_step_does_the_operations_of_life(prompt, expected):
    operators = lower(load_model("llama-2-7b"), "decode", prompt, 400)
    got = flop(operators).sum() + vector_ops(operators, "softmax")
    assert got / 1e9 == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("row", table("work")["transformers"], ids=lambda row: str(row))
def test_hybrid_attention_does_the_arithmetic_of_transformers(row):
    phase, tokens = row["phase"], row["tokens"]
    model = load_model(row["model"])
    if phase == "decode":
        operators = lower(model, phase, 1, 1, context=tokens)
    else:
        operators = lower(model, phase, tokens, 1, causal=False, logits="all")
    assert flop(operators).sum() == row["flop"]
