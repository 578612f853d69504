"""Exports from the command line, read again by those they are for."""

import configparser
import csv
import json
import math
import re
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

import codesign
from codesign.cli import main

_BUDGET = ["part", "area (mm²)"]


def _ends(cell):
    """Low, typical and high of a cell; one number stands for all three, a dash for none."""
    numbers = [float(part.replace(",", "")) for part in cell.replace("–", "0").split(" / ")]
    return numbers * (3 // len(numbers))


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
def folder(tmp_path_factory, break_off):
    """A working folder with a finished campaign, and one without a feasible design."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    (folder / "runs" / "trial.yaml").write_text(
        _CAMPAIGN.replace("LIMIT", "5000"), encoding="utf-8"
    )
    hopeless = _CAMPAIGN.replace("LIMIT", "1").replace("name: trial", "name: hopeless")
    (folder / "runs" / "hopeless.yaml").write_text(hopeless, encoding="utf-8")
    broken_off = _CAMPAIGN.replace("LIMIT", "5000").replace("name: trial", "name: half")
    (folder / "runs" / "half.yaml").write_text(broken_off, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        codesign.load_campaign("trial").run()
        assert main(["run", "hopeless", "--json"]) == 1
        break_off(codesign.load_campaign("half"))
    return folder


@pytest.fixture
def results(folder, _in_the_folder):
    return codesign.load_campaign("trial").results()


@pytest.fixture(scope="module")
def sheet(folder):
    """The spec sheet of P1, and what is written beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("codesign.report.exports.sheet_accounts.SAMPLES", 200)
        return _export(folder, "p1.md", "--format", "spec-sheet", "--design", "P1")


def _export(tmp_path, name, *arguments):
    path = tmp_path / name
    assert main(["export", "trial", "--output", str(path), *arguments]) == 0
    return path


def test_openpyxl_reads_the_observations_and_the_provenance(results, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(_export(tmp_path, "all.xlsx", "--scope", "all"))
    assert book.sheetnames == ["observations", "chart", "metrics", "provenance"]
    header, *lines = book["observations"].iter_rows(values_only=True)
    assert len(lines) == len(results) == 24
    column = [line[header.index("TDP [W]")] for line in lines]
    assert column == pytest.approx(results.metrics["tdp_watts"].tolist(), rel=1e-14)
    assert header[:4] == ("#", "design", "throughput [token/s]", "TDP [W]")
    assert "×" in lines[0][1] and "pe_array" in header
    assert book["observations"].freeze_panes == "C2"
    assert book["observations"]["D2"].number_format.startswith("#,##0")
    notes = dict(book["provenance"].iter_rows(min_row=2, values_only=True))
    assert notes["workload.model"] == "llama-3-8b"
    assert notes["codesign"] == codesign.__version__
    assert notes["evaluated"] == "24 of 24"
    units = {row[1]: row[2] for row in book["metrics"].iter_rows(min_row=2, values_only=True)}
    assert units["tdp_watts"] == "W"
    assert book["provenance"].max_row < 30


def test_openpyxl_reads_a_chart_of_throughput_against_tdp(results, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(_export(tmp_path, "front.xlsx"))
    (chart,) = book["chart"]._charts
    (series,) = chart.series
    # Printed, it is on a single page.
    assert book["chart"].page_setup.orientation == "landscape"
    assert book["chart"].sheet_properties.pageSetUpPr.fitToPage
    header = [cell.value for cell in book["observations"][1]]
    for place, metric in ((series.xVal, "TDP [W]"), (series.yVal, "throughput [token/s]")):
        sheet, cells = place.numRef.f.replace("$", "").split("!")
        column = [cell.value for (cell,) in book[sheet][cells]]
        assert len(column) == len(results.front())
        (name,) = [name for name in header if name.startswith(metric)]
        place_of_column = header.index(name) + 1
        assert column[0] == book[sheet].cell(row=2, column=place_of_column).value


def test_the_markdown_has_a_line_for_each_design_of_the_front(results, tmp_path):
    text = _export(tmp_path, "front.md", "--scope", "front").read_text(encoding="utf-8")
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


def _study(path):
    optuna = pytest.importorskip("optuna")
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    return optuna, optuna.load_study(study_name="trial, random, seed 0", storage=storage)


def test_optuna_plots_what_it_loaded(results, tmp_path):
    optuna, study = _study(_export(tmp_path, "all.journal", "--scope", "all"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna marks its plots as an experiment
        front = optuna.visualization.plot_pareto_front(study)
        volumes = optuna.visualization.plot_hypervolume_history(study, [0.0, 700.0])
    assert front.layout.xaxis.title.text == "throughput_tokens_per_s"
    ours = np.flatnonzero(results.run_index == 0)
    shown = np.concatenate([trace.x for trace in front.data])
    assert sorted(shown) == sorted(results.metrics["throughput_tokens_per_s"][ours])
    # The reference point is the campaign's, so the two hypervolumes are one quantity. Optuna
    # computes its own, of the trials that keep every limit.
    assert volumes.data[0].y == pytest.approx(results.hypervolume[ours].tolist(), rel=1e-9)


def test_optuna_ranks_the_parameters_of_what_it_loaded(tmp_path):
    optuna, study = _study(_export(tmp_path, "all.journal", "--scope", "all"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an experiment, too
        figure = optuna.visualization.plot_param_importances(
            study, target=lambda trial: trial.values[1], target_name="tdp_watts"
        )
    assert "tier1_technology" in figure.data[0].y
    assert sum(figure.data[0].x) == pytest.approx(1)


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


def _tables_of_markdown(text):
    """Tables, lines, cells, as a parser of Markdown sees them."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    tables = []
    for token in parser.parse(text):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type == "inline" and tables and token.level >= 4:
            tables[-1][-1].append("".join(child.content for child in token.children))
    return tables


def test_a_markdown_parser_finds_one_table_with_every_design(results, tmp_path):
    text = _export(tmp_path, "all.md", "--scope", "all").read_text("utf-8")
    ((header, *lines),) = _tables_of_markdown(text)
    assert header[:2] == ["#", "design"] and header[-1] == "found by"
    assert [line[0] for line in lines] == [str(number) for number in range(1, len(results) + 1)]
    assert {len(line) for line in lines} == {len(header)}
    assert all(
        line[-1].startswith(("random, seed 0, step", "again, seed 0, step")) for line in lines
    )


def test_a_markdown_parser_finds_the_tables_of_a_spec_sheet(sheet):
    tables = _tables_of_markdown(sheet.read_text("utf-8"))
    assert [table[0][0] for table in tables[:4]] == ["part", "level", "memory", "metric"]
    assert all(len(line) == len(table[0]) for table in tables for line in table)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_an_exported_design_evaluates_again_to_the_same_metrics(tmp_path, capsys, form):
    path = _export(tmp_path, f"front.{form}")
    document = yaml.safe_load(path.read_text("utf-8"))
    if form == "json":  # a list for programs; the design itself is a design file
        (outcome,) = document["observations"][:1]
        path.write_text(json.dumps(outcome["design"]), encoding="utf-8")
        workload = document["definition"]["workload"]
        more = [
            "--model", workload["model"], "--phase", workload["phase"], "--prompt-tokens", "64",
            "--generated-tokens", "8", "--request", f"batch={workload['batch']}",
        ]  # fmt: skip
    else:  # carries its workload
        outcome, more = document["results"]["front-1"], ["--design", "front-1"]
    capsys.readouterr()
    assert main(["evaluate", "--design-file", str(path), "--json", *more]) == 0
    again = json.loads(capsys.readouterr().out)["metrics"]
    assert again == pytest.approx(outcome["metrics"], rel=1e-12)


_STATE = "stopped, 4 of 24 evaluated"


@pytest.mark.parametrize("arguments", [["--format", "csv"], ["--format", "genz", "--design", "P1"]])
def test_a_campaign_broken_off_is_refused_with_both_ways_on(tmp_path, capsys, arguments):
    assert main(["export", "half", "--output", str(tmp_path / "x"), *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"half: is {_STATE}; finish it by 'codesign run half', or export" in err
    assert "--partial" in err and not list(tmp_path.iterdir())


def test_a_running_campaign_is_refused_as_running(folder, tmp_path, capsys):
    from codesign.base.locks import exclusive

    command = ["export", "half", "--output", str(tmp_path / "x.md")]
    with exclusive(folder / "runs" / "half" / "lock"):
        assert main(command) == 2
        assert "is running, 4 of 24 evaluated; wait until" in capsys.readouterr().err
        assert main([*command, "--partial"]) == 0
    assert "- state: running, 4 of 24 evaluated\n" in (tmp_path / "x.md").read_text("utf-8")


def _note_in(path, form):
    """State and progress as a consumer finds them in the file."""
    if form == "xlsx":
        sheet = pytest.importorskip("openpyxl").load_workbook(path)["provenance"]
        return dict(sheet.iter_rows(min_row=2, values_only=True))
    if form == "parquet":
        from pyarrow import parquet

        return json.loads(parquet.read_schema(path).metadata[b"codesign"])
    if form == "optuna":
        optuna = pytest.importorskip("optuna")
        backend = optuna.storages.journal.JournalFileBackend(str(path))
        storage = optuna.storages.JournalStorage(backend)
        (study,) = optuna.get_all_study_summaries(storage)
        return study.user_attrs["codesign"]
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("form", ["json", "yaml", "parquet", "xlsx", "optuna"])
def test_what_is_stored_so_far_says_in_the_file_that_it_is_a_part(tmp_path, capsys, form):
    path = tmp_path / f"part.{form}"
    command = ["export", "half", "--partial", "--format", form, "--output", str(path), "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [
        f"half is {_STATE}; the file says so too",
        "the designs of the front of 4 searched designs",
    ]
    note = _note_in(path, form)
    assert (note["state"], note["evaluated"]) == ("stopped", "4 of 24")


def test_the_csv_of_a_part_says_so_on_the_screen(tmp_path, capsys):
    assert main(["export", "half", "--partial", "--output", str(tmp_path / "part.csv")]) == 0
    assert f"half is {_STATE}; csv has no place" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("form", ["spec-sheet", "scalesim", "llmcompass", "accelforge", "genz"])
def test_a_design_of_a_part_says_in_the_file_that_it_is_of_a_part(tmp_path, form):
    path = tmp_path / "part"
    assert main(["export", "half", "--partial", "--format", form, "--design", "1",
                 "--output", str(path)]) == 0  # fmt: skip
    assert _STATE in path.read_text("utf-8")


def test_a_complete_campaign_says_that_it_is_complete(tmp_path):
    path = _export(tmp_path, "whole.json", "--partial")
    assert json.loads(path.read_text("utf-8"))["state"] == "complete"


# The leaves that LLMCompass reads (PrincetonUniversity/LLMCompass, commit b95c6c9:
# template_to_system in design_space_exploration/dse.py and the constructors of hardware_model/),
# what it takes them for, and the least that does not stop it or make the device vanish. It divides
# by the flit, the clock, the vector's width and the number of sublanes; counts are whole.
_COUNT, _NUMBER = (int, 1), (float, 0)
_LEAVES = {
    "device_count": _COUNT,
    "interconnect.topology": (str, None),
    "interconnect.link_count_per_device": (int, 0),
    "interconnect.link.bandwidth_per_direction_byte": _NUMBER,
    "interconnect.link.bandwidth_both_directions_byte": _NUMBER,
    "interconnect.link.latency_second": _NUMBER,
    "interconnect.link.flit_size_byte": _COUNT,
    "interconnect.link.max_payload_size_byte": (int, 0),
    "interconnect.link.header_size_byte": (int, 0),
    "device.frequency_Hz": (float, 1),
    "device.compute_chiplet_count": _COUNT,
    "device.compute_chiplet.core_count": _COUNT,
    "device.compute_chiplet.core.sublane_count": _COUNT,
    "device.compute_chiplet.core.SRAM_KB": (float, 1),
    "device.compute_chiplet.core.systolic_array.array_height": _COUNT,
    "device.compute_chiplet.core.systolic_array.array_width": _COUNT,
    "device.compute_chiplet.core.systolic_array.mac_per_cycle": (float, 0.5),
    "device.compute_chiplet.core.systolic_array.data_type": (str, None),
    "device.compute_chiplet.core.vector_unit.vector_width": _COUNT,
    "device.compute_chiplet.core.vector_unit.flop_per_cycle": _COUNT,
    "device.compute_chiplet.core.vector_unit.data_type": (str, None),
    "device.io.global_buffer_MB": (float, 1),
    "device.io.global_buffer_bandwidth_per_cycle_byte": (float, 1),
    "device.io.memory_channel_active_count": _COUNT,
    "device.io.pin_count_per_channel": _COUNT,
    "device.io.bandwidth_per_pin_bit": (float, 8),
    "device.memory.total_capacity_GB": (float, 1),
}


@pytest.mark.parametrize("design", ["Base", "P1", "1"])
def test_llmcompass_finds_its_27_leaves_of_the_kind_it_takes(tmp_path, design):
    path = _export(tmp_path, "x.json", "--format", "llmcompass", "--design", design)
    assert len(_LEAVES) == 27
    for leaf, (kind, least) in _LEAVES.items():
        value = json.loads(path.read_text("utf-8"))
        for key in leaf.split("."):
            value = value[key]
        # Python's reader gives whole numbers where a float is taken, never the other way round.
        assert isinstance(value, (int, float) if kind is float else kind), leaf
        assert least is None or value >= least, leaf


def test_llmcompass_computes_the_machine_that_was_meant(tmp_path):
    path = _export(tmp_path, "base.json", "--format", "llmcompass", "--design", "Base")
    document = json.loads(path.read_text("utf-8"))
    device, link = document["device"], document["interconnect"]["link"]
    chiplet, io = device["compute_chiplet"], device["io"]
    core = chiplet["core"]
    array, vector = core["systolic_array"], core["vector_unit"]
    n_cores = chiplet["core_count"] * device["compute_chiplet_count"]
    # Base: 2048 x 128 at 1 GHz, a vector unit of 2048, 4 x HBM3E of 1 TB/s and 24 GB (MemExplorer
    # Tables 1, 5 and 6). The formulas are those of ComputeModule, IOModule, MemoryModule.
    macs = core["sublane_count"] * array["mac_per_cycle"] * array["array_height"]
    peak = n_cores * macs * 2 * array["array_width"] * device["frequency_Hz"]
    assert peak == pytest.approx(2 * 2048 * 128 * 1e9, rel=1e-12)
    lanes = core["sublane_count"] * vector["vector_width"] * vector["flop_per_cycle"] * n_cores
    assert lanes == 2048
    bits = io["memory_channel_active_count"] * io["pin_count_per_channel"]
    assert bits * io["bandwidth_per_pin_bit"] // 8 == pytest.approx(4e12)
    assert device["memory"]["total_capacity_GB"] * 1024**3 == pytest.approx(96e9)
    assert core["SRAM_KB"] * 1024 == pytest.approx(io["global_buffer_MB"] * 1024**2)
    for unit in (array, vector):  # bytes of a word: the digits of the type's name, // 8
        assert int("".join(filter(str.isdigit, unit["data_type"]))) // 8 == 1
    # LinkModule rounds the header up to whole flits.
    assert math.ceil(link["header_size_byte"] / link["flit_size_byte"]) == 0


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


def test_a_spec_sheet_says_what_to_build(sheet):
    text = sheet.read_text("utf-8") + sheet.with_name("p1-sources.md").read_text("utf-8")
    for part in (
        "2048 x 256 multiply-accumulate units at 1 GHz: 1.049 PFLOP/s peak",
        "1 × High Bandwidth Flash, one stack | 384 GB | 1 TB/s | 1 µs | 6 / 10 pJ/bit | 8.25 mm",
        "MemExplorer Table 1",
        ", tdp_watts <= 5000\n",
        '"model": "llama-3-8b"',
    ):
        assert part in text


def _number_of(cell):
    number, unit = cell.replace(",", "").split()
    return float(number) * {"kW": 1e3}.get(unit, 1.0)


def test_a_spec_sheet_has_budgets_interfaces_and_three_lists(sheet):
    text = sheet.read_text("utf-8")
    assert len(re.findall(r"[^\s|]+", text)) < 1_500  # three printed pages
    assert text.count("shoreline <= ") == 1 and ", shoreline," not in text
    for part in (
        "2048x256 matrix array, 2,048-lane vector unit, 3 stacked SRAM layers",
        "| tier 1: HBM4, 12-high stack | 2 | 2048 bit × 7.81 Gbit/s | 2 TB/s | 15 mm | 15 / 22 /",
        "| tier 2: High Bandwidth Flash, one stack | 1 | not known |",
        "## Decided: the design's parameters",
        "## Not modelled",
        "| accuracy relative to 16 bits | 0.9999 | 0.9847 to 1.0000 | estimated |",
    ):
        assert part in text
    sources = sheet.with_name("p1-sources.md").read_text("utf-8")
    assert "| wafer_usd | 7500 / 9346 / 10000 | 2022-07 |" in sources
    (budget,) = [table for table in _tables_of_markdown(text) if table[0][:2] == _BUDGET]
    for column in range(1, 4):
        *parts, total = (_ends(row[column]) for row in budget[1:])
        assert np.sum(parts, axis=0) == pytest.approx(total, rel=1e-3)
        assert total[0] < total[1] < total[2]
    # By hand: 2048 x 256 MACs at 1 GHz, and 2048 lanes with six operations at once.
    assert {row[0]: row[2] for row in budget if row[0] in ("array", "vector")} == {
        "array": "157.3 / 378.5 / 681.6",
        "vector": "1.966 / 3.932 / 20.77",
    }
    metrics = next(table for table in _tables_of_markdown(text) if table[0][0] == "metric")
    intervals = {row[0]: row[2] for row in metrics[1:]}
    assert metrics[0] == ["metric", "value", "5-95 %"]
    assert intervals["throughput"] == "no range stated"
    low, high = (_number_of(end) for end in intervals["TDP"].split(" to "))
    assert low < 600 < 900 < high


def test_the_drawing_of_a_spec_sheet_shows_the_die_its_layers_and_memories(sheet):
    assert "![Die and memories to scale](p1-die.svg)" in sheet.read_text("utf-8")
    drawing = ElementTree.parse(sheet.with_name("p1-die.svg")).getroot()
    words = "\n".join(drawing.itertext())
    for part in ("2 dies, each ", "dashed: 3 stacked SRAM layers", "HBM4, 12-high ×2 · 72 GB"):
        assert part in words


def test_a_spec_sheet_says_which_edge_is_not_charged(tmp_path):
    path = _export(tmp_path, "p2.md", "--format", "spec-sheet", "--design", "P2")
    text = path.read_text("utf-8")
    for part in (
        "| die edge for memory | 30 of 66 mm; 65.6 mm of LPDDR not charged |",
        "| 2.2 / 2.4 pJ/bit | 30 mm of edge |",
        "| 5 / 6.5 pJ/bit | 32.8 mm of edge, not charged |",
        "- the interfaces of LPDDR take none of the die edge reserved for memory",
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
        (["hopeless", "--format", "genz", "--design", "1"], "by number: none on the front"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_no_file(tmp_path, capsys, arguments, message):
    assert main(["export", *arguments, "--output", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_campaign_without_a_feasible_design_names_the_limit_and_the_nearest_one(capsys):
    assert main(["status", "front", "hopeless"]) == 1
    message = capsys.readouterr().err
    assert (
        "hopeless: none of 24 evaluated designs keeps every limit: 24 break 'tdp_watts" in message
    )
    assert re.search(r"The nearest breaks 'tdp_watts <= 1' by [\d.,]+ %: \d+x\d+, VLEN", message)
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("design", [[], ["--format", "scalesim", "--design", "P1"]])
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "is a folder, expected a file"),
        (".", "is a folder, expected a file"),
        ("runs", "runs: is a folder, expected a file"),
        ("runs/trial.yaml/below", "cannot be written"),
        ("x" * 300, "cannot be written: File name too long"),
        # A name that the system takes, and one for the unfinished file that it does not.
        ("x" * 250, "cannot be written: File name too long"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_line(folder, capsys, output, message, design):
    before = sorted(folder.rglob("*"))
    command = ["export", "trial", "--output", output, *(design or ["--format", "csv"])]
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and len(err.splitlines()) == 1
    assert sorted(folder.rglob("*")) == before


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
    codesign.load_campaign("platform").run()
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


def test_a_dash_is_standard_output_and_the_report_goes_to_stderr(capfdbinary, tmp_path):
    expected = _export(tmp_path, "front.csv").read_bytes()
    capfdbinary.readouterr()
    assert main(["export", "trial", "--output", "-", "--format", "csv"]) == 0
    assert capfdbinary.readouterr().out == expected
    assert main(["report", "figure", "front", "trial", "--output", "-", "--format", "svg"]) == 0
    written = capfdbinary.readouterr()
    assert ElementTree.fromstring(written.out).tag.endswith("svg")
    assert b"wrote -" in written.err
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("export trial --output -", "expected --format beside '-'"),
        ("export trial --output - --format csv --json", "--json prints there"),
        ("report figure trial --output -", "several are written"),
        ("accuracy quantize --model . --text . --output -", "it is no standard output"),
    ],
)
def test_a_dash_that_cannot_be_standard_output_is_refused(capsys, words, message):
    assert main(words.split()) == 2
    seen = capsys.readouterr()
    assert message in seen.err
    assert not seen.out
    assert not Path("-").exists()
