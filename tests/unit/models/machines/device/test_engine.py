"""What a serving engine adds to kernels: starts by the host, its own time, ranks that wait."""

import numpy as np
import pytest

from codesign.base.errors import UnknownNameError
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.engine import (
    LARGE_MESSAGE_BYTES,
    EngineConstants,
    host_copy_s,
    host_own_s,
    host_starts_s,
    list_engines,
    load_engine,
)
from codesign.models.machines.device.experts import MULTIPLY_BITS

CONSTANTS = EngineConstants.model_validate(
    {
        "host_start": "20 us",
        "earlier_host_start": "40 us",
        "host_step": "8 ms",
        "host_request": "0.2 ms",
        "host_copy": 1.5,
        "host_prompt": "12 ms",
        "rank_deviation": "10 us",
    }
)


def test_a_host_starts_kernels_at_the_pace_of_its_generation():
    """An H100 is linked by PCIe 5, an A100 by PCIe 4; nobody states the link of a V100."""
    rates = [
        load_device(key).slow_bandwidth or np.nan for key in ("h100-sxm", "a100-sxm-80gb", "v100")
    ]
    seconds = host_starts_s(1000.0, np.array(rates), CONSTANTS)
    assert seconds.tolist() == pytest.approx([0.02, 0.04, 0.04])


def test_a_step_with_prompts_takes_the_host_longer_by_a_constant():
    seconds = host_own_s(np.array([False, True]), 0.0, 8.0, CONSTANTS)
    assert seconds.tolist() == pytest.approx([8e-3, 20e-3])
    assert float(host_own_s(True, 0.0, 8.0, CONSTANTS)) == seconds[1]


def test_each_further_request_takes_the_host_of_several_ranks_longer():
    seconds = host_own_s(False, np.array([1.0, 2.0, 64.0]), np.array([[1.0], [8.0]]), CONSTANTS)
    assert seconds.tolist() == [
        pytest.approx([8e-3, 8e-3, 8e-3]),
        pytest.approx([8e-3, 8.2e-3, 20.6e-3]),
    ]


def test_only_large_messages_pass_the_host_at_a_share_of_its_rate():
    size = np.array([LARGE_MESSAGE_BYTES, 2 * LARGE_MESSAGE_BYTES])
    seconds = host_copy_s(size, 1.5 * size, np.array([[64e9], [np.nan]]), CONSTANTS)
    large = 3 * LARGE_MESSAGE_BYTES / 1.5
    np.testing.assert_allclose(seconds, [[0.0, large / 64e9], [0.0, large / 32e9]])


def test_an_engine_is_a_file_with_a_source_and_a_range_of_each_constant(tmp_path):
    for name in list_engines():
        engine = load_engine(name)
        constants = {f"expert_time {kernel}" for kernel in engine.expert_time}
        constants |= {"host_request", "expert_imbalance"} & engine.model_fields_set
        assert set(engine.ranges) == constants and set(engine.expert_time) <= set(MULTIPLY_BITS)
        assert {"all"} <= set(engine.sources) or {*engine.expert_time} <= set(engine.sources)
    own = tmp_path / "own.yaml"
    own.write_text("name: ours\nstarter: graphs\nexpert_time: {fp8: 2}\nsources: {all: us}\n")
    assert load_engine(str(own)).expert_time == {"fp8": 2.0}
    with pytest.raises(UnknownNameError, match="Did you mean 'vllm'"):
        load_engine("vlm")
