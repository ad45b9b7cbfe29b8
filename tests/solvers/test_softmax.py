"""Problem 4's function: value, gradient, Hessian and steps against plain evaluations."""

import numpy as np
import pytest
import sm2_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from solvers import newton_cg, softmax
from solvers.stopping import Deadline


def example(seed, t=2.0, weight=0.1):
    """Random data and covariance, as the reference and as the module take them."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    d, m = k + rng.integers(0, 3, size=2)
    basis, left = rng.normal(size=(k, d)), rng.normal(size=(m, k))
    targets = rng.uniform(0.5, 2, m)
    root = rng.normal(size=(k, k))
    inputs = reference.Inputs(basis, left, targets, weight)
    rows = left / np.sqrt(targets)[:, None]
    problem = softmax.SoftMax(basis, rows, weight * targets, t1=t, t2=1.5 * t)
    return inputs, problem, root @ root.T + np.eye(k)


def settings_of(**changes):
    constants = {
        "mu": 2.0,
        "nttol": 1e-3,
        "tol": 1e-3,
        "max_cg": 5,
        "tol2": 1e-10,
        "t2_over_t1": 1.0,
        "sigma": 0.01,
        "beta": 0.5,
        "max_iterations": 100,
    }
    return newton_cg.Settings(**{**constants, **changes})


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_value_and_gradient(seed):
    inputs, problem, covariance = example(seed)
    at = softmax.iterate(problem, covariance)
    value = problem.value(at.profile, at.ratios)
    gradient = softmax.Hessian(problem, at).gradient
    t1, t2 = problem.t1, problem.t2
    assert value == pytest.approx(reference.objective(inputs, covariance, t1, t2), rel=1e-10)
    rng = np.random.default_rng(seed)
    along = rng.normal(size=covariance.shape)
    along, h = along + along.T, 1e-6
    ahead, back = (reference.objective(inputs, covariance + s * h * along, t1, t2) for s in (1, -1))
    assert np.sum(gradient * along) == pytest.approx((ahead - back) / (2 * h), rel=1e-4, abs=1e-4)


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_hessian_is_the_derivative_of_the_gradient(seed):
    inputs, problem, covariance = example(seed)
    rng = np.random.default_rng(seed)
    along = rng.normal(size=covariance.shape)
    along, h = along + along.T, 1e-5
    product = softmax.Hessian(problem, softmax.iterate(problem, covariance)).product(along)
    ahead, back = (
        reference.gradient(inputs, covariance + s * h * along, problem.t1, problem.t2)
        for s in (1, -1)
    )
    scale = np.abs(product).max()
    np.testing.assert_allclose(product, (ahead - back) / (2 * h), rtol=0, atol=1e-4 * scale)


def test_conjugate_gradients_to_the_end_are_newton_s_step():
    _, problem, covariance = example(5)
    size = covariance.size
    at = softmax.iterate(problem, covariance)
    hessian = softmax.Hessian(problem, at)
    matrix = np.array(
        [
            hessian.product((e + e.T) / 2).ravel()
            for e in np.eye(size).reshape(size, *covariance.shape)
        ]
    )
    newton = -np.linalg.lstsq(matrix, hessian.gradient.ravel(), rcond=None)[0]
    direction = newton_cg.conjugate_gradient(problem, at, 200, 1e-24)
    np.testing.assert_allclose(direction.matrix.ravel(), newton, rtol=1e-6, atol=1e-8)
    assert direction.slope == pytest.approx(float(hessian.gradient.ravel() @ newton), rel=1e-6)


@settings(max_examples=50)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_soft_maximum_and_its_weights(values, t):
    values = np.array(values)
    assert softmax.soft_maximum(values, t) == pytest.approx(
        special.logsumexp(t * values) / t, abs=1e-9
    )
    np.testing.assert_allclose(
        softmax.soft_weights(values, t), special.softmax(t * values), rtol=1e-9
    )


def test_no_overflow_at_any_sharpness():
    _, problem, covariance = example(0, t=1e9, weight=0.0)
    at = softmax.iterate(problem, covariance)
    value = problem.value(at.profile, at.ratios)
    assert value == pytest.approx(at.profile.max() + at.ratios.max(), rel=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_a_step_decreases_and_stays_positive_definite(seed):
    _, problem, covariance = example(seed)
    at = softmax.iterate(problem, covariance)
    direction = newton_cg.conjugate_gradient(problem, at, 5, 1e-10)
    moved = newton_cg.line_search(problem, at, direction, settings_of())
    assert direction.slope < 0
    assert problem.value(moved.profile, moved.ratios) < problem.value(at.profile, at.ratios)
    assert np.linalg.eigvalsh(moved.covariance).min() > 0
    fresh = softmax.iterate(problem, moved.covariance)
    np.testing.assert_allclose(moved.ratios, fresh.ratios, rtol=1e-10)


def test_a_direction_that_does_not_descend_has_no_step():
    _, problem, covariance = example(1)
    at = softmax.iterate(problem, covariance)
    gradient = softmax.Hessian(problem, at).gradient
    ascent = newton_cg.Direction(gradient, -float(np.vdot(gradient, gradient)), 0)
    assert newton_cg.line_search(problem, at, ascent, settings_of()) is None


def test_the_last_level_is_the_first_that_tol_allows():
    _, problem, covariance = example(2, t=1.0)
    start = softmax.iterate(problem, covariance)
    size = problem.basis.shape[1] + problem.rows.shape[0]
    end = newton_cg.minimise(
        problem, start, settings_of(tol=size / 5.0), Deadline(), lambda *_: False
    )
    assert end.finished
    assert end.problem.t1 == 8.0
