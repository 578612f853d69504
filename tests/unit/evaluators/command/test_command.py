"""A program's numbers become metrics; whatever it does wrong is one design's failure."""

import sys

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError
from codesign.base.failures import Failure
from codesign.evaluators.command import SCRATCH, CommandOptions
from codesign.evaluators.command.program import run_program
from codesign.testing import check_evaluator


def evaluated(evaluator, space, *designs):
    return evaluator.evaluate(space.columns(np.array(designs)))


def test_numbers_come_from_json_csv_and_output_in_their_units(build, space):
    result = evaluated(build(), space, (2, 3), (5, 1))
    assert result.failures == {}
    np.testing.assert_allclose(result.metrics["latency_s"], [1.0, 0.5], rtol=1e-15)
    np.testing.assert_allclose(result.metrics["energy_joules"], [7e-3, 11e-3], rtol=1e-15)
    assert result.metrics["cycles"].tolist() == [302, 105]
    assert result.metrics["power_watts"].tolist() == [5, 6]
    assert result.violations["too large"].tolist() == [0, 0]


def test_the_contract_of_evaluators_is_kept(build, space):
    designs = space.columns(np.array([[2, 3], [20, 0], [5, 1]]))
    check_evaluator(build(), designs, n_single=2)


@pytest.mark.parametrize(
    ("x", "kind", "reason"),
    [
        (20, "failed", "exit code 2: the license server is away"),
        (21, "failed", r"was killed by signal 11 \(SIGSEGV\)"),
        (22, "bad-output", r"latency_s: result.json is not JSON: .*"),
        (23, "bad-output", "latency_s: is nan"),
        (24, "bad-output", "latency_s: expected a quantity in s, got '.* W'"),
        (25, "bad-output", "latency_s: expected a number with a unit such as s, got 'quick'"),
        (26, "bad-output", "printed more than 16 MiB"),
        (27, "bad-output", "latency_s: result.json has no 'time.latency'"),
        (28, "infeasible", "exit code 4: does not fit"),
    ],
)
def test_what_a_program_does_wrong_is_told_of_its_design_alone(build, space, x, kind, reason):
    import re

    result = evaluated(build(), space, (x, 1), (3, 1))
    (position, failure) = next(iter(result.failures.items()))
    assert (len(result.failures), position) == (1, 0)
    assert isinstance(failure, Failure) and failure.kind == kind
    assert re.fullmatch(reason + ".*", failure.reason), failure.reason
    assert np.isfinite(result.metrics["latency_s"][1])


def test_a_file_that_is_too_long_is_not_read(build, space, monkeypatch):
    monkeypatch.setattr("codesign.evaluators.command.numbers.MOST_OUTPUT_BYTES", 10)
    result = evaluated(build(), space, (3, 1))
    assert str(result.failures[0]).startswith("latency_s: result.json is too long")


def test_what_a_program_printed_is_in_its_folder_before_it_ends(tmp_path):
    watch = (
        "import os, time\n"
        "print('pass 3', flush=True)\n"
        "for _ in range(6000):\n"
        "    if os.path.exists('codesign-stdout.log') and open('codesign-stdout.log').read():\n"
        "        os.kill(os.getpid(), 9)\n"
        "    time.sleep(0.01)\n"
    )
    run = run_program([sys.executable, "-S", "-c", watch], tmp_path, {})
    assert (run.code, run.stdout) == (-9, "pass 3\n")


def test_what_a_program_leaves_running_adds_nothing_to_its_output(tmp_path):
    # The flood begins when the program has ended; before that, it would rightly be cut.
    flood = (
        "import os, time\n"
        "program = os.getpid()\n"
        "print('done', flush=True)\n"
        "if not os.fork():\n"
        "    while os.getppid() == program:\n"
        "        time.sleep(0.001)\n"
        "    os.execvp('yes', ['yes'])\n"
    )
    run = run_program([sys.executable, "-S", "-c", flood], tmp_path, {})
    assert run.code == 0
    assert not run.is_cut
    assert run.stdout.startswith("done\n")


def test_a_program_that_is_not_there_stops_the_campaign_and_blames_no_design(build, space):
    with pytest.raises(JobError, match="command 'no-such-simulator' cannot be started: No such"):
        evaluated(build(run=["no-such-simulator"]), space, (3, 1))


def test_templates_and_arguments_hold_the_values(build, space, tmp_path, monkeypatch):
    monkeypatch.setenv(SCRATCH, str(tmp_path / "scratch"))
    template = tmp_path / "machine.cfg"
    template.write_text("size = ${x}\nscale = ${workload.scale}  # ${version} $5 {z}\n")
    copy = "import sys; print(open('out/machine.cfg').read(), sys.argv[1:], 'power:', 1, 'W')"
    evaluator = build(
        run=["${python}", "-S", "-c", copy, "--y=${y}"], files=[], version="2.1",
        write={"out/machine.cfg": {"template": str(template)}}, keep="all", limits={},
        metrics={"size": {"sense": "minimize", "unit": "", "from": {"regex": r"size = (\S+)"}}},
    )  # fmt: skip
    assert evaluated(evaluator, space, (7, 4)).metrics["size"].tolist() == [7]
    (folder,) = (tmp_path / "scratch").iterdir()
    assert (folder / "out" / "machine.cfg").read_text() == "size = 7\nscale = 3.0  # 2.1 $5 {z}\n"
    assert "['--y=4']" in (folder / "codesign-stdout.log").read_text()


def test_folders_go_unless_they_are_kept(build, space, tmp_path, monkeypatch):
    monkeypatch.setenv(SCRATCH, str(tmp_path))
    evaluated(build(keep="failed"), space, (3, 1), (20, 1))
    (folder,) = tmp_path.iterdir()
    assert "license" in (folder / "codesign-stderr.log").read_text()
    assert (folder / "design.json").is_file()


@pytest.mark.parametrize("name", ["x.²", "x.٣", "x." + "9" * 30, "²"])
def test_a_placeholder_is_no_number_of_another_script(build, name):
    with pytest.raises(InputError, match="unknown placeholder"):
        build(run=["${python}", "${" + name + "}"])


def test_a_pattern_that_backtracks_without_end_is_the_designs_bad_output(build, space, monkeypatch):
    monkeypatch.setattr("codesign.evaluators.command.numbers._MOST_SEARCH_S", 0.2)
    evaluator = build(
        run=["${python}", "-S", "-c", "print('a' * 40)"], files=[], write={}, limits={},
        metrics={"size": {"sense": "minimize", "unit": "", "from": {"regex": "(a+)+$b"}}},
    )  # fmt: skip
    (failure,) = evaluated(evaluator, space, (7, 4)).failures.values()
    assert failure.kind == "bad-output"
    assert "takes more than 0.2 s" in failure.reason


def test_an_unknown_placeholder_is_told_with_the_nearest(build):
    with pytest.raises(
        InputError, match=r"run: unknown placeholder .workload.scal.*workload.scale"
    ):
        build(run=["sim", "${workload.scal}"])


def test_a_cheaper_model_predicts_and_rules_out(block, space):
    from codesign.evaluators.command import CommandEvaluator, CommandWorkload

    block["predicted_by"] = {
        "name": "benchmark-functions", "options": {"function": "zdt1", "steps": 4},
        "workload": {}, "metrics": {"latency_s": "f1", "energy_joules": "f2"},
    }  # fmt: skip
    evaluator = CommandEvaluator(
        CommandWorkload.model_validate({"scale": 3.0}), CommandOptions.model_validate(block)
    )
    assert not evaluator.offers("predict")
    with pytest.raises(InputError, match="predicted_by: the space lacks x1, x2, which"):
        evaluator.use_parameters(("x", "y"))
    predicted = evaluator.use_parameters(("x1", "x2", "x"))
    assert predicted.offers("predict")
    from codesign.space import parse_space

    three = parse_space("parameters: {x1: {low: 0, high: 9}, x2: [2, 4], x: [1, 2]}", {}, "three")
    designs = three.columns(np.array([[2, 0, 0], [7, 1, 1]]))
    assert predicted.predict(designs, ["latency_s"])["latency_s"].tolist() == [0.5, 1.75]
    assert predicted.known_violations(designs)["domain"].tolist() == [-0.5, 0.75]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": []}, "run"),
        ({"files": ["absent.py"]}, "expected a file, from the folder in which codesign runs"),
        ({"write": {"../x": "json"}}, "expected the name of a file in the design's folder"),
        ({"limits": {"cycles": {"regex": "(.)"}}}, "'cycles' is a metric and a limit"),
        ({"limits": {"a": {"regex": "(.)(.)"}}}, "with one group, the number, got 2"),
        ({"limits": {"a": {"regex": "("}}}, "expected a regular expression"),
        ({"limits": {"a": {"json": "x.json"}}}, "need each other"),
        ({"limits": {"a": {}}}, "expected one of 'json', 'csv' and 'regex'"),
        ({"limits": {"a": {"regex": "(.)", "unit": "lightyears"}}}, "cannot read the unit|unit"),
    ],
)
def test_what_cannot_be_meant_is_refused(block, change, message):
    with pytest.raises(ValueError, match=message):
        CommandOptions.model_validate({**block, **change})


def test_what_belongs_to_the_identity_is_in_the_provenance(build, tmp_path):
    script = tmp_path / "simulator.py"
    script.write_text("1")
    before = build(files=[str(script)]).provenance()
    script.write_text("2")
    assert build(files=[str(script)]).provenance() != before
    assert build(keep="all").provenance() == build().provenance()
    assert build(version="2").provenance() != build().provenance()


def test_output_that_outlives_its_program_is_not_waited_for(tmp_path):
    run = run_program(["sh", "-c", "echo done; sleep 60 & echo $! > child"], tmp_path, {})
    assert (run.code, run.stdout) == (0, "done\n")
    import os
    import signal

    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
