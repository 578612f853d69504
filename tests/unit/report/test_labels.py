"""Names and numbers as people read them."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from codesign.base.metrics import METRICS, Metric
from codesign.report.labels import (
    axis_label,
    describe_design,
    format_metric,
    format_setting,
    format_value,
    metric_of,
    metric_title,
    setting_words,
    short_names,
    spoken_designs,
)
from codesign.report.limit_lines import limit_words
from codesign.report.result_tables import metric_cell, metric_header
from codesign.search.campaign.campaign_definition import load_definition


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("time_to_first_token_s", "time to first token"),
        ("tdp_watts", "TDP"),
        ("throughput_tokens_per_s", "throughput"),
        ("tokens_per_joule", "tokens per joule"),
        ("batch_size", "batch size"),
        ("shoreline_mm", "shoreline"),
        ("energy_joules_per_token", "energy"),
    ],
)
def test_a_title_is_the_name_without_its_unit(name, title):
    assert metric_title(METRICS[name]) == title


def test_a_rate_is_called_by_what_it_counts():
    assert metric_title(Metric("prefill_requests_per_s", "maximize", "1/s", "")) == (
        "prefill requests"
    )
    density = Metric("tokens_per_s_per_mm2", "maximize", "token/s/mm^2", "")
    assert metric_title(density) == "tokens per s per mm2"
    assert metric_title(Metric("n_devices", "minimize", "", "")) == "devices"
    assert metric_title(Metric("usd_per_hour", "minimize", "USD/h", "")) == "price per hour"


def test_integer_operations_have_prefixes_as_floating_point_ones_do():
    assert format_value(1.05e15, "OP/s", 3) == "1.05 POP/s"
    assert format_value(1.05e15, "FLOP/s", 3) == "1.05 PFLOP/s"


def test_no_two_metrics_have_the_same_title():
    titles = [metric_title(metric) for metric in METRICS.values()]
    assert len(set(titles)) == len(titles)


def test_an_axis_says_its_unit():
    assert axis_label(METRICS["tdp_watts"]) == "TDP (W)"
    assert axis_label(METRICS["batch_size"]) == "Batch size"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (8.192e11, "B/s", "819.2 GB/s"),
        (0.0125, "s", "12.5 ms"),
        (12_345.6, "token/s", "12,346 token/s"),
        (0.25, "token/J", "0.25 token/J"),
        (0.0, "W", "0 W"),
        (1.5e12, "", "1.5e+12"),
        (math.nan, "W", "–"),
        (None, "W", "–"),
        (math.inf, "W", "inf W"),
    ],
)
def test_numbers_have_four_figures_and_a_readable_unit(value, unit, text):
    assert format_value(value, unit) == text


def test_units_of_headers_are_those_of_numbers():
    assert axis_label(METRICS["area_mm2"]) == "Area (mm²)"
    assert metric_header(METRICS["junction_temperature_celsius"]) == "junction temperature °C"


def test_a_utilization_is_printed_in_percent_in_tables_too():
    metric = METRICS["compute_utilization"]
    assert (metric_header(metric), metric_cell(0.8057, metric)) == ("compute utilization %", "80.6")


def test_a_utilization_is_printed_in_percent():
    assert format_metric(0.3549, METRICS["compute_utilization"]) == "35.5 %"
    assert format_metric(math.nan, METRICS["compute_utilization"]) == "–"


def test_a_stranger_s_metric_is_taken_as_it_was_declared():
    area = Metric("area_mm2", "minimize", "", "silicon")
    assert metric_of("area_mm2", [area]) is area
    assert metric_of("nobody_knows").unit == ""


def test_a_design_is_described_in_the_words_of_the_field():
    design = {
        "pe_array": (2048, 256),
        "vector_length": 2048,
        "sram_dies": 0,
        "sram_3d_layers": 3,
        "tier1_technology": "hbm4_12h",
        "tier1_stacks": 2,
        "tier2_technology": "hbf",
        "tier2_stacks": 1,
        "tier3_technology": None,
        "tier3_stacks": None,
        "weight_format": "mxint8",
        "activation_format": "mxint8",
        "kv_format": "mxint4",
        "storage_priority": "activation",
        "dataflow": "ws",
        "bandwidth_priority": "matrix",
    }
    assert describe_design(design) == (
        "2048x256, VLEN 2048, 3D×3, HBM4×2 + HBF×1, mxint8/mxint8/mxint4, act/ws/matrix"
    )


def test_parameters_without_words_of_their_own_keep_their_names():
    assert describe_design({"depth": 3, "kind": "tall", "gone": None}) == "depth=3, kind=tall"


def test_names_that_would_be_the_same_in_short_say_how_high_they_are():
    assert short_names(["hbm4_12h", "hbm4_16h", "hbf"]) == {
        "hbm4_12h": "HBM4, 12-high",
        "hbm4_16h": "HBM4, 16-high",
        "hbf": "HBF",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((2048, 128), "2048x128"),
        ([1, 2], "1x2"),
        (None, "–"),
        (True, "yes"),
        (4, "4"),
        (256e9, "2.56e+11"),
        (0.123456789, "0.123456789"),
        ("ws", "ws"),
    ],
)
def test_settings_read_as_in_a_space_file(value, text):
    assert format_setting(value) == text


@pytest.mark.parametrize(
    "name", ["accelerator-decode", "agent-caches", "forecast-edge", "platform-rag", "system-afd"]
)
def test_no_metric_limit_or_setting_of_a_shipped_campaign_is_a_code(name):
    problem = load_definition(Path(f"runs/{name}.yaml")).problem
    space = problem.space
    texts = [*map(metric_title, problem.metrics)]
    texts += [limit_words(problem, constraint) for constraint in problem.constraints]
    texts += spoken_designs(space, space.decode(space.sample(np.random.default_rng(0), 9)))
    for parameter in space.parameters:
        for value in parameter.values[:40]:
            texts += setting_words(parameter.name, value)
    assert not [text for text in texts if re.search(r"\w_\w|\w/[a-z]+/", text)]
