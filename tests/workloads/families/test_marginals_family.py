"""Marginals and tables of a census, counted by hand and far beyond any array."""

from itertools import product

import numpy as np
import pytest

from workloads import WorkloadError, make


def brute_force(sizes, subsets):
    """One query for each assignment of values to a subset: 1 where a cell agrees with it."""
    cells = list(product(*map(range, sizes)))
    return np.array(
        [
            [float(tuple(cell[i] for i in subset) == chosen) for cell in cells]
            for subset in subsets
            for chosen in product(*(range(sizes[i]) for i in subset))
        ]
    )


@pytest.mark.parametrize(
    ("params", "sizes", "subsets"),
    [
        ({"values": 2}, (2, 2, 2), [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]),
        ({"values": [2, 3, 4], "orders": [2]}, (2, 3, 4), [(0, 1), (0, 2), (1, 2)]),
        ({"values": [4, 2, 3], "orders": [2], "containing": 0}, (4, 2, 3), [(0, 1), (0, 2)]),
        ({"attributes": 2, "values": 3, "orders": [0, 2]}, (3, 3), [(), (0, 1)]),
        ({"values": 2, "subsets": [[2, 0], [1]]}, (2, 2, 2), [(0, 2), (1,)]),
    ],
)
def test_marginals_by_definition(params, sizes, subsets):
    workload = make("marginals", **params)
    np.testing.assert_array_equal(workload.dense, brute_force(sizes, subsets))
    assert workload.operator.sizes == sizes
    assert workload.operator.subsets == tuple(subsets)
    assert workload.group_names == tuple(",".join(map(str, s)) or "total" for s in subsets)
    counts = [int(np.prod([sizes[i] for i in subset])) for subset in subsets]
    assert list(workload.group_sizes) == counts
    assert workload.groups.tolist() == np.repeat(np.arange(len(subsets)), counts).tolist()


def test_tables_with_prefixes():
    attributes = {"age": 4, "sex": 2, "race": 3}
    tables = [["age", "race"], ["race", "sex"], []]
    workload = make("census", attributes=attributes, tables=tables, prefixes=["age"])
    assert workload.group_names == ("age,race", "sex,race", "total")
    assert workload.group_sizes == (12, 6, 1)
    ages, sexes, races = np.unravel_index(np.arange(24), (4, 2, 3))
    by_age = [(ages <= x) & (races == y) for x in range(4) for y in range(3)]
    by_sex = [(sexes == x) & (races == y) for x in range(2) for y in range(3)]
    np.testing.assert_array_equal(workload.dense, [*by_age, *by_sex, np.ones(24)])


def test_a_domain_beyond_any_array_keeps_its_exact_facts():
    workload = make("marginals", attributes=100, values=10, orders=[1, 3])
    assert workload.d == 10**100
    assert workload.m == 100 * 10 + 161_700 * 1000
    assert not workload.listed
    assert workload.groups is None
    assert workload.group_sizes == (10,) * 100 + (1000,) * 161_700


@pytest.mark.parametrize(
    "ask",
    [
        lambda w: w.matrix,
        lambda w: w.dense,
        lambda w: w.operator.gram(),
        lambda w: w.operator.apply(np.ones(1)),
        lambda w: w.operator.squared_column_norms(),
    ],
)
def test_what_needs_a_huge_array_is_refused(ask):
    with pytest.raises(
        WorkloadError, match=r"10\^\d+ GiB, more than the limit of 8 GiB; use a mech"
    ):
        ask(make("marginals", attributes=30, values=10, orders=[2]))
