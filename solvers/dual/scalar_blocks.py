"""The nuclear norm of blocks of size one, all stored in one matrix A.

    f(x) = sum_S sqrt((Aᵀ (x + offset))_S)

Here x are the free weights, and the offset has the fixed weights. The non-negative matrix A has one
column for each block, scaled by the square of the number of times that the block occurs. The inner
solution is v = (Aᵀ (x + offset))^-1/2, and f is
``min over v > 0 of (sum(1 / v) + (x + offset) . A v) / 2``, because a geometric mean is at most the
arithmetic mean. Over weights x that sum to one, therefore,

    max f² = min over v > 0 of sum(1 / v) * (max(A v) + offset . A v),

which `minimise` solves. Marginals with one target each have this form
(`solvers.forms.orbits.marginal_problem`), as do the best weights of given strategy queries
(`solvers.mechanisms.am`).

Equivalent blocks are merged into one variable, and equivalent weights into one weight
(`ScalarClasses`). A partition of the rows and columns of A is *equitable* if all rows of a class
have the same number of nonzero entries in each class of columns, and all columns of a class have
the same number in each class of rows. If, in addition, all nonzero entries of A between two classes
are equal, averaging v over each class does not raise max(A v), nor, since 1/v is convex, sum(1/v)
(for linear programs: Grohe, Kersting, Mladenov and Selman, "Dimension reduction via colour
refinement", ESA 2014). Colour refinement finds the coarsest equitable partition without a search
for symmetries: the 166 751 subsets of the 3-way marginals of 100 equal attributes become 4 classes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dual.iteration import Stopping
from solvers.dual.newton_system import ConstrainedSystem
from solvers.dual.predictor_corrector import Optimum, Program, maximise, multiplicative_step
from workloads.operators import Array, Matrix
from workloads.operators.blas import lower_gram
from workloads.operators.combined import scaled_rows

Solve = Callable[[Array], Array]

LARGEST_FACTORISED = 3000
"""Most rows of a dense matrix that `LowRankSystem` factorises: 72 MB, and 9e9 operations."""

_RIDGE = 1e-15
"""Number added to the unit diagonal, times the number of rows.

It is a few rounding errors of the diagonal: a matrix that rounding makes singular then still has a
Cholesky factor. Marginals take as many steps without it and with 1e-13.
"""
_RESIDUAL = 1e-11
"""Relative residual at which conjugate gradients end.

Marginals to a gap of 1e-9 take as many steps with it as with Cholesky factors.
"""
_MOST_PRODUCTS = 2000
"""Most products with the matrix for one system: a limit on time alone."""


class LowRankSystem:
    """A solver of linear systems with matrices ``diag(1/g) + A diag(e) A.T``, where A >= 0.

    Columns of A with a single nonzero entry (for marginals, the subsets that only one marginal
    contains) only add to the diagonal; the other columns are called shared. Normally the system's
    own matrix, with one row for each row of A, is factorised as a dense matrix. If there are fewer
    than half as many shared columns as rows, the matrix of the Woodbury identity is factorised
    instead: it has one row for each shared column, but is more sensitive to rounding. If the matrix
    to factorise is too large, conjugate gradients solve the system.

    Parameters
    ----------
    matrix : numpy.ndarray or scipy.sparse.csr_array, shape (rows, columns)
        A.
    """

    def __init__(self, matrix: Matrix) -> None:
        counts = np.bincount(matrix.nonzero()[1], minlength=matrix.shape[1])
        self._shared = np.flatnonzero(counts > 1)
        self._single = np.flatnonzero(counts == 1)
        self._a = matrix[:, self._shared]
        single = matrix[:, self._single]
        self._squares = single * single
        self._by_rows = matrix.shape[0] <= 2 * self._shared.size

    def factorised(self, g: Array, e: Array) -> Solve:
        """Return the solution operator of ``diag(1/g) + A diag(e) A.T``.

        Parameters
        ----------
        g : numpy.ndarray, shape (rows,)
            The inverse diagonal entries, non-negative; 0 means that the diagonal entry is infinite.
        e : numpy.ndarray, shape (columns,)
            The weights of the columns of A, positive.

        Returns
        -------
        callable
            Maps right-hand sides, shape (rows,) or (rows, any number), to the solutions.
        """
        root = np.sqrt(g / (1 + g * (self._squares @ e[self._single])))
        rows = scaled_rows(self._a, root)
        turned = scaled_rows(_transposed(rows), np.sqrt(e[self._shared]))
        half = _transposed(turned)
        inner = self._inverse(half if self._by_rows else turned)

        def solve(right: Array) -> Array:
            # the inverse of I + H H.T is I - H (I + H.T H)^-1 H.T, by Woodbury's identity
            scaled = _times(root, right)
            solved = inner(scaled) if self._by_rows else scaled - half @ inner(turned @ scaled)
            return _times(root, solved)

        return solve

    def _inverse(self, half: Matrix) -> Solve:
        """Return the solution operator of ``I + half @ half.T``, first scaled to unit diagonal.

        If the matrix is too large to be formed, conjugate gradients solve each system. Their
        solutions are inexact, which only costs additional Newton steps.
        """
        root = 1 / np.sqrt(1 + np.asarray((half * half).sum(axis=1), dtype=np.float64))
        unit, diagonal = scaled_rows(half, root), np.square(root)
        solve: Solve
        if root.size <= LARGEST_FACTORISED:
            gram = (unit @ unit.T).toarray() if scipy.sparse.issparse(unit) else lower_gram(unit)
            gram[np.diag_indices_from(gram)] += diagonal + _RIDGE * root.size
            factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
            solve = partial(scipy.linalg.cho_solve, factor, check_finite=False)
        else:
            as_operator = scipy.sparse.linalg.aslinearoperator
            rows, added = map(as_operator, (unit, scipy.sparse.diags_array(diagonal)))
            operator = rows @ rows.T + added
            cg = partial(scipy.sparse.linalg.cg, operator, rtol=_RESIDUAL, maxiter=_MOST_PRODUCTS)

            def solve(right: Array) -> Array:
                solved = [cg(column)[0] for column in np.atleast_2d(right.T)]
                return np.stack(solved, axis=-1).reshape(right.shape)

        return lambda right: _times(root, solve(_times(root, right)))


def _times(diagonal: Array, right: Array) -> Array:
    return (diagonal * right.T).T


def _transposed(matrix: Matrix) -> Matrix:
    return scipy.sparse.csr_array(matrix.T) if scipy.sparse.issparse(matrix) else matrix.T


_WARM_STEPS = 5
"""Number of multiplicative steps before the first Newton step.

Marginals with different targets take 48 Newton steps with 0, 32 with 5 and 28 with 10.
"""
_UNIFORM_SHARE = 0.01
"""Share of equal weights in a given start, as in `solvers.dual.programs`."""


@dataclass(frozen=True, eq=False)
class ScalarBlocks:
    """The dual's function f if every block is a single number.

    Attributes
    ----------
    matrix : numpy.ndarray or scipy.sparse.csr_array, shape (n, blocks)
        A, non-negative, without zero rows or columns.
    offset : numpy.ndarray, shape (n,)
        Fixed weights, to which the free weights are added.
    """

    matrix: "Array | scipy.sparse.csr_array"
    offset: Array

    @cached_property
    def system(self) -> LowRankSystem:
        """The solver of all Newton systems, which depends only on A."""
        return LowRankSystem(self.matrix)

    def ratios(self, v: Array) -> Array:
        """Return ``A v``: the ratio of variance to target for each row of A."""
        return np.asarray(self.matrix @ v)

    def inner(self, x: Array) -> Array:
        """Return the v that minimises ``sum(1 / v) * (x + offset) . A v``."""
        return np.asarray((self.matrix.T @ (x + self.offset)) ** -0.5)

    def lower_bound(self, x: Array) -> float:
        """Bound ``sum(1 / v) * (max(A v) + offset . A v)`` from below for all v > 0.

        Any weights x >= 0 that are not all zero give a valid bound.
        """
        return float(np.sqrt(self.matrix.T @ (x / x.sum() + self.offset)).sum()) ** 2


@dataclass(frozen=True, eq=False)
class ScalarPoint:
    """The function f, evaluated at given weights.

    Attributes
    ----------
    blocks : ScalarBlocks
        The function f.
    x : numpy.ndarray, shape (n,)
        The free weights.
    """

    blocks: ScalarBlocks
    x: Array

    @property
    def q(self) -> Array:
        """The free weights plus the fixed weights, shape (n,)."""
        return self.x + self.blocks.offset

    @cached_property
    def v(self) -> Array:
        """The inner solution, shape (blocks,)."""
        return self.blocks.inner(self.x)

    @cached_property
    def nuclear_norm(self) -> float:
        """The value of f."""
        return float((1 / self.v).sum())

    @cached_property
    def gradient(self) -> Array:
        """The gradient of 2f with respect to the free weights, shape (n,)."""
        return self.blocks.ratios(self.v)

    def newton_system(self, diagonal: Array, constraints: Array) -> ConstrainedSystem:
        """Build the Newton system ``X A diag(v³/2) Aᵀ X + diag(diagonal)``, X = diag(x)."""
        x = self.x
        solve = self.blocks.system.factorised(np.square(x) / diagonal, self.v**3 / 2)
        return ConstrainedSystem(lambda b: (solve((b.T / x).T).T / x).T, constraints)


def minimise(
    blocks: ScalarBlocks, stopping: Stopping, start: Array | None = None
) -> Optimum[ScalarPoint]:
    """Find the v > 0 of least ``sum(1 / v) * (max(A v) + offset . A v)``.

    Parameters
    ----------
    blocks : ScalarBlocks
        A and the offset.
    stopping : Stopping
        The rule by which the run ends.
    start : numpy.ndarray, shape (n,), optional
        Free weights at which to start; default: equal weights.

    Returns
    -------
    Optimum
        ``best.v`` has the value ``upper``; ``proof.x`` certifies ``lower``.
    """
    n = blocks.offset.size
    groups = np.ones((n, 1))
    program = Program(partial(ScalarPoint, blocks), np.zeros(n), groups)
    near = np.ones(n) if start is None else start
    # an equal share keeps the start off the boundary, where the first steps would be short
    equal = 1.0 if start is None else _UNIFORM_SHARE
    point = program.at((1 - equal) * near / near.sum() + equal / n)
    for _ in range(_WARM_STEPS):
        point = program.at(multiplicative_step(point.x, point.gradient, groups))

    def bounds(point: ScalarPoint) -> tuple[float, float]:
        ratios = point.gradient
        upper = point.nuclear_norm * float(ratios.max() + blocks.offset @ ratios)
        return blocks.lower_bound(point.x), upper

    return maximise(program, point, bounds, stopping)


Index = NDArray[np.int64]

_DIGITS = 12
"""Decimals to which keys are compared: they are numbers near 1 with a few rounding errors."""
_SEED = 0x5EED
"""Seed of the random codes: the same partition is found in every run."""


@dataclass(frozen=True, eq=False)
class ScalarClasses:
    """Scalar blocks, and a smaller set of scalar blocks with the same optimum.

    Attributes
    ----------
    whole : ScalarBlocks
        All blocks.
    transformed : ScalarBlocks
        One row and one column for each class.
    row_class, column_class : numpy.ndarray of int
        The class of every row and of every column of ``whole``.
    """

    whole: ScalarBlocks
    transformed: ScalarBlocks
    row_class: Index
    column_class: Index

    def with_offset(self, offset: Array) -> "ScalarClasses":
        """Return a copy with other fixed weights, equal within every class of rows."""
        sums = np.bincount(self.row_class, weights=offset).astype(np.float64)
        transformed = replace(self.transformed, offset=sums)
        return replace(self, whole=replace(self.whole, offset=offset), transformed=transformed)

    def variables(self, v: Array) -> Array:
        """Convert the variables v of the classes to those of all blocks."""
        return (v * np.bincount(self.column_class))[self.column_class]

    def weights(self, x: Array) -> Array:
        """Divide the weights of the classes equally among their rows."""
        return (x / np.bincount(self.row_class))[self.row_class]

    def optimum(self, stopping: Stopping, start: Array | None = None) -> Optimum[ScalarPoint]:
        """Minimise ``sum(1 / v) * (max(A v) + offset . A v)`` on the smaller set of blocks.

        The points of the result and ``start`` have a weight for each row of ``whole``.
        """
        if start is not None:
            start = np.bincount(self.row_class, start).astype(np.float64)
        result = minimise(self.transformed, stopping, start)
        best, proof = (
            ScalarPoint(self.whole, self.weights(point.x)) for point in (result.best, result.proof)
        )
        return replace(result, best=best, proof=proof)


def collapse(whole: ScalarBlocks, row_keys: Array, column_keys: Array) -> ScalarClasses:
    """Merge blocks and weights by the coarsest equitable partition of the columns and rows of A.

    Parameters
    ----------
    whole : ScalarBlocks
        The blocks, with a sparse A. A nonzero entry of A depends only on the keys of its row and of
        its column, an entry of the offset only on the key of its row.
    row_keys : numpy.ndarray, shape (rows, any number)
        The key of each row; numbers that agree to 12 decimals are treated as equal.
    column_keys : numpy.ndarray, shape (columns, any number)
        The key of each column.

    Returns
    -------
    ScalarClasses
    """
    matrix = scipy.sparse.csr_array(whole.matrix)
    rows, columns = _refined(matrix, _colours(row_keys), _colours(column_keys))
    sizes = np.bincount(columns)
    members = scipy.sparse.csr_array(
        (sizes[columns].astype(float), (np.arange(columns.size), columns)),
        shape=(columns.size, sizes.size),
    )
    _, representatives = np.unique(rows, return_index=True)
    offset = np.bincount(rows, weights=whole.offset).astype(np.float64)
    transformed = ScalarBlocks(scipy.sparse.csr_array(matrix[representatives] @ members), offset)
    return ScalarClasses(whole, transformed, rows, columns)


def _colours(keys: Array) -> Index:
    _, colours = np.unique(np.round(keys, _DIGITS), axis=0, return_inverse=True)
    return colours.reshape(-1)


def _refined(matrix: "scipy.sparse.csr_array", rows: Index, columns: Index) -> tuple[Index, Index]:
    """Refine row and column colours until random hashes show that the partition is equitable."""
    pattern = np.ones(matrix.nnz, dtype=np.int64), matrix.indices, matrix.indptr
    ones = scipy.sparse.csr_array(pattern, shape=matrix.shape)
    turned = scipy.sparse.csr_array(ones.T)
    random = np.random.default_rng(_SEED)
    while True:
        before = rows.max(), columns.max()
        rows = _split(rows, np.asarray(ones @ _codes(random, columns)))
        columns = _split(columns, np.asarray(turned @ _codes(random, rows)))
        if (rows.max(), columns.max()) == before:
            return rows, columns


def _codes(random: np.random.Generator, colours: Index) -> Index:
    return random.integers(-(2**62), 2**62, size=int(colours.max()) + 1)[colours]


def _split(colours: Index, sums: Index) -> Index:
    """New colours, equal where both the old colours and the sums are equal.

    The sums add up random codes, so overflow is harmless.
    """
    _, codes = np.unique(sums, return_inverse=True)
    _, split = np.unique(colours * (codes.max() + 1) + codes, return_inverse=True)
    return np.asarray(split, dtype=np.int64)
