"""Products by scipy's BLAS are products."""

import ctypes

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 4), (4, 1)])
def test_lower_gram(dtype, order, shape):
    rows = some(3, shape, dtype)
    made = blas.lower_gram(ORDERS[order](rows))
    expected = np.tril(np.einsum("ij,kj->ik", rows, rows))
    assert made.flags.f_contiguous
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_a_matrix_without_entries_is_no_complaint_of_the_blas(shape, capfd):
    for dtype in (np.float32, np.float64):
        gram = blas.lower_gram(np.zeros(shape, dtype))
        np.testing.assert_array_equal(gram, np.zeros((shape[0],) * 2))
        assert gram.dtype == dtype
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("", "")
