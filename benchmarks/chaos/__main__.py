"""Runs a sweep during which many random faults occur, and checks its results.

Run: ``python -m benchmarks.chaos --cells 500 --faults 50 --seed 1``. A scheduler, three workers and
the command run as processes on this machine. The faults kill and stop these processes, and damage
the store; the command is repeated until every cell is ok. At the end the statistics are printed.
The exit code is 1 if a result was lost, was computed again although it was recorded, or differs
from that of a run without faults.
"""

import argparse
import secrets
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.chaos.run import Chaos


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    options.add_argument("--cells", type=int, default=500, help="least number of cells")
    options.add_argument("--faults", type=int, default=50, help="number of faults")
    options.add_argument("--seed", type=int, help="seed of the faults; random by default")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all processes are ended
    seed = secrets.randbelow(10**6) if chosen.seed is None else chosen.seed
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    print(f"seed {seed}, in {folder}", flush=True)
    say = partial(print, flush=True)
    figures = Chaos(folder, chosen.cells, chosen.faults, seed, say).perform()
    print("\n".join(figures.lines()))
    return int(bool(figures.findings))


if __name__ == "__main__":
    sys.exit(main())
