"""Tables of a census, by brute force; operators that stand for several or for some cells."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from workloads import WorkloadError, make
from workloads.operators import Composed, Explicit, Stacked, on_cells

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


@pytest.mark.parametrize("kind", ["stacked", "on cells", "composed"])
def test_operators_are_their_matrices(kind):
    rng = np.random.default_rng(0)
    ranges = make("all-range", d=6).operator
    other = Explicit(sp.csr_array(rng.integers(-1, 2, size=(5, 6)).astype(float)))
    if kind == "stacked":
        operator = Stacked((ranges, other))
        matrix = np.vstack([ranges.matrix(), other.array.toarray()])
    elif kind == "composed":
        columns = rng.normal(size=(6, 4))
        operator, matrix = Composed(ranges, columns), ranges.matrix() @ columns
    else:
        operator = on_cells(ranges, np.array([0, 2, 5]))
        matrix = ranges.matrix()[:, [0, 2, 5]]
    m, d = matrix.shape
    assert operator.shape == (m, d)
    np.testing.assert_allclose(np.asarray(operator.matrix()), matrix)
    x, y, weights = rng.normal(size=(d, 2)), rng.normal(size=m), rng.exponential(size=m)
    half = rng.normal(size=(d, d))
    np.testing.assert_allclose(operator.apply(x), matrix @ x)
    np.testing.assert_allclose(operator.apply_transposed(y), matrix.T @ y)
    np.testing.assert_allclose(operator.gram(), matrix.T @ matrix, atol=1e-12)
    weighted = matrix.T @ np.diag(weights) @ matrix
    np.testing.assert_allclose(operator.gram(weights), weighted, atol=1e-12)
    np.testing.assert_allclose(operator.squared_column_norms(weights), np.diag(weighted), atol=1e-9)
    np.testing.assert_allclose(
        operator.squared_column_norms(), np.square(matrix).sum(axis=0), atol=1e-9
    )
    np.testing.assert_allclose(operator.squared_row_norms(), np.square(matrix).sum(axis=1))
    cells = rng.exponential(size=d)
    np.testing.assert_allclose(operator.squared_row_norms(cells), np.square(matrix) @ cells)
    np.testing.assert_allclose(
        operator.quadratic_forms(half + half.T),
        np.diag(matrix @ (half + half.T) @ matrix.T),
        atol=1e-9,
    )
    at = np.array([0, m - 1, 3])
    np.testing.assert_allclose(operator.rows(at), matrix[at])
