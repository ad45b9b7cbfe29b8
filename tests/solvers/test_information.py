"""Section 5 of Farokhi and Sandberg: entropy and mutual information, by numerical integration."""

import numpy as np
import pytest
import scipy.optimize
from scipy import integrate, special, stats

import solvers
from solvers.noise import information
from solvers.noise.information import CosineSquared

BITS = np.log(2)


def entropy_by_quadrature(density, low, high):
    found = integrate.quad(lambda w: special.entr(float(density(w))), low, high, limit=400)[0]
    return found / BITS


@pytest.mark.parametrize("variance", [0.3, 1.0, 7.0])
def test_entropies_by_quadrature(variance):
    scale = np.sqrt(variance / 2)
    normal = entropy_by_quadrature(stats.norm(scale=variance**0.5).pdf, -40, 40)
    laplace = 2 * entropy_by_quadrature(stats.laplace(scale=scale).pdf, 0, 60 * scale)
    assert information.gaussian_entropy(variance) == pytest.approx(normal, rel=1e-7)
    assert information.laplace_entropy(variance) == pytest.approx(laplace, rel=1e-7)
    gain = information.gaussian_entropy(variance) - information.laplace_entropy(variance)
    assert gain == pytest.approx(np.log2(np.pi / np.e) / 2)
    # printed: log2(e sqrt(2) v) and log2(sqrt(2 pi e) v), with v the standard deviation
    assert laplace == pytest.approx(np.log2(np.e * np.sqrt(2) * variance**0.5), rel=1e-7)


@pytest.mark.parametrize("tilt", [0.0, 1.5])
def test_entropy_of_the_bounded_noise_by_quadrature(tilt):
    noise = CosineSquared(-1.0, 2.5, tilt)
    exact = entropy_by_quadrature(noise.density, -1.0, 2.5)
    assert noise.entropy == pytest.approx(exact, rel=1e-7)


def test_what_the_mechanisms_report_for_one_query():
    query, target = [[0.5, 0.25, 0.25]], 2.0
    fisher, laplace, bounded = (
        solvers.solve(name, query, target).measures
        for name in ("fisher", "laplace", "fisher-bounded")
    )
    assert fisher["noise_entropy"] == pytest.approx(information.gaussian_entropy(2.0))
    assert laplace["noise_entropy"] == pytest.approx(information.laplace_entropy(2.0))
    side = np.sqrt(2.0 / CosineSquared(0, 1).variance)
    assert bounded["noise_entropy"] == pytest.approx(CosineSquared(0, side).entropy)
    assert fisher["noise_entropy"] > bounded["noise_entropy"] > laplace["noise_entropy"]
    # the adversary's C†y errs by ϑ/CCᵀ under the Gaussian; half of it bounds Laplace noise
    assert fisher["cramer_rao_bound"] == pytest.approx(2.0 / 0.375)
    assert laplace["cramer_rao_bound"] == pytest.approx(1.0 / 0.375)


@pytest.mark.parametrize("prior", [0.2, 4.0])
def test_of_one_query_gaussian_noise_tells_a_normal_prior_least(prior):
    variance = 1.5
    normal = stats.norm(scale=variance**0.5).pdf
    told = information.mutual_information(
        normal, information.gaussian_entropy(variance), prior, (-14.0, 14.0)
    )
    assert told == pytest.approx(0.5 * np.log2(1 + prior / variance), abs=1e-6)
    laplace = information.mutual_information(
        stats.laplace(scale=np.sqrt(variance / 2)).pdf,
        information.laplace_entropy(variance),
        prior,
        (-25.0, 25.0),
    )
    side = np.sqrt(variance / CosineSquared(0, 1).variance)
    box = CosineSquared(-side / 2, side / 2)
    bounded = information.mutual_information(box.density, box.entropy, prior, (-side / 2, side / 2))
    assert told < min(laplace, bounded)


@pytest.mark.parametrize(
    ("prior", "total", "agree"),
    [((1.0, 100.0), 3.0, False), ((1.0, 100.0), 1e6, True), ((2.0, 2.0), 3.0, True)],
)
def test_of_several_queries_the_noise_of_least_fisher_information_does_not(prior, total, agree):
    """The two coincide if all singular values agree, and in the limit of loud noise."""

    def told(share):
        variances = np.diag([share * total, (1 - share) * total])
        return information.gaussian_mutual_information(variances, np.diag(prior))

    searched = scipy.optimize.minimize_scalar(told, bounds=(1e-6, 1 - 1e-6), method="bounded")
    fisher = np.sqrt(prior[0]) / np.sqrt(prior).sum()
    if agree:
        assert fisher == pytest.approx(searched.x, rel=1e-3)
    else:
        assert told(fisher) > 1.03 * searched.fun


def test_corollary_5_holds_among_densities_that_do_not_depend_on_x_only():
    """f = t²/2 on [-1, 1]: tilted by 1 - t², zero at both ends, it reveals less than plain cos²."""

    nodes, weights = np.polynomial.legendre.leggauss(100)  # the integrands are smooth
    w = (nodes + 1) / 2

    def told(steepness):
        def at(t):
            tilt, slope = steepness * (1 - t * t), -2 * steepness * t
            noise = CosineSquared(0.0, 1.0, tilt)
            along_w = tilt - 2 * np.pi * np.tan(np.pi * (w - 0.5))
            score = -t * along_w + slope * (w - noise.mean)
            return weights / 2 @ (noise.density(w) * score**2)

        return sum(weight * at(t) for t, weight in zip(nodes, weights, strict=True)) / 2

    plain = told(0.0)
    assert plain == pytest.approx(4 * np.pi**2 / 3, rel=1e-5)
    assert told(2.0) < plain - 1
