"""Measured blocks of attention: the same sum of kernels that the platform evaluator gives."""

import numpy as np
import pytest

from codesign.base.columns import design_columns
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from validation.studies import attention_blocks
from validation.studies.kernel_table import KernelTable

OF_BLOCK = ("latent_", "query_", "key_value_", "value_", "rope", "index", "attention", "output_")
ROW = {
    "device": "H200", "operator": "dsa_module_decode", "model": "DeepSeek-V3.2", "batch": "16",
    "query_heads": "128", "input_tokens": "1", "past_tokens": "32768", "weight_dtype": "bf16",
    "activation_dtype": "bf16", "kv_dtype": "bf16", "fastest": "1", "latency_s": "1e-3",
}  # fmt: skip


def table_of(*rows):
    columns = {name: np.array([(ROW | row)[name] for row in rows]) for name in ROW}
    return KernelTable(columns, np.arange(2, len(rows) + 2))


@pytest.mark.parametrize(
    ("profile", "is_prefill"), [("fitted", False), ("fitted", True), ("ideal", True)]
)
def test_a_block_is_what_the_evaluator_gives_a_layer(profile, is_prefill):
    sizes = {"prompt_tokens": 8192 if is_prefill else 32768, "generated_tokens": 1}
    evaluator = PlatformEvaluator(
        PlatformRequest(model="deepseek-v3.2", **sizes),
        PlatformOptions.model_validate({"profile": profile}),
    )
    formats = {"weight_format": "bf16", "activation_format": "bf16", "kv_format": "bf16"}
    design = {"device": "h200-sxm", "batch_size": 16, **formats}
    serving = evaluator.serving(design_columns(design))
    passes = serving.passes
    streams = passes.prefill(passes.prompts[0], serving.micro_batch)
    if not is_prefill:
        streams = passes.decode(serving.micro_batch)
    timed = serving.time(streams, serving.decode_footprint)
    layer_s = sum(
        float(item.time_s[0]) / 61
        for item in timed.operators
        if item.name.startswith(OF_BLOCK) and item.part in ("linear", "attention")
    )
    row = {}
    if is_prefill:
        row = {"operator": "dsa_module_prefill", "input_tokens": "8192", "past_tokens": "0"}
    predicted = attention_blocks.predict(table_of(row))
    name = {"fitted": "ours", "ideal": "roofline"}[profile]
    assert predicted[name][0] == pytest.approx(layer_s, rel=1e-12)


def test_rows_of_one_table_do_not_touch_each_other():
    rows = [{}, {"batch": "2"}, {"query_heads": "16"}, {"model": "GLM-5", "query_heads": "64"}, {}]
    together = attention_blocks.predict(table_of(*rows))["ours"]
    alone = [attention_blocks.predict(table_of(row))["ours"][0] for row in rows]
    assert together.tolist() == alone


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, ""),
        ({"fastest": "0"}, "another row has the same block, measured faster"),
        ({"model": "GLM-5.2"}, "whether the layer has an indexer of its own is not stated"),
        ({"model": "DeepSeek-V9"}, "the model is not known"),
        ({"batch": ""}, "batch is not stated"),
        ({"kv_dtype": "int3"}, "kv_dtype is not known"),
        (
            {"operator": "dsa_module_prefill", "past_tokens": "0"},
            "the host starts each kernel of a sequence, in a prefill with sparse attention",
        ),
    ],
)
def test_a_row_is_left_out_for_a_reason(row, reason):
    assert attention_blocks.left_out(table_of(row)).tolist() == [reason]


def test_corrections_are_all_that_sets_the_law_apart():
    predicted = attention_blocks.predict(table_of({}, {"device": "A100"}))
    assert predicted["ours"][0] != predicted["law"][0]
    assert predicted["roofline"][0] < predicted["law"][0]
