"""The process between a farm's nodes and the main one; it sends again what a cut may have lost.

What was on its way when a connection broke, a task to a node or its result, is gone: ZeroMQ
connects again and says nothing. Parsl would wait for it as long as the node goes on with its signs
of life. So here the tasks of a node whose connection broke go back into the queue. A node that is
still at one of them may answer too: of all answers to a task, one is passed on.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import zmq
from parsl.executors.high_throughput.interchange import Interchange
from zmq.utils.monitor import recv_monitor_message

from codesign.base.columns import JsonObject

_LAST = float("inf")


class ResendingInterchange(Interchange):
    """Parsl's interchange, with an eye on the connections of the nodes' managers.

    Args:
        config: What Parsl's executor sends to the process.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._parent = os.getppid()
        self._sent: dict[int, JsonObject] = {}
        self._manager_of: dict[int, bytes] = {}
        self._broken: set[int] = set()
        self._silent: set[bytes] = set()
        self._heard: set[bytes] = set()
        events = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
        self._events: Any = self.manager_sock.get_monitor_socket(events)
        socket: Any = self.manager_sock
        self._receive = socket.recv_multipart
        socket.recv_multipart = self._received

    def _received(self) -> list[bytes]:
        """A message of a manager, whose connection is noted."""
        frames = self._receive(copy=False)
        self._follow_connections()
        manager = frames[0].bytes
        connection = frames[-1].get(zmq.SRCFD)
        if connection not in self._broken:  # else it was sent before
            self._manager_of[connection] = manager
            self._heard.add(manager)
        return [frame.bytes for frame in frames]

    def _follow_connections(self) -> None:
        """Take back the tasks of managers whose connection broke; numbers are used again."""
        while self._events.poll(0):
            event = recv_monitor_message(self._events)
            connection = event["value"]
            if event["event"] == zmq.EVENT_ACCEPTED:
                self._broken.discard(connection)
                continue
            self._broken.add(connection)
            if (manager := self._manager_of.pop(connection, None)) is not None:
                self._take_back(manager)

    def get_tasks(self, count: int) -> Sequence[JsonObject]:
        """Get tasks as in Parsl, and remember them until they are answered."""
        waited_for = {
            task for manager in self._ready_managers.values() for task in manager["tasks"]
        }
        self._sent = {number: task for number, task in self._sent.items() if number in waited_for}
        tasks: Sequence[JsonObject] = super().get_tasks(count)
        self._sent |= {task["task_id"]: task for task in tasks}
        return tasks

    def expire_bad_managers(self, interesting_managers: set[bytes], *others: Any) -> None:
        """Expire managers as in Parsl, after tasks of broken connections were taken back.

        Without the main process nobody wants results: nodes end when they hear nothing any more.
        """
        if os.getppid() != self._parent:
            os._exit(1)
        self._follow_connections()
        for manager in self._silent & self._heard:
            self._silent.discard(manager)
            if manager in self._ready_managers:
                self._ready_managers[manager]["active"] = True
                interesting_managers.add(manager)
        self._heard.clear()
        super().expire_bad_managers(interesting_managers, *others)

    def _take_back(self, manager: bytes) -> None:
        record = self._ready_managers.get(manager)
        if record is None:
            return
        self._heard.discard(manager)
        if record["active"]:  # until it is heard again: what is sent meanwhile would be lost
            record["active"] = False
            self._silent.add(manager)
        for number in record["tasks"]:
            task = self._sent[number]
            priority = task["context"].get("resource_spec", {}).get("priority", _LAST)
            self.pending_task_queue.add((-priority, -number, task))
        record["tasks"].clear()


if __name__ == "__main__":
    ResendingInterchange(**pickle.load(sys.stdin.buffer)).start()
