"""Measure the kernels of one GPU for `codesign calibrate`. Needs PyTorch alone, no network.

    python calibrate_gpu.py card.json
    torchrun --nproc-per-node 2 calibrate_gpu.py card.json    # measures links as well

It takes some minutes on a card that nothing else uses. Each kernel is captured in a CUDA graph of
many calls, which cycle through more weights than caches hold. Its time is the median of replays
between CUDA events, after warm-up and a rest. Products in a loop follow, at the power limit.
`--device cpu` runs small shapes anywhere: it shows the form of the file, and no more.
"""

import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

try:
    import torch
    import torch._dynamo
    from torch.nn import functional
    from torch.nn.attention.bias import causal_lower_right
except ImportError:
    sys.exit("error: PyTorch 2.3 or later is missing: pip install torch")

REPLAYS, CALLS, REST_S, HOT_S = 7, 20, 0.2, 0.8
BURST_US = 28e3  # so long do replays last: then power limits slow large products
CYCLED_BYTES = 256e6
PRODUCTS = [
    (m, n, k)
    for n, k in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (1024, 8192))
    for m in (1, 16, 64, 256, 1024, 4096)
] + [(1, 128256, 4096), (64, 128256, 4096), (128, 512, 512), (8192, 8192, 8192)]
NARROW = [(m, n, k) for n, k in ((6144, 4096), (28672, 4096)) for m in (16, 64, 256, 1024, 4096)]
HOT = [(8192, 8192, 8192), (4096, 28672, 4096), (2048, 8192, 8192)]
ATTENTION = [  # sequences, new tokens, all tokens, query heads, KV heads, width
    *((1, tokens, tokens, 32, 8, 128) for tokens in (256, 512, 1024, 2048, 4096, 8192, 16384)),
    *((4, tokens, tokens, 16, 4, 128) for tokens in (512, 2048, 4096)),
    *((n, 1, tokens, 32, 8, 128) for n in (32, 64, 128) for tokens in (512, 2048, 6144)),
    (256, 1, 1024, 16, 8, 128),
]
ROWS = [  # role, tokens, width
    (role, tokens, width)
    for role, width in (
        ("norm", 4096), ("add_norm", 4096), ("silu_mul", 14336), ("add", 4096), ("rope", 40)
    )
    for tokens in (1, 256, 4096)
]  # fmt: skip
ROW_BYTES = {"norm": 4, "add_norm": 8, "silu_mul": 6, "add": 6, "rope": 512}
MESSAGES = [2**power for power in (13, 16, 19, 22, 25, 28)]
STEPS = [  # sequences, new tokens, tokens before; a layer of 4096 with 32 and 8 heads, MLP of 14336
    *((n, 1, past) for n in (1, 8, 32, 64, 128) for past in (512, 2048)),
    *((1, new, 0) for new in (128, 256, 512, 1024, 2048, 4096, 8192)),
    *((1, 512, past) for past in (1024, 4096, 8192)),
]
TINY = {  # --device cpu
    "PRODUCTS": [(m, n, k) for m in (1, 4, 16, 32) for n in (32, 48, 64) for k in (32, 64, 96)],
    "NARROW": [],
    "HOT": [(64, 64, 64)],
    "ATTENTION": [(1, 8, 8, 4, 2, 16), (1, 16, 16, 4, 2, 16), (2, 1, 16, 4, 2, 16)],
    "ROWS": [
        (role, tokens, 64 if role != "rope" else 4) for role in ROW_BYTES for tokens in (1, 8)
    ],
    "STEPS": [(2, 1, 16), (1, 8, 0)],
}


def event_us(call, calls):
    """Time of a call on the GPU, between events around many."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for i in range(calls):
        call(i)
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) * 1e3 / calls


def host_us(call):
    """Median time of calls that the host waits for."""
    times = []
    for i in range(REPLAYS):
        begin = time.perf_counter()
        call(i)
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def median_us(call, device):
    """Median time of ``call(i)``, i counting calls, of a rested card."""
    for i in range(3):
        call(i)
    if device == "cpu":
        return host_us(call)
    torch.cuda.synchronize()
    calls = int(min(max(BURST_US / REPLAYS / event_us(call, 2), 1), CALLS))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i)
    graph.replay()
    torch.cuda.synchronize()
    time.sleep(REST_S)
    return statistics.median(event_us(lambda i: graph.replay(), 1) / calls for _ in range(REPLAYS))


def hot_us(call, device):
    """Time of a call in a loop, 0.8 s after it began."""
    if device == "cpu":
        return host_us(call)
    begin = time.perf_counter()
    while time.perf_counter() - begin < HOT_S:
        event_us(call, CALLS)
    return event_us(call, CALLS)


def random(*shape, device):
    """Random numbers in 16 bits."""
    return torch.randn(*shape, device=device, dtype=torch.bfloat16)


def copies(tensor):
    """As many copies of weights as caches cannot hold."""
    n_bytes = tensor.numel() * tensor.element_size()
    most = CYCLED_BYTES if tensor.is_cuda else 1.0
    return [tensor] + [tensor.clone() for _ in range(min(int(most // n_bytes), 63))]


def product(m, n, k, device):
    """A product in 16 bits."""
    x, weights = random(m, k, device=device), copies(random(n, k, device=device))
    return lambda i: functional.linear(x, weights[i % len(weights)])


def narrow(m, n, k, device):
    """A product in 8 bits, with one scale a tensor; its input comes quantized."""
    eight_bits, one = torch.float8_e4m3fn, torch.ones((), device=device)
    x = random(m, k, device=device).to(eight_bits)
    weights = copies(random(n, k, device=device).to(eight_bits))

    def call(i):
        weight = weights[i % len(weights)].t()
        return torch._scaled_mm(x, weight, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    return call


def attention(sequences, new, tokens, heads, kv_heads, width, device):
    """Attention; the queries of a KV head are rows of one product where each sequence has one."""
    if new == 1:
        query = random(sequences, kv_heads, heads // kv_heads, width, device=device)
    else:
        query = random(sequences, heads, new, width, device=device)
    caches = copies(random(2, sequences, kv_heads, tokens, width, device=device))
    if new > 1:
        caches = [cache.repeat_interleave(heads // kv_heads, dim=2) for cache in caches[:2]]
    mask = causal_lower_right(new, tokens) if 1 < new < tokens else None
    is_causal = new == tokens

    def call(i):
        key, value = caches[i % len(caches)]
        return functional.scaled_dot_product_attention(query, key, value, mask, 0.0, is_causal)

    return call


def norm(x):
    """Root mean square norm."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def add_norm(x, y):
    """Addition, then the norm; both results are written."""
    total = x + y
    return total, norm(total)


def silu_mul(x, y):
    """Gated activation."""
    return functional.silu(x) * y


def rope(x, cosine, sine):
    """Rotation of heads by position."""
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1)


def row_kernel(role, tokens, width, device, head=128):
    """A kernel that works row by row, compiled by Triton into one on a GPU."""
    function = {"norm": norm, "add_norm": add_norm, "silu_mul": silu_mul, "add": torch.add,
                "rope": rope}[role]  # fmt: skip
    if device == "cuda":
        function = torch.compile(function, dynamic=False)
    if role == "rope":
        angles = random(2, tokens, 1, head // 2, device=device)
        arguments = (random(tokens, width, head, device=device), angles[0], angles[1])
    else:
        arguments = [random(tokens, width, device=device) for _ in range(1 + (role != "norm"))]
    return lambda i: function(*arguments)


def stream(n_bytes, device, role):
    """A copy, an addition or a sum of more bytes than caches hold."""
    x = random(int(n_bytes // 2), device=device)
    y = torch.empty_like(x)
    return {
        "copy": lambda i: y.copy_(x),
        "add": lambda i: torch.add(x, 1.0, out=y),
        "read": lambda i: torch.amax(x),
    }[role]


def layer_kernels(sequences, new, past, model):
    """Kernels of one layer of a dense model: family, role, sizes."""
    hidden, heads, kv_heads, width, inner = model
    tokens, columns = sequences * new, (heads + 2 * kv_heads) * width
    rotated = (heads + kv_heads) * tokens * ROW_BYTES["rope"] * width // 128
    return [
        ("gemm", "", (tokens, columns, hidden)),
        ("rowwise", "rope", (rotated,)),
        ("attention", "", (sequences, new, past + new, heads, kv_heads, width)),
        ("gemm", "", (tokens, hidden, heads * width)),
        ("rowwise", "add_norm", (tokens * hidden * ROW_BYTES["add_norm"],)),
        ("gemm", "", (tokens, 2 * inner, hidden)),
        ("rowwise", "silu_mul", (tokens * inner * ROW_BYTES["silu_mul"],)),
        ("gemm", "", (tokens, hidden, inner)),
        ("rowwise", "add_norm", (tokens * hidden * ROW_BYTES["add_norm"],)),
    ]


def layer(kernels, device, model):
    """A call that runs the kernels of a layer."""
    hidden, heads, kv_heads, width, inner = model
    tokens, calls = kernels[0][2][0], []
    for family, role, sizes in kernels:
        if family == "gemm":
            calls.append(product(*sizes, device))
        elif family == "attention":
            calls.append(attention(*sizes, device))
        else:
            columns = {"rope": heads + kv_heads, "silu_mul": inner}.get(role, hidden)
            calls.append(row_kernel(role, tokens, columns, device, width))
    return lambda i: [call(i) for call in calls]


def kernel(family, sizes, median_us, **more):
    """One kernel of the file."""
    return {"family": family, "sizes": list(sizes), **more, "median_us": round(median_us, 3)}


def messages(device):
    """All-reduces among the processes of torchrun; None for all but the first of them."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks == 1:
        return []
    import torch.distributed as dist

    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    kernels = []
    for n_bytes in MESSAGES:
        data = random(n_bytes // 2, device=device)
        call = lambda i, data=data: dist.all_reduce(data)  # noqa: E731
        for i in range(3):
            call(i)
        dist.barrier()
        time_us = host_us(call) if device == "cpu" else event_us(call, CALLS)
        kernels.append(kernel("message", (n_bytes, ranks), time_us))
    is_first = dist.get_rank() == 0
    dist.destroy_process_group()
    return kernels if is_first else None


def plan(device):
    """Measurements in order: label, maker of a call, kernels that the call runs, key words."""
    shapes = {name: globals()[name] for name in TINY} | (TINY if device == "cpu" else {})
    for sizes in shapes["PRODUCTS"]:
        yield "product", lambda s=sizes: product(*s, device), [("gemm", "", sizes)], {}
    for sizes in shapes["NARROW"]:
        words = {"format": "fp8"}
        yield "fp8 product", lambda s=sizes: narrow(*s, device), [("gemm", "", sizes)], words
    for sizes in shapes["ATTENTION"]:
        yield "attention", lambda s=sizes: attention(*s, device), [("attention", "", sizes)], {}
    for role, tokens, width in shapes["ROWS"]:
        kernels = [("rowwise", role, (tokens * width * ROW_BYTES[role],))]
        yield role, lambda r=(role, tokens, width): row_kernel(*r, device), kernels, {}
    for n_bytes in (2**20,) if device == "cpu" else (2**28, 2**30):
        for role, passes in (("copy", 2), ("add", 2), ("read", 1)):
            kernels = [("stream", role, (passes * n_bytes,))]
            yield role, lambda r=role, n=n_bytes: stream(n, device, r), kernels, {}
    model = (64, 4, 2, 16, 96) if device == "cpu" else (4096, 32, 8, 128, 14336)
    for step in shapes["STEPS"]:
        kernels = layer_kernels(*step, model)
        yield "layer", lambda k=kernels, m=model: layer(k, device, m), kernels, {}
    for sizes in shapes["HOT"]:
        words = {"is_hot": True}
        yield "hot product", lambda s=sizes: product(*s, device), [("gemm", "", sizes)], words


def measure(device):
    """All kernels of a card, and lines on what it cannot run."""
    measured, skipped = [], []
    for label, make, kernels, words in plan(device):
        try:
            time_us = (hot_us if "is_hot" in words else median_us)(make(), device)
        except Exception as error:  # a format or a size that the card or its library lacks
            skipped.append(
                f"{label} {kernels[0][2]}: {(str(error) or repr(error)).splitlines()[0]}"
            )
            continue
        for i, (family, role, sizes) in enumerate(kernels):
            measured.append(kernel(family, sizes, 0.0 if i else time_us, role=role, **words))
    return measured, skipped


def facts(device):
    """Name of the card, and numbers that its driver states, by keys of device files."""
    if device == "cpu":
        return "cpu", {"n_cores": os.cpu_count() or 1}
    card = torch.cuda.get_device_properties(0)
    numbers = {
        "n_cores": card.multi_processor_count,
        "capacity": f"{card.total_memory / 1e9:.4g} GB",
        "cache": f"{getattr(card, 'L2_cache_size', 0) / 1e6:.4g} MB",
    }
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        numbers["power"] = f"{pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3:g} W"
    except Exception:  # it is optional
        pass
    return card.name, {name: text for name, text in numbers.items() if text != "0 MB"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", help="file to write, such as card.json")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: PyTorch finds no GPU; --device cpu shows the form of the file")
    rank, begin = int(os.environ.get("LOCAL_RANK", "0")), time.perf_counter()
    if arguments.device == "cuda":
        torch.cuda.set_device(rank)
    torch.manual_seed(0)
    for name in ("cache_size_limit", "recompile_limit"):  # compile each size by itself
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 256)
    sent = messages(arguments.device)
    if sent is None:
        return
    with torch.inference_mode():
        kernels, skipped = measure(arguments.device)
    kernels += sent
    wrong = [row for row in kernels if not math.isfinite(row["median_us"])]
    if wrong:
        sys.exit(f"error: {len(wrong)} times are not finite, such as of {wrong[0]}")
    name, numbers = facts(arguments.device)
    software = f"torch {torch.__version__}, CUDA {torch.version.cuda}"
    document = {
        "card": name,
        "day": f"{datetime.date.today()} ({software})",
        "device": numbers,
        "kernels": kernels,
    }
    Path(arguments.output).write_text(json.dumps(document, indent=1), encoding="utf-8")
    for line in skipped:
        print(f"skipped {line}", file=sys.stderr)
    print(
        f"{len(kernels)} kernels in {time.perf_counter() - begin:.0f} s; now: "
        f"codesign calibrate {arguments.output}"
    )


if __name__ == "__main__":
    main()
