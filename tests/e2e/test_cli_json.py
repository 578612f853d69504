"""Every document of ``--json`` follows its published schema."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import codesign
from codesign.answers.answer import answers, schema_of
from codesign.answers.economics import PricedPoint
from codesign.answers.json_values import plain_value
from codesign.cli import main
from codesign.cli.app import _joined, command_tree
from codesign.insight.decisions import plane
from codesign.insight.decisions.plane import leading_pairs
from tests.snapshots import differences

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
_DEVICE = "llama-3-8b --on h100-sxm"
_TESTS = Path(__file__).parents[1]
_BYTES = (
    f"--model {_TESTS / 'unit/models/quantization/byte_model'} --text {__file__} --context 32 "
    "--sequences 2 --calibration 1"
)
INVOCATIONS = {
    "run": ["run trial"],
    "enumerate": ["enumerate trial", "enumerate trial --limit 1 --output front.csv"],
    "pareto": ["status front trial", "status front trial --robust --samples 10"],
    "status": ["status begun"],
    "verify": ["status verify trial"],
    "runs": ["list campaigns"],
    "cache": ["status cache", "status cache verify", "status cache prune --max-size 1GB"],
    "watch": ["status watch trial --once"],
    "export": [
        "export trial --output front.json",
        "export trial --output sheet.md --format spec-sheet --design 1",
        "size calibrate --script measure.py",
    ],
    "figure": ["report figure trial --format svg", "report figure convergence trial --format svg"],
    "report": ["report trial"],
    "explain-front": ["explain trial --workers 1 --output front.md"],
    "decide": ["explain decide trial"],
    "memories": ["explain memories trial"],
    "map": ["explain map trial --x hbf.background_power --y lpddr6.access_energy --output m.csv"],
    "maps": ["explain map trial --output maps.html"],
    "breakeven": ["explain breakeven trial --technology hbf --free idle-power"],
    "compare": ["compare compare-trial"],
    "problems": ["list problems"],
    "problem": ["list problems re21", "list problems cantilever.v1"],
    "problem-evaluation": ["compare problems re21 --evaluate re21.csv"],
    "problem-score": ["compare problems re21 --score re21.csv"],
    "problem-proofs": ["compare problems re24 --verify"],
    "evaluate": [
        f"evaluate {_NPU}",
        f"evaluate {_NPU} --uncertainty --samples 10",
        "evaluate --campaign trial --design 1",
    ],
    "size": [
        f"size {_DEVICE} --use-case chat --tp 1",
        f"size {_DEVICE} --prompt-tokens 100 --generated-tokens 0 --devices 4",
        f"size {_DEVICE} --use-case chat --beams 1 --users 20 --launch all --option most_devices=2",
        f"size {_DEVICE} --prompt-tokens 50 --generated-tokens 4 --first-token 1s --output-token 1s"
        " --requests-per-s 2 --option policies=co-located",
        f"size {_DEVICE} --prompt-tokens 100 --generated-tokens 10 --option most_devices=4",
        "size llama-3-8b --on h100 --convention epoch --price-per-hour 1.5"
        " --option n_points=20 --figure price.svg",
        "size llama-3-8b --vary link-latency --tp 4 --use-case chat --figure study.svg",
    ],
    "serve-model": [
        f"serve-model {_DEVICE} --requests-per-s 20 --requests 30 --prompt-tokens 100"
        " --generated-tokens 10 --first-token 1s --output-token 1s",
        f"serve-model {_DEVICE} --requests-per-s 20 --requests 5 --prompt-tokens 100"
        " --generated-tokens 1 --prefill-machines 2",
        "serve-model llama-3.3-70b --on osworld-decode#D1 --requests-per-s 2 --requests 3"
        " --prompt-tokens 100 --generated-tokens 2 --option max_sequences=2",
    ],
    "forecast": [
        "forecast llama-2-7b --tops 50 --gbps 256",
        "forecast llama-2-7b --tops 50 --gbps 256 --timeline 3 --heat-map --option lora=inline",
    ],
    "timeline": [
        "evaluate timeline --design Base --model llama-3-8b --phase prefill --prompt-tokens 256"
    ],
    "technologies": ["list memories"],
    "technology": ["list hbm3e_8h", "list sram"],
    "spaces": ["list spaces"],
    "space": ["list memexplorer"],
    "models": ["list models"],
    "model": ["list deepseek-v3"],
    "accuracy": ["accuracy llama-3-8b", "accuracy mixtral-8x22b --weights mxint4"],
    "quantize": [f"accuracy quantize {_BYTES} --formats mxfp4,int8"],
    "mix-formats": [f"accuracy mix-formats {_BYTES} --average-bits 4.5,6 --divergence 0.1"],
    "devices": ["list devices"],
    "device": ["list h100-sxm"],
    "workloads": ["list workloads"],
    "metrics": ["list metrics", "list tdp_watts"],
    "optimizers": ["list optimizers"],
    "evaluators": ["list evaluators"],
    "schemas": ["list schema"],
    "simulators": ["list simulators"],
}

MORE = [
    "evaluate --design D1 --model deepseek-v3 --workload osworld --phase decode",
    "evaluate --design P2 --model mixtral-8x7b --workload gsm8k --phase decode"
    " --option profile=memexplorer",
    "evaluate --design D2 --model qwen3-next-80b-a3b --workload osworld --phase decode"
    " --option topology=parallel",
    "evaluate --design Base --model deepseek-v3.2 --workload bfcl --phase prefill",
    "evaluate --design H1 --model llada-8b --workload gsm8k --phase prefill",
    "evaluate --evaluator simulation --design P1 --model llama-3-8b --prompt-tokens 512"
    " --generated-tokens 16 --phase decode",
    "evaluate --space system-pd --design P1-D1 --model llama-3-8b --workload chat",
    "size deepseek-v3 --on b300-sxm --tp 8 --use-case chat --batch 32 --format bf16",
    "size mixtral-8x22b --on a100-sxm-80gb --devices 8 --use-case rag-qa",
    "size llama-3.3-70b --on gb200 --tp 4 --batch max --use-case chat",
    "size qwen3-next-80b-a3b --on b200-sxm --tp 2 --batch 16 --use-case chat",
    "forecast llama-3-8b --on v100-sxm --variant bf16-int4",
    "forecast llama-2-7b --tops 50 --gbps 256 --convention life",
    "size llama-3.3-70b --on gb200 --use-case chat --option most_devices=8",
    "size deepseek-v3 --on b200-sxm --convention epoch --option n_points=12 --format bf16",
    "size deepseek-v3 --on h200 --use-case chat --users 100 --beams 1",
    "size llama-3-8b --vary flops --tp 2 --use-case chat",
    "size llama-3-8b --vary offload --use-case chat",
]
"""Commands whose numbers alone are compared: other models, machines and phases."""
LISTS = {
    "cache", "compare", "evaluators", "metrics", "mix-formats", "models", "optimizers", "problems",
    "quantize", "runs", "schemas", "simulators", "spaces", "status", "technologies", "verify",
    "watch", "workloads",
}  # fmt: skip
"""Documents that an entry of the library, the hour or the CPU changes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
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


def _printed(capsys, *arguments):
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "words"),
    [(name, words) for name, commands in INVOCATIONS.items() for words in commands],
)
def test_a_command_prints_its_document_as_published(
    name, words, capsys, check_document, monkeypatch
):
    # Five maps take ten seconds, and of the first pairs all but the third have none.
    monkeypatch.setattr(plane, "MOST_PAIRS", 1)
    monkeypatch.setattr(plane, "leading_pairs", lambda decided: leading_pairs(decided)[2:])
    document = _printed(capsys, *words.split(), "--json")
    assert list(document)[:2] == ["schema", "codesign_version"]
    assert document["schema"] == answers()[name].schema_label()
    assert document["codesign_version"] == codesign.__version__
    check_document(document)
    if name not in LISTS:
        assert not differences(words, document)


@pytest.mark.slow
def test_a_page_has_as_many_maps_as_it_promises(capsys):
    document = _printed(capsys, "explain", "map", "trial", "--output", "five.html", "--json")
    assert len(document["maps"]) == plane.MOST_PAIRS == 5


@pytest.mark.parametrize("words", MORE)
def test_a_command_prints_the_numbers_of_its_snapshot(words, capsys):
    assert not differences(words, _printed(capsys, *words.split(), "--json"))


def test_every_command_with_json_has_a_schema_and_is_run_here():
    commands = command_tree().commands
    with_json = {
        name
        for name, command in commands.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    run_here = {_joined(words.split())[0] for lines in INVOCATIONS.values() for words in lines}
    assert run_here == with_json
    assert _joined(["explain", "front", "trial"]) == ["explain", "trial"]
    assert INVOCATIONS.keys() == answers().keys()


def test_a_key_that_was_not_announced_fails(capsys, check_document):
    document = _printed(capsys, "status", "begun", "--json")
    with pytest.raises(AssertionError, match=r"codesign/status/1: .*'surprise' was unexpected"):
        check_document({**document, "surprise": 1})
    with pytest.raises(AssertionError, match="'total' is a required property"):
        check_document({key: document[key] for key in document if key != "total"})
    document["state"] = "asleep"
    with pytest.raises(AssertionError, match=r"\$\.state: 'asleep' is not one of"):
        check_document(document)


def test_an_answer_refuses_what_its_record_does_not_have(capsys, monkeypatch):
    monkeypatch.setattr("codesign.models.workload.traces.list_traces", lambda: ["osworld"])
    monkeypatch.setattr("codesign.models.workload.traces.load_trace", lambda name: {"color": "red"})
    assert main(["list", "workloads", "--json"]) == 1
    assert "workloads.osworld.prompt_tokens Field required" in capsys.readouterr().err


def test_a_schema_is_closed_complete_and_says_what_it_is():
    for name, record in answers().items():
        schema = schema_of(record)
        Draft202012Validator.check_schema(schema)
        label = record.schema_label()
        assert schema["$id"] == f"urn:codesign:schema:{name}:{record.schema_version}"
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert schema["properties"]["schema"] == {"const": label}
        assert list(schema["properties"])[:2] == schema["required"][:2]
        assert schema["additionalProperties"] is False
        assert schema["title"]


def test_a_field_that_nobody_set_is_left_out_and_its_key_is_optional():
    rows = {"tokens_per_s": 1.0, "usd_per_million_tokens": None, "n_devices": 1.0, "batch": 1.0}
    rows["usd_per_million_output_tokens"] = None
    point = PricedPoint(**rows, draft_length=0, first_token_s=None)
    assert plain_value(point) == {**rows, "draft_length": 0, "first_token_s": None}
    entry = schema_of(answers()["size"])["$defs"]["PricedPoint"]
    assert {"first_token_s", "tokens_per_joule"}.isdisjoint(entry["required"])
    assert {"draft_length", "usd_per_million_tokens"} <= set(entry["required"])


def test_the_text_below_a_field_is_its_description():
    entry = schema_of(answers()["size"])["$defs"]["PricedPoint"]["properties"]
    assert entry["batch"]["description"] == "Requests at once on one instance."
    summary = schema_of(answers()["run"])["$defs"]["OptimizerSummary"]["properties"]
    assert summary["n_runs"]["description"] == "Seeds with at least one observation."


@pytest.mark.parametrize("words", ["evaluate", "codesign/evaluate/2"])
def test_a_schema_is_printed_alone_and_needs_no_other_file(words, capsys):
    document = _printed(capsys, *INVOCATIONS["evaluate"][0].split(), "--json")
    schema = _printed(capsys, "list", "schema", words)
    Draft202012Validator(schema).validate(document)


def test_schemas_are_listed_and_a_misspelt_one_is_told(capsys):
    assert main(["list", "schema"]) == 0
    assert "codesign/explain-front/1" in capsys.readouterr().out
    assert main(["list", "schema", "evaluat"]) == 2
    assert "Did you mean 'evaluate'" in capsys.readouterr().err
    assert main(["list", "schema", "codesign/evaluate/7"]) == 2
    assert "codesign/evaluate/2" in capsys.readouterr().err


def test_the_page_names_every_schema_that_is_not_called_like_its_command():
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text("utf-8")
    labels = {
        record.schema_label()
        for name, record in answers().items()
        if name not in command_tree().commands
    }
    assert labels <= set(re.findall(r"`(codesign/\S+)`", page))
