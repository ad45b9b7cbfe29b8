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

from sweep.plan.tasks import Solve
from sweep.store.journal import run_of
from sweep.worker import perform, solve

MINES, PAUSE, SLOW, BEGUN = "mines", "pause", "slow", "begun.jsonl"
LONGEST_PAUSE = 60.0


def dask_setup(worker) -> None:
    install(Path(os.environ["CHAOS_FOLDER"]))


def install(folder: Path) -> None:
    """Make this process note in the folder what it begins, and step on the mines there."""
    run_solver, time_limited, recording = solve.run_solver, perform.time_limited, perform.recording
    perform.GRACE_SECONDS, perform.LIMIT_FACTOR = 3.0, 1.0

    def slower(item, *rest):
        step_on_a_mine(folder / MINES)
        if (folder / SLOW).exists():
            time.sleep(0.05 + zlib.crc32(item.key.encode()) % 300 / 1000)
        return run_solver(item, *rest)

    @contextmanager
    def timed(task, view):
        """Noting when it looks for what is recorded already, before anything begins."""
        since = time.time()
        with recording(task, view) as records:
            records.looked = {"run": run_of(task.name), "since": since, "until": time.time()}
            yield records

    @contextmanager
    def noted(item, records, *, nanny):
        wait_for_the_end_of(folder / PAUSE)
        note(folder / BEGUN, item, records.looked)
        with time_limited(item, records, nanny=nanny):
            yield

    solve.run_solver, perform.time_limited, perform.recording = slower, noted, timed


def note(path: Path, item, looked) -> None:
    about = item.key if isinstance(item, Solve) else f"bound {item.problem}"
    line = json.dumps({"about": about, **looked}) + "\n"
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
