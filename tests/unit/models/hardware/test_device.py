"""Device files and the roofline of kernels on them."""

import pytest

from codesign.base.errors import InputError, UnknownNameError
from codesign.models.hardware.device import list_devices, load_device


@pytest.mark.parametrize("name", list_devices())
def test_every_device_file_is_sourced_and_physical(name):
    device = load_device(name)
    needed = {"peak", "bandwidth", "capacity"}
    assert needed <= set(device.sources)
    assert all(len(text) > 8 for text in device.sources.values())
    # From a laptop's CPU to a wafer of SRAM, which alone passes 1e13 bytes per second today.
    assert all(1e11 < rate < 5e16 for rate in device.peak.values())
    assert 2e8 < device.capacity < 5e11
    limit = 3e16 if device.device_class == "scheduled" or device.is_announced else 1e13
    assert 1e11 < device.bandwidth < limit
    assert 0.3 < device.sustained_share <= device.burst_fraction <= 1
    assert device.link_bandwidth is None or device.link_bandwidth < device.bandwidth


ARCHITECTURES = {
    "Ampere": ("a10", "a40", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"),
    "Ada": ("l4", "l40s", "rtx-4090"),
    "Hopper": (
        "h100-pcie",
        "h100-nvl",
        "h100-sxm",
        "h200-sxm",
        "h200-nvl",
        "h800-sxm",
        "h20",
        "gh200",
    ),
    "Blackwell": ("b200-sxm", "b300-sxm", "gb200", "gb300"),
    "Blackwell RTX": ("rtx-pro-4500", "rtx-pro-6000", "rtx-pro-6000-server", "rtx-5090"),
}
MEASURED = {"Hopper": "h100-sxm", "Blackwell": "b200-sxm"}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_files_of_one_architecture_agree(name):
    devices = [load_device(key) for key in ARCHITECTURES[name]]
    assert len({device.has_asynchronous_cores for device in devices}) == 1
    assert len({"fp8" in device.peak for device in devices}) == 1
    assert len({"fp4" in device.peak for device in devices}) == 1
    # Their laws take 1.8 GHz where a file states none: siblings would differ for no reason.
    assert [device.key for device in devices if device.clock is None] == []


def test_devices_of_a_chip_share_its_measured_kernels_and_a_changed_copy_keeps_them():
    chips = {}
    for key in list_devices():
        device = load_device(key)
        chips.setdefault(device.measured_name, set()).add(key)
    # An H20 has a seventh of an H100's arithmetic: libraries choose other kernels.
    assert chips["GH100"] == {*ARCHITECTURES["Hopper"]} - {"h20"}
    assert chips["GA100"] == {"a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"}
    assert chips["GB100"] == {*ARCHITECTURES["Blackwell"]}
    assert chips["AD102"] == {"l40s"}
    assert chips["h20"] == {"h20"}
    copy = load_device("h100-sxm").model_copy(update={"key": "mine", "bandwidth": 3.45e12})
    assert copy.measured_name == "GH100"


@pytest.mark.parametrize("name", MEASURED)
def test_siblings_of_a_measured_device_start_kernels_as_it_does(name):
    measured = load_device(MEASURED[name])
    assert measured.kernel_start is not None and measured.quantize_start is not None
    for device in map(load_device, ARCHITECTURES[name]):
        assert device.kernel_start == pytest.approx(measured.kernel_start, rel=0.05)
        assert device.quantize_start == pytest.approx(measured.quantize_start, rel=0.05)


def test_only_devices_with_asynchronous_cores_are_hopper_and_later_ones_of_data_centers():
    asynchronous = {key for key in list_devices() if load_device(key).has_asynchronous_cores}
    assert asynchronous == {*ARCHITECTURES["Hopper"], *ARCHITECTURES["Blackwell"], "rubin"}


def test_every_device_of_nvidia_is_of_an_architecture():
    known = {key for keys in ARCHITECTURES.values() for key in keys} | {
        "v100-sxm",
        "rubin",
        "jetson-thor",
    }
    assert {key for key in list_devices() if load_device(key).vendor == "NVIDIA"} == known


def test_the_devices_that_the_project_promises_are_there():
    promised = ("A100 SXM 80GB", "A100 40GB", "H100 SXM", "H100 PCIe", "V100", "MI300X", "TPU v4")
    promised += ("H200", "GH200", "B200", "GB200", "MI325X", "TPU v5e", "TPU v5p", "TPU v6e")
    promised += ("Gaudi 2", "Gaudi 3", "Groq", "Rubin", "MI350X", "MI355X", "MI455X", "TPU v7")
    promised += ("Trainium2", "Trainium 3", "Groq 3", "H200 NVL", "rtx5090", "RTX PRO 4500")
    promised += (
        "Arc B580",
        "Arc Pro B70",
        "Jetson Thor",
        "Maia 100",
        "Maia 200",
        "Corsair",
        "WSE-3",
    )
    for name in promised:
        load_device(name)


def test_every_further_number_of_a_device_is_positive_and_sourced(tmp_path):
    lines = "name: chip\nvendor: none\ndevice_class: gpu\npeak:\n  fp16: 1 TFLOP/s\nn_cores: 4\n"
    lines += "bandwidth: 1 GB/s\ncapacity: 1 GB\nlink_latency: 0 us\nsources:\n"
    lines += "".join(f"  {name}: datasheet\n" for name in ("peak", "n_cores", "bandwidth"))
    file = tmp_path / "chip.yaml"
    file.write_text(lines + "  capacity: datasheet\n")
    with pytest.raises(
        InputError, match=r"link_latency > 0 must hold; sources: .*for link_latency"
    ):
        load_device(str(file))


def test_only_a_device_that_cannot_be_bought_is_marked_announced():
    assert [name for name in list_devices() if load_device(name).is_announced] == [
        "groq-3",
        "mi455x",
        "rubin",
    ]


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
    name, all_reduce_bytes_per_s, n_chips
):
    # Google Cloud's pages of v3, v4, v5e and v6e, "All-reduce bandwidth per Pod", two digits.
    link = load_device(name).link_bandwidth
    assert link == pytest.approx(all_reduce_bytes_per_s / n_chips, rel=0.02)


@pytest.mark.parametrize(
    ("name", "clock_hz", "macs_per_cycle"),
    [
        ("mi300x", 2.1e9, 1216 * 256),
        ("a100-sxm-80gb", 1.41e9, 108 * 1024),
        ("h100-sxm", 1.83e9, 132 * 2048),
        ("gaudi-2", 1.65e9, 2 * 256 * 256),
        ("mi350x", 2.2e9, 256 * 2048),
        ("mi355x", 2.4e9, 256 * 2048),
        ("rtx-5090", 2.407e9, 170 * 256),
        ("rtx-pro-4500", 2.617e9, 82 * 512),
        ("arc-b580", 2.85e9, 20 * 1024),
        ("arc-b570", 2.75e9, 18 * 1024),
        ("arc-pro-b50", 2.6e9, 16 * 1024),
        ("arc-pro-b70", 2.8e9, 32 * 1024),
        ("h200-nvl", 1.545e9, 132 * 2048),
    ],
)
def test_a_peak_follows_from_clock_and_units(name, clock_hz, macs_per_cycle):
    # Bekman, Machine Learning Engineering (2025), how to calculate theoretical TFLOPS.
    assert load_device(name).peak["bf16"] == pytest.approx(2 * clock_hz * macs_per_cycle, rel=2e-3)


def test_measurements_names_lead_to_their_device():
    assert load_device("NVIDIA V100 (126 TFLOPS, 900 GB/s as stated)").key == "v100-sxm"
    assert load_device("A100 80GB").key == "a100-pcie-80gb"
    assert load_device("A100 DGX").key == "a100-sxm-80gb"


def test_a_device_is_found_by_a_name_without_reading_its_file_again(monkeypatch):
    device = load_device("NVIDIA H100 SXM")
    monkeypatch.setattr("pathlib.Path.read_text", None)
    assert load_device("NVIDIA H100 SXM") is device


def test_no_name_means_two_devices():
    owners = {}
    for stem in list_devices():
        for name in (stem, load_device(stem).name, *load_device(stem).also_called):
            assert owners.setdefault(name.lower(), stem) == stem
            assert load_device(name).key == stem


def test_an_unknown_device_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'h100-sxm'"):
        load_device("h100-sxn")


def test_a_number_without_a_source_is_refused(tmp_path):
    file = tmp_path / "chip.yaml"
    file.write_text(
        "name: chip\nvendor: none\ndevice_class: gpu\npeak:\n  fp16: 1 TFLOP/s\nn_cores: 4\n"
        "bandwidth: 1 GB/s\ncapacity: 1 GB\nsources:\n  peak: datasheet\n"
    )
    with pytest.raises(InputError, match="missing for bandwidth, capacity, n_cores"):
        load_device(str(file))


def test_formats_of_one_rate_stand_for_each_other():
    v100, b200 = load_device("v100-sxm"), load_device("b200-sxm")
    assert v100.peak_flop_per_s("bf16") == v100.peak_flop_per_s("fp16")
    assert b200.peak_flop_per_s("mxfp4") == b200.peak_flop_per_s("nvfp4") == 9000e12


@pytest.mark.parametrize(
    ("name", "precision", "multiply"),
    [
        ("a100-sxm-80gb", "fp8", "bf16"),  # 8-bit integers it has
        ("v100-sxm", "fp8", "fp16"),
        ("tpu-v5e", "fp8", "bf16"),
        ("h100-sxm", "fp4", "fp8"),
        ("h100-sxm", "int4", "int8"),
        ("b200-sxm", "mxfp4", "fp4"),
    ],
)
def test_a_missing_format_multiplies_in_the_next_wider_float_never_in_integers(
    name, precision, multiply
):
    device = load_device(name)
    assert device.multiply_format(precision) == multiply
    assert device.peak_flop_per_s(precision) == device.peak[multiply]


def test_nothing_is_multiplied_in_a_narrower_format(tmp_path):
    file = tmp_path / "narrow.yaml"
    numbers = {"peak": "datasheet", "n_cores": "datasheet", "bandwidth": "datasheet",
               "capacity": "datasheet"}  # fmt: skip
    file.write_text(
        "name: narrow\nvendor: none\ndevice_class: npu\npeak:\n  fp8: 1 TFLOP/s\nn_cores: 4\n"
        "bandwidth: 1 GB/s\ncapacity: 1 GB\nsources:\n"
        + "".join(f"  {name}: {text}\n" for name, text in numbers.items())
    )
    device = load_device(str(file))
    assert device.multiply_format("mxfp8") == "fp8"
    with pytest.raises(UnknownNameError, match="bf16"):
        device.peak_flop_per_s("bf16")
