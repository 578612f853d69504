"""Small commands in which one call of the system fails, for every call that they make.

A library that is loaded before all others (``faults.c``, compiled here) counts the calls below a
folder: opening, reading, writing, syncing, truncating, renaming, removing, locking. The k-th one
fails (EIO, ENOSPC, ENOLCK), writes half, or is the last before a SIGKILL. A sync may be lost: power
fails two calls later, and the file is as long as when it was last synced. Each case runs in a fork
of one process, which has imported everything and drawn every picture. A command must then either
end as undisturbed, or say why in one line; run again, its results are the undisturbed ones. Linux
only. Run as ``python -m validation.chaos.faults --help``.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import gc
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from importlib import import_module
from io import StringIO
from pathlib import Path

from codesign.base.columns import StringList, Strings
from codesign.base.processes import ONE_THREAD
from codesign.base.records import frozen
from codesign.base.text import markdown_table
from codesign.cli import main as run_command

_SHIM = Path(__file__).with_name("faults.c")
_FAIL, _SHORT, _LOST, _KILL = range(4)
_WRITES, _SYNCS, _LOCKS = {"write", "pwrite"}, {"fsync", "fdatasync"}, {"flock", "fcntl"}
_GROWING = {"create", "mkdir", "rename", "ftruncate"} | _WRITES
FAULTS: dict[str, tuple[int, int, set[str]]] = {
    "EIO": (_FAIL, errno.EIO, _GROWING | _SYNCS | {"open", "read", "pread", "unlink", "flock"}),
    "ENOSPC": (_FAIL, errno.ENOSPC, _GROWING | _SYNCS),
    "ENOLCK": (_FAIL, errno.ENOLCK, _LOCKS),
    "short write": (_SHORT, 0, _WRITES),
    "lost sync": (_LOST, 0, _SYNCS),
    "SIGKILL": (_KILL, 0, _GROWING | {"unlink"}),
}
"""Action, error number and calls that can have the fault; a kill before a reading is the next."""
_CAMPAIGN = """\
space: grid
evaluator: {name: benchmark-functions, function: zdt1, steps: 15}
objectives: [minimize f1, minimize f2]
optimizers: [random, pls]
initial: 2
batch: 2
budget: 6
workers: 1
execution: {cache: true, cache_folder: cache}
"""
_COMPARISON = """\
problems: [faulty]
optimizers: [random, pls]
initial: 2
budget: 3
seeds: 1
"""
_MODEL = Path(__file__).parents[2] / "tests" / "unit" / "models" / "quantization" / "byte_model"
_SPACE = "parameters: {x1: {low: 0, high: 15}, x2: {low: 0, high: 15}}\n"
_PATIENCE_S = 120


@frozen
class FaultTarget:
    """A command in which calls fail.

    Attributes:
        command: Words after ``codesign``.
        results: Patterns of files that must be the same in the end.
        before: Commands that run undisturbed before it.
    """

    command: str
    results: str
    before: tuple[str, ...] = ()


_RUN = "run faulty --workers 1"
TARGETS = {
    "run": FaultTarget(_RUN, "runs/faulty/front.* runs/faulty/manifest.json"),
    "enumerate": FaultTarget(
        "enumerate faulty --workers 1 --output exact.csv",
        "exact.csv runs/faulty/exact-*.npz runs/faulty/manifest.json",
    ),
    "compare": FaultTarget("compare compare-faulty --workers 1", "runs/compare-faulty/[!w]*.csv"),
    "quantize": FaultTarget(
        "accuracy quantize --model model --text text --context 16 --sequences 2 --calibration 1 "
        "--formats mxfp8,mxfp4 --output table.json",
        "table.json",
    ),
    "report": FaultTarget("report faulty --samples 0 --output page.html", "page.html", (_RUN,)),
    "export": FaultTarget("export faulty --scope all --output all.csv", "all.csv", (_RUN,)),
}


class Shim:
    """The loaded library; see :func:`main`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.codesign_faults_name.restype = ctypes.c_char_p

    def arm(self, k: int, fault: str, folder: Path) -> None:
        """Give the k-th call below a folder a fault; 0: only count."""
        action, number, _ = FAULTS[fault]
        self._library.codesign_faults_arm(
            ctypes.c_long(k), action, number, os.fsencode(folder.resolve())
        )

    def calls(self) -> StringList:
        """Names of the calls since then."""
        return [
            self._library.codesign_faults_name(k).decode()
            for k in range(1, int(self._library.codesign_faults_counted()) + 1)
        ]


def _prepare(folder: Path, target: FaultTarget) -> None:
    for name, text in (
        ("spaces/grid.yaml", _SPACE),
        ("runs/faulty.yaml", _CAMPAIGN),
        ("runs/compare-faulty.yaml", _COMPARISON),
        ("text", _CAMPAIGN),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copytree(_MODEL, folder / "model", dirs_exist_ok=True)
    for command in target.before:
        code, _, messages = _forked(folder, command)
        if code:
            raise RuntimeError(f"{command}: exit code {code}: {messages}")


def _forked(
    folder: Path, command: str, shim: Shim | None = None, k: int = 0, fault: str = "EIO"
) -> tuple[int, StringList, str]:
    """Exit code, calls and messages of a command in a fork of this process."""
    with tempfile.TemporaryDirectory() as place:
        output = Path(place)
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                os.chdir(folder)
                for descriptor, name in ((1, "stdout"), (2, "stderr")):
                    file = os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                    os.dup2(file, descriptor)
                signal.alarm(_PATIENCE_S)
                logging.getLogger().handlers.clear()  # they write to this process's streams
                if shim is not None:
                    shim.arm(k, fault, folder)
                code = run_command(command.split())
                sys.stdout.flush()
                if shim is not None:
                    names = shim.calls()
                    shim.arm(-1, "EIO", folder)
                    (output / "calls").write_text(" ".join(names))
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        calls = output / "calls"
        names = calls.read_text().split() if calls.exists() else []
        return os.waitstatus_to_exitcode(status), names, (output / "stderr").read_text()


def _results(folder: Path, target: FaultTarget) -> dict[str, bytes]:
    paths = [path for pattern in target.results.split() for path in folder.glob(pattern)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _unclear_end(code: int, messages: str) -> StringList:
    """Faults of an exit code and its messages."""
    findings = []
    if "defect" in messages or "Traceback" in messages:
        findings.append(messages.strip().splitlines()[-1])
    if code in (1, 2) and not any(line.startswith("error:") for line in messages.splitlines()):
        findings.append(f"exit code {code} without a word")
    if code not in (0, 1, 2, -signal.SIGKILL):
        findings.append(f"exit code {code}")
    return findings


class Inquiry:
    """All cases of one command.

    Args:
        folder: For the cases; those that nothing is wrong with are removed.
    """

    def __init__(self, name: str, folder: Path, shim: Shim) -> None:
        self._target, self._folder, self._shim = TARGETS[name], folder, shim
        self.outcomes: dict[str, Counter[str]] = {fault: Counter() for fault in FAULTS}
        self.findings: StringList = []
        self._template, first = folder / "template", folder / "undisturbed"
        # In this process too, so that forks have imported what they need.
        imports = folder / "imports"
        _prepare(imports, replace(self._target, before=()))
        with chdir(imports), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            for command in (*self._target.before, self._target.command):
                run_command(command.split())
        _prepare(self._template, self._target)
        shutil.copytree(self._template, first)
        code, self.calls, messages = _forked(first, self._target.command, shim)
        if code:
            raise RuntimeError(f"{name}: exit code {code}: {messages}")
        self._expected = _results(first, self._target)

    def check(self, k: int, fault: str) -> None:
        """Run the command with a fault in its k-th call, then again without one."""
        folder = self._folder / f"{fault.replace(' ', '-')}-{k}"
        shutil.copytree(self._template, folder)
        code, _, messages = _forked(folder, self._target.command, self._shim, k, fault)
        findings = _unclear_end(code, messages)
        is_warned = "WARNING:" in messages
        if code == 0 and not is_warned and _results(folder, self._target) != self._expected:
            findings.append("exit code 0 with other results")
        if code != 0:
            again, _, words = _forked(folder, self._target.command)
            if again and fault == "lost sync":  # a file is damaged, which has to be said
                findings += _unclear_end(again, words)
            elif again:
                findings.append(f"run again: exit code {again}: {words.strip()[-300:]}")
            elif (got := _results(folder, self._target)) != self._expected:
                changed = [name for name in self._expected if got.get(name) != self._expected[name]]
                findings.append(f"run again: other results: {', '.join(changed)}")
        patterns = (".*.part", ".*.old", "*.lock", "*.new*")  # a log stays with its store
        leftovers = [path.name for pattern in patterns for path in folder.rglob(pattern)]
        if code >= 0 and leftovers and self.calls[k - 1] != "unlink":
            findings.append(f"left behind: {', '.join(leftovers)}")
        word = {0: "as undisturbed", -signal.SIGKILL: "killed"}.get(code, "one line")
        self.outcomes[fault][word] += 1
        self.findings += [f"{folder.name}: {line}" for line in findings]
        for line in findings:
            print(f"{folder}: {line}", file=sys.stderr, flush=True)
        if not findings:
            shutil.rmtree(folder)


def cases(calls: Strings, share: float, chance: random.Random) -> list[tuple[int, str]]:
    """Numbers of calls with their faults: all, or a share of them that is drawn."""
    listed = [
        (k, fault)
        for k, name in enumerate(calls, 1)
        for fault, (_, _, names) in FAULTS.items()
        if name in names
    ]
    return sorted(chance.sample(listed, max(1, round(share * len(listed)))))


def study(
    names: Strings, share: float, seed: int, first: int, folder: Path
) -> tuple[str, StringList]:
    """A table of outcomes in Markdown, and the findings, from the call ``first`` on."""
    shim, chance = Shim(), random.Random(seed)
    drawing = import_module("vl_convert")
    drawing.svg_to_png = cache(drawing.svg_to_png)  # type: ignore[attr-defined] # half the time
    rows, findings = [], []
    for name in names:
        inquiry = Inquiry(name, folder / name, shim)
        gc.freeze()  # no fork shall copy what it never changes
        start = time.monotonic()
        for k, fault in cases(inquiry.calls, share, chance):
            if k >= first:
                inquiry.check(k, fault)
        total = sum(inquiry.outcomes.values(), Counter[str]())
        words = ("as undisturbed", "one line", "killed")
        cases_by_fault = [counter.total() for counter in inquiry.outcomes.values()]
        counts = [len(inquiry.calls), *cases_by_fault, *(total[word] for word in words)]
        rows.append([name, *map(str, counts), str(len(inquiry.findings))])
        findings += [f"{name}: {line}" for line in inquiry.findings]
        print(
            f"{name}: {total.total()} cases in {time.monotonic() - start:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    header = ["command", "calls", *FAULTS, "as undisturbed", "one line, then the same",
              "killed, then the same", "findings"]  # fmt: skip
    return markdown_table(header, rows, header[1:]), findings


def main(arguments: Strings | None = None) -> int:
    """Print the table; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--command", choices=list(TARGETS), action="append")
    parser.add_argument("--share", type=float, default=1.0, help="of all cases")
    parser.add_argument("--seed", type=int, default=0, help="of the cases that are drawn")
    parser.add_argument("--first", type=int, default=1, help="call from which on to fail them")
    parser.add_argument("--json", action="store_true", help="print findings as JSON")
    flags = parser.parse_args(arguments)
    if "CODESIGN_FAULTS" not in os.environ:
        compiler = shutil.which("cc")
        if compiler is None:
            print("error: expected a C compiler called cc", file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory() as place:
            library = str(Path(place, "faults.so"))
            build = [compiler, "-shared", "-fPIC", "-o", library, str(_SHIM), "-ldl"]
            subprocess.run(build, check=True)
            words = list(sys.argv[1:] if arguments is None else arguments)
            environment = {
                **os.environ,
                **ONE_THREAD,
                "LD_PRELOAD": library,
                "CODESIGN_FAULTS": "1",
            }
            return subprocess.run(
                [sys.executable, "-m", "validation.chaos.faults", *words],
                env=environment,
                check=False,
            ).returncode
    del os.environ["LD_PRELOAD"], os.environ["CODESIGN_FAULTS"]
    folder = Path(tempfile.mkdtemp(prefix="codesign-faults-"))
    table, findings = study(
        flags.command or list(TARGETS), flags.share, flags.seed, flags.first, folder
    )
    print(json.dumps(findings) if flags.json else "\n".join([table, *findings]))
    if not findings:
        shutil.rmtree(folder)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
