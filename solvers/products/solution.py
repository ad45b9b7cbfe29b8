"""What a solve of a Kronecker product returns: one mechanism for each factor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from math import prod
from typing import Any

import numpy as np
import scipy.sparse as sp

from solvers.certified import Certified
from solvers.errors import NotApplicableError
from solvers.method import Method, Work
from solvers.problem import Problem
from solvers.products.structure import factors
from solvers.solution import Solution
from solvers.stopping import Deadline
from workloads import QueryGraph, Workload
from workloads.operators import LARGEST_MATRIX_BYTES, Array, Kronecker, Matrix
from workloads.workload import LARGEST_LISTED

LARGEST_EXPANDED = 4096
"""Largest rank of a mechanism whose covariance a sweep keeps."""

_MULTIPLICATIVE = ("CA", "fisher", "GM", "IP", "optimal", "wCA-I", "wCA-II")
_SHARED_OPTIONS = ("tol", "max_iterations", "time_limit")


@dataclass(frozen=True, eq=False)
class ProductSolution(Certified):
    """A product of mechanisms, one for each attribute, that just meets equal targets.

    It answers the same questions as `solvers.Solution`.

    Attributes
    ----------
    method : str
        The method's name.
    problem : Problem
        The workload and its targets.
    parts : tuple of Solution
        The mechanism of each factor, with unit targets.
    runtime : float
        Wall-clock seconds of the solve alone.
    """

    method: str
    problem: Problem
    parts: tuple[Solution, ...]
    runtime: float = float("nan")

    @property
    def target(self) -> float:
        """The one target."""
        return float(self.problem.targets[0])

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² when all targets are met: the product over the factors, over the target."""
        return prod(part.squared_privacy_cost for part in self.parts) / self.target

    @cached_property
    def lower_bound(self) -> float:
        """A certified lower bound on Δ²: the product of the factors' bounds."""
        return prod(part.lower_bound for part in self.parts) / self.target

    @property
    def certified_bound(self) -> float | None:
        """The product of the bounds that the factors' solves came with; None if one did not."""
        own = [part.certified_bound for part in self.parts]
        if None in own:
            return None
        return prod(bound for bound in own if bound is not None) / self.target

    @property
    def iterations(self) -> int:
        """Outer iterations of all factors."""
        return sum(part.iterations for part in self.parts)

    @property
    def converged(self) -> bool:
        """Whether every factor reached its own stopping rule."""
        return all(part.converged for part in self.parts)

    @property
    def timed_out(self) -> bool:
        """Whether a factor stopped at its time limit instead."""
        return any(part.timed_out for part in self.parts)

    @property
    def notes(self) -> dict[str, Any]:
        """The number of factors that were solved."""
        return {"factors": len(self.parts)}

    @cached_property
    def query_variances(self) -> Array:
        """Shape (m,); the largest alone for more than 10^7 queries."""
        if self.problem.workload.m > LARGEST_LISTED:
            return np.array([self.target])
        return self.target * _kron([part.query_variances for part in self.parts])

    @cached_property
    def privacy_profile(self) -> Array:
        """Shape (d,); the largest entry alone for more than 10^7 cells."""
        if self.problem.workload.d > LARGEST_LISTED:
            return np.array([self.squared_privacy_cost])
        return _kron([part.privacy_profile for part in self.parts]) / self.target

    @property
    def total_variance(self) -> float:
        """Sum of the query variances when the targets are just met."""
        return self.target * prod(part.total_variance for part in self.parts)

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x when the targets are just met."""
        return prod(part.fisher_information for part in self.parts) / self.target

    @cached_property
    def basis(self) -> Array:
        """B, shape (k, d)."""
        return self._product("B", [part.basis for part in self.parts])

    @cached_property
    def representation(self) -> Matrix:
        """L, shape (m, k), CSR."""
        product = sp.csr_array(np.ones((1, 1)))
        for part in self.parts:
            product = sp.csr_array(sp.kron(product, part.representation))
        return product

    @cached_property
    def covariance(self) -> Array:
        """Of the noise on Bx, shape (k, k)."""
        return self.target * self._product("Σ", [part.covariance for part in self.parts])

    def timed(self, seconds: float) -> "ProductSolution":
        """The same solution with its runtime."""
        return replace(self, runtime=seconds)

    def record(self) -> dict[str, Any]:
        """The numbers that a sweep stores, by variable name."""
        known = self.certified_bound
        return {
            "squared_privacy_cost": self.squared_privacy_cost,
            "lower_bound": float("nan") if known is None else known,
            "total_variance": self.total_variance,
            "fisher_information": self.fisher_information,
            "iterations": self.iterations,
            "converged": self.converged,
        }

    def arrays(self) -> dict[str, Array]:
        """The arrays that a sweep keeps on request; the covariance only where it fits."""
        arrays = {
            "query_variances": self.query_variances,
            "privacy_profile": self.privacy_profile,
        }
        return arrays | ({"covariance": self.covariance} if self._fits else {})

    @property
    def _fits(self) -> bool:
        return prod(len(part.covariance) for part in self.parts) <= LARGEST_EXPANDED

    def _product(self, what: str, arrays: Sequence[Array]) -> Array:
        rows, columns = (prod(array.shape[i] for array in arrays) for i in (0, 1))
        if 8 * rows * columns > LARGEST_MATRIX_BYTES:
            raise NotApplicableError(
                f"{self.method}: {what} is not written out as a {rows} x {columns} matrix; "
                "use the factors in parts, which describe it entirely"
            )
        return _kron(arrays)


def solver(
    method: Method, problem: Problem, options: Mapping[str, Any]
) -> Callable[[], ProductSolution] | None:
    """The solve of a product factor by factor; None if it takes the query matrix.

    Parameters
    ----------
    method : Method
        The method asked for.
    problem : Problem
        The workload and its targets.
    options : Mapping[str, object]
        All options of the solve, defaults included.

    Returns
    -------
    callable or None
        None too where the method is not multiplicative, or an option other than
        ``tol``, ``max_iterations`` and ``time_limit`` differs from its default.
    """
    known = factors(problem)
    if known is None or method.name not in _MULTIPLICATIVE:
        return None
    for name, parameter in method.options_on("matrix").items():
        if name not in _SHARED_OPTIONS and options[name] != parameter.default:
            return None
    return partial(_solve, method, problem, known, options)


def expected_work(
    method: Method, workload: Workload | QueryGraph, options: Mapping[str, Any]
) -> Work | None:
    """The work of all factors of a product; None where the query matrix is taken."""
    if method.name not in _MULTIPLICATIVE or not isinstance(workload, Workload):
        return None
    operator = workload.operator
    if not isinstance(operator, Kronecker) or len(operator.terms) > 1:
        return None
    shapes = [(int(part.shape[0]), int(part.shape[1])) for part in operator.terms[0]]
    works = [method.expected_work(rows, columns, options) for rows, columns in shapes]
    m, d = workload.shape
    stored = 8.0 * (m if m <= LARGEST_LISTED else 1) + 8.0 * (d if d <= LARGEST_LISTED else 1)
    return Work(sum(w.flops for w in works), stored + max(w.bytes for w in works))


def _solve(
    method: Method, problem: Problem, parts: tuple[Problem, ...], options: Mapping[str, Any]
) -> ProductSolution:
    given = dict(options)
    if "tol" in given:
        given["tol"] = float(np.expm1(np.log1p(given["tol"]) / len(parts)))
    deadline = Deadline.after(given.get("time_limit"))
    solved = []
    for part in parts:
        if "time_limit" in given:
            given["time_limit"] = deadline.remaining
        solution = method.solver("matrix")(part, **given)
        if not isinstance(solution, Solution):
            raise NotApplicableError(f"{method.name}: its answer on a factor has no covariance")
        solved.append(solution.confirmed())
    return ProductSolution(method.name, problem, tuple(solved))


def _kron(arrays: Sequence[Array]) -> Array:
    return reduce(lambda left, right: np.asarray(np.kron(left, right)), arrays)
