"""Block formats, bit for bit as gfloat and torchao have them."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from codesign.models.quantization import find_block_format, quantize

HERE = Path(__file__).parent
TABLE = json.loads((HERE / "tables" / "quantization.json").read_text("utf-8"))


def blocks(lines):
    return np.stack([np.frombuffer(bytes.fromhex(line), np.float32) for line in lines])


@pytest.mark.parametrize("name", [name for name in TABLE["outputs"] if name != "nvfp4"])
def test_blocks_of_ocp_are_those_of_gfloat(name):
    stored = quantize(blocks(TABLE["inputs"]), find_block_format(name))
    np.testing.assert_array_equal(stored, blocks(TABLE["outputs"][name]))


def test_blocks_of_nvfp4_are_those_of_torchao():
    rows = blocks(TABLE["inputs"])[TABLE["nvfp4_rows"]]
    stored = [quantize(row[None], find_block_format("nvfp4"))[0] for row in rows]
    np.testing.assert_array_equal(stored, blocks(TABLE["outputs"]["nvfp4"]))


def load_vectors():
    spec = importlib.util.spec_from_file_location("vectors", HERE / "quantization_vectors.py")
    assert spec is not None and spec.loader is not None
    vectors = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vectors)
    return vectors


def test_gptq_is_that_of_torchao_on_the_same_layer():
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from codesign.models.quantization.weight_algorithms import gptq

    weights, moment = load_vectors().layer_and_moment()
    stored = gptq(weights, moment, find_block_format("nvfp4")).numpy()
    theirs = np.frombuffer(bytes.fromhex(TABLE["gptq"]), np.float32).reshape(stored.shape)
    # Equal here; elsewhere the factors of a Cholesky decomposition may round otherwise.
    assert (stored == theirs).mean() > 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "function"), [("gfloat", "of_gfloat"), ("torchao", "of_torchao")]
)
def test_the_libraries_still_say_the_same(library, function):
    if importlib.util.find_spec(library) is None:
        # Libraries that only check ours are no dependencies; their answers are in the golden table,
        # which the default suite compares.
        pytest.skip(f"{library} is not installed")
    for name, rows in getattr(load_vectors(), function)().items():
        np.testing.assert_array_equal(rows, blocks(TABLE["outputs"][name]))


@pytest.mark.slow
def test_rotations_fold_into_a_layer_as_torchao_folds_them(monkeypatch):
    if importlib.util.find_spec("torchao") is None:
        # It only checks ours and is no dependency; test_measured_model compares with SciPy always.
        pytest.skip("torchao is not installed")
    import torch
    from torchao.prototype.spinquant import hadamard_utils

    from codesign.models.quantization import transformations
    from codesign.models.quantization.model_checkpoint import load_checkpoint

    decoder = load_checkpoint(HERE.parent / "unit" / "models" / "quantization" / "byte_model")
    shape, prefix = decoder.shape, "model.layers.1."

    def of_torchao(size, seed=0):
        """Theirs for heads and inner state; the hidden state, which they leave alone, stays."""
        identity = torch.eye(size, dtype=torch.float64)
        if size == shape.hidden_size:
            return identity
        return hadamard_utils.matmul_hadU(identity, *hadamard_utils.get_hadK(size))

    monkeypatch.setattr(transformations, "hadamard", of_torchao)
    folded = transformations.rotated(decoder).weights
    gain = decoder.weights[f"{prefix}input_layernorm.weight"]
    cases = [("mlp.down_proj", -1, False), ("self_attn.o_proj", shape.head_dim, False)]
    for part, size, is_output in [*cases, ("self_attn.v_proj", shape.head_dim, True)]:
        weight = decoder.weights[f"{prefix}{part}.weight"]
        layer = torch.nn.Linear(*weight.T.shape, bias=False)
        layer.weight.data = weight * gain if is_output else weight.clone()
        hadamard_utils.apply_exact_had_to_linear(layer, had_dim=size, output=is_output)
        assert torch.allclose(folded[f"{prefix}{part}.weight"], layer.weight, atol=1e-7), part
