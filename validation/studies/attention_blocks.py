"""Whole blocks of latent attention that others measured, as ``platform`` puts them together.

A block is all that a layer does from the norm before attention to the output projection: latent
projections and their norms, rotation, absorbing products, the indexer of sparse attention, the
attention itself, the output projection. NVIDIA measured it as one (ai-dynamo/aiconfigurator
@095f58a, Apache-2.0). Here it is the sum of the operators that the evaluator ``platform`` lowers
the layer to, each by the law of its own kernel: nothing is fitted to blocks, so that they say how
far sums of kernels carry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from codesign.base.columns import Arrays, FloatArray, IntArray, column_of
from codesign.base.records import frozen
from codesign.evaluators.platform import PlatformOptions
from codesign.evaluators.platform.device_memory import Residence
from codesign.evaluators.platform.device_work import Stream
from codesign.evaluators.platform.pass_work import list_work
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_columns import build_platform
from codesign.evaluators.platform.serving_rules import rules_of
from codesign.models.hardware.device import Device
from codesign.models.workload import LanguageModel, load_model, lower
from validation.studies.kernel_families.rows import Reasons, find_reasons
from validation.studies.kernel_table import KernelTable

OPERATORS = {
    "blocks of latent attention": ("mla_module_prefill", "mla_module_decode"),
    "blocks of sparse latent attention": ("dsa_module_prefill", "dsa_module_decode"),
}
"""Operators of the table by what they are."""
TARGET = 0.15
"""Median error that is promised of latent attention."""
_MODELS = {"DeepSeek-V3": "deepseek-v3", "DeepSeek-V3.2": "deepseek-v3.2", "GLM-5": "glm-5"}
_HOST_BOUND = "the host starts each kernel of a sequence, in a prefill with sparse attention"
_FORMATS = ("bf16", "fp8_block128", "nvfp4")
_SIZES = ("batch", "query_heads", "input_tokens", "past_tokens")
_HOST_BOUND_S = 1e-3
"""Seconds of a sequence below which a prefill that a host starts kernel by kernel tells of the
host [ours]. With sparse attention one token took 0.2 to 1.1 ms, 128 sequences of 256 tokens 34."""


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row has no prediction; empty where it has one."""
    reasons = find_reasons(
        table,
        [operator for operators in OPERATORS.values() for operator in operators],
        _SIZES,
        formats={"weight_dtype": _FORMATS, "kv_dtype": ("bf16", "fp8")},
        may_be_0=("past_tokens",),
        more={
            "another row has the same block, measured faster": table.words("fastest") == "0",
            "whether the layer has an indexer of its own is not stated": (
                table.words("model") == "GLM-5.2"
            ),
            "the model is not known": ~np.isin(table.words("model"), list(_MODELS)),
        },
    )
    is_started_apart = (reasons == "") & (table.words("operator") == "dsa_module_prefill")
    if is_started_apart.any():
        prefills = table.take(is_started_apart)
        short = predict(prefills)["ours"] / prefills["batch"] < _HOST_BOUND_S
        reasons = reasons.astype(object)
        reasons[np.flatnonzero(is_started_apart)[short]] = _HOST_BOUND
    return reasons.astype(np.str_)


def predict(table: KernelTable) -> dict[str, FloatArray]:
    """(q,) seconds of rows that have a prediction: ours, laws without corrections, rooflines."""
    predictions = {name: table.missing() for name in ("ours", "law", "roofline")}
    for block, rows in _blocks(table):
        for name, seconds in block.seconds(table.take(rows)).items():
            predictions[name][rows] = seconds
    return predictions


@frozen
class _Block:
    """One layer's attention of a model, for so many tokens, with a device's part of the heads."""

    model: str
    heads: int
    is_prefill: bool
    new_tokens: int
    past_tokens: int

    @property
    def language_model(self) -> LanguageModel:
        """The model with one layer and the device's heads."""
        heads = {"num_attention_heads": self.heads, "num_key_value_heads": self.heads}
        return load_model(_MODELS[self.model]).model_copy(
            update=heads | {"num_hidden_layers": 1, "first_k_dense_replace": 0, "parameters": None}
        )

    def stream(self, requests: FloatArray) -> Stream:
        """The operators of the block for a batch."""
        model, past = self.language_model, self.past_tokens
        if self.is_prefill:
            table = lower(model, "prefill", self.new_tokens, 1, past_tokens=past)
        else:
            table = lower(model, "decode", 1, 1, context=past + 1.0)
        return Stream(
            "",
            table.take(np.flatnonzero([group == "attention" for group in table.groups])),
            float(past),
            requests,
            requests,
            requests,
            self.is_prefill,
        )

    def seconds(self, table: KernelTable) -> Arrays:
        """(q,) predictions for rows that are this block, by name."""
        fitted, ideal = (
            PlatformOptions.model_validate({"profile": profile}).resolved()
            for profile in ("fitted", "ideal")
        )
        platform = _platform(table, fitted)
        unmeasured = replace(platform, measured_names=column_of([""] * len(table)))
        return {
            "ours": self._time_s(platform, fitted),
            "law": self._time_s(unmeasured, fitted),
            "roofline": self._time_s(_platform(table, ideal), ideal),
        }

    def _time_s(self, platform: Platform, options: PlatformOptions) -> FloatArray:
        rules, model = rules_of(options), self.language_model
        nothing, read_s = np.zeros_like(platform.batch), 1.0 / platform.fast_bandwidth
        residence = Residence(read_s, read_s, offloaded_share=nothing)
        work = list_work(rules.sharding(model, platform), [self.stream(platform.batch)], rules)
        times = rules.timing(model, platform, residence).times(work)
        return np.asarray(sum((time.time_s for time in times), nothing))


def _blocks(table: KernelTable) -> Iterator[tuple[_Block, IntArray]]:
    """The blocks of a table, and the positions of their rows."""
    sizes = {name: table[name].astype(np.int64).tolist() for name in _SIZES[1:]}
    positions: dict[_Block, list[int]] = {}
    for i, model in enumerate(table.words("model").tolist()):
        block = _Block(
            model=str(model),
            heads=sizes["query_heads"][i],
            is_prefill=str(table.words("operator")[i]).endswith("prefill"),
            new_tokens=sizes["input_tokens"][i],
            past_tokens=sizes["past_tokens"][i],
        )
        positions.setdefault(block, []).append(i)
    for block, rows in positions.items():
        yield block, np.array(rows, dtype=np.int64)


def _platform(table: KernelTable, options: PlatformOptions) -> Platform:
    """The device of each row with its batch and formats; activations as wide as weights."""
    devices: dict[str, Device] = {device.key: device for device in table.devices if device}
    weights = table.words("weight_dtype").tolist()
    return build_platform(
        {
            "device": column_of([device.key if device else "" for device in table.devices]),
            "batch_size": column_of(table["batch"].tolist()),
            "weight_format": column_of(weights),
            "activation_format": column_of([word.partition("_")[0] for word in weights]),
            "kv_format": column_of(table.words("kv_dtype").tolist()),
        },
        devices,
        options,
    )
