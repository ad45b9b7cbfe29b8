"""Replace-one neighbours: against a semidefinite program, closed forms and pair by pair."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import proven_by

import solvers
import workloads
from benchmarks.adversary.checks import clarabel
from solvers import NotApplicableError, OptionError
from solvers.problem.neighbours import as_neighbours
from workloads.operators import dense

WITHIN = {"within": [3, 3]}
PATH = {"pairs": [[0, 1], [1, 2], [4, 5]]}
RELATIONS = ("replace-one", WITHIN, PATH)
GAUSSIAN = ("IP", "GM", "HM", "WM", "CA", "AM", "fisher", "SM-II")


def matrices(seed, m=5, d=6):
    return np.random.default_rng(seed).normal(size=(m, d))


def pairs_of(relation, d):
    if relation == PATH:
        return relation["pairs"]
    size = 3 if relation == WITHIN else d
    return [(i, j) for i in range(d) for j in range(i) if i // size == j // size]


def moved_by(pairs, matrix):
    """The differences of the pairs' columns."""
    return np.column_stack([matrix[:, i] - matrix[:, j] for i, j in pairs])


def cost_over(pairs, strategy):
    return np.square(moved_by(pairs, strategy)).sum(axis=0).max()


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_the_optimum_by_a_semidefinite_program(relation):
    targets = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    matrix = matrices(3)
    best = clarabel(moved_by(pairs_of(relation, 6), matrix) / np.sqrt(targets)[:, None])
    found = solvers.solve("optimal", matrix, targets, neighbours=relation)
    assert found.squared_privacy_cost == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
@given(seed=st.integers(0, 10**6))
def test_the_certificate_holds_for_all_pairs(relation, seed):
    """The weights of pairs and queries prove it."""
    matrix, targets = matrices(seed), np.random.default_rng(seed).uniform(0.5, 2, 5)
    found = solvers.solve("optimal", matrix, targets, neighbours=relation)
    assert found.converged
    assert 0 <= found.gap <= 1e-6
    pairs = sorted((min(pair), max(pair)) for pair in pairs_of(relation, 6))
    assert found.squared_privacy_cost == pytest.approx(found.privacy_profile.max())
    apart = np.square(moved_by(pairs, found.noise.right)).sum(axis=0)
    for cell, cost in enumerate(found.privacy_profile):
        own = [one for pair, one in zip(pairs, apart, strict=True) if cell in pair]
        assert cost == pytest.approx(max(own, default=0.0))
    assert np.all(found.query_variances <= targets * (1 + 1e-9))
    moved = moved_by(pairs, matrix)
    assert proven_by(found.weights, moved, targets) == pytest.approx(found.lower_bound, rel=1e-9)
    differences = moved_by(pairs, found.noise.left @ found.noise.right)
    np.testing.assert_allclose(differences, moved, atol=1e-9 * np.abs(moved).max())


@pytest.mark.parametrize("mechanism", GAUSSIAN)
@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_any_mechanism_costs_between_nothing_and_four_times(mechanism, relation):
    matrix = matrices(7)
    known = solvers.solve(mechanism, matrix)
    found = solvers.solve(mechanism, matrix, neighbours=relation)
    assert 0 < found.squared_privacy_cost <= 4 * known.squared_privacy_cost * (1 + 1e-9)
    cost = cost_over(pairs_of(relation, 6), dense(known.noise.right))
    assert found.squared_privacy_cost == pytest.approx(cost, rel=1e-4)
    best = solvers.solve("optimal", matrix, neighbours=relation)
    assert found.squared_privacy_cost >= best.lower_bound * (1 - 1e-9)
    assert found.lower_bound <= best.squared_privacy_cost * (1 + 1e-9)


@pytest.mark.parametrize("relation", RELATIONS[:2], ids=str)
@given(seed=st.integers(0, 10**6))
def test_the_farthest_pairs_come_first(relation, seed):
    strategy, known = matrices(seed, 4, 6), as_neighbours(relation)
    pairs = [(j, i) for i, j in pairs_of(relation, 6)]
    apart = np.square(moved_by(pairs, strategy)).sum(axis=0)
    first = np.argsort(-apart)[:3]
    found = known.farthest_pairs(strategy, apart[first[2]] * (1 - 1e-9), 9)
    np.testing.assert_array_equal(found, np.array(pairs)[first])
    assert known.count(6) == len(pairs)


def test_cells_that_no_query_tells_apart_are_one_cell():
    """Twelve kinds of cells, twelve of each: the cost of one of each, and no more pairs."""
    kinds = workloads.make("range", d=12, m=9, seed=3).dense
    single = solvers.solve("optimal", kinds, neighbours="replace-one")
    assert single.converged
    for copies, within in ((np.tile(kinds, 12), None), (np.tile(kinds, (1, 24)), [144, 144])):
        relation = "replace-one" if within is None else {"within": within}
        found = solvers.solve("optimal", copies, neighbours=relation)
        assert found.converged
        assert found.squared_privacy_cost == pytest.approx(single.squared_privacy_cost, rel=2e-6)
        assert found.notes["pairs"] <= found.problem.workload.d / 144 * (12 * 11 / 2)
        assert found.privacy_profile.shape == (found.problem.workload.d,)


@pytest.mark.parametrize(("relation", "pairs"), [("replace-one", 190), ({"within": 10}, 90)])
def test_a_working_set_of_pairs_is_as_good_as_all(relation, pairs, monkeypatch):
    matrix = np.tri(20)
    whole = solvers.solve("optimal", matrix, neighbours=relation)
    assert whole.notes["pairs"] == pairs
    monkeypatch.setattr("solvers.forms.differences.ALL_AT_ONCE", 10)
    some = solvers.solve("optimal", matrix, neighbours=relation)
    assert some.converged
    assert 1 < some.notes["rounds"] <= 8  # 11 if only each cell's farthest partner is added
    assert some.squared_privacy_cost == pytest.approx(whole.squared_privacy_cost, rel=3e-6)


def test_answers_are_unbiased_where_differences_are_much_shorter_than_columns():
    """The two cells differ by 1e-5, in the first query alone; the third is of size 1e5."""
    matrix = np.array([[2.0, -1, 2, -1], [-2, -1, 2, -2], [1, 1, 1, 1]])
    matrix *= np.array([3.4e-6, 47.0, 3.6e5])[:, None]
    for mechanism in ("CA", "SM-II"):
        noise = solvers.solve(mechanism, matrix, neighbours={"pairs": [[0, 3]]}).noise
        left, change = (
            np.longdouble(dense(factor)) for factor in (noise.left, moved_by([(0, 3)], noise.right))
        )
        missing = left @ change - moved_by([(0, 3)], matrix)
        units = np.sqrt(np.square(left).sum(axis=1) * np.square(change).sum())
        assert np.all(np.abs(missing[:, 0]) <= 1e-12 * units)


def test_constant_queries_are_free():
    with_total = np.vstack([np.eye(4), np.ones(4)])
    found = solvers.solve("optimal", with_total, neighbours="replace-one")
    alone = solvers.solve("optimal", np.eye(4), neighbours="replace-one")
    assert found.squared_privacy_cost == pytest.approx(alone.squared_privacy_cost, rel=1e-6)
    assert found.query_variances[4] == 0
    assert found.notes["public_queries"] == 1
    for mechanism in ("optimal", "GM", "laplace"):
        with pytest.raises(NotApplicableError, match="public and need no noise"):
            solvers.solve(mechanism, np.ones((2, 4)), neighbours="replace-one")
    blocks = np.kron(np.eye(2), np.ones((1, 3)))
    with pytest.raises(NotApplicableError, match="within blocks of 3"):
        solvers.solve("optimal", blocks, neighbours=WITHIN)


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_pure_mechanisms_have_the_sensitivity_of_the_pairs(relation):
    matrix = np.random.default_rng(0).integers(-2, 3, size=(4, 6)).astype(float)
    largest = max(np.abs(matrix[:, i] - matrix[:, j]).sum() for i, j in pairs_of(relation, 6))
    for mechanism in ("laplace", "geometric"):
        found = solvers.solve(mechanism, matrix, neighbours=relation)
        assert found.curve.pure.sensitivity == largest
        assert found.curve.epsilon_at_targets(1e-3) <= found.noise.epsilon
        data = solvers.solve(mechanism, matrix, neighbours=relation, on="data")
        assert data.curve.pure.sensitivity == 2
        alone = solvers.solve(mechanism, matrix, on="data")
        assert data.noise.epsilon == pytest.approx(2 * alone.noise.epsilon)
    counts = np.tri(6)
    moved = max(np.count_nonzero(counts[:, i] - counts[:, j]) for i, j in pairs_of(relation, 6))
    tight = solvers.solve("tight-constraints", counts, neighbours=relation)
    assert tight.notes["queries_composed"] == moved


def test_query_graphs_have_their_own_neighbours():
    graph = workloads.make("counting", n=3)
    with pytest.raises(OptionError, match="its own edges say which answers are adjacent"):
        solvers.solve("geometric", graph, neighbours="replace-one")
    found = solvers.solve("geometric", graph)
    assert found.neighbours == "adjacent answers of the query graph"
    assert re.search(r"neighbours +adjacent answers", repr(found))


def test_a_free_query_by_hand():
    """Blocks of equal cost: pairs in the cheap block have room for the difference."""
    found = solvers.solve("GM", np.diag([2.0, 2, 1, 1]), neighbours={"within": 2})
    free = found.free_queries([[0, 0, 1, -1], [1, 1, 0, 0]])
    np.testing.assert_allclose(free.fresh, [4 / (8 - 2), 0])
    np.testing.assert_allclose(free.derived, [2, 0])
    np.testing.assert_allclose(free.together, [4 / (8 - 2), 0])


@pytest.mark.parametrize("weight", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("d", [2, 5])
def test_the_hybrid_with_total_error_has_a_closed_form_on_the_identity(weight, d):
    """By symmetry the noise is that of least cost, 2 (1 - 1/d), and the total is d."""
    found = solvers.solve("optimal", np.eye(d), neighbours="replace-one", total_error_weight=weight)
    expected = 2 * np.sqrt(2 * (1 - 1 / d) * (1 + weight * d))
    assert found.notes["objective"] == pytest.approx(expected, rel=1e-6)
    assert found.notes["objective_gap"] <= 1e-6
    assert found.known_lower_bound is None


def test_the_refined_optimum_leaves_no_pair_dearer_than_it_must_be():
    """Two independent blocks: the second, with targets four times as large, costs a quarter."""
    targets = np.repeat([1.0, 4.0], 3)
    found = solvers.solve("optimal", np.eye(6), targets, neighbours=WITHIN, refined=True)
    np.testing.assert_allclose(found.privacy_profile, np.repeat([4 / 3, 1 / 3], 3), rtol=1e-5)
    assert found.converged
    assert found.notes["levels"] == 2


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_of_two_neighbours_the_lesser_bound_counts(relation, weight):
    """It equals Problem 1 of the differences under add-remove, with a bound for each."""
    matrix, targets, bounds = matrices(5), np.linspace(0.5, 2, 5), np.array([1, 2, 4, 8, 3, 0.5])
    pairs = pairs_of(relation, 6)
    moved = moved_by(pairs, matrix)
    own = [min(bounds[i], bounds[j]) for i, j in pairs]
    options = {"total_error_weight": weight, "tol": 1e-8}
    every = solvers.solve("optimal", moved, targets, profile_bounds=own, **options)
    found = solvers.solve(
        "optimal", matrix, targets, neighbours=relation, profile_bounds=bounds, **options
    )
    assert found.converged
    assert found.notes["objective"] == pytest.approx(every.notes["objective"], rel=3e-8)
    assert 0 <= found.notes["objective_gap"] <= 1e-8
    assert np.all(found.query_variances <= targets * (1 + 1e-9))
    plain = solvers.solve("optimal", matrix, targets, neighbours=relation)
    assert found.squared_privacy_cost >= plain.lower_bound * (1 - 1e-9)
