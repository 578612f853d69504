"""Tasks on a Dask cluster that is already running."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from codesign.base.errors import InputError, needing_extra


class DaskExecutor(Executor):
    """Tasks by the workers of a Dask scheduler, with all that ``shutdown`` promises.

    Args:
        client: A ``distributed.Client``, closed at the end.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        # Tasks that were lost are tried again by whoever submits them.
        self._inner = client.get_executor(retries=0, pure=False)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a task on a worker; the future of a lost task raises Dask's ``KilledWorker``."""
        future: Future[Any] = self._inner.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the tasks or cancel them, which does not interrupt those at work; hang up."""
        self._inner.shutdown(wait=wait and not cancel_futures)
        self._client.close()


def dask_cluster(argument: str | None, places: int) -> Executor:
    """The executor of a scheduler's address, such as ``tls://10.0.0.1:8786``.

    Messages are pickles, so a connection that leaves this machine is authenticated: by TLS, with
    the certificates of Dask's configuration (``distributed.comm.tls``).

    Raises:
        InputError: There is no address, or it is neither of TLS nor of this machine.
        MissingExtraError: Dask is not installed.
    """
    if argument is None:
        raise InputError("executor 'dask': expected dask:ADDRESS, such as dask:tls://HOST:8786")
    address = urlsplit(argument if "://" in argument else f"tcp://{argument}")
    if address.scheme not in ("tls", "inproc") and not _is_loopback(address.hostname):
        raise InputError(
            "executor 'dask': expected tls://HOST:PORT, or an address of this machine such as "
            f"tcp://127.0.0.1:8786, got {argument}: its messages are programs that anybody on the "
            "way can change"
        )
    with needing_extra("executor 'dask'", "dask"):
        import distributed
    dask: Any = distributed  # it has no types here
    security = dask.Security()
    certificates = security.tls_ca_file, security.tls_client_cert, security.tls_client_key
    if address.scheme == "tls" and not all(certificates):
        raise InputError(
            "executor 'dask': tls:// needs certificates in Dask's configuration: ca-file, and cert "
            "and key of the client, in distributed.comm.tls"
        )
    return DaskExecutor(dask.Client(argument, security=security, set_as_default=False))


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
