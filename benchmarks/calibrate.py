"""Measures what solves take against the work that their mechanisms declare, on this machine.

Writes ``sweep/plan/calibration.json``, which ``sweep plan`` and the packing of tasks go by. One
thread; a minute or two, with nothing else running.
"""

import json
import time
from dataclasses import asdict

import numpy as np
from threadpoolctl import threadpool_limits

from sweep.dataset.provenance import describe
from sweep.plan.calibration import FILE, Calibration, measured


def seconds_per_flop(size=1000, times=10):
    """CPU seconds of a floating-point operation of a matrix product: the least of several."""
    matrix = np.random.default_rng(0).standard_normal((size, size))
    best = np.inf
    for _ in range(times):
        started = time.process_time()
        matrix @ matrix
        best = min(best, time.process_time() - started)
    return best / (2 * size**3)


def main():
    with threadpool_limits(limits=1):
        factors = measured(seconds_per_flop())
    made = Calibration(
        machine=describe()["cpu_model"],
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        revision=describe()["git_revision"],
        factors={name: float(f"{factor:.2g}") for name, factor in factors.items()},
    )
    FILE.write_text(json.dumps(asdict(made), indent=1) + "\n", encoding="utf-8")
    for name, factor in made.factors.items():
        print(f"{name:20s} {factor:g}")


if __name__ == "__main__":
    main()
