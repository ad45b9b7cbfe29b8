"""The cost of `optimal` on a panel of problems, one half for tuning and the other for reporting.

Run: ``python -m benchmarks.panel [--half chosen|reported] [--against CHECKOUT] [--sizes 64 256]``.
Settings are chosen on the first half only. ``--half symmetric --sizes 256 1024 --tol 1e-4`` solves
problems that stay the same if the order of their cells is reversed. For each problem, the program
prints the CPU time divided by that of one ``scipy.linalg.eigh`` of a d x d matrix, and the numbers
of Newton steps, spectra (eigendecompositions) and matrix products. With another checkout of the
project, each problem is solved with the code of both checkouts.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import scipy.linalg as sla

import solvers
import workloads

TARGETS = ("unit", "1..10", "1..100", "decades")
FAMILIES = {
    "chosen": ("prefix", "range", "random"),
    "reported": ("prefix", "range", "random", "all-range", "wrelated", "identity-sum", "marginals"),
    "symmetric": ("all-range", "both-ends", "windows"),
}
SEEDS = {"chosen": (10, 11), "reported": (20, 21), "symmetric": (30,)}
SIZES = (64, 128, 256)
LARGEST_ALL_RANGE = 128


def cases(half, sizes):
    """Yield the problems of one half as tuples (family, domain cells, targets rule, seed)."""
    rules = ("unit",) if half == "symmetric" else TARGETS
    for family, d, rule, seed in product(FAMILIES[half], sizes, rules, SEEDS[half]):
        fixed = family not in {"range", "random", "wrelated"} and rule == "unit"
        small = half == "symmetric" or family != "all-range" or d <= LARGEST_ALL_RANGE
        if small and not (fixed and seed != SEEDS[half][0]):
            yield family, d, rule, seed


def problem(family, d, rule, seed):
    """Return a workload and its targets; only prefixes and all ranges keep their structure."""
    rng = np.random.default_rng(seed)
    if family == "random":
        workload = workloads.from_matrix(rng.choice([-1.0, 1.0], size=(2 * d, d)))
    elif family == "both-ends":
        workload = workloads.from_matrix(np.vstack([np.tri(d), np.tri(d)[::-1, ::-1]]))
    elif family == "windows":  # of a quarter of the cells, at every position
        workload = workloads.from_matrix(np.tri(d, d, d // 8) - np.tri(d, d, -(d // 8) - 1))
    elif family == "marginals":
        marginals = workloads.make(
            "marginals", attributes=d.bit_length() - 1, values=2, orders=[1, 2]
        )
        workload = workloads.from_matrix(marginals.dense)
    elif family == "identity-sum":
        workload = workloads.from_matrix(workloads.make(family, d=d).dense)
    else:
        seeded = {"seed": seed} if family in {"range", "wrelated"} else {}
        workload = workloads.make(family, d=d, **seeded)
    m = workload.m
    if rule == "unit":
        return workload, np.ones(m)
    if rule == "decades":
        return workload, 10.0 ** rng.uniform(-2, 2, m)
    return workload, rng.integers(1, int(rule[3:]) + 1, m).astype(float)


def unit_seconds(d):
    """Return the CPU seconds of ``scipy.linalg.eigh`` for a d x d matrix: the least of several."""
    matrix = np.random.default_rng(0).standard_normal((d, d))
    symmetric = matrix @ matrix.T
    return min(cpu_seconds(lambda: sla.eigh(symmetric))[0] for _ in range(5 if d < 512 else 2))


def cpu_seconds(call):
    """Return the CPU seconds of a call, and its result."""
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def measured(case, tol):
    """Return the cost of solving one problem, and the gap; of several solves, the fastest."""
    workload, targets = problem(*case)
    repeats = 3 if case[1] <= 256 else 1
    unit = unit_seconds(case[1])
    runs = [
        cpu_seconds(lambda: solvers.solve("optimal", workload, targets, tol=tol))
        for _ in range(repeats)
    ]
    seconds, found = min(runs, key=lambda run: run[0])
    return {
        "eigh": seconds / unit,
        "steps": found.iterations,
        "spectra": found.notes.get("factorisations", 0),
        "products": found.notes.get("products", 0),
        "gap": found.gap,
    }


def serve():
    """Solve the problems that standard input names, one per line, and print the costs."""
    for line in sys.stdin:
        case, tol = json.loads(line)
        print(json.dumps(measured(tuple(case), tol)), flush=True)


class Server:
    """A process that solves problems with the code of one checkout, on one thread."""

    def __init__(self, checkout):
        paths = {"PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | paths,
        )

    def __call__(self, case, tol):
        print(json.dumps([case, tol]), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=sorted(SEEDS), default="chosen")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    checkouts = [Path(__file__).resolve().parents[1]] + ([args.against] if args.against else [])
    servers = [Server(checkout.resolve()) for checkout in checkouts]
    ratios = {}
    for case in cases(args.half, args.sizes):
        found = [server(case, args.tol) for server in servers]
        print(*case, *(" ".join(f"{k}={v:.3g}" for k, v in one.items()) for one in found), sep="  ")
        sys.stdout.flush()
        ratios.setdefault(case[0], []).append(found[0]["eigh"] / found[-1]["eigh"])
    for family, found in ratios.items():
        mean = math.exp(np.mean(np.log(found)))
        print(f"{family}: {mean:.3f} of the other's time, {min(found):.2f} to {max(found):.2f}")


if __name__ == "__main__":
    main()
