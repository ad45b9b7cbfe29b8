"""What a worker process that we start does first: leave Ctrl-C to the driver."""

import signal
from contextlib import suppress
from typing import Any


def dask_setup(worker: Any) -> None:
    """Dask's hook: Ctrl-C in the terminal reaches every process, the driver ends them all."""
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
