"""Preloaded by every worker of a chaos run: notes what begins, steps on mines, slows solves down.

``CHAOS_FOLDER`` is the run's folder. A mine is a file there, laid by `benchmarks.chaos.havoc`: the
solve that takes it away ends as its name says.
"""

import json
import os
import time
import zlib
from contextlib import contextmanager
from pathlib import Path

from sweep.store.journal import run_of
from sweep.worker import perform, solve

MINES, PAUSE, SLOW, BEGUN = "mines", "pause", "slow", "begun.jsonl"
LONGEST_PAUSE = 60.0


def dask_setup(worker) -> None:
    install(Path(os.environ["CHAOS_FOLDER"]))


def install(folder: Path) -> None:
    """Make this process note in the folder what it begins, and step on the mines there."""
    run_solver, time_limited, recording = solve.run_solver, perform.time_limited, perform.Recording
    perform.GRACE_SECONDS, perform.LIMIT_FACTOR = 3.0, 1.0

    def slower(one, *rest):
        step_on_a_mine(folder / MINES)
        if (folder / SLOW).exists():
            time.sleep(0.05 + zlib.crc32(one.key.encode()) % 300 / 1000)
        return run_solver(one, *rest)

    class Timed(recording):
        """Notes when it looks for what is recorded already, before anything begins."""

        def __init__(self, task, worker_store):
            since = time.time()
            super().__init__(task, worker_store)
            self.looked = {"run": run_of(task.name), "since": since, "until": time.time()}

    @contextmanager
    def noted(one, records, *, nanny):
        wait_for_the_end_of(folder / PAUSE)
        note(folder / BEGUN, {"about": one.key, **records.looked})
        with time_limited(one, records, nanny=nanny):
            yield

    solve.run_solver, perform.time_limited, perform.Recording = slower, noted, Timed


def note(path: Path, begun: dict[str, object]) -> None:
    line = json.dumps(begun) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    except OSError:
        pass  # the disk is full, by another fault
    finally:
        os.close(descriptor)


def wait_for_the_end_of(pause: Path) -> None:
    began = time.monotonic()
    while pause.exists() and time.monotonic() - began < LONGEST_PAUSE:
        time.sleep(0.05)


def step_on_a_mine(mines: Path) -> None:
    from faults import Fault  # of the tests; the workers' search path leads there

    for mine in sorted(mines.iterdir()):
        try:
            mine.rename(mine.parent.parent / "struck" / mine.name)
        except FileNotFoundError:
            continue
        Fault(mine.name.partition("-")[0], "").strike()
