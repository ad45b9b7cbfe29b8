"""Random problems of many kinds, and random options of mechanisms; a seed determines both."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import workloads
from solvers.mechanism import Mechanism
from workloads import Workload
from workloads.operators import Kronecker, kind_of

Array = NDArray[np.float64]
Random = np.random.Generator
Value = TypeVar("Value")

SLOW = frozenset({"COA", "ESM", "GD", "LRM", "interior-point", "published-SM-II"})
"""Slow mechanisms: they solve only a fifth of the small problems, with a time limit."""

_SLOW_SECONDS = 1.0
_LARGEST_SLOW = 12


@dataclass(frozen=True)
class Case:
    """A problem to solve.

    Attributes
    ----------
    seed : int
        The seed from which the problem was drawn.
    kinds : tuple of str
        The names of the kind of queries, of the features that make them hard, and of the targets.
    workload : Workload
        The queries.
    targets : numpy.ndarray
        An upper bound on the variance of each query.
    """

    seed: int
    kinds: tuple[str, ...]
    workload: Workload
    targets: Array

    @property
    def matrix(self) -> Array:
        """The query matrix W, as an array."""
        return np.asarray(self.workload.dense)

    @property
    def small(self) -> bool:
        """Whether independent solvers and fifty-digit arithmetic can handle the problem."""
        return sum(self.workload.shape) <= 16

    @property
    def well_scaled(self) -> bool:
        """Whether the scaled matrix is well conditioned.

        The scaled matrix is W with each row divided by the square root of its target. Its squared
        row norms, its squared column norms and its singular values must each lie within a factor of
        1000, ignoring zeros.
        """
        scaled = self.matrix / np.sqrt(self.targets)[:, None]
        rows, columns = np.square(scaled).sum(axis=1), np.square(scaled).sum(axis=0)
        singular = np.linalg.svd(scaled, compute_uv=False)
        spectrum = singular[singular > 1e-14 * singular[0]]
        return all(_ratio(values[values > 0]) <= 1e3 for values in (rows, columns, spectrum))


def _ratio(values: Array) -> float:
    return float(values.max() / values.min())


def draw(seed: int) -> Case:
    """Return the problem of a seed; about a third of all seeds give a structured workload."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.35:
        workload, kinds = _structured(rng), ()
    else:
        workload, kinds = _dense(rng)
    spread, targets = _targets(rng, workload)
    return Case(seed, (workload.name, *kinds, spread), workload, targets)


def _dense(rng: Random) -> tuple[Workload, tuple[str, ...]]:
    """Draw a dense matrix, with up to two features that make it hard; return their names too."""
    largest = int(rng.choice([4, 8, 8, 16, 40]))
    m, d = int(rng.integers(1, largest + 1)), int(rng.integers(1, largest + 1))
    base = _pick(rng, tuple(BASES))
    matrix = BASES[base](rng, m, d)
    troubles = [_pick(rng, tuple(TROUBLES)) for _ in range(rng.choice([0, 1, 1, 2]))]
    for trouble in troubles:
        matrix = TROUBLES[trouble](rng, matrix)
    if not np.any(matrix):
        matrix[0, 0] = 1.0
    return workloads.from_matrix(matrix, base), tuple(troubles)


def _counts(rng: Random, m: int, d: int) -> Array:
    return (rng.random((m, d)) < rng.uniform(0.1, 0.9)).astype(float)


def _low_rank(rng: Random, m: int, d: int) -> Array:
    rank = int(rng.integers(1, min(m, d) + 1))
    return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, d))


BASES: dict[str, Callable[[Random, int, int], Array]] = {
    "normal": lambda rng, m, d: rng.standard_normal((m, d)),
    "whole numbers": lambda rng, m, d: rng.integers(-2, 3, (m, d)).astype(float),
    "counts": _counts,
    "low rank": _low_rank,
}


def _equal_rows(rng: Random, matrix: Array) -> Array:
    return matrix[rng.integers(0, len(matrix), len(matrix) + int(rng.integers(1, 4)))]


def _zero_rows(rng: Random, matrix: Array) -> Array:
    return np.vstack([matrix, np.zeros((int(rng.integers(1, 3)), matrix.shape[1]))])


def _dependent_column(rng: Random, matrix: Array) -> Array:
    """Append a column that is nearly a linear combination of the others.

    The relative error of the combination is between 1e-12 and 1e-2.
    """
    mixed = matrix @ rng.standard_normal(matrix.shape[1])
    off = 10 ** rng.uniform(-12, -2) * rng.standard_normal(len(matrix))
    return np.column_stack([matrix, mixed + off * np.abs(matrix).max()])


def _rows_over_decades(rng: Random, matrix: Array) -> Array:
    return matrix * 10 ** rng.uniform(-6, 6, len(matrix))[:, None]


TROUBLES: dict[str, Callable[[Random, Array], Array]] = {
    "equal rows": _equal_rows,
    "equal columns": lambda rng, matrix: _equal_rows(rng, matrix.T).T,
    "zero rows": _zero_rows,
    "zero columns": lambda rng, matrix: _zero_rows(rng, matrix.T).T,
    "dependent columns": _dependent_column,
    "rows over decades": _rows_over_decades,
    "columns over decades": lambda rng, matrix: matrix * 10 ** rng.uniform(-2, 2, matrix.shape[1]),
}


def _structured(rng: Random) -> Workload:
    d, seed = int(rng.integers(2, 33)), int(rng.integers(0, 2**31))
    make = workloads.make
    kinds: tuple[Callable[[], Workload], ...] = (
        lambda: make("prefix", d=d),
        lambda: make("all-range", d=min(d, 16)),
        lambda: make("range", d=d, seed=seed),
        lambda: make("identity-sum", d=d),
        lambda: make("wrelated", d=d, seed=seed),
        lambda: make("wdiscrete", d=d, m=2 * d, probability=0.3, seed=seed),
        lambda: make("random", d=d, seed=seed),
        lambda: make("kronecker", terms=_terms(rng)),
        lambda: make("kronecker", terms=_terms(rng)[:1]),
        lambda: _marginals(rng),
        lambda: _marginals(rng),
        lambda: _census(rng),
        lambda: _census(rng),
        lambda: _union(rng),
        lambda: _union(rng),
    )
    return _pick(rng, kinds)()


def _terms(rng: Random) -> list[list[str]]:
    sizes = rng.integers(2, 6, int(rng.integers(1, 4))).tolist()
    kinds = ("identity", "total", "prefix", "all-range")
    return [
        [f"{rng.choice(kinds)}:{size}" for size in sizes] for _ in range(int(rng.integers(1, 4)))
    ]


def _marginals(rng: Random) -> Workload:
    attributes = int(rng.integers(1, 4))
    sizes = rng.integers(1, 5, attributes).tolist()
    every = [[i for i in range(attributes) if code >> i & 1] for code in range(2**attributes)]
    count = int(rng.integers(1, len(every) + 1))
    chosen = [every[i] for i in rng.permutation(len(every))[:count]]
    return workloads.make("marginals", attributes=attributes, values=sizes, subsets=chosen)


def _census(rng: Random) -> Workload:
    """Draw census tables over up to three attributes, one of which may be ordered."""
    sizes = {name: int(rng.integers(2, 6)) for name in "abc"[: int(rng.integers(1, 4))]}
    every = [[n for i, n in enumerate(sizes) if code >> i & 1] for code in range(2 ** len(sizes))]
    count = int(rng.integers(1, len(every) + 1))
    chosen = [every[i] for i in rng.permutation(len(every))[:count]]
    ordered = _pick(rng, ({}, {"prefixes": ["a"]}, {"ranges": ["a"]}))
    return workloads.make("census", attributes=sizes, tables=chosen, **ordered)


def _union(rng: Random) -> Workload:
    """Draw a union of products of matrices over one or two ordered attributes and others.

    There are up to two other attributes, with identity matrices.
    """
    ordered = [_asked_of_order(rng, int(rng.integers(4, 9)))]
    if rng.random() < 0.3:
        ordered.append(_asked_of_order(rng, int(rng.integers(2, 4))))
    asked = [*ordered, *([np.eye(int(n))] for n in rng.integers(2, 4, int(rng.integers(0, 3))))]
    terms = [
        tuple(
            np.ones((1, own[0].shape[1])) if rng.random() < 0.4 else _pick(rng, tuple(own))
            for own in asked
        )
        for _ in range(int(rng.integers(1, 5)))
    ]
    return workloads.from_factors(terms)


def _asked_of_order(rng: Random, n: int) -> list[Array]:
    """Draw one or two matrices of queries over n ordered values, such as ranges."""
    ranges = np.asarray(workloads.make("all-range", d=n).dense)
    drawn = _counts(rng, int(rng.integers(1, n + 1)), n)
    drawn[:, rng.permutation(n)[: int(rng.integers(0, 3))]] = 0.0
    if not drawn.any():
        drawn[0, 0] = 1.0
    trouble = _pick(rng, (_equal_rows, _zero_rows, _rows_over_decades))
    troubled = trouble(rng, drawn)
    kinds = (np.tri(n), ranges, troubled if troubled.any() else drawn, np.eye(n))
    return [kinds[i] for i in rng.permutation(len(kinds))[: int(rng.integers(1, 3))]]


def _by_factor(rng: Random, operator: Kronecker) -> Array:
    """Draw targets with the product structure of the queries.

    A row of a Kronecker product is a product of rows, one of each factor; its target is the product
    of one random number for each of these rows.
    """
    found = []
    for term in operator.terms:
        total = np.array([10 ** rng.uniform(-2, 2)])
        for factor in term:
            own = np.ones(factor.shape[0])
            if rng.random() < 0.3:
                own[int(rng.integers(own.size))] = 10 ** rng.uniform(-3, 3)
            elif kind_of(factor) == "matrix" and rng.random() < 0.5:
                own = 10 ** rng.uniform(-3, 3, own.size)
            total = np.kron(total, own)
        found.append(total)
    return np.concatenate(found)


def _targets(rng: Random, workload: Workload) -> tuple[str, Array]:
    m = workload.m
    if isinstance(workload.operator, Kronecker) and rng.random() < 0.6:
        return "targets by factor", _by_factor(rng, workload.operator)
    if workload.groups is not None and rng.random() < 0.7:
        of_groups = 10 ** rng.uniform(-2, 2, len(workload.group_sizes))
        return "targets by group", of_groups[workload.groups]
    return _pick(
        rng,
        (
            lambda: ("equal targets", np.full(m, 10 ** rng.uniform(-3, 3))),
            lambda: ("whole targets", rng.integers(1, 11, m).astype(float)),
            lambda: ("targets over twelve decades", 10 ** rng.uniform(-6, 6, m)),
        ),
    )()


def options(seed: int, mechanism: type[Mechanism], case: Case) -> dict[str, Any] | None:
    """Draw options for a mechanism on a problem, often none; None to skip the mechanism."""
    name = mechanism.name
    rng = np.random.default_rng([seed, *name.encode()])
    if name in SLOW and (max(case.workload.shape) > _LARGEST_SLOW or rng.random() < 0.8):
        return None
    chosen: dict[str, Any] = {}
    if name in OPTIONS and rng.random() < 0.6:
        chosen = _pick(rng, OPTIONS[name])(rng, case)
    if name in SLOW:
        chosen["time_limit"] = _SLOW_SECONDS
    return chosen


def _one_of(option: str, *values: Any) -> Callable[[Random, Case], dict[str, Any]]:
    return lambda rng, case: {option: values[int(rng.integers(0, len(values)))]}


def _tol(least: float, most: float) -> Callable[[Random, Case], dict[str, Any]]:
    return lambda rng, case: {"tol": float(10 ** rng.uniform(np.log10(least), np.log10(most)))}


_BASES = ("identity", "paper", "workload", "row-space")

OPTIONS: dict[str, tuple[Callable[[Random, Case], dict[str, Any]], ...]] = {
    "optimal": (
        _tol(1e-8, 1e-2),
        _one_of("refined", True),
        _one_of("total_error_weight", 1e-2, 1.0, 100.0),
        lambda rng, case: {"profile_bounds": 10 ** rng.uniform(-1, 1, case.workload.d)},
        _one_of("max_iterations", 0, 1, 3),
        _one_of("time_limit", 0.0),
    ),
    "SM-II": (
        _tol(1e-5, 1e-1),
        _one_of("basis", *_BASES),
        _one_of("t2_rule", "code"),
        _one_of("extrapolated", False),
        _one_of("total_error_weight", 1e-2, 1.0),
        _one_of("max_iterations", 0, 1, 3),
        _one_of("time_limit", 0.0),
    ),
    "CA": (_tol(1e-10, 1e-3), _one_of("max_iterations", 0, 1, 3)),
    "wCA-I": (_tol(1e-10, 1e-3),),
    "wCA-II": (_tol(1e-10, 1e-3),),
    "COA": (_one_of("homotopy", False), _one_of("cg_steps", 1, 20)),
    "AM": (_one_of("complete", False), _tol(1e-12, 1e-3)),
    "ESM": (_tol(1e-3, 1e-1),),
    "LRM": (_one_of("rank_ratio", 1.0, 2.0), _one_of("seed", 0, 1, 2)),
    "GD": (_tol(1e-3, 1e-1), _one_of("basis", *_BASES)),
    "interior-point": (_tol(1e-8, 1e-3),),
    "HM": (_one_of("branching", 2, 3, 7, "qardaji", "laplace", "sqrt", "published"),),
    "laplace": (_one_of("on", "data"),),
    "geometric": (_one_of("on", "data"),),
    "fisher-bounded": (_one_of("on", "data"),),
    "tight-constraints": (
        _one_of("n", 1, 10),
        _one_of("composition", "equal"),
        _one_of("measure", "expected-squared-error"),
    ),
}


def _pick(rng: Random, values: tuple[Value, ...]) -> Value:
    return values[int(rng.integers(0, len(values)))]
