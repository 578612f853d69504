"""SCALE-Sim and AccelForge, installed by our command, evaluate a design through their wrappers."""

import json
import subprocess
import sys

import pytest

from codesign.cli import main
from codesign.report.simulators import environments

pytestmark = pytest.mark.slow

_DESIGN = {
    "pe_array": [512, 64], "vector_length": 2048, "sram_dies": 1, "sram_3d_layers": 0,
    "tier1_technology": "hbm4_12h", "tier1_stacks": 2, "weight_format": "mxint8",
    "activation_format": "mxint8", "kv_format": "mxint8", "storage_priority": "equal",
    "dataflow": "ws", "bandwidth_priority": "equal", "uncharged_edge": "LPDDR",
}  # fmt: skip
_WORKLOAD = {"model": "llama-3-8b", "prompt_tokens": 16, "generated_tokens": 1, "batch": 1,
             "phase": "prefill"}  # fmt: skip


@pytest.mark.parametrize("name", environments.SIMULATORS)
def test_a_wrapper_gives_finite_numbers_next_to_ours(name, tmp_path):
    if not environments.is_installed(name):
        assert main(["list", "simulators", name, "--install"]) == 0
    (tmp_path / "design.json").write_text(json.dumps({"design": _DESIGN, "workload": _WORKLOAD}))
    module = f"codesign.report.simulators.{name}"
    command = [sys.executable, "-m", module, "design.json", "result.json"]
    subprocess.run(command, cwd=tmp_path, check=True)
    numbers = json.loads((tmp_path / "result.json").read_text())
    # Multiply-accumulates of 16 tokens through 6.98e9 weights, at most 512 x 64 a cycle.
    assert numbers["latency_s"] > 16 * 6.98e9 / (512 * 64 * 1e9)
    assert numbers["npu_latency_s"] > 0
