"""Workloads that are the same in reverse, by halves: against the whole, which knows no symmetry."""

import numpy as np
import pytest

import solvers
import workloads
from solvers.dual.matrix_blocks import one_block
from solvers.dual.reflection import reflection
from solvers.forms.orbits.orbit_problem import orbit_problem
from solvers.problem import as_problem
from workloads import from_factors

RNG = np.random.default_rng(3)


def mirrored(workload, targets):
    """Targets that a query and its mirror image share."""
    dense = workload.dense
    image = [int(np.flatnonzero((dense == row[::-1]).all(axis=1))[0]) for row in dense]
    return (targets + targets[image]) / 2


def ranges(d):
    workload = workloads.make("all-range", d=d)
    return as_problem(workload, mirrored(workload, RNG.uniform(1, 10, workload.m)))


def both_ends(d):
    prefixes = np.tri(d)
    return as_problem(np.vstack([prefixes, 2 * np.eye(d), prefixes[::-1, ::-1]]))


def twice(d):
    """Every range, and each of an inner part once more."""
    dense = workloads.make("all-range", d=d).dense
    return as_problem(np.vstack([dense, dense[(dense[:, 0] == 0) & (dense[:, -1] == 0)]]))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("solvers.dual.reflection._FEWEST_CELLS", 4)


def whole(problem):
    factors = problem.factors
    return one_block(factors, np.zeros(factors.queries))


@pytest.mark.parametrize("make", [ranges, both_ends, twice])
@pytest.mark.parametrize("d", [12, 13])
def test_the_halves_have_the_norm_and_the_gradient_of_the_whole(make, d):
    blocks = whole(make(d))
    found = reflection(blocks)
    assert [b.factors.cells for b in found.folded.blocks] == [(d + 1) // 2, d // 2]
    x = found.fold(RNG.uniform(1, 2, d + blocks.queries))
    half, full = found.folded.at(x), blocks.at(found.unfold(x))
    assert half.nuclear_norm == pytest.approx(full.nuclear_norm, rel=1e-12)
    np.testing.assert_allclose(half.gradient[found.orbits], full.gradient, rtol=1e-10)


def test_orbits_of_a_census_fold_along_their_ordered_attribute():
    tables = [["age"], ["age", "sex"], ["sex", "place"]]
    attributes = {"sex": 2, "age": 11, "place": 3}
    census = workloads.make("census", attributes=attributes, tables=tables, ranges=["age"])
    problem = orbit_problem(as_problem(census))
    found = reflection(problem.blocks)
    assert found.folded.cells == 6
    x = found.fold(RNG.uniform(1, 2, problem.cells.size + problem.targets.size))
    half, full = found.folded.at(x), problem.blocks.at(found.unfold(x))
    assert half.nuclear_norm == pytest.approx(full.nuclear_norm, rel=1e-12)
    np.testing.assert_allclose(half.gradient[found.orbits], full.gradient, rtol=1e-10)


@pytest.mark.parametrize(
    "problem",
    [
        as_problem(workloads.make("prefix", d=12)),
        as_problem(workloads.make("all-range", d=12), np.linspace(1, 2, 78)),
        as_problem(np.vstack([np.tri(6), np.ones((1, 6)), np.tri(6)[::-1, ::-1][:5]])),
    ],
    ids=["other queries", "other targets", "a query without its image"],
)
def test_what_is_not_the_same_in_reverse_is_left_whole(problem):
    assert reflection(whole(problem)) is None


@pytest.mark.parametrize("mechanism", ["optimal", "CA"])
@pytest.mark.parametrize("make", [ranges, both_ends])
def test_the_halves_give_the_certified_optimum(mechanism, make, monkeypatch):
    problem = make(13)
    workload, targets = problem.workload, problem.targets
    found = solvers.solve(mechanism, workload, targets, tol=1e-9)
    monkeypatch.setattr("solvers.dual.programs.reflection", lambda *_: None)
    plain = solvers.solve(mechanism, workload, targets, tol=1e-9)
    assert found.converged
    assert found.squared_privacy_cost == pytest.approx(plain.squared_privacy_cost, rel=1e-8)
    weights = found.weights
    weighted = np.sqrt(weights.q / targets)[:, None] * workload.dense * np.sqrt(weights.p)
    proven = np.linalg.svd(weighted, compute_uv=False).sum() ** 2
    assert proven / (weights.p.sum() * weights.q.sum()) == pytest.approx(
        found.lower_bound if mechanism == "optimal" else proven, rel=1e-9
    )
    np.testing.assert_allclose(found.privacy_profile, found.privacy_profile[::-1], rtol=1e-6)


def test_a_table_of_two_orders_folds_along_one():
    """Ranges over the one, prefixes over the other attribute."""
    problem = as_problem(from_factors([(workloads.make("all-range", d=5).dense, np.tri(4))]))
    assert solvers.solve("optimal", problem.workload).gap <= 1e-6
