"""Measures what solves take against the work that their mechanisms declare, on this machine.

Writes ``sweep/plan/calibration.json``, which ``sweep plan`` and the packing of tasks go by. One
thread; a minute or two, with nothing else running. With names of mechanisms as arguments only
these are measured, and the others stay as they are in the file, its machine and date too.
"""

import json
import sys
import time
from dataclasses import asdict, replace

import numpy as np
from threadpoolctl import threadpool_limits

from sweep.dataset.provenance import describe
from sweep.plan.calibration import FILE, Calibration, calibration, measured


def seconds_per_flop(size=1000, times=10):
    """CPU seconds of a floating-point operation of a matrix product: the least of several."""
    matrix = np.random.default_rng(0).standard_normal((size, size))
    best = np.inf
    for _ in range(times):
        started = time.process_time()
        matrix @ matrix
        best = min(best, time.process_time() - started)
    return best / (2 * size**3)


def main(names):
    with threadpool_limits(limits=1):
        factors = {
            name: float(f"{factor:.2g}")
            for name, factor in measured(seconds_per_flop(), names).items()
        }
    if names:
        known = calibration()
        made = replace(known, factors={**known.factors, **factors})
    else:
        made = Calibration(
            machine=describe()["cpu_model"],
            date=time.strftime("%Y-%m-%d", time.gmtime()),
            revision=describe()["git_revision"],
            factors=factors,
        )
    FILE.write_text(json.dumps(asdict(made), indent=1) + "\n", encoding="utf-8")
    for name, factor in made.factors.items():
        print(f"{name:20s} {factor:g}")


if __name__ == "__main__":
    main(sys.argv[1:])
