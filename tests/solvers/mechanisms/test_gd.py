import warnings

import numpy as np

import solvers


def test_the_sharpness_does_not_overflow():
    """With targets over seven decades, the descent does not converge in a basis of the queries."""
    large, small, between = 13170.05795192779, 0.003744557422361027, 6689.855898758001
    queries = np.array([[-large, -large], [small, small], [-between, between]])
    targets = [2.1973730683206715e-06, 2.1465048980799204, 37.327185018126045]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = solvers.solve("GD", queries, targets, basis="workload")
    assert not found.converged
    assert np.isfinite(found.notes["t"])
