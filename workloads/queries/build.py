"""Makes the workload of a table of queries, as products over attributes where that pays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from workloads.errors import WorkloadError
from workloads.operators import Explicit, Kronecker, QueryOperator
from workloads.queries.domain import RESERVED, Domain, domain_of, read_domain
from workloads.queries.rows import Choices, Query, Reader, RowQueries
from workloads.queries.table import COLUMNS, Table, read_table, table_of
from workloads.workload import Stated, Workload

LEAST_CELLS = 2048
"""Least number of cells of a domain for which the product structure of queries is used."""

MOST_TERMS = 256
"""Largest number of products; with more of them, the matrix itself is faster."""


Product = tuple["scipy.sparse.csr_array", ...]
"""Consecutive queries as a Kronecker product: one factor per attribute, one row per choice."""


def products(rows: Sequence[RowQueries], domain: Domain) -> tuple[Product, ...] | None:
    """The queries as products, in order; None if some query is not a product.

    Consecutive rows that differ in one attribute are joined into one product if that keeps the
    order: a hundred rows with ranges of ages become a product with a factor of a hundred rows.
    """
    merged: list[Product] = []
    for query in rows:
        if not query.is_product:
            return None
        factors = tuple(
            _factor(chosen, size) for chosen, size in zip(query.choices, domain.sizes, strict=True)
        )
        weighted = (scipy.sparse.csr_array(query.weight * factors[0]), *factors[1:])
        joined = _joined(merged[-1], weighted) if merged else None
        if joined is None:
            merged.append(weighted)
        else:
            merged[-1] = joined
    return tuple(merged)


def structured(rows: Sequence[RowQueries], domain: Domain) -> Kronecker | None:
    """The queries as a union of Kronecker products, where that pays; else None."""
    if domain.size < LEAST_CELLS:
        return None
    found = products(rows, domain)
    return None if found is None or len(found) > MOST_TERMS else Kronecker(found)


def _factor(chosen: Choices, size: int) -> "scipy.sparse.csr_array":
    positions = [choice.positions for choice in chosen.listed]
    starts = np.concatenate([[0], np.cumsum([len(p) for p in positions])])
    cells = np.concatenate(positions)
    return scipy.sparse.csr_array(
        (np.ones(len(cells)), cells, starts), shape=(len(positions), size)
    )


def _joined(first: Product, second: Product) -> Product | None:
    """The two products as one, or None if that is not possible.

    They must differ in one attribute only, and the factors before it must have one row each.
    """
    pairs = list(zip(first, second, strict=True))
    other = [at for at, (left, right) in enumerate(pairs) if not _equal(left, right)]
    if len(other) != 1 or any(factor.shape[0] > 1 for factor, _ in pairs[: other[0]]):
        return None
    at = other[0]
    return (*first[:at], scipy.sparse.csr_array(scipy.sparse.vstack(pairs[at])), *first[at + 1 :])


def _equal(first: "scipy.sparse.csr_array", second: "scipy.sparse.csr_array") -> bool:
    return (
        first.shape == second.shape
        and np.array_equal(first.indptr, second.indptr)
        and np.array_equal(first.indices, second.indices)
        and np.array_equal(first.data, second.data)
    )


MOST_QUERIES = 1_000_000
"""Largest number of queries allowed once every ``*`` has been expanded."""

MOST_ENTRIES = 200_000_000
"""Largest number of nonzero coefficients that are written out."""


def from_queries(frame: Any, domain: Domain | Mapping[str, Any]) -> Workload:
    """The workload of a table of queries, with their names and their targets.

    Parameters
    ----------
    frame : pandas.DataFrame, or mapping of str to list
        A query in each row (several if a cell is ``*``), in columns for the attributes that queries
        select by and for their targets; the documentation on advice describes them.
    domain : Domain or mapping
        The attributes with their values in order: ``{"age": "0..115", "sex": ["f", "m"]}``.

    Returns
    -------
    Workload
        With ``labels``, a group for each row, and the ``stated`` targets, which `solvers.solve`
        uses if it gets no others.

    Raises
    ------
    WorkloadError
        If a cell cannot be understood; the message has row, column and the nearest valid name.
    """
    return _made(table_of(frame), domain_of(domain))


def read_queries(path: str, domain: str | Domain, *, names_files: bool = True) -> Workload:
    """The workload in a CSV file of queries over the domain in a YAML file.

    Parameters
    ----------
    path : str
        The queries, a CSV file with a header.
    domain : str or Domain
        The domain, or a YAML file with a line for each attribute.
    names_files : bool
        Whether the table may name files of coefficients.

    Returns
    -------
    Workload
        As for `from_queries`.

    Raises
    ------
    WorkloadError
        If a file or a cell cannot be understood; the message says where.
    """
    known = read_domain(domain) if isinstance(domain, str) else domain
    return _made(read_table(path, names_files=names_files), known)


def usual_queries(domain: Domain) -> Workload:
    """The total and the count of every value of every attribute, which are most often added."""
    stars = [{"variance": "1"}, *({name: "*", "variance": "1"} for name in domain.names)]
    columns = ("variance", *domain.names)
    return from_queries({name: [star.get(name, "") for star in stars] for name in columns}, domain)


def _made(table: Table, domain: Domain) -> Workload:
    table.check_columns([*domain.names, *RESERVED])
    if not set(COLUMNS) & set(table.columns):
        raise WorkloadError(
            f"{table.source}: no column of targets; add one of: {', '.join(COLUMNS)}"
        )
    reader = Reader(domain)
    rows = tuple(reader.row_queries(row, table.folder) for row in table.rows)
    _check_distinct((query.label, query) for query in rows)
    counts = [query.count for query in rows]
    if sum(counts) > MOST_QUERIES:
        raise WorkloadError(
            f"{table.source}: {sum(counts):,} queries, '*' written out; expected at most "
            f"{MOST_QUERIES:,}, the limit of workloads.queries.build.MOST_QUERIES: ask less, or "
            "use workload 'marginals' or 'kronecker'"
        )
    operator, labels = _operator(table.source, rows, domain)
    return Workload(
        "queries",
        operator,
        groups=np.repeat(np.arange(len(counts)), counts),
        group_names=tuple(query.label for query in rows),
        group_sizes=tuple(counts),
        labels=labels,
        stated=Stated(
            np.repeat([query.target.variance for query in rows], counts),
            np.repeat([query.target.confidence for query in rows], counts),
        ),
    )


def _operator(
    source: str, rows: Sequence[RowQueries], domain: Domain
) -> tuple[QueryOperator, tuple[str, ...]]:
    """The query matrix, and the name of every query."""
    kept = structured(rows, domain)
    if kept is None and sum(query.entries for query in rows) > MOST_ENTRIES:
        raise WorkloadError(
            f"{source}: more than {MOST_ENTRIES:,} coefficients that are not 0, the limit of "
            "workloads.queries.build.MOST_ENTRIES: give the attributes fewer values"
        )
    queries = [query for group in rows for query in group.queries()]
    _check_labels(source, queries)
    labels = tuple(query.label for query in queries)
    return (Explicit(_matrix(queries, domain)) if kept is None else kept), labels


def _matrix(queries: Sequence[Query], domain: Domain) -> "scipy.sparse.csr_array":
    lengths = [query.cells.size for query in queries]
    values = np.concatenate([np.broadcast_to(q.coefficients, q.cells.shape) for q in queries])
    cells = np.concatenate([query.cells for query in queries])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    shape = (len(queries), domain.size)
    return scipy.sparse.csr_array((values.astype(np.float64), cells, starts), shape=shape)


def _check_distinct(labelled: Iterable[tuple[str, RowQueries]]) -> None:
    seen: dict[str, RowQueries] = {}
    for label, query in labelled:
        first = seen.setdefault(label, query)
        if first is not query:
            raise query.row.error(
                "label", f"{label!r} names {first.row.place} too; give each row a label of its own"
            )


def _check_labels(source: str, queries: Sequence[Query]) -> None:
    """Refuse two queries with the same name, which unusual labels can cause."""
    seen: set[str] = set()
    for query in queries:
        if query.label in seen:
            raise WorkloadError(
                f"{source}, column 'label': two queries are called {query.label!r}; give their "
                "rows other labels"
            )
        seen.add(query.label)
