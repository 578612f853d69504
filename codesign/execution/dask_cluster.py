"""Tasks on a Dask cluster that is already running."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from codesign.errors import InputError


def dask_cluster(argument: str | None, places: int) -> Executor:
    """The executor of a scheduler's address, such as ``tcp://10.0.0.1:8786``.

    Raises:
        InputError: No address is given, or Dask is not installed.
    """
    if argument is None:
        raise InputError("executor 'dask': expected dask:ADDRESS, such as dask:tcp://HOST:8786")
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("executor 'dask' needs a library: pip install distributed") from error
    # Tasks that were lost are tried again by whoever submits them.
    client: Any = Client  # Dask has no types here
    executor: Executor = client(argument, set_as_default=False).get_executor(retries=0, pure=False)
    return executor
