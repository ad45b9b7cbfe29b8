"""The cos² noise on a box (Farokhi and Sandberg, Corollaries 1-4), by quadrature and sampling."""

import numpy as np
import pytest
from scipy import integrate, stats

import solvers
from solvers.errors import OptionError
from solvers.noise.information import CosineSquared

DENSITIES = tuple(
    CosineSquared(lower, upper, tilt)
    for lower, upper in ((0.0, 1.0), (-2.0, 1.5), (3.0, 3.4))
    for tilt in (0.0, 1e-3, 0.7, -5.0, 40.0)
)
VARIANCE = (np.pi**2 - 6) / (12 * np.pi**2)


def expectation(noise, function):
    found, _ = integrate.quad(
        lambda w: function(w) * noise.density(w),
        noise.lower,
        noise.upper,
        epsabs=0,
        epsrel=1e-12,
        limit=200,
    )
    return found


def score(noise, w):
    """d/dw log density, by its definition."""
    angle = np.pi * (w - noise.middle) / noise.width
    return noise.tilt - 2 * np.pi / noise.width * np.tan(angle)


@pytest.mark.parametrize("noise", DENSITIES, ids=repr)
def test_moments_and_information_by_quadrature(noise):
    assert expectation(noise, lambda w: 1.0) == pytest.approx(1.0, rel=1e-10)
    mean = expectation(noise, lambda w: w)
    assert noise.mean == pytest.approx(mean, rel=1e-10, abs=1e-12)
    spread = expectation(noise, lambda w: (w - mean) ** 2)
    assert noise.variance == pytest.approx(spread, rel=1e-9)
    information = expectation(noise, lambda w: score(noise, w) ** 2)
    assert noise.fisher_information == pytest.approx(information, rel=1e-8)
    assert noise.variance >= 1 / noise.fisher_information, "the Cramér-Rao bound"


def test_corollary_2_quality_is_printed_for_a_lower_end_of_zero():
    printed = (2 * np.pi**2 - 3) / (6 * np.pi**2)
    at_zero, shifted = (
        noise.variance + noise.mean**2
        for noise in (CosineSquared(0.0, 2.0), CosineSquared(1.0, 3.0))
    )
    assert at_zero == pytest.approx(4 * printed)
    assert shifted == pytest.approx(4 * VARIANCE + 4**2 / 4)
    assert shifted > 2 * 4 * printed


@pytest.mark.parametrize(("sign", "expected"), [(0, 39.48), (+1, 37.61), (-1, 45.61)])
def test_corollary_4_beats_plain_cosine_with_its_sign_corrected_only(sign, expected):
    """The integral of p(x) I(x) for p = exp(-x²)/sqrt(π) and the tilt sign p'/p = -2 sign x."""

    def told(x):
        noise = CosineSquared(0.0, 1.0, -2.0 * sign * x)

        def squared_score(w):
            return (score(noise, w) + 2.0 * sign * (w - noise.mean)) ** 2

        return np.exp(-x * x) / np.sqrt(np.pi) * expectation(noise, squared_score)

    assert integrate.quad(told, -8, 8, epsrel=1e-5)[0] == pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize("slope", [0.0, 3.0])
def test_the_kept_density_is_that_of_the_box(slope):
    on_data = solvers.solve("fisher-bounded", np.eye(1), on="data", slope=slope)
    places = np.linspace(0, 1, 101)
    unscaled = np.exp(slope * places) * np.cos(np.pi * (places - 0.5)) ** 2
    kept = on_data.arrays()["density"]
    assert kept == pytest.approx(unscaled / integrate.simpson(unscaled, x=places), abs=1e-6)


@pytest.mark.parametrize("noise", DENSITIES[::2], ids=repr)
def test_samples_follow_the_density(noise):
    drawn = noise.sample((4000,), np.random.default_rng(11))
    grid = np.linspace(noise.lower, noise.upper, 4001)
    mass = integrate.cumulative_simpson(noise.density(grid), x=grid, initial=0)
    assert drawn.min() >= noise.lower
    assert drawn.max() <= noise.upper
    assert stats.kstest(drawn, lambda w: np.interp(w, grid, mass)).pvalue > 1e-3


@pytest.mark.parametrize(("lower", "upper", "tilt"), [(1, 1, 0), (2, 1, 0), (0, np.inf, 0)])
def test_impossible_intervals_are_refused(lower, upper, tilt):
    with pytest.raises(OptionError, match="lower end below"):
        CosineSquared(lower, upper, tilt)


def test_one_query_whatever_its_weights():
    """Corollary 3: the density does not depend on C; the information does."""
    first = solvers.solve("fisher-bounded", [[0.5, 0.5]], 2.0)
    second = solvers.solve("fisher-bounded", [[3.0, -1.0]], 2.0)
    assert first.notes["widest_side"] == second.notes["widest_side"]
    width = first.notes["widest_side"]
    assert width**2 * VARIANCE == pytest.approx(2.0)
    assert second.measures["fisher_information"] == pytest.approx(10 * 4 * np.pi**2 / width**2)


def test_the_data_vector_gets_a_cube():
    """Corollary 1 and 2 (i): the least total squared error is m width² / (4 π²)."""
    targets = np.array([1.0, 4.0, 9.0])
    solution = solvers.solve("fisher-bounded", np.eye(3), targets, on="data")
    width = solution.notes["widest_side"]
    assert width**2 * VARIANCE == pytest.approx(1.0)
    assert solution.measures["cramer_rao_bound"] == pytest.approx(3 * width**2 / (4 * np.pi**2))
    np.testing.assert_allclose(solution.query_variances, 1.0)


PAIR = np.array([[1.0, 1.0], [1.0, -1.0]])


def test_orthogonal_queries_get_a_side_each():
    targets = np.array([1.0, 4.0])
    boxed = solvers.solve("fisher-bounded", PAIR, targets)
    np.testing.assert_allclose(boxed.query_variances, targets)
    assert boxed.notes["widest_side"] == pytest.approx(2 * boxed.notes["narrowest_side"])
    sides = np.sqrt(targets / VARIANCE)
    information = PAIR.T @ np.diag(4 * np.pi**2 / sides**2) @ PAIR
    assert boxed.measures["cramer_rao_bound"] == pytest.approx(np.trace(np.linalg.inv(information)))


def test_no_finite_epsilon_is_claimed():
    solution = solvers.solve("fisher-bounded", np.eye(2))
    assert np.isinf(solution.noise.epsilon)
    assert "no finite epsilon" in solution.notes["no_finite_epsilon"]
    assert solution.record()["curve"]["kind"] == "none"


@pytest.mark.parametrize("slope", [0.0, 2.5, -9.0])
def test_errors_stay_in_the_box_and_centre_on_zero(slope):
    solution = solvers.solve("fisher-bounded", np.tril(np.ones((3, 3))), on="data", slope=slope)
    drawn = solution.draw(20_000, np.random.default_rng(1))
    width = solution.notes["widest_side"]
    assert np.ptp(drawn[:, 0]) <= width
    deviation = np.sqrt(solution.query_variances / 20_000)
    assert np.all(np.abs(drawn.mean(axis=0)) < 4.5 * deviation)
    assert solution.query_variances.max() == pytest.approx(1.0)
