"""Executors do tasks elsewhere; one that dies takes only its own task with it."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import wait
from operator import add
from pathlib import Path

import pytest
import zmq
import zmq.auth
from zmq.utils.monitor import recv_monitor_message

from codesign.base.errors import InputError, JobError, UnknownNameError
from codesign.search.execution.executors import LocalExecutor, TaskLostError, open_executor
from codesign.search.execution.parsl_farm import parsl_farm


@pytest.fixture
def executor():
    executor = LocalExecutor(2)
    yield executor
    executor.shutdown(cancel_futures=True)


def test_tasks_are_done_in_processes_that_are_used_again(executor):
    pids = {executor.submit(os.getpid).result() for _ in range(3)}
    assert len(pids) <= 2
    assert os.getpid() not in pids
    assert executor.submit(add, 2, 3).result() == 5


def test_a_process_that_is_killed_loses_its_own_task_only(executor):
    pid = executor.submit(os.getpid).result()
    lost, other = executor.submit(time.sleep, 3600), None
    other = executor.submit(add, 1, 1)
    assert other.result() == 2
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(TaskLostError, match="SIGKILL"):
        lost.result()
    assert executor.submit(add, 1, 1).result() == 2


def test_a_shutdown_ends_what_is_at_work(executor):
    pid = executor.submit(os.getpid).result()
    future = executor.submit(time.sleep, 3600)
    while not future.running():
        time.sleep(0.01)
    executor.shutdown(cancel_futures=True)
    with pytest.raises(TaskLostError):
        future.result()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("local:8", InputError, "'local' takes nothing after its name, got '8'"),
        ("threadz", UnknownNameError, "unknown executor 'threadz'"),
    ],
)
def test_an_executor_that_cannot_be_used_is_refused_in_one_line(text, error, message):
    with pytest.raises(error, match=message):
        open_executor(text, 1)


@pytest.mark.parametrize(
    ("farm", "message"),
    [
        ("provider: slurmy\n", r"farm.yaml:1: provider: .*slurm"),
        ("workers: 3\n", r"farm.yaml:1: workers: unknown key .*workers_per_node"),
        ("max_blocks: 0\n", r"farm.yaml:1: max_blocks: .*greater than or equal to 1"),
        ('walltime: "1 day"\n', r"farm.yaml:1: walltime: "),
        ("options: {partitionn: a}\n", r"options of LocalProvider: .*partitionn"),
        ("encrypted: false\n", r"farm.yaml:1: encrypted: expected true, or also 'trusts_network"),
        ("provider: slurm\naddress: 127.0.0.1\n", r"farm.yaml:2: address: .*that nodes reach"),
        ("provider: slurm\naddress: lo\n", r"farm.yaml:2: address: .*, got lo"),
        ("address: 0.0.0.0\n", r"farm.yaml:1: address: .*, got 0.0.0.0"),
    ],
)
def test_a_farm_that_cannot_be_is_refused_with_file_line_and_key(tmp_path, farm, message):
    (tmp_path / "farm.yaml").write_text(farm)
    with pytest.raises(InputError, match=message):
        parsl_farm(str(tmp_path / "farm.yaml"), 1)


def test_a_farm_without_a_file_is_refused():
    with pytest.raises(InputError, match=r"expected parsl:FILE.yaml"):
        parsl_farm(None, 1)
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        parsl_farm("nowhere.yaml", 1)


@pytest.fixture
def farm(tmp_path):
    (tmp_path / "farm.yaml").write_text("workers_per_node: 2\nheartbeat: 2\n")
    farm = parsl_farm(str(tmp_path / "farm.yaml"), 2)
    yield farm
    farm.shutdown()


def submit_endless(farm, marks):
    """Futures of tasks of an hour that have begun, one for each path."""
    code = "import pathlib, time; pathlib.Path(path).touch(); time.sleep(3600)"
    futures = [farm.submit(exec, code, {"path": str(mark)}) for mark in marks]
    while not all(mark.exists() for mark in marks):
        assert not any(future.done() for future in futures)
        time.sleep(0.05)
    return futures


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Parsl's threads and pipes
def test_a_farm_outlives_a_worker_and_says_when_it_is_dead(farm, tmp_path):
    pid = farm.submit(os.getpid).result(timeout=300)
    futures = submit_endless(farm, [tmp_path / "first", tmp_path / "second"])
    os.kill(pid, signal.SIGKILL)
    done = wait(futures, timeout=300, return_when="FIRST_COMPLETED").done
    assert "WorkerLost" in {type(future.exception()).__name__ for future in done}
    assert farm.submit(add, 1, 1).result(timeout=300) == 2
    interchange = farm._executor.interchange_proc
    interchange.kill()
    rest = [future for future in futures if future not in done]
    for future in wait(rest, timeout=300).done:
        assert future.exception() is not None
    with pytest.raises(RuntimeError):
        farm.submit(add, 1, 1).result(timeout=300)


class Intruder:
    """A pickle that makes a file where it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def last_event(monitor):
    """The event with which the handshake of a connection ends."""
    begun = {zmq.EVENT_CONNECTED, zmq.EVENT_CONNECT_DELAYED}
    while (event := recv_monitor_message(monitor)["event"]) in begun:
        continue
    return zmq.Event(event)


@pytest.mark.filterwarnings("ignore")  # of Parsl's threads and pipes
def test_a_strangers_pickle_is_never_read(farm, tmp_path):
    message = pickle.dumps(Intruder(tmp_path / "read"))
    executor, stranger = farm._executor, zmq.Context()
    for port, socket_type, is_server in (
        (executor.worker_port, zmq.DEALER, True),
        (executor.incoming_q.port, zmq.PULL, False),
        (executor.outgoing_q.port, zmq.DEALER, False),
        (executor.command_client.port, zmq.REP, False),
    ):
        for has_keys in (False, True):  # keys of its own, and the farm's public one
            socket = stranger.socket(socket_type)
            if has_keys:
                socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
                if is_server:
                    certificate = Path(executor.cert_dir, "server.key")
                    socket.curve_serverkey = zmq.auth.load_certificate(certificate)[0]
                else:
                    socket.curve_server = True
            monitor = socket.get_monitor_socket()
            socket.connect(f"tcp://127.0.0.1:{port}")
            if socket_type == zmq.DEALER:
                socket.send_multipart([b"", message])
                socket.send(message)
            assert last_event(monitor) in {
                zmq.Event.DISCONNECTED,
                zmq.Event.HANDSHAKE_FAILED_NO_DETAIL,
                zmq.Event.HANDSHAKE_FAILED_PROTOCOL,
                zmq.Event.HANDSHAKE_FAILED_AUTH,
            }
            socket.disable_monitor()
            socket.close(linger=0)
    stranger.destroy(linger=0)
    assert not (tmp_path / "read").exists()
    for folder in (farm._folder, executor.cert_dir):
        assert Path(folder).stat().st_mode & 0o777 == 0o700


@pytest.fixture
def slurm_farm(tmp_path):
    """A farm of the Slurm of this machine; docs/parallel.md says how to start one."""
    if not shutil.which("squeue") or subprocess.run(["squeue"], capture_output=True).returncode:
        pytest.skip("there is no Slurm here")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    modules = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    lines = (
        "provider: slurm",
        "heartbeat: 2",
        'walltime: "00:10:00"',
        f'worker_init: "export PATH={path} PYTHONPATH={modules}"',
    )
    (tmp_path / "farm.yaml").write_text("\n".join(lines))
    farm = parsl_farm(str(tmp_path / "farm.yaml"), 1)
    yield farm
    farm.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Parsl's threads and pipes
def test_a_job_of_slurm_that_is_cancelled_loses_its_task_and_is_replaced(slurm_farm, tmp_path):
    assert slurm_farm.submit(add, 1, 1).result(timeout=300) == 2
    (future,) = submit_endless(slurm_farm, [tmp_path / "begun"])
    subprocess.run(["scancel", *slurm_farm._executor.blocks_to_job_id.values()], check=True)
    assert future.exception(timeout=300) is not None
    assert slurm_farm.submit(add, 2, 2).result(timeout=300) == 4


@pytest.fixture(scope="module")
def scheduler():
    """The address of a Dask scheduler with a worker, in threads of this process."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def test_a_running_dask_cluster_does_tasks_and_is_left_as_it_was(scheduler):
    for _ in range(2):
        executor = open_executor(f"dask:{scheduler}", 2)
        assert executor.submit(add, 2, 3).result(timeout=60) == 5
        failing = executor.submit(int, "x")
        with pytest.raises(ValueError, match="invalid literal"):
            failing.result(timeout=60)
        waiting = [executor.submit(time.sleep, 0.2) for _ in range(8)]
        executor.shutdown(wait=True, cancel_futures=True)
        assert any(future.cancelled() for future in waiting)


def test_a_dask_scheduler_is_reached_by_tls_with_the_certificates_of_the_configuration(tmp_path):
    from dask import config
    from distributed import LocalCluster, Security

    if not shutil.which("openssl"):
        pytest.skip("there is no openssl here")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=farm"
    command = ["openssl", *words.split(), "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    pairs = {"cert": certificate, "key": key}
    settings = {"distributed.comm.tls.ca-file": certificate}
    for role in ("scheduler", "worker", "client"):
        settings |= {f"distributed.comm.tls.{role}.{name}": file for name, file in pairs.items()}
    with config.set(settings):
        security = Security()
        with LocalCluster(
            n_workers=1, processes=False, dashboard_address=":0", security=security, protocol="tls"
        ) as cluster:
            assert cluster.scheduler_address.startswith("tls://")
            executor = open_executor(f"dask:{cluster.scheduler_address}", 1)
            assert executor.submit(add, 2, 3).result(timeout=60) == 5
            executor.shutdown()


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "10.0.0.1:8786", "ws://farm:80"])
def test_a_dask_scheduler_elsewhere_is_reached_by_tls_or_not_at_all(address):
    with pytest.raises(InputError, match=r"executor 'dask': expected tls://HOST:PORT"):
        open_executor(f"dask:{address}", 1)
    with pytest.raises(InputError, match=r"tls:// needs certificates in Dask's configuration"):
        open_executor("dask:tls://10.0.0.1:8786", 1)


def test_an_executor_that_does_not_answer_is_refused_in_one_line():
    from dask import config

    timeout = config.set({"distributed.comm.timeouts.connect": "200ms"})
    with timeout, pytest.raises(JobError, match=r"'dask:tcp://127.0.0.1:9' does not start: "):
        open_executor("dask:tcp://127.0.0.1:9", 1)
    with pytest.raises(InputError, match="expected dask:ADDRESS"):
        open_executor("dask", 1)
