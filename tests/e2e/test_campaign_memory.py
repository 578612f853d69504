"""A long campaign needs no more memory than a short one, but for the keys of its designs."""

import subprocess
import sys

import pytest

CODE = """
import resource
from codesign.search.campaign import Campaign
campaign = Campaign.load("long")
campaign.run(workers=1)
assert campaign.status().done == 200_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
assert len(campaign.results()) == 200_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""

CAMPAIGN = """
space: memexplorer
evaluator: npu
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 700]
optimizers: [random]
batch: 1000
budget: 200_000
"""


@pytest.mark.slow
def test_200_000_evaluations_fit_in_little_memory(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "long.yaml").write_text(CAMPAIGN)
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    while_running, with_results = (int(line) for line in done.stdout.split())
    assert while_running < 300  # MB; measured: 140
    assert with_results < 500  # measured: 200
