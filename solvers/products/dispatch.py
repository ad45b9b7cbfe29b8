"""Which solves of a Kronecker product go factor by factor, and what they take."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from solvers.dual import Weights
from solvers.factorisation import Factorisation
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.products.noise import ProductNoise, kron
from solvers.products.structure import factors
from solvers.solution import Solution
from solvers.stopping import Deadline
from workloads import QueryGraph, Workload
from workloads.operators import Kronecker
from workloads.workload import LARGEST_LISTED

_MULTIPLICATIVE = ("CA", "fisher", "GM", "IP", "optimal", "wCA-I", "wCA-II")
_SHARED_OPTIONS = ("tol", "max_iterations", "time_limit", "start")


def solver(
    mechanism: Mechanism, problem: Problem, options: Mapping[str, Any]
) -> Callable[[], Solution] | None:
    """The solve of a product factor by factor; None if it takes the query matrix.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism asked for.
    problem : Problem
        The workload and its targets.
    options : Mapping[str, object]
        All options of the solve, defaults included.

    Returns
    -------
    callable or None
        None too where the mechanism is not multiplicative, or an option other than ``tol``,
        ``max_iterations``, ``time_limit`` and ``start``, which is not used here, differs from
        its default.
    """
    known = factors(problem)
    if known is None or mechanism.name not in _MULTIPLICATIVE:
        return None
    for name, parameter in mechanism.options_on("matrix").items():
        if name not in _SHARED_OPTIONS and options[name] != parameter.default:
            return None
    return partial(_solve, mechanism, problem, known, options)


def expected_work(
    mechanism: Mechanism, workload: Workload | QueryGraph, options: Mapping[str, Any]
) -> Work | None:
    """The work of all factors of a product; None where the query matrix is taken."""
    if mechanism.name not in _MULTIPLICATIVE or not isinstance(workload, Workload):
        return None
    operator = workload.operator
    if not isinstance(operator, Kronecker) or len(operator.terms) > 1:
        return None
    shapes = [(int(part.shape[0]), int(part.shape[1])) for part in operator.terms[0]]
    works = [mechanism.expected_work(rows, columns, options) for rows, columns in shapes]
    m, d = workload.shape
    stored = 8.0 * (m if m <= LARGEST_LISTED else 1) + 8.0 * (d if d <= LARGEST_LISTED else 1)
    return Work(sum(w.flops for w in works), stored + max(w.bytes for w in works))


def _solve(
    mechanism: Mechanism, problem: Problem, parts: tuple[Problem, ...], options: Mapping[str, Any]
) -> Solution:
    given = {name: value for name, value in options.items() if name != "start"}
    if "tol" in given:
        given["tol"] = float(np.expm1(np.log1p(given["tol"]) / len(parts)))
    deadline = Deadline.after(given.get("time_limit"))
    solved: list[Solution] = []
    noises: list[Factorisation] = []
    for part in parts:
        if "time_limit" in given:
            given["time_limit"] = deadline.remaining
        found = mechanism.solver("matrix")(part, **given).confirmed()
        solved.append(found)
        noises.append(found.noise)
    target = float(problem.targets[0])
    bounds = [part.known_lower_bound for part in solved]
    known = prod(bound for bound in bounds if bound is not None) / target
    return Solution(
        mechanism.name,
        problem,
        ProductNoise(tuple(noises), target),
        known_lower_bound=None if None in bounds else known,
        iterations=sum(part.iterations for part in solved),
        converged=all(part.converged for part in solved),
        timed_out=any(part.timed_out for part in solved),
        notes={"factors": len(parts)},
        weights=_product([part.weights for part in solved]),
    )


def _product(weights: Sequence[Weights | None]) -> Weights | None:
    """The weights that prove the product of the factors' bounds; none of over 10^7 entries."""
    known = [one for one in weights if one is not None]
    columns, queries = [one.p for one in known], [one.q for one in known]
    largest = max(prod(p.size for p in columns), prod(q.size for q in queries))
    if len(known) < len(weights) or largest > LARGEST_LISTED:
        return None
    return Weights(kron(columns), kron(queries))
