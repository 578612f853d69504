"""Every document of ``--json`` follows its published schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import codesign
from codesign.base.explanation_rows import Banks, CostRow, LevelRow, OperatorRow, PowerRow
from codesign.cli import documents, main
from codesign.cli.app import command_tree
from codesign.models.memtech.technology import MemoryTechnology, Range
from codesign.report.summary import OptimizerSummary
from codesign.search.campaign.campaign_definition import Definition, OptimizerChoice, PluginChoice
from validation import account_fronts, conclusions
from validation.__main__ import main as run_validation
from validation.account_fronts import LEVELS
from validation.conclusions.setting import Setting
from validation.findings import read_finding

_CAMPAIGN = """\
space: memexplorer
evaluator: {name: npu, profile: memexplorer}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 700]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, vector_length: 2048,
        pe_array: [2048, 256], tier2_technology: none, storage_priority: equal, dataflow: ws,
        bandwidth_priority: equal}
optimizers: [random]
initial: 4
budget: 12
reference_sample: 32
workers: 1
"""
_GRID = """\
parameters:
  x1: {low: 0, high: 8}
  x2: {low: 0, high: 8, step: 4}
"""
_FLAT = """\
space: grid
evaluator: {name: benchmark-functions, function: zdt1, steps: 8}
objectives: [minimize f1, minimize f2]
reference_point: {f1: 1.1, f2: 11}
optimizers: [random]
budget: 20
"""
_COMPARISON = """\
problems: [flat]
optimizers: [sobol, random]
initial: 4
budget: 6
seeds: 2
workers: 1
"""
_NPU = "--space memexplorer --design P1 --model llama-3.3-70b --workload osworld --phase prefill"
_DEVICE = "--model llama-3-8b --device h100-sxm"
_TESTS = Path(__file__).parents[1]
_BYTES = (
    f"--model {_TESTS / 'unit' / 'models' / 'quantization' / 'byte_model'} --text {__file__} "
    "--context 32 --sequences 2 --calibration 1"
)
INVOCATIONS = {
    "run": ["run trial"],
    "enumerate": ["enumerate trial", "enumerate trial --limit 1 --output front.csv"],
    "pareto": ["pareto trial", "pareto trial --robust --samples 10"],
    "status": ["status begun"],
    "runs": ["runs"],
    "cache": ["cache", "cache verify", "cache prune --max-size 1GB"],
    "watch": ["watch trial --once"],
    "export": [
        "export trial --output front.json",
        "export trial --output sheet.md --format spec-sheet --design 1",
    ],
    "figure": ["figure trial --format svg", "figure convergence trial --format svg"],
    "report": ["report trial"],
    "explain-front": ["explain-front trial --workers 1 --output front.md"],
    "compare": ["compare compare-trial"],
    "problems": ["problems"],
    "problem": ["problems re21", "problems cantilever.v1"],
    "problem-evaluation": ["problems re21 --evaluate re21.csv"],
    "problem-score": ["problems re21 --score re21.csv"],
    "problem-proofs": ["problems re24 --verify"],
    "evaluate": [
        f"evaluate {_NPU}",
        f"evaluate {_NPU} --uncertainty --samples 10",
        "evaluate --campaign trial --design 1",
    ],
    "platform": [
        f"platform {_DEVICE} --use-case chat",
        f"platform {_DEVICE} --prompt-tokens 100 --generated-tokens 0",
    ],
    "platform-choices": [f"platform {_DEVICE} --devices 4 --use-case chat"],
    "requirements": [
        "requirements --model llama-3-8b --use-case chat",
        "requirements --model llama-3-8b --use-case chat --users 1 --most-devices 1",
        "requirements --model llama-3-8b --prompt-tokens 50 --generated-tokens 4 --first-token 1s"
        " --output-token 1s --requests-per-s 2 --device h100-sxm",
    ],
    "arrivals": [
        f"arrivals {_DEVICE} --requests-per-s 20 --requests 30 --prompt-tokens 100"
        " --generated-tokens 10 --first-token 1s --output-token 1s",
        f"arrivals {_DEVICE} --requests-per-s 20 --requests 5 --prompt-tokens 100"
        " --generated-tokens 1 --prefill-machines 2",
        "arrivals --campaign osworld-decode --design D1 --requests-per-s 2 --requests 3"
        " --prompt-tokens 100 --generated-tokens 2 --max-sequences 2",
    ],
    "scaling": ["scaling link-latency --model llama-3-8b --tp 4 --use-case chat --plot study.svg"],
    "forecast": [
        "forecast --model llama-2-7b --tops 50 --gbps 256",
        "forecast --model llama-2-7b --tops 50 --gbps 256 --timeline 3"
        " --heat-map --figure operators --set lora=inline",
    ],
    "economics": [
        "economics --model llama-3-8b --device h100 --grid 20 --users 100 --prompt-tokens 100"
        " --generated-tokens 10",
        "economics --model llama-3-8b --space memexplorer --design P1 --price-per-hour 1.5"
        " --grid 20 --continuous --figure price.svg",
    ],
    "timeline": ["timeline --design Base --model llama-3-8b --phase prefill --prompt-tokens 256"],
    "validate": ["studies memexplorer"],
    "technologies": ["memtech"],
    "technology": ["memtech hbm3e_8h", "memtech sram"],
    "spaces": ["spaces"],
    "space": ["space memexplorer"],
    "models": ["models"],
    "model": ["models deepseek-v3"],
    "accuracy": ["accuracy llama-3-8b", "accuracy mixtral-8x22b --weights mxint4"],
    "quantize": [f"quantize {_BYTES} --formats mxfp4,int8"],
    "mix-formats": [f"mix-formats {_BYTES} --average-bits 4.5,6 --divergence 0.1"],
    "workloads": ["workloads"],
    "metrics": ["metrics"],
    "optimizers": ["optimizers"],
    "evaluators": ["evaluators"],
    "schemas": ["schema"],
    "simulators": ["simulators"],
}
COMMON = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in documents.FOLDER.glob("common.v*.json")
}
"""What schemas carry along, by the key of ``$defs`` under which they do."""
VALIDATION = ("studies", "conclusions", "costs", "stages", "specialization", "bench")
"""Commands of ``python -m validation``."""
_ELSEWHERE = {
    "bench": "bench",  # takes a while: tests/unit/validation/benchmark/test_benchmark.py
    "conclusions": "conclusions",  # asked in one small setting, below
    "costs": "costs",  # likewise
    "stages": "stages",  # likewise
    "specialization": "specialization",  # tests/unit/studies/test_specialization.py
}
RECORDS = {
    "definition": Definition,
    "optimizer_choice": OptimizerChoice,
    "plugin_choice": PluginChoice,
    "range": Range,
    "technology": MemoryTechnology,
    "optimizer_summary": OptimizerSummary,
}
ROWS = {
    "operator_row": OperatorRow,
    "level_row": LevelRow,
    "banks": Banks,
    "power_row": PowerRow,
    "cost_row": CostRow,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A working folder in which ``trial`` was run and its space enumerated; ``begun`` was not."""
    folder = tmp_path_factory.mktemp("work")
    files = {
        "runs/trial": _CAMPAIGN,
        "runs/begun": _CAMPAIGN,
        "runs/flat": _FLAT,
        "runs/compare-trial": _COMPARISON,
        "spaces/grid": _GRID,
    }
    for name, text in files.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "re21.csv").write_text("x1,x2,x3,x4\n0,0,0,0\n20,20,20,20\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        campaign = codesign.load_campaign("trial")
        campaign.run()
        campaign.exact_front()
    return folder


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def _printed(capsys, *arguments: str) -> Any:
    capsys.readouterr()
    run = run_validation if arguments[0] in VALIDATION else main
    assert run(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "words"),
    [(name, words) for name, commands in INVOCATIONS.items() for words in commands],
)
def test_a_command_prints_its_document_as_published(name, words, capsys, check_document):
    document = _printed(capsys, *words.split(), "--json")
    assert list(document)[:2] == ["schema", "codesign_version"]
    assert document["schema"] == documents.current()[name].label
    assert document["codesign_version"] == codesign.__version__
    check_document(document)


def test_costs_are_printed_as_published(capsys, monkeypatch, check_document, tmp_path):
    fixed = (
        ("pe_array", (2048, 64)), ("vector_length", 1024), ("sram_dies", 1),
        ("sram_3d_layers", 0), ("tier1_stacks", 2), ("dataflow", "ws"),
        ("tier3_technology", None), ("bandwidth_priority", "matrix"),
    )  # fmt: skip
    fronts = account_fronts.account_fronts(["decode"], account_fronts.QUESTIONS[-2:], fixed)
    monkeypatch.setattr(account_fronts, "account_fronts", lambda *_, **__: fronts)
    page = tmp_path / "costs.json"
    document = _printed(capsys, "costs", "decode", "--output", str(page), "--json")
    check_document(document)
    assert [front["question"]["level"] for front in document["fronts"]] == [*LEVELS, *LEVELS]
    for front in document["fronts"]:
        if front["question"]["level"] == "typical":
            assert 0 <= front["n_staying"] <= front["n_points"]
            assert 0 <= front["n_keeping"] <= front["n_points"]
    assert "| TDP, life of 5 years |" in read_finding(page).on_page()
    lives = {row["design"]: row["metrics"]["lifetime_years"] for row in document["designs"]}
    assert lives["Base"]["typical"] == 10 and lives["P1"]["typical"] < 1


def test_stages_are_printed_as_published(capsys, monkeypatch, check_document, tmp_path):
    monkeypatch.chdir(tmp_path)
    one_machine = {
        "pe_array": [2048, 64], "vector_length": 1024, "sram_dies": 1, "sram_3d_layers": 0,
        "dataflow": "ws", "storage_priority": "activation", "bandwidth_priority": "matrix",
        "weight_format": "mxint8", "activation_format": "mxint8", "kv_format": "mxint8",
        "tier2_technology": None, "tier3_technology": None,
    }  # fmt: skip
    campaign = {
        "name": "small", "space": "system-early-late", "evaluator": "system",
        "workload": {"model": "llama-3.3-70b", "trace": "osworld", "phases": ["decode"]},
        "objectives": ["maximize throughput_tokens_per_s", "minimize tdp_watts"],
        "fixed": {
            f"{pool}_{name}": value for pool in ("early", "late")
            for name, value in one_machine.items()
        },
        "optimizers": ["random"], "budget": 20,
    }  # fmt: skip
    Path("runs").mkdir()
    Path("runs/small.yaml").write_text(json.dumps(campaign))
    document = _printed(capsys, "stages", "small", "--output", "page.json", "--json")
    check_document(document)
    (answer,) = document["answers"]
    assert answer["n_points"] > 3 and answer["alike"]["array"] == 1
    early, late = answer["systems"][-1]["pools"]
    assert (early["pool"], late["pool"]) == ("early", "late")
    assert max(early["utilization"], late["utilization"]) == 1
    assert sum(early["waits_for"].values()) == pytest.approx(1)
    assert "## small" in read_finding(Path("page.json")).on_page()


def test_stages_are_those_of_systems(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run_validation(["stages", "osworld-decode"]) == 2
    assert "expected a campaign of systems, got space 'memexplorer'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_conclusions_are_printed_as_published(capsys, monkeypatch, check_document):
    answer_claims = conclusions.answer_claims
    fixed = (
        ("pe_array", (2048, 256)),
        ("vector_length", 1024),
        ("bandwidth_priority", "matrix"),
        ("tier2_technology", None),
    )

    def in_one_setting(store, claims):
        few = [replace(claim, varied=("blocking",)) for claim in claims]
        return answer_claims(store, few, [Setting("plain", fixed=fixed)])

    monkeypatch.setattr(conclusions, "answer_claims", in_one_setting)
    document = _printed(capsys, "conclusions", "3d-sram", "--json")
    assert document["answers"][0]["verdict"] == "no"
    check_document(document)


def test_every_command_with_json_has_a_schema_and_is_run_here():
    commands = command_tree().commands
    with_json = {
        name
        for name, command in commands.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    run_here = {words.split()[0] for lines in INVOCATIONS.values() for words in lines}
    assert run_here | set(_ELSEWHERE.values()) == with_json
    assert INVOCATIONS.keys() | _ELSEWHERE.keys() == documents.current().keys()


def test_a_key_that_was_not_announced_fails(capsys, check_document):
    document = _printed(capsys, "status", "begun", "--json")
    with pytest.raises(AssertionError, match=r"codesign/status/1: .*'surprise' was unexpected"):
        check_document({**document, "surprise": 1})
    with pytest.raises(AssertionError, match="'total' is a required property"):
        check_document({key: document[key] for key in document if key != "total"})
    document["state"] = "asleep"
    with pytest.raises(AssertionError, match=r"\$\.state: 'asleep' is not one of"):
        check_document(document)


def test_a_changed_document_does_not_pass_unnoticed_in_other_tests(capsys, monkeypatch):
    """Every test checks what it prints, see ``tests/conftest.py``."""
    monkeypatch.setattr("codesign.models.workload.list_traces", lambda: ["osworld"])
    monkeypatch.setattr("codesign.models.workload.load_trace", lambda name: _ColoredTrace())
    assert main(["workloads", "--json"]) == 1
    assert "'color' was unexpected" in capsys.readouterr().err


class _ColoredTrace:
    """A trace with a key too many."""

    def model_dump(self) -> dict[str, Any]:
        """Its keys."""
        tokens = {"prompt_tokens": 1, "generated_tokens": 1}
        return {**tokens, "description": "", "source": "", "color": "red"}


@pytest.mark.parametrize("label", documents.published())
def test_a_schema_is_closed_complete_and_says_what_it_is(label):
    file = documents.published()[label]
    schema = documents.read_schema(file)
    own = {name: part for name, part in schema.get("$defs", {}).items() if name not in COMMON}
    Draft202012Validator.check_schema({**schema, "$defs": own})
    assert schema["$id"] == f"urn:codesign:schema:{file.name}:{file.version}"
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["properties"]["schema"] == {"const": label}
    assert list(schema["properties"])[:2] == schema["required"][:2]
    assert schema["additionalProperties"] is False
    assert schema["title"]
    for reference in _references(schema):
        place, _, pointer = reference.partition("#")
        carried = "common.v" + place.rpartition(":")[2]
        part: Any = schema["$defs"][carried] if place else schema
        for key in pointer.strip("/").split("/"):
            part = part[key]


@pytest.mark.parametrize("name", COMMON)
def test_what_schemas_have_in_common_is_a_schema(name):
    Draft202012Validator.check_schema(COMMON[name])


def _references(value: Any) -> Iterator[str]:
    """The references of a schema itself, not of the common part that it carries."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for key, part in value.items():
            if not key.startswith("common.v"):
                yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


@pytest.mark.parametrize("name", RECORDS)
def test_the_schema_of_a_record_has_its_fields(name):
    record = RECORDS[name]
    part = json.loads((documents.FOLDER / "common.v1.json").read_text("utf-8"))["$defs"][name]
    if is_dataclass(record):
        names = written = [field.name for field in fields(record)]
    else:
        names = list(record.model_fields)  # what `unstored_at` leaves out is not required
        written = [name for name in names if record.model_fields[name].exclude_if is None]
    assert list(part["properties"]) == names
    assert part["required"] == written


@pytest.mark.parametrize("name", ROWS)
def test_the_schema_of_an_explained_design_has_the_keys_of_its_rows(name):
    part = documents.read_schema(documents.current()["evaluate"])["$defs"][name]
    assert list(part["properties"]) == list(ROWS[name].__annotations__)
    assert set(part["required"]) == ROWS[name].__required_keys__


def test_common_parts_are_all_used():
    texts = [path.read_text("utf-8") for path in documents.FOLDER.iterdir()]
    parts = json.loads((documents.FOLDER / "common.v1.json").read_text("utf-8"))["$defs"]
    used = {part.split("/")[0] for text in texts for part in re.findall(r'#/\$defs/([^"]*)"', text)}
    assert parts.keys() <= used


@pytest.mark.parametrize("words", ["evaluate", "codesign/evaluate/2"])
def test_a_schema_is_printed_alone_and_needs_no_other_file(words, capsys):
    document = _printed(capsys, *INVOCATIONS["evaluate"][0].split(), "--json")
    schema = _printed(capsys, "schema", words)
    Draft202012Validator(schema).validate(document)


def test_schemas_are_listed_and_a_misspelt_one_is_told(capsys):
    assert main(["schema"]) == 0
    assert "codesign/explain-front/1" in capsys.readouterr().out
    assert main(["schema", "evaluat"]) == 2
    assert "Did you mean 'evaluate'" in capsys.readouterr().err
    assert main(["schema", "codesign/evaluate/7"]) == 2
    assert "codesign/evaluate/1" in capsys.readouterr().err


def test_the_page_names_every_schema():
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text("utf-8")
    for file in documents.current().values():
        assert f"[`{file.label}`](../codesign/answers/schemas/{file.path.name})" in page
