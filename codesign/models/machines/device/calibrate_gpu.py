"""Measure the kernels of one GPU for `codesign size calibrate`. Needs PyTorch alone, no network.

    python calibrate_gpu.py card.json
    torchrun --nproc-per-node 2 calibrate_gpu.py card.json    # measures links as well

It takes some minutes on a card that nothing else uses. Each kernel is captured in a CUDA graph of
many calls, which cycle through more weights than caches hold. Its time is the median of replays
between CUDA events, after warm-up and a rest. Products in a loop follow, at the power limit.
`--device cpu` runs small shapes anywhere: it shows the form of the file, and no more.
"""

import argparse
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    import torch
    from torch import Tensor, distributed
    from torch.nn import functional
    from torch.nn.attention.bias import causal_lower_right
except ImportError:
    sys.exit("error: PyTorch 2.6 or later is missing: pip install torch")

Call = Callable[[], object]
Kernels = list[dict[str, Any]]
"""Kernels that a call runs, as the file has them."""
Operation = tuple[Call, Kernels]

REPLAYS = 7
CALLS = 20
REST_S = 0.2
HOT_US = 8e5
BURST_US = 4e3  # so long does a replay last: then power limits slow large products
CYCLED_BYTES = 256e6
HEAD = 128
POWER_COMMAND = "nvidia-smi -i 0 --query-gpu=enforced.power.limit --format=csv,noheader"

SHAPES = {
    "cuda": """
        product 1,16,64,256,1024,4096 6144,4096,28672 4096
        product 1,16,64,256,1024,4096 4096 14336
        product 1,16,64,256,1024,4096 1024 8192
        product 1,64 128256 4096
        product 128 512 512
        product 8192 8192 8192
        product 16,64,256,1024,4096 6144,28672 4096 fp8
        attention 1 256,512,1024,2048,4096,8192,16384 0 32 8
        attention 4 512,2048,4096 0 16 4
        attention 32,64,128 1 511,2047,6143 32 8
        attention 256 1 1023 16 8
        rowwise norm,add_norm,add 1,256,4096 4096
        rowwise silu_mul 1,256,4096 14336
        rowwise rope 1,256,4096 5120
        stream copy,add,read 268435456,1073741824
        layer 4096 32 8 14336 1,8,32,64,128 1 512,2048
        layer 4096 32 8 14336 1 128,256,512,1024,2048,4096,8192 0
        layer 4096 32 8 14336 1 512 1024,4096,8192
        hot_product 8192 8192 8192
        hot_product 4096 28672 4096
        hot_product 2048 8192 8192""",
    "cpu": """
        product 1,4,16,32 32,48,64 32,64,96
        attention 1 8,16 0 4 2
        attention 2 1 15 4 2
        rowwise norm,add_norm,silu_mul,add,rope 1,8 128
        stream copy,add,read 1048576
        layer 64 4 2 96 2 1 16
        layer 64 4 2 96 1 8 0
        hot_product 64 64 64""",
}
"""Operations, and alternatives of each of their arguments."""


def elapsed_us(call: Call, calls: int, device: str) -> float:
    """Time of each of some calls: on a GPU, between events around them."""
    if device == "cpu":
        return timeit.timeit(call, number=calls) * 1e6 / calls
    # PyTorch states no types for the constructor of events.
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call] # PyTorch leaves the constructor of Event without types
    first.record()
    timeit.timeit(call, number=calls)
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) * 1e3 / calls


def median_us(call: Call, device: str, is_hot: bool) -> float:
    """Median time of a call on a rested card, or after 0.8 s in a loop."""
    elapsed_us(call, 3, device)
    warm_us = elapsed_us(call, 2, device)
    calls = 1
    if device == "cuda":
        calls = min(int(BURST_US / warm_us) + 1, CALLS)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            timeit.timeit(call, number=calls)
        call = graph.replay
        elapsed_us(call, 1, device)
        time.sleep(REST_S)
    if is_hot:
        elapsed_us(call, int(HOT_US / warm_us / calls), device)
    return statistics.median(elapsed_us(call, 1, device) / calls for _ in range(REPLAYS))


def random(*shape: int) -> Tensor:
    """Random numbers in 16 bits."""
    return torch.randn(shape, dtype=torch.bfloat16)


def copies(tensor: Tensor) -> Iterator[Tensor]:
    """Equal weights in turn, so many that caches cannot hold them."""
    count = min(int(CYCLED_BYTES // tensor.nbytes) + 1, 64)
    return itertools.cycle([tensor.clone() for _ in range(count)])


def product(m: int, n: int, k: int, style: str = "bf16") -> Operation:
    """A product; in fp8, with one scale a tensor, its input comes quantized."""
    x = random(m, k)
    weight = random(n, k)
    multiply: Callable[..., Tensor] = torch.mm
    if style == "fp8":
        scale = torch.ones(())
        x = x.to(torch.float8_e4m3fn)
        weight = weight.to(torch.float8_e4m3fn)
        multiply = functools.partial(
            torch._scaled_mm, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16
        )
    weights = copies(weight)
    return lambda: multiply(x, next(weights).t()), [
        {"family": "gemm", "sizes": [m, n, k], "format": style}
    ]


def attention(sequences: int, new: int, past: int, heads: int, kv_heads: int) -> Operation:
    """Attention; the queries of a KV head are rows of one product where each sequence has one."""
    tokens = past + new
    mask = None
    query = random(sequences, heads, new, HEAD)
    cache = random(2, sequences, kv_heads, tokens, HEAD)
    if new == 1:
        query = query.view(sequences, kv_heads, -1, HEAD)
    else:
        cache = cache.repeat_interleave(heads // kv_heads, 2)
        mask = causal_lower_right(new, tokens)
    keys, values = map(copies, cache)
    return lambda: functional.scaled_dot_product_attention(query, next(keys), next(values), mask), [
        {"family": "attention", "sizes": [sequences, new, tokens, heads, kv_heads, HEAD]}
    ]


def norm(x: Tensor) -> Tensor:
    """Root mean square norm."""
    return functional.rms_norm(x, x.shape[-1:], eps=1e-6)


def add_norm(x: Tensor, y: Tensor) -> object:
    """Addition, then the norm; both results are written."""
    return (total := x + y), norm(total)


def silu_mul(x: Tensor, y: Tensor) -> Tensor:
    """Gated activation."""
    return functional.silu(x) * y


def rope(x: Tensor, angles: Tensor) -> Tensor:
    """Rotation of heads by position."""
    (low, high), (cosine, sine) = x.chunk(2, -1), angles
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1)


ROWWISE: dict[str, tuple[Callable[..., object], int]] = {
    "norm": (norm, 4),
    "add_norm": (add_norm, 8),
    "silu_mul": (silu_mul, 6),
    "add": (torch.add, 6),
    "rope": (rope, 4),
}
"""Functions of rows, and bytes that they move per element."""


def rowwise(role: str, tokens: int, width: int) -> Operation:
    """A kernel that works row by row, compiled by Triton into one on a GPU."""
    operands = [random(tokens, width) for _ in range(1 + (role != "norm"))]
    if role == "rope":
        operands = [operands[0].view(tokens, -1, HEAD), random(2, tokens, 1, HEAD // 2)]
    function, n_bytes = ROWWISE[role]
    if operands[0].is_cuda:
        function = torch.compile(function, dynamic=False)
    return lambda: function(*operands), [
        {"family": "rowwise", "sizes": [tokens * width * n_bytes], "role": role}
    ]


def stream(role: str, n_bytes: int) -> Operation:
    """A copy, an addition or a maximum of more bytes than caches hold."""
    x, y = random(2, n_bytes // 2)
    calls: dict[str, Call] = {
        "copy": lambda: y.copy_(x),
        "add": lambda: torch.add(x, 1.0, out=y),
        "read": lambda: torch.amax(x),
    }
    return calls[role], [
        {"family": "stream", "sizes": [n_bytes * (1 + (role != "read"))], "role": role}
    ]


def layer(
    hidden: int, heads: int, kv_heads: int, inner: int, sequences: int, new: int, past: int
) -> Operation:
    """One layer of a dense model."""
    tokens = sequences * new
    width = heads * HEAD
    calls, kernels = zip(
        product(tokens, width + 2 * kv_heads * HEAD, hidden),
        rowwise("rope", tokens, width + kv_heads * HEAD),
        attention(sequences, new, past, heads, kv_heads),
        product(tokens, hidden, width),
        rowwise("add_norm", tokens, hidden),
        product(tokens, 2 * inner, hidden),
        rowwise("silu_mul", tokens, inner),
        product(tokens, hidden, inner),
        rowwise("add_norm", tokens, hidden),
        strict=True,
    )
    return lambda: [call() for call in calls], [*itertools.chain(*kernels)]


OPERATIONS: dict[str, Callable[..., Operation]] = {
    "product": product,
    "hot_product": product,
    "attention": attention,
    "rowwise": rowwise,
    "stream": stream,
    "layer": layer,
}


def measure(device: str) -> Kernels:
    """All kernels of a card, but those that it cannot run."""
    measured = []
    for line in SHAPES[device].split("\n")[1:]:
        name, *axes = line.split()
        is_hot = name == "hot_product"
        for words in itertools.product(*(axis.split(",") for axis in axes)):
            arguments = (int(word) if word.isdigit() else word for word in words)
            try:
                with torch.device(device):
                    call, kernels = OPERATIONS[name](*arguments)
                time_us = median_us(call, device, is_hot)
            except Exception as error:  # a format or a size that the card or its library lacks
                print("skipped", line, words, repr(error), file=sys.stderr)
                continue
            for kernel in kernels:
                measured.append(kernel | {"is_hot": is_hot, "median_us": time_us})
                time_us = 0.0  # the first kernel of a layer has the time of all
    return measured


def messages(device: str, ranks: int) -> Kernels:
    """All-reduces among the processes of torchrun, each of which makes as many calls."""
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    measured = []
    for n_bytes in (8192, 65536, 524288, 4194304, 33554432, 268435456):
        data = torch.ones(n_bytes // 2, dtype=torch.bfloat16, device=device)
        call = functools.partial(distributed.all_reduce, data)
        elapsed_us(call, 3, device)
        time_us = elapsed_us(call, CALLS, device)
        measured.append({"family": "message", "sizes": [n_bytes, ranks], "median_us": time_us})
    distributed.destroy_process_group()
    return measured


def facts(device: str) -> dict[str, object]:
    """Name of the card, and numbers that its driver states, by keys of device files."""
    if device == "cpu":
        return {"card": device, "device": {"n_cores": os.cpu_count()}}
    card = torch.cuda.get_device_properties(0)
    numbers = {
        "n_cores": card.multi_processor_count,
        "capacity": f"{card.total_memory / 1e9:.4g} GB",
        "cache": f"{card.L2_cache_size / 1e6:.4g} MB",
    }
    power = subprocess.getoutput(POWER_COMMAND)
    if power.endswith(" W"):
        numbers["power"] = power
    return {"card": card.name, "device": numbers}


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path, help="file to write, such as card.json")
    parser.add_argument("--device", choices=SHAPES, default="cuda")
    arguments = parser.parse_args()
    device = arguments.device
    rank = int(os.environ.get("RANK", 0))
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    if device == "cuda":
        if not torch.cuda.is_available():
            sys.exit("error: PyTorch finds no GPU; --device cpu shows the form of the file")
        torch.cuda.set_device(rank % torch.cuda.device_count())
    torch._dynamo.config.cache_size_limit = 256  # compile each size by itself
    sent = messages(device, ranks) if ranks > 1 else []
    if rank:
        return
    kernels = measure(device) + sent
    day = f"{time.strftime('%Y-%m-%d')} (torch {torch.__version__}, CUDA {torch.version.cuda})"
    document = facts(device) | {"day": day, "kernels": kernels}
    arguments.output.write_text(json.dumps(document, indent=1))
    print(f"{len(kernels)} kernels; now: codesign size calibrate {arguments.output}")


if __name__ == "__main__":
    main()
