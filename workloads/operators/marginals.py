"""Marginals of a domain of any size, described by their attributes alone."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import scipy.sparse as sp

from workloads.errors import WorkloadError
from workloads.operators.explicit import InMemory
from workloads.operators.kronecker import Kronecker
from workloads.operators.protocol import Array, Matrix, refuse_above_limit

_ADVICE = "use a mechanism that works on marginals without building them"


@dataclass(frozen=True)
class Marginals(InMemory):
    """All counts of some marginals: one query for each cell of each marginal, in C order.

    The domain is the product of the attributes; cells are numbered in C order, the last
    attribute fastest. Sizes may exceed those of any array (10^100 cells): the properties
    below are Python ints, and methods that would need such an array raise `WorkloadError`.

    Attributes
    ----------
    subsets : tuple of tuple of int
        The attributes of each marginal, ascending, counted from 0; () is the total.
    """

    sizes: tuple[int, ...]
    subsets: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise WorkloadError(
                f"marginals of attributes with {list(self.sizes)} values; every attribute "
                "needs at least one value"
            )
        if not self.subsets:
            raise WorkloadError("no marginals; give at least one subset of attributes")
        for subset in self.subsets:
            if list(subset) != sorted(set(subset)) or not set(subset) <= set(
                range(len(self.sizes))
            ):
                raise WorkloadError(
                    f"marginal on attributes {list(subset)}: expected different attributes, "
                    f"ascending, from 0 to {len(self.sizes) - 1}"
                )
        if len(set(self.subsets)) < len(self.subsets):
            repeated = next(s for s in self.subsets if self.subsets.count(s) > 1)
            raise WorkloadError(f"the marginal on attributes {list(repeated)} is listed twice")

    @cached_property
    def shape(self) -> tuple[int, int]:
        """(m, d), of any size."""
        return sum(self.marginal_sizes), prod(self.sizes)

    @cached_property
    def marginal_sizes(self) -> tuple[int, ...]:
        """Number of queries (cells) of each marginal."""
        return tuple(prod(self.sizes[i] for i in subset) for subset in self.subsets)

    @cached_property
    def contained_count(self) -> int:
        """Subsets of attributes, counted for each marginal that contains them."""
        orders = np.bincount(np.fromiter(map(len, self.subsets), dtype=np.int64))
        return sum(int(count) << order for order, count in enumerate(orders))

    @cached_property
    def marginal_squared_row_norms(self) -> tuple[int, ...]:
        """Squared 2-norm of every query of each marginal: the domain cells that it sums."""
        d = prod(self.sizes)
        return tuple(d // size for size in self.marginal_sizes)

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""
        return len(self.subsets) * self.shape[1] ** 2

    def squared_row_norms(self) -> Array:
        """Squared 2-norm of every query, shape (m,)."""
        refuse_above_limit(self.shape[0], "one number for each query", _ADVICE)
        try:
            norms = np.array([float(norm) for norm in self.marginal_squared_row_norms])
        except OverflowError as error:
            raise WorkloadError(
                f"squared norms over {readable(self.shape[1])} cells are beyond floats; use "
                "marginal_squared_row_norms, which is exact"
            ) from error
        return np.repeat(norms, self.marginal_sizes)

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``; unweighted, the number of marginals in every entry."""
        if weights is None:
            refuse_above_limit(self.shape[1], "one number for each domain cell", _ADVICE)
            return np.full(self.shape[1], float(len(self.subsets)))
        return self.apply_transposed(weights)

    @cached_property
    def array(self) -> Matrix:
        """W as CSR."""
        refuse_above_limit(
            2 * len(self.subsets) * self.shape[1],
            f"a matrix of {len(self.subsets)} marginals over {readable(self.shape[1])} cells",
            _ADVICE,
        )
        terms = tuple(
            tuple(
                sp.eye_array(size, format="csr") if i in subset else np.ones((1, size))
                for i, size in enumerate(self.sizes)
            )
            for subset in self.subsets
        )
        return Kronecker(terms).matrix()


def readable(count: int) -> str:
    """A count of any size, for a message."""
    return str(count) if count < 10**12 else f"about 10^{len(str(count)) - 1}"
