"""Results of a campaign that was not run: designs drawn at random, evaluated in one batch."""

from pathlib import Path

import numpy as np
import pytest

from codesign.search.campaign import CampaignStatus, Results
from codesign.search.campaign.campaign_definition import load_definition
from codesign.search.campaign.observations import Run, RunStatus
from codesign.search.campaign.reference import minimized
from codesign.search.pareto import HypervolumeTracker

_CAMPAIGN = """\
name: by-hand
description: Is <b> & "c" shown as it is written?
space: memexplorer
evaluator: {name: npu, profile: memexplorer}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 700]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8}
optimizers: [nsga2, random]
initial: 5
budget: 30
seeds: 3
"""
_REFERENCE = {"throughput_tokens_per_s": 0.0, "tdp_watts": 700.0}

_MOST_TRACKED = 1000
"""Tests of more observations are not about hypervolume, which takes minutes there."""


@pytest.fixture(scope="session")
def make_results(tmp_path_factory):
    """Results with so many observations per run; the designs of all runs may repeat."""
    path = tmp_path_factory.mktemp("definition") / "by-hand.yaml"
    path.write_text(_CAMPAIGN, encoding="utf-8")
    resolved = load_definition(path)
    definition, problem = resolved.definition, resolved.problem

    def make(per_run, optimizers=("nsga2", "random"), seeds=(0, 1, 2)):
        runs = tuple(Run(name, seed) for name in optimizers for seed in seeds)
        n = per_run * len(runs)
        rng = np.random.default_rng(7)
        pool = problem.space.sample(rng, max(4, (3 * n) // 4))
        rows = np.concatenate([pool, pool])[rng.permutation(2 * len(pool))[:n]]
        found = problem.evaluate(rows)
        run_index = np.repeat(np.arange(len(runs)), per_run)
        return Results(
            definition=definition,
            problem=problem,
            reference_point=_REFERENCE,
            runs=runs,
            run_index=run_index,
            step=np.tile(np.arange(per_run), len(runs)),
            batch=np.tile(np.arange(per_run), len(runs)),
            observations=found,
            hypervolume=_hypervolumes(found, run_index, minimized(problem, _REFERENCE))
            if n <= _MOST_TRACKED
            else np.zeros(n),
            versions={"codesign": "0.0", "numpy": "0.0"},
        )

    return make


def _hypervolumes(found, run_index, reference):
    values = []
    for run in dict.fromkeys(run_index.tolist()):
        tracker = HypervolumeTracker(reference)
        for i in np.flatnonzero(run_index == run).tolist():
            if found.feasible[i]:
                tracker.add(found.objectives[i])
            values.append(tracker.value)
    return np.array(values)


@pytest.fixture(scope="session")
def results(make_results):
    return make_results(30)


@pytest.fixture
def status(results):
    """The status of the campaign in a given state."""

    def make(state):
        runs = tuple(RunStatus(run, state, done=30, seconds=1.5) for run in results.runs)
        return CampaignStatus("by-hand", Path("runs/by-hand"), state, 60, runs)

    return make
