"""The workload: a query matrix with its name, its parameters and its groups of queries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workloads.errors import WorkloadError
from workloads.operators import (
    Array,
    Matrix,
    QueryOperator,
    dense,
    readable,
    refuse_above_limit,
)

LARGEST_LISTED = 10_000_000
"""Largest number of queries for which a workload with groups has a target for each query.

With more queries, the workload has one target for each group. Each vector with a number for every
listed query takes 80 MB.
"""


@dataclass(frozen=True, eq=False)
class Stated:
    """The accuracy that the author of the queries asked for.

    Attributes
    ----------
    targets : numpy.ndarray, shape (m,)
        The largest variance that each answer may have.
    confidences : numpy.ndarray, shape (m,)
        The confidence level stated for each answer's margin of error; 0.95 by default.
    """

    targets: Array
    confidences: Array


@dataclass(frozen=True, eq=False, repr=False)
class Workload:
    """A batch of m linear queries over a domain of d cells.

    Attributes
    ----------
    name : str
        The family's name, for instance ``"prefix"``.
    operator : QueryOperator
        The query matrix W, shape (m, d), as an operator.
    groups : numpy.ndarray of int, shape (m,), optional
        The index, from 0, of each query's group (for instance its marginal). None if the workload
        has no groups or is not `listed`.
    group_names : tuple of str
        One name for each group.
    group_sizes : tuple of int
        Number of queries in each group, as Python ints, which may be of any size. If the workload
        is not `listed`, the groups are consecutive blocks of these sizes.
    labels : tuple of str
        The distinct names of the queries; empty if the queries have no names.
    stated : Stated, optional
        The targets and confidence levels that the author of the queries stated.
    """

    name: str
    operator: QueryOperator
    params: Mapping[str, object] = field(default_factory=dict)
    groups: NDArray[np.int64] | None = None
    group_names: tuple[str, ...] = ()
    group_sizes: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    stated: Stated | None = None

    def __post_init__(self) -> None:
        if len(self.labels) not in (0, self.m):
            raise WorkloadError(
                f"workload {self.name!r}: {len(self.labels)} labels for {self.m} queries; expected "
                "one for each, or none"
            )
        names, sizes = len(self.group_names), len(self.group_sizes)
        grouped = 0 if self.groups is None else len(self.groups)
        listed = self.m if sizes and self.listed else 0
        if names != sizes or grouped != listed or (sizes and sum(self.group_sizes) != self.m):
            raise WorkloadError(
                f"workload {self.name!r}: {names} group names, {sizes} group sizes that sum to "
                f"{sum(self.group_sizes)}, and {grouped} queries with a group; expected as many "
                f"names as sizes, a sum of {self.m}, and the group of {listed} queries"
            )

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The numbers of queries and of domain cells: (m, d)."""
        return self.operator.shape

    @property
    def m(self) -> int:
        """Number of queries."""
        return self.shape[0]

    @property
    def d(self) -> int:
        """Number of domain cells."""
        return self.shape[1]

    @property
    def listed(self) -> bool:
        """Whether there is one target for each query rather than one for each group.

        False for workloads that have groups and more than `LARGEST_LISTED` queries.
        """
        return not self.group_sizes or self.m <= LARGEST_LISTED

    @property
    def target_count(self) -> int:
        """Number of targets: m, or the number of groups if the workload is not `listed`."""
        return self.m if self.listed else len(self.group_sizes)

    def __matmul__(self, x: ArrayLike) -> Array:
        """Return the exact answers ``W @ x``, shape (m,) for x of shape (d,), or (m, n) for (d, n).

        Raises
        ------
        WorkloadError
            If x is not an array of real numbers with one entry, or one row, for each domain cell.
        """
        return self.operator @ x

    def __repr__(self) -> str:
        """Return the name and size, then a line for each parameter and a line for the groups."""
        lines = [f"{self.name}: {readable(self.m)} queries over {readable(self.d)} cells"]
        lines += [f"  {name}: {value}" for name, value in self.params.items() if value is not None]
        if self.group_names:
            lines.append(f"  {len(self.group_names)} groups: {'; '.join(self.group_names)}")
        return "\n".join(line if len(line) <= 100 else f"{line[:96]} ..." for line in lines)

    @cached_property
    def matrix(self) -> Matrix:
        """W, dense or CSR, shape (m, d).

        Raises
        ------
        WorkloadError
            If W would take more than 8 GiB.
        """
        return self.operator.matrix()

    @cached_property
    def dense(self) -> Array:
        """W as a dense float64 array, shape (m, d).

        Raises
        ------
        WorkloadError
            If W would take more than 8 GiB.
        """
        m, d = self.shape
        refuse_above_limit(m * d, f"workload {self.name!r}: a dense {m} x {d} matrix")
        return dense(self.matrix)


def in_blocks(
    name: str, operator: QueryOperator, names: Iterable[str], sizes: Iterable[int]
) -> Workload:
    """Make a workload whose groups are consecutive blocks of queries.

    Parameters
    ----------
    sizes : iterable of int
        The number of queries in each block; the numbers sum to m.
    """
    counts = tuple(sizes)
    listed = sum(counts) <= LARGEST_LISTED
    groups = np.repeat(np.arange(len(counts)), counts) if listed else None
    return Workload(name, operator, groups=groups, group_names=tuple(names), group_sizes=counts)
