"""The guard of a worker: a separate process, which C code that holds the GIL cannot block.

It ends the worker if the worker has not called it off in time, and leaves a last segment in the
journal for it, or else has its nanny tell by the signal. It ends with the worker, whose pipe it
reads.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache

_LONGEST_WAIT_SECONDS = 3600.0
"""Less than what `select` refuses."""
UNRECORDED = signal.SIGXCPU
"""The signal that ends a worker for which nothing could be written."""


@dataclass(frozen=True)
class Deadline:
    """What to do if the worker is not heard from in time.

    Attributes
    ----------
    seconds : float
        Seconds from now.
    journal, segment : str
        Where to write, and under which file name.
    text : str
        What to write; nothing if empty.
    """

    seconds: float
    journal: str
    segment: str
    text: str


class Guard:
    """The worker's end of the pipe to its guard."""

    def __init__(self) -> None:
        self._process = _started()
        self._lock = threading.Lock()

    def watch(self, name: str, deadline: Deadline) -> None:
        """End this process at the deadline, unless it is called off."""
        self._say({"name": name, **asdict(deadline)})

    def call_off(self, name: str) -> None:
        """Forget a deadline."""
        self._say({"name": name})

    def _say(self, message: dict[str, object]) -> None:
        with self._lock, suppress(OSError, ValueError):
            if self._process.poll() is not None:  # somebody has killed it
                self._process = _started()
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()


def _started() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", __name__, str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


@cache
def guard() -> Guard:
    """The guard of this process, started at the first call."""
    return Guard()


def serve(worker: int) -> None:
    """Read deadlines from standard input, and act on the first that passes."""
    deadlines: dict[str, tuple[float, Deadline]] = {}
    unread = b""
    while True:
        first = min((at for at, _ in deadlines.values()), default=math.inf)
        wait = min(max(first - time.monotonic(), 0.0), _LONGEST_WAIT_SECONDS)
        ready, _, _ = select.select([sys.stdin], [], [], wait)
        if not ready:
            passed = [entry for at, entry in deadlines.values() if at <= time.monotonic()]
            if passed:
                _end(worker, passed)
                return
            continue
        read = os.read(sys.stdin.fileno(), 2**16)
        if not read:
            return
        *lines, unread = (unread + read).split(b"\n")
        for line in lines:
            message = json.loads(line)
            name = message.pop("name")
            deadlines.pop(name, None)
            if message:
                deadlines[name] = (time.monotonic() + message["seconds"], Deadline(**message))


def _end(worker: int, passed: list[Deadline]) -> None:
    from sweep.store import disk
    from sweep.store.location import located

    recorded = False
    with suppress(Exception):
        for entry in passed:
            if entry.text:
                disk.write(located(entry.journal) / entry.segment, entry.text, f"guard-{worker}")
                recorded = True
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL if recorded else UNRECORDED)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
