"""Systems of pools from the command line: every command, and every mistake in one line."""

import json
import os
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from codesign.base.errors import InputError
from codesign.cli import main
from codesign.report.exports.design_files import write_machines

_FIXED = (
    "weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, "
    "storage_priority: activation, bandwidth_priority: matrix, dataflow: ws, tier1_stacks: 2, "
    "tier2_technology: hbf, tier2_stacks: 1, tier3_technology: none"
)
_SPACE = f"""\
pools:
  prefill:
    space: memexplorer
    machines: [1, 2]
    parameters: {{pe_array: [[2048, 128], [2048, 256]]}}
    fixed: {{{_FIXED}, vector_length: 2048, tier1_technology: hbm4_12h, sram_dies: 0,
            sram_3d_layers: 3}}
  decode:
    space: memexplorer
    machines: [1, 2]
    parameters: {{pe_array: [[512, 64], [1024, 64], [2048, 64]]}}
    fixed: {{{_FIXED}, vector_length: 1024, tier1_technology: hbm3e_8h, sram_dies: 1,
            sram_3d_layers: 0}}
links:
  handover:
    {{from: prefill, to: decode, bandwidth: 450 GB/s, latency: 1 us, energy: 1.3 pJ/bit}}
designs:
  pair:
    source: ours
    values: {{prefill: P1, decode: D1, prefill_machines: 1, decode_machines: 2}}
"""
_CAMPAIGN = """\
name: NAME
description: A small system
space: SPACE
evaluator: {name: system}
workload: {model: llama-3.3-70b, trace: osworld}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 2800]
optimizers: [random]
initial: 4
budget: 8
seeds: 1
workers: 1
reference_sample: 16
"""


_LINK = _SPACE[_SPACE.index("links:") : _SPACE.index("designs:")]
_NO_DESIGNS = _SPACE.split("designs:")[0]
_KEYS = {
    "evaluator": "evaluator: {name: system}",
    "constraints": "constraints: [tdp_watts <= 2800]",
    "workload": "workload: {model: llama-3.3-70b, trace: osworld}",
    "objectives": "objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]",
    "space": "space: bad.yaml",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("systems")
    (folder / "small.yaml").write_text(_SPACE, encoding="utf-8")
    text = _CAMPAIGN.replace("NAME", "pair-run").replace("SPACE", "small.yaml")
    (folder / "pair-run.yaml").write_text(text, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["run", "pair-run.yaml"]) == 0
    finally:
        os.chdir(before)
    return folder


def run(capsys, *words):
    code = main(list(words))
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def test_evaluate_prints_pools_and_the_way_of_one_request(capsys):
    text = run(capsys, "evaluate", "--campaign", "pair-run.yaml", "--design", "pair")
    assert "2× [2048x64" in text
    assert "One request without queues" in text
    assert re.search(r"decode sets the rate: \d\.\d+ requests/s", text)
    words = ["--space", "small.yaml", "--design", "pair", "--set", "decode_machines=1"]
    text = run(
        capsys, "evaluate", *words, "--model", "llama-3.3-70b", "--workload", "osworld", "--json"
    )
    rows = json.loads(text)["timeline"]
    assert [row["name"] for row in rows] == ["prefill", "handover", "decode"]
    assert [row["machines"] for row in rows] == [1, 1, 1]
    assert sum(row["sets_rate"] for row in rows) == 1
    prefill, handover, decode = rows
    assert 0 < handover["start_s"] < prefill["end_s"] < handover["end_s"] == decode["start_s"]


def test_a_space_of_systems_lists_its_pools_and_links(capsys):
    text = " ".join(run(capsys, "list", "small.yaml").split())
    assert "decode decode design of memexplorer 1, 2 3 17" in text
    assert "handover prefill decode 450 GB/s; 1 us; 1.3 pJ/bit" in text
    document = json.loads(run(capsys, "list", "small.yaml", "--json"))
    assert [(x["name"], x["machines"], x["size"]) for x in document["pools"]] == [
        ("prefill", [1, 2], 2),
        ("decode", [1, 2], 3),
    ]
    names = {item["name"] for item in document["parameters"]}
    for part in (*document["pools"], *document["links"]):
        assert part["parameters"] and names >= set(part["parameters"])


def test_a_change_of_the_cache_s_format_is_among_the_assumptions(capsys):
    words = ["evaluate", "--space", "system-pd", "--design", "P1-D1", "--model", "llama-3.3-70b",
             "--workload", "osworld"]  # fmt: skip
    says = "the KV cache is converted from mxint8 to mxint4 where it arrives"
    assert says not in " ".join(run(capsys, *words).split())
    changed = run(capsys, *words, "--set", "decode_kv_format=mxint4")
    assert says in " ".join(changed.split())


def test_a_design_file_of_a_system_is_read_back(capsys):
    run(capsys, "export", "pair-run.yaml", "--output", "front.yaml")
    text = run(capsys, "evaluate", "--design-file", "front.yaml", "--design", "front-1")
    assert "One request without queues" in text


def test_tables_name_designs_by_pool(capsys):
    for words in (["status", "front", "pair-run.yaml"], ["enumerate", "pair-run.yaml"]):
        text = run(capsys, *words)
        assert "prefill 1× [2048x" in text
        assert re.search(r"\n +decode ", text)
        assert "prefill_pe_array=" not in text


def test_an_exact_front_says_which_formats_each_pool_takes(capsys, tmp_path, monkeypatch):
    assert "Formats on the front" not in run(capsys, "enumerate", "pair-run.yaml")  # fixed ones
    monkeypatch.chdir(tmp_path)
    space = _SPACE.replace("decode:\n    space: memexplorer\n", "decode:\n    space: memexplorer\n"
                           "    parameters: {kv_format: [mxint8, mxint4]}\n", 1)  # fmt: skip
    space = space.replace("    parameters: {pe_array: [[512, 64], [1024, 64], [2048, 64]]}\n", "")
    decode = space.index("  decode:")
    space = space[:decode] + space[decode:].replace(
        "kv_format: mxint8, ", "pe_array: [2048, 64], ", 1
    )
    Path("formats.yaml").write_text(space, encoding="utf-8")
    text = _CAMPAIGN.replace("NAME", "formats-run").replace("SPACE", "formats.yaml")
    Path("formats-run.yaml").write_text(text, encoding="utf-8")
    table = run(capsys, "enumerate", "formats-run.yaml").partition("Formats on the front")[2]
    document = json.loads(run(capsys, "enumerate", "formats-run.yaml", "--json"))
    points = [point["design"] for point in document["points"]]
    for pool in ("prefill", "decode"):
        counts = Counter(point[f"{pool}_kv_format"] for point in points)
        assert counts["mxint4"] > 0 or pool == "prefill"
        for cache, n in counts.items():
            assert re.search(rf"{pool} +mxint8 +mxint8 +{cache} +{n}\n", table), table


def test_the_front_of_a_system_is_explained(capsys):
    text = run(capsys, "explain", "pair-run.yaml")
    assert "TDP at most 2.8 kW" in text and "was not asked" in text
    text = run(capsys, "explain", "pair-run.yaml", "--thorough")
    assert "- TDP at most 2.8 kW: " in text
    assert "bounds the machines of a pool" in text


@pytest.mark.parametrize("form", ["scalesim", "llmcompass", "accelforge", "genz"])
def test_exports_write_a_machine_of_every_pool(capsys, form):
    place = f"out/{form}.txt"
    words = ["--design", "pair", "--format", form, "--output", place, "--json"]
    written = json.loads(run(capsys, "export", "pair-run.yaml", *words))
    stems = {
        Path(file).stem.removesuffix("_gemm").removesuffix("_layout") for file in written["files"]
    }
    assert stems == {f"{form}-prefill", f"{form}-decode"}
    assert all(Path(file).stat().st_size for file in written["files"])
    assert any(note.startswith("prefill and decode: ") for note in written["notes"])
    arrays = [Path(f"out/{form}-{pool}.txt").read_text() for pool in ("prefill", "decode")]
    assert arrays[0] != arrays[1]


def test_a_spec_sheet_is_of_the_system_and_of_every_machine(capsys):
    run(capsys, "export", "pair-run.yaml", "--design", "pair", "--format", "spec-sheet",
        "--output", "out/sheet.md")  # fmt: skip
    system, prefill, decode = (
        Path(f"out/{name}.md").read_text() for name in ("sheet", "sheet-prefill", "sheet-decode")
    )
    assert "| decode | 2× [2048x64" in system
    assert "One request without queues" in system
    assert "2048 x 256 multiply-accumulate units" in prefill
    assert "2048 x 64 multiply-accumulate units" in decode


def test_an_export_that_one_pool_refuses_writes_nothing(tmp_path):
    def write(machine, path):
        if machine == "device":
            raise InputError("has no array")
        path.write_text(machine, encoding="utf-8")
        return (path,)

    system = SimpleNamespace(pools={"prefill": "npu", "decode": "device"})
    with pytest.raises(InputError, match="has no array"):
        write_machines(write, system, tmp_path / "a" / "m.cfg")
    assert not list(tmp_path.iterdir())


def test_figures_of_a_machine_are_drawn_of_every_pool(capsys):
    run(
        capsys,
        "report",
        "figure",
        "roofline",
        "pair-run.yaml",
        "--design",
        "pair",
        "--output",
        "out/r.pdf",
    )
    for pool in ("prefill", "decode"):
        assert Path(f"out/r-{pool}.pdf").stat().st_size > 1000


@pytest.mark.parametrize("width", ["89 mm", "183 mm"])
def test_a_system_is_drawn_without_an_overprint(overprinted_texts, capsys, width):
    words = ["--design", "pair", "--width", width, "--output", "out/system.svg"]
    run(capsys, "report", "figure", "system", "pair-run.yaml", *words)
    assert Path("out/system.svg").stat().st_size > 1000
    assert overprinted_texts(Path("out/system.svg")) == []


def test_the_sheet_of_a_system_has_a_bill_for_each_pool(capsys):
    run(capsys, "report", "pair-run.yaml", "--samples", "0", "--output", "out/sheet.svg")
    text = Path("out/sheet.svg").read_text(encoding="utf-8")
    text = re.sub(r"</tspan>\s*<tspan[^>]*>", " ", text)
    for words in ("Bill of materials of one prefill machine", "one decode machine", "bar: 5 mm",
                  "“codesign enumerate pair-run.yaml” finds them"):  # fmt: skip
        assert words in text, words
    assert not re.findall(r">[^<]*[a-z]_[a-z][^<]*<", text)  # a code name


def test_a_page_of_a_system_leaves_out_no_memory_that_a_pool_fixes(capsys):
    kinds = json.loads(run(capsys, "explain", "memories", "pair-run.yaml", "--json"))["kinds"]
    assert [kind["memory_kind"] for kind in kinds][1:] == ["GDDR", "LPDDR"]  # HBM and HBF are fixed
    assert "report.html" in run(capsys, "report", "pair-run.yaml", "--samples", "1")


def refused(capsys, *words):
    before = sorted(Path().rglob("*"))
    assert main(list(words)) == 2
    assert sorted(Path().rglob("*")) == before
    (line,) = capsys.readouterr().err.splitlines()
    return line


def _refused_space(capsys, name, text, **changes):
    Path("bad.yaml").write_text(text, encoding="utf-8")
    campaign = _CAMPAIGN.replace("NAME", "bad-run").replace("SPACE", "bad.yaml")
    for old, new in changes.items():
        campaign = campaign.replace(_KEYS[old], new)
    Path("bad-run.yaml").write_text(campaign, encoding="utf-8")
    return refused(capsys, name, "bad-run.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            _NO_DESIGNS.replace(_LINK, ""),
            "bad.yaml:1: links: expected one link from pool 'prefill'",
        ),
        (
            _NO_DESIGNS + _LINK.partition("\n")[2].replace("handover", "again"),
            "links: expected one link from pool 'prefill' to pool 'decode', got 2",
        ),
        (
            _NO_DESIGNS
            + _LINK.partition("\n")[2]
            .replace("handover", "back")
            .replace("from: prefill, to: decode", "from: decode, to: prefill"),
            "links.back: no request passes from pool 'decode' to pool 'prefill'",
        ),
        (
            _NO_DESIGNS.replace("decode:", "late:").replace("to: decode", "to: late"),
            "bad.yaml:1: pools: expected the roles decode or early and late",
        ),
        (
            "pools: {prefill: {space: zdt}, decode: {space: memexplorer}}\n" + _LINK,
            "bad.yaml:1: pools.prefill: expected machines with the parameter 'pe_array'",
        ),
        (
            "pools: {prefill: {device: h100-sx, parameters: {batch_size: [1]}}, "
            "decode: {space: memexplorer}}\n" + _LINK,
            "bad.yaml:1: pools.prefill: unknown device 'h100-sx'. Did you mean 'h100-sxm'?",
        ),
        (
            "pools: {prefill: {device: h100-sxm}, decode: {space: memexplorer}}\n" + _LINK,
            "bad.yaml:1: pools.prefill: expected the parameter 'batch_size' of devices",
        ),
        (
            "pools: {prefill: {space: memexplorer, parameters: {kv_format: [mxfp5]}}, "
            "decode: {space: memexplorer}}\n" + _LINK,
            "bad.yaml:1: pools.prefill: kv_format: unknown number format 'mxfp5'",
        ),
    ],
    ids=[
        "no link",
        "two links",
        "stray link",
        "no role",
        "no machine",
        "device",
        "batch",
        "format",
    ],
)
def test_a_system_that_cannot_serve_is_refused_at_its_place(capsys, text, expected):
    assert expected in _refused_space(capsys, "run", text)


def test_pools_need_an_evaluator_of_systems_and_the_other_way_round(capsys):
    phase = "workload: {model: llama-3.3-70b, trace: osworld, phase: decode}"
    line = _refused_space(capsys, "run", _SPACE, evaluator="evaluator: npu", workload=phase)
    assert "bad-run.yaml:3: space: space 'bad' has pools, and evaluator 'npu' serves none" in line
    line = _refused_space(capsys, "run", _SPACE, space="space: memexplorer")
    assert "space 'memexplorer' has no pools, and evaluator 'system' needs them" in line


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ("prefill_sram_3d_layers <= decode_sram_3d_layers + 9", "constraints.0: "),
        ("handover_exposed_s <= 1", "constraints.0: constraint 'handover"),
        ("time_to_first_token_s <= 1", "constraints.0: pool prefill: no design of"),
        ("prefill_machines >= 9", "constraints.0: no numbers of machines and links keep"),
        ("time_to_second_token_s <= 1", "; at best, each by itself: pool prefill "
         "time_to_first_token_s "),
        ("tdp_watts <= 800, throughput_tokens_per_s >= 60", "together; the nearest that was tried "
         "has tdp_watts "),
    ],
)  # fmt: skip
def test_a_system_that_nobody_can_build_says_what_stands_in_the_way(
    capsys, tmp_path, monkeypatch, constraints, expected
):
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(_SPACE, encoding="utf-8")
    text = _CAMPAIGN.replace("NAME", "bad-run").replace("SPACE", "bad.yaml")
    text = text.replace("tdp_watts <= 2800", constraints)
    Path("bad-run.yaml").write_text(text, encoding="utf-8")
    line = refused(capsys, "enumerate", "bad-run.yaml")
    assert expected in line
    assert "constraints.0: " in line


def test_a_system_of_one_pool_that_nobody_can_build_is_refused_alike(capsys, tmp_path, monkeypatch):
    """By proof: as bad input, without a file. A search that finds none has failed: exit code 1."""
    monkeypatch.chdir(tmp_path)
    pool = _SPACE[_SPACE.index("  decode:") : _SPACE.index("links:")]
    Path("bad.yaml").write_text(f"pools:\n{pool}", encoding="utf-8")
    text = _CAMPAIGN.replace("NAME", "bad-run").replace("SPACE", "bad.yaml")
    text = text.replace("trace: osworld", "trace: osworld, phases: [decode]")
    limit = "throughput_tokens_per_s >= 200"
    Path("bad-run.yaml").write_text(text.replace("tdp_watts <= 2800", limit), encoding="utf-8")
    line = refused(capsys, "enumerate", "bad-run.yaml")
    assert f"bad-run.yaml:7: constraints.0: no system keeps '{limit}'" in line
    assert "which misses it by" in line
    assert main(["run", "bad-run.yaml"]) == 1
    captured = capsys.readouterr()
    line = captured.err.splitlines()[-1]
    assert f"none of 6 evaluated designs keeps every limit: 6 break '{limit}'" in line
    assert "The nearest breaks" in line and "decode 2× [2048x64, " in line


def test_a_constraint_that_joins_pools_is_refused_where_it_stands(capsys):
    text = _SPACE + "constraints: [prefill_n_macs >= 4 * decode_n_macs]\n"
    line = _refused_space(capsys, "enumerate", text)
    assert "constraints.0: a constraint of space bad joins designs of its pools" in line
