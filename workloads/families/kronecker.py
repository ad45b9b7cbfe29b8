"""Unions of Kronecker products of named one-dimensional workloads."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.lib.stride_tricks import sliding_window_view

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.given import from_matrix
from workloads.operators import Kronecker, Matrix, refuse_above_limit
from workloads.parameters import check_size, nearest
from workloads.ranges import differences
from workloads.workload import Workload, in_blocks

Spec = str | list[list[float]]


def build(terms: list[list[str | list[list[float]]]]) -> Workload:
    """The stacked terms, each the Kronecker product of its factors.

    Parameters
    ----------
    terms : list of list of str, or of matrices
        Factors ``"kind:size"``, one for each attribute; kinds are identity, total, prefix
        and all-range. A matrix of your own is the list of its rows.
        ``[["identity:4", "total:8"], ["prefix:4", "identity:8"]]`` asks for
        the first attribute's marginal and for prefixes of the first within each value of
        the second.

    Returns
    -------
    Workload
        One group for each term; never built unless asked for its matrix.
    """
    if not terms or not all(terms):
        raise WorkloadError(
            "workload 'kronecker': terms is empty or has an empty term; expected lists such as "
            "['identity:4', 'prefix:8']"
        )
    factors = {str(spec): _factor(spec) for term in terms for spec in term}
    operator = Kronecker(tuple(tuple(factors[str(spec)] for spec in term) for term in terms))
    domains = [tuple(int(f.shape[1]) for f in term) for term in operator.terms]
    for term, domain in zip(terms, domains, strict=True):
        if domain != domains[0]:
            raise WorkloadError(
                f"workload 'kronecker': term {_title(term)!r} is over a domain of {domain} values, "
                f"the first term over {domains[0]}; all terms need the same attributes"
            )
    return in_blocks("kronecker", operator, map(_title, terms), operator.term_sizes)


def _title(term: Sequence[Spec]) -> str:
    return " x ".join(
        rows if isinstance(rows, str) else f"{len(rows)} by {len(rows[0])} matrix" for rows in term
    )


def _factor(spec: Spec) -> Matrix:
    if not isinstance(spec, str):
        return from_matrix(spec, "kronecker, a factor").matrix
    kind, _, size = spec.partition(":")
    if kind not in KINDS:
        raise WorkloadError(
            f"workload 'kronecker': no factor is called {kind!r}; {nearest(kind, KINDS)}"
        )
    if not size.isdecimal() or len(size) > 20 or int(size) < 1:
        raise WorkloadError(
            f"workload 'kronecker': factor {spec!r} has no size; expected such as '{kind}:4'"
        )
    return factor("kronecker", kind, int(size))


def factor(workload: str, kind: str, size: int) -> Matrix:
    """The matrix of one of `KINDS` over this many values.

    Raises
    ------
    WorkloadError
        If it is too large.
    """
    check_size(f"workload {workload!r}: size of {kind!r}", size)
    if kind in _DENSE:
        entries = size**2 if kind == "prefix" else size**2 * (size + 1) // 2
        refuse_above_limit(
            entries, f"workload {workload!r}: factor '{kind}:{size}'", "lower its size"
        )
    return KINDS[kind](size)


def tables(
    workload: str, sizes: Sequence[int], kinds: Sequence[str], kept: Iterable[Iterable[int]]
) -> Kronecker:
    """For each set of attributes the product of their kinds, with the other attributes summed out.

    Parameters
    ----------
    kinds : sequence of str
        Of `KINDS`: what a table that keeps the attribute asks of it.
    kept : iterable of iterables of int
        The attributes of each table, from 0.
    """
    factors = [factor(workload, kind, size) for kind, size in zip(kinds, sizes, strict=True)]
    summed = [factor(workload, "total", size) for size in sizes]
    sets = [frozenset(table) for table in kept]
    return Kronecker(
        tuple(
            tuple((factors if at in table else summed)[at] for at in range(len(sizes)))
            for table in sets
        )
    )


def _all_range(size: int) -> Matrix:
    first, last = np.triu_indices(size)
    return np.asarray(differences(first, last, size) @ np.tri(size))


def _prefix(size: int) -> Matrix:
    """Windows on one row of numbers: a large matrix takes no memory until it is computed with."""
    if size <= _WRITTEN_OUT:
        return np.tri(size)
    row = np.repeat([1.0, 0.0], [size, size - 1])
    return sliding_window_view(row, size)[::-1]


KINDS: Mapping[str, Callable[[int], Matrix]] = {
    "identity": lambda size: sp.eye_array(size, format="csr"),
    "total": lambda size: np.ones((1, size)),
    "prefix": _prefix,
    "all-range": _all_range,
}
"""How the matrix of a factor of each kind is made."""

_DENSE = ("prefix", "all-range")
_WRITTEN_OUT = 1000

FAMILY = Family(
    "kronecker",
    "a union of Kronecker products of identity, total, prefix and all-range factors",
    build,
)
