"""Train ``byte_model``: a decoder over bytes on the sources of the standard library.

``python tests/unit/models/quantization/train_byte_model.py`` writes the folder anew, in about 75 s
of one core. ``argparse.py`` is held out, to measure on. It is small enough to ship, not to be good.
"""

import json
import math
import sysconfig
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn import functional

from codesign.models.quantization.decoder import Decoder, DecoderShape, layer_prefix

FOLDER = Path(__file__).parent / "byte_model"
HELD_OUT = "argparse.py"
SHAPE = DecoderShape(256, 64, 192, 2, 2, 1, 32, 1e-5, 10000.0, None, True)
_STEPS, _BATCH, _CONTEXT, _WARM_UP, _RATE = 640, 32, 128, 100, 4e-3
_PRODUCTS = {
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (192, 64),
    "mlp.up_proj": (192, 64),
    "mlp.down_proj": (64, 192),
}


def library_bytes():
    """(n,) bytes of the modules of the standard library, the held-out one apart."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = [path for path in sorted(folder.glob("*.py")) if path.name != HELD_OUT]
    joined = b"\n".join(path.read_bytes() for path in files)
    return torch.frombuffer(bytearray(joined), dtype=torch.uint8).long()


def fresh_weights():
    hidden = SHAPE.hidden_size
    weights = {
        "model.embed_tokens.weight": torch.randn(256, hidden) * 0.05,
        "model.norm.weight": torch.ones(hidden),
    }
    for layer in range(SHAPE.num_hidden_layers):
        prefix = layer_prefix(layer)
        for name, (rows, columns) in _PRODUCTS.items():
            gain = 0.5 if name.endswith(("o_proj", "down_proj")) else 1.0
            weights[f"{prefix}{name}.weight"] = (
                gain * torch.randn(rows, columns) / math.sqrt(columns)
            )
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}{norm}.weight"] = torch.ones(hidden)
    return weights


def train(steps=_STEPS, seed=0):
    """A decoder after so many steps; the rate falls to nothing by a cosine."""
    torch.manual_seed(seed)
    data, weights = library_bytes(), fresh_weights()
    for weight in weights.values():
        weight.requires_grad_(True)
    decoder = Decoder(SHAPE, weights)
    optimizer = torch.optim.AdamW(weights.values(), betas=(0.9, 0.98), weight_decay=0.01)
    generator = torch.Generator().manual_seed(seed + 1)
    for step in range(steps):
        warm = min(1.0, (step + 1) / _WARM_UP)
        for group in optimizer.param_groups:
            group["lr"] = _RATE * warm * (0.5 + 0.5 * math.cos(math.pi * step / steps)) + 1e-5
        starts = torch.randint(len(data) - _CONTEXT - 1, (_BATCH,), generator=generator)
        batch = torch.stack([data[start : start + _CONTEXT + 1] for start in starts])
        logits = decoder.logits(batch[:, :-1]).flatten(0, 1)
        loss = functional.cross_entropy(logits, batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
    return Decoder(SHAPE, {name: weight.detach() for name, weight in weights.items()})


def write(decoder, folder):
    """The decoder as a folder of Hugging Face's, in float16."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: weight.half() for name, weight in decoder.weights.items()},
        folder / "model.safetensors",
    )
    config = {
        "model_type": "llama",
        "vocab_size": 256,
        "hidden_size": SHAPE.hidden_size,
        "intermediate_size": SHAPE.intermediate_size,
        "num_hidden_layers": SHAPE.num_hidden_layers,
        "num_attention_heads": SHAPE.num_attention_heads,
        "num_key_value_heads": SHAPE.num_key_value_heads,
        "head_dim": SHAPE.head_dim,
        "rms_norm_eps": SHAPE.rms_norm_eps,
        "rope_theta": SHAPE.rope_theta,
        "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write(train(), FOLDER)
