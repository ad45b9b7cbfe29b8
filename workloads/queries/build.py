"""The workload of a table of queries, made of Kronecker products if that saves work."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy

from workloads.errors import WorkloadError
from workloads.operators import (
    Array,
    Explicit,
    Indices,
    Kronecker,
    QueryOperator,
    refuse_above_limit,
)
from workloads.parameters import nearest
from workloads.queries.domain import RESERVED, Domain, domain_of
from workloads.queries.rows import Choices, RowQueries, read_rows
from workloads.queries.table import COLUMNS, Table, convert_table, read_table
from workloads.workload import Stated, Workload, in_blocks

LEAST_CELLS = 2048
"""Least number of domain cells for which the product structure of queries is used."""

MOST_TERMS = 256
"""Largest number of Kronecker products in a workload; with more, the matrix itself is faster."""


Product = tuple["scipy.sparse.csr_array", ...]
"""Consecutive queries as a Kronecker product: one factor for each attribute.

Each row of a factor selects some of the attribute's values: its entries are 0 and 1. The first
factor is multiplied by the weight of the table row.
"""


def find_products(rows: Sequence[RowQueries], domain: Domain) -> Kronecker | None:
    """Return the queries as stacked Kronecker products, in order; None if that saves no work.

    Each table row is a product. Consecutive products that differ in one attribute only are joined
    if the order of the queries allows it: a hundred rows, each with a range of ages, become one
    product with a factor of a hundred rows. The result is also None if a row has coefficients or a
    condition.
    """
    products = all(row.coefficients is None for row in rows)
    if domain.size < LEAST_CELLS or not products:
        return None
    merged: list[Product] = []
    for row in rows:
        first, *others = map(_make_factor, row.choices, domain.sizes)
        product: Product = (scipy.sparse.csr_array(row.weight * first), *others)
        merged[-1:] = _join(merged[-1], product) if merged else [product]
    return Kronecker(tuple(merged)) if len(merged) <= MOST_TERMS else None


def _make_factor(chosen: Choices, size: int) -> "scipy.sparse.csr_array":
    return _make_sparse(chosen.positions, np.ones(sum(map(len, chosen.positions))), size)


def _make_sparse(columns: Sequence[Indices], values: Array, size: int) -> "scipy.sparse.csr_array":
    """Return a sparse matrix of shape (len(columns), size) with these nonzero entries of its rows.

    ``columns`` has the column indices of each row's entries, ``values`` the entries of all rows.
    """
    starts = np.concatenate([[0], np.cumsum([len(own) for own in columns])])
    shape = (len(columns), size)
    return scipy.sparse.csr_array((values, np.concatenate(columns), starts), shape=shape)


def _join(first: Product, second: Product) -> list[Product]:
    """Join two products into one if possible; otherwise return both.

    Products are joined if they differ in one factor only and all factors before it have one row.
    """
    pairs = list(zip(first, second, strict=True))
    other = [at for at, (left, right) in enumerate(pairs) if not _are_equal(left, right)]
    if len(other) != 1 or any(factor.shape[0] > 1 for factor, _ in pairs[: other[0]]):
        return [first, second]
    at = other[0]
    both = scipy.sparse.csr_array(scipy.sparse.vstack(pairs[at]))
    return [(*first[:at], both, *first[at + 1 :])]


def _are_equal(first: "scipy.sparse.csr_array", second: "scipy.sparse.csr_array") -> bool:
    parts = ((getattr(f, name) for f in (first, second)) for name in ("indptr", "indices", "data"))
    return all(np.array_equal(*pair) for pair in parts)


MOST_QUERIES = 1_000_000
"""Largest number of queries allowed once every ``*`` has been expanded.

This many take 4 seconds to read and, with their labels, 250 MB.
"""

_FLOATS_PER_ENTRY = 4
"""Memory that making a query matrix takes for each nonzero coefficient: 34 bytes were measured."""


def from_queries(
    queries: object,
    domain: Domain | str | Path | Mapping[str, object],
    *,
    names_files: bool = True,
) -> Workload:
    """Make a workload from a table of queries with their names and targets.

    Parameters
    ----------
    queries : str, pathlib.Path, pandas.DataFrame, or mapping of str to list
        A table, or the path of a CSV file with a header. There is one query in each row, or several
        if a table cell contains ``*``. An attribute's column says which of the attribute's values a
        query selects. Other columns have the queries' targets and, optionally, their labels,
        weights, conditions or coefficients (docs/advice.md).
    domain : Domain, str, pathlib.Path or mapping
        The attributes with their values in order: ``{"age": "0..115", "sex": ["f", "m"]}``, or the
        path of a YAML file with a line for each attribute.
    names_files : bool
        Whether the cells of a file may name files of coefficients.

    Returns
    -------
    Workload
        A workload with ``labels``, a group for each row, and ``stated`` targets, which
        `solvers.solve` uses by default.

    Raises
    ------
    WorkloadError
        If a file cannot be read or a table cell is not valid; the message names the cell's row and
        column and, for an unknown name, the nearest valid one.
    """
    attributes = domain_of(domain)
    if isinstance(queries, str | Path):
        return _make_workload(read_table(str(queries), names_files=names_files), attributes)
    return _make_workload(convert_table(queries), attributes)


def usual_queries(domain: Domain) -> Workload:
    """Return the total, and the count of each value of each attribute, all with a target of 1."""
    rows = ("", *domain.names)
    stars = {name: ["*" if row == name else "" for row in rows] for name in domain.names}
    return from_queries(stars | {"variance": ["1"] * len(rows)}, domain)


def _make_workload(table: Table, domain: Domain) -> Workload:
    source, known = table.source, (*domain.names, *RESERVED)
    for column in table.columns:
        if column not in known:
            raise WorkloadError(
                f"{source}, column {column!r}: neither an attribute of the domain nor another "
                f"column; {nearest(column, known)}"
            )
    if not set(COLUMNS) & set(table.columns):
        raise WorkloadError(f"{source}: no column of targets; add one of: {', '.join(COLUMNS)}")
    rows = read_rows(table, domain)
    counts = [math.prod(len(c.positions) for c in row.choices) for row in rows]
    if sum(counts) > MOST_QUERIES:
        raise WorkloadError(
            f"{source}: {sum(counts):,} queries, one for every value of a '*'; expected at most "
            f"{MOST_QUERIES:,}, the limit of workloads.queries.build.MOST_QUERIES: ask fewer, or "
            "use workload 'marginals' or 'kronecker'"
        )
    named: dict[str, RowQueries] = {}
    for row in rows:
        for label in (row.label, *row.labels):
            first = named.setdefault(label, row)
            if first is not row:
                there = f"{label!r} names {first.row.place} too; give each row a label of its own"
                raise row.row.error("label", there)
    operator: QueryOperator | None = find_products(rows, domain)
    if operator is None:
        entries = sum(math.prod(sum(map(len, c.positions)) for c in row.choices) for row in rows)
        what = f"{source}: making a matrix of {entries:,} coefficients that are not 0"
        refuse_above_limit(_FLOATS_PER_ENTRY * entries, what, "give the attributes fewer values")
        cells, values = zip(*(query for row in rows for query in row.queries()), strict=True)
        operator = Explicit(_make_sparse(cells, np.concatenate(values), domain.size))
    return replace(
        in_blocks("queries", operator, (row.label for row in rows), counts),
        labels=tuple(label for row in rows for label in row.labels),
        stated=Stated(*np.repeat(np.transpose([row.target for row in rows]), counts, axis=1)),
    )
