"""Problem 1 of PVLDB 14(10): a workload and the variance target of each query."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from solvers.problem.factors import Factors, factorise, structured
from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from workloads import QueryGraph, TargetsError, Workload, from_matrix
from workloads.given import masked_count, real_numbers
from workloads.operators import (
    Array,
    Explicit,
    Kronecker,
    Marginals,
    Matrix,
    QueryOperator,
    Scaled,
    readable,
)
from workloads.operators.combined import scaled_rows

_LARGEST_SCALE = 1e60
"""Largest allowed ratio of a query's squared norm to its target.

The least allowed ratio is ``1 / _LARGEST_SCALE``. Outside this range, the Hessian of the dual
overflows in single precision.
"""


@dataclass(frozen=True, eq=False)
class Problem:
    """A workload with its targets: the input of every mechanism on query matrices.

    Attributes
    ----------
    workload : Workload
        The m queries over d domain cells.
    targets : numpy.ndarray, shape (m,)
        The variance bound c_j > 0 of each query. If the workload is too large to be listed, there
        is one bound for each group, or one for each set of queries that differ only in the rows of
        identity factors.
    neighbours : Neighbours
        Which pairs of databases the mechanism must make indistinguishable.
    """

    workload: Workload
    targets: Array
    neighbours: Neighbours = ADD_REMOVE

    @property
    def title(self) -> str:
        """The workload's name and size."""
        return f"{self.workload.name!r} ({self.size})"

    @property
    def size(self) -> str:
        """The numbers of queries and domain cells, as a phrase for messages."""
        m, d = self.workload.shape
        return f"{readable(m)} queries over {readable(d)} cells"

    @cached_property
    def scaled(self) -> Matrix:
        """The scaled workload ``A = diag(c)**-0.5 @ W``, dense or CSR, shape (m, d)."""
        return scaled_rows(self.workload.matrix, self.targets**-0.5)

    @cached_property
    def factors(self) -> Factors:
        """A rank-revealing factorisation of `scaled`; it keeps structure if that saves work."""
        operator = Scaled(self.workload.operator, self.targets**-0.5)
        return structured(operator) or factorise(self.scaled)

    @cached_property
    def basis(self) -> Array:
        """The basis of `factors` as an array, shape (k, d), even if it is the identity."""
        basis = self.factors.basis
        return np.eye(self.workload.d) if basis is None else basis

    @cached_property
    def queries(self) -> QueryOperator:
        """The operator L with ``L @ basis = W``; it is structured if `factors` is."""
        factors = self.factors
        if not factors.structured:
            return Explicit(self.representation)
        if factors.basis is None:
            return self.workload.operator
        return Scaled(factors.operator, np.sqrt(self.targets))

    @cached_property
    def representation(self) -> Array:
        """The dense matrix L with ``L @ basis = W``, shape (m, k)."""
        return np.sqrt(self.targets)[:, None] * self.factors.representation


@dataclass(frozen=True, eq=False)
class GraphProblem:
    """A query graph with its target: the input of mechanisms on query graphs.

    Attributes
    ----------
    target : float
        Upper bound on the variance of the reported answer, whatever the true answer is.
    """

    graph: QueryGraph
    target: float = 1.0

    @property
    def title(self) -> str:
        """The graph's name and size."""
        return f"query graph {self.graph.name!r} ({self.graph.n} answers)"

    @property
    def targets(self) -> Array:
        """The single target as an array, shape (1,)."""
        return np.array([self.target])


def as_graph_problem(graph: QueryGraph, targets: ArrayLike | None = None) -> GraphProblem:
    """Check a variance target and combine it with its query graph.

    Parameters
    ----------
    targets : array_like, shape (1,) or scalar, optional
        The variance bound; default 1.

    Raises
    ------
    TargetsError
        If the target is not one positive finite number.
    """
    return GraphProblem(graph, float(check_targets(graph, 1.0 if targets is None else targets)[0]))


def as_problem(
    workload: "Workload | ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix",
    targets: ArrayLike | None = None,
    neighbours: Neighbours = ADD_REMOVE,
) -> Problem:
    """Check a workload and its targets, and combine them into a `Problem`.

    Parameters
    ----------
    targets : array_like, shape (m,) or scalar, optional
        The variance bounds; one number applies to every query. Default: the targets that the
        workload states, otherwise 1.

    Raises
    ------
    WorkloadError
        If the matrix is empty, not finite or zero.
    TargetsError
        If the targets are not m positive finite numbers, or differ from the queries' squared norms
        by a factor above 1e60. For marginals, and for workloads too large to be listed, the squared
        norms are taken to be 1.
    OptionError
        If the blocks or pairs of ``neighbours`` do not fit the domain.
    """
    known = workload if isinstance(workload, Workload) else from_matrix(workload)
    neighbours.check(known.d)
    stated = 1.0 if known.stated is None else known.stated.targets
    checked = check_targets(known, stated if targets is None else targets)
    # squared norms that may be too large for floats are replaced by 1
    normed = known.listed and not isinstance(known.operator, Marginals)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        scale = (known.operator.squared_row_norms() if normed else 1.0) / checked
    bad = np.flatnonzero((scale > _LARGEST_SCALE) | ((scale > 0) & (scale < 1 / _LARGEST_SCALE)))
    if bad.size or not np.any(scale):
        at = int(bad[0]) if bad.size else 0
        raise TargetsError(
            f"target {checked[at]:g} of workload {known.name!r} (number {at}, counted from 0): the "
            f"ratio of {'its squared norm' if normed else '1'} to it is {scale[at]:g}; expected "
            f"between {1 / _LARGEST_SCALE:g} and {_LARGEST_SCALE:g}: scale the queries or the "
            "targets"
        )
    return Problem(known, checked, neighbours)


def check_targets(workload: Workload | QueryGraph, targets: ArrayLike) -> Array:
    """Return a read-only array of the targets after checking them.

    A single number is repeated for every query, or for every group if the queries are not listed.

    Raises
    ------
    TargetsError
        If a target is masked or is not a real, positive and finite number, or the shape is wrong.
    """
    missing = masked_count(targets)
    if missing:
        raise TargetsError(
            f"{missing} targets for workload {workload.name!r} are masked; every query needs a "
            "variance bound: fill them, or leave those queries out"
        )
    try:
        values = real_numbers(targets)
    except (TypeError, ValueError, OverflowError) as error:
        raise TargetsError(
            f"targets for workload {workload.name!r} are not real numbers: {error}"
        ) from None
    counts, each = [workload.target_count if isinstance(workload, Workload) else 1], "query"
    if isinstance(workload, Workload) and not workload.listed:
        each = "group of queries"
        if isinstance(workload.operator, Kronecker):
            counts.append(workload.operator.rows_apart)
            each = "group of queries, or for each row of a group"
    if values.ndim == 0:
        values = np.full(counts[0], float(values))
    if values.shape not in {(count,) for count in counts}:
        raise TargetsError(
            f"targets of shape {values.shape} for workload {workload.name!r}; expected shape "
            f"{' or '.join(f'({count},)' for count in counts)}: a variance bound for each {each}"
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        raise TargetsError(
            f"target {values[bad[0]]} of query {bad[0]} (counted from 0) of workload "
            f"{workload.name!r}: a variance bound must be positive and finite"
            + (f"; {bad.size - 1} more are wrong" if bad.size > 1 else "")
        )
    values.flags.writeable = False
    return values


def as_float(count: int) -> float:
    """Convert an integer of any size to a float; infinite if it is too large for a float."""
    try:
        return float(count)
    except OverflowError:
        return float("inf")
