"""Blocks for which others' implementations say what a format makes of them.

``python -O tests/golden/quantization_vectors.py`` writes ``tables/quantization.json`` anew; it
needs gfloat and torchao, which nothing else here does.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

TABLE = Path(__file__).parent / "tables" / "quantization.json"


def inputs():
    """(18, 32) blocks: random ones, ties, and the corners of the specification."""
    generator = np.random.default_rng(7)
    usual = generator.standard_normal((4, 32))
    wide = generator.standard_t(2, (4, 32)) * 10.0 ** generator.integers(-30, 30, (4, 1))
    ties = generator.integers(-64, 64, (4, 32)) / 8
    zeros = np.zeros((1, 32))
    saturated = np.linspace(-1.9999, 1.9999, 32)[None]
    tiny = np.linspace(-1, 1, 32)[None] * 2.0**-133  # subnormal numbers of float32
    huge = np.linspace(-1, 1, 32)[None] * 3.3e38
    outlier = np.where(np.arange(32) == 5, 1000.0, 0.01)[None]
    below = np.where(np.arange(32) == 0, 1.0, 2.0 ** -np.arange(32.0))[None]
    blocks = [usual, wide, ties, zeros, saturated, tiny, huge, outlier, below]
    return np.concatenate(blocks).astype(np.float32)


def of_gfloat():
    """What gfloat has for each preset of OCP MX 1.0."""
    from gfloat import compute_scale_amax, formats, quantize_block

    names = {
        "mxfp4": "mxfp4_e2m1",
        "mxfp6-e2m3": "mxfp6_e2m3",
        "mxfp6-e3m2": "mxfp6_e3m2",
        "mxfp8-e4m3": "mxfp8_e4m3",
        "mxfp8-e5m2": "mxfp8_e5m2",
        "mxint8": "mxint8",
    }
    blocks = inputs().astype(np.float64)
    return {
        name: np.stack(
            [
                quantize_block(getattr(formats, f"format_info_{theirs}"), row, compute_scale_amax)
                for row in blocks
            ]
        ).astype(np.float32)
        for name, theirs in names.items()
    }


def of_torchao():
    """What torchao has for NVFP4 with its scale of the tensor, here of each block of 32."""
    import torch
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale

    rows = []
    for row in torch.tensor(inputs()[[0, 1, 2, 3, 8, 9, 10, 11, 13, 16]])[:, None]:
        scale = per_tensor_amax_to_scale(row.abs().max())
        rows.append(NVFP4Tensor.to_nvfp4(row, per_tensor_scale=scale).dequantize(torch.float32))
    return {"nvfp4": torch.cat(rows).numpy()}


LAYER = "model.layers.0.self_attn.k_proj.weight"


def layer_and_moment():
    """(32, 64) weights of the byte model, and inputs of which neighbors are alike."""
    import torch
    from safetensors.torch import load_file

    folder = Path(__file__).parents[1] / "unit" / "models" / "quantization" / "byte_model"
    weights = load_file(folder / "model.safetensors")[LAYER].float()
    places = np.arange(weights.shape[1])
    moment = 0.75 ** abs(places[:, None] - places[None, :])
    return weights, torch.tensor(moment.astype(np.float32))


def of_gptq():
    """What torchao's GPTQ makes of that layer in NVFP4; run with -O, as it asserts a GPU."""
    import torch
    from torchao.prototype.gptq.api import GPTQConfig, gptq_quantize
    from torchao.prototype.mx_formats.inference_workflow import (
        NVFP4DynamicActivationNVFP4WeightConfig,
    )

    torch.cuda.synchronize = lambda *_: None
    base = NVFP4DynamicActivationNVFP4WeightConfig(
        use_dynamic_per_tensor_scale=True, use_triton_kernel=False
    )
    weights, moment = layer_and_moment()
    stored = gptq_quantize(moment, weights, GPTQConfig(base_config=base))
    return stored.dequantize(torch.float32).numpy()


def main():
    """Write the table."""
    document = {
        "sources": {"mx": f"gfloat {version('gfloat')}", "nvfp4": f"torchao {version('torchao')}"},
        "form": "the bits of each float32, in hexadecimal",
        "inputs": [row.tobytes().hex() for row in inputs()],
        "nvfp4_rows": [0, 1, 2, 3, 8, 9, 10, 11, 13, 16],
        "outputs": {
            name: [row.tobytes().hex() for row in rows]
            for name, rows in {**of_gfloat(), **of_torchao()}.items()
        },
        "gptq": of_gptq().tobytes().hex(),
    }
    TABLE.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
