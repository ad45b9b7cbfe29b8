"""Tables of a census, by brute force."""

from itertools import product

import numpy as np

from workloads import make

ATTRIBUTES = {"age": 4, "sex": 2, "race": 3}
CELLS = list(product(range(4), range(2), range(3)))


def counted(seen):
    return [float(bool(seen(*cell))) for cell in CELLS]


def test_tables_with_prefixes():
    tables = [["age", "race"], ["race", "sex"], []]
    workload = make("census", attributes=ATTRIBUTES, tables=tables, prefixes=["age"])
    assert workload.group_names == ("age,race", "sex,race", "total")
    assert workload.group_sizes == (12, 6, 1)
    expected = [
        *(counted(lambda a, s, r, x=x, y=y: a <= x and r == y) for x in range(4) for y in range(3)),
        *(counted(lambda a, s, r, x=x, y=y: s == x and r == y) for x in range(2) for y in range(3)),
        [1.0] * 24,
    ]
    np.testing.assert_array_equal(workload.dense, expected)
