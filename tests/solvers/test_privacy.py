"""Privacy accounting against 60-digit arithmetic and its own inverses."""

import mpmath
import numpy as np
import pytest
import scipy

from solvers import privacy

mpmath.mp.dps = 60
_ENOUGH_DIGITS = 700
_LEAST_NORMAL = 1e-307

EPSILONS = (1e-3, 0.05, 1.0, 7.0, 50.0)
DELTAS = (1e-15, 1e-9, 1e-5, 0.01, 0.5)


def exact_delta(cost, epsilon):
    cost, epsilon = mpmath.mpf(cost), mpmath.mpf(epsilon)
    return mpmath.ncdf(cost / 2 - epsilon / cost) - mpmath.exp(epsilon) * mpmath.ncdf(
        -cost / 2 - epsilon / cost
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_exact(epsilon, delta):
    cost = float(privacy.privacy_cost(epsilon, delta))
    found, little = float(privacy.epsilon(cost, delta)), mpmath.mpf("1e-9")
    assert found == pytest.approx(epsilon, rel=1e-9)
    assert exact_delta(cost, found * (1 + little)) < delta < exact_delta(cost, found * (1 - little))


WIDE_COSTS = (1e-160, 1e-12, 1e-8, 1e-6, 1e-3, 0.1, 0.999, 1.001, 10.0, 100.0, 1e3, 1e6, 1e12)
POINTS = (-36.0, -20.0, -5.0, -2.1, -1.9, -0.5, -1e-3, 0.0, 0.3, 3.0)
WIDE_EPSILONS = (1e-300, 1e-6, 0.3, 7.0, 1e3, 5e3, 1e12)
WIDE_DELTAS = (1e-300, 1e-15, 1e-5, 0.49, 0.51, 1 - 1e-9)


@pytest.mark.parametrize("cost", WIDE_COSTS)
def test_delta_keeps_its_digits_at_every_scale(cost):
    """Relative to 1e-14 of log δ, the precision of that logarithm as a double."""
    for point in POINTS:
        epsilon = cost * (cost / 2 - point)
        if epsilon < 0:
            continue
        with mpmath.workdps(_ENOUGH_DIGITS):
            exact = exact_delta(cost, epsilon)
            error = abs(float(privacy.delta(cost, epsilon)) / exact - 1)
        if exact < _LEAST_NORMAL:
            continue
        assert error < 1e-14 * max(1.0, -float(mpmath.log(exact)))


@pytest.mark.parametrize("delta", WIDE_DELTAS)
@pytest.mark.parametrize("epsilon", WIDE_EPSILONS)
def test_privacy_cost_has_full_precision_for_every_budget(epsilon, delta):
    """A slightly smaller cost is within the budget, a slightly larger one is not."""
    found = float(privacy.privacy_cost(epsilon, delta))
    with mpmath.workdps(_ENOUGH_DIGITS):
        little = mpmath.mpf("5e-14")
        assert exact_delta(found * (1 - little), epsilon) < mpmath.mpf(delta)
        assert exact_delta(found * (1 + little), epsilon) > mpmath.mpf(delta)


def test_limits_and_arrays():
    grid = privacy.privacy_cost(np.array([0.1, 1.0])[:, None], np.array([1e-9, 1e-5, 1e-3]))
    assert grid.shape == (2, 3)
    assert grid[1, 2] == privacy.privacy_cost(1.0, 1e-3)
    assert privacy.delta(0.0, 1.0) == 0.0
    assert privacy.epsilon(0.0, 1e-5) == 0.0
    assert privacy.epsilon(np.inf, 1e-5) == np.inf
    assert privacy.delta(np.inf, 1.0) == 1.0
    assert privacy.delta([np.inf, 1.0], np.inf).tolist() == [0.0, 0.0]
    assert np.isnan(privacy.epsilon(np.nan, 1e-5))
    assert privacy.epsilon(1e150, 1e-5) == pytest.approx(5e299, rel=1e-12)
    assert privacy.epsilon(1e160, 1e-5) == np.inf
    assert privacy.privacy_cost(np.inf, 1e-5) == np.inf
    assert privacy.epsilon(1.0, 0.9) == 0.0
    assert privacy.delta(1.0, 0.0) == pytest.approx(float(exact_delta(1.0, 0.0)), rel=1e-12)
    assert privacy.delta(1.0, privacy.epsilon(1.0, 0.05)) == pytest.approx(0.05, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0.1), (1, 0), (1, 1), (1, np.nan)])
def test_impossible_budgets_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must"):
        privacy.privacy_cost(epsilon, delta)


def test_without_epsilon_the_least_delta_has_a_cost():
    """At ε = 0, δ is erf(Δ / sqrt(8)); numbers below 1e-308 are multiples of 5e-324."""
    deltas = np.array([5e-324, 1e-322, 1e-310, 1e-300, 0.5])
    expected = 2 * np.sqrt(2) * scipy.special.erfinv(deltas)
    np.testing.assert_allclose(privacy.privacy_cost(0, deltas), expected, rtol=1e-12, atol=1e-323)
