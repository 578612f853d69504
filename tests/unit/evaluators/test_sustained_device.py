"""Devices as the economics meet them: their file's figures, or those that the user chose."""

from dataclasses import replace

import pytest

from codesign.evaluators.economics.economics_options import EconomicsOptions
from codesign.evaluators.economics.sustained_device import (
    BANDWIDTH_CAP,
    COMPUTE_CAP,
    device_machine,
)
from codesign.models.hardware.device import load_device

DEVICES = ["h100-pcie", "b200-sxm", "gb200", "l40s", "ryzen-ai-max-395-igpu"]


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_has_the_figures_of_its_file(name):
    device = load_device(name)
    machine = device_machine(name, "bf16", EconomicsOptions())
    assert machine.name == device.name
    assert machine.fabric.node_size == max(device.n_linked, 1)
    assert machine.capacity_bytes == device.capacity
    assert machine.peak_flop_per_s == device.peak["bf16"]
    assert machine.flop_per_s == device.peak["bf16"] * COMPUTE_CAP
    assert machine.bytes_per_s == device.bandwidth * BANDWIDTH_CAP
    if device.link_bandwidth is not None:
        assert machine.fabric.intra_bytes_per_s == device.link_bandwidth / 2
    if device.network_bandwidth is not None:
        assert machine.fabric.inter_bytes_per_s == device.network_bandwidth / 2


def test_a_device_without_a_link_takes_an_h100s_and_says_so():
    lacking = "ryzen-ai-max-395-igpu"
    assert load_device(lacking).link_bandwidth is None
    machine = device_machine(lacking, "bf16", EconomicsOptions())
    (note,) = (note for note in machine.notes if "the link bandwidth is not stated" in note)
    assert note.endswith("set the option link_bandwidth")
    # The advice helps: with the option there is nothing to say of links.
    advised = device_machine(lacking, "bf16", EconomicsOptions(link_bandwidth="64 GB/s"))
    assert not any("link bandwidth" in note for note in advised.notes)
    assert advised.fabric.intra_bytes_per_s == 32e9


def test_a_choice_goes_before_the_file_and_changes_nothing_else():
    plain = device_machine("b200-sxm", "bf16", EconomicsOptions())
    options = EconomicsOptions(
        compute_cap=0.5, bandwidth_cap=0.25, link_bandwidth="200 GB/s",
        network_bandwidth="50 GB/s", node_size=3,
    )  # fmt: skip
    chosen = device_machine("b200-sxm", "bf16", options)
    device = load_device("b200-sxm")
    assert chosen.flop_per_s == 0.5 * device.peak["bf16"]
    assert chosen.bytes_per_s == 0.25 * device.bandwidth
    assert chosen.fabric == replace(
        plain.fabric, intra_bytes_per_s=100e9, inter_bytes_per_s=25e9, node_size=3
    )
    assert chosen.capacity_bytes == plain.capacity_bytes
