"""Predicted requests beside measured ones."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.base.errors import InputError, UnknownNameError
from codesign.models.workload import load_model, parameter_count
from validation.studies import requests
from validation.studies.request_cases import (
    CALIBRATION_FILE,
    DEPLOYMENTS_FILE,
    SPLITWISE_FILE,
    RequestCase,
    read_requests,
)
from validation.studies.requests import command, compare, predict
from validation.studies.studies import compare_table


def cases(path):
    return [entry for entry in read_requests(path) if isinstance(entry, RequestCase)]


def deployment(source, quantity, prompt=4096):
    (case,) = (
        case
        for case in cases(DEPLOYMENTS_FILE)
        if case.source == source and case.quantity == quantity and case.prompt == prompt
    )
    return case


def test_a_decode_step_alone_reads_the_weights_and_the_cache():
    """Llama 2 7B on an A100 at batch 1: 13 GB at 2,039 GB/s, and what kernels add to that."""
    case = next(case for case in cases(CALIBRATION_FILE) if case.device.key == "a100-sxm-80gb")
    case = replace(
        case, quantity="TPOT", model="llama-2-7b", batch=1, prompt=512, output=1,
        tensor_parallel=1, pipeline_parallel=1, engine="graphs",
        formats=("bf16", "bf16", "bf16"),
    )  # fmt: skip
    model = load_model("llama-2-7b")
    weights = 2.0 * (parameter_count(model) - model.vocab_size * model.hidden_size)
    cache = 2.0 * 2 * 32 * 32 * 128 * 513
    bound = (weights + cache) / case.device.bandwidth
    assert predict(case, "ideal") == pytest.approx(bound, rel=0.01)
    assert bound < predict(case) < 1.5 * bound


def test_the_first_token_of_a_long_prompt_takes_its_products_at_the_rate_of_the_device():
    case = replace(
        cases(SPLITWISE_FILE)[0], quantity="TTFT", model="llama-2-7b", batch=1, prompt=2048,
        output=1, tensor_parallel=1, engine="graphs",
    )  # fmt: skip
    model = load_model("llama-2-7b")
    inner = parameter_count(model) - 2 * model.vocab_size * model.hidden_size
    scores = 2.0 * 2 * 32 * 4096 * 2048 * 2049 / 2
    bound = (2.0 * inner * 2048 + scores) / case.device.peak["bf16"]
    assert predict(case, "ideal") == pytest.approx(bound, rel=0.02)
    assert bound < predict(case) < 2.0 * bound


def test_a_batch_that_exceeds_the_memory_is_served_in_turns():
    case = next(case for case in cases(CALIBRATION_FILE) if case.device.key == "a100-sxm-80gb")
    case = replace(
        case, quantity="throughput", model="llama-2-7b", batch=64, prompt=2048, output=2048,
        tensor_parallel=1, pipeline_parallel=1, engine="graphs",
        formats=("bf16", "bf16", "bf16"),
    )  # fmt: skip
    # 0.9 of 80 GB less 13.5 GB of weights; 0.5 MB a token, of 2048 and half of 2048.
    fitting = int((0.9 * 80e9 - 13.476e9) / (2.0 * 2 * 32 * 32 * 128 * 3072))
    assert requests.running_requests(case) == fitting
    full = replace(case, batch=fitting)
    first, step = predict(replace(full, quantity="TTFT")), predict(replace(full, quantity="TPOT"))
    assert predict(full) == pytest.approx(fitting * 2048 / (first + 2047 * step))
    assert predict(replace(case, batch=4 * fitting)) < 1.2 * predict(replace(case, batch=fitting))


def test_deepseek_in_the_decode_of_128_devices_by_hand():
    """64 requests a device, 2 experts each: what memory alone takes, and what links alone take."""
    case = deployment("deepseek-ai/profile-data", "decode tokens/s")
    model = load_model("deepseek-v3")
    assert case.batch == 64 * 128
    tokens, mixture, dims = 64, model.moe_dims, model.latent_dims
    latents = tokens * 4097 * (dims.kv_lora_rank + dims.qk_rope_head_dim) * 2.0 * 61
    experts = 58 * 2 * 3 * 7168 * mixture.moe_intermediate_size
    bound_s = (latents + experts) / case.device.bandwidth
    assert 64 / bound_s > predict(case, "ideal") > predict(case)
    assert predict(case) == pytest.approx(case.value, rel=0.22)


def test_deployments_come_within_the_documented_errors():
    study = compare(DEPLOYMENTS_FILE)
    errors = {row["what"]: row["error"] for row in study.rows}
    assert len(errors) == 11
    of_deepseek = [error for name, error in errors.items() if "profile-data" in name]
    assert np.abs(of_deepseek).max() < 0.20
    uneven = [error for name, error in errors.items() if name.endswith("96 H100")]
    assert -0.2 < min(uneven) < max(uneven) < 0.2
    assert abs(next(e for name, e in errors.items() if "even load" in name)) < 0.2
    assert max(abs(error) for error in errors.values()) < 0.25
    assert all(row["roofline"] > row["reference"] for row in study.rows)  # tokens/s: a bound
    of_infersim = [row["infersim_error"] for row in study.rows if row["infersim_error"] is not None]
    assert len(of_infersim) == 6
    assert {row["group"] for row in study.rows} == {"prefill tokens/s", "decode tokens/s"}
    (row,) = (row for row in study.summary if row["group"] == "decode tokens/s")
    assert row["infersim_absolute_error"] == pytest.approx(0.0426, abs=1e-3)
    assert any("batch_per_device is not stated" in note for note in study.notes)


def test_the_command_of_a_deployment_is_what_a_user_types():
    case = deployment("deepseek-ai/profile-data", "decode tokens/s")
    assert command(case) == (
        "codesign size deepseek-v3 --on h800-sxm --ep 128 --batch 8192 "
        "--prompt-tokens 4096 --generated-tokens 1 --format fp8 "
        "--weight-format fp8_block128 --kv-format bf16 --option overlap=true"
    )
    case = deployment("SGLang Team (2025), 96 H100", "decode tokens/s", 2000)
    folder = "validation/studies/data/models"
    assert f"{folder}/deepseek-v3-288-slots.yaml --on h100-sxm --ep 72" in command(case)


@pytest.mark.parametrize(
    ("path", "step", "limit"), [(CALIBRATION_FILE, 12, 0.12), (SPLITWISE_FILE, 21, 0.30)]
)
def test_a_sample_of_the_shipped_tables_keeps_the_documented_medians(path, step, limit):
    chosen = cases(path)[::step]
    errors = np.array([predict(case) / case.value - 1.0 for case in chosen])
    assert len(chosen) >= 10
    assert np.median(np.abs(errors)) < limit


def test_a_table_of_ones_own_is_compared(tmp_path):
    path = tmp_path / "own.csv"
    lines = DEPLOYMENTS_FILE.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[2]]) + "\n")
    study = compare_table("requests", path)
    assert (study.name, len(study.rows)) == ("requests", 1)
    with pytest.raises(
        InputError,
        match="study genz reads no table; expected kernels, requests, arrivals or throughput",
    ):
        compare_table("genz", path)
    with pytest.raises(UnknownNameError, match="unknown study 'request'"):
        compare_table("request", path)


def test_genz_is_asked_the_same_rows_with_the_shares_that_it_measured(tmp_path):
    table = tmp_path / "one.csv"
    header, *lines = SPLITWISE_FILE.read_text(encoding="utf-8").splitlines()
    column = header.split(",").index("power_capped")
    line = next(line for line in lines if line.split(",")[column] == "0")
    table.write_text(f"{header}\n{line}\n", encoding="utf-8")
    study = compare(table)
    first, step = study.rows
    assert (first["group"], step["group"]) == ("TTFT", "TPOT")
    # A decode step reads the weights at 70 % of the bandwidth, and no faster.
    (_, case) = cases(table)
    bits = 2.0 * parameter_count(load_model(case.model)) / case.tensor_parallel
    assert step["genz"] > 0.95 * bits / (0.7 * case.device.bandwidth)
    assert step["genz"] == predict(case, "genz")
    errors = {row["group"]: row["genz_error"] for row in study.rows}
    summary = {row["group"]: row["genz_absolute_error"] for row in study.summary}
    assert all(summary[name] == pytest.approx(abs(error)) for name, error in errors.items())


@pytest.mark.parametrize("quantity", ["TTFT", "TPOT"])
@pytest.mark.parametrize("degree", [2, 4, 8])
def test_requests_of_an_engine_without_graphs_have_no_bias_by_tensor_parallelism(quantity, degree):
    """Every second of Splitwise's, on A100 and on H100: within 10 % in the median of each."""
    for device in ("a100-sxm-80gb", "h100-sxm"):
        measured = [
            case
            for case in cases(SPLITWISE_FILE)
            if (case.device.key, case.quantity, case.tensor_parallel) == (device, quantity, degree)
            and case.power_limit is None
        ]
        assert len(measured) == 19
        errors = [predict(case) / case.value - 1.0 for case in measured[::2]]
        assert abs(np.median(errors)) < 0.10, device


def test_hosts_that_nobody_fitted_are_predicted_too():
    """LIFE's steps of Llama-2-7B by eager PyTorch on a V100 and on an integrated GPU."""
    errors = {
        str(case): predict(case) / case.value - 1.0
        for case in cases(CALIBRATION_FILE)
        if case.quantity == "TPOT" and case.device.key in ("v100-sxm", "ryzen-ai-max-395-igpu")
    }
    assert len(errors) == 5
    assert abs(np.median(list(errors.values()))) < 0.05
    assert all(abs(error) < 0.15 for error in errors.values()), errors
