"""Families of queries over several attributes: marginals, census tables, Kronecker products."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import comb, inf
from typing import TypeVar

import numpy as np
import scipy
from numpy.lib.stride_tricks import sliding_window_view

from workloads.errors import WorkloadError, blaming
from workloads.family import Family
from workloads.given import from_matrix, stacked_products
from workloads.operators import (
    Explicit,
    Kronecker,
    Marginals,
    Matrix,
    differences,
    refuse_above_limit,
)
from workloads.parameters import LARGEST_SIZE, Size, check_size, nearest
from workloads.workload import Workload, in_blocks

Spec = str | list[list[float]]
Name = TypeVar("Name", bound=int | str)
"""The name or the index of an attribute."""


@Family.of("kronecker")
def kronecker(terms: list[list[str | list[list[float]]]]) -> Workload:
    """Stacked Kronecker products of identity, total, prefix and all-range factors.

    Parameters
    ----------
    terms : list of list of (str or list of list of float)
        Each term lists its factors, one for each attribute. A factor is either a text
        ``"kind:size"``, whose kind is identity, total, prefix or all-range, or a matrix, written as
        the list of its rows.
        ``[["identity:4", "total:8"], ["prefix:4", "identity:8"]]`` asks for the first attribute's
        marginal, and for the first attribute's prefixes within each value of the second.

    Returns
    -------
    Workload
        A workload with one group of queries for each term; its matrix is built only when needed.
    """
    with blaming("terms"):
        factors = {str(spec): _factor(spec) for term in terms for spec in term}
        products = tuple(tuple(factors[str(spec)] for spec in term) for term in terms)
        titles = [
            " x ".join(f if isinstance(f, str) else f"{len(f)} by {len(f[0])} matrix" for f in term)
            for term in terms
        ]
        return stacked_products("kronecker", products, titles)


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
            f"workload 'kronecker': factor {spec!r} has no size; give it one, as in '{kind}:4'"
        )
    return factor("kronecker", kind, int(size))


def factor(workload: str, kind: str, size: int) -> Matrix:
    """Return the matrix of a factor over ``size`` values; ``kind`` is a key of `KINDS`.

    Raises
    ------
    WorkloadError
        If the matrix is too large.
    """
    check_size(f"workload {workload!r}: size of {kind!r}", size)
    entries = {"prefix": size**2, "all-range": size**2 * (size + 1) // 2}.get(kind, size)
    refuse_above_limit(entries, f"workload {workload!r}: factor '{kind}:{size}'", "lower its size")
    return KINDS[kind](size)


def _in_order(
    workload: str, attributes: Mapping[Name, int], tables: Iterable[Sequence[Name]], sizes: str
) -> tuple[tuple[Name, ...], ...]:
    """Check the tables, and sort the attributes of each into their order in ``attributes``.

    ``sizes`` is the name of the parameter that has the attributes' numbers of values.

    Raises
    ------
    WorkloadError
        If an attribute has no values, a table names an unknown attribute or the same one twice,
        two tables have the same attributes, or there is no attribute or no table.
    """
    with blaming(sizes):
        for name, size in attributes.items():
            check_size(f"workload {workload!r}: number of values of {name!r}", size, most=inf)
    at = {name: position for position, name in enumerate(attributes)}
    seen: dict[tuple[Name, ...], None] = {}
    for table in tables:
        for name in table:
            _check_known(workload, name, attributes)
        ordered = tuple(sorted(table, key=at.__getitem__))
        if ordered in seen or len(set(table)) < len(table):
            what = "the table is" if ordered in seen else "an attribute is"
            raise WorkloadError(f"workload {workload!r}, table {[*table]}: {what} listed twice")
        seen[ordered] = None
    if not attributes or not seen:
        raise WorkloadError(
            f"workload {workload!r}: expected at least one attribute and at least one table"
        )
    return tuple(seen)


def _title_of(table: Sequence[object]) -> str:
    return ",".join(map(str, table)) or "total"


def _tables(
    workload: str,
    attributes: Mapping[Name, int],
    tables: Sequence[Sequence[Name]],
    prefixes: Sequence[Name] | None,
    ranges: Sequence[Name] | None,
) -> Workload:
    """Return a workload with one Kronecker product for each table.

    Each product sums over the attributes that its table does not list.

    Parameters
    ----------
    attributes : Mapping
        The number of values of each attribute, by the attribute's name or index.
    tables : sequence of sequences
        The attributes of each table, as `_in_order` returns them.
    prefixes, ranges : sequence, optional
        Attributes for which tables count all prefixes, or all ranges, instead of single values.
    """
    kinds = dict.fromkeys(attributes, "identity")
    ordered = ("prefixes", "prefix", prefixes), ("ranges", "all-range", ranges)
    for parameter, kind, listed in ordered:
        for name in listed or ():
            _check_known(workload, name, attributes, parameter)
            if kinds[name] != "identity":
                raise WorkloadError(
                    f"workload {workload!r}: attribute {name!r} is listed twice in prefixes and "
                    "ranges; list it once: all ranges contain all prefixes",
                    parameter,
                )
            kinds[name] = kind
    asked = {name: factor(workload, kinds[name], size) for name, size in attributes.items()}
    summed = {name: factor(workload, "total", size) for name, size in attributes.items()}
    products = [
        tuple(asked[name] if name in table else summed[name] for name in attributes)
        for table in map(frozenset, tables)
    ]
    return stacked_products(workload, products, list(map(_title_of, tables)))


def _all_range(size: int) -> Matrix:
    first, last = np.triu_indices(size)
    return np.asarray(differences(first, last, size) @ np.tri(size))


def _prefix(size: int) -> Matrix:
    """Return the (size, size) matrix of prefix sums, a view of an array of 2 size - 1 numbers."""
    row = np.repeat([1.0, 0.0], [size, size - 1])
    return sliding_window_view(row, size)[::-1]


KINDS: Mapping[str, Callable[[int], Matrix]] = {
    "identity": lambda size: scipy.sparse.eye_array(size, format="csr"),
    "total": lambda size: np.ones((1, size)),
    "prefix": _prefix,
    "all-range": _all_range,
}
"""The function that builds a factor's matrix from the number of values, for each kind."""


_ORDERS = [1, 2]


@Family.of("marginals", source="PVLDB 14(10), section 7.7; arXiv v1, section 7.6")
def marginals(
    attributes: Size = 3,
    values: int | list[int] = 2,
    orders: list[int] = _ORDERS,
    containing: int | None = None,
    subsets: list[list[int]] | None = None,
    prefixes: list[int] | None = None,
    ranges: list[int] | None = None,
) -> Workload:
    """Marginals of chosen orders over several attributes; the domain may have any size.

    Each marginal is a group of queries, named after the marginal's attributes.

    Parameters
    ----------
    attributes : int
        Number of attributes.
    values : int or list of int
        Number of values: the same for all attributes, or one for each.
    orders : list of int
        How many attributes a marginal may have: ``[1, 2]`` asks for all one- and two-way
        marginals. Workload (A) of arXiv v1 is ``orders=[1]``.
    containing : int, optional
        The index, from 0, of an attribute that all marginals must have; marginals without it are
        left out. Workload (B) of arXiv v1 is ``orders=[2], containing=0``.
    subsets : list of list of int, optional
        The indices, from 0, of each marginal's attributes. If given, ``orders`` is ignored.
    prefixes, ranges : list of int, optional
        The indices, from 0, of ordered attributes. The marginals count all prefixes, or all ranges,
        of such an attribute's values instead of single values.

    Returns
    -------
    Workload
        A workload whose ``operator`` is a `Kronecker` if prefixes or ranges are asked for, and a
        `Marginals` otherwise.
    """
    sizes = tuple(values) if isinstance(values, list | tuple) else (values,) * attributes
    if len(sizes) != attributes:
        raise WorkloadError(
            f"workload 'marginals': {len(sizes)} sizes in values for {attributes} attributes; "
            "give one number, or one for each attribute",
            "values",
        )
    named = dict(enumerate(sizes))
    asked = _of_orders(attributes, orders) if subsets is None else subsets
    if containing is not None:
        _check_known("marginals", containing, named, "containing")
        asked = [subset for subset in asked if containing in subset]
    with blaming("subsets"):
        chosen = _in_order("marginals", named, asked, "values")
    if prefixes or ranges:
        return _tables("marginals", named, chosen, prefixes, ranges)
    plain = Marginals(sizes, chosen)
    return in_blocks("marginals", plain, map(_title_of, chosen), plain.marginal_sizes)


def _check_known(
    workload: str, name: int | str, attributes: Iterable[int | str], parameter: str | None = None
) -> None:
    if name not in attributes:
        raise WorkloadError(
            f"workload {workload!r}: no attribute is called {name!r}; "
            f"{nearest(name, map(str, attributes))}",
            parameter,
        )


def _of_orders(attributes: int, orders: list[int]) -> list[Sequence[int]]:
    for order in orders:
        if not 0 <= order <= attributes:
            raise WorkloadError(
                f"workload 'marginals': order {order} in orders; expected 0 to {attributes}, the "
                "number of attributes",
                "orders",
            )
    marginals = sum(comb(attributes, order) for order in orders)
    looked_at = "workload 'marginals': marginals times attributes"
    with blaming("orders"):
        check_size(looked_at, marginals * attributes, 0, 5 * LARGEST_SIZE)
    return [subset for order in orders for subset in combinations(range(attributes), order)]


@Family.of("census")
def census(
    attributes: dict[str, int],
    tables: list[list[str]],
    prefixes: list[str] | None = None,
    ranges: list[str] | None = None,
) -> Workload:
    """Tables of counts over named attributes, with prefixes or ranges of ordered attributes.

    A table has one count for every combination of its attributes' values.

    Parameters
    ----------
    attributes : dict of str to int
        The number of values of each attribute, by name. The last attribute varies fastest in the
        order of the domain cells.
    tables : list of list of str
        The attributes of each table; its counts sum over all others, so ``[]`` is the total.
    prefixes, ranges : list of str, optional
        Ordered attributes. The tables count all prefixes, or all ranges, of such an attribute's
        values instead of single values.

    Returns
    -------
    Workload
        A workload with one group of queries for each table, named after the table's attributes:
        ``"age,sex"``. The domain may have any size; the matrix is built only when needed.
    """
    with blaming("tables"):
        chosen = _in_order("census", attributes, tables, "attributes")
    return _tables("census", attributes, chosen, prefixes, ranges)


_CATEGORIES = 6

RACES = tuple(
    chosen
    for size in range(1, _CATEGORIES + 1)
    for chosen in combinations(range(_CATEGORIES), size)
)
"""The 63 races: all non-empty subsets of the six OMB race categories, from small to large."""

_GROUPS = ("voting-age", "ethnicity", "one-race", "several-races", "identity")


@Family.of("pl94", source="arXiv v1, section 7.2; PVLDB 14(10), section 7.3")
def pl94() -> Workload:
    """319 queries of the US redistricting file: voting age x ethnicity x race (d = 252).

    The groups are ``voting-age`` (2 queries), ``ethnicity`` (2), ``one-race`` (6: people who
    selected a given race category only), ``several-races`` (57: people who selected a given set of
    at least two categories) and ``identity`` (252: every domain cell). Their targets in arXiv v1
    are 1, 1, 1, 2 and 4.
    """
    yes_no, races = (scipy.sparse.eye_array(n, format="csr") for n in (2, len(RACES)))
    both, all_races = np.ones((1, 2)), np.ones((1, len(RACES)))
    terms = (
        (yes_no, both, all_races),
        (both, yes_no, all_races),
        (both, both, races[:_CATEGORIES]),
        (both, both, races[_CATEGORIES:]),
        (yes_no, yes_no, races),
    )
    union = Kronecker(terms)
    return in_blocks("pl94", Explicit(union.matrix()), _GROUPS, union.term_sizes)
