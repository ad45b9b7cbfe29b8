"""Every operator gives the answers of its own explicit matrix."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import workloads
from workloads import WorkloadError
from workloads.operators import (
    Composed,
    Cumulative,
    Drawn,
    Explicit,
    Kronecker,
    Marginals,
    QueryOperator,
    Scaled,
    Stacked,
    on_cells,
)

Draw = Callable[[st.SearchStrategy], object]
seeds = st.integers(0, 2**32 - 1)


def _numbers(seed, *shape):
    return np.random.default_rng(seed).integers(-3, 4, size=shape).astype(float)


@st.composite
def of_matrices(draw: Draw) -> QueryOperator:
    matrix = _numbers(draw(seeds), draw(st.integers(1, 6)), draw(st.integers(1, 6)))
    sparse, drawn = sp.csr_array(matrix), Drawn(*matrix.shape, lambda: matrix)
    return draw(st.sampled_from((Explicit(matrix), Explicit(sparse), drawn, Cumulative(sparse))))


@st.composite
def kroneckers(draw: Draw) -> QueryOperator:
    values = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        factors = [_numbers(draw(seeds), draw(st.integers(1, 3)), size) for size in values]
        sparse = draw(st.booleans())
        terms.append(tuple(sp.csr_array(f) if sparse else f for f in factors))
    return Kronecker(tuple(terms))


@st.composite
def marginals(draw: Draw) -> QueryOperator:
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    subset = st.sets(st.integers(0, len(sizes) - 1)).map(lambda s: tuple(sorted(s)))
    return Marginals(sizes, tuple(draw(st.lists(subset, min_size=1, max_size=4, unique=True))))


plain = st.one_of(of_matrices(), kroneckers(), marginals())


@st.composite
def scaled(draw: Draw) -> QueryOperator:
    operator, times = draw(plain), draw(st.integers(1, 3))
    return Scaled(operator, _numbers(draw(seeds), times * operator.shape[0]))


@st.composite
def combined(draw: Draw) -> QueryOperator:
    operator = draw(plain)
    d = operator.shape[1]
    other = Explicit(sp.csr_array(_numbers(draw(seeds), 2, d)))
    columns = _numbers(draw(seeds), d, draw(st.integers(1, 4)))
    cells = np.arange(d)[:: draw(st.integers(1, 2))]
    composed = Composed(operator, columns), Composed(operator, sp.csr_array(columns))
    made = Stacked((operator, other)), *composed, on_cells(operator, cells)
    return draw(st.sampled_from(made))


operators = st.one_of(plain, scaled(), combined())


def _dense(operator):
    matrix = operator.matrix()
    return matrix.toarray() if sp.issparse(matrix) else matrix


def check_close(measured, expected):
    np.testing.assert_allclose(measured, expected, rtol=1e-10, atol=1e-9, strict=True)


@given(operators, seeds)
def test_products_are_those_of_the_matrix(operator, seed):
    w, rng = _dense(operator), np.random.default_rng(seed)
    m, d = w.shape
    assert operator.shape == (m, d)
    assert isinstance(operator, QueryOperator)
    for x in (rng.standard_normal(d), rng.standard_normal((d, 3))):
        check_close(operator.apply(x), w @ x)
    for y in (rng.standard_normal(m), rng.standard_normal((m, 3))):
        check_close(operator.apply_transposed(y), w.T @ y)


@given(operators, seeds)
def test_gram_matrices_are_those_of_the_matrix(operator, seed):
    w, rng = _dense(operator), np.random.default_rng(seed)
    positive, signed = rng.random(len(w)), rng.standard_normal(len(w))
    check_close(operator.gram(), w.T @ w)
    check_close(operator.squared_column_norms(), np.sum(w**2, axis=0))
    for weights in (positive, signed):
        check_close(operator.gram(weights), w.T @ np.diag(weights) @ w)
        check_close(operator.squared_column_norms(weights), weights @ w**2)


@given(operators, seeds)
def test_quadratic_forms_and_row_norms_are_those_of_the_matrix(operator, seed):
    w = _dense(operator)
    half = np.random.default_rng(seed).standard_normal((w.shape[1], w.shape[1]))
    symmetric = half + half.T
    check_close(operator.quadratic_forms(symmetric), np.diag(w @ symmetric @ w.T))
    check_close(operator.squared_row_norms(), np.sum(w**2, axis=1))
    weights = np.random.default_rng(seed).standard_normal(w.shape[1])
    check_close(operator.squared_row_norms(weights), w**2 @ weights)


@given(operators, st.lists(st.integers(0, 10_000), max_size=8))
def test_rows_are_those_of_the_matrix(operator, numbers):
    at = np.array(numbers, dtype=np.intp) % operator.shape[0]
    check_close(operator.rows(at), _dense(operator)[at])


def test_the_matrix_of_combined_operators_is_numpys():
    ranges = workloads.make("all-range", d=6).operator
    w, other, columns = _dense(ranges), _numbers(1, 5, 6), _numbers(2, 6, 4)
    cells = np.array([0, 2, 5])
    for operator, expected in [
        (Stacked((ranges, Explicit(sp.csr_array(other)))), np.vstack([w, other])),
        (Composed(ranges, columns), w @ columns),
        (on_cells(ranges, cells), w[:, cells]),
        (Scaled(ranges, np.arange(42.0)), np.arange(42.0)[:, None] * np.vstack([w, w])),
    ]:
        np.testing.assert_allclose(_dense(operator), expected)


def test_ranges_in_a_product_are_the_matrix_by_their_differences():
    ranges = workloads.make("all-range", d=12).dense
    factors = (_numbers(0, 2, 3), sp.eye_array(3, format="csr"), np.ones((1, 3)))
    union = Kronecker(tuple((ranges, factor) for factor in factors))
    turned = Kronecker(tuple((factor, ranges) for factor in factors))
    for operator in (union, turned):
        w, rng = _dense(operator), np.random.default_rng(0)
        symmetric = np.cov(rng.standard_normal((36, 40)))
        weights = rng.standard_normal(len(w))
        check_close(operator.gram(weights), w.T @ np.diag(weights) @ w)
        check_close(operator.quadratic_forms(symmetric), np.diag(w @ symmetric @ w.T))
        assert operator.form_work < w.size * 12


def test_operators_above_the_limit_are_refused():
    wide = Cumulative(sp.csr_array((2**16, 2**16)))
    with pytest.raises(WorkloadError, match="32 GiB, more than the limit of 8 GiB"):
        wide.matrix()
    with pytest.raises(WorkloadError, match="65536 x 65536 Gram matrix"):
        wide.gram()
    with pytest.raises(WorkloadError, match="Gram matrix takes 32 GiB"):
        Explicit(sp.csr_array((1, 2**16))).gram()


@pytest.mark.parametrize(
    "workload",
    [
        workloads.make("all-range", d=5),
        workloads.make("marginals", attributes=2, values=[2, 3], orders=[1, 2]),
        workloads.from_matrix(sp.csr_array(np.tri(3))),
    ],
    ids=lambda workload: workload.name,
)
def test_a_workload_times_counts_is_its_true_answers(workload):
    for shape in ((workload.d,), (workload.d, 2)):
        counts = np.arange(np.prod(shape)).reshape(shape)
        np.testing.assert_allclose(workload @ counts, workload.dense @ counts)
    with pytest.raises(WorkloadError, match=f"a number for each of the {workload.d} cells"):
        workload @ np.ones(workload.d + 1)
    with pytest.raises(WorkloadError, match="type <U5; expected a number for each"):
        workload @ ["seven"]


def test_a_workload_shows_itself_in_a_few_lines():
    made = workloads.make("marginals", attributes=40, values=10**9, orders=[1, 2])
    shown = repr(made).split("\n")
    assert shown[0] == "marginals: about 10^20 queries over about 10^360 cells"
    assert "  orders: [1, 2]" in shown
    assert max(map(len, shown)) <= 100


def test_norms_over_some_cells_need_no_matrix_of_all():
    cells = np.arange(0, 6000, 2)
    operator = on_cells(workloads.make("prefix", d=6000).operator, cells)
    tracemalloc.start()
    norms = operator.squared_row_norms()
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(norms, np.arange(6000) // 2 + 1)
    assert largest < 2**22
