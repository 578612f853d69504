"""Cases of the public tool GenZ-LLM-Analyzer [GenZTool]_, run by profile ``genz``.

A case is plain JSON: the stage, the model's dimensions, the system's numbers, degrees of
parallelism, format, efficiency. Its device and model are built from it, so that cases that are
not ours can be run too::

    python -m validation.studies.genz_cases CASES.json

.. [GenZTool] GenZ-LLM-Analyzer, git 091bdd0 (2026-07-29) and PyPI genz-llm 0.0.16, MIT licence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codesign.base.columns import (
    Columns,
    Fields,
    JsonObject,
    JsonRows,
    Strings,
    design_columns,
)
from codesign.base.errors import InputError
from codesign.evaluators.platform.passes import RequestPasses
from codesign.evaluators.platform.platform_columns import build_platform
from codesign.evaluators.platform.platform_limits import describe_limits
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.evaluators.platform.timed_pass import TimedPass
from codesign.models.hardware.device import Device
from codesign.models.workload.model import LanguageModel
from validation.studies.study import comparison

_GIB, _MIB = 2.0**30, 2.0**20
_FORMATS = {"bf16": "bf16", "int8": "int8", "fp8": "fp8", "int4": "int4", "fp4": "int4"}
_SOURCE = "the case"
_OFFLOAD_GIB_PER_S, _ONCHIP_GIB_PER_S = 128.0, 18000.0
"""The tool's defaults."""
_BEAMS = 4
"""Beams of a decode step where the case has none: the tool's default."""


def load_cases(path: Path) -> JsonRows:
    """The cases of a file, ``{"cases": [{"input": …, "output": …}]}`` or the list alone.

    Raises:
        InputError: The file cannot be read or has another form.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as JSON: {error}", str(path)) from error
    cases = document.get("cases") if isinstance(document, dict) else document
    if not isinstance(cases, list):
        raise InputError("expected a list of cases, or one under 'cases'", str(path))
    return cases


def run_case(case: Fields) -> JsonObject:
    """Our answer to a case's input, under the names and in the units of its output.

    Args:
        case: The ``input`` of a case.

    Raises:
        InputError: The model does not fit, or the parallelism is impossible.
    """
    dims = case["model_dims"]
    is_mixture = dims["experts"] > 1
    mixture = {
        "n_routed_experts": dims["experts"],
        "num_experts_per_tok": dims["top_k"],
        "moe_intermediate_size": dims["intermediate"],
    }
    request = _Request(
        model=(
            LanguageModel.model_validate(
                {
                    "name": "the case's model",
                    "hidden_size": dims["hidden"],
                    "intermediate_size": dims["intermediate"],
                    "num_hidden_layers": dims["layers"],
                    "num_attention_heads": dims["heads"],
                    "num_key_value_heads": dims["kv_heads"],
                    "head_dim": dims["head_dim"],
                    "vocab_size": dims["vocab"],
                    "is_gated": dims["ffn_up_matrices"] == 2,
                }
                | (mixture if is_mixture else {})
            )
        ),
        prompt_tokens=case["prompt"],
        generated_tokens=case.get("gen", 0),
        beams=case.get("beam", _BEAMS if case["stage"] == "decode" else 1),
    )
    efficiency = case.get("eff", 1)
    onchip = case["system_numbers"].get("onchip_bw_GiBps", _ONCHIP_GIB_PER_S)
    options = PlatformOptions.model_validate(
        {
            "profile": "genz",
            "compute_efficiency": efficiency,
            "memory_efficiency": efficiency,
            "offload": bool(case.get("offload", False)),
            "onchip_bandwidth": f"{onchip!r} GiB/s",
        }
    ).resolved()
    platform = build_platform(_design(case), {"case": _device(case["system_numbers"])}, options)
    serving = PlatformServing(request, options, RequestPasses(request, options), platform)
    broken = describe_limits(serving)
    is_prefill = case["stage"] == "prefill"
    kept_prefill_footprint = serving.prefill_footprint if is_prefill else serving.decode_footprint
    stages = float(serving.platform.pp[0])
    if (
        not case.get("offload")
        and float(kept_prefill_footprint.need_bytes[0] / kept_prefill_footprint.room_bytes[0])
        > stages
    ):
        raise InputError(broken)
    timed_pass = serving.prefill_passes[0][1] if is_prefill else serving.decode_pass
    seconds = float(timed_pass.total_s[0])
    times = {name: value * 1e3 for name, value in _breakdown(timed_pass).items()}
    return {
        "latency_ms": seconds * 1e3,
        "throughput": case["batch"] / seconds,
        "offloaded": bool(serving.residence(kept_prefill_footprint).offloaded_share[0] > 0),
        "weights_MiB_per_tp_rank": float(kept_prefill_footprint.weight_bytes[0]) / _MIB,
        "kv_MiB_per_tp_rank": float(kept_prefill_footprint.kv_bytes[0]) / _MIB,
        # The tool prints operations, two per multiply-accumulate, under this name.
        "macs_M": 2.0 * sum(float(operator.mac[0]) for operator in timed_pass.operators) / 1e6,
        "attn_ms": float(timed_pass.part_s("attention")[0]) * 1e3,
        "linear_ms": float(timed_pass.part_s("linear")[0]) * 1e3,
        "comm_ms": float(timed_pass.part_s("collective", "send")[0]) * 1e3,
        "breakdown": times,
    }


class _Request(PlatformRequest):
    """A request of a model that no file describes."""

    model: Any

    @property
    def language_model(self) -> LanguageModel:
        model: LanguageModel = self.model
        return model


def _device(system: Fields) -> Device:
    def binary(name: str, unit: str, absent: float | None = None) -> str:
        return f"{system.get(name, absent)!r} {unit}"

    numbers = {
        "bandwidth": binary("mem_bw_GiBps", "GiB/s"),
        "capacity": binary("mem_GiB", "GiB"),
        "link_bandwidth": binary("link_bw_GiBps", "GiB/s"),
        "link_latency": binary("link_latency_us", "us", 1),
        "slow_bandwidth": binary("external_bw_GiBps", "GiB/s", _OFFLOAD_GIB_PER_S),
    }
    return Device.model_validate(
        {
            "key": "case",
            "name": str(system.get("name", "case")),
            "vendor": "none",
            "device_class": "gpu",
            "peak": {"bf16": f"{system['flops_T']!r} TFLOP/s"},
            "n_cores": 1,
            **numbers,
            "sources": dict.fromkeys((*numbers, "peak", "n_cores"), _SOURCE),
        }
    )


def _design(case: Fields) -> Columns:
    form = _FORMATS[case["bits"]]
    values: JsonObject = {
        "device": "case",
        "batch_size": case["batch"],
        "tensor_parallel": case.get("tp", 1),
        "pipeline_parallel": case.get("pp", 1),
        "expert_parallel": case.get("ep", 1),
        "weight_format": form,
        "activation_format": form,
        "kv_format": form,
    }
    return design_columns(values)


def _breakdown(timed_pass: TimedPass) -> dict[str, float]:
    """Seconds by the tool's blocks, which overlap: a block counts its collectives too."""
    seconds = {operator.name: float(operator.time_s[0]) for operator in timed_pass.operators}

    def added(*names: str) -> float:
        return sum(seconds.get(name, 0.0) for name in names)

    products = added("embedding", "lm_head")
    attention = float(timed_pass.part_s("attention")[0])
    projections = added("qkv_projection", "output_projection")
    mlp = float(timed_pass.part_s("linear")[0]) - projections - products
    exchanged = added("expert_exchange")
    mlp_reduced = added("down_projection_sum", "expert_output", "router_scores")
    sent = added("stage_to_stage")
    collective = float(timed_pass.part_s("collective", "send")[0])
    return {
        "Embedding": products + added("embedding_sum", "lm_head_gather"),
        "MHA": projections + attention + added("output_projection_sum"),
        "FFN": mlp + mlp_reduced + exchanged,
        "Collective": collective,
        "LA_layers": attention,
        "QKVO_layers": projections,
        "FFN_layers": mlp,
        "AR_time": collective - exchanged - sent,
        "A2A_time": exchanged,
        "Send_Recv_time": sent,
    }


_COMPARED = (
    "latency_ms",
    "throughput",
    "weights_MiB_per_tp_rank",
    "kv_MiB_per_tp_rank",
    "macs_M",
    "attn_ms",
    "linear_ms",
    "comm_ms",
)


def compare(case: Fields) -> Iterator[JsonObject]:
    """Rows of one case with an output: the tool's number, ours, the relative error."""
    inputs, ours = case["input"], run_case(case["input"])
    published = case["output"]
    pairs = [(name, published[name], ours[name]) for name in _COMPARED if name in published]
    pairs += [
        (f"breakdown {name}", published["breakdown"][name], value)
        for name, value in ours["breakdown"].items()
        if name in published.get("breakdown", {})
    ]
    for name, reference, value in pairs:
        subject = f"case {inputs['id']} {inputs['stage']} {name}"
        row = comparison(
            {"what": subject, "group": inputs["stage"], "metric": name}, reference, value
        )
        yield row if reference else row | {"error": float(value != 0)}


def main(arguments: Strings) -> int:
    """Compare the cases of files; prints the largest error of each and returns an exit code."""
    for path in arguments:
        for case in load_cases(Path(path)):
            worst = max(compare(case), key=lambda row: abs(row["error"]))
            print(f"{worst['error']:+.2e}  {worst['what']}  ours {worst['ours']:.9g}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
