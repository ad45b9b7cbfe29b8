"""Problem 4's function: value, gradient, Hessian and steps against plain evaluations."""

import math

import numpy as np
import pytest
import sm2_reference as reference
from hypothesis import given
from hypothesis import strategies as st

from solvers.dual.matrix_blocks import one_block
from solvers.problem.factors import Factors
from solvers.soft_max import basis as bases
from solvers.soft_max import charts
from solvers.soft_max import objective as softmax
from workloads.operators import Explicit


def example(seed, t=2.0, weight=0.1):
    """Random data and covariance, in the forms of the reference and of the modules."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    d, m = k + rng.integers(0, 3, size=2)
    basis, left = rng.normal(size=(k, d)), rng.normal(size=(m, k))
    targets = rng.uniform(0.5, 2, m)
    root = rng.normal(size=(k, k))
    inputs = reference.Inputs(basis, left, targets, weight)
    objective = softmax.plain(weight * targets).sharpened(t, 1.5 * t)
    queries = Explicit(left / np.sqrt(targets)[:, None])
    return inputs, objective, bases.iterate(basis, queries, root @ root.T + np.eye(k))


def adapted(at):
    """The same covariance up to scale, in its own basis."""
    whole = one_block(Factors(at.queries, at.basis), np.zeros(at.ratios.size))
    return charts.balanced(whole, [at.covariance])


def symmetric(rng, like):
    """A symmetric direction, in a row if the gradient is."""
    k = math.isqrt(like.size)
    along = rng.normal(size=(k, k))
    return (along + along.T).reshape(like.shape)


@given(st.integers(0, 10_000), st.booleans())
def test_a_model_is_the_objective_along_its_rays(seed, in_its_own_basis):
    """Slope, curvature and drift by differences, in a fixed basis and in one that follows."""
    _, objective, at = example(seed)
    at = adapted(at) if in_its_own_basis else at
    model = softmax.Model(objective, at)
    along = symmetric(np.random.default_rng(seed), model.gradient)
    along /= np.abs(along).max()
    ray, h = model.ray(along), 1e-4
    ahead, here, back = (objective.value(ray(s * h)) for s in (1, 0, -1))
    slope = float(np.sum(model.gradient * along))
    curvature = float(np.sum(along * (model.product(along) - model.damping * along)))
    scale = abs(objective.value(at)) + curvature
    assert here == pytest.approx(objective.value(at), rel=1e-12)
    assert (ahead - back) / (2 * h) == pytest.approx(slope, rel=1e-5, abs=1e-5 * scale)
    assert (ahead - 2 * here + back) / h**2 == pytest.approx(curvature, rel=1e-3, abs=1e-4 * scale)
    assert objective.slope(at, model.derivatives(along)) == pytest.approx(slope, abs=1e-9 * scale)
    sharper = objective.sharpened(objective.t1 * (1 + h), objective.t2 * (1 + h))
    change = float(np.sum(along * (softmax.Model(sharper, at).gradient - model.gradient))) / h
    if not in_its_own_basis:
        assert np.sum(along * model.drift) == pytest.approx(change, rel=1e-2, abs=1e-3 * scale)
