"""The optimiser's parts: linear systems, stopping, backtracking, several blocks at once."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from marginal_problems import four_groups

import solvers
import workloads
from solvers.dual import scalar_blocks
from solvers.dual.matrix_blocks import as_blocks
from solvers.dual.newton_system import PreconditionedSystem
from solvers.dual.scalar_blocks import LowRankSystem
from solvers.forms.orbits.orbit_problem import orbit_problem
from solvers.problem import as_problem


@pytest.mark.parametrize("made", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("shape", [(5, 40), (40, 12)])
@pytest.mark.parametrize("largest", [0, 1000])
def test_linear_systems(made, shape, largest, monkeypatch):
    """By rows and by columns, by Cholesky and by conjugate gradients, for one side and two."""
    rng = np.random.default_rng(0)
    a = rng.exponential(size=shape) * (rng.random(shape) < 0.4)
    a[0, 0] = 1.0
    g, e = rng.exponential(size=shape[0]), rng.exponential(size=shape[1])
    right = rng.normal(size=(shape[0], 2))
    monkeypatch.setattr(scalar_blocks, "LARGEST_FACTORISED", largest)
    solve = LowRankSystem(made(a)).factorised(g, e)
    expected = np.linalg.solve(np.diag(1 / g) + (a * e) @ a.T, right)
    np.testing.assert_allclose(solve(right), expected, rtol=1e-8)
    np.testing.assert_allclose(solve(right[:, 0]), expected[:, 0], rtol=1e-8)


def test_blocks_have_the_newton_system_of_the_whole_matrix():
    """The weights of an orbit move together: the step by blocks is that of the whole matrix."""
    blocks = orbit_problem(as_problem(*four_groups())).blocks
    point = blocks.at(blocks.uniform * np.linspace(0.5, 1.5, blocks.uniform.size))
    step = 1e-5 * np.random.default_rng(0).standard_normal(point.x.size)
    diagonal, free = np.full(point.x.size, 1e-9), point.x[:, None] * np.eye(point.x.size)[:, :1]
    system = point.newton_system(diagonal, free)
    product = system.times(step) - diagonal * step
    ahead, behind = (blocks.at(point.x * np.exp(sign * step)) for sign in (1, -1))
    slopes = [one.x * one.gradient for one in (ahead, behind)]
    change = (slopes[1] - slopes[0]) / 2 + step * point.x * point.gradient
    np.testing.assert_allclose(product, change, atol=1e-5 * np.abs(change).max())


def test_no_matrix_of_a_newton_step_outlives_it():
    """Nothing waits for Python's collector, which counts objects and not their gigabytes."""
    gc.collect()
    gc.disable()
    try:
        solvers.solve("optimal", workloads.make("range", d=128, seed=0), tol=1e-4)
        left = [one for one in gc.get_objects() if isinstance(one, PreconditionedSystem)]
    finally:
        gc.enable()
    assert left == []


@pytest.mark.filterwarnings("error")
def test_the_bound_at_a_weight_of_zero_divides_by_no_weight():
    factors = as_problem(np.eye(2), np.ones(2)).factors
    half = np.full(2, 0.5)
    point = replace(as_blocks(factors), offset=half, free_queries=False).at(np.array([1.0, 0.0]))
    np.testing.assert_allclose(point.nuclear_norm, 0.5**0.5, rtol=1e-12)
