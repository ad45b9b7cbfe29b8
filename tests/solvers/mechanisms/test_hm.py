"""The hierarchical mechanism and the wavelet mechanism: their strategies by definition."""

import numpy as np
import pytest

import solvers
import workloads
from solvers.mechanisms.hm import build_published, build_regular, choose_branching
from solvers.mechanisms.wm import build_haar


def brute_force(queries, tree):
    noise = np.square(queries @ np.linalg.pinv(tree)).sum(axis=1)
    return np.square(tree).sum(axis=0).max() * noise.max()


@pytest.mark.parametrize("branching", [2, 3, 8])
def test_prefix_over_eight_cells_by_brute_force(branching):
    queries = np.tril(np.ones((8, 8)))
    groups = [range(0, 8, branching**level) for level in range(8) if branching**level < 8]
    rows = {(0, 8)} | {(start, min(start + g.step, 8)) for g in groups for start in g}
    tree = np.array([[a <= i < b for i in range(8)] for a, b in sorted(rows)], dtype=float)
    solution = solvers.solve("HM", queries, branching=branching)
    assert solution.squared_privacy_cost == pytest.approx(brute_force(queries, tree), rel=1e-10)


def test_published_runs_have_root_groups_and_leaves():
    tree = build_regular(64, choose_branching(64, "sqrt")).matrix.toarray()
    sizes, counts = np.unique(tree.sum(axis=1), return_counts=True)
    assert dict(zip(sizes, counts, strict=True)) == {1: 64, 8: 8, 64: 1}


@pytest.mark.parametrize("d", [5, 64, 100, 256, 1024])
@pytest.mark.parametrize(("rule", "power"), [("qardaji", 2), ("laplace", 3)])
def test_branching_minimises_the_average_range_variance(d, rule, power):
    def variance(b):
        height = next(h for h in range(1, 64) if b**h >= d)
        return (b - 1) * height**power - 2 * (b + 1) * height ** (power - 1) / 3

    chosen = choose_branching(d, rule)
    assert variance(chosen) == min(variance(b) for b in range(2, d + 1))


@pytest.mark.parametrize("family", ["range", "random", "prefix"])
def test_the_default_is_the_best_of_all_branchings(family):
    workload = workloads.make(family, d=23)
    targets = np.random.default_rng(1).uniform(1, 10, workload.m)
    costs = {
        b: solvers.solve("HM", workload, targets, branching=b).squared_privacy_cost
        for b in range(2, 24)
    }
    best = solvers.solve("HM", workload, targets)
    assert best.squared_privacy_cost == pytest.approx(min(costs.values()), rel=1e-6)
    assert best.notes["rule"] == "best"
    assert costs[best.notes["branching"]] == best.squared_privacy_cost
    by_rule = solvers.solve("HM", workload, targets, branching="qardaji")
    assert by_rule.squared_privacy_cost == costs[choose_branching(23, "qardaji")]


def test_published_tree_hangs_the_last_leaves_on_the_root():
    rows = build_published(11).matrix.toarray()
    groups = rows[rows.sum(axis=1) == 3]
    np.testing.assert_array_equal(groups, np.kron(np.eye(3, 4), np.ones(3))[:, :11])
    assert len(rows) == 1 + 3 + 11


def weighted_coefficients(d):
    """ICDE 2010: coefficient (left mean - right mean)/2 times the node's size; mean times d."""
    if d == 1:
        return np.ones((1, 1))
    rows = [np.ones(d)]
    size = d
    while size > 1:
        for start in range(0, d, size):
            half = size // 2
            row = np.zeros(d)
            row[start : start + half] = 1 / half
            row[start + half : start + size] = -1 / half
            rows.append(size * row / 2)
        size //= 2
    return np.array(rows)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 8, 11, 32])
def test_strategy_is_the_weighted_haar_transform_padded_with_empty_cells(d):
    padded = weighted_coefficients(1 << (d - 1).bit_length())[:, :d]
    kept = padded[np.any(padded != 0, axis=1)]
    np.testing.assert_array_equal(build_haar(d).toarray(), kept)


@pytest.mark.parametrize("levels", [0, 1, 4, 7])
def test_the_total_and_single_cells_in_closed_form(levels):
    d = 2**levels
    total = solvers.solve("WM", np.ones((1, d)))
    cells = solvers.solve("WM", np.eye(d))
    assert total.squared_privacy_cost == pytest.approx(1 + levels, rel=1e-12)
    expected = (1 + levels) * (1 + 2 * 4.0**-levels) / 3
    assert cells.squared_privacy_cost == pytest.approx(expected, rel=1e-12)
