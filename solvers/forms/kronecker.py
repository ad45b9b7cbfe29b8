"""Kronecker products with equal targets, solved factor by factor.

This reduction applies to mechanisms that can solve each factor separately: those with the method
``on_factors``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np

from solvers.dual.iteration import Deadline, Stopping
from solvers.dual.programs import Weights
from solvers.forms import reduction
from solvers.forms.dense import solve_dense
from solvers.forms.orbits.marginal_problem import single_orbit
from solvers.forms.reduction import Obstacle, Reduction, needs_matrix
from solvers.mechanism import Mechanism, ProblemSize, Work
from solvers.noise.factorisation import Factorisation
from solvers.noise.product import ProductNoise
from solvers.problem import Problem, as_problem
from solvers.solution import Solution
from workloads import from_matrix
from workloads.operators import Kronecker
from workloads.operators.protocol import kron
from workloads.workload import LARGEST_LISTED

_SHARED_OPTIONS = frozenset({"tol", "max_iterations", "time_limit", "start"})
_NONE: Mapping[str, int] = {}


@dataclass(frozen=True, eq=False)
class Product:
    """A single Kronecker product with equal targets.

    Attributes
    ----------
    parts : tuple of Problem
        The factors of the product, as problems with unit targets.
    target : float
        The variance bound of every query.
    """

    problem: Problem
    parts: tuple[Problem, ...]
    target: float


@runtime_checkable
class OnFactors(Protocol):
    """A mechanism that solves a product with equal targets factor by factor.

    All options must be at their defaults, except ``tol``, ``max_iterations`` and ``time_limit``,
    which the factors share, and ``start``, which is ignored.
    """

    def on_factors(self, product: Product) -> Solution:
        """Solve the product, usually by `multiply`."""


def _product(problem: Problem) -> Product | None:
    """Split a problem into factors.

    None if the problem is a marginal or not a single product, or if its targets differ.
    """
    operator, targets = problem.workload.operator, problem.targets
    if not isinstance(operator, Kronecker) or len(operator.terms) > 1 or single_orbit(problem):
        return None
    if not np.all(targets == targets[0]):
        return None
    parts = tuple(as_problem(from_matrix(part, name="factor")) for part in operator.terms[0])
    return Product(problem, parts, float(targets[0]))


def _obstacle(mechanism: Mechanism, product: Product) -> Obstacle:
    if not isinstance(mechanism, OnFactors):
        return "on a product it does not split into solves of the factors"
    return needs_matrix(mechanism, mechanism.params("matrix").keys() - _SHARED_OPTIONS)


def _solve(mechanism: Mechanism, product: Product) -> Solution:
    assert isinstance(mechanism, OnFactors)
    return mechanism.on_factors(product)


def multiply(mechanism: Mechanism, product: Product, powers: Mapping[str, int] = _NONE) -> Solution:
    """Solve every factor, and multiply the answers.

    Parameters
    ----------
    powers : Mapping of str to int
        The measures that are products of the factors' measures, each with an exponent: the product
        is multiplied by the target raised to this exponent.
    """
    parts = product.parts
    given = {name: value for name, value in mechanism.options.items() if name != "start"}
    if "tol" in given:
        given["tol"] = float(np.expm1(np.log1p(given["tol"]) / len(parts)))
    deadline = Deadline.after(given.get("time_limit"))
    solved: list[Solution] = []
    noises: list[Factorisation] = []
    for part in parts:
        if "time_limit" in given:
            given["time_limit"] = deadline.remaining
        solution = solve_dense(type(mechanism)(**given), part).confirmed()
        assert isinstance(solution.noise, Factorisation)
        solved.append(solution)
        noises.append(solution.noise)
    bounds = [part.known_lower_bound for part in solved]
    known = prod(bound for bound in bounds if bound is not None) / product.target
    return Solution(
        mechanism.name,
        product.problem,
        ProductNoise(tuple(noises), product.target),
        known_lower_bound=None if None in bounds else known,
        iterations=sum(part.iterations for part in solved),
        converged=all(part.converged for part in solved),
        timed_out=any(part.timed_out for part in solved),
        notes={"factors": len(parts), **_notes(solved)},
        weights=_weights([part.weights for part in solved]),
        measures={
            name: product.target**power * prod(part.measures[name] for part in solved)
            for name, power in powers.items()
        },
    )


def _notes(solved: Sequence[Solution]) -> dict[str, float]:
    """Compute the notes of the product from those of its factors.

    The total-error ratio of the product, which is ``total_error_gap`` plus 1, is the product of the
    factors' ratios. So is its profile ratio, which is 1 minus ``profile_slack``.
    """
    return {
        name: sign * float(np.expm1(sum(np.log1p(sign * part.notes[name]) for part in solved)))
        for name, sign in (("total_error_gap", 1), ("profile_slack", -1))
        if all(name in part.notes for part in solved)
    }


def _weights(weights: Sequence[Weights | None]) -> Weights | None:
    """The dual weights of all cells and queries that prove the product's lower bound.

    None if a factor has no weights, or if there are more than 10^7 cells or queries.
    """
    known = [factor for factor in weights if factor is not None]
    columns, queries = [factor.p for factor in known], [factor.q for factor in known]
    largest = max(prod(p.size for p in columns), prod(q.size for q in queries))
    if len(known) < len(weights) or largest > LARGEST_LISTED:
        return None
    return Weights(kron(columns), kron(queries))


def _lower_bound(product: Product, stopping: Stopping) -> float:
    share = stopping.tol / len(product.parts)
    bounds = (
        reduction.lower_bound(part, share, stopping.max_iterations, stopping.deadline.remaining)
        for part in product.parts
    )
    return prod(bounds) / product.target


def _work(mechanism: Mechanism, product: Product) -> Work:
    """The expected work of solving all factors, one after the other."""
    works = [mechanism.work(ProblemSize(*part.workload.shape)) for part in product.parts]
    shape = product.problem.workload.shape
    stored = 8.0 * sum(size if size <= LARGEST_LISTED else 1 for size in shape)
    return Work(sum(w.flops for w in works), stored + max(w.bytes for w in works))


REDUCTION = Reduction(
    "Kronecker product, factor by factor", 20, _product, _solve, _lower_bound, _work, _obstacle
)
