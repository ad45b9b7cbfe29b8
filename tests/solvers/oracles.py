"""Statements of the papers and other comparisons for several tests."""

import numpy as np

import solvers
from solvers.noise.verification import LARGEST_RESIDUAL, residual
from workloads.operators import Explicit, dense


def total_error(solution):
    """Total variance at a squared privacy cost of 1."""
    return solution.squared_privacy_cost * solution.total_variance


def least_total_error(problem):
    """The matrix mechanism's optimum, certified by the dual to 1e-8."""
    return total_error(solvers.solve("CA", problem))


def hybrid(solution, weight):
    """The square of half the hybrid of privacy cost and total error."""
    return solution.squared_privacy_cost * (1 + weight * solution.total_variance)


def random_problem(seed, m=None, decades=1.0):
    """Small integer queries, often rank deficient, and targets over some decades about 1."""
    rng = np.random.default_rng(seed)
    m, d = m or int(rng.integers(1, 12)), int(rng.integers(1, 9))
    matrix = rng.integers(-2, 3, size=(m, d)).astype(float)
    matrix[0, 0] = 1.0
    return matrix, 10 ** rng.uniform(-decades, decades, m)


def proven_by(weights, matrix, targets):
    """The dual's value at the weights, by one singular value decomposition."""
    scaled = np.sqrt(weights.q / targets)[:, None] * matrix * np.sqrt(weights.p)
    norm = np.linalg.svd(scaled, compute_uv=False).sum()
    return norm**2 / (weights.p.sum() * weights.q.sum())


def check_factors(matrix, noise):
    """Encoder and decoder give the workload, in units of the noise."""
    assert residual(Explicit(matrix), Explicit(noise.left), noise.right) <= LARGEST_RESIDUAL


def check_written_out(solution, rtol=1e-8):
    """Basis, representation and covariance determine the queries, the profile and the variances."""
    basis, left, covariance = solution.basis, dense(solution.representation), solution.covariance
    matrix = solution.problem.workload.dense
    np.testing.assert_allclose(left @ basis, matrix, rtol=0, atol=1e-9 * np.abs(matrix).max())
    profile = np.einsum("ij,ij->j", basis, np.linalg.solve(covariance, basis))
    variances = np.einsum("ij,jk,ik->i", left, covariance, left)
    exact = {"rtol": rtol, "atol": 1e-14}
    np.testing.assert_allclose(
        profile / solution.squared_privacy_cost,
        solution.privacy_profile / solution.squared_privacy_cost,
        **exact,
    )
    np.testing.assert_allclose(variances, solution.query_variances, **exact)


def check_drawn(solution, n):
    """Drawn errors have the covariance of the answers, within five and a half deviations."""
    left = dense(solution.representation)
    expected = left @ solution.covariance @ left.T
    errors, variances = solution.draw(n, np.random.default_rng(0)), np.diag(expected)
    deviation = np.sqrt((np.outer(variances, variances) + expected**2) / n)
    assert np.all(np.abs(errors.T @ errors / n - expected) <= 5.5 * deviation)


def gaussian_deviation(sensitivity, epsilon, delta):
    """A standard deviation of Gaussian noise that suffices for (ε, δ), δ at most 1/2.

    Equation (16) of Farokhi and Sandberg. Their Proposition 4 calls it ϑ, the variance; the
    lemma that its proof cites bounds the standard deviation.
    """
    return sensitivity * (np.sqrt(2 * np.log(1 / (2 * delta))) / epsilon + 1 / np.sqrt(2 * epsilon))


def refined_order(first, second, tolerance=1e-9):
    """Definition 5 of arXiv v1 on two privacy profiles: -1 if the first is more private, 1, or 0.

    Entries closer than the tolerance, relative to the largest, count as equal.
    """
    a, b = np.sort(first)[::-1], np.sort(second)[::-1]
    differs = np.flatnonzero(np.abs(a - b) > tolerance * max(a[0], b[0]))
    return int(np.sign(a[differs[0]] - b[differs[0]])) if differs.size else 0
