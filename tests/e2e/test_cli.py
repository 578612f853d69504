"""The command line as a user meets it: reports, JSON, exit codes, start-up."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import codesign
from codesign.base import schema
from codesign.base.errors import JobError, MissingExtraError
from codesign.base.metrics import ALL_METRICS
from codesign.cli import app as cli_app
from codesign.cli import main
from codesign.cli.app import COMMANDS
from codesign.models.memtech import load_library

EVALUATE = [
    "evaluate", "--space", "memexplorer", "--design", "P1", "--model", "llama-3.3-70b",
    "--workload", "osworld", "--phase", "prefill",
]  # fmt: skip


def _json(capsys, *arguments, warned=""):
    assert main([*arguments, "--json"]) == 0

    def refuse(text):
        raise AssertionError(text)

    out, err = capsys.readouterr()
    assert warned in err if warned else err == ""
    return json.loads(out, parse_constant=refuse)


def _run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)


HEAVY = {
    "torch", "matplotlib", "pandas", "pymoo", "optuna", "numpy", "numba", "scipy", "rich", "yaml",
}  # fmt: skip


def _loaded_by(*commands, **options):
    """Modules that a new process has loaded after these commands, and what it wrote of errors."""
    imports = "import sys, codesign.base.metrics; from codesign.cli import main"
    code = f"{imports}; print([*map(main, {{!r}})], *sys.modules)"
    done = _run("-c", code.format(commands), **options)
    return set(done.stdout.splitlines()[-1].split()), done.stderr


def test_help_loads_nothing_heavy():
    loaded, _ = _loaded_by(["--help"], ["run", "--help"], ["--version"], ["economcs"])
    assert "codesign.cli.app" in loaded
    assert not (HEAVY & loaded)


def test_no_command_loads_what_it_does_not_need():
    lists = [["list", name] for name in ("metrics", "memories", "memexplorer")]
    loaded, errors = _loaded_by(*lists, EVALUATE)
    assert "codesign.evaluators.npu" in loaded and not errors
    heavy = {"torch", "matplotlib", "pandas", "pymoo", "optuna", "scipy.stats"}
    assert not (loaded & (heavy | {"numba"}))  # nor the compiled loop for one design


def test_a_definition_is_refused_before_what_evaluates_designs_is_loaded(tmp_path):
    (tmp_path / "bad.yaml").write_text("space: memexplorer\nbudgt: 3\n")
    words = [("run",), ("status",), ("status", "front"), ("enumerate",)]
    commands = [[*command, "bad.yaml"] for command in words]
    loaded, errors = _loaded_by(*commands, cwd=tmp_path)
    assert errors.count("unknown key 'budgt'. Did you mean 'budget'?") == len(commands)
    heavy = {"torch", "matplotlib", "pandas", "scipy.stats", "optuna", "rich.console"}
    assert not (loaded & {*heavy, "codesign.api", "codesign.evaluators.npu"})


def test_the_module_is_the_command():
    done = _run("-m", "codesign", "--version")
    assert (done.returncode, done.stdout) == (0, f"codesign {codesign.__version__}\n")


def test_without_a_command_there_is_help(capsys):
    assert main([]) == 0
    assert "Commands:\n  run  " in capsys.readouterr().out


def test_the_help_lists_fourteen_commands_and_each_its_further_ones(capsys):
    names = [name for name in COMMANDS if " " not in name]
    assert len(names) == 14
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.split("Commands:")[1]
    assert re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE) == names
    assert main(["status", "--help"]) == 0
    assert "codesign status front: Print the Pareto front" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("run osw", "osworld-prefill"),
        ("evaluate --model qwen3-3", "qwen3-32b"),
        ("evaluate --design kn", "knee"),
        ("size --on h100-s", "h100-sxm"),
        ("compare compare-sm", "compare-small"),
        ("list hb", "hbf"),
        ("list mem", "memories"),
    ],
)
def test_the_shell_completes_names(line, name, monkeypatch, capsys):
    words = f"codesign {line}"
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    monkeypatch.setenv("_CODESIGN_COMPLETE", "complete_bash")
    # A shell waits for the answer, so that what an option means is not looked up.
    monkeypatch.setattr(schema, "meanings", None)
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert name in capsys.readouterr().out.split()


def test_every_command_has_help_that_fits_the_list(capsys):
    for command in cli_app.app.registered_commands:
        name = cli_app.command_name(command)
        assert list(cli_app.command_tree(name).commands) == [name]  # no more than is called
        assert main([name, "--help"]) == 0
        assert "Usage: codesign " + name in capsys.readouterr().out


REPORTS = {
    "memories": ["list", "memories"],
    "one technology": ["list", "hbf"],
    "spaces": ["list", "spaces"],
    "space": ["list", "memexplorer"],
    "models": ["list", "models"],
    "devices": ["list", "devices"],
    "one device": ["list", "h100-sxm"],
    "one model": ["list", "deepseek-v3"],
    "the file of one": ["list", "codesign/models/workload/models/llama-3-8b.yaml"],
    "workloads": ["list", "workloads"],
    "metrics": ["list", "metrics"],
    "optimizers": ["list", "optimizers"],
    "evaluators": ["list", "evaluators"],
    "evaluate": EVALUATE,
    "campaigns": ["list", "campaigns"],
}


@pytest.mark.parametrize("arguments", REPORTS.values(), ids=REPORTS.keys())
def test_json_is_one_document_and_nothing_else(arguments, capsys):
    assert _json(capsys, *arguments)


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("arguments", REPORTS.values(), ids=REPORTS.keys())
def test_a_table_fits_the_terminal(arguments, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert out
    assert err == ""
    assert max(len(line) for line in out.splitlines()) <= width


def test_all_technologies_are_listed_and_one_is_shown_with_its_sources(capsys):
    assert main(["list", "memories"]) == 0
    out = capsys.readouterr().out
    for name in load_library():
        assert name in out
    one = _json(capsys, "list", "hbf")
    assert one["capacity"]["typical"] == 384e9
    assert set(one["sources"]) >= {"bandwidth", "capacity", "latency"}


def test_a_space_is_shown_with_its_exact_size(capsys):
    shown = _json(capsys, "list", "memexplorer")
    product = 1
    for component in shown["components"]:
        product *= component["size"]
    assert shown["size"] == product
    assert set(shown["designs"]) == {"Base", "H1", "H2", "H3", "P1", "P2", "D1", "D2"}
    assert main(["list", "memexplorer"]) == 0
    assert f"{shown['size']:,}" in capsys.readouterr().out


def test_metrics_are_listed_under_their_names(capsys):
    assert set(_json(capsys, "list", "metrics")["metrics"]) == set(ALL_METRICS)


def test_a_design_is_explained_down_to_its_operators(capsys):
    shown = _json(capsys, *EVALUATE)
    assert shown["design"]["pe_array"] == [2048, 256]
    assert shown["metrics"]["batch_size"] == 1  # a prefill takes one request after the other
    assert shown["metrics"]["tdp_watts"] == pytest.approx(697, rel=0.04)  # as above
    assert set(shown["metrics"]) <= set(ALL_METRICS)
    assert sum(row["time_share"] for row in shown["operators"]) == pytest.approx(1.0)
    assert sum(row["tdp_watts"] for row in shown["power"]) == pytest.approx(
        shown["metrics"]["tdp_watts"]
    )
    assert shown["notes"]
    assert shown["feasible"] is True


def test_settings_change_a_named_design(capsys):
    shown = _json(capsys, *EVALUATE, "--set", "pe_array=1024x512", "--set", "tier1_stacks=1")
    assert shown["design"]["pe_array"] == [1024, 512]
    assert shown["design"]["tier1_stacks"] == 1
    assert shown["design"]["tier2_technology"] == "hbf"


def test_a_part_of_a_design_can_be_taken_away(capsys):
    changed = [*EVALUATE, "--set", "tier2_technology=none", "--set", "tier2_stacks=none"]
    shown = _json(capsys, *changed, warned="breaks capacity")
    assert "tier2_technology" not in shown["design"]


def test_options_and_further_keys_of_the_workload_reach_the_evaluator(capsys):
    one = _json(capsys, *EVALUATE, "--request", "batch=1", "--option", "topology=parallel")
    assert one["metrics"]["batch_size"] == 1
    assert any("parallel" in note for note in one["notes"])


def test_token_counts_stand_for_a_trace(capsys):
    named = _json(capsys, *EVALUATE)
    counts = ["--prompt-tokens", "90000", "--generated-tokens", "8000"]
    at = EVALUATE.index("--workload")
    given = _json(capsys, *EVALUATE[:at], *EVALUATE[at + 2 :], *counts)
    assert given["metrics"] == named["metrics"]


def test_an_infeasible_design_is_explained_all_the_same(capsys):
    larger = ["--set", "tier1_stacks=8", "--set", "tier2_stacks=8"]
    shown = _json(capsys, *EVALUATE, *larger, warned="breaks shoreline <= 66 mm (by 181.8%)")
    assert shown["feasible"] is False
    assert any(value > 0 for value in shown["violations"].values())
    assert main([*EVALUATE, "--set", "tier1_stacks=8", "--set", "tier2_stacks=8"]) == 0
    assert "broken by" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "{pe_array: [2048, 256], vector_length: 2048, sram_dies: 0, sram_3d_layers: 3, "
        "weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, "
        "storage_priority: activation, dataflow: ws, bandwidth_priority: matrix, "
        "tier1_technology: hbm4_12h, tier1_stacks: 2, tier2_technology: hbf, tier2_stacks: 1}",
    ],
)
def test_a_design_file_gives_the_same_metrics_as_the_named_design(text, capsys, tmp_path):
    path = tmp_path / "p1.yaml"
    path.write_text(text, encoding="utf-8")
    from_file = [*EVALUATE[:3], "--design-file", str(path), *EVALUATE[5:]]
    assert _json(capsys, *from_file)["metrics"] == _json(capsys, *EVALUATE)["metrics"]


def test_a_closed_pipe_ends_quietly():
    report = f"{sys.executable} -m codesign list memexplorer --json"
    command = f"{report} | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
    # What fits the pipe's buffer is written before the reader leaves.
    assert done.stdout in ("{141\n", "{0\n")


class _Closed:
    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


def test_a_pipe_closed_while_printing_gives_the_code_of_sigpipe(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", _Closed())
    assert main(["list", "metrics", "--json"]) == 128 + signal.SIGPIPE
    sys.stdout.close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (JobError("every design failed"), 1, "error: every design failed\n"),
        (MissingExtraError("a figure", "report"), 2, "error: a figure needs an optional part"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (KeyboardInterrupt("stopped; 'codesign run x' goes on"), 130, "'codesign run x' goes on"),
        (RuntimeError("boom"), 1, "error: unexpected RuntimeError: boom\n"),
        (OSError(28, "No space", "a\nb"), 1, "error: a\\nb: No space\n"),
        (OSError(28, "No space"), 1, "error: standard output: No space\n"),
        (OSError("no key\nask\tus"), 1, "error: unexpected OSError: no key ask us\n"),
    ],
)
def test_exit_codes(error, code, said, monkeypatch, capsys):
    def fail(*arguments):
        raise error

    monkeypatch.delenv("CODESIGN_DEBUG", raising=False)
    monkeypatch.setattr(cli_app, "_run", fail)
    assert main(["list", "metrics"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_an_interrupt_in_code_made_from_text_also_ends_with_130(tmp_path):
    # Python would otherwise kill itself by SIGINT, as the interrupt passed through exec.
    (tmp_path / "interrupted.py").write_text(
        "import runpy\n"
        "from codesign.cli import app\n"
        "app._run = lambda *arguments: exec('raise KeyboardInterrupt')\n"
        "runpy.run_module('codesign', run_name='__main__')\n",
        encoding="utf-8",
    )
    done = _run("-m", "interrupted", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_defect_is_raised_on_request(monkeypatch):
    def fail(*arguments):
        raise RuntimeError("boom")

    monkeypatch.setenv("CODESIGN_DEBUG", "1")
    monkeypatch.setattr(cli_app, "_run", fail)
    with pytest.raises(RuntimeError, match="boom"):
        main(["list", "metrics"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("devices", "'devices' is now 'codesign list devices'"),
        ("memtech hbm3e_8h --json", "'memtech' is now 'codesign list hbm3e_8h --json'"),
        ("list model", "Did you mean 'models'?"),
        ("list hbm4", "'hbm4_16h'? Known: hbm4_12h, hbm4_12h_jedec, hbm4_12h_shipped, hbm4_16h, "),
        ("list models sram", "unknown language model 'sram'"),
        ("evaluate D1 --design P1", "expected one design, got 'D1' and --design P1"),
        ("compare problems re21", "'codesign list problems re21' shows it"),
        ("list metrics tdp_wats", "Did you mean 'tdp_watts'?"),
        ("list models --all", "expected no --all"),
    ],
)
def test_what_people_type_is_answered_with_the_right_line(words, said, capsys):
    assert main(words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize("name", ["sram", "deepseek-v3", "H100 SXM", "h100-sxm", "osworld", "npu"])
def test_a_name_is_shown_whatever_it_names(name, capsys):
    assert main(["list", name]) == 0
    assert capsys.readouterr().out


def test_a_file_is_shown_as_its_keys_say(tmp_path, capsys):
    for folder, name in (("memtech", "sram"), ("spaces", "h100")):
        text = (Path(__file__).parents[2] / folder / f"{name}.yaml").read_text("utf-8")
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
        assert main(["list", str(tmp_path / f"{name}.yaml")]) == 0
    out = capsys.readouterr().out
    assert "read energy" in out and "that keep every constraint" in out


def test_a_format_sets_weights_and_activations_and_not_the_cache(capsys):
    words = ["size", "llama-3-8b", "--on", "h100-sxm", "--use-case", "chat", "--tp", "1"]
    assert main([*words, "--format", "fp8", "--json"]) == 0
    design = json.loads(capsys.readouterr().out)["design"]
    formats = [design[f"{name}_format"] for name in ("weight", "activation", "kv")]
    assert formats == ["fp8", "fp8", "bf16"]
