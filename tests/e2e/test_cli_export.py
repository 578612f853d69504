"""Exports from the command line, read again by those they are for."""

from __future__ import annotations

import configparser
import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import yaml

import codesign
from codesign.cli import main

_CAMPAIGN = """\
name: trial
space: memexplorer
evaluator: {name: npu}
workload: {model: llama-3-8b, prompt_tokens: 64, generated_tokens: 8, phase: prefill, batch: 2}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= LIMIT]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8}
optimizers: [random, {name: random, label: again}]
initial: 4
budget: 12
seeds: 1
reference_sample: 32
reference_point: {throughput_tokens_per_s: 0, tdp_watts: 700}
workers: 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A working folder with a finished campaign, and one without a feasible design."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    (folder / "runs" / "trial.yaml").write_text(
        _CAMPAIGN.replace("LIMIT", "5000"), encoding="utf-8"
    )
    hopeless = _CAMPAIGN.replace("LIMIT", "1").replace("name: trial", "name: hopeless")
    (folder / "runs" / "hopeless.yaml").write_text(hopeless, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run", "trial", "--json"]) == 0
        assert main(["run", "hopeless", "--json"]) == 2
    return folder


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture
def results(folder, _there):
    return codesign.load_campaign("trial").results()


def _export(tmp_path: Path, name: str, *arguments: str) -> Path:
    path = tmp_path / name
    assert main(["export", "trial", "--output", str(path), *arguments]) == 0
    return path


def test_openpyxl_reads_the_observations_and_the_provenance(results, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(_export(tmp_path, "all.xlsx", "--scope", "all"))
    assert book.sheetnames == ["observations", "metrics", "provenance"]
    header, *lines = book["observations"].iter_rows(values_only=True)
    assert len(lines) == len(results) == 24
    column = [line[header.index("tdp_watts")] for line in lines]
    assert column == pytest.approx(results.metrics["tdp_watts"].tolist(), rel=1e-14)
    assert "pe_array" in header
    notes = dict(book["provenance"].iter_rows(min_row=2, values_only=True))
    assert notes["definition.workload.model"] == "llama-3-8b"
    assert notes["versions.codesign"] == codesign.__version__
    assert notes["evaluated"] == "24 of 24"
    units = {row[0]: row[1] for row in book["metrics"].iter_rows(min_row=2, values_only=True)}
    assert units["tdp_watts"] == "W"


def test_the_markdown_has_a_line_for_each_design_of_the_front(results, tmp_path):
    text = _export(tmp_path, "front.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(results.front())
    assert len({line.count(" | ") for line in lines}) == 1
    assert "llama-3-8b" in text and codesign.__version__ in text


def test_optuna_loads_every_run_as_a_study_with_limits_and_failures(results, tmp_path):
    optuna = pytest.importorskip("optuna")
    path = _export(tmp_path, "all.journal", "--scope", "all")
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    names = [item.study_name for item in optuna.get_all_study_summaries(storage)]
    assert names == ["trial, random, seed 0", "trial, again, seed 0"]
    study = optuna.load_study(study_name=names[1], storage=storage)
    assert [item.name for item in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    ours = np.flatnonzero(results.run_index == 1)
    values = np.array([trial.values for trial in study.trials])
    assert values[:, 1].tolist() == results.metrics["tdp_watts"][ours].tolist()
    assert study.user_attrs["codesign"]["campaign"] == "trial"
    for trial, position in zip(study.trials, ours, strict=True):
        assert trial.user_attrs["batch_size"] == results.metrics["batch_size"][position]
        assert (max(trial.constraints.values()) <= 0) == results.feasible[position]
        assert trial.params["tier1_technology"] == results.design(position)["tier1_technology"]


def test_optuna_plots_what_it_loaded(tmp_path):
    optuna = pytest.importorskip("optuna")
    path = _export(tmp_path, "all.journal", "--scope", "all")
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    study = optuna.load_study(study_name="trial, random, seed 0", storage=storage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna marks its plots as an experiment
        optuna.visualization.matplotlib.plot_pareto_front(study)
        optuna.visualization.matplotlib.plot_hypervolume_history(study, [0.0, 5000.0])


def test_a_journal_has_the_same_bytes_every_time(tmp_path):
    once = _export(tmp_path, "a.journal").read_bytes()
    assert _export(tmp_path, "b.journal").read_bytes() == once


def test_the_genz_dictionary_undoes_genz_units(tmp_path):
    document = json.loads(
        _export(tmp_path, "p1.json", "--format", "genz", "--design", "P1").read_text("utf-8")
    )
    # MemExplorer Table 6: P1 is 2048 x 256 at 1 GHz with 2 x HBM4 (2 TB/s, 36 GB) and one HBF
    # (1 TB/s, 384 GB).
    # GenZ: flops * 1e12 / compute_multiplier[int8], GB/s * 2**30, GB * 1024 * 2**20.
    assert document["Flops"] * 1e12 / 0.5 == pytest.approx(2 * 2048 * 256 * 1e9, rel=1e-12)
    assert document["Memory_BW"] * 2**30 == pytest.approx(5e12, rel=1e-12)
    assert document["Memory_size"] * 1024 * 2**20 == pytest.approx(456e9, rel=1e-12)
    assert document["call_with"] == {"bits": "int8"}
    assert document["provenance"]["design"]["tier2_technology"] == "hbf"


def test_the_file_and_the_screen_say_what_one_memory_cannot_express(tmp_path, capsys):
    path = _export(tmp_path, "p1.json", "--format", "genz", "--design", "P1")
    said = " ".join(capsys.readouterr().out.split())
    for part in ("2 off-chip tiers are one memory", "writes at 10 pJ/bit"):
        assert part in said
        assert any(part in note for note in json.loads(path.read_text("utf-8"))["notes"])


# What LLMCompass's template_to_system reads (design_space_exploration/dse.py).
_LEAVES = (
    "device_count",
    "interconnect.topology",
    "interconnect.link_count_per_device",
    "interconnect.link.bandwidth_per_direction_byte",
    "interconnect.link.bandwidth_both_directions_byte",
    "interconnect.link.latency_second",
    "interconnect.link.flit_size_byte",
    "interconnect.link.max_payload_size_byte",
    "interconnect.link.header_size_byte",
    "device.frequency_Hz",
    "device.compute_chiplet_count",
    "device.compute_chiplet.core_count",
    "device.compute_chiplet.core.sublane_count",
    "device.compute_chiplet.core.SRAM_KB",
    "device.compute_chiplet.core.systolic_array.array_height",
    "device.compute_chiplet.core.systolic_array.array_width",
    "device.compute_chiplet.core.systolic_array.mac_per_cycle",
    "device.compute_chiplet.core.systolic_array.data_type",
    "device.compute_chiplet.core.vector_unit.vector_width",
    "device.compute_chiplet.core.vector_unit.flop_per_cycle",
    "device.compute_chiplet.core.vector_unit.data_type",
    "device.io.global_buffer_MB",
    "device.io.global_buffer_bandwidth_per_cycle_byte",
    "device.io.memory_channel_active_count",
    "device.io.pin_count_per_channel",
    "device.io.bandwidth_per_pin_bit",
    "device.memory.total_capacity_GB",
)


def test_llmcompass_finds_its_27_leaves_with_the_machine_in_them(tmp_path):
    path = _export(tmp_path, "base.json", "--format", "llmcompass", "--design", "Base")
    document = json.loads(path.read_text("utf-8"))
    found = {}
    for leaf in _LEAVES:
        value = document
        for key in leaf.split("."):
            value = value[key]
        found[leaf.split(".")[-1]] = value
    assert len(_LEAVES) == 27
    # Base: 4 x HBM3E of 1 TB/s and 24 GB (MemExplorer Tables 1 and 5).
    io = document["device"]["io"]
    rate = io["memory_channel_active_count"] * io["pin_count_per_channel"]
    assert rate * io["bandwidth_per_pin_bit"] // 8 == pytest.approx(4e12)
    assert found["total_capacity_GB"] * 2**30 == pytest.approx(96e9)
    assert (found["array_height"], found["array_width"]) == (2048, 128)
    assert found["data_type"] == "int8"


def test_the_accelforge_yaml_keeps_the_asymmetry_of_flash(tmp_path):
    path = _export(tmp_path, "p1.yaml", "--format", "accelforge", "--design", "P1")

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor(
        "!", lambda loader, tag, node: {"kind": tag} | loader.construct_mapping(node, deep=True)
    )
    document = yaml.load(path.read_text("utf-8"), Loader)
    nodes = document["arch"]["nodes"]
    assert [node["name"] for node in nodes] == [
        "Tier2", "Tier1", "OnChip", "VectorUnit", "ProcessingElement", "Register", "MAC",
    ]  # fmt: skip
    flash = {action["name"]: action for action in nodes[0]["actions"]}
    # MemExplorer Table 1: 6 pJ/bit read, 10 written, 1 TB/s, 384 GB, 300 mW/GB.
    assert float(flash["read"]["energy"]) == pytest.approx(6e-12)
    assert float(flash["write"]["energy"]) == pytest.approx(10e-12)
    assert float(flash["read"]["throughput"]) == pytest.approx(8e12)
    assert float(nodes[0]["size"]) == pytest.approx(8 * 384e9)
    assert float(nodes[0]["leak_power"]) == pytest.approx(0.3 * 384)
    assert "Provenance" in path.read_text("utf-8")


def test_the_scalesim_files_have_array_buffers_and_products(tmp_path):
    path = _export(tmp_path, "p1.cfg", "--design", "P1")
    parser = configparser.ConfigParser()
    parser.read(path)
    preset = parser["architecture_presets"]
    assert (preset.getint("ArrayHeight"), preset.getint("ArrayWidth")) == (2048, 256)
    # 3 layers of 1 GB, in three; 5 TB/s of one-byte elements at 1 GHz.
    assert preset.getint("IfmapSramSzkB") == 10**9 // 1024
    assert preset["Bandwidth"] == "5000"
    gemm = (tmp_path / "p1_gemm.csv").read_text("utf-8")
    lines = list(csv.DictReader(gemm.splitlines(), skipinitialspace=True))
    products = {line["Layer"]: (line["M"], line["N"], line["K"]) for line in lines}
    # Llama 3 8B: 4096 wide, 8 of 32 heads for keys and values, 14336 between; 64 tokens.
    assert products["qkv_projection_x32"] == ("64", str(4096 + 2 * 1024), "4096")
    assert products["down_projection_x32"] == ("64", "4096", "14336")


def test_a_spec_sheet_says_what_to_build(tmp_path):
    path = _export(tmp_path, "p1.md", "--format", "spec-sheet", "--design", "P1")
    text = path.read_text("utf-8")
    for part in (
        "2048 x 256 multiply-accumulate units at 1 GHz: 1.049 PFLOP/s peak",
        "1 × High Bandwidth Flash, one stack | 384 GB | 1 TB/s | 1 µs | 6 / 10 pJ/bit | 8.25 mm",
        "MemExplorer Table 1",
        "| tdp_watts <= 5000 | kept |",
        '"model": "llama-3-8b"',
    ):
        assert part in text


def test_every_design_of_the_front_can_be_exported_by_its_number(results, tmp_path):
    for number in range(1, len(results.front()) + 1):
        path = _export(tmp_path, f"{number}.json", "--format", "genz", "--design", str(number))
        design = json.loads(path.read_text("utf-8"))["provenance"]["design"]
        assert design == results.design(results.front()[number - 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trial", "--format", "exel"], "--format: unknown export format 'exel'"),
        (["trail", "--format", "csv"], "unknown campaign 'trail'. Did you mean 'trial'?"),
        (["trial", "--format", "genz"], "--design: genz holds one design; expected its number"),
        (["trial", "--format", "genz", "--design", "0"], "--design: no design '0'; by number: 1 "),
        (["trial", "--format", "genz", "--design", "P9"], "unknown design 'P9'. Did you mean 'P"),
        (["trial", "--format", "csv", "--design", "1"], "--design: csv holds many designs"),
        (["trial", "--format", "genz", "--design", "1", "--scope", "all"], "it has no --scope"),
        (["trial", "--format", "csv", "--scope", "fornt"], "unknown scope 'fornt'"),
        (["hopeless", "--format", "optuna"], "hopeless: none of 24 evaluated designs keeps every"),
        (["hopeless", "--format", "genz", "--design", "1"], "by number: none on the front"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_no_file(tmp_path, capsys, arguments, message):
    assert main(["export", *arguments, "--output", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_design_without_an_array_is_refused_by_formats_for_arrays(folder, tmp_path, capsys):
    text = """\
name: platform
space: platform-llm
evaluator: {name: platform}
workload: {model: llama-3-8b, prompt_tokens: 64, generated_tokens: 8}
objectives: [maximize throughput_tokens_per_s]
optimizers: [random]
initial: 2
budget: 4
reference_point: {throughput_tokens_per_s: 0}
"""
    (folder / "runs" / "platform.yaml").write_text(text, encoding="utf-8")
    assert main(["run", "platform", "--json"]) == 0
    capsys.readouterr()
    output = str(tmp_path / "x.json")
    command = ["export", "platform", "--output", output, "--format", "genz", "--design", "1"]
    assert main(command) == 2
    assert "expected a design with a matrix array and memory levels" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_json_of_an_export_lists_files_and_notes(tmp_path, capsys):
    capsys.readouterr()
    _export(tmp_path, "p1.cfg", "--design", "P1", "--json")
    document = json.loads(capsys.readouterr().out)
    assert [Path(name).name for name in document["files"]] == [
        "p1.cfg", "p1_gemm.csv", "p1_layout.csv",
    ]  # fmt: skip
    assert any("systolic" in note for note in document["notes"])
