"""Whatever is wrong with the input: exit code 2, a line that says what and where, no trace."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from codesign.base.text import printable
from codesign.cli import main

_EVALUATE = ["evaluate", "--design", "P1", "--model", "llama-3.3-70b", "--phase", "prefill"]
_OSWORLD = ["--workload", "osworld"]
_POOLS = [
    "evaluate", "--space", "system-pd", "--design", "P1-D1", "--model", "llama-3.3-70b", *_OSWORLD,
]  # fmt: skip

_TECHNOLOGY = """\
    name: A memory
    place: off-chip
    unit: stack
    latency: 100 ns
    capacity: 24 GB
    bandwidth: 1000 GB/s
    shoreline: 11 mm
    background_power: 75 mW/GB
    read_energy: 3 pJ/bit
    write_energy: 3.6 pJ/bit
    sources: {latency: x, capacity: x, bandwidth: x, shoreline: x, background_power: x,
              read_energy: x, write_energy: x}
    """

_SPACE = """\
    parameters:
      width: {values: [1, 2, 4]}
      memory: {from: memtech, values: [hbf, gddr7]}
    constraints: [width <= 2]
    designs: {small: {values: {width: 1, memory: hbf}}}
    """

_CAMPAIGN = """\
    name: a
    space: memexplorer
    evaluator: npu
    workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
    objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
    constraints: [tdp_watts <= 700]
    optimizers: [random]
    initial: 4
    budget: 8
    """


@dataclass(frozen=True)
class Case:
    """One mistake.

    Attributes:
        arguments: Of the command.
        said: Parts of the message.
        files: Text by path.
        most_lines: How long the message may be, where one mistake has several consequences.
        code: With which the command ends: 1 where only no design keeps the limits.
    """

    arguments: list[str]
    said: list[str]
    files: dict[str, str | bytes] = field(default_factory=dict)
    most_lines: int = 3
    code: int = 2


def _technology(old, new, *said):
    assert old in _TECHNOLOGY
    return Case(
        ["list", "memories", "a.yaml"], list(said), {"a.yaml": _TECHNOLOGY.replace(old, new)}
    )


def _space(old, new, *said):
    assert old in _SPACE
    return Case(["list", "spaces", "a.yaml"], list(said), {"a.yaml": _SPACE.replace(old, new)})


def _campaign(old, new, *said):
    assert old in _CAMPAIGN
    return Case(["run", "a.yaml"], list(said), {"a.yaml": _CAMPAIGN.replace(old, new)})


CASES = {
    "accuracy of nobody": Case(["accuracy", "lama-3-8b"], ["'lama-3-8b'", "llama-3-8b"]),
    "accuracy in no format": Case(
        ["accuracy", "llama-3-8b", "--weights", "mxfp5"], ["number format 'mxfp5'", "mxfp4"]
    ),
    "accuracy by no algorithm": Case(
        ["accuracy", "llama-3-8b", "--algorithm", "gtpq"], ["algorithm 'gtpq'", "'gptq'"]
    ),
    "a table of something else": Case(
        ["accuracy", "llama-3-8b", "--table", "a.yaml"],
        ["a.yaml: expected a table that codesign accuracy quantize wrote"],
        {"a.yaml": "name: a\n"},
    ),
    "a campaign with a missing table": _campaign(
        "evaluator: npu",
        "evaluator: {name: npu, accuracy_table: no.json}",
        "a.yaml:3: evaluator.accuracy_table",
        "no.json: cannot be read",
    ),
    "a campaign by no algorithm": _campaign(
        "evaluator: npu",
        "evaluator: {name: npu, accuracy: true, quantization_algorithm: gtpq}",
        "a.yaml:3: evaluator",
        "Did you mean 'gptq'",
    ),
    "a folder without a model": Case(
        ["accuracy", "quantize", "--model", ".", "--text", "a.txt"],
        ["expected a folder with config.json"],
        {"a.txt": "text"},
    ),
    "a folder without weights": Case(
        ["accuracy", "mix-formats", "--model", ".", "--text", "a.txt", "--average-bits", "5"],
        ["config.json:1: model_type", "'bert'", "llama"],
        {"a.txt": "text", "config.json": '{"model_type": "bert"}'},
    ),
    "an unknown command": Case(["evalaute"], ["no such command 'evalaute'", "'evaluate'"]),
    "an unknown option": Case([*_EVALUATE, "--wokload", "x"], ["--wokload", "--workload"]),
    "a missing argument": Case(["evaluate", "timeline"], ["missing option '--design'"]),
    "an option without its value": Case(["evaluate", "--space"], ["'--space'", "argument"]),
    "a superfluous argument": Case(
        ["enumerate", "smoke", "more"], ["unexpected extra argument", "more"]
    ),
    "a word for a number": Case(["run", "a", "--workers", "two"], ["'--workers'", "whole number"]),
    "no worker": Case(["run", "a", "--workers", "0"], ["'--workers'", "at least 1"]),
    "an unknown technology": Case(
        ["list", "hbm3e"], ["unknown name 'hbm3e'", "Did you mean 'hbm3e_8h'?"]
    ),
    "a technology file that is not there": Case(
        ["list", "memories", "b.yaml"], ["no such file: b.yaml"]
    ),
    "a number without its unit": _technology(
        "100 ns", "100", "a.yaml:4: latency", "quantity in ns", "100 (no unit)"
    ),
    "a unit of another dimension": _technology(
        "24 GB", "24 GB/s", "a.yaml:5: capacity", "quantity in GB", "24 GB/s"
    ),
    "an unknown unit": _technology("24 GB", "24 gb", "a.yaml:5: capacity", "'gb'"),
    "a range upside down": _technology(
        "24 GB", "{low: 3 GB, typical: 2 GB, high: 4 GB}", "a.yaml:5: capacity", "low <= typical"
    ),
    "an unknown key": _technology(
        "bandwidth: 1000", "bandwith: 1000", "a.yaml:6: bandwith", "Did you mean 'bandwidth'?",
        "bandwidth: the key is required",
    ),
    "a key given twice": _technology(
        "unit: stack", "unit: stack\n    unit: die", "a.yaml:4: unit", "given twice", "line 3"
    ),
    "a number without a source": _technology("latency: x, ", "", "source", "latency"),
    "a file that is not YAML": _technology("off-chip", "[off", "a.yaml", "not valid YAML"),
    "an empty file": Case(
        ["list", "memories", "a.yaml"], ["a.yaml", "an empty file"], {"a.yaml": ""}
    ),
    "a list for a mapping": Case(["list", "memories", "a.yaml"], ["got [1]"], {"a.yaml": "- 1"}),
    "bytes that are not text": Case(
        ["list", "spaces", "a.yaml"],
        ["a.yaml: cannot be read: not UTF-8"],
        {"a.yaml": b"\xff\xfe\x00x"},
    ),
    "an unknown space": Case(
        ["list", "memexploerr"], ["unknown name 'memexploerr'", "Did you mean 'memexplorer'?"]
    ),
    "an unknown technology in a space": _space("gddr7", "gdr7", "a.yaml:3", "'gdr7'", "'gddr7'"),
    "a space without parameters": Case(
        ["list", "spaces", "a.yaml"], ["a.yaml", "parameter"], {"a.yaml": "parameters: {}"}
    ),
    "a space that contradicts itself": _space("width <= 2", "width > 4", "a.yaml", "width > 4"),
    "a constraint over an unknown name": _space("width <= 2", "widht <= 2", "'widht'", "'width'"),
    "a constraint that is code": _space("width <= 2", "__import__('os')", "a.yaml:4"),
    "a constraint that mixes dimensions": _space("width <= 2", "width <= 2 GB", "a.yaml:4"),
    "a named design with an unknown value": _space("width: 1", "width: 3", "small", "3"),
    "an unknown model": Case(
        ["list", "llama-3-70b"], ["unknown name", "Did you mean 'llama-3"]
    ),
    "a model file that is not there": Case(["list", "x/config.json"], ["no such file"]),
    "a model file without what it needs": Case(
        ["list", "config.json"], ["model_type", "required"], {"config.json": '{"a": 1}'}
    ),
    "a model with an encoder": Case(
        ["size", "config.json", "--on", "h200", "--use-case", "chat", "--tp", "1"],
        ["config.json:1: model_type", "decoder-only", "'t5'"],
        {"config.json": '{"model_type": "t5", "d_model": 512}'},
    ),
    "a model file without layers": Case(
        ["forecast", "config.json", "--tops", "9", "--gbps", "9"],
        ["config.json:1: num_hidden_layers", "required"],
        {"config.json": '{"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, '
                        '"num_attention_heads": 4, "vocab_size": 99}'},
    ),
    "an unknown design": Case(
        ["evaluate", "--design", "p1", "--model", "llama-3.3-70b", "--phase", "decode", *_OSWORLD],
        ["space memexplorer: unknown design 'p1'", "Did you mean 'P1'?"],
    ),
    "an unknown parameter": Case(
        [*_EVALUATE, *_OSWORLD, "--set", "vector_lenght=128"],
        ["'vector_lenght'", "Did you mean 'vector_length'?"],
    ),
    "a value that the space does not have": Case(
        [*_EVALUATE, *_OSWORLD, "--set", "pe_array=2048x2"], ["pe_array", "2048x2"]
    ),
    "a design without values": Case(
        ["evaluate", "--model", "llama-3.3-70b", "--phase", "decode", *_OSWORLD],
        ["expected a design", "--design", "Base"],
    ),
    "a design with values missing": Case(
        ["evaluate", "--set", "pe_array=2048x128", "--model", "llama-3.3-70b", "--phase", "decode",
         *_OSWORLD],
        ["design: no value for vector_length", "design: no value for dataflow"],
        most_lines=10,
    ),
    "a space that the evaluator cannot use": Case(
        ["evaluate", "--space", "a.yaml", "--design", "small", "--model", "llama-3.3-70b",
         "--phase", "decode", *_OSWORLD],
        ["space 'a' lacks parameter 'pe_array'", "more"],
        {"a.yaml": _SPACE},
        most_lines=11,
    ),
    "a setting without a value": Case(
        [*_EVALUATE, *_OSWORLD, "--set", "pe_array"], ["--set: expected NAME=VALUE"]
    ),
    "a setting given twice": Case(
        [*_EVALUATE, *_OSWORLD, "--set", "dataflow=ws", "--set", "dataflow=os"],
        ["--set: 'dataflow' is given twice"],
    ),
    "an unknown workload": Case(
        [*_EVALUATE, "--workload", "osword"], ["'osword'", "Did you mean 'osworld'?"]
    ),
    "no workload": Case(_EVALUATE, ["error: expected --workload, or both --prompt-tokens"]),
    "a design without a question": Case(
        ["evaluate", "D1"], ["such as: codesign evaluate D1 --model llama-3.3-70b"]
    ),
    "no phase": Case(
        ["evaluate", "--design", "P1", "--model", "llama-3.3-70b", *_OSWORLD],
        ["error: expected --phase"],
    ),
    "a trace and token counts": Case(
        [*_EVALUATE, *_OSWORLD, "--prompt-tokens", "10"], ["expected --workload, or --", "both"]
    ),
    "no token at all": Case(
        [*_EVALUATE, "--prompt-tokens", "0", "--generated-tokens", "5"],
        ["error: --prompt-tokens: input", "greater than or equal to 1"],
    ),
    "an unknown phase": Case(
        ["evaluate", "--design", "P1", "--model", "llama-3.3-70b", "--phase", "fill", *_OSWORLD],
        ["error: --phase: input", "'prefill'", "'fill'"],
    ),
    "an unknown key of the workload": Case(
        [*_EVALUATE, *_OSWORLD, "--request", "bacth=4"], ["--request: bacth: ", "mean 'batch'?"]
    ),
    "an unknown evaluator": Case(
        [*_EVALUATE, *_OSWORLD, "--evaluator", "nup"], ["unknown evaluator 'nup'", "'npu'"]
    ),
    "an unknown option of the evaluator": Case(
        [*_EVALUATE, *_OSWORLD, "--option", "toplogy=staged"], ["Did you mean 'topology'?"]
    ),
    "an unknown choice of the evaluator": Case(
        [*_EVALUATE, *_OSWORLD, "--option", "topology=ring"], ["--option: topology: ", "'ring'"]
    ),
    "a design file that is not there": Case(
        ["evaluate", "--design-file", "no.yaml"], ["no.yaml: cannot be read"]
    ),
    "a design file with several designs": Case(
        ["evaluate", "--design-file", "a.yaml"],
        ["a.yaml: holds 2 designs; choose one by --design: one, two"],
        {"a.yaml": "designs: {one: {}, two: {}}"},
    ),
    "a design file without that design": Case(
        ["evaluate", "--design-file", "a.yaml", "--design", "tow"],
        ["a.yaml: unknown design 'tow'", "Did you mean 'two'?"],
        {"a.yaml": "designs: {one: {}, two: {}}"},
    ),
    "a design that is no mapping": Case(
        ["evaluate", "--design-file", "a.yaml"], ["expected parameters with values"],
        {"a.yaml": "designs: {one: 3}"},
    ),
    "a design file without designs": Case(
        ["evaluate", "--design-file", "a.yaml"], ["a.yaml: holds no design"],
        {"a.yaml": "designs: {}"},
    ),
    "an unknown campaign": Case(["run", "osworld-prefil"], ["Did you mean 'osworld-prefill'?"]),
    "a campaign without budget": _campaign("budget: 8", "", "budget: the key is required"),
    "an unknown key of a campaign": _campaign("budget: 8", "bugdet: 8", "a.yaml:9: bugdet"),
    "an unknown metric": _campaign(
        "minimize tdp_watts", "minimize tdp_wats", "a.yaml:5: objectives.1", "'tdp_watts'"
    ),
    "an unknown sense": _campaign("minimize tdp", "minimise tdp", "'minimise'", "'minimize'"),
    "an objective without a sense": _campaign(
        "minimize tdp_watts", "tdp_watts", "expected 'minimize METRIC'"
    ),
    "an unknown optimizer": _campaign("[random]", "[ramdon]", "a.yaml:7", "'random'"),
    "a budget below the initial sample": _campaign(
        "budget: 8", "budget: 3", "a.yaml:9: budget", "at least the 4 initial designs, got 3"
    ),
    "a limit that is no list": _campaign(
        "[tdp_watts <= 700]", "tdp_watts <= 700", "a.yaml:6: constraints: expected a list"
    ),
    "an objective twice": _campaign(
        "minimize tdp_watts",
        "minimize tdp_watts, maximize tdp_watts",
        "a.yaml:5: objectives: the metric 'tdp_watts' is an objective more than once",
    ),
    "a limit in another unit": _campaign("<= 700", "<= 700 GB", "a.yaml:6: constraints.0"),
    "a limit on an unknown metric": _campaign("[tdp_watts <=", "[tdp <=", "a.yaml:6", "'tdp'"),
    "a fixed parameter that is unknown": _campaign(
        "initial: 4", "initial: 4\n    fixed: {dataflw: ws}", "a.yaml:9: fixed", "'dataflow'"
    ),
    "a limit that no design keeps": replace(
        _campaign("[tdp_watts <= 700]", "[vector_length < 128]", "vector_length < 128"), code=1
    ),
    "results before the first run": Case(
        ["status", "front", "a.yaml"], ["no results yet", "codesign run"], {"a.yaml": _CAMPAIGN}
    ),
    "an exact front of another version and no run": Case(
        ["status", "front", "a.yaml"],
        ["of another version", "'codesign enumerate a.yaml' finds it anew"],
        {"a.yaml": _CAMPAIGN, "runs/a/exact-0.npz": ""},
    ),
    "an export before the first run": Case(
        ["export", "a.yaml", "--output", "x.csv"], ["no results yet"], {"a.yaml": _CAMPAIGN}
    ),
    "an unknown export format": Case(
        ["export", "a.yaml", "--format", "jsn", "--output", "x"], ["'jsn'", "Did you mean 'json'?"],
        {"a.yaml": _CAMPAIGN},
    ),
    "an unknown scope": Case(
        ["export", "a.yaml", "--output", "x.csv", "--scope", "al"], ["'al'", "'all'"],
        {"a.yaml": _CAMPAIGN},
    ),
    "an unknown figure format": Case(
        ["report", "figure", "a.yaml", "--format", "sgv"], ["unknown figure format 'sgv'", "'svg'"],
        {"a.yaml": _CAMPAIGN},
    ),
    "a campaign named unlike its file": Case(
        ["run", "a.yaml"], ["a.yaml:1: name", "'a'", "'b'"],
        {"a.yaml": _CAMPAIGN.replace("name: a", "name: b")},
    ),
    "a key of the workload given twice": Case(
        ["evaluate", "--design", "P1", "--model", "llama-3-8b", "--request", "model=llama-2-7b"],
        ["--request", "'model' is given twice"], {},
    ),
    "a store that is no store": Case(
        ["run", "a.yaml"], ["campaign.sqlite"],
        {"a.yaml": _CAMPAIGN, "runs/a/campaign.sqlite": "not a database" * 100},
    ),
    "a file where the folder should be": Case(
        ["run", "a.yaml"], ["runs/a", "cannot be made"],
        {"a.yaml": _CAMPAIGN, "runs/a": ""},
    ),
    "an exponent beyond all units": _technology(
        "24 GB", "24 GB^99999", "a.yaml:5: capacity: expected an exponent of a unit up to 9"),
    "an exponent in a limit": _space(
        "width <= 2", "width <= 2 GB^99999", "expected an exponent of a unit up to 9, got 99999"),
    "a number of 5000 digits": _technology("24 GB", "9" * 5000, "expected a whole number up to"),
    "300 million seeds": _campaign(
        "budget: 8", "budget: 8\n    seeds: 300000000",
        "a.yaml:10: seeds: expected a number of seeds from 1 to 10000, or a list", "got 300000000"),
    "a sample of 1e11 designs": _campaign(
        "budget: 8", "budget: 8\n    reference_sample: 99999999999", "reference_sample: input"),
    "an unknown key in brackets": _technology(
        "place:", "'place[/red]': 1\n    place:", "unknown key 'place[/red]'."),
    "a key that colors the terminal": _technology(
        "place:", '"\\e[31ma": 1\n    place:', r"expected a key without control", r"'\x1b[31ma'"),
    "a path that colors the terminal": Case(
        ["list", "memories", "./a\x1b[31m\n.yaml"], [r"a\x1b[31m\n.yaml: not valid YAML"],
        {"a\x1b[31m\n.yaml": "["}),
    "a name that colors the terminal": Case(["list", "memories", "a\x1b[31m"], [r"'a\x1b[31m'"]),
    "a command that colors the terminal": Case(["a\x1b[31m"], [r"no such command", r"\x1b[31m"]),
    "an unknown key in an option of a pool": Case(
        [*_POOLS, "--option", "pools.decode.machin=npu"],
        ["--option: pools: decode.machin: unknown key 'machin'. Did you mean 'machine'? "]),
    "an option of a pool given twice": Case(
        [*_POOLS, "--option", "pools=1", "--option", "pools.decode.machine=npu"],
        ["--option: 'pools.decode.machine' is given twice, with a value and with keys inside"]),
    "an option of a pool given before its keys": Case(
        [*_POOLS, "--option", "pools.decode.machine=npu", "--option", "pools=1"],
        ["--option: 'pools' is given twice, with a value and with keys inside"]),
    "keys inside a number": Case(
        [*_EVALUATE, "--request", "prompt_tokens.x=1"],
        ["--request: prompt_tokens: input should be a valid integer, got {'x': 1}"]),
    "1e12 tokens of a prompt": Case(
        [*_EVALUATE, "--prompt-tokens", "9" * 12, "--generated-tokens", "1"],
        ["--prompt-tokens: input should be less than or equal to 1000000000"]),
}  # fmt: skip


def _content(folder):
    """Every file but the lock, which is not a result."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_input_is_refused_in_a_line_with_exit_code_2(case, tmp_path, monkeypatch, capsys):
    for name, content in case.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, bytes) else textwrap.dedent(content).encode()
        path.write_bytes(text)
    monkeypatch.chdir(tmp_path)
    before = _content(tmp_path)

    code = main(case.arguments)

    out, err = capsys.readouterr()
    assert (code, out) == (case.code, "")
    assert 1 <= len(err.splitlines()) <= case.most_lines, err
    assert all(line.startswith("error: ") for line in err.splitlines()), err
    assert "Traceback" not in err
    assert printable(err) == err
    for part in case.said:
        assert part in err
    assert _content(tmp_path) == before


@pytest.mark.parametrize("name", ["an unknown technology", "a key given twice", "no workload"])
def test_with_json_the_error_still_goes_to_stderr(name, tmp_path, monkeypatch, capsys):
    case = CASES[name]
    for path, content in case.files.items():
        (tmp_path / path).write_text(textwrap.dedent(str(content)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main([*case.arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")


def test_a_file_that_cannot_be_used_does_not_keep_the_others_from_being_listed(
    tmp_path, monkeypatch, capsys
):
    for folder in ("memtech", "spaces", "runs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bad.yaml").write_text("a: [\n", encoding="utf-8")
    (tmp_path / "spaces" / "good.yaml").write_text(textwrap.dedent(_SPACE), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for kind, name in (("memories", "hbf"), ("spaces", "good"), ("campaigns", "smoke")):
        assert main(["list", kind]) == 0
        out, err = capsys.readouterr()
        assert f"\n{name} " in out
        folder = {"memories": "memtech", "campaigns": "runs"}.get(kind, kind)
        assert f"{folder}/bad.yaml: not valid YAML" in out + err


def test_a_mixture_that_forecast_does_not_know_is_found_in_the_file_of_the_space(
    tmp_path, monkeypatch, capsys
):
    shipped = Path(__file__).parents[2]
    text = (shipped / "spaces" / "forecast-edge.yaml").read_text("utf-8")
    place = text.splitlines().index("  weight_format:") + 1
    mixed = text.replace("[bf16, int8, int4]", "[bf16, int8, int4, 0.5*mxfp4+0.5*mxfp8]", 1)
    (tmp_path / "odd.yaml").write_text(mixed, encoding="utf-8")
    campaign = (shipped / "runs" / "forecast-edge.yaml").read_text("utf-8")
    campaign = campaign.replace("name: forecast-edge\nd", "name: a\nd")
    campaign = campaign.replace("space: forecast-edge", "space: odd.yaml")
    (tmp_path / "a.yaml").write_text(campaign, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["enumerate", "a.yaml"]) == 2
    assert capsys.readouterr().err.startswith(
        f"error: odd.yaml:{place}: parameters.weight_format: expected one number format, "
        "got '0.5*mxfp4+0.5*mxfp8': only weights of an npu may be mixed"
    )


@pytest.mark.parametrize("command", ["run", "enumerate"])
def test_a_format_that_no_machine_multiplies_is_found_in_the_file_of_the_space(
    command, tmp_path: Path, monkeypatch, capsys
):
    shipped = Path(__file__).parents[2] / "spaces" / "memexplorer.yaml"
    lines = shipped.read_text("utf-8").splitlines()
    place = lines.index("  weight_format:")
    lines[place + 2] = lines[place + 2].replace("mxint4", "mxfp6")
    (tmp_path / "odd.yaml").write_text("\n".join(lines), encoding="utf-8")
    campaign = textwrap.dedent(_CAMPAIGN).replace("space: memexplorer", "space: odd.yaml")
    (tmp_path / "a.yaml").write_text(campaign, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = _content(tmp_path)
    assert main([command, "a.yaml"]) == 2
    assert (
        f"error: odd.yaml:{place + 1}: parameters.weight_format: unknown number format 'mxfp6'. "
        "Did you mean 'mxfp16'? Known: mxfp4, mxfp8, mxfp16, …."
    ) in capsys.readouterr().err
    assert _content(tmp_path) == before


@pytest.mark.parametrize(
    ("command", "accuracy", "mixture", "problem"),
    [
        ("run", "true", "0.5*mxfp4+0.4*mxfp8", "expected shares that sum to 1, got 0.9"),
        ("enumerate", "false", "0.5*mxfp4+0.5*mxfp5", "unknown number format 'mxfp5'. Did you"),
        ("enumerate", "true", "0.5*mxfp4+0.5*mxfp5", "unknown number format 'mxfp5'. Did you"),
        ("run", "false", "0.5*mxfp4+", "expected shares times formats, such as 0.75*mxfp4+"),
    ],
)
def test_a_mixture_that_is_none_is_found_in_the_file_of_the_space(
    command, accuracy, mixture, problem, tmp_path: Path, monkeypatch, capsys
):
    space = f"""\
        based_on: memexplorer
        description: a mixture that is none
        parameters:
          weight_format:
            description: Number format of the weights
            values: [mxfp4, mxfp8, mxint8, {mixture}]
        """
    (tmp_path / "odd.yaml").write_text(textwrap.dedent(space), encoding="utf-8")
    campaign = textwrap.dedent(_CAMPAIGN).replace("space: memexplorer", "space: odd.yaml")
    campaign = campaign.replace("evaluator: npu", f"evaluator: {{name: npu, accuracy: {accuracy}}}")
    campaign = campaign.replace("[tdp_watts <= 700]", "[tdp_watts <= 700, accuracy_recovery >= 0.9]"
                                if accuracy == "true" else "[tdp_watts <= 700]")  # fmt: skip
    (tmp_path / "a.yaml").write_text(campaign, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = _content(tmp_path)
    assert main([command, "a.yaml"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(
        f"error: odd.yaml:4: parameters.weight_format: mixture {mixture!r}: {problem}"
    )
    assert len(err.splitlines()) == 1
    assert _content(tmp_path) == before
