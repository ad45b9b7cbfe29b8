"""Numbers from basis, representation and covariance are those from the factors."""

import numpy as np
import pytest
import scipy.linalg as sla

import solvers
import workloads

COUNTS = np.array(
    [
        [1.0, 1.0, 1.0, 1.0, 2.2013256074739647],
        [0.0, 0.0, 0.0, 0.0, 3.2420361333110208e-13],
        [0.0, 0.0, 1.0, 0.0, 1.3112763199173341],
        [0.0, 0.0, 0.0, 0.0, 1.8513130534674606e-12],
        [0.0, 0.0, 1.0, 1.0, 1.7688050006947567],
    ]
)
DEPENDENT = np.array(
    [
        [-0.516579209603805, -0.516579209603805, -0.516579209603805, 0.09149593566788629],
        [-0.23346024028222861, -0.23346024028222861, -0.23346024028222861, 0.04130131623105887],
    ]
)
FAR_APART = np.array([2e5, 3.4e5, 3.3e-5, 1.2e3, 1.2e2])


ORBITS = workloads.make("kronecker", terms=[["total:4", "identity:3", "prefix:4"]])


@pytest.mark.parametrize(
    ("mechanism", "workload", "targets"),
    [
        ("AM", DEPENDENT, [7.0, 1.0]),
        ("ESM", COUNTS, FAR_APART),
        *(
            (mechanism, ORBITS, 10 ** np.random.default_rng(seed).uniform(-6, 6, ORBITS.m))
            for mechanism in ("optimal", "wCA-I")
            for seed in (0, 2)
        ),
    ],
)
def test_noise_is_read_as_it_is_if_directions_or_targets_are_far_apart(
    mechanism, workload, targets
):
    found = solvers.solve(mechanism, workload, targets)
    covariance, basis = found.covariance, found.basis
    representation = np.asarray(found.representation)
    units = np.sqrt(np.diag(covariance))[:, None]
    lower = sla.cholesky(covariance / units / units.T, lower=True)
    profile = np.square(sla.solve_triangular(lower, basis / units, lower=True)).sum(axis=0)
    variances = np.square(representation * units.T @ lower).sum(axis=1)
    assert np.abs(profile / found.squared_privacy_cost).max() == pytest.approx(1, rel=1e-9)
    np.testing.assert_allclose(variances, found.query_variances, rtol=1e-9)
    missing = np.abs(representation @ basis - found.problem.workload.dense)
    allowed = np.sqrt(np.outer(found.query_variances, found.privacy_profile))
    assert np.all(missing <= 1e-9 * allowed)
