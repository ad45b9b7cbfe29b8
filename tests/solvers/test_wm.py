"""The wavelet mechanism: its matrix by definition, closed forms, and never below CA."""

import numpy as np
import pytest

import solvers
from solvers.mechanisms.wm import haar


def weighted_coefficients(d):
    """ICDE 2010: coefficient (left mean - right mean)/2 times the node's size; mean times d."""
    if d == 1:
        return np.ones((1, 1))
    rows = [np.ones(d)]
    size = d
    while size > 1:
        for start in range(0, d, size):
            half = size // 2
            row = np.zeros(d)
            row[start : start + half] = 1 / half
            row[start + half : start + size] = -1 / half
            rows.append(size * row / 2)
        size //= 2
    return np.array(rows)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 8, 11, 32])
def test_strategy_is_the_weighted_haar_transform_padded_with_empty_cells(d):
    padded = weighted_coefficients(1 << (d - 1).bit_length())[:, :d]
    kept = padded[np.any(padded != 0, axis=1)]
    np.testing.assert_array_equal(haar(d).toarray(), kept)


@pytest.mark.parametrize("levels", [0, 1, 4, 7])
def test_the_total_and_single_cells_in_closed_form(levels):
    d = 2**levels
    total = solvers.solve("WM", np.ones((1, d)))
    cells = solvers.solve("WM", np.eye(d))
    assert total.squared_privacy_cost == pytest.approx(1 + levels, rel=1e-12)
    expected = (1 + levels) * (1 + 2 * 4.0**-levels) / 3
    assert cells.squared_privacy_cost == pytest.approx(expected, rel=1e-12)
