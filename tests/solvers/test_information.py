"""Section 5 of Farokhi and Sandberg: the entropy of the noise, by numerical integration."""

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import solvers
from solvers.noise.cosine_squared import CosineSquared

BITS = np.log(2)


def entropy_by_quadrature(density, low, high):
    found = integrate.quad(lambda w: special.entr(float(density(w))), low, high, limit=400)[0]
    return found / BITS


@pytest.mark.parametrize("tilt", [0.0, 1.5])
def test_entropy_of_the_bounded_noise_by_quadrature(tilt):
    noise = CosineSquared(-1.0, 2.5, tilt)
    exact = entropy_by_quadrature(noise.density, -1.0, 2.5)
    assert noise.entropy == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("target", [0.3, 2.0])
def test_what_the_mechanisms_report_for_one_query(target):
    query = [[0.5, 0.25, 0.25]]
    fisher, laplace, bounded = (
        solvers.solve(name, query, target).measures
        for name in ("fisher", "laplace", "fisher-bounded")
    )
    scale = np.sqrt(target / 2)
    normal = entropy_by_quadrature(stats.norm(scale=target**0.5).pdf, -40, 40)
    # printed: log2(e sqrt(2) v) and log2(sqrt(2 pi e) v), with v the standard deviation
    of_laplace = 2 * entropy_by_quadrature(stats.laplace(scale=scale).pdf, 0, 60 * scale)
    assert fisher["noise_entropy"] == pytest.approx(normal, rel=1e-7)
    assert laplace["noise_entropy"] == pytest.approx(of_laplace, rel=1e-7)
    side = np.sqrt(target / CosineSquared(0, 1).variance)
    assert bounded["noise_entropy"] == pytest.approx(CosineSquared(0, side).entropy)
    assert fisher["noise_entropy"] > bounded["noise_entropy"] > laplace["noise_entropy"]
    # the adversary's C†y errs by ϑ/CCᵀ under the Gaussian; half of it bounds Laplace noise
    assert fisher["cramer_rao_bound"] == pytest.approx(target / 0.375)
    assert laplace["cramer_rao_bound"] == pytest.approx(target / 2 / 0.375)


def test_of_several_queries_the_noise_of_least_fisher_information_does_not_tell_least():
    """The two coincide in the limit of loud noise."""
    prior = np.array([1.0, 100.0])

    def told(first, total):
        return np.log1p(prior / np.array([first, total - first])).sum() / (2 * BITS)

    def least(total):
        bounds = (1e-6 * total, (1 - 1e-6) * total)
        return optimize.minimize_scalar(told, args=(total,), bounds=bounds, method="bounded")

    assert told(3.0 / 11, 3.0) > 1.03 * least(3.0).fun
    assert least(1e6).x / 1e6 == pytest.approx(1 / 11, rel=1e-2)


def sample_variance(x):
    return float(np.var(x, ddof=1))


def test_the_gradient_of_the_variance_of_example_3():
    x, n = np.array([1.0, 4.0, 2.0, 9.0]), 4
    step = 1e-6
    gradient = [
        (sample_variance(x + step * e) - sample_variance(x - step * e)) / (2 * step)
        for e in np.eye(n)
    ]
    squared = 4 * sample_variance(x) / (n - 1)
    assert np.sum(np.square(gradient)) == pytest.approx(squared, rel=1e-7)
    found = solvers.solve("fisher-bounded", [gradient], 2.0)
    side = found.notes["widest_side"]
    information_about_x = 4 * np.pi**2 / side**2 * squared
    assert found.measures["fisher_information"] == pytest.approx(information_about_x, rel=1e-7)


def test_corollary_5_holds_among_densities_that_do_not_depend_on_x_only():
    """f = t²/2 on [-1, 1]: tilted by 1 - t², zero at both ends, it tells less than plain cos²."""

    def told(steepness):
        def at(t):
            tilt, slope = steepness * (1 - t * t), -2 * steepness * t

            def squared_score(w):
                noise = CosineSquared(0.0, 1.0, tilt)
                along_w = tilt - 2 * np.pi * np.tan(np.pi * (w - 0.5))
                score = -t * along_w + slope * (w - noise.mean)
                return float(noise.density(w)) * score**2

            return integrate.quad(squared_score, 0.0, 1.0, limit=200)[0]

        return integrate.quad(at, -1.0, 1.0, epsrel=1e-6)[0] / 2

    plain = told(0.0)
    assert plain == pytest.approx(4 * np.pi**2 / 3, rel=1e-5)
    assert told(2.0) < plain - 1
