"""The Gaussian mechanism with the spectral norm, as PVLDB 14(10) ran it."""

import numpy as np
import pytest

import solvers
import workloads


def test_spectral_gm_pays_for_the_spectral_norm():
    """With the noise that GM has; PL-94's largest column norm is 2, its spectral norm 16.03."""
    pl94 = workloads.make("pl94")
    targets = np.linspace(2, 3, pl94.m)
    plain, spectral = (solvers.solve(name, pl94, targets) for name in ("GM", "spectral-GM"))
    np.testing.assert_allclose(spectral.query_variances, plain.query_variances)
    np.testing.assert_allclose(spectral.query_variances, 2)
    assert plain.squared_privacy_cost == pytest.approx(4 / 2)
    assert spectral.squared_privacy_cost == pytest.approx(np.linalg.norm(pl94.dense, 2) ** 2 / 2)
    assert spectral.squared_privacy_cost == pytest.approx(257 / 2)


def test_every_cell_costs_the_same():
    queries = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    found = solvers.solve("spectral-GM", queries)
    profile = np.linalg.norm(found.noise.right, axis=0) ** 2
    np.testing.assert_allclose(profile, np.linalg.eigvalsh(queries.T @ queries)[-1])
    np.testing.assert_allclose(found.noise.left @ found.noise.right, queries, atol=1e-12)
