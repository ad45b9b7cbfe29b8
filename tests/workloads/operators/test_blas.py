"""Products of empty matrices by scipy's BLAS."""

import ctypes

import numpy as np
import pytest

from workloads.operators import blas


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_the_blas_does_not_complain_about_empty_matrices(shape, capfd):
    for dtype in (np.float32, np.float64):
        gram = blas.lower_gram(np.zeros(shape, dtype))
        np.testing.assert_array_equal(gram, np.zeros((shape[0],) * 2))
        assert gram.dtype == dtype
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("", "")
