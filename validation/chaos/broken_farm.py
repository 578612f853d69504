"""Small campaigns on a Parsl farm that is broken while they run, and what is left of them.

Several worker processes of this machine reach the farm's interchange through a relay, which can
cut connections, delay, swallow or repeat what they carry. Workers, nodes and the interchange are
killed, and a node is stopped until it is given up, then continued. A campaign that ended is run
again; each complete one is compared with the same alone. Linux only. Run as
``python -m validation.chaos.broken_farm --help``.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import chdir, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import yaml

from codesign.base.columns import StringList, Strings
from codesign.base.errors import CodesignError
from codesign.base.files import write_text
from codesign.base.records import frozen
from codesign.base.text import markdown_line, markdown_table
from codesign.search.campaign import Campaign, Results
from validation.chaos.kills import COMMAND_EVALUATOR, SPACE, differences, family, marked, send

_MARK = "CODESIGN_BROKEN_FARM"
"""Variable by which the processes of a farm are known, whoever their parent is."""
HEARTBEAT_S = 2
"""Heartbeat of the farm; a node that is silent for four is given up."""
_PATIENCE_S = 600.0
"""For one start of a campaign."""
_GIVEN_UP_S = 4.0 * HEARTBEAT_S + 5.0
"""After which a silent node is given up for sure."""
_MOST_STARTS = 3
_BEGUN = 4
"""Stored observations after which the farm is broken."""
_PROGRAM = """\
import json, time
design = json.load(open("design.json"))["design"]
x, y = design["x1"], design["x2"]
time.sleep(0.5 + (x + y) / 30)
json.dump({"f1": x / 15, "f2": (1 + y) / (1 + x) ** 0.5}, open("result.json", "w"))
"""
_CAMPAIGNS = {
    "slices": """\
space: grid
evaluator: {name: benchmark-functions, function: zdt1, steps: 15}
objectives: [minimize f1, minimize f2]
optimizers: [gp-ehvi, nsga2]
initial: 4
budget: 24
seeds: 2
""",
    "in flight": f"""\
space: grid
{COMMAND_EVALUATOR}\
objectives: [minimize f1, minimize f2]
optimizers: [random, sobol]
initial: 4
budget: 16
execution: {{retries: 4, in_flight: 4, cache: false}}
""",
}
Mode: TypeAlias = Literal["open", "delay", "repeat", "swallow", "closed"]
_INIT = """\
python3() {{
  local words=()
  for word in "$@"; do
    case $word in --port=*) echo "${{word#--port=}}" > {port_file}; word=--port={port};; esac
    words+=("$word")
  done
  command python3 "${{words[@]}}"
}}"""
"""A line of shell by which the nodes of a farm connect to another port."""


class Relay:
    """Between nodes and interchange: all that they send each other goes through here.

    Args:
        port_file: Holds the interchange's port, once a node was started.
    """

    def __init__(self, port_file: Path) -> None:
        self.mode: Mode = "open"
        """What becomes of what is sent; ``repeat`` sends all from nodes twice."""
        self._port_file = port_file
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def cut(self) -> None:
        """Break all connections; new ones are taken unless the mode is ``closed``."""
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all."""
        self.mode = "closed"
        self._server.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self.cut()
        for thread in self._threads:
            thread.join(10.0)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                node, _ = self._server.accept()
                try:
                    if self.mode == "closed":
                        raise ConnectionRefusedError
                    interchange = socket.create_connection(
                        ("127.0.0.1", int(self._port_file.read_text()))
                    )
                except OSError:
                    node.close()
                    continue
                self._connections |= {node, interchange}
                self._start(self._pass_on, node, interchange, True)
                self._start(self._pass_on, interchange, node, False)

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _pass_on(self, source: socket.socket, target: socket.socket, from_node: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 20):
                mode = self.mode
                if mode == "swallow":
                    continue
                if mode == "delay":
                    time.sleep(0.5)
                target.sendall(data * 2 if mode == "repeat" and from_node else data)
        for end in (source, target):
            self._connections.discard(end)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()  # the other thread closes the other end


class BrokenFarm:
    """One campaign on a farm of its own.

    Args:
        kind: Of the campaign: ``slices`` or ``in flight``.
        folder: New.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder, self.starts, self.messages = folder, 0, ""
        self._mark = uuid4().hex
        port_file = folder / "port"
        self.relay = Relay(port_file)
        init = _INIT.format(port_file=shlex.quote(str(port_file)), port=self.relay.port)
        farm = {
            "workers_per_node": 3,
            "max_blocks": 2,
            "heartbeat": HEARTBEAT_S,
            "worker_init": init,
        }
        for name, text in (
            ("spaces/grid.yaml", SPACE),
            ("runs/broken.yaml", _CAMPAIGNS[kind]),
            ("program.py", _PROGRAM),
            ("farm.yaml", yaml.safe_dump(farm)),
        ):
            write_text(folder / name, text)

    @property
    def n_stored(self) -> int:
        """Observations so far."""
        with chdir(self.folder), suppress(CodesignError):
            return Campaign.load("broken").status().done
        return 0

    def run(self, disturb: Disturbance | None = None, is_alone: bool = False) -> int:
        """Run the campaign, disturbed once when some of it is stored; the exit code."""
        self.starts += 1
        where = [] if is_alone else ["--executor", "parsl:farm.yaml"]
        process = subprocess.Popen(
            [sys.executable, "-m", "codesign", "run", "broken", "--workers", "4", *where],
            cwd=self.folder,
            env={**os.environ, _MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        thread = threading.Thread(
            target=self._disturb, args=(process, disturb or (lambda farm: None)), daemon=True
        )
        thread.start()
        try:
            _, self.messages = process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill("")  # the interchange has the same stderr
            _, self.messages = process.communicate()
        thread.join()
        return process.returncode

    def processes(self, word: str) -> list[int]:
        """Processes of this farm with a word in their command line."""
        return marked(f"{_MARK}={self._mark}", word)

    def kill(self, word: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the processes with a word in their command line."""
        send(self.processes(word), number)

    def close(self) -> None:
        """End what is left."""
        self.kill("")
        self.relay.close()

    def _disturb(self, process: subprocess.Popen[str], disturb: Disturbance) -> None:
        first = self.n_stored
        while process.poll() is None:
            if self.n_stored >= first + _BEGUN:
                disturb(self)
                return
            time.sleep(0.2)


Disturbance: TypeAlias = Callable[[BrokenFarm], None]


def _kill_worker(farm: BrokenFarm) -> None:
    """Kill one at work."""
    send(
        [max(farm.processes("spawn_main"), key=lambda pid: (len(family(pid)), pid))], signal.SIGKILL
    )


def _kill_waiting(farm: BrokenFarm) -> None:
    """Kill those without a task: one of each node holds the queue of tasks while it waits."""
    for node in farm.processes("parsl_node"):
        children = sorted(set(farm.processes("spawn_main")) & set(family(node)))
        # The first keeps what the workers share.
        send([pid for pid in children[1:] if len(family(pid)) == 1], signal.SIGKILL)


def _node(farm: BrokenFarm) -> list[int]:
    """The processes of one node."""
    return list(family(min(farm.processes("parsl_node"))))


def _stop_node(farm: BrokenFarm) -> None:
    node = _node(farm)
    send(node, signal.SIGSTOP)
    time.sleep(_GIVEN_UP_S)
    send(node, signal.SIGCONT)


def _cut_thrice(farm: BrokenFarm) -> None:
    for _ in range(3):
        farm.relay.cut()
        time.sleep(HEARTBEAT_S)


def _swallow(farm: BrokenFarm) -> None:
    farm.relay.mode = "swallow"
    time.sleep(HEARTBEAT_S)
    farm.relay.cut()
    farm.relay.mode = "open"


def _close(farm: BrokenFarm, seconds: float = math.inf) -> None:
    farm.relay.mode = "closed"
    farm.relay.cut()
    if math.isfinite(seconds):
        time.sleep(seconds)
        farm.relay.mode = "open"


def _distort(farm: BrokenFarm, mode: Mode) -> None:
    farm.relay.mode = mode
    time.sleep(5.0 * HEARTBEAT_S)
    farm.relay.mode = "open"


DISTURBANCES: dict[str, Disturbance] = {
    "nothing": lambda farm: None,
    "a worker killed": _kill_worker,
    "workers that wait killed": _kill_waiting,
    "a node killed": lambda farm: send(_node(farm), signal.SIGKILL),
    "the interchange killed": lambda farm: send(
        farm.processes("parsl_interchange"), signal.SIGKILL
    ),
    "connections broken three times": _cut_thrice,
    "messages lost, then the connections": _swallow,
    "the network cut for 3 s": partial(_close, seconds=3.0),
    "the network cut until nodes are given up": partial(_close, seconds=_GIVEN_UP_S),
    "the network cut for good": _close,
    "messages 0.5 s late": partial(_distort, mode="delay"),
    "messages of nodes sent twice": partial(_distort, mode="repeat"),
    "a node stopped until given up, then continued": _stop_node,
}


@frozen
class BrokenResult:
    """Outcome of a campaign.

    Attributes:
        codes: Exit codes of its starts.
        message: Last line of the first start that failed; empty without one.
        findings: What is wrong with it, one line each.
    """

    codes: tuple[int, ...]
    message: str
    findings: tuple[str, ...]


def undisturbed(kind: str, folder: Path) -> Results:
    """The campaign alone in this process and on this machine, one design after the other."""
    farm = BrokenFarm(kind, folder)
    try:
        farm.run(is_alone=True)
    finally:
        farm.close()
    with chdir(folder):
        return Campaign.load("broken").results()


def broken(kind: str, disturbance: str, folder: Path, alone: Results) -> BrokenResult:
    """Break a farm once, and run its campaign again until it is complete, at most three times.

    Args:
        kind: Of the campaign: ``slices`` or ``in flight``.
        disturbance: A key of :data:`DISTURBANCES`.
        folder: New.
        alone: The results to compare with.
    """
    farm = BrokenFarm(kind, folder)
    codes: list[int] = []
    findings: StringList = []
    message = ""
    try:
        disturb: Disturbance | None = DISTURBANCES[disturbance]
        while len(codes) < _MOST_STARTS and codes[-1:] != [0]:
            codes.append(farm.run(disturb))
            disturb, farm.relay.mode = None, "open"
            errors = [line for line in farm.messages.splitlines() if line.startswith("error: ")]
            if codes[-1]:
                message = message or (errors or farm.messages.splitlines() or [""])[-1]
                if (codes[-1], len(errors)) != (1, 1):
                    findings.append(f"ended with code {codes[-1]} and {len(errors)} lines")
            if "Traceback" in farm.messages:
                findings.append("a traceback among the messages")
            # As a cluster that hears that its job's master is gone.
            farm.kill("parsl_node")
    finally:
        farm.close()
    with chdir(folder):
        try:
            findings += differences(Campaign.load("broken"), alone, kind == "slices")
        except CodesignError as error:
            findings.append(str(error))
    return BrokenResult(tuple(codes), message, tuple(findings))


def main(arguments: Strings | None = None) -> int:
    """Print a row for each disturbance; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=list(_CAMPAIGNS), action="append")
    parser.add_argument("--disturbance", choices=list(DISTURBANCES), action="append")
    flags = parser.parse_args(arguments)
    n_findings = 0
    with tempfile.TemporaryDirectory(prefix="codesign-farm-", ignore_cleanup_errors=True) as place:
        print(
            markdown_table(
                ["campaign", "disturbance", "exit codes", "seconds", "findings"], [], ["seconds"]
            )
        )
        for kind in flags.kind or _CAMPAIGNS:
            alone = undisturbed(kind, Path(place, kind, "alone"))
            for i, disturbance in enumerate(flags.disturbance or DISTURBANCES):
                start_s = time.monotonic()
                result = broken(kind, disturbance, Path(place, kind, str(i)), alone)
                n_findings += len(result.findings)
                codes, findings = ", ".join(map(str, result.codes)), "; ".join(result.findings)
                seconds = f"{time.monotonic() - start_s:.0f}"
                print(markdown_line([kind, disturbance, codes, seconds, findings or "none"]))
                if result.message:
                    print(f"{disturbance}: {result.message}", file=sys.stderr)
                sys.stdout.flush()
    return 1 if n_findings else 0


if __name__ == "__main__":
    sys.exit(main())
