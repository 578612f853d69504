"""The kernels of an indexer: bounds of the datasheet, and what nothing may break."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.models.hardware.device import load_device
from codesign.models.machines.device.attention import AttentionConstants
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.elementwise import ElementwiseConstants
from codesign.models.machines.device.indexing import (
    Index,
    eight_bit_peak,
    index_score_time_s,
    selection_time_s,
)
from codesign.models.machines.device.rates import device_rates

DEVICES = ("a100-sxm-80gb", "l40s", "h100-sxm", "b200-sxm")
STEP = Index(sequences=64, new_tokens=1, context=131072, heads=64, head_dim=128)
PROMPT = Index(sequences=1, new_tokens=8192, context=100_000, heads=64, head_dim=128)
ATTENTION = load_constants("mla", AttentionConstants, "gpu")


def rates_of(name):
    return device_rates(lambda number: number(load_device(name)))


def score_s(shape, device):
    return float(index_score_time_s(shape, rates_of(device), ATTENTION))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [STEP, PROMPT])
def test_scores_take_at_least_their_arithmetic_and_their_keys(device, shape):
    rates = rates_of(device)
    peak = max(float(eight_bit_peak(rates)), float(rates.peak_16bit_flop_per_s))
    scores = float(shape.sequences) * float(shape.new_tokens) * float(shape.context)
    flop = 2 * scores * float(shape.heads) * float(shape.head_dim)
    read = float(shape.sequences) * float(shape.context) * float(shape.head_dim)
    assert score_s(shape, device) > max(flop / peak, read / float(rates.bandwidth_bytes_per_s))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("field", ["sequences", "context", "heads", "head_dim"])
def test_more_of_anything_takes_longer(device, field):
    more = replace(STEP, **{field: 2 * getattr(STEP, field)})
    assert score_s(more, device) > score_s(STEP, device)


def test_devices_without_eight_bit_products_multiply_in_sixteen():
    assert eight_bit_peak(rates_of("a100-sxm-80gb")) == 0
    h100 = rates_of("h100-sxm")
    assert eight_bit_peak(h100) == 2 * np.asarray(h100.peak_16bit_flop_per_s)


def test_the_choice_reads_every_score_once():
    constants = load_constants("elementwise", ElementwiseConstants, "gpu")
    h100 = rates_of("h100-sxm")
    seconds = float(selection_time_s(PROMPT, h100, constants))
    assert seconds > 4 * 8192 * 100_000 / float(h100.bandwidth_bytes_per_s)
