"""Problem 4's function: value, gradient, Hessian and steps against plain evaluations."""

import numpy as np
import pytest
import sm2_reference as reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from solvers.problem.factors import Factors
from solvers.soft_max import basis as bases
from solvers.soft_max import charts, newton_cg
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
    return charts.balanced(Factors(at.queries, at.basis), at.covariance)


def settings_of(**changes):
    constants = {
        "tol": 0.0,
        "mu": 2.0,
        "nttol": 1e-3,
        "softmax_tol": 1e-3,
        "first_t": None,
        "max_cg": 5,
        "tol2": 1e-10,
        "t2_rule": "paper",
        "sigma": 0.01,
        "beta": 0.5,
        "max_iterations": 100,
        "extrapolated": False,
    }
    return newton_cg.Settings(**{**constants, **changes})


def symmetric(rng, shape):
    along = rng.normal(size=shape)
    return along + along.T


@given(st.integers(0, 10_000))
def test_value_and_gradient(seed):
    inputs, objective, at = example(seed)
    gradient = at.model(objective).gradient
    t1, t2 = objective.t1, objective.t2
    expected = reference.objective(inputs, at.covariance, t1, t2)
    assert objective.value(at) == pytest.approx(expected, rel=1e-10)
    along, h = symmetric(np.random.default_rng(seed), at.covariance.shape), 1e-6
    ahead, back = (
        reference.objective(inputs, at.covariance + s * h * along, t1, t2) for s in (1, -1)
    )
    assert np.sum(gradient * along) == pytest.approx((ahead - back) / (2 * h), rel=1e-4, abs=1e-4)


@given(st.integers(0, 10_000))
def test_hessian_is_the_derivative_of_the_gradient(seed):
    inputs, objective, at = example(seed)
    along, h = symmetric(np.random.default_rng(seed), at.covariance.shape), 1e-5
    product = at.model(objective).product(along)
    ahead, back = (
        reference.gradient(inputs, at.covariance + s * h * along, objective.t1, objective.t2)
        for s in (1, -1)
    )
    scale = np.abs(product).max()
    np.testing.assert_allclose(product, (ahead - back) / (2 * h), rtol=0, atol=1e-4 * scale)


@given(st.integers(0, 10_000), st.booleans())
def test_a_model_is_the_objective_along_its_rays(seed, in_its_own_basis):
    """Slope, curvature and drift by differences, in a fixed basis and in one that follows."""
    _, objective, at = example(seed)
    at = adapted(at) if in_its_own_basis else at
    model = at.model(objective)
    along = symmetric(np.random.default_rng(seed), model.gradient.shape)
    along /= np.abs(along).max()
    ray, h = model.ray(along), 1e-4
    ahead, here, back = (objective.value(ray(s * h)) for s in (1, 0, -1))
    slope = float(np.sum(model.gradient * along))
    hessian = model.hessian if in_its_own_basis else model.product
    curvature = float(np.sum(along * hessian(along)))
    scale = abs(objective.value(at)) + curvature
    assert here == pytest.approx(objective.value(at), rel=1e-12)
    assert (ahead - back) / (2 * h) == pytest.approx(slope, rel=1e-5, abs=1e-5 * scale)
    assert (ahead - 2 * here + back) / h**2 == pytest.approx(curvature, rel=1e-3, abs=1e-4 * scale)
    assert objective.slope(at, model.derivatives(along)) == pytest.approx(slope, abs=1e-9 * scale)
    sharper = objective.sharpened(objective.t1 * (1 + h), objective.t2 * (1 + h))
    change = float(np.sum(along * (at.model(sharper).gradient - model.gradient))) / h
    if not in_its_own_basis:
        assert np.sum(along * model.drift) == pytest.approx(change, rel=1e-2, abs=1e-3 * scale)


def test_conjugate_gradients_to_the_end_are_newton_s_step():
    _, objective, at = example(5)
    size = at.covariance.size
    model = at.model(objective)
    matrix = np.array(
        [
            model.product((e + e.T) / 2).ravel()
            for e in np.eye(size).reshape(size, *at.covariance.shape)
        ]
    )
    newton = -np.linalg.lstsq(matrix, model.gradient.ravel(), rcond=None)[0]
    to_the_end = settings_of(max_cg=200, tol2=1e-24)
    along, _ = newton_cg.conjugate_gradient(model, -model.gradient, to_the_end)
    np.testing.assert_allclose(along.ravel(), newton, rtol=1e-6, atol=1e-8)


@given(st.integers(0, 10_000))
def test_a_step_decreases_and_stays_positive_definite(seed):
    _, objective, at = example(seed)
    model = at.model(objective)
    along, _ = newton_cg.conjugate_gradient(model, -model.gradient, settings_of())
    slope = float(np.sum(along * model.gradient))
    assert slope < 0
    moved = newton_cg.line_search(objective, at, model.ray(along), slope, sigma=0.01, beta=0.5)
    assert objective.value(moved) < objective.value(at)
    assert np.linalg.eigvalsh(moved.covariance).min() > 0
    fresh = bases.iterate(at.basis, at.queries, moved.covariance)
    np.testing.assert_allclose(moved.ratios, fresh.ratios, rtol=1e-10)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_soft_maximum_and_its_weights(values, t):
    values = np.array(values)
    assert softmax.soft_maximum(values, t) == pytest.approx(
        special.logsumexp(t * values) / t, abs=1e-9
    )
    np.testing.assert_allclose(
        softmax.soft_weights(values, t), special.softmax(t * values), rtol=1e-9
    )
