"""Pauses a worker of a chaos run, triggers mines, and slows solves down; every worker loads it.

The environment variable ``CHAOS_FOLDER`` is the run's folder. A mine is a file in this folder that
`benchmarks.chaos.havoc` creates. The first solve that finds the file removes it, and then fails in
the way that the file's name says.
"""

import os
import time
import zlib
from contextlib import contextmanager
from pathlib import Path

from sweep.worker import perform, solve

MINES, PAUSE, SLOW = "mines", "pause", "slow"
LONGEST_PAUSE = 60.0


def dask_setup(worker) -> None:
    install(Path(os.environ["CHAOS_FOLDER"]))


def install(folder: Path) -> None:
    """Make the solves of this process wait for the pause's end, trigger mines, and slow down."""
    run_solver, limit_time = solve.run_solver, perform.limit_time
    perform.GRACE_SECONDS, perform.LIMIT_FACTOR = 3.0, 1.0

    def slower(one, *rest):
        step_on_a_mine(folder / MINES)
        if (folder / SLOW).exists():
            time.sleep(0.05 + zlib.crc32(one.key.encode()) % 300 / 1000)
        return run_solver(one, *rest)

    @contextmanager
    def paused(one, recording, *, nanny):
        wait_for_the_end_of(folder / PAUSE)
        with limit_time(one, recording, nanny=nanny):
            yield

    solve.run_solver, perform.limit_time = slower, paused


def wait_for_the_end_of(pause: Path) -> None:
    began = time.monotonic()
    while pause.exists() and time.monotonic() - began < LONGEST_PAUSE:
        time.sleep(0.05)


def step_on_a_mine(mines: Path) -> None:
    from faults import Fault  # tests/sweep/faults.py, which is on the workers' module path

    for mine in sorted(mines.iterdir()):
        try:
            mine.rename(mine.parent.parent / "struck" / mine.name)
        except FileNotFoundError:
            continue
        Fault(mine.name.partition("-")[0], "").strike()
