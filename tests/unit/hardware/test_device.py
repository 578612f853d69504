"""Device files and the roofline of kernels on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codesign.errors import InputError, UnknownNameError
from codesign.hardware.device import Device, list_devices, load_device
from codesign.hardware.kernels import (
    Efficiency,
    Kernel,
    collective,
    efficiency_of,
    gemm,
    join,
    kernel_times_s,
    load_efficiencies,
    on_device,
    repeated,
)

IDEAL = Efficiency.model_validate(
    dict.fromkeys(("compute", "bandwidth", "rowwise_bandwidth", "attention", "link"), 1.0)
    | dict.fromkeys(("tile_penalty", "attention_keys"), 0.0)
    | {
        name: "0 s"
        for name in Efficiency.model_fields
        if "overhead" in name or name in ("link_latency", "link_step")
    }
)


def time_s(device: Device, kernel: Kernel, efficiency: Efficiency = IDEAL) -> float:
    return float(kernel_times_s(on_device(device, "fp16", [kernel]), efficiency)[0])


@pytest.mark.parametrize("name", list_devices())
def test_every_device_file_is_sourced_and_physical(name: str) -> None:
    device = load_device(name)
    needed = {"peak", "n_cores", "bandwidth", "capacity"}
    assert needed <= set(device.sources)
    assert all(len(text) > 8 for text in device.sources.values())
    # From a laptop's CPU to the fastest accelerator announced for 2026; an LPU has SRAM only.
    assert all(1e11 < rate < 4e16 for rate in device.peak.values())
    assert 1e11 < device.bandwidth < 1e14
    assert 2e8 < device.capacity < 3e11
    # Only SRAM passes 1e13 bytes per second today.
    assert device.bandwidth < 1e13 or device.is_announced or device.capacity < 1e9
    assert 0.4 < device.sustained_fraction <= 1
    assert device.link_bandwidth is None or device.link_bandwidth < device.bandwidth
    assert device.device_class in load_efficiencies().classes


def test_the_devices_that_the_project_promises_are_there() -> None:
    promised = ("A100 SXM 80GB", "A100 40GB", "H100 SXM", "H100 PCIe", "V100", "MI300X", "TPU v4")
    promised += ("H200", "GH200", "B200", "GB200", "MI325X", "TPU v5e", "TPU v5p", "TPU v6e")
    promised += ("Gaudi 2", "Gaudi 3", "Groq", "Rubin")
    for name in promised:
        load_device(name)


def test_every_further_number_of_a_device_is_positive_and_sourced(tmp_path: Path) -> None:
    lines = "name: chip\nvendor: none\ndevice_class: gpu\npeak:\n  fp16: 1 TFLOP/s\nn_cores: 4\n"
    lines += "bandwidth: 1 GB/s\ncapacity: 1 GB\nlink_latency: 0 us\nsources:\n"
    lines += "".join(f"  {name}: datasheet\n" for name in ("peak", "n_cores", "bandwidth"))
    file = tmp_path / "chip.yaml"
    file.write_text(lines + "  capacity: datasheet\n")
    with pytest.raises(
        InputError, match=r"link_latency > 0 must hold; sources: .*for link_latency"
    ):
        load_device(str(file))


def test_only_a_device_that_cannot_be_bought_is_marked_announced() -> None:
    assert [name for name in list_devices() if load_device(name).is_announced] == ["rubin"]


def test_the_a100_peak_follows_from_its_cores_and_clock() -> None:
    # Whitepaper: 108 SM, 1024 dense fp16 multiply-accumulates per SM and cycle, 1410 MHz.
    device = load_device("a100-sxm-80gb")
    assert device.peak["fp16"] == pytest.approx(device.n_cores * 1024 * 2 * 1.41e9, rel=2e-3)


def test_the_h100_peak_follows_from_its_cores_and_clock() -> None:
    device = load_device("h100-sxm")
    assert device.peak["bf16"] == pytest.approx(device.n_cores * 2048 * 2 * 1.83e9, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "all_reduce_bytes_per_s", "n_chips"),
    [
        ("tpu-v3", 340e12, 1024),
        ("tpu-v4", 1.1e15, 4096),
        ("tpu-v5e", 51.2e12, 256),
        ("tpu-v6e", 102.4e12, 256),
    ],
)
def test_a_tpus_links_one_way_add_up_to_the_all_reduce_bandwidth_of_its_pod(
    name: str, all_reduce_bytes_per_s: float, n_chips: int
) -> None:
    # Google Cloud's pages of v3, v4, v5e and v6e, "All-reduce bandwidth per Pod", two digits.
    link = load_device(name).link_bandwidth
    assert link == pytest.approx(all_reduce_bytes_per_s / n_chips, rel=0.02)


@pytest.mark.parametrize(
    ("name", "clock_hz", "macs_per_cycle"),
    [("mi300x", 2.1e9, 1216 * 256), ("gaudi-2", 1.65e9, 2 * 256 * 256)],
)
def test_a_peak_follows_from_clock_and_units(
    name: str, clock_hz: float, macs_per_cycle: int
) -> None:
    # Bekman, Machine Learning Engineering (2025), how to calculate theoretical TFLOPS.
    assert load_device(name).peak["bf16"] == pytest.approx(2 * clock_hz * macs_per_cycle, rel=2e-3)


def test_measurements_names_lead_to_their_device() -> None:
    assert load_device("NVIDIA V100 (126 TFLOPS, 900 GB/s as stated)").key == "v100-sxm"
    assert load_device("A100 80GB").key == "a100-pcie-80gb"
    assert load_device("A100 DGX").key == "a100-sxm-80gb"


def test_no_name_means_two_devices() -> None:
    owners: dict[str, str] = {}
    for stem in list_devices():
        for name in (stem, load_device(stem).name, *load_device(stem).also_called):
            assert owners.setdefault(name.lower(), stem) == stem
            assert load_device(name).key == stem


def test_an_unknown_device_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'h100-sxm'"):
        load_device("h100-sxn")


def test_a_number_without_a_source_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "chip.yaml"
    file.write_text(
        "name: chip\nvendor: none\ndevice_class: gpu\npeak:\n  fp16: 1 TFLOP/s\nn_cores: 4\n"
        "bandwidth: 1 GB/s\ncapacity: 1 GB\nsources:\n  peak: datasheet\n"
    )
    with pytest.raises(InputError, match="missing for n_cores, bandwidth, capacity"):
        load_device(str(file))


def test_a_missing_format_runs_at_the_rate_of_the_next_wider_one_and_an_unknown_one_not() -> None:
    v100 = load_device("v100-sxm")
    assert v100.peak_flop_per_s("bf16") == v100.peak_flop_per_s("fp16")
    assert v100.multiply_format("fp8") == "fp16"
    with pytest.raises(UnknownNameError, match="fp9"):
        v100.peak_flop_per_s("fp9")


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm", "mi300x", "tpu-v4"])
def test_a_huge_product_runs_at_the_sustained_peak_times_the_efficiency(name: str) -> None:
    device, size = load_device(name), 1 << 16
    efficiency = efficiency_of(device)
    sustained = device.peak_flop_per_s("fp16") * device.sustained_fraction * efficiency.compute
    found = time_s(device, gemm(size, size, size, (16, 16)), efficiency)
    assert found == pytest.approx(2 * size**3 / sustained, rel=0.01)


def test_a_product_with_one_row_runs_at_the_bandwidth() -> None:
    device = load_device("a100-sxm-80gb")
    found = time_s(device, gemm(1, 65536, 65536, (16, 16)))
    assert found == pytest.approx(2 * 65536**2 / device.bandwidth, rel=0.01)


def test_a_last_wave_that_is_almost_empty_costs_a_whole_one() -> None:
    # 108 cores: 12 x 9 tiles of 256 x 128 are one wave, 12 x 10 are two. Smaller tiles hide
    # some of it, at a price; the inner size is too short to be split.
    device = load_device("a100-sxm-80gb")
    costly = IDEAL.model_copy(update={"tile_penalty": 12.0})
    full = time_s(device, gemm(256 * 12, 128 * 9, 1024, (16, 16)), costly)
    more = time_s(device, gemm(256 * 12, 128 * 10, 1024, (16, 16)), costly)
    assert 1.3 < more / full <= 2
    sustained = device.peak["fp16"] * device.sustained_fraction
    assert full == pytest.approx(2 * 256 * 12 * 128 * 9 * 1024 / sustained, rel=0.01)


def test_ideal_products_are_never_faster_than_either_side_of_the_roofline() -> None:
    device, rng = load_device("h100-sxm"), np.random.default_rng(0)
    peak = device.peak_flop_per_s("fp16") * device.sustained_fraction
    for m, n, k in rng.integers(1, 9000, size=(200, 3)):
        kernel = gemm(m, n, k, (16, 16))
        bound = max(2 * m * n * k / peak, kernel.traffic_bytes / device.bandwidth)
        assert time_s(device, kernel) >= bound * (1 - 1e-12)


def test_a_long_causal_attention_runs_at_its_efficiency() -> None:
    device = load_device("a100-sxm-80gb")
    kernel = Kernel("attention", products=256, m=16384, n=16385 / 2, k=128, traffic_bytes=1e6)
    flop = 2 * 2 * 256 * 16384 * 16385 / 2 * 128
    sustained = device.peak["fp16"] * device.sustained_fraction
    assert time_s(device, kernel) == pytest.approx(flop / sustained, rel=1e-6)


def test_a_ring_all_reduce_sends_every_byte_almost_twice() -> None:
    device = load_device("a100-sxm-80gb")
    found = time_s(device, collective("all_reduce", 1e9, 8))
    assert found == pytest.approx(2 * 7 / 8 * 1e9 / device.link_bandwidth)
    gathered = time_s(device, collective("all_gather", 1e9, 8))
    assert found == pytest.approx(2 * gathered)


def test_waiting_grows_with_the_steps_of_the_ring() -> None:
    device = load_device("a100-sxm-80gb")
    slow = IDEAL.model_copy(update={"link_latency": 8e-6, "link_step": 1e-6})
    assert time_s(device, collective("all_reduce", 0, 8), slow) == pytest.approx(22e-6)
    assert time_s(device, collective("send", 0, 2), slow) == pytest.approx(9e-6)


def test_each_launch_has_its_own_overhead() -> None:
    device = load_device("a100-sxm-80gb")
    started = IDEAL.model_copy(update={"host_softmax_overhead": 13e-6, "device_overhead": 4e-6})
    assert time_s(device, Kernel("rowwise", "host-softmax"), started) == pytest.approx(13e-6)
    assert time_s(device, Kernel("stream", "device"), started) == pytest.approx(4e-6)
    assert time_s(device, Kernel("stream", "call"), started) == 0


def test_a_batch_of_kernels_is_its_kernels_one_by_one() -> None:
    device, rng = load_device("mi300x"), np.random.default_rng(1)
    kernels = [gemm(*map(float, rng.integers(1, 5000, 3)), (8, 16)) for _ in range(20)]
    kernels += [collective("all_reduce", 1e6, 4), Kernel("rowwise", traffic_bytes=1e8)]
    together = kernel_times_s(on_device(device, "fp16", kernels), efficiency_of(device))
    alone = [time_s(device, kernel, efficiency_of(device)) for kernel in kernels]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_joining_and_repeating_keep_every_kernel() -> None:
    device = load_device("a100-sxm-80gb")
    one = on_device(device, "fp16", [gemm(8, 8, 8, (16, 16)), Kernel("stream", count=3)])
    both = join([one, repeated(one, 2)])
    assert len(both) == 4
    assert both.count.tolist() == [1, 3, 2, 6]


def test_more_bandwidth_never_slows() -> None:
    device = load_device("a100-sxm-80gb")
    kernels = on_device(device, "fp16", [gemm(m, 4096, 4096, (16, 16)) for m in (1, 64, 256, 4096)])
    slow = kernel_times_s(kernels, efficiency_of(device))
    fast = kernel_times_s(kernels.with_bandwidth(1.5), efficiency_of(device))
    assert np.all(fast <= slow)
    assert fast[0] < slow[0]
