"""Tasks on a cluster, by Parsl: Slurm, LSF, PBS, Kubernetes, SSH, or this machine.

A YAML file describes the farm. Parsl's High-Throughput Executor starts blocks of nodes through a
provider as tasks need them; each node has a manager with worker processes, which connect to this
process over the network. A worker that dies takes only its own task with it.

Messages are pickles: whoever may send one runs code here. So connections are encrypted and
authenticated by CurveZMQ. Each farm makes its certificates in a folder of mode 0700.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import socket
import sys
import tempfile
import threading
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from codesign.base.columns import JsonObject
from codesign.base.errors import InputError, KeyedValueError, needing_extra
from codesign.base.processes import ONE_THREAD
from codesign.base.schema import Record, parse_record, read_document

NODE = "python3 -m codesign.search.execution.parsl_node"
"""Command that starts the manager of a node there."""
Count = Annotated[int, Field(strict=True, ge=1)]
_PROVIDERS = {
    "local": "LocalProvider",
    "slurm": "SlurmProvider",
    "lsf": "LSFProvider",
    "pbs": "PBSProProvider",
    "kubernetes": "KubernetesProvider",
}
_LOOPBACK = "127.0.0.1"
_CUT_OFF = "the interchange of the farm ended"
_UNREACHED = 3
"""Blocks in a row whose nodes never connect, after which the farm is given up [ours]."""
_WATCH_S = 1.0
_WALLTIME = r"^\d{1,3}:\d{2}:\d{2}$"


class FarmDescription(Record):
    """The keys of a farm's file.

    Attributes:
        provider: Resource manager that starts blocks of nodes.
        workers_per_node: Processes of a node, each of which does one task at a time.
        nodes_per_block: Nodes that the provider asks for at a time.
        min_blocks: Blocks that are kept when nothing is to be done.
        max_blocks: Most blocks at a time.
        walltime: Longest time of a block, as ``HH:MM:SS``.
        worker_init: Shell lines that a node runs first, such as ``source .venv/bin/activate``.
        address: IP address or network interface of this machine that nodes connect to; the farm
            listens there only. Default: loopback for ``local``, else the address of the host name.
        encrypted: False sends pickles in the clear and reads them from anybody; needs
            ``trusts_network``.
        trusts_network: States that everybody who reaches ``address`` may run programs as this user.
        heartbeat: Seconds between signs of life of a node; four missed ones, and its tasks are
            lost.
        options: Further arguments of Parsl's provider, such as ``partition`` and ``account``.
    """

    provider: Literal["local", "slurm", "lsf", "pbs", "kubernetes"] = "local"
    workers_per_node: Count = 1
    nodes_per_block: Count = 1
    min_blocks: Annotated[int, Field(strict=True, ge=0)] = 0
    max_blocks: Count = 1
    walltime: Annotated[str, Field(pattern=_WALLTIME)] | None = None
    worker_init: str = ""
    address: str | None = None
    encrypted: bool = True
    trusts_network: bool = False
    heartbeat: Count = 30
    options: JsonObject = Field(default_factory=dict)

    def check_fields(self) -> None:
        if not self.encrypted and not self.trusts_network:
            raise KeyedValueError(
                "encrypted",
                "expected true, or also 'trusts_network: true': everybody who reaches the farm "
                "then runs programs as this user",
            )


class ParslFarm(Executor):
    """Parsl's High-Throughput Executor as a plain executor that ends what it started.

    Args:
        address: IP address to listen at.
        folder: For certificates, logs and scripts; nodes find it under the same path.
    """

    def __init__(self, description: FarmDescription, address: str, folder: Path) -> None:
        import parsl
        from parsl.config import Config
        from parsl.executors import HighThroughputExecutor
        from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD

        self._folder = folder
        self._executor: Any = HighThroughputExecutor(
            label="codesign",
            address=address,
            loopback_address=_LOOPBACK,
            encrypted=description.encrypted,
            launch_cmd=DEFAULT_LAUNCH_CMD.replace("process_worker_pool.py", NODE, 1),
            interchange_launch_cmd=[
                sys.executable,
                "-m",
                "codesign.search.execution.parsl_interchange",
            ],
            max_workers_per_node=description.workers_per_node,
            cores_per_worker=1e-3,  # the number of workers is what the file says
            heartbeat_period=description.heartbeat,
            heartbeat_threshold=4 * description.heartbeat,
            provider=_provider(description),
            worker_logdir_root=str(folder),
            block_error_handler=_give_up_unreached,
        )
        config = Config(
            executors=[self._executor],
            run_dir=str(folder),
            strategy="simple",
            max_idletime=60.0,
            retries=0,  # whoever submits knows better which task to try again
            initialize_logging=False,
            usage_tracking=0,
        )
        self._kernel = parsl.DataFlowKernel(config)
        self._futures: set[Future[Any]] = set()
        self._is_stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a task on the farm."""
        if self._executor.bad_state_is_set:
            raise RuntimeError(f"the farm failed: {self._executor.executor_exception}")
        if self._is_cut_off:
            raise RuntimeError(_CUT_OFF)
        future: Future[Any] = self._executor.submit(fn, {}, *args, **kwargs)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the blocks."""
        self._is_stopped.set()
        if self._is_cut_off:  # Parsl would wait for its answer for ever
            atexit.unregister(self._kernel.atexit_cleanup)  # its warning would be of no use
            self._executor.provider.cancel(list(self._executor.blocks_to_job_id.values()))
        else:
            self._kernel.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _is_cut_off(self) -> bool:
        """Whether the process is gone through which all nodes are reached."""
        return self._executor.interchange_proc.poll() is not None

    def _watch(self) -> None:
        """End what would be waited for in vain: Parsl does not notice."""
        while not self._is_stopped.wait(_WATCH_S):
            if self._is_cut_off:
                for future in list(self._futures):
                    with suppress(InvalidStateError):
                        future.set_exception(RuntimeError(_CUT_OFF))


def _give_up_unreached(executor: Any, status: JsonObject) -> None:
    """Fail all tasks if no block ever worked, or if those that replaced one do not connect."""
    from parsl.jobs.error_handlers import simple_error_handler
    from parsl.jobs.states import JobState

    latest = [status[block] for block in sorted(status, key=int)][-_UNREACHED:]
    if len(latest) == _UNREACHED and all(job.state == JobState.MISSING for job in latest):
        words = f"the nodes of {_UNREACHED} blocks in a row could not reach this machine"
        executor.set_bad_state_and_fail_all(RuntimeError(words))
    else:
        simple_error_handler(executor, status)


def _provider(description: FarmDescription) -> Any:
    import parsl.providers

    name = _PROVIDERS[description.provider]
    threads = "\n".join(f"export {key}={value}" for key, value in ONE_THREAD.items())
    arguments: JsonObject = {
        "init_blocks": max(description.min_blocks, 1),
        "min_blocks": description.min_blocks,
        "max_blocks": description.max_blocks,
        "worker_init": "\n".join(lines for lines in (threads, description.worker_init) if lines),
        **description.options,
    }
    if description.provider == "local":
        # As this process: the same interpreter and the same modules.
        path = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), os.environ["PATH"]]))
        modules = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        arguments["worker_init"] += f"\nexport PATH='{path}' PYTHONPATH='{modules}'"
    if description.provider != "kubernetes":
        arguments["nodes_per_block"] = description.nodes_per_block
    if description.walltime is not None:
        arguments["walltime"] = description.walltime
    try:
        return getattr(parsl.providers, name)(**arguments)
    except TypeError as error:
        raise InputError(f"options of {name}: {error}") from None


def parsl_farm(argument: str | None, places: int) -> Executor:
    """The farm that a file describes; it is as large as the file says.

    Raises:
        InputError: No such file, or a key of it cannot be used.
        MissingExtraError: Parsl is not installed.
    """
    if argument is None:
        raise InputError("executor 'parsl': expected parsl:FILE.yaml, the description of a farm")
    document = read_document(Path(argument))
    description = parse_record(document, FarmDescription, document.data)
    with needing_extra("executor parsl", "cluster"):
        importlib.import_module("parsl")
    import psutil  # type: ignore[import-untyped] # Parsl needs it, too

    is_local = description.provider == "local"
    address = description.address or (_LOOPBACK if is_local else socket.gethostname())
    for entry in psutil.net_if_addrs().get(address, ()):
        if entry.family == socket.AF_INET:
            address = entry.address
    with suppress(OSError):
        address = socket.gethostbyname(address)
    try:
        ip = ip_address(address)
        is_usable = not ip.is_unspecified and (is_local or not ip.is_loopback)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InputError(
            "expected an IP address or network interface of this machine that nodes reach, got "
            f"{description.address or address}",
            document.where("address"),
        )
    # Nodes read certificates as they read the campaign: in the folder of the run.
    place = None if description.provider == "local" else Path.cwd()
    folder = Path(tempfile.mkdtemp(prefix=".codesign-farm-", dir=place))
    try:
        return ParslFarm(description, address, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
