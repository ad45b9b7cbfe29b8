"""ResidualPlanner+: ResidualPlanner with prefixes, ranges or any queries of ordered attributes.

He, Xiao, Toksoz, Ding, Zhang and Kifer (arXiv 2305.08175v5). Every attribute has one matrix of
queries W_i, a table keeps W_i or the total of each, and a set S of attributes has one base
mechanism: for an attribute in S a strategy for W_i without its total, R_i (R_i 1 = 0), for any
other the total itself, and independent noise of variance σ_S² on their Kronecker product. With
G_i = R_iᵀ R_i, what it adds to the privacy cost and to the total variance are products too:

    p_S = prod over S of max diag(G_i)
    V_S = sum over the tables that keep S of
              prod over S of tr(W_i G_i⁺ W_iᵀ) * prod over the rest of ‖W_i 1‖² / n_i²,

and σ_S² ~ sqrt(p_S / V_S) has the least total variance, (sum of sqrt(p_S V_S))². On a categorical
attribute, whose W_i is the identity, R_i is I - J/n, and all this is ResidualPlanner. On the others
R_i is the least-total-variance strategy of W_i (I - J/n) together with the total, its total taken
out again. That strategy is our reading: of several natural ones it alone gives what the authors'
public code gives (docs/marginals.md). It is not optimal on ordered attributes: `CA` is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, combinations
from math import prod, sqrt
from typing import Any

import numpy as np
import scipy.linalg as sla

from solvers.errors import NotApplicableError
from solvers.gaussian.factorisation import Factorisation
from solvers.gaussian.verification import from_right_inverse
from solvers.mechanism import Mechanism, Work
from solvers.mechanisms.residual_planner import least_total_variance
from solvers.orbits import AnyOrbits, Orbits
from solvers.orbits import orbits as orbits_of
from solvers.orbits.contrasts import INDICATORS
from solvers.orbits.noise import OrbitsNoise
from solvers.orbits.parts import Part
from solvers.orbits.products import Attribute
from solvers.orbits.single import SingleOrbit
from solvers.problem import Problem, as_problem
from solvers.problem.row_space import singular_rows
from solvers.reductions import query_matrix
from solvers.reductions.orbits import OnOrbits
from solvers.registry import find
from solvers.solution import Solution
from solvers.stopping import Deadline
from solvers.strategy import from_strategy
from workloads.operators import Array, Explicit, Matrix, cumulative, dense

NAME = "ResidualPlanner+"

Subset = frozenset[int]


@dataclass(frozen=True)
class Axis:
    """What an attribute in a base mechanism, and outside of it, costs and adds.

    Attributes
    ----------
    cost : float
        Largest diagonal entry of G_i.
    variance : float
        ``tr(W_i G_i⁺ W_iᵀ)``; 0 where the queries say no more than the total.
    of_total : float
        ``‖W_i 1‖² / n²``.
    """

    cost: float
    variance: float
    of_total: float


Pair = tuple[Array, Array]
"""Rows of full rank, and their pseudo-inverse."""


def residual(gram: Array, deadline: Deadline) -> tuple[Pair, Solution]:
    """R_i of an attribute whose queries, of entries up to one, have this Gram matrix.

    And the solve of its strategy.
    """
    n = len(gram)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(centre @ gram @ centre + 1)
    clear = values > np.finfo(float).eps ** 2 * values[-1]
    root = np.sqrt(np.where(clear, values, 0.0))[:, None] * vectors.T
    solved = query_matrix.solve(find("CA"), as_problem(root), {"time_limit": deadline.remaining})
    assert isinstance(solved.noise, Factorisation)
    strategy = dense(solved.noise.right)
    centred = strategy @ centre
    if np.linalg.norm(centred) <= n * np.finfo(float).eps * np.linalg.norm(strategy):
        return (np.empty((0, n)), np.empty((n, 0))), solved
    singular, rows = singular_rows(centred)
    return (singular[:, None] * rows, rows.T / singular), solved


def _reached(solved: Iterable[Solution]) -> dict[str, Any]:
    """What a solution says of all its strategies' solves together."""
    each = list(solved)
    return {
        "iterations": sum(strategy.iterations for strategy in each),
        "converged": all(strategy.converged for strategy in each),
        "timed_out": any(strategy.timed_out for strategy in each),
    }


def ordered_axis(gram: Array, own: Pair) -> Axis:
    """The numbers of an attribute with this residual strategy."""
    rows, inverse = own
    of_total = float(gram.sum())
    if of_total <= len(gram) * np.finfo(float).eps * float(np.abs(gram).sum()):
        of_total = 0.0
    return Axis(
        float(np.square(rows).sum(axis=0).max(initial=0.0)),
        float(np.sum(inverse * (gram @ inverse))),
        of_total / len(gram) ** 2,
    )


def categorical_axis(n: int) -> Axis:
    """Those of an attribute whose queries are its n values."""
    return Axis((n - 1) / n, n - 1.0, 1 / n)


def scales(axes: Sequence[Axis], tables: Iterable[Subset]) -> dict[Subset, float]:
    """σ_S² of the least total variance, up to scale, for every S that some table contains.

    Not those that no query needs, as where all queries are differences of cells.

    Parameters
    ----------
    axes : sequence of Axis
        Of every attribute.
    tables : iterable of frozenset of int
        The attributes that each table keeps.
    """
    added: dict[Subset, float] = {}
    for table in tables:
        for chosen in _subsets(i for i in table if axes[i].variance > 0):
            rest = prod(axes[i].of_total for i in table - chosen)
            own = prod(axes[i].variance for i in chosen)
            added[chosen] = added.get(chosen, 0.0) + own * rest
    return {
        chosen: sqrt(prod(axes[i].cost for i in chosen) / variance)
        for chosen, variance in added.items()
        if variance > 0
    }


def _subsets(items: Iterable[int]) -> Iterator[Subset]:
    listed = sorted(items)
    sizes = range(len(listed) + 1)
    return map(frozenset, chain.from_iterable(combinations(listed, size) for size in sizes))


def solve(problem: Problem, *, time_limit: float | None = None) -> Solution:
    """All cells as the values of one ordered attribute, unless the queries are products.

    Parameters
    ----------
    problem : Problem
        The workload and its targets; these only scale the answer.
    time_limit : float, optional
        In seconds, of the strategies of all attributes together.

    Raises
    ------
    NotApplicableError
        If tables ask different matrices of one attribute.
    """
    deadline = Deadline.after(time_limit)
    orbits = orbits_of(problem)
    if orbits is not None:
        return on_orbits(orbits, time_limit=deadline.remaining)
    operator = problem.workload.operator
    gram = operator.gram()
    unit = _unit(operator.array if isinstance(operator, Explicit) else None)
    own, solved = residual(gram / unit, deadline)
    sigmas = scales([ordered_axis(gram, own)], [frozenset({0})])
    total = np.ones((1, len(gram)))
    rows = [(own[0] if chosen else total) / sqrt(s) for chosen, s in sigmas.items()]
    return from_strategy(NAME, problem, np.vstack(rows), **_reached([solved]))


def on_orbits(orbits: AnyOrbits, *, time_limit: float | None) -> Solution:
    """The same with every ordered attribute and every categorical one on its own.

    Raises
    ------
    NotApplicableError
        If tables ask different matrices of one attribute.
    """
    deadline = Deadline.after(time_limit)
    if isinstance(orbits, SingleOrbit):
        return Solution(NAME, orbits.problem, least_total_variance(NAME, orbits))
    _check_one_matrix_each(orbits)
    matrices = {axis: _matrix(orbits, axis) for axis in orbits.ordered_axes}
    grams = {i: (cumulative(matrix) or Explicit(matrix)).gram() for i, matrix in matrices.items()}
    solved = {i: residual(gram / _unit(matrices[i]), deadline) for i, gram in grams.items()}
    own = {axis: pair for axis, (pair, _) in solved.items()}
    axes = [
        ordered_axis(grams[i], own[i]) if i in own else categorical_axis(attribute.of.size)
        for i, attribute in enumerate(orbits.attributes)
    ]
    sigmas = scales(axes, (frozenset(group.axes) for group in orbits.products.groups))
    parts = tuple(_factorised(orbits, part, own, sigmas) for part in orbits.parts)
    noise = OrbitsNoise(orbits, parts).met(NAME)
    reached = _reached(strategy for _, strategy in solved.values())
    notes = {"base_mechanisms": len(sigmas)}
    return Solution(NAME, orbits.problem, noise, notes=notes, **reached)


def _matrix(orbits: Orbits, axis: int) -> Matrix:
    return next(g.matrices[axis] for g in orbits.products.groups if axis in g.matrices)


def _unit(matrix: Matrix | None) -> float:
    """Of a Gram matrix, so that no answer depends on the units of W; structured ones are of 0/1."""
    return 1.0 if matrix is None else float(np.abs(dense(matrix)).max()) ** 2


def _factorised(
    orbits: Orbits, part: Part, own: Mapping[int, Pair], sigmas: Mapping[Subset, float]
) -> Factorisation:
    """What all base mechanisms are on the part's indicators or contrasts.

    Measured in different base mechanisms are orthogonal functions of the cells, so pseudo-inverses
    side by side are that of all of them. Choices that are one part have equal noise: any will do.
    """
    choice = part.components[0].choice
    rows, inverses = [], []
    for chosen, variance in sigmas.items():
        factors = [
            _factor(attribute, k, i in chosen, own.get(i))
            for i, (attribute, k) in enumerate(zip(orbits.attributes, choice, strict=True))
        ]
        right, inverse = (reduce(np.kron, matrices) for matrices in zip(*factors, strict=True))
        rows.append(right / sqrt(variance))
        inverses.append(inverse * sqrt(variance))
    roots = np.sqrt(part.rank / orbits.cells[part.columns])
    right = np.vstack(rows) * roots
    inverse = np.hstack(inverses) / roots[:, None]
    queries = Explicit(part.problem.workload.operator.apply(inverse))
    return from_right_inverse(NAME, part.problem, right, inverse, Explicit(right), queries)


def _factor(attribute: Attribute, k: int, in_base: bool, own: Pair | None) -> Pair:
    """An attribute's rows in a base mechanism, over its normalised indicators or a contrast."""
    if k != INDICATORS:
        seen = np.ones((int(in_base), 1))
        return seen, seen.T
    if own is not None and in_base:
        return own
    total = np.sqrt(attribute.sizes)[None, :]
    if not in_base:
        return total, total.T / attribute.of.size
    rest = sla.null_space(total).T
    return rest, rest.T


def _check_one_matrix_each(orbits: Orbits) -> None:
    for axis in orbits.ordered_axes:
        tables = [group for group in orbits.products.groups if axis in group.axes]
        first, *others = (group.matrices.get(axis) for group in tables)
        if not all(_equal(first, other) for other in others):
            raise NotApplicableError(
                f"{NAME}: it has one matrix of queries for each attribute, and the tables ask "
                f"different ones of attribute {axis}, counted from 0 (such as prefixes in one and "
                "values in another); ask the same of it in all tables"
            )


def _equal(first: Matrix | None, second: Matrix | None) -> bool:
    if first is None or second is None:
        return first is second
    return first is second or np.array_equal(dense(first), dense(second))


def work(m: int, d: int) -> Work:
    """One solve of CA over the cells, as if all of them were one attribute, and a product."""
    flops = 3e8 + 250.0 * d**3 + 8.0 * m * d**2
    return Work(flops=flops, bytes=100.0 * d * d + 40.0 * m * d)


MECHANISMS = (
    Mechanism(
        NAME,
        "ResidualPlanner with prefixes, ranges or any queries of ordered attributes",
        solve,
        source="He, Xiao, Toksoz, Ding, Zhang and Kifer, arXiv 2305.08175v5",
        work=work,
        forms=(OnOrbits(on_orbits),),
    ),
)
