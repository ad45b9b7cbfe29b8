"""DAWA's stages against brute force, numerical integration and simulation."""

import itertools
import math

import numpy as np
import pytest

import solvers
import workloads
from solvers.errors import NotApplicableError
from solvers.mechanisms import dawa
from solvers.privacy import budget
from workloads import histograms

X = np.array([3.0, 3.0, 4.0, 9.0, 1.0, 0.0, 0.0, 2.0, 2.0])


def partitions(cells):
    """All partitions into intervals of 2^k cells, as lists of (first cell, k)."""
    if cells == 0:
        yield []
        return
    for k in range(int(cells).bit_length()):
        for rest in partitions(cells - 2**k):
            yield [*rest, (cells - 2**k, k)]


def test_deviations_by_their_definition():
    found = dawa.measure_deviations(X)
    assert [one.size for one in found] == [9, 8, 6, 2]
    for k, one in enumerate(found):
        for first, value in enumerate(one):
            part = X[first : first + 2**k]
            assert value == pytest.approx(np.abs(part - part.mean()).sum())


@pytest.mark.parametrize("seed", range(5))
def test_the_partition_of_least_cost_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    costs = dawa.add_noise(dawa.measure_deviations(X), 1.0, 3.0, rng)
    best = min(partitions(X.size), key=lambda p: sum(costs[k][first] for first, k in p))
    assert dawa.find_partition(costs, X.size).tolist() == [first for first, _ in best]


def test_one_record_moves_the_cost_of_an_interval_by_less_than_two():
    for j, sign in itertools.product(range(X.size), (1, -1)):
        moved = X + sign * np.eye(X.size)[j]
        for one, other in zip(
            dawa.measure_deviations(X), dawa.measure_deviations(moved), strict=True
        ):
            assert np.abs(one - other).max() < 2


def test_the_partition_of_two_cells_is_private():
    """The pair is taken where the sum of three Laplace numbers is below 1/ε₂ - |x_0 - x_1|."""
    first, second = 0.8, 2.0
    scale = 4 / first
    grid = np.linspace(-60 * scale, 60 * scale, 2**16 + 1)
    step = grid[1] - grid[0]
    one = np.exp(-np.abs(grid) / scale)
    transform = np.fft.rfft(np.fft.ifftshift(one / one.sum())) ** 3
    below = np.cumsum(np.fft.fftshift(np.fft.irfft(transform, grid.size)))

    def probability(difference):
        return float(np.interp(1 / second - difference, grid + step / 2, below))

    for difference in (0.0, 1.0, 5.0, 30.0):
        here, there = probability(difference), probability(difference + 1)
        assert math.log(here / there) <= first
        assert abs(math.log((1 - here) / (1 - there))) <= first
    rng = np.random.default_rng(3)
    costs = dawa.measure_deviations(np.array([5.0, 0.0]))
    taken = np.mean(
        [
            dawa.find_partition(dawa.add_noise(costs, first, second, rng), 2).size == 1
            for _ in range(4000)
        ]
    )
    assert abs(taken - probability(5.0)) < 4 * 0.5 / 4000**0.5


def tree(gram):
    """GreedyH's weighted queries, every weight tried with explicit inverses."""
    return subtree(gram @ gram, 0)[1]


def subtree(gram, depth):
    """The discounted error on a node's buckets, and the weighted queries of its subtree.

    The error is that of the children with scaled weights, less what the node's own query gains:
    the difference of two traces in which the weight and the two off-diagonal blocks of the gram
    matrix are discounted.
    """
    size, discount = len(gram), 2 ** (-depth / 2)
    if size == 1:
        return gram[0, 0], np.ones((1, 1))
    half = size // 2
    left_error, left = subtree(gram[:half, :half], depth + 1)
    right_error, right = subtree(gram[half:, half:], depth + 1)
    below = np.zeros((len(left) + len(right), size))
    below[: len(left), :half], below[len(left) :, half:] = left, right
    crosses = np.not_equal.outer(np.arange(size) < half, np.arange(size) < half)
    discounted = np.where(crosses, discount * gram, gram)

    def trace(scale, weight):
        queries = np.vstack([scale * below, np.full((1, size), weight)])
        return np.trace(discounted @ np.linalg.inv(queries.T @ queries))

    def error(weight):
        gain = trace(1 - weight, 0) - trace(1 - weight, discount**0.5 * weight)
        return (left_error + right_error) / (1 - weight) ** 2 - gain

    weight = min(np.arange(100) / 100, key=error)
    return error(weight), np.vstack([(1 - weight) * below, np.full((1, size), weight)])


@pytest.mark.parametrize("size", [2, 5, 8])
def test_the_hierarchy_written_out(size):
    gram = workloads.make("range", d=size, m=3 * size, seed=size).dense
    gram = gram.T @ gram
    queries = tree(gram)
    np.testing.assert_allclose(np.abs(queries).sum(axis=0), 1)  # one record, at ε₂
    exact = np.linalg.inv(queries.T @ queries)
    np.testing.assert_allclose(dawa.build_hierarchy(gram), exact, rtol=1e-8, atol=1e-10)


def test_the_error_given_the_partition_by_simulation():
    queries = workloads.make("prefix", d=X.size).dense
    starts, second, rng = np.array([0, 3, 4, 7]), 0.7, np.random.default_rng(0)
    spread = np.zeros((X.size, 4))
    for bucket, (low, high) in enumerate(itertools.pairwise([*starts, X.size])):
        spread[low:high, bucket] = 1 / (high - low)
    counts = np.add.reduceat(X, starts)
    on_buckets = queries @ spread
    asked = tree(on_buckets.T @ on_buckets)
    noisy = asked @ counts + rng.laplace(scale=1 / second, size=(40_000, len(asked)))
    estimates = noisy @ np.linalg.pinv(asked).T
    errors = np.square(estimates @ on_buckets.T - queries @ X)
    exact = dawa.compute_squared_errors(queries, X, starts, second)
    deviation = errors.std(axis=0) / 40_000**0.5
    assert np.all(np.abs(errors.mean(axis=0) - exact) < 5 * deviation + 1e-9)


def test_it_is_known_at_its_own_epsilon_alone():
    found = solvers.solve("DAWA", workloads.make("prefix", d=16), 50.0, epsilon=0.5, draws=3)
    record = found.record()
    curve = budget.from_record(record["curve"])
    here, elsewhere = curve.variance_ratio_at_budget([0.5, 0.6], 1e-5)
    assert here == pytest.approx(found.at_budget(0.5, 0.0).query_variances.max() / 50)
    assert math.isnan(elsewhere)
    assert np.isnan(curve.epsilon_at_targets([0.0, 1e-5])).all()
    assert record["total_variance"] == pytest.approx(found.query_variances.sum())
    assert found.query_variances.max() == pytest.approx(50)
    with pytest.raises(NotApplicableError, match="depend on the data"):
        found.draw(1, np.random.default_rng(0))


@pytest.mark.parametrize("name", histograms.RULES)
def test_histograms_have_the_documented_shape(name):
    x = histograms.make(name, 512, 3)
    assert x.shape == (512,)
    np.testing.assert_array_equal(x, histograms.make(name, 512, 3))
    assert not np.array_equal(x, histograms.make(name, 512, 4))
    if name == "random-uniform":
        assert abs(x.mean()) < 4 * (10 / 512) ** 0.5
        assert x.var() == pytest.approx(10, rel=0.2)
    else:
        assert np.all(x == np.round(x))
        assert x.min() >= 0
