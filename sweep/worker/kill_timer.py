"""Time limits for C code: timers that end this process even if C code holds the GIL.

The timers run in a second process, which reads the running timers from a pipe. It starts with the
first timer and ends when this process ends; if it is killed, the next timer starts it anew.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache


@contextmanager
def kill_timer(file: str, seconds: float, text: str) -> Iterator[None]:
    """If the with-block outlasts ``seconds``, write the text to the file and end this process.

    The processes that it has started end, too. The file identifies the timer. An empty text is not
    written.
    """
    owner = os.getpid()
    with _lock:
        _running[file] = time.monotonic() + seconds, text
        _send()
    try:
        yield
    finally:
        if os.getpid() == owner:  # a process that the block has forked cancels nothing
            with _lock:
                del _running[file]
                _send()


_lock = threading.Lock()
_running: dict[str, tuple[float, str]] = {}
"""The end of every running timer, by `time.monotonic`, which all processes of a machine share, and
the text that is then written; by file."""


def _send() -> None:
    """Send all running timers to their process; if it is gone, start it anew."""
    if _process().poll() is not None:
        _process.cache_clear()
    with suppress(OSError):  # the process was killed this very moment
        print(json.dumps(_running), file=_process().stdin, flush=True)


@cache
def _process() -> subprocess.Popen[str]:
    """Return the process that runs this process's timers; the first call starts it."""
    command = [sys.executable, "-m", __name__, str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)


def serve(worker: int) -> None:
    """Start and cancel timers until standard input, each line the running timers, is closed.

    The timers end the process with the id ``worker``.
    """
    timers: dict[str, threading.Timer] = {}
    for line in sys.stdin:
        running = json.loads(line)
        for file in timers.keys() - running.keys():
            timers.pop(file).cancel()
        for file in running.keys() - timers.keys():
            end, text = running[file]
            seconds = min(max(end - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
            timers[file] = threading.Timer(seconds, _end, (worker, file, text))
            timers[file].daemon = True
            timers[file].start()


def _end(worker: int, file: str, text: str) -> None:
    import psutil

    from sweep.store.paths import locate

    with suppress(Exception):
        if text:
            locate(file).write_bytes(text.encode())
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
