"""`optimal` at sizes that take a while: tolerances reached, structure confirmed."""

import numpy as np
import pytest

import solvers
import workloads

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("family", "params", "tol"),
    [
        ("range", {"d": 512, "seed": 0}, 1e-6),
        ("prefix", {"d": 1024}, 1e-6),
        ("pl94", {}, 1e-6),
        ("wrelated", {"d": 256, "seed": 1}, 1e-6),
        ("all-range", {"d": 160}, 1e-5),
    ],
)
def test_reaches_its_tolerance(family, params, tol):
    workload = workloads.make(family, **params)
    solution = solvers.solve("optimal", workload, tol=tol)
    assert solution.converged
    assert solution.gap <= tol
    assert np.max(solution.query_variances) == pytest.approx(1.0)


def test_targets_over_six_decades_at_scale():
    workload = workloads.make("range", d=256, seed=4)
    targets = 10 ** np.random.default_rng(4).uniform(-3, 3, workload.m)
    solution = solvers.solve("optimal", workload, targets)
    assert solution.gap <= 1e-6
