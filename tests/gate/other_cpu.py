"""Run a command as another CPU would compute: ``python -m tests.gate.other_cpu haswell pytest``.

Libraries choose their kernels by the features of the CPU: NumPy and glibc by instruction set,
OpenBLAS and numba by the name of the CPU, PyTorch by a level. Variables of each take features
away, so one machine computes as older ones do. None adds a feature that the machine lacks.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AVX512 = "-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD"
_AVX2 = f"{_AVX512},-AVX2,-FMA,-FMA4"
CPUS = {
    # OpenBLAS kernels, numba's CPU, NumPy's features that stay, PyTorch's level, glibc without
    "generic": ("Prescott", "generic", (), "default", f"{_AVX2},-AVX"),
    "sandybridge": ("Sandybridge", "sandybridge", (), "default", _AVX2),
    "haswell": ("Haswell", "haswell", ("X86_V3", "AVX2", "FMA3"), "avx2", _AVX512),
    "zen": ("Zen", "znver3", ("X86_V3", "AVX2", "FMA3"), "avx2", _AVX512),
}
"""Settings of each CPU. The first has no feature, the last is AMD's without AVX-512."""


def disabled_features(kept: tuple[str, ...]) -> list[str]:
    """Names of NumPy's optional features that this machine has, except those that stay."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [name for name in __cpu_dispatch__ if __cpu_features__.get(name) and name not in kept]


def environment(cpu: str) -> dict[str, str]:
    """Environment variables with which the libraries compute as ``cpu``."""
    blas, numba, kept, torch, glibc = CPUS[cpu]
    variables = {
        "OPENBLAS_CORETYPE": blas,
        "NUMBA_CPU_NAME": numba,
        "NUMBA_CPU_FEATURES": "",
        "ATEN_CPU_CAPABILITY": torch,
        "ONEDNN_MAX_CPU_ISA": "SSE41" if torch == "default" else "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2" if torch == "default" else "AVX2",
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={glibc}",
    }
    features = disabled_features(kept)
    if features:
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(features)
    return variables


def _work() -> None:
    while True:
        pass


@contextmanager
def load(n_processes: int) -> Iterator[None]:
    """Processes that keep the machine busy until the block ends."""
    processes = [multiprocessing.Process(target=_work, daemon=True) for _ in range(n_processes)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def main() -> int:
    """Run the command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.other_cpu", description=__doc__)
    parser.add_argument("cpu", choices=CPUS)
    parser.add_argument("--load", type=int, default=0, help="busy processes beside the command")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if platform.machine() not in {"x86_64", "AMD64"}:
        parser.error(f"expected an x86-64 CPU, whose kinds these are, got {platform.machine()}")
    variables = environment(arguments.cpu)
    print("\n".join(f"{name}={value}" for name, value in sorted(variables.items())), flush=True)
    program, *words = arguments.command or ["pytest"]
    beside = Path(sys.executable).parent / program
    with load(arguments.load):
        os.nice(10)
        environ = {**os.environ, **variables}
        return subprocess.run(
            [beside if beside.exists() else program, *words], env=environ, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
