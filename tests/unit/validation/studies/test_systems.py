"""Systems of others beside ours: what the study computes, by hand."""

import math
from functools import cache

import numpy as np
import pytest

from codesign.models.machines.device.expected_error import SCHEDULED_ERROR
from codesign.models.workload import load_model, parameter_count
from codesign.models.workload.storage import kv_elements_per_token
from validation.studies import distserve, spad, splitwise, systems
from validation.studies.device_pools import (
    claims,
    fastest_batch,
    group_metrics,
)
from validation.studies.request_cases import SPLITWISE_FILE, read_requests
from validation.studies.requests import platform_serving
from validation.studies.study import model_file


@cache
def rows_of(part):
    return list(part())


def test_the_models_have_the_parameters_and_caches_that_their_papers_print():
    printed = {"bloom-176b": 176.247e9, "opt-13b": 12.853e9, "opt-66b": 65.72e9}
    for name, count in printed.items():
        assert parameter_count(load_model(model_file(name))) == pytest.approx(count, rel=1e-3)
    assert kv_elements_per_token(load_model(model_file("bloom-176b"))) == 2 * 70 * 14336


def test_forty_h100_machines_have_the_power_of_seventy_a100_machines():
    power, cost = rows_of(splitwise.budget_rows)
    assert (power["reference"], power["ours"]) == (70, 70)
    assert cost["ours"] == pytest.approx(40 * 3.0 / 1.3)  # typical rents an hour


def test_the_best_split_is_where_prompt_and_token_machines_keep_pace():
    """Of all splits of 40 H100 machines; rates of one machine of each kind are those by hand."""
    prompts = np.arange(1, 40)
    rates = splitwise.requests_per_s("HH", "coding", prompts, 40 - prompts, 1.25)
    design = {"device": "h100-sxm", "tensor_parallel": 8}
    model, tokens = model_file("bloom-176b"), (2048, 28)
    prefill = group_metrics("prefill", model, (2048, 0), design, [1], splitwise.EAGER)
    of_prompts = prompts / prefill["time_to_first_token_s"][0]
    is_limited_by_prompts = np.isclose(rates, of_prompts, rtol=1e-9)
    assert is_limited_by_prompts[0] and not is_limited_by_prompts[-1]
    assert (rates <= of_prompts * (1 + 1e-9)).all()
    alone = group_metrics(
        "decode", model, tokens, design | {"device": "a100-sxm-80gb"}, [1], splitwise.EAGER
    )["time_per_output_token_s"][0]
    batch = splitwise._token_batch("h100-sxm", "coding", 1.25)
    step = group_metrics("decode", model, tokens, design, [batch, batch + 1], splitwise.EAGER)
    assert step["time_per_output_token_s"][0] <= 1.25 * alone and step["fits"][0] > 0
    assert not step["fits"][1] > 0 or step["time_per_output_token_s"][1] > 1.25 * alone
    of_tokens = (40 - prompts) * batch / step["time_per_output_token_s"][0] / 28
    np.testing.assert_allclose(rates, np.minimum(of_prompts, of_tokens), rtol=1e-9)
    prompt, token = splitwise.best_split("HH", "power", "coding")
    assert prompt + token == 40
    assert rates[prompt - 1] == rates.max()


@pytest.mark.parametrize(
    ("device", "seconds"),
    [
        ("a100-sxm-80gb", {512: 0.1738, 1024: 0.2892, 2048: 0.5404, 4096: 1.348}),
        ("h100-sxm", {512: 0.0755, 1024: 0.1326, 2048: 0.2531, 4096: 0.6887}),
    ],
)
def test_first_tokens_of_a_model_that_no_constant_is_fitted_to(device, seconds):
    """Splitwise, data/perf_model.csv: medians of BLOOM-176B on eight devices, by prompt."""
    design = {"device": device, "tensor_parallel": 8}
    for prompt, measured in seconds.items():
        metrics = group_metrics(
            "prefill", model_file("bloom-176b"), (prompt, 0), design, [1], splitwise.EAGER
        )
        assert metrics["time_to_first_token_s"][0] == pytest.approx(measured, rel=0.2), prompt


def test_a_budget_is_spent_in_machines_of_both_kinds():
    prompt, token = splitwise.best_split("HA", "power", "conversation")
    assert token == math.floor((40 - prompt) * 70 / 40 + 1e-9)


def test_clusters_of_the_coding_trace_come_out_as_provisioned():
    """Splitwise, section 6.2: 55 + 15 A100 machines, or 35 + 5 H100 machines."""
    a100 = splitwise.best_split("AA", "power", "coding")
    h100 = splitwise.best_split("HH", "power", "coding")
    assert sum(a100) == 70 and abs(a100[0] - 55) <= 3
    assert sum(h100) == 40 and abs(h100[0] - 35) <= 2


def test_the_exposed_hand_over_is_one_layer_of_the_cache_and_its_setup():
    """1,500 tokens of 327,680 bytes in 80 parts, on 25 and on 50 GB/s, 5 us and 8 ms."""
    for row, bandwidth in zip(rows_of(splitwise.handover_rows), (25e9, 50e9), strict=True):
        assert row["ours"] == pytest.approx(1500 * 327_680 / 80 / bandwidth + 5e-6 + 8e-3)
        assert row["reference"] in (8e-3, 5e-3)


def test_the_power_of_a_request_lies_between_those_of_its_phases():
    rows = [row for row in rows_of(splitwise.power_rows) if "512:128" in row["what"]]
    assert len(rows) == 30
    mean, peak = ([row for row in rows if row["what"].startswith(x)] for x in ("mean", "peak"))
    assert all(a["ours"] < b["ours"] <= 1 for a, b in zip(mean, peak, strict=True))
    errors = [abs(row["error"]) for row in mean]
    assert np.median(errors) < 0.13
    assert max(errors) < 0.21


def test_a_profile_is_a_line_of_tokens_and_of_their_squares_or_of_requests():
    """DistServe, OPT-13B on one A100: 18.1 ms + 0.1019 ms a token + 7.12e-6 ms a square."""
    row = {"phase": "prefill", "constant_s": "0.0181025", "first_coefficient_s": "0.000101912",
           "second_coefficient_s": "7.12226e-09"}  # fmt: skip
    expected_ms = 18.1025 + 0.101912 * 1024 + 7.12226e-6 * 2 * 512**2
    assert distserve.profiled_s(row, 2, 512) == pytest.approx(expected_ms * 1e-3)
    decode = row | {"phase": "decode"}
    assert distserve.profiled_s(decode, 2, 512) == pytest.approx(0.0181025 + 0.104357888 + 1.4e-8)


def test_a_decode_chip_decodes_as_the_h100_and_a_prefill_chip_prefills_faster():
    for chip, phase, batch, printed in (
        ("spad-decode", "decode", 64, 0.97),
        ("spad-decode", "prefill", 2, 0.69),
        ("spad-prefill", "prefill", 2, 1.08),
    ):
        tokens = (1024, 0 if phase == "prefill" else 1)
        times = [
            spad._metrics(device, phase, tokens, [batch])[spad._TIMES[phase]][0]
            for device in ("spad-h100", chip)
        ]
        assert times[0] / times[1] == pytest.approx(printed, rel=0.15)


def test_the_fastest_batch_keeps_its_limits():
    metrics = {
        "fits": np.array([1.0, 1.0, 1.0, 0.0]),
        "time_per_output_token_s": np.array([1.0, 2.0, 3.0, 3.0]),
        "throughput_tokens_per_s": np.array([1.0, 2.0, 2.5, 4.0]),
    }
    assert fastest_batch(metrics, 2.0) == 1
    assert fastest_batch(metrics, np.inf) == 2
    with pytest.raises(ValueError, match="no batch fits"):
        fastest_batch(metrics, 0.5)


def test_sglangs_node_is_eight_devices_of_its_prefill_pool():
    (row,) = systems.sglang_rows()
    assert row["reference"] == 52_300
    assert row["ours"] == pytest.approx(62_860, rel=1e-2)


def test_pools_give_the_times_of_the_study_of_requests():
    case = read_requests(SPLITWISE_FILE)[0]
    design = {"device": case.device.key, "tensor_parallel": case.tensor_parallel}
    metrics = group_metrics(
        "prefill", case.model, (case.prompt, 0), design, [case.batch], splitwise.EAGER
    )
    serving = platform_serving(case, case.prompt, case.batch)
    assert metrics["time_to_first_token_s"] == serving.sustained_time_to_first_token_s


@pytest.mark.slow
def test_the_study_has_every_claim_and_explains_every_cluster_and_chip():
    study = systems.run()
    explained = [row for row in study.rows if row["explained"]]
    stated = claims()
    n_claims = len(stated["splitwise"]["clusters"]) + 2 + 2 + 1
    n_claims += sum(bool(row["explained"]) for row in stated["scheduled"]["rows"])
    n_claims += len(stated["spad"]["speed"]) + len(stated["spad"]["clusters"])
    assert len(explained) == n_claims
    assert len({row["what"] for row in explained}) == n_claims
    errors = {row["group"]: row["median_absolute_error"] for row in study.summary}
    assert errors["Splitwise, mean power"] < 0.10
    assert f"{100 * errors['scheduled chips']:.0f} % off in the median of 9" in SCHEDULED_ERROR
    assert errors["DistServe, distserve, prefill"] < 0.20
    assert errors["DistServe, distserve, decode"] < 0.20
