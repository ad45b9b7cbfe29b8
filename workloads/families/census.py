"""Tables of a census: named attributes, some of them ordered."""

from collections.abc import Mapping

from workloads.errors import WorkloadError
from workloads.families.kronecker import tables as products
from workloads.family import Family
from workloads.parameters import check_size, nearest
from workloads.workload import Workload, in_blocks


def build(
    attributes: dict[str, int],
    tables: list[list[str]],
    prefixes: list[str] | None = None,
    ranges: list[str] | None = None,
) -> Workload:
    """One table for each list of attributes: a count for every combination of their values.

    Parameters
    ----------
    attributes : dict of str to int
        The attributes by name, in the order of the cells, and their numbers of values.
    tables : list of list of str
        The attributes of each table; the others are summed out, ``[]`` is the total.
    prefixes, ranges : list of str, optional
        Ordered attributes: tables with them count all prefixes, or all ranges, of their values
        instead of the values.

    Returns
    -------
    Workload
        One group for each table, named by its attributes: ``"age,sex"``. Of any domain size;
        never built unless asked for its matrix.
    """
    if not attributes or not tables:
        raise WorkloadError(
            "workload 'census': it needs attributes such as {age: 116, sex: 2}, and tables such as "
            "[[age], [age, sex]]"
        )
    kinds = dict.fromkeys(attributes, "identity")
    for kind, names in (("prefix", prefixes), ("all-range", ranges)):
        for name in names or ():
            _check_name(name, attributes)
            if kinds[name] != "identity":
                raise WorkloadError(
                    f"workload 'census': {name!r} is in prefixes and in ranges; leave it out of "
                    "prefixes: all ranges contain all prefixes"
                )
            kinds[name] = kind
    for name, size in attributes.items():
        check_size(f"workload 'census': number of values of {name!r}", size)
    for table in tables:
        for name in table:
            _check_name(name, attributes)
        if len(set(table)) < len(table):
            raise WorkloadError(f"workload 'census': the table {table} names an attribute twice")
    ordered = [tuple(name for name in attributes if name in table) for table in tables]
    repeated = next((table for table in ordered if ordered.count(table) > 1), None)
    if repeated is not None:
        raise WorkloadError(f"workload 'census': the table {list(repeated)} is listed twice")
    places = {name: at for at, name in enumerate(attributes)}
    operator = products(
        "census",
        list(attributes.values()),
        list(kinds.values()),
        ([places[name] for name in table] for table in ordered),
    )
    titles = (",".join(table) or "total" for table in ordered)
    return in_blocks("census", operator, titles, operator.term_sizes)


def _check_name(name: str, attributes: Mapping[str, int]) -> None:
    if name not in attributes:
        raise WorkloadError(
            f"workload 'census': no attribute is called {name!r}; {nearest(name, attributes)}"
        )


FAMILY = Family(
    "census",
    "tables over named attributes, prefixes or ranges of those that are ordered, of any size",
    build,
)
