"""`optimal` at sizes that take a while: tolerances reached, structure confirmed."""

import numpy as np
import pytest

import solvers
import workloads

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("family", "params", "tol", "decades"),
    [
        ("range", {"d": 512, "seed": 0}, 1e-6, 0),
        ("range", {"d": 256, "seed": 4}, 1e-6, 6),
        ("prefix", {"d": 1024}, 1e-6, 0),
        ("pl94", {}, 1e-6, 0),
        ("wrelated", {"d": 256, "seed": 1}, 1e-6, 0),
        ("all-range", {"d": 160}, 1e-5, 0),
    ],
)
def test_reaches_its_tolerance(family, params, tol, decades):
    workload = workloads.make(family, **params)
    targets = 10 ** (decades * np.random.default_rng(4).uniform(-0.5, 0.5, workload.m))
    solution = solvers.solve("optimal", workload, targets, tol=tol)
    assert solution.converged
    assert solution.gap <= tol
    assert np.max(solution.query_variances / targets) == pytest.approx(1.0)
