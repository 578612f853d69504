"""Small campaigns whose processes are killed at random moments until they are complete.

The main process, its workers, the guards of evaluators and the programs of simulators get SIGKILL;
between two starts of the main process no more of the others than a design outlives by its retries.
Each complete campaign is then compared with one that nobody disturbed. Linux only: processes are
looked up in ``/proc``. Run as ``python -m validation.chaos.kills --kills 1000 --seed 0``.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import chdir, closing, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from uuid import uuid4

import numpy as np

from codesign.base.columns import StringList, Strings
from codesign.base.errors import CodesignError, JobError
from codesign.base.files import write_text
from codesign.base.locks import is_held
from codesign.base.records import frozen
from codesign.base.text import markdown_table
from codesign.search.campaign import Campaign, Results
from codesign.search.campaign.sample import FILE as SAMPLE_FILE
from codesign.search.execution.result_store import ResultStore

_MARK = "CODESIGN_KILLS"
"""Variable by which all processes of a campaign are known, whoever their parent is."""
_PATIENCE_S = 60.0
"""Within which all processes of a dead main process must have ended."""
SPACE = "parameters: {x1: {low: 0, high: 15}, x2: {low: 0, high: 15}}\n"
_PROGRAM = """\
import json, os, time
if os.fork() == 0:  # a daemon that it leaves behind, in a session of its own
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "600"])
    os._exit(0)
design = json.load(open("design.json"))["design"]
x, y = design["x1"], design["x2"]
time.sleep(0.03)
json.dump({"f1": x / 15, "f2": (1 + y) / (1 + x) ** 0.5}, open("result.json", "w"))
"""
_MAIN = """\
from codesign.search.campaign import Campaign
from codesign.base.errors import CodesignError, JobError
try:  # as the command does, which would draw figures too
    Campaign.load("killed").run(workers=2)
except CodesignError as error:
    print(error)
    raise SystemExit(1 if isinstance(error, JobError) else 2) from None
"""
COMMAND_EVALUATOR = """\
evaluator:
  name: command
  run: ["${python}", -I, -S, program.py]
  files: [program.py]
  write: {design.json: json}
  metrics:
    f1: {sense: minimize, unit: s, from: {json: result.json, key: f1}}
    f2: {sense: minimize, unit: W, from: {json: result.json, key: f2}}
"""
"""The part of a campaign file that evaluates by a program of two objectives."""
_FUNCTION = """\
evaluator: {name: benchmark-functions, function: zdt1, steps: 15}
"""
_COMMON = """\
space: grid
objectives: [minimize f1, minimize f2]
initial: 4
batch: 3
"""


@frozen
class KilledCampaign:
    """A kind of campaign that is killed.

    Attributes:
        text: Of its definition.
        victims: Processes it has, in words.
        retries: Kills of processes other than the main one that each design outlives.
        is_repeatable: Whether two campaigns from the start have the same results.
    """

    text: str
    victims: tuple[str, ...]
    retries: int
    is_repeatable: bool = True

    def victim(self, chance: random.Random, n_others: int) -> str:
        """Whom to kill next, when so many others than the main process were since its start.

        More of them could all hit one design, which then is rightly stored as failed. A start of
        the main process begins to count anew.
        """
        return chance.choice(self.victims) if n_others < self.retries else "main"


TARGETS = {
    "workers": KilledCampaign(
        f"{_COMMON}{_FUNCTION}optimizers: [random, pls, sobol]\nbudget: 22\n"
        "execution: {isolated: true, cache: true, cache_folder: cache}\n",
        ("main", "worker", "guard"),
        retries=2,  # of designs that are lost, as nothing else is set
    ),
    "command": KilledCampaign(
        f"{_COMMON}{COMMAND_EVALUATOR}optimizers: [random, pls]\nbudget: 10\n"
        "execution: {retries: 8, cache_folder: cache}\n",
        ("main", "guard", "simulator"),
        retries=8,
    ),
    "command, 4 in flight": KilledCampaign(
        f"{_COMMON}{COMMAND_EVALUATOR}optimizers: [random, nsga2]\nbudget: 12\n"
        "execution: {retries: 8, in_flight: 4, cache_folder: cache}\n",
        ("main", "guard", "simulator"),
        retries=8,
        is_repeatable=False,
    ),
    "local, 4 in flight": KilledCampaign(
        f"{_COMMON}{COMMAND_EVALUATOR}optimizers: [random, pls]\nbudget: 12\n"
        "execution: {retries: 8, in_flight: 4, executor: local, cache_folder: cache}\n",
        ("main", "worker", "guard", "simulator"),
        retries=8,
        is_repeatable=False,
    ),
}


@dataclass
class KillCounts:
    """Kills of the campaigns of one target, and the differences after them.

    Attributes:
        campaigns: Complete ones.
        starts: Of their main processes.
        kills: By victim.
        findings: One line each.
    """

    campaigns: int = 0
    starts: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    findings: StringList = field(default_factory=list)


class Ordeal:
    """One campaign in a folder of its own.

    Args:
        folder: New.
        chance: When which process is killed.
        longest_wait_s: Between the start or a kill and the next kill.
        deadline_s: After it, by the monotonic clock, nothing is killed.
    """

    def __init__(
        self,
        target: KilledCampaign,
        folder: Path,
        chance: random.Random,
        tally: KillCounts,
        longest_wait_s: float = 0.0,
        deadline_s: float = math.inf,
    ) -> None:
        self.folder, self._target, self._chance, self._tally = folder, target, chance, tally
        self._longest_wait_s, self._deadline_s = longest_wait_s, deadline_s
        self._mark = uuid4().hex
        for name, text in (
            ("spaces/grid.yaml", SPACE),
            ("runs/killed.yaml", target.text),
            ("program.py", _PROGRAM),
        ):
            write_text(folder / name, text)

    def endure(self, kills: int) -> None:
        """Run the campaign until it is complete, with at most so many kills."""
        most = self._tally.kills.total() + kills
        with (self.folder / "messages").open("ab") as messages:
            while not self._is_over(messages.fileno(), most - self._tally.kills.total()):
                continue
        self._tally.campaigns += 1

    def _is_over(self, messages: int, kills: int) -> bool:
        """Start the campaign and kill some of its processes; whether nothing is left to do."""
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN],
            cwd=self.folder,
            env={**os.environ, _MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
        )
        self._tally.starts += 1
        n_others = 0
        for _ in range(kills):
            if time.monotonic() > self._deadline_s:
                break
            victim = self._target.victim(self._chance, n_others)
            if self._killed(process, victim):
                self._tally.kills[victim] += 1
                n_others += victim != "main"
                print(f"{self.folder.name}: killed {victim}", file=sys.stderr, flush=True)
            if process.poll() is not None:
                break
        code = process.wait()
        if survivors := self._survivors(process.pid):
            self._tally.findings.append(
                f"{self.folder}: {', '.join(survivors)} outlived the main one"
            )
        if code not in (0, 1, -signal.SIGKILL):
            self._tally.findings.append(f"{self.folder}: the command ended with code {code}")
        return code not in (1, -signal.SIGKILL)

    def _killed(self, process: subprocess.Popen[bytes], victim: str) -> bool:
        """Whether, after a random time, a process of a kind was there and was killed."""
        with suppress(subprocess.TimeoutExpired):
            # Often early, when processes start; sometimes late, when they end.
            process.wait(self._chance.random() ** 3 * self._longest_wait_s)
        while process.poll() is None:
            pids = [
                pid for pid, process_kind in family(process.pid).items() if process_kind == victim
            ]
            if pids:
                pid = self._chance.choice(pids)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    while not _has_ended(pid):  # or the next kill may hit what is dead
                        time.sleep(0.001)
                    if victim == "main":
                        process.wait()
                    return True
            time.sleep(0.005)
        return False

    def _survivors(self, main: int) -> StringList:
        """Command lines of processes that do not end after the main one."""
        deadline = time.monotonic() + _PATIENCE_S
        while pids := [pid for pid in marked(f"{_MARK}={self._mark}") if pid != main]:
            if time.monotonic() > deadline:
                send(pids, signal.SIGKILL)
                return [f"{pid} ({_kind(pid, main)})" for pid in pids]
            time.sleep(0.05)
        return []

    def check(self, undisturbed: Results) -> None:
        """Note what differs from the campaign that nobody disturbed."""
        with chdir(self.folder):
            try:
                lines = list(
                    differences(Campaign.load("killed"), undisturbed, self._target.is_repeatable)
                )
                lines += ResultStore(Path("cache")).verify()
                lines += _left_behind(self.folder)
            except CodesignError as error:
                lines = [str(error)]
        if b"Traceback" in (self.folder / "messages").read_bytes():
            lines.append("a traceback among the messages")
        self._tally.findings += [f"{self.folder}: {line}" for line in lines]


def differences(campaign: Campaign, undisturbed: Results, is_repeatable: bool) -> StringList:
    """Differences between a disturbed campaign, which should be complete, and an undisturbed one.

    Args:
        campaign: In whose folder it is.
        undisturbed: Results of the same campaign that nobody disturbed.
        is_repeatable: Whether all must be the same, or only the numbers of each design.
    """
    lines = campaign.verify()
    results, status = campaign.results(), campaign.status()
    if status.state != "complete" or status.done != status.total:
        lines.append(f"{status.state} with {status.done} of {status.total} designs")
    if results.failed.any():
        lines.append(f"{results.failed.sum()} designs failed")
    for i, run in enumerate(results.runs):
        rows = results.rows[results.run_index == i]
        if len(np.unique(rows, axis=0)) != len(rows):
            lines.append(f"a design twice in {run}")
    if is_repeatable:
        same = all(
            getattr(results, name).tobytes() == getattr(undisturbed, name).tobytes()
            for name in ("run_index", "batch", "rows", "objectives", "hypervolume")
        )
    else:
        objectives_by_row = dict(
            zip(map(bytes, undisturbed.rows), undisturbed.objectives, strict=True)
        )
        pairs = zip(map(bytes, results.rows), results.objectives, strict=True)
        same = all(
            np.array_equal(objectives_by_row.get(key, values), values) for key, values in pairs
        )
    return lines if same else [*lines, "other results than undisturbed"]


def _left_behind(folder: Path) -> StringList:
    place = folder / "runs" / "killed"
    names = ("campaign.sqlite-wal", "campaign.sqlite-shm", "campaign.sqlite.new", SAMPLE_FILE)
    lines = [f"{name} is left" for name in names if (place / name).exists()]
    if is_held(place / "lock"):
        lines.append("the lock is held")
    with closing(sqlite3.connect(folder / "cache" / "results.sqlite")) as connection:
        (claims,) = connection.execute("SELECT count(*) FROM owners").fetchone()
    return [*lines, f"{claims} claims are left"] if claims else lines


def marked(mark: str, word: str = "") -> list[int]:
    """Processes that have not ended, with a mark in their environment, a word in their command."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [
        pid
        for pid in numbers
        if mark.encode() in _process_file(pid, "environ")
        and word.encode() in _process_file(pid, "cmdline")
        and not _has_ended(pid)
    ]


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to the processes that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _has_ended(pid: int) -> bool:
    return _process_file(pid, "stat").rpartition(b")")[2].split()[:1] in ([], [b"Z"], [b"X"])


def _process_file(pid: int, name: str) -> bytes:
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return b""


def family(main: int) -> dict[int, str]:
    """A process and all that it started, with their kinds."""
    family, waiting = {main: "main"}, [main]
    while waiting:
        tasks = Path("/proc", str(waiting.pop()), "task")
        with suppress(OSError):
            for task in list(tasks.iterdir()):
                children = list(map(int, (task / "children").read_text().split()))
                # A dead child that nobody waited for has no name, and would pass for a worker.
                alive = [child for child in children if not _has_ended(child)]
                family |= {child: _kind(child, main) for child in alive}
                waiting += children
    return family


def _kind(pid: int, main: int) -> str:
    if pid == main:
        return "main"
    command = _process_file(pid, "cmdline")
    if b"codesign.search.execution.guard_worker" in command:
        return "guard"
    return "simulator" if b"program.py" in command else "worker"


class Torment:
    """Campaigns of one target, one after the other.

    Args:
        target: Kind of the campaigns.
        folder: For the campaigns; those that nothing is wrong with are removed.
        chance: When which process is killed.
        deadline_s: After it, by the monotonic clock, nothing is killed.

    Raises:
        JobError: The campaign failed though nobody disturbed it.
    """

    def __init__(
        self, target: KilledCampaign, folder: Path, chance: random.Random, deadline_s: float
    ) -> None:
        self.tally, self._deadline_s = KillCounts(), deadline_s
        self._target, self._folder, self._chance = target, folder, chance
        start_s = time.monotonic()
        first = Ordeal(target, folder / "undisturbed", chance, self.tally)
        first.endure(0)
        self._longest_wait_s = time.monotonic() - start_s
        with chdir(first.folder):
            try:
                self._undisturbed = Campaign.load("killed").results()
            except CodesignError as error:
                messages = first.folder / "messages"
                raise JobError(f"failed without a kill, see {messages}: {error}") from error
        first.check(self._undisturbed)

    def do_campaign(self, kills: int) -> None:
        """Run one campaign to its end, with at most so many kills, and check it."""
        folder = self._folder / str(self.tally.campaigns)
        ordeal = Ordeal(
            self._target, folder, self._chance, self.tally, self._longest_wait_s, self._deadline_s
        )
        n_findings = len(self.tally.findings)
        ordeal.endure(kills)
        ordeal.check(self._undisturbed)
        if len(self.tally.findings) == n_findings:
            shutil.rmtree(folder)


def table_of(tallies: dict[str, KillCounts]) -> str:
    """Kills and findings in Markdown."""
    victims = ("main", "worker", "guard", "simulator")
    rows = []
    for name, tally in tallies.items():
        counts = [
            tally.campaigns,
            tally.starts,
            *[tally.kills[victim] for victim in victims],
            len(tally.findings),
        ]
        rows.append([name, *map(str, counts)])
    header = ["campaign", "complete", "starts", *victims, "findings"]
    return markdown_table(header, rows, header[1:])


def main(arguments: Strings | None = None) -> int:
    """Print the table; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000, help="over all kinds of campaigns")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="after which nothing is killed"
    )
    parser.add_argument("--campaign", choices=list(TARGETS), action="append")
    flags = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="codesign-kills-"))
    deadline = time.monotonic() + 60.0 * flags.minutes
    chance = random.Random(flags.seed)
    try:
        torments = {
            name: Torment(TARGETS[name], folder / f"target{i}", chance, deadline)
            for i, name in enumerate(flags.campaign or TARGETS)
        }
    except JobError as error:
        print(error, file=sys.stderr)
        return 1
    tallies = {name: torment.tally for name, torment in torments.items()}
    n_kills, names = flags.kills, cycle(torments)
    while n_kills > 0 and time.monotonic() < deadline:
        torments[next(names)].do_campaign(n_kills)
        n_kills = flags.kills - sum(tally.kills.total() for tally in tallies.values())
    findings = [line for tally in tallies.values() for line in tally.findings]
    print(table_of(tallies), *findings, sep="\n")
    if not findings:
        shutil.rmtree(folder)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
