"""Tables of a census, by brute force."""

from itertools import product

import numpy as np
import pytest

from workloads import WorkloadError, make

ATTRIBUTES = {"age": 4, "sex": 2, "race": 3}
CELLS = list(product(range(4), range(2), range(3)))


def counted(seen):
    return [float(bool(seen(*cell))) for cell in CELLS]


def test_tables_with_prefixes():
    workload = make(
        "census",
        attributes=ATTRIBUTES,
        tables=[["age", "race"], ["race", "sex"], []],
        prefixes=["age"],
    )
    assert workload.group_names == ("age,race", "sex,race", "total")
    assert workload.group_sizes == (12, 6, 1)
    expected = [
        *(counted(lambda a, s, r, x=x, y=y: a <= x and r == y) for x in range(4) for y in range(3)),
        *(counted(lambda a, s, r, x=x, y=y: s == x and r == y) for x in range(2) for y in range(3)),
        [1.0] * 24,
    ]
    np.testing.assert_array_equal(workload.dense, expected)


def test_tables_with_ranges():
    workload = make("census", attributes=ATTRIBUTES, tables=[["age"]], ranges=["age"])
    expected = [
        counted(lambda a, s, r, x=x, y=y: x <= a <= y) for x in range(4) for y in range(x, 4)
    ]
    np.testing.assert_array_equal(workload.dense, expected)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"tables": [["agee"]]}, "no attribute is called 'agee'; did you mean 'age'"),
        ({"tables": [["age"]], "prefixes": ["rase"]}, "no attribute is called 'rase'"),
        (
            {"tables": [["age"]], "prefixes": ["age"], "ranges": ["age"]},
            "listed twice in prefixes and ranges",
        ),
        ({"tables": [["age", "sex"], ["sex", "age"]]}, "the table .'age', 'sex'. is listed twice"),
        ({"tables": []}, "it needs attributes such as"),
        ({"tables": [["age"]], "attributes": {"age": 2.5}}, "a mapping of names to whole numbers"),
        (
            {"tables": [["age"]], "attributes": {"age": 0}},
            "values of .age. is 0; expected at least 1",
        ),
        ({"tables": [["age", "age"]]}, "names an attribute twice"),
    ],
)
def test_what_is_wrong_with_a_census_is_said(params, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        make("census", **{"attributes": ATTRIBUTES, **params})
