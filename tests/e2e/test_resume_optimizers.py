"""Every built-in optimizer, on the real problem, goes on from any batch as if never stopped."""

import shutil
import sqlite3

import pytest
import yaml

from codesign.search.campaign import Campaign
from codesign.search.campaign.store_format import row_checksum

OPTIMIZERS = {"gp-ehvi": 11, "nsga2": 40, "tpe": 24, "sobol": 16, "random": 16}
QUICK = {"candidates": 64, "mutants": 32, "neighborhoods": 2, "local_search": 1, "iterations": 5}

CAMPAIGN = {
    "space": "memexplorer",
    "evaluator": "npu",
    "workload": {"model": "llama-3.3-70b", "trace": "osworld", "phase": "prefill"},
    "objectives": ["maximize throughput_tokens_per_s", "minimize tdp_watts"],
    "constraints": ["tdp_watts <= 700"],
    "fixed": dict.fromkeys(("weight_format", "activation_format", "kv_format"), "mxint8"),
    "initial": 8,
    "reference_sample": 64,
}


def change(path, *statements):
    connection = sqlite3.connect(path)
    try:
        found = [connection.execute(statement).fetchall() for statement in statements]
        connection.commit()
    finally:
        connection.close()
    return found[-1]


def reopen_runs(campaign):
    """Take back that the runs have ended, with the checksums that their rows then have."""
    columns = "run, optimizer, seed, NULL"
    for row in change(campaign.store_path, f"SELECT {columns} FROM runs"):
        checksum = row_checksum(row)
        change(
            campaign.store_path,
            f"UPDATE runs SET ended = NULL, checksum = {checksum} WHERE run = {row[0]}",
        )


def observations(campaign):
    return change(campaign.store_path, "SELECT * FROM observations ORDER BY run, step")


@pytest.mark.parametrize(
    "optimizer",
    ["gp-ehvi", "nsga2", "tpe", "random", pytest.param("sobol", marks=pytest.mark.slow)],
)
def test_a_run_cut_after_any_batch_ends_as_the_whole_one(tmp_path, monkeypatch, optimizer):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    said = CAMPAIGN | {"optimizers": [optimizer], "budget": OPTIMIZERS[optimizer], "seeds": 2}
    if optimizer == "gp-ehvi":
        said |= {"optimizers": [{"name": optimizer, **QUICK}], "seeds": 1}
    (tmp_path / "runs" / "cut.yaml").write_text(yaml.safe_dump(said))
    whole = Campaign.load("cut", "whole")
    whole.run(workers=1)
    expected = observations(whole)
    (last,) = change(whole.store_path, "SELECT max(batch) FROM observations")[0]
    assert last >= 2
    for after in sorted({last // 2, last - 1}):
        cut = Campaign.load("cut", f"after-{after}")
        cut.folder.mkdir(parents=True)
        shutil.copy(whole.store_path, cut.store_path)
        change(
            cut.store_path,
            f"DELETE FROM observations WHERE batch > {after}",
            f"DELETE FROM timings WHERE batch > {after}",
        )
        reopen_runs(cut)
        assert len(observations(cut)) < len(expected)
        cut.run(workers=1)
        assert observations(cut) == expected
