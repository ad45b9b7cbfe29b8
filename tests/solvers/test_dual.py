"""The dual: spectra by their definition, and starts from coarser domains."""

import numpy as np
import pytest
import scipy.linalg as sla
import scipy.sparse as sp
from oracles import check_factors

import solvers
import workloads
from solvers.dual import programs
from solvers.dual.iteration import Stopping
from solvers.dual.newton_system import StructuredVectors
from solvers.dual.spectrum import masses, spectrum
from solvers.problem.factors import Factors, factorise
from workloads.operators import Explicit


@pytest.mark.parametrize(
    ("m", "d", "rank"),
    [(7, 5, 5), (3, 6, 3), (8, 6, 3), (5, 5, 5), (30, 24, 23), (26, 24, 22)],
)
def test_a_spectrum_is_a_singular_value_decomposition(m, d, rank):
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, d))
    p, q = rng.dirichlet(np.ones(d)), rng.dirichlet(np.ones(m))
    factors = factorise(matrix)
    found = spectrum(factors, p, q)
    weighted = np.sqrt(q)[:, None] * matrix * np.sqrt(p)
    rows = found.queries
    np.testing.assert_allclose((rows * found.singular) @ found.columns.T, weighted, atol=1e-9)
    np.testing.assert_allclose(rows.T @ rows, np.eye(factors.rank), atol=1e-8)
    np.testing.assert_allclose(found.columns.T @ found.columns, np.eye(factors.rank), atol=1e-8)
    assert found.singular.sum() == pytest.approx(np.linalg.norm(weighted, "nuc"), rel=1e-10)


def test_the_spectrum_of_few_sparse_queries_keeps_them_sparse():
    rng = np.random.default_rng(0)
    matrix = sp.random_array((60, 5000), density=0.04, rng=rng).toarray()
    p, q = rng.dirichlet(np.ones(5000)), rng.dirichlet(np.ones(60))
    found = spectrum(factorise(matrix), p, q, 1e-9)
    assert isinstance(found.cells, StructuredVectors)
    weighted = np.sqrt(q)[:, None] * matrix * np.sqrt(p)
    _, singular, right = sla.svd(weighted, full_matrices=False)
    np.testing.assert_allclose(found.singular, singular[::-1], rtol=1e-12)
    np.testing.assert_allclose(np.abs(right[::-1] @ found.columns), np.eye(60), atol=1e-10)
    np.testing.assert_allclose(
        masses(found.cells, found.singular), right.T**2 @ singular, rtol=1e-9, atol=1e-15
    )
    whole = solvers.solve("optimal", matrix)
    assert whole.gap <= 1e-6
    check_factors(matrix, whole.noise)


def test_a_coarse_start_leads_to_the_same_optimum(monkeypatch):
    factors = factorise(workloads.make("prefix", d=256).dense)
    coarse = programs.optimum(factors, Stopping(1e-6))
    monkeypatch.setattr(programs, "coarsened", lambda factors: None)
    cold = programs.optimum(factors, Stopping(1e-6))
    assert max(coarse.lower, cold.lower) <= min(coarse.upper, cold.upper) * (1 + 1e-12)
    assert coarse.gap <= 1e-6
    assert cold.gap <= 1e-6
    assert coarse.trace.objective.size < cold.trace.objective.size


@pytest.mark.parametrize("null", [0, 3])
def test_a_few_tiny_singular_values_are_as_exact_as_by_a_decomposition_of_all(null):
    rng = np.random.default_rng(0)
    cells, tiny = 60, 10.0 ** np.array([-7.5, -6.0, -5.3])
    singular = np.concatenate([tiny, np.geomspace(1e-3, 1, cells - null - 3)])
    left, _ = np.linalg.qr(rng.normal(size=(90, singular.size)))
    rows = np.linalg.qr(rng.normal(size=(cells, cells)))[0][: singular.size]
    scaled = left * singular
    factors = Factors(Explicit(scaled), rows) if null else Factors(Explicit(scaled @ rows), None)
    found = spectrum(factors, np.ones(cells), np.ones(90))
    np.testing.assert_allclose(found.singular, singular, rtol=1e-7)
    np.testing.assert_allclose(found.columns.T @ found.columns, np.eye(singular.size), atol=1e-13)
    np.testing.assert_allclose(np.abs(found.columns.T @ rows.T), np.eye(singular.size), atol=1e-7)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_max_iterations_limits_the_steps_on_coarser_domains_too(limit):
    factors = factorise(workloads.make("prefix", d=512).dense)
    assert programs.optimum(factors, Stopping(1e-6)).iterations > 3  # on three domains together
    found = programs.optimum(factors, Stopping(1e-6, limit))
    assert found.iterations == limit
    assert not found.converged
    assert not found.timed_out
