"""The answers of every mechanism and workload family on a small panel of problems.

``python tests/solvers/answers.py [NAME ...]`` stores the answers of those mechanisms and families
(of all without names) in ``answers.json`` beside this file, with their revisions.
"""

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
import scipy
import threadpoolctl

import solvers
import workloads
from solvers import dual
from solvers.dual.iteration import Stopping
from solvers.forms.solving import lower_bound
from solvers.problem import as_problem
from solvers.problem.neighbours import as_neighbours
from workloads.graphs import QueryGraph

STORED = Path(__file__).with_name("answers.json")
OPTIMISER = "the dual's optimiser"
ITERATIVE = (
    *("COA", "ESM", "GD", "ResidualPlanner+", "SM-II", "optimal"),
    *("published-CA", "published-SM-II"),
)
"""Mechanisms that stop within a tolerance, at a point that depends on each step's rounding."""
_NOT_COMPARED = ("iterations", "converged", "curve", "kind", "gradient_rise")

_ORDERED = {"attributes": 2, "values": [4, 2], "orders": [1], "prefixes": [0]}
_TABLES = {"attributes": {"age": 4, "sex": 2}, "tables": [["age"], ["age", "sex"]]}
FAMILIES = {
    "age": [{}, {"voting_age": False}],
    "all-range": [{"d": 5}],
    "average": [{"n": 4}, {"n": 3, "weights": [0.25, 0.25, 0.5]}],
    "census": [_TABLES, {**_TABLES, "prefixes": ["age"]}, {**_TABLES, "ranges": ["age"]}],
    "counting": [{"n": 5}],
    "cycle": [{"n": 5}],
    "dynamics": [{"A": [[0.5, 0.1], [0.0, 0.9]], "C": [[1.0, 1.0]], "T": 4}],
    "edge-list": [{"edges": [[0, 1], [1, 2], [2, 3], [3, 0]]}],
    "hamming": [{"u": 2, "values": 3}],
    "identity-sum": [{"d": 6}],
    "k-count": [{"u": 3}],
    "kronecker": [{"terms": [["prefix:3", "identity:2"], ["total:3", "identity:2"]]}],
    "marginals": [{}, {"values": [4, 2, 3], "orders": [2], "prefixes": [0]}],
    "pl94": [{}],
    "prefix": [{"d": 6}],
    "published-age": [{}, {"identity": True}],
    "published-random": [{"d": 6}, {"d": 6, "bounds": "important"}],
    "published-range": [{"d": 6}, {"d": 6, "bounds": "random"}],
    "published-related": [{"d": 6}],
    "random": [{"d": 6, "m": 5, "probability": 0.5, "seed": 1}],
    "range": [{"d": 8, "m": 12, "seed": 3}],
    "sum": [{"u": 2, "v": 3}],
    "wdiscrete": [{"d": 6, "m": 9, "seed": 2}],
    "wmarginal": [{"d": 8, "m": 9, "seed": 2}],
    "wrange": [{"d": 8, "m": 9, "seed": 2}],
    "wrelated": [{"d": 8, "m": 6, "s": 3, "seed": 2}],
}
"""Parameters of the workloads from every family except those that read a file."""

PROBLEMS = {
    "average": ("average", {"n": 4}, [0.01], "add-remove"),
    "prefix": ("prefix", {"d": 6}, None, "add-remove"),
    "ranges": ("range", {"d": 8, "m": 12, "seed": 3}, range(1, 13), "add-remove"),
    "deficient": ("wrelated", {"d": 8, "m": 6, "s": 3, "seed": 2}, range(1, 7), "add-remove"),
    "marginals": ("marginals", {"values": [2, 3, 2]}, None, "add-remove"),
    "ordered marginals": ("marginals", _ORDERED, None, "add-remove"),
    "identity and sum": ("identity-sum", {"d": 6}, None, "add-remove"),
    "kronecker": ("kronecker", FAMILIES["kronecker"][0], None, "add-remove"),
    "replaced": ("prefix", {"d": 5}, None, "replace-one"),
    "counting": ("counting", {"n": 5}, None, "add-remove"),
    "cycle": ("cycle", {"n": 5}, None, "add-remove"),
    "hamming": ("hamming", {"u": 2, "values": 3}, None, "add-remove"),
}
"""Family, parameters, targets and neighbours."""

OPTIONS = {
    "COA": {"published": {"preset": "published"}},
    "DAWA": {"published": {"preset": "published"}},
    "fisher-bounded": {"data": {"on": "data"}, "sloped": {"on": "data", "slope": 0.5}},
    "geometric": {"data": {"on": "data"}, "corner": {"prior": "corner:1"}},
    "laplace": {"data": {"on": "data"}},
    "GD": {"": {"max_iterations": 10}},
    "HM": {"branching": {"branching": 3}},
    "published-SM-II": {"": {"smoothing": 1.0}},  # 1e-3 takes five times as long
    "optimal": {
        "refined": {"refined": True},
        "hybrid": {"total_error_weight": 0.1},
        "personal": {"profile_bounds": [1.0, 2.0, 1.0, 2.0, 1.0, 1.0]},
    },
    "ResidualPlanner": {"maximum": {"objective": "max-variance"}},
    "SM-II": {"published": {"preset": "published"}, "hybrid": {"total_error_weight": 0.1}},
    "tight-constraints": {"least epsilon": {"find_least_epsilon": True}},
}
"""Options of every variant; the one without a name has the defaults unless it is here."""


def of_mechanism(name):
    """The numbers of every answer, by problem; or the kind of its error."""
    mechanism = solvers.all_mechanisms()[name]
    answers = {}
    for label, problem in PROBLEMS.items():
        workload, *asked = _made(*problem)
        kind = "graph" if isinstance(workload, QueryGraph) else "matrix"
        if kind not in mechanism.workload_kinds:
            continue
        for variant, options in {"": {}, **OPTIONS.get(name, {})}.items():
            if {*options} <= {"preset", *mechanism.params(kind)}:
                numbers = _numbers(name, workload, *asked, options)
                answers[f"{label} {variant}".strip()] = numbers
    return answers


def _numbers(name, workload, targets, neighbours, options):
    try:
        found = solvers.solve(name, workload, targets, neighbours=neighbours, **options).record()
    except (solvers.SolverError, workloads.WorkloadError) as error:
        return type(error).__name__
    kept = {**found, **(found.get("curve") or {})}
    numeric = {n: v for n, v in kept.items() if np.asarray(v).dtype.kind in "biuf"}
    sums = {n: float(np.sum(v)) for n, v in numeric.items() if n not in _NOT_COMPARED}
    return {n: v for n, v in sums.items() if np.isfinite(v)}


def numerics():
    """The libraries, kernels and vector instructions whose rounding affects an iteration's steps.

    Other libraries with a BLAS of their own, which other tests may have loaded, do not count.
    """
    kernels = {
        library["architecture"]
        for library in threadpoolctl.threadpool_info()
        if {"numpy.libs", "scipy.libs"} & {*Path(library["filepath"]).parts}
    }
    simd = np.show_config("dicts")["SIMD Extensions"]["found"]
    versions = f"numpy {np.__version__}, scipy {scipy.__version__}"
    return f"{versions}, {', '.join([*sorted(kernels), *simd])}"


def of_family(name):
    """Size, squares and two products of every workload of the family."""
    return {str(number): _size(name, params) for number, params in enumerate(FAMILIES[name])}


def _size(name, params):
    made = workloads.make(name, **params)
    if isinstance(made, QueryGraph):
        m, d = map(int, made.shape)
        starts, ends = made.edges
        return {"m": m, "d": d, "edges": len(starts), "ends": float((starts + 100 * ends).sum())}
    m, d = made.shape
    matrix = made.matrix.toarray() if hasattr(made.matrix, "toarray") else np.asarray(made.matrix)
    product = np.sin(np.arange(m)) @ matrix @ np.cos(np.arange(d))
    return {"m": m, "d": d, "squares": float(np.square(matrix).sum()), "product": float(product)}


def of_optimiser():
    """The certified lower bound of every problem with a query matrix."""
    bounds = {}
    for label, written in PROBLEMS.items():
        workload, targets, neighbours = _made(*written)
        if not isinstance(workload, QueryGraph):
            problem = as_problem(workload, targets, as_neighbours(neighbours))
            bounds[label] = {"bound": float(lower_bound(problem, Stopping(1e-4, 100)))}
    return bounds


def _made(family, params, targets, neighbours):
    bounds = None if targets is None else np.array(targets, dtype=float)
    return workloads.make(family, **params), bounds, neighbours


def panel():
    """Revision and answers of everything on the panel, each computed on request."""
    everything = {OPTIMISER: (dual.REVISION, of_optimiser)}
    for name, one in solvers.all_mechanisms().items():
        if not one.runs_code and not one.foreign:
            everything[name] = one.revision, partial(of_mechanism, name)
    for name in FAMILIES:
        revision = workloads.families()[name].revision
        everything[f"workload {name}"] = revision, partial(of_family, name)
    return everything


def main():
    """Store the answers of the named mechanisms and families."""
    everything = panel()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or [*everything]
    if unknown := [name for name in names if name not in everything]:
        parser.error(f"not on the panel: {', '.join(unknown)}; expected {', '.join(everything)}")
    stored = json.loads(STORED.read_text()) if len(names) < len(everything) else {}
    stored["numerics"] = numerics()
    for name in names:
        revision, answers = everything[name]
        stored[name] = {"revision": revision, "answers": answers()}
    STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
