"""The dual: spectra by definition, derivatives by differences, bounds valid everywhere."""

import numpy as np
import pytest
import scipy.linalg as sla
from hypothesis import given
from hypothesis import strategies as st
from oracles import random_problem

import solvers
import workloads
from solvers.dual import newton_system
from solvers.dual import programs as dual
from solvers.dual.interior_point import maximise
from solvers.dual.matrix_blocks import one_block
from solvers.dual.newton_system import BlockVectors, PreconditionedSystem
from solvers.dual.spectrum import spectrum
from solvers.problem import as_problem
from solvers.problem.factors import NEARLY_FULL, Factors, factorise
from workloads.operators import Explicit

ALL = slice(None)


def some_matrix(seed, m, d, rank=None):
    rng = np.random.default_rng(seed)
    if rank is None:
        return rng.standard_normal((m, d))
    return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, d))


def some_weights(seed, d, m):
    rng = np.random.default_rng(seed + 1)
    return rng.dirichlet(np.ones(d)), rng.dirichlet(np.ones(m))


def nuclear_norm(matrix, p, q):
    weighted = np.sqrt(q)[:, None] * matrix * np.sqrt(p)
    return np.linalg.svd(weighted, compute_uv=False).sum()


def relative_hessian(matrix, p, q, step=1e-4):
    """The second derivatives of -2f in the logarithms of the weights, without the gradient's
    part."""
    x = np.concatenate([p, q])
    n, d = x.size, p.size

    def value(logs):
        moved = x * np.exp(logs)
        return -2 * nuclear_norm(matrix, moved[:d], moved[d:])

    unit = step * np.eye(n)
    hessian = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            corners = [a * b * value(a * unit[i] + b * unit[j]) for a in (1, -1) for b in (1, -1)]
            hessian[i, j] = sum(corners) / (4 * step**2)
    gradient = np.array([value(u) - value(-u) for u in unit]) / (2 * step)
    return hessian - np.diag(gradient)


@pytest.mark.parametrize(
    ("m", "d", "rank"),
    [(7, 5, None), (3, 6, None), (8, 6, 3), (5, 5, None), (30, 24, 23), (26, 24, 22)],
)
def test_a_spectrum_is_a_singular_value_decomposition(m, d, rank):
    matrix = some_matrix(3, m, d, rank)
    p, q = some_weights(3, d, m)
    factors = factorise(matrix)
    found = spectrum(factors, p, q)
    weighted = np.sqrt(q)[:, None] * matrix * np.sqrt(p)
    rows = found.queries.matrix
    np.testing.assert_allclose((rows * found.singular) @ found.columns.T, weighted, atol=1e-9)
    np.testing.assert_allclose(rows.T @ rows, np.eye(factors.rank), atol=1e-8)
    np.testing.assert_allclose(found.columns.T @ found.columns, np.eye(factors.rank), atol=1e-8)
    assert found.nuclear_norm == pytest.approx(nuclear_norm(matrix, p, q), rel=1e-10)


def test_beside_a_null_space_small_singular_values_keep_their_digits():
    """At nearly full rank all cells are used, down to weights of 1e-3 of the others."""
    matrix = some_matrix(4, 40, 30)
    matrix[:, 8] = matrix[:, 9]
    matrix[:, 7] = 0.0
    p, q = some_weights(4, 30, 40)
    p[:5] *= 1e-3
    factors = factorise(matrix)
    assert factors.rank == 28 >= NEARLY_FULL * factors.cells
    found = spectrum(factors, p, q)
    expected = np.linalg.svd(np.sqrt(q)[:, None] * matrix * np.sqrt(p), compute_uv=False)
    np.testing.assert_allclose(found.singular[::-1], expected[: factors.rank], rtol=1e-9)
    assert not found.columns[7].any()
    sigma = found.covariance()
    gram = factors.left.T @ (q[:, None] * factors.left)
    h = (factors.basis * p) @ factors.basis.T
    np.testing.assert_allclose(sigma @ gram @ sigma, h, atol=1e-9 * np.abs(h).max())


def test_a_coarse_start_leads_to_the_same_optimum(monkeypatch):
    factors = factorise(workloads.make("prefix", d=256).dense)
    coarse = dual.optimum(factors, tol=1e-6)
    monkeypatch.setattr(dual, "coarsened", lambda factors: None)
    cold = dual.optimum(factors, tol=1e-6)
    assert max(coarse.lower, cold.lower) <= min(coarse.upper, cold.upper) * (1 + 1e-12)
    assert coarse.gap <= 1e-6
    assert cold.gap <= 1e-6
    assert coarse.trace.objective.size < cold.trace.objective.size


def test_the_inner_solution_is_the_geometric_mean_and_its_profile_the_gradient():
    matrix = some_matrix(5, 7, 4)
    p, q = some_weights(5, 4, 7)
    found = spectrum(factorise(matrix), p, q)
    sigma = found.covariance()
    gram = matrix.T @ (q[:, None] * matrix)
    np.testing.assert_allclose(sigma @ gram @ sigma, np.diag(p), atol=1e-10)
    np.testing.assert_allclose(p * np.diag(np.linalg.inv(sigma)), found.column_mass, rtol=1e-8)
    np.testing.assert_allclose(
        q * np.diag(matrix @ sigma @ matrix.T), found.row_mass, rtol=1e-8, atol=1e-14
    )


@pytest.mark.parametrize(("m", "d"), [(6, 4), (3, 5)])
def test_the_newton_system_holds_the_second_derivatives(m, d):
    matrix = some_matrix(11, m, d)
    p, q = some_weights(11, d, m)
    n = m + d
    exact = relative_hessian(matrix, p, q)
    diagonal = np.full(n, 1e-2)
    constraints = np.zeros((n, 2))
    constraints[:d, 0], constraints[d:, 1] = p, q
    point = one_block(factorise(matrix), np.zeros(m)).at(np.concatenate([p, q]))
    system = point.newton_system(diagonal, constraints)
    b, r = np.linspace(-1, 1, n), np.array([0.01, -0.02])
    z, _ = system.solve(b, r, 0.03)
    full = np.block([[exact + np.diag(diagonal), constraints], [constraints.T, np.zeros((2, 2))]])
    expected = np.linalg.solve(full, np.concatenate([b, r]))
    np.testing.assert_allclose(constraints.T @ z, r, atol=1e-5)
    error = (exact + np.diag(diagonal)) @ (z - expected[:n])
    assert abs((z - expected[:n]) @ error) <= 0.05**2 * abs(expected[:n] @ b)
    along, _ = system.solve(b + constraints @ np.array([1e6, -1e7]), r, 0.03)
    np.testing.assert_allclose(along, z, atol=1e-6 * np.abs(z).max())


@pytest.mark.parametrize("free_queries", [True, False])
@pytest.mark.parametrize("structured", [True, False])
def test_the_bend_is_the_second_difference_of_the_gradient(free_queries, structured):
    workload = workloads.make("all-range", d=12)
    factors = as_problem(workload).factors if structured else factorise(workload.dense)
    assert factors.structured == structured
    rng = np.random.default_rng(5)
    blocks = one_block(factors, rng.random(workload.m) / 50, free_queries=free_queries)
    x = np.concatenate([rng.dirichlet(np.full(part.sum(), 3.0)) for part in blocks.groups.T > 0])
    z, step = rng.standard_normal(x.size), 1e-3
    before, here, after = (blocks.at(x * (1 + t * z)).gradient for t in (-step, 0.0, step))
    expected = x * (before - 2 * here + after) / (2 * step**2)
    found = blocks.at(x).newton_system(x, x[:, None] * blocks.groups).bend(z, 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_light_weights_are_left_to_their_diagonal(monkeypatch):
    """A preconditioner with the twenty heaviest weights costs products but not accuracy."""
    workload = workloads.make("all-range", d=16)
    found = solvers.solve("optimal", workload, tol=1e-3)
    blocks = one_block(as_problem(workload).factors, np.zeros(workload.m))
    x = np.concatenate([found.weights.p, found.weights.q])
    point = blocks.at(x)
    vectors = point.spectrum.vectors(with_queries=True)
    parts = [BlockVectors(point.spectrum.singular, vectors, ALL, workload.d)]
    signs = np.repeat([1.0, -1.0], [workload.d, workload.m])
    b, r = x * np.random.default_rng(0).standard_normal(x.size), np.zeros(2)
    solutions, products = [], []
    for few in (False, True):
        if few:
            monkeypatch.setattr(newton_system, "explicit_count", lambda *_: 20)
        system = PreconditionedSystem(
            parts, signs, x * point.gradient, 1e-3 * x, x[:, None] * blocks.groups
        )
        solutions.append(system.solve(b, r, 1e-4)[0])
        products.append(system.products)
    np.testing.assert_allclose(*solutions, atol=1e-3 * np.abs(solutions[0]).max())
    assert products[0] < products[1] < 80


def test_steps_on_coarser_domains_count(monkeypatch):
    taken = []

    def counted(*args):
        progress = maximise(*args)
        taken.append(progress.iterations)
        return progress

    monkeypatch.setattr(dual, "maximise", counted)
    factors = as_problem(workloads.make("prefix", d=512)).factors
    found = dual.optimum(factors, tol=1e-6, max_iterations=1)
    assert taken == [1, 0, 0]
    assert found.iterations == 1
    assert not found.converged


@given(st.integers(0, 10_000))
def test_any_weights_bound_the_cost_of_any_mechanism_from_below(seed):
    matrix, targets = random_problem(seed, decades=0.3)
    p, q = some_weights(seed, *matrix.shape[::-1])
    problem = as_problem(matrix, targets)
    bound = spectrum(problem.factors, p, q).nuclear_norm ** 2
    assert bound == pytest.approx(nuclear_norm(np.asarray(problem.scaled), p, q) ** 2, rel=1e-6)
    for name in ("IP", "GM", "optimal"):
        cost = solvers.solve(name, matrix, problem.targets).squared_privacy_cost
        assert cost >= bound * (1 - 1e-9)


@pytest.mark.parametrize("null", [0, 3])
def test_a_few_tiny_singular_values_are_as_exact_as_by_a_decomposition_of_all(null, monkeypatch):
    rng = np.random.default_rng(0)
    cells, tiny = 60, 10.0 ** np.array([-7.5, -6.0, -5.3])
    singular = np.concatenate([tiny, np.geomspace(1e-3, 1, cells - null - 3)])
    left, _ = np.linalg.qr(rng.normal(size=(90, singular.size)))
    rows = np.linalg.qr(rng.normal(size=(cells, cells)))[0][: singular.size]
    scaled = left * singular
    factors = Factors(Explicit(scaled), rows) if null else Factors(Explicit(scaled @ rows), None)
    decomposed = []
    exact = sla.svd
    monkeypatch.setattr(
        sla, "svd", lambda a, **k: (decomposed.append(a.shape[1]), exact(a, **k))[1]
    )
    found = spectrum(factors, np.ones(cells), np.ones(90))
    assert decomposed == [3 + null]
    np.testing.assert_allclose(found.singular, singular, rtol=1e-7)
    np.testing.assert_allclose(found.columns.T @ found.columns, np.eye(singular.size), atol=1e-13)
    np.testing.assert_allclose(np.abs(found.columns.T @ rows.T), np.eye(singular.size), atol=1e-7)
