"""The command that fits the shipped constants: what it writes, and that it wrote those."""

import numpy as np
import pytest

from codesign.base.errors import UnknownNameError
from codesign.base.schema import read_document
from codesign.models.machines.device.absorbing import AbsorbingConstants
from codesign.models.machines.device.attention import AttentionConstants
from codesign.models.machines.device.collectives import CollectiveConstants
from codesign.models.machines.device.constants import FOLDER, load_constants
from codesign.models.machines.device.elementwise import ElementwiseConstants
from codesign.models.machines.device.engine import EngineConstants
from codesign.models.machines.device.expert_exchange import ExchangeConstants
from codesign.models.machines.device.experts import ExpertConstants
from codesign.models.machines.device.gemm import GemmConstants
from codesign.models.machines.device.scan import ScanConstants
from validation.studies import fit_kernels
from validation.studies.kernel_families import engine

RECORDS = {
    "gemm": GemmConstants,
    "attention": AttentionConstants,
    "mla": AttentionConstants,
    "mla_bmm": AbsorbingConstants,
    "scan": ScanConstants,
    "experts": ExpertConstants,
    "elementwise": ElementwiseConstants,
    "collectives": CollectiveConstants,
    "expert_exchange": ExchangeConstants,
    "engine": EngineConstants,
}


def shipped(family, device_class):
    file = fit_kernels.file_of(family)
    constants = load_constants(file, RECORDS[family], device_class)
    return constants.model_dump()


def test_every_family_has_a_file_and_every_file_a_family():
    assert set(RECORDS) == set(fit_kernels.ALL_FAMILIES)
    files = {fit_kernels.file_of(name) for name in RECORDS}
    assert files == {path.stem for path in FOLDER.glob("*.yaml")} - {"energy"}


@pytest.mark.parametrize("family", RECORDS)
def test_a_shipped_file_is_what_the_command_writes(family):
    data = read_document(FOLDER / f"{fit_kernels.file_of(family)}.yaml").data
    assert f"python -m validation.studies.fit_kernels {family}" in data["how"]
    assert "@" in data["how"]  # the version of the data
    assert set(data["classes"]) == set(data["sources"]) == set(fit_kernels.CLASSES)
    for constants in data["classes"].values():
        assert set(constants) == set(RECORDS[family].model_fields)
    measured = RECORDS[family].model_validate(data["classes"]["gpu"])
    for device_class in fit_kernels.CLASSES:
        derived = fit_kernels.class_constants(measured, device_class).model_dump()
        for name, value in shipped(family, device_class).items():
            assert value == pytest.approx(derived[name], rel=2e-3), (device_class, name)


def test_a_written_file_is_read_as_it_was_fitted():
    values = {
        "host_start": "30 us", "earlier_host_start": "50 us", "host_step": "10 ms",
        "host_request": "0.2 ms", "host_prompt": "20 ms", "host_copy": "1.5",
        "rank_deviation": "5 us",
    }  # fmt: skip
    fitted = EngineConstants.model_validate(values)
    text = fit_kernels.constants_text("engine", "requests", fitted, "2 requests")
    assert "".join(f"    {name}: {value}\n" for name, value in values.items()) in text
    assert '  gpu: "fitted to 2 requests"\n' in text


def test_other_classes_have_large_cores_and_shares_of_their_own():
    gpu, tpu, cpu = (shipped("gemm", name) for name in ("gpu", "tpu", "cpu"))
    assert tpu["bandwidth"] == gpu["bandwidth"]
    assert cpu["bandwidth"] < 0.1 * gpu["bandwidth"]
    assert tpu["operand_rate"] > 10 * gpu["operand_rate"]
    assert shipped("attention", "npu")["bandwidth_fraction"] <= 1.0
    assert shipped("attention", "tpu")["block_cycles"] == pytest.approx(
        shipped("attention", "gpu")["block_cycles"] / 16, rel=1e-3
    )


def test_an_unknown_family_is_an_error_before_anything_is_written():
    with pytest.raises(UnknownNameError, match="Did you mean 'gemm'"):
        fit_kernels.main(["gem"])


@pytest.fixture(scope="module")
def requests():
    """The cases of the engine, whose passes are predicted once for all fits."""
    cases = engine.cases()
    parts = {id(case): engine._parts(case) for case in cases if engine._is_hosted(case)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_parts", lambda case: parts[id(case)])
        yield cases


def test_the_engine_is_fitted_to_requests_of_two_machines_and_of_many_ranks(requests):
    assert {case.engine for case in requests} == {"eager", "streams"}
    # Every third: those of all devices, sizes and quantities.
    fitted = engine.fit(requests[::3])
    gpu = shipped("engine", "gpu")
    for name in engine._HOSTED:
        assert fitted.model_dump()[name] == pytest.approx(gpu[name], rel=0.2), name
    assert fitted.rank_deviation == pytest.approx(gpu["rank_deviation"], rel=0.5)
    assert 15e-6 < gpu["host_start"] < 0.7 * gpu["earlier_host_start"] < 35e-6
    # A step of OPT-13B on one A100 in DistServe's profile of vLLM, to which nothing is fitted,
    # takes 7 ms longer than its kernels are predicted to.
    assert 6e-3 < gpu["host_step"] < 9e-3
    assert 9e-3 < gpu["host_prompt"] < 15e-3
    assert 4e-6 < gpu["rank_deviation"] < 11e-6
    # Between 0.07 ms in DistServe's profiles and 0.3 ms in Splitwise's table.
    assert 0.1e-3 < gpu["host_request"] < 0.2e-3
    assert 1.0 < gpu["host_copy"] < 2.0


def test_an_engine_fitted_to_one_device_predicts_the_other(requests):
    waiting = [case for case in requests if case.engine == "streams"][:9]
    hosted = {
        device: [case for case in requests if case.engine == "eager" and case.device.key == device]
        for device in ("a100-sxm-80gb", "h100-sxm")
    }
    for device, others in zip(hosted, reversed(list(hosted.values())), strict=True):
        own = hosted[device]
        constants = engine.fit([*others, *waiting])
        errors = engine.hosted_law(own)(constants) / [case.value for case in own] - 1.0
        for quantity in ("TTFT", "TPOT"):
            of_quantity = errors[[case.quantity == quantity for case in own]]
            assert np.median(np.abs(of_quantity)) < 0.1, (device, quantity)
            assert np.quantile(np.abs(of_quantity), 0.9) < 0.25, (device, quantity)
