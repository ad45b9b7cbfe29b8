"""Time limits for C code: timers that end this process even if C code holds the GIL.

The timers run in a second process, which reads requests from a pipe. It starts with the first timer
and ends when this process ends; if it is killed, the next timer starts it anew.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class _Request:
    """A timer to start or, if ``end`` is None, to cancel.

    Attributes
    ----------
    file : str
        The file to write before this process is ended; it identifies the timer.
    end : float, optional
        When this process is ended, by `time.monotonic`, which all processes of a machine share.
    text : str
        The content of the file; an empty text is not written.
    """

    file: str
    end: float | None = None
    text: str = ""


@contextmanager
def kill_timer(file: str, seconds: float, text: str) -> Iterator[None]:
    """If the with-block outlasts ``seconds``, write the text to the file and end this process.

    The processes that it has started end, too. An empty text is not written.
    """
    owner, start = os.getpid(), _Request(file, time.monotonic() + seconds, text)
    with _lock:
        _running[file] = start
        _send(start)
    try:
        yield
    finally:
        if os.getpid() == owner:  # a process that the block has forked cancels nothing
            with _lock:
                del _running[file]
                _send(_Request(file))


_lock = threading.Lock()
_running: dict[str, _Request] = {}


def _send(request: _Request) -> None:
    """Send a request; if the timers' process is gone, start it anew with all running timers."""
    requests = [request]
    if _process().poll() is not None:
        _process.cache_clear()
        requests = list(_running.values())
    with suppress(OSError):  # the process was killed this very moment
        for each in requests:
            print(json.dumps(vars(each)), file=_process().stdin, flush=True)


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
        request = _Request(**json.loads(line))
        if request.end is None:
            if request.file in timers:
                timers.pop(request.file).cancel()
            continue
        seconds = min(max(request.end - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
        timer = threading.Timer(seconds, _end, (worker, request))
        timer.daemon = True
        timers[request.file] = timer
        timer.start()


def _end(worker: int, request: _Request) -> None:
    import psutil

    from sweep.store.paths import locate

    with suppress(Exception):
        if request.text:
            locate(request.file).write_bytes(request.text.encode())
    with suppress(psutil.NoSuchProcess):  # the worker has just ended
        ending = psutil.Process(worker)
        ending.suspend()  # it starts no other process
        # a process comes before those that it has started; the worker is last, as this process
        # ends with it
        for process in [*ending.children(recursive=True), ending]:
            with suppress(psutil.Error):  # it has ended, or belongs to another user
                if process.pid != os.getpid():
                    process.kill()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
