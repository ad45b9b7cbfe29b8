"""ResidualPlanner+: ResidualPlanner with prefixes, ranges or any queries of ordered attributes.

He, Xiao, Toksoz, Ding, Zhang and Kifer (arXiv 2305.08175v5). Attribute i has n_i values and one
matrix of queries W_i. A table T is a set of attributes; its queries are the Kronecker product of
W_i for the attributes in T and of the total for all others. Each set S of attributes has one base
mechanism: independent noise of variance σ_S² on the Kronecker product of R_i for the attributes in
S and of the total for all others. R_i is a strategy for W_i from which the mean of each row is
subtracted (R_i 1 = 0). With G_i = R_iᵀ R_i, the contributions of S to the privacy cost and to the
total variance are products, too:

    p_S = prod over S of max diag(G_i)
    V_S = sum over the tables T that contain S of
              prod over S of tr(W_i G_i⁺ W_iᵀ) * prod over T without S of ‖W_i 1‖² / n_i²,

and σ_S² ∝ sqrt(p_S / V_S) gives the least total variance, (sum of sqrt(p_S V_S))². For a
categorical attribute W_i is the identity and R_i is I - J/n_i with the matrix J of ones, as in
ResidualPlanner. For any other attribute R_i is the strategy of least total variance for
W_i (I - J/n_i) and the total together, from which the mean of each row is then subtracted. This
strategy is our interpretation: of several natural interpretations, only this one reproduces the
results of the authors' public code (docs/marginals.md). ResidualPlanner+ is not optimal on ordered
attributes; `CA` is.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations
from math import prod, sqrt

import numpy as np
import scipy

from solvers.dual.iteration import Deadline
from solvers.errors import NotApplicableError
from solvers.forms.orbits import ProductOrbits, SingleOrbit
from solvers.forms.orbits.orbit_noise import OrbitsNoise
from solvers.forms.orbits.orbit_problem import Part, orbit_problem
from solvers.forms.orbits.products import INDICATORS, Attribute
from solvers.mechanism import Mechanism, ProblemSize, Work
from solvers.mechanisms.ca import CA
from solvers.mechanisms.residual_planner import minimise_total_variance
from solvers.noise.factorisation import Factorisation
from solvers.noise.verification import from_right_inverse
from solvers.problem import Problem, as_problem
from solvers.problem.row_space import singular_rows
from solvers.solution import Solution
from solvers.strategy import from_strategy
from workloads.operators import Array, Explicit, QueryOperator, dense
from workloads.parameters import Seconds

_NAME = "ResidualPlanner+"

Subset = frozenset[int]


@dataclass(frozen=True)
class Axis:
    """Factors that an attribute i contributes to p_S and V_S, inside and outside the set S.

    Attributes
    ----------
    cost : float
        Largest diagonal entry of G_i, the factor of p_S if the attribute is in S.
    variance : float
        ``tr(W_i G_i⁺ W_iᵀ)``, the factor of V_S if the attribute is in S; 0 if the attribute's
        queries depend only on the total.
    of_total : float
        ``‖W_i 1‖² / n_i²``, the factor of V_S if the attribute is not in S.
    """

    cost: float
    variance: float
    of_total: float


Pair = tuple[Array, Array]
"""A matrix with linearly independent rows, and its pseudo-inverse."""


def measure_axis(operator: QueryOperator, deadline: Deadline) -> tuple[Axis, Pair, Solution]:
    """Return an attribute's `Axis`, R_i with its pseudo-inverse, and R_i's `CA` solution.

    ``operator`` has the attribute's queries W_i. Explicit queries are divided by their largest
    entry before CA is solved, so that results do not depend on the units of W_i.
    """
    queries, n = _compute_square_root(operator), operator.shape[1]
    unit = float(np.abs(dense(operator.array)).max()) if isinstance(operator, Explicit) else 1.0
    total = operator.apply(np.ones(n))
    if np.linalg.norm(total) <= n * np.finfo(float).eps * np.linalg.norm(queries):
        total = np.zeros_like(total)
    centred = queries - queries.mean(axis=1, keepdims=True)
    problem = as_problem(np.vstack([centred / unit, np.ones((1, n))]))
    solved = CA().until(deadline).on_matrix(problem)
    assert isinstance(solved.noise, Factorisation)
    strategy = dense(solved.noise.right)
    centred_strategy = strategy - strategy.mean(axis=1, keepdims=True)
    if np.linalg.norm(centred_strategy) <= n * np.finfo(float).eps * np.linalg.norm(strategy):
        rows, inverse = np.empty((0, n)), np.empty((n, 0))
    else:
        singular, vectors = singular_rows(centred_strategy)
        rows, inverse = singular[:, None] * vectors, vectors.T / singular
    axis = Axis(
        cost=float(np.square(rows).sum(axis=0).max(initial=0.0)),
        variance=float(np.square(centred @ inverse).sum()),
        of_total=float(total @ total) / n**2,
    )
    return axis, (rows, inverse), solved


def _compute_square_root(operator: QueryOperator) -> Array:
    """Return a matrix with the queries' Gram matrix and at most two rows for each column.

    Explicit queries are reduced by a QR decomposition. There may be too many structured queries to
    list, for example all ranges, so the square root of their Gram matrix is computed, although the
    condition number of the Gram matrix is the square of the queries' condition number.
    """
    if isinstance(operator, Explicit):
        matrix = dense(operator.array)
        if len(matrix) > 2 * matrix.shape[1]:
            matrix = np.asarray(scipy.linalg.qr(matrix, mode="r")[0][: matrix.shape[1]])
        return matrix
    values, vectors = np.linalg.eigh(operator.gram())
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def _with_progress(solution: Solution, solved: Collection[Solution]) -> Solution:
    """Return the solution, with how the solves of all attributes' strategies ended."""
    gaps = [strategy.notes["total_error_gap"] for strategy in solved]
    return replace(
        solution,
        iterations=sum(strategy.iterations for strategy in solved),
        converged=all(strategy.converged for strategy in solved),
        timed_out=any(strategy.timed_out for strategy in solved),
        notes={**solution.notes, "strategy_gap": max(gaps, default=0.0)},
    )


def find_scales(axes: Sequence[Axis], tables: Iterable[Subset]) -> dict[Subset, float]:
    """Return the σ_S² of least total variance, up to a factor, for the tables' subsets S.

    Sets that no query needs are left out, for example the empty set if all queries are differences
    of cells.

    Parameters
    ----------
    axes : sequence of Axis
        The axis of every attribute.
    tables : iterable of frozenset of int
        The attributes of each table.
    """
    added: dict[Subset, float] = {}
    for table in tables:
        seen = sorted(i for i in table if axes[i].variance > 0)
        subsets = (combinations(seen, size) for size in range(len(seen) + 1))
        for chosen in map(frozenset, chain.from_iterable(subsets)):
            rest = prod(axes[i].of_total for i in table - chosen)
            inside = prod(axes[i].variance for i in chosen)
            added[chosen] = added.get(chosen, 0.0) + inside * rest
    return {
        chosen: sqrt(prod(axes[i].cost for i in chosen) / variance)
        for chosen, variance in added.items()
        if variance > 0
    }


def _factorise(
    orbits: ProductOrbits, part: Part, own: Mapping[int, Pair], sigmas: Mapping[Subset, float]
) -> Factorisation:
    """Factorise one part: all base mechanisms on the part's indicators or contrasts.

    Different base mechanisms measure orthogonal functions of the cells, so their pseudo-inverses
    side by side are the pseudo-inverse of all base mechanisms stacked. All components of a part
    have equal noise, so the first component represents them.
    """
    choice = part.components[0].choice
    rows, inverses = [], []
    for chosen, variance in sigmas.items():
        factors = [
            _build_factor(attribute, k, i in chosen, own.get(i))
            for i, (attribute, k) in enumerate(zip(orbits.attributes, choice, strict=True))
        ]
        right, inverse = (reduce(np.kron, matrices) for matrices in zip(*factors, strict=True))
        rows.append(right / sqrt(variance))
        inverses.append(inverse * sqrt(variance))
    roots = np.sqrt(part.rank / orbits.cells[part.columns])
    right = np.vstack(rows) * roots
    inverse = np.hstack(inverses) / roots[:, None]
    queries = Explicit(part.problem.workload.operator.apply(inverse))
    return from_right_inverse(_NAME, part.problem, right, inverse, Explicit(right), queries)


def _build_factor(attribute: Attribute, k: int, in_base: bool, own: Pair | None) -> Pair:
    """Return an attribute's factor of a base mechanism, and the factor's pseudo-inverse.

    The factor's columns are the attribute's normalised indicators, if ``k`` is `INDICATORS`, or
    else a single contrast. ``own`` is R_i with its pseudo-inverse for an ordered attribute.
    """
    if k != INDICATORS:
        seen = np.ones((int(in_base), 1))
        return seen, seen.T
    if own is not None and in_base:
        return own
    total = np.sqrt(attribute.sizes)[None, :]
    if not in_base:
        return total, total.T / attribute.of.size
    rest = scipy.linalg.null_space(total).T
    return rest, rest.T


def _check_one_matrix_each(orbits: ProductOrbits) -> None:
    for axis in orbits.ordered_axes:
        tables = [group for group in orbits.products.groups if axis in group.axes]
        first, *others = (group.matrices.get(axis) for group in tables)
        if not all(
            first is not None and other is not None and np.array_equal(dense(first), dense(other))
            for other in others
            if other is not first
        ):
            raise NotApplicableError(
                f"{_NAME}: it needs one query matrix for each attribute, and the tables have "
                f"different ones for attribute {axis}, counted from 0 (such as prefixes in one and "
                "values in another); use the same in all tables"
            )


@dataclass(frozen=True)
class ResidualPlannerPlus(Mechanism):
    """ResidualPlanner with prefixes, ranges or any queries of ordered attributes.

    The targets only scale the noise.

    Attributes
    ----------
    time_limit : float, optional
        Seconds for computing the strategies of all attributes together.
    """

    name = _NAME
    source = "He, Xiao, Toksoz, Ding, Zhang and Kifer, arXiv 2305.08175v5"
    revision = 2

    time_limit: Seconds | None = None

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the solution on orbits, if the queries are products over attributes.

        Otherwise all cells are treated as the values of a single ordered attribute.

        Raises
        ------
        NotApplicableError
            If tables have different query matrices for one attribute.
        """
        deadline = self.deadline
        orbits = orbit_problem(problem)
        if orbits is not None:
            return self.until(deadline).on_products(orbits)
        operator = problem.workload.operator
        axis, (rows, _), solved = measure_axis(operator, deadline)
        sigmas = find_scales([axis], [frozenset({0})])
        total = np.ones((1, operator.shape[1]))
        parts = [(rows if chosen else total) / sqrt(s) for chosen, s in sigmas.items()]
        return _with_progress(from_strategy(self.name, problem, np.vstack(parts)), [solved])

    def on_marginals(self, marginals: SingleOrbit) -> Solution:
        """Return the solution of ResidualPlanner."""
        return Solution(self.name, marginals.problem, minimise_total_variance(self.name, marginals))

    def on_products(self, orbits: ProductOrbits) -> Solution:
        """Return the solution from one `Axis` for each attribute, ordered or categorical.

        Raises
        ------
        NotApplicableError
            If tables have different query matrices for one attribute.
        """
        deadline = self.deadline
        _check_one_matrix_each(orbits)
        groups = orbits.products.groups
        matrices = {i: m for group in groups for i, m in group.matrices.items()}
        solved = {i: measure_axis(Explicit(matrices[i]), deadline) for i in orbits.ordered_axes}
        pairs = {i: pair for i, (_, pair, _) in solved.items()}
        axes = [  # a categorical attribute has its n values as queries
            solved[i][0] if i in solved else Axis((n - 1) / n, n - 1.0, 1 / n)
            for i, n in enumerate(orbits.products.sizes)
        ]
        sigmas = find_scales(axes, (frozenset(group.axes) for group in groups))
        parts = tuple(_factorise(orbits, part, pairs, sigmas) for part in orbits.parts)
        noise = OrbitsNoise(orbits, parts).met(self.name)
        notes = {"base_mechanisms": len(sigmas)}
        solution = Solution(self.name, orbits.problem, noise, notes=notes)
        return _with_progress(solution, [strategy for _, _, strategy in solved.values()])

    def work(self, size: ProblemSize) -> Work:
        """One solve of CA over all cells, as for a single attribute, and a product."""
        m, d = size.m, size.d
        flops = 3e8 + 250.0 * d**3 + 8.0 * m * d**2
        return Work(flops=flops, bytes=100.0 * d * d + 40.0 * m * d)
