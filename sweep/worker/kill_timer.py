"""Time limits for C code: timers that end this process even if C code holds the GIL.

The timers run in a second process, which reads requests from a pipe. It starts with the first timer
and ends when this process ends.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache


@contextmanager
def kill_timer(file: str, seconds: float, text: str) -> Iterator[None]:
    """If the with-block outlasts ``seconds``, write the text to the file and end this process.

    An empty text is not written.
    """
    _send({"file": file, "seconds": min(seconds, threading.TIMEOUT_MAX), "text": text})
    try:
        yield
    finally:
        _send({"file": file})


_lock = threading.Lock()


def _send(message: dict[str, object]) -> None:
    # if the timers' process was killed, tasks go on without timers
    with _lock, suppress(OSError):
        print(json.dumps(message), file=_process().stdin, flush=True)


@cache
def _process() -> subprocess.Popen[str]:
    """The process that runs this process's timers; the first call starts it."""
    command = [sys.executable, "-m", __name__, str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)


def serve(worker: int) -> None:
    """Start and cancel timers on request from standard input, until the input is closed.

    The timers end the process with the id ``worker``.
    """
    timers: dict[str, threading.Timer] = {}
    for line in sys.stdin:
        message = json.loads(line)
        file = message["file"]
        if "seconds" not in message:
            timers.pop(file).cancel()
            continue
        timer = threading.Timer(message["seconds"], _end, (worker, file, message["text"]))
        timer.daemon = True
        timers[file] = timer
        timer.start()


def _end(worker: int, file: str, text: str) -> None:
    from sweep.store.places import location

    with suppress(Exception):
        if text:
            location(file).write_bytes(text.encode())
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
