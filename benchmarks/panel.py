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
import os
import statistics
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sp

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


def of_panel(family, d, rule, seed):
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
    return workload, targets(workload.m, rule, rng)


def targets(m, rule, rng):
    """Return the variance targets of m queries."""
    if rule == "unit":
        return np.ones(m)
    if rule == "decades":
        return 10.0 ** rng.uniform(-2, 2, m)
    return rng.integers(1, int(rule[3:]) + 1, m).astype(float)


def sparse(m, d, density):
    """Return a sparse matrix of zeros and ones."""
    rng = np.random.default_rng(0)
    filled = sp.random_array((m, d), density=density, rng=rng, format="csr")
    return filled.astype(bool).astype(float)


def random(m, d):
    """Return a matrix of random signs."""
    return np.random.default_rng(0).choice([-1.0, 1.0], size=(m, d))


def tree(leaves, children):
    """Return the counts of the root, of its children and of their leaves."""
    parents = leaves // children
    return np.vstack([np.ones(leaves), np.kron(np.eye(parents), np.ones(children)), np.eye(leaves)])


CENSUS = {"attributes": {"age": 40, "sex": 2, "race": 6}, "tables": [["age"], ["age", "sex"]]}
UNION = [["prefix:24", "identity:6"], ["all-range:24", "total:6"], ["total:24", "identity:6"]]
PRODUCT = [["prefix:24", "all-range:12"]]
MARGINALS = {"attributes": 5, "values": 4, "orders": [1, 2, 3]}
KINDS = {
    "tall": ("optimal", random, (2000, 80), "1..10", {}),
    "tall and sparse": ("optimal", sparse, (6000, 100, 0.03), "unit", {}),
    "wide": ("optimal", random, (80, 1000), "1..10", {}),
    "wide and sparse": ("optimal", sparse, (200, 4000, 0.005), "unit", {"tol": 1e-4}),
    "wide, sparse, large": ("optimal", sparse, (1000, 20_000, 0.005), "unit", {"tol": 1e-4}),
    "low rank": ("optimal", "wrelated", {"d": 256, "seed": 0}, "1..10", {}),
    "ranges": ("optimal", "range", {"d": 256, "seed": 0}, "unit", {}),
    "ranges, far targets": ("optimal", "range", {"d": 128, "seed": 0}, "decades", {}),
    "prefixes": ("optimal", "prefix", {"d": 512}, "unit", {}),
    "prefixes, targets": ("optimal", "prefix", {"d": 256}, "1..100", {}),
    "tree": ("optimal", tree, (180, 9), "unit", {}),
    "marginals": ("optimal", "marginals", MARGINALS, "unit", {}),
    "marginals, targets": ("optimal", "marginals", MARGINALS, "1..10", {"tol": 1e-4}),
    "census": ("optimal", "census", CENSUS | {"prefixes": ["age"]}, "unit", {}),
    "many groups": ("optimal", "kronecker", {"terms": UNION}, "1..10", {"tol": 1e-4}),
    "product": ("optimal", "kronecker", {"terms": PRODUCT}, "unit", {}),
    "replace-one": ("optimal", "prefix", {"d": 48}, "unit", {"neighbours": "replace-one"}),
    "refined": ("optimal", "range", {"d": 64, "seed": 0}, "1..10", {"refined": True}),
    "hybrid": ("optimal", "range", {"d": 128, "seed": 0}, "unit", {"total_error_weight": 0.1}),
    "total error": ("CA", "range", {"d": 256, "seed": 0}, "unit", {}),
    "total error, union": ("CA", "kronecker", {"terms": UNION}, "unit", {}),
    "soft maxima": ("SM-II", "range", {"d": 64, "seed": 0}, "1..10", {}),
    "hierarchy": ("HM", "prefix", {"d": 256}, "unit", {}),
}
"""Mechanism, workload family or matrix, its parameters, rule of the targets, and options."""


def of_kind(name):
    """Return the arguments and options of a solve."""
    mechanism, family, params, rule, options = KINDS[name]
    if isinstance(family, str):
        workload = workloads.make(family, **params)
    else:
        workload = workloads.from_matrix(family(*params))
    return (mechanism, workload, targets(workload.m, rule, np.random.default_rng(0))), options


def measured(case, tol):
    """Return the cost of solving one problem, and the gap."""
    if len(case) == 1:
        arguments, options = of_kind(*case)
    else:
        arguments, options = ("optimal", *of_panel(*case)), {"tol": tol}
    started = time.process_time()
    found = solvers.solve(*arguments, **options)
    return {
        "cpu_s": time.process_time() - started,
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
    parser.add_argument("part", choices=[*sorted(SEEDS), "kinds"], default="chosen", nargs="?")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", nargs="+", default=list(KINDS))
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    checkouts = [Path(__file__).resolve().parents[1]] + ([args.against] if args.against else [])
    servers = [Server(checkout.resolve()) for checkout in checkouts]
    kinds = ((name,) for name in args.only)
    ratios = {}
    for case in kinds if args.part == "kinds" else cases(args.part, args.sizes):
        pairs = [[server(case, args.tol) for server in servers] for _ in range(args.pairs)]
        ratio = statistics.median(pair[0]["cpu_s"] / pair[-1]["cpu_s"] for pair in pairs)
        best = [min(runs, key=lambda run: run["cpu_s"]) for runs in zip(*pairs, strict=True)]
        print(*case, *(" ".join(f"{k}={v:.3g}" for k, v in one.items()) for one in best), sep="  ")
        print(f"  {ratio:.2f} of the other's time", flush=True)
        ratios.setdefault(case[0], []).append(ratio)
    for family, found in ratios.items():
        mean = statistics.geometric_mean(found)
        print(f"{family}: {mean:.3f} of the other's time, {min(found):.2f} to {max(found):.2f}")


if __name__ == "__main__":
    main()
