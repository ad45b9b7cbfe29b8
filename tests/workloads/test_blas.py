"""Products by scipy's BLAS are products."""

import numpy as np
import pytest

from workloads.operators import blas

ORDERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[::2, ::2],
}


def some(seed, shape, dtype):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("left", ORDERS)
@pytest.mark.parametrize("right", ORDERS)
@pytest.mark.parametrize("shape", [(4, 3, 5), (1, 3, 2), (4, 1, 1), (1, 1, 1)])
def test_product(dtype, left, right, shape):
    m, k, n = shape
    a, b = some(1, (m, k), dtype), some(2, (k, n), dtype)
    made = blas.product(ORDERS[left](a), ORDERS[right](b))
    assert made.dtype == dtype
    np.testing.assert_allclose(made, np.einsum("ij,jk->ik", a, b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("left", ORDERS)
def test_product_with_a_vector(left):
    a, b = some(1, (4, 3), np.float64), some(2, (3,), np.float64)
    made = blas.product(ORDERS[left](a), b)
    np.testing.assert_allclose(made, np.einsum("ij,j->i", a, b), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 4), (4, 1)])
def test_lower_gram(dtype, order, shape):
    rows = some(3, shape, dtype)
    made = blas.lower_gram(ORDERS[order](rows))
    expected = np.tril(np.einsum("ij,kj->ik", rows, rows))
    assert made.flags.f_contiguous
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_inner(order):
    a, b = some(4, (3, 5), np.float64), some(5, (3, 5), np.float64)
    assert blas.inner(ORDERS[order](a), b) == pytest.approx(sum((a * b).ravel()), rel=1e-12)


def test_no_rows_or_no_columns_have_a_gram_matrix_and_nothing_is_printed(capfd):
    assert blas.lower_gram(np.ones((0, 2))).shape == (0, 0)
    np.testing.assert_array_equal(blas.lower_gram(np.ones((2, 0))), np.zeros((2, 2)))
    assert capfd.readouterr() == ("", "")
