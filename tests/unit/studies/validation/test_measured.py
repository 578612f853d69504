"""Measurements as kernels, the fit, and what is held out of it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.errors import InputError, UnknownNameError
from codesign.hardware.device import load_device
from codesign.hardware.kernels import Efficiency, efficiency_of, load_efficiencies
from codesign.studies.validation import fitting
from codesign.studies.validation.fitting import START, efficiency_text, fit, fit_rates, predict_s
from codesign.studies.validation.measured import (
    compare,
    device_folds,
    held_out,
    model_folds,
    shape_folds,
)
from codesign.studies.validation.measurements import (
    MEASURED_FILE,
    Measurement,
    framework_of,
    read_measurement,
    read_measurements,
)
from codesign.studies.validation.prediction import (
    FRAMEWORKS,
    find_model,
    parse_precision,
    predict_gemm_s,
    predict_request,
)
from codesign.workload.model import parameter_count


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return read_measurements()


@pytest.fixture(scope="module")
def used(rows: list[Measurement]) -> list[Measurement]:
    return [row for row in rows if row.kernels is not None]


@pytest.fixture(scope="module")
def gpu(used: list[Measurement]) -> list[Measurement]:
    return [row for row in used if row.device_class == "gpu"]


def errors(rows: Sequence[Measurement], efficiency: Efficiency) -> np.ndarray:
    return np.abs(np.log(predict_s(rows, efficiency) / [row.seconds for row in rows]))


# Rows


def test_every_row_is_compared_or_left_out_for_a_reason(rows: list[Measurement]) -> None:
    with MEASURED_FILE.open(encoding="utf-8") as file:
        n_rows = sum(1 for _ in csv.DictReader(file))
    assert len(rows) == n_rows == 1115
    assert all((row.kernels is None) == bool(row.reason) for row in rows)
    left_out = [row for row in rows if row.reason]
    assert len(left_out) == 10
    assert all("crosses nodes" in row.reason for row in left_out)


def test_every_row_says_who_published_it(rows: list[Measurement]) -> None:
    assert all(row.source for row in rows)


def test_rates_become_times() -> None:
    row = {"kind": "op", "device": "A100 SXM 80GB", "model": "softmax", "precision": "fp16"}
    row |= {"metric": "softmax throughput", "value": "2", "unit": "Gelem/s", "source": "x"}
    found = read_measurement(row | {"rows": "1000", "cols": "4000"})
    assert found.seconds == pytest.approx(4e6 / 2e9)
    assert found.is_rate


def test_the_work_of_a_measured_layer_is_that_of_its_shapes(used: list[Measurement]) -> None:
    # LLMCompass: GPT-3 up projection of 8 x 2048 tokens on one of four devices.
    row = next(row for row in used if "prefill: W1_proj" in row.description)
    assert row.flop == 2 * 8 * 2048 * 12288 * 4 * 12288 / 4


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "Abacus 3000"}, "unknown device"),
        ({"unit": "furlongs"}, "unit 'furlongs'"),
        ({"precision": "fp7"}, "unknown precision"),
        ({"gemm_m": ""}, "gemm_m is not stated"),
        ({"gemm_m": "many"}, "expected a number"),
        ({"value": "-1"}, "expected a value above 0"),
        ({"value": "?"}, "expected a value above 0"),
        ({"model": "convolution"}, "not modeled"),
        ({"kind": "dream"}, "not modeled"),
    ],
)
def test_a_row_that_cannot_be_compared_says_why(change: dict[str, str], reason: str) -> None:
    row = {"kind": "op", "device": "H100 SXM", "model": "GEMM", "precision": "fp16"}
    row |= {"metric": "GEMM latency", "value": "1", "unit": "ms", "source": "x"}
    row |= {"gemm_m": "1024", "gemm_n": "1024", "gemm_k": "1024"}
    assert read_measurement(row).reason == ""
    assert reason in read_measurement(row | change).reason
    assert read_measurement(row | change).kernels is None


def test_a_table_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("kind,device\nop,A100\n")
    with pytest.raises(InputError, match="columns are missing: metric, model"):
        read_measurements(file)


def test_frameworks_are_told_from_names() -> None:
    assert framework_of("lmdeploy v0.1.0a1, TurboMind") == "turbomind"
    assert framework_of("Hugging Face transformers 4.40") == "eager"
    assert framework_of("vllm 0.6") == "serving"
    assert set(FRAMEWORKS) == {"turbomind", "eager", "serving"}


# Predictions


def test_models_of_the_measurements_have_their_published_sizes() -> None:
    # Llama 2 paper, InternLM's and Code Llama's model cards: rounded to the first decimal.
    published = {"llama2-13b": 13.0, "Llama-2-70b-hf": 69.0, "internlm-20b": 20.1}
    published |= {"codellama/CodeLlama-34b-hf": 33.7, "Mistral-7B-Instruct-v0.2": 7.2}
    published |= {"Qwen/Qwen-72B": 72.3, "Qwen2.5-7B-Instruct": 7.6, "Qwen2.5-72B": 72.7}
    published |= {"meta-llama/Llama-3.1-8B-Instruct": 8.0, "Meta-Llama-3-70B": 70.6}
    for name, billions in published.items():
        assert parameter_count(find_model(name)) / 1e9 == pytest.approx(billions, abs=0.06), name


def test_decode_of_one_request_is_weights_and_cache_over_bandwidth() -> None:
    device = load_device("h100-sxm")
    efficiency = efficiency_of(device)
    overheads = {name: 0.0 for name in Efficiency.model_fields if "overhead" in name}
    bare = efficiency.model_copy(update=overheads)
    times = predict_request(device, "llama-3-8b", "bf16", 1, 4096, 1, efficiency=bare)
    model = find_model("llama-3-8b")
    read = 2 * (parameter_count(model) - model.vocab_size * model.hidden_size)
    read += 4097 * 2 * 2 * 8 * 128 * 32
    expected = read / (efficiency.bandwidth * device.bandwidth)
    assert times.time_per_output_token_s == pytest.approx(expected, rel=0.02)


def test_a_long_prefill_is_work_over_the_sustained_peak() -> None:
    device = load_device("a100-sxm-80gb")
    efficiency = efficiency_of(device)
    times = predict_request(device, "llama-2-7b", "fp16", 16, 1024, 1)
    model = find_model("llama-2-7b")
    flop = 2 * (parameter_count(model) - 2 * model.vocab_size * model.hidden_size) * 16 * 1024
    bound = flop / (device.peak["fp16"] * device.sustained_fraction * efficiency.compute)
    assert bound < times.time_to_first_token_s < 1.35 * bound


def test_two_devices_take_more_than_half_the_time_of_one() -> None:
    one = predict_request("a100-sxm-80gb", "llama-2-13b", "fp16", 8, 1024, 128)
    two = predict_request("a100-sxm-80gb", "llama-2-13b", "fp16", 8, 1024, 128, tensor_parallel=2)
    for name in ("time_to_first_token_s", "time_per_output_token_s"):
        assert 0.5 < getattr(two, name) / getattr(one, name) < 0.8


def test_a_pipeline_adds_only_its_messages_to_a_step() -> None:
    one = predict_request("h100-sxm", "llama-2-13b", "fp16", 1, 512, 128)
    two = predict_request("h100-sxm", "llama-2-13b", "fp16", 1, 512, 128, pipeline_parallel=2)
    extra = two.time_per_output_token_s - one.time_per_output_token_s
    assert 0 < extra < 20e-6


def test_requests_beyond_the_memory_wait() -> None:
    few = predict_request("a100-sxm-80gb", "llama-2-7b", "fp16", 32, 2048, 2048)
    many = predict_request("a100-sxm-80gb", "llama-2-7b", "fp16", 256, 2048, 2048)
    assert few.running == 32
    kept = 0.9 * 80e9 - 2 * parameter_count(find_model("llama-2-7b"))
    assert many.running == int(kept / (2 * 2 * 32 * 4096 * 3072))
    assert many.output_tokens_per_s < 256 / many.time_per_output_token_s


def test_a_mixture_reads_only_the_experts_that_are_used() -> None:
    steps = [
        predict_request("h200-sxm", "mixtral-8x7b", "bf16", batch, 64, 1, tensor_parallel=2)
        for batch in (1, 64)
    ]
    assert 2.5 < steps[1].time_per_output_token_s / steps[0].time_per_output_token_s < 4.5


def test_four_bit_weights_read_a_quarter_and_their_scales() -> None:
    assert parse_precision("w4 bf16").weight_bits == pytest.approx(4 + 20 / 128)
    assert parse_precision("w4 bf16").compute == "bf16"
    with pytest.raises(UnknownNameError, match="fp7"):
        parse_precision("fp7")


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1 for batch"):
        predict_request("h100-sxm", "llama-2-7b", batch=0)
    with pytest.raises(InputError, match="no links are stated"):
        predict_request("ryzen-9-hx-370-cpu", "llama-2-7b", "bf16", tensor_parallel=2)
    with pytest.raises(UnknownNameError, match="language model"):
        predict_request("h100-sxm", "no-such-model")


def test_gemm_predictions_use_the_shipped_efficiencies() -> None:
    shipped = efficiency_of(load_device("h100-sxm"))
    assert predict_gemm_s("h100-sxm", 4096, 4096, 4096, "bf16") == predict_gemm_s(
        "H100 SXM", 4096, 4096, 4096, "bf16", efficiency=shipped
    )


# Fit


def synthetic(gpu: list[Measurement], truth: Efficiency, noise: float) -> list[Measurement]:
    few = gpu[:220] + gpu[220::6]
    seconds = predict_s(few, truth) * np.exp(
        noise * np.random.default_rng(0).standard_normal(len(few))
    )
    return [replace(row, seconds=float(s)) for row, s in zip(few, seconds, strict=True)]


def test_the_fit_recovers_planted_constants(gpu: list[Measurement]) -> None:
    planted = {"compute": 0.8, "bandwidth": 0.65, "rowwise_bandwidth": 0.4, "link": 0.6}
    planted |= {"device_overhead": 6e-6, "host_vector_overhead": 40e-6, "tile_penalty": 16.0}
    planted |= {"attention": 0.5, "link_latency": 12e-6}
    found = fit(synthetic(gpu, START.model_copy(update=planted), noise=0.02))
    for name, value in planted.items():
        assert getattr(found, name) == pytest.approx(value, rel=0.1), name


def test_the_fit_shrugs_off_outliers(gpu: list[Measurement]) -> None:
    truth = START.model_copy(update={"compute": 0.8, "bandwidth": 0.65})
    rows = synthetic(gpu, truth, noise=0.02)
    spoilt = [
        replace(row, seconds=row.seconds * 5) if i % 20 == 0 else row for i, row in enumerate(rows)
    ]
    found = fit(spoilt)
    assert found.compute == pytest.approx(0.8, rel=0.06)
    assert found.bandwidth == pytest.approx(0.65, rel=0.06)


def test_the_fit_is_deterministic(gpu: list[Measurement]) -> None:
    assert fit(gpu[::9]) == fit(gpu[::9])


def test_constants_that_nothing_depends_on_stay_at_the_start(gpu: list[Measurement]) -> None:
    products = [row for row in gpu if row.group == "GEMM"][::8]
    found = fit(products)
    for name in ("link", "link_latency", "attention", "host_softmax_overhead"):
        assert getattr(found, name) == pytest.approx(getattr(START, name), rel=1e-3)


def test_two_rates_leave_the_other_constants_alone(used: list[Measurement]) -> None:
    cpu = [row for row in used if row.device_class == "cpu"]
    found = fit_rates(cpu, START)
    changed = {n for n in Efficiency.model_fields if getattr(found, n) != getattr(START, n)}
    rates = {"compute", "attention", "bandwidth", "rowwise_bandwidth"}
    assert changed == rates | {"tile_penalty"}


def test_nothing_to_fit_is_refused() -> None:
    with pytest.raises(InputError, match="got none"):
        fit([])


def test_a_bandwidth_that_is_ten_percent_wrong_shows(gpu: list[Measurement]) -> None:
    """At least 7 % more error in decode, where traffic is nearly all."""
    shipped = load_efficiencies().classes["gpu"]
    decode = [row for row in gpu if row.group == "TPOT" and "A100" in row.description]
    truth = predict_s(decode, shipped)
    planted = [replace(row, seconds=float(s)) for row, s in zip(decode, truth, strict=True)]
    wrong = [
        replace(row, kernels=row.kernels.with_bandwidth(0.9)) for row in planted if row.kernels
    ]
    assert np.median(errors(planted, shipped)) < 1e-12
    assert np.median(errors(wrong, shipped)) > 0.07
    # And beside the measurements themselves.
    slower = [
        replace(row, kernels=row.kernels.with_bandwidth(0.9)) for row in decode if row.kernels
    ]
    assert np.median(errors(slower, shipped)) > np.median(errors(decode, shipped)) + 0.02


def test_the_shipped_efficiencies_are_those_of_the_command(used: list[Measurement]) -> None:
    """The file says so; what it rounds to four digits must come out of the fit again."""
    fitted = fitting.fit_classes(used)
    shipped = load_efficiencies().classes
    assert set(fitted) == set(shipped)
    for name, efficiency in fitted.items():
        for field in Efficiency.model_fields:
            expected = pytest.approx(getattr(efficiency, field), rel=0.02)
            assert getattr(shipped[name], field) == expected, (name, field)
    assert "python -m codesign.studies.validation.fitting" in efficiency_text(fitted, used)


def test_the_shipped_efficiencies_are_physical() -> None:
    for efficiency in load_efficiencies().classes.values():
        assert 0 < efficiency.bandwidth <= 1
        assert 0 < efficiency.link <= 1
        assert 0 < efficiency.compute <= 1.25
        assert efficiency.device_overhead < efficiency.host_matrix_overhead


# Held out


@pytest.mark.parametrize("seed", [0, 1])
def test_no_fold_tests_what_it_was_fitted_to(used: list[Measurement], seed: int) -> None:
    for folds in (model_folds(used), device_folds(used), shape_folds(used, seed, 5)):
        tested = [i for fold in folds for i in fold.testing]
        assert len(tested) == len(set(tested))
        for fold in folds:
            assert fold.training and fold.testing
            assert not set(fold.training) & set(fold.testing)
            classes = {used[i].device_class for i in (*fold.training, *fold.testing)}
            assert len(classes) == 1


def test_a_fold_shares_no_model_device_or_shape_with_its_training(used: list[Measurement]) -> None:
    keys = (
        (model_folds(used), lambda row: row.family),
        (device_folds(used), lambda row: row.device.key),
        (shape_folds(used, 0, 5), lambda row: (row.group, row.shape)),
    )
    for folds, key in keys:
        for fold in folds:
            seen = {key(used[i]) for i in fold.training}
            assert not seen & {key(used[i]) for i in fold.testing}


def test_shapes_hold_out_every_row_once(used: list[Measurement]) -> None:
    tested = sorted(i for fold in shape_folds(used, 0, 5) for i in fold.testing)
    assert tested == list(range(len(used)))


def test_another_seed_draws_other_shapes(used: list[Measurement]) -> None:
    assert shape_folds(used, 0, 5) != shape_folds(used, 1, 5)


def test_held_out_products_keep_the_promise(used: list[Measurement]) -> None:
    few = [row for row in used if row.group == "GEMM" and row.flop > 1e9 and not row.family]
    ours = held_out(few, shape_folds(few, 0, 3))
    measured = np.array([row.seconds for row in few])
    assert np.median(np.abs(ours / measured - 1)) <= 0.12


def test_a_comparison_uses_the_shipped_constants_on_any_table(tmp_path: Path) -> None:
    text = MEASURED_FILE.read_text(encoding="utf-8").splitlines()
    file = tmp_path / "rows.csv"
    file.write_text("\n".join([text[0], *text[1::40], text[-1]]) + "\n")
    study = compare(file)
    n_rows = len(text[1::40]) + 1
    left_out = sum(int(note.split()[0]) for note in study.notes if "left out" in note)
    assert len(study.rows) + left_out == n_rows
    for row in study.rows:
        assert row["error"] == pytest.approx(row["ours"] / row["reference"] - 1)


def test_the_shipped_constants_keep_the_promises() -> None:
    study = compare()
    assert all(target["is_met"] for target in study.targets)
    assert len(study.targets) == 3
