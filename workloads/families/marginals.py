"""Marginals of a domain of several attributes."""

from itertools import combinations
from math import comb

from workloads.errors import WorkloadError
from workloads.families.kronecker import tables
from workloads.family import Family
from workloads.operators import Marginals
from workloads.parameters import LARGEST_SIZE, check_size
from workloads.workload import Workload, in_blocks

_ORDERS = [1, 2]


def build(
    attributes: int = 3,
    values: int | list[int] = 2,
    orders: list[int] = _ORDERS,
    containing: int | None = None,
    subsets: list[list[int]] | None = None,
    prefixes: list[int] | None = None,
    ranges: list[int] | None = None,
) -> Workload:
    """All marginals of the given orders, one group for each, named by its attributes.

    Parameters
    ----------
    attributes : int
        Number of attributes.
    values : int or list of int
        Number of values of every attribute, or of each.
    orders : list of int
        How many attributes a marginal has: ``[1, 2]`` for all one- and two-way marginals.
        arXiv v1's workload (A) is ``[1]``.
    containing : int, optional
        Only the marginals with this attribute, counted from 0. arXiv v1's workload (B) is
        ``orders=[2], containing=0``.
    subsets : list of list of int, optional
        These marginals instead of all of some orders; attributes counted from 0.
    prefixes, ranges : list of int, optional
        Ordered attributes, counted from 0: marginals with them count all prefixes, or all
        ranges, of their values instead of the values.

    Returns
    -------
    Workload
        Of any domain size; ``operator`` is a `Marginals`, or a `Kronecker` where some attribute
        is ordered.
    """
    check_size("workload 'marginals': attributes", attributes)
    sizes = tuple(values) if isinstance(values, list | tuple) else (values,) * attributes
    if len(sizes) != attributes:
        raise WorkloadError(
            f"workload 'marginals': {len(sizes)} sizes in values for {attributes} attributes; "
            "give one number, or one for each attribute"
        )
    chosen = (
        _of_orders(attributes, orders)
        if subsets is None
        else tuple(tuple(sorted(subset)) for subset in subsets)
    )
    if containing is not None:
        if not 0 <= containing < attributes:
            raise WorkloadError(
                f"workload 'marginals': containing is {containing}; expected an attribute from 0 "
                f"to {attributes - 1}"
            )
        chosen = tuple(subset for subset in chosen if containing in subset)
    names = (",".join(map(str, subset)) or "total" for subset in chosen)
    plain = Marginals(sizes, chosen)
    if not prefixes and not ranges:
        return in_blocks("marginals", plain, names, plain.marginal_sizes)
    ordered = tables("marginals", sizes, _kinds(attributes, prefixes or [], ranges or []), chosen)
    return in_blocks("marginals", ordered, names, ordered.term_sizes)


def _kinds(attributes: int, prefixes: list[int], ranges: list[int]) -> list[str]:
    kinds = ["identity"] * attributes
    for kind, listed in (("prefix", prefixes), ("all-range", ranges)):
        for at in listed:
            if not 0 <= at < attributes or kinds[at] != "identity":
                raise WorkloadError(
                    f"workload 'marginals': attribute {at} in prefixes or ranges; expected "
                    f"different ones from 0 to {attributes - 1}"
                )
            kinds[at] = kind
    return kinds


def _of_orders(attributes: int, orders: list[int]) -> tuple[tuple[int, ...], ...]:
    for order in orders:
        if not 0 <= order <= attributes:
            raise WorkloadError(
                f"workload 'marginals': order {order} in orders; expected 0 to {attributes}, the "
                "number of attributes"
            )
    marginals = sum(comb(attributes, order) for order in orders)
    looked_at = "workload 'marginals': marginals times attributes"
    check_size(looked_at, marginals * attributes, 0, 5 * LARGEST_SIZE)
    return tuple(subset for order in orders for subset in combinations(range(attributes), order))


FAMILY = Family(
    "marginals",
    "marginals of some orders of a domain of several attributes, of any size",
    build,
    source="PVLDB 14(10), section 7.7; arXiv v1, section 7.6",
)
