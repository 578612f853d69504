"""Requests that engines served beside the simulation."""

import csv
import gzip

import pytest

from codesign.base.errors import InputError
from validation.studies.engine_arrivals import SERVED_FILE, compare, read_experiments, run


def table(path, n=12, **changes):
    """The first requests of the last experiment, with other settings."""
    with gzip.open(SERVED_FILE, "rt", encoding="utf-8") as file:
        rows = [row | changes for row in csv.DictReader(file) if row["device"] == "RTX PRO 6000"]
    with path.open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[:n])
    return path


@pytest.mark.slow
def test_the_promised_errors_are_kept_on_all_devices():
    study = run()
    assert len(study.rows) == 3 * 600
    assert all(target["is_met"] for target in study.targets)
    assert {row["group"] for row in study.rows} == {"TTFT", "TPOT", "latency"}


def test_the_promised_errors_are_kept_where_the_batch_is_full(tmp_path):
    study = compare(table(tmp_path / "served.csv", n=None))
    assert len(study.rows) == 3 * 300
    assert all(target["is_met"] for target in study.targets)


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "Qwen3-30B-A3B-Instruct-2507", "dp": "2", "ep": "2"},
        {"model": "Qwen3-30B-A3B", "tp": "2", "ep": "2"},
        {"model": "Qwen3-32B", "tp": "2"},
        {"dp": "2", "kv_dtype": "fp8_e4m3"},
    ],
)
def test_other_deployments_are_served_too(tmp_path, settings):
    study = compare(table(tmp_path / "served.csv", **settings))
    assert len(study.rows) == 3 * 12


def test_what_cannot_be_predicted_is_said(tmp_path):
    with pytest.raises(InputError, match=r"left out: unknown language model 'llama-9'"):
        compare(table(tmp_path / "served.csv", model="llama-9"))
    path = tmp_path / "short.csv"
    path.write_text("experiment,model\na,b\n")
    with pytest.raises(InputError, match="columns are missing: arrival_s, device, dp"):
        read_experiments(path)
    with pytest.raises(InputError, match="expected numbers"):
        read_experiments(table(tmp_path / "served.csv", ttft_s="soon"))
    with pytest.raises(InputError, match="cannot be read"):
        read_experiments(tmp_path / "none.csv")
