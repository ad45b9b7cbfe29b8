"""Kronecker products with equal targets, solved factor by factor.

This reduction applies to mechanisms that can solve each factor separately: those with the method
``on_factors``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np

from solvers.dual.iteration import Stopping
from solvers.dual.programs import Weights
from solvers.forms.dense import QueryMatrix
from solvers.forms.orbits.marginal_problem import SingleOrbit
from solvers.forms.reduction import ObstacleError, Reduction, need_defaults
from solvers.mechanism import Mechanism, ProblemSize, Work, find
from solvers.noise.factorisation import Factorisation, ProductNoise
from solvers.problem import Problem, as_problem
from solvers.solution import Solution
from workloads import from_matrix
from workloads.operators import Kronecker
from workloads.operators.protocol import kron
from workloads.workload import LARGEST_LISTED

_SHARED_OPTIONS = frozenset({"tol", "max_iterations", "time_limit", "start"})
"""The options that need not be at their defaults on a product (`OnFactors`)."""
_NONE: Mapping[str, int] = {}


@dataclass(frozen=True, eq=False)
class Product(Reduction):
    """A single Kronecker product with equal targets.

    Attributes
    ----------
    factors : tuple of Problem
        The factors of the product, as problems with unit targets.
    target : float
        The variance bound of every query.
    """

    problem: Problem
    factors: tuple[Problem, ...]
    target: float

    @classmethod
    def of(cls, problem: Problem) -> "Product | None":
        """Split a problem into factors.

        None if the problem is a marginal or not a single product, or if its targets differ.
        """
        operator, targets = problem.workload.operator, problem.targets
        if not isinstance(operator, Kronecker) or len(operator.terms) > 1:
            return None
        if SingleOrbit.of(problem) or not np.all(targets == targets[0]):
            return None
        factors = (as_problem(from_matrix(factor, name="factor")) for factor in operator.terms[0])
        return cls(problem, tuple(factors), float(targets[0]))

    def check(self, mechanism: Mechanism) -> None:
        """Check that there is such a form, and that no option needs the query matrix."""
        if not isinstance(mechanism, OnFactors):
            raise ObstacleError("on a product it does not split into solves of the factors")
        need_defaults(mechanism, mechanism.params("matrix").keys() - _SHARED_OPTIONS)

    def solve(self, mechanism: Mechanism) -> Solution:
        """Solve by the mechanism's ``on_factors``."""
        assert isinstance(mechanism, OnFactors)
        return mechanism.on_factors(self)

    def lower_bound(self, stopping: Stopping) -> float:
        """Multiply the bounds of all factors, each of which has an equal share of the tolerance.

        Raises
        ------
        ObstacleError
            If a factor is too large.
        """
        share = replace(stopping, tol=stopping.tol / len(self.factors))
        matrices, optimal = [QueryMatrix(factor) for factor in self.factors], find("optimal")()
        for matrix in matrices:
            matrix.check(optimal)
        return prod(matrix.lower_bound(share) for matrix in matrices) / self.target

    def work(self, mechanism: Mechanism) -> Work:
        """Estimate the work of solving all factors, one after the other."""
        works = [mechanism.work(ProblemSize(*factor.workload.shape)) for factor in self.factors]
        shape = self.problem.workload.shape
        stored = 8.0 * sum(size if size <= LARGEST_LISTED else 1 for size in shape)
        return Work(sum(w.flops for w in works), stored + max(w.bytes for w in works))


@runtime_checkable
class OnFactors(Protocol):
    """A mechanism that solves a product with equal targets factor by factor.

    All options must be at their defaults, except ``tol``, ``max_iterations`` and ``time_limit``,
    which the factors share, and ``start``, which is ignored.
    """

    def on_factors(self, product: Product) -> Solution:
        """Solve the product, usually by `multiply`."""


def multiply(mechanism: Mechanism, product: Product, powers: Mapping[str, int] = _NONE) -> Solution:
    """Solve every factor, and multiply the answers.

    Parameters
    ----------
    powers : Mapping of str to int
        The measures that are products of the factors' measures, each with an exponent: the product
        is multiplied by the target raised to this exponent.
    """
    factors = product.factors
    changed: dict[str, object] = {"start": None} if "start" in mechanism.options else {}
    if "tol" in mechanism.options:
        # gaps multiply: (1 + tol of a factor)^(number of factors) = 1 + tol
        changed["tol"] = float(np.expm1(np.log1p(mechanism.options["tol"]) / len(factors)))
    of_factors = mechanism.replaced(**changed).until(mechanism.deadline)
    solved: list[Solution] = []
    noises: list[Factorisation] = []
    for factor in factors:
        solution = QueryMatrix(factor).solve(of_factors).confirmed()
        assert isinstance(solution.noise, Factorisation)
        solved.append(solution)
        noises.append(solution.noise)
    bounds = [part.known_lower_bound for part in solved]
    # Δ² of a product is the product of the factors' Δ² over the target, and so is its bound
    lower = prod(bound for bound in bounds if bound is not None) / product.target
    return Solution(
        mechanism.name,
        product.problem,
        ProductNoise(tuple(noises), product.target),
        known_lower_bound=None if None in bounds else lower,
        iterations=sum(part.iterations for part in solved),
        converged=all(part.converged for part in solved),
        timed_out=any(part.timed_out for part in solved),
        notes={"factors": len(factors), **_multiply_notes(solved)},
        weights=_multiply_weights([part.weights for part in solved]),
        measures={
            name: product.target**power * prod(part.measures[name] for part in solved)
            for name, power in powers.items()
        },
    )


def _multiply_notes(solved: Sequence[Solution]) -> dict[str, float]:
    """Compute the notes of the product from those of its factors.

    The total-error ratio of the product, which is ``total_error_gap`` plus 1, is the product of the
    factors' ratios. So is its profile ratio, which is 1 minus ``profile_slack``.
    """
    return {
        name: sign * float(np.expm1(sum(np.log1p(sign * part.notes[name]) for part in solved)))
        for name, sign in (("total_error_gap", 1), ("profile_slack", -1))
        if all(name in part.notes for part in solved)
    }


def _multiply_weights(weights: Sequence[Weights | None]) -> Weights | None:
    """Return the dual weights of all cells and queries that prove the product's lower bound.

    None if a factor has no weights, or if there are more than 10^7 cells or queries.
    """
    given = [of_factor for of_factor in weights if of_factor is not None]
    columns, queries = [of_factor.p for of_factor in given], [of_factor.q for of_factor in given]
    largest = max(prod(p.size for p in columns), prod(q.size for q in queries))
    if len(given) < len(weights) or largest > LARGEST_LISTED:
        return None
    return Weights(kron(columns), kron(queries))
