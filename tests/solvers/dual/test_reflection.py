"""Problems that stay the same in reverse: solved by halves, with certificates of the whole."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workloads
from solvers.dual import programs
from solvers.dual.iteration import Stopping
from solvers.dual.matrix_blocks import as_blocks
from solvers.dual.reflection import reflection
from solvers.problem import as_problem
from solvers.problem.factors import factorise


def with_images(half):
    """The rows and their mirror images."""
    return np.vstack([half, half[:, ::-1]])


def ranges(d):
    """Scaled prefix sums: all ranges, with targets that depend on their lengths."""
    lengths = workloads.make("all-range", d=d).dense.sum(axis=1)
    return as_problem(workloads.make("all-range", d=d), lengths).factors


def both_ends(d):
    """Prefixes from both ends and every cell, as an explicit matrix."""
    return factorise(np.vstack([with_images(np.tri(d)), 2 * np.eye(d)]))


def windows(d):
    """Symmetric windows around the middle: every query is its own mirror image."""
    distances = np.abs(np.arange(d) - (d - 1) / 2)
    return factorise((distances <= np.unique(distances)[:, None]).astype(float))


def twice(d):
    """Queries that occur twice, of a rank below the number of cells."""
    half = np.random.default_rng(0).integers(-1, 2, (2, d)).astype(float)
    return factorise(with_images(np.vstack([half, half])))


def halved(whole):
    return reflection(whole, fewest_cells=2)


@pytest.mark.parametrize("make", [ranges, both_ends, windows, twice])
@pytest.mark.parametrize("d", [12, 13])
def test_the_halves_have_the_norm_and_the_gradient_of_the_whole(make, d):
    whole = as_blocks(make(d))
    mirror = halved(whole)
    assert mirror.halves.cells == (d + 1) // 2
    x = np.random.default_rng(1).uniform(1, 2, len(whole.groups))
    half = mirror.first(x)
    equal = (half.x / np.bincount(mirror.pairs))[mirror.pairs]
    full = whole.at(equal)
    assert half.nuclear_norm == pytest.approx(full.nuclear_norm, rel=1e-12)
    np.testing.assert_allclose(half.gradient[mirror.pairs], full.gradient, rtol=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(1, 6), st.integers(0, 2**32 - 1), st.booleans())
def test_the_halves_have_the_optimum_of_the_whole(d, count, seed, single):
    rng = np.random.default_rng(seed)
    rows = with_images(rng.integers(-2, 3, (count, d)) + 0.0)
    symmetric = rows[:count] + rows[count:]
    matrix = np.vstack([rows, np.ones((1, d)), symmetric if single else np.eye(d)])
    whole = as_blocks(factorise(matrix))
    halves = halved(whole).halves
    assert halves.cells == (d + 1) // 2
    folded, plain = (programs.optimum(blocks, Stopping(1e-7)) for blocks in (halves, whole))
    assert folded.lower <= plain.upper * (1 + 1e-9)
    assert plain.lower <= folded.upper * (1 + 1e-9)
    assert max(folded.gap, plain.gap) <= 1e-7


@pytest.mark.parametrize(
    "factors",
    [
        as_problem(workloads.make("prefix", d=12)).factors,
        as_problem(workloads.make("all-range", d=12), np.linspace(1, 2, 78)).factors,
        factorise(with_images(np.tri(6))[1:]),
    ],
    ids=["other queries", "other targets", "a query without its image"],
)
def test_a_problem_without_the_symmetry_stays_whole(factors):
    whole = as_blocks(factors)
    assert halved(whole).halves is whole


def test_weights_of_total_error_that_differ_between_mirror_images_stay_whole():
    whole = as_blocks(both_ends(6))
    offset = np.ones(18)
    offset[0] = 2
    assert halved(whole).halves is not whole
    uneven = replace(whole, offset=offset)
    assert halved(uneven).halves is uneven


@pytest.mark.parametrize(
    "maximise", [programs.optimum, programs.hybrid, programs.least_total_error]
)
def test_a_large_problem_is_solved_by_halves_with_a_certificate_of_the_whole(maximise):
    factors = both_ends(200)
    omega = [] if maximise is programs.optimum else [np.full(600, 1e-3)]
    found = maximise(factors, *omega, Stopping(1e-5))
    assert found.converged
    proof = found.proof
    assert proof.p.size == 200
    np.testing.assert_allclose(proof.p, proof.p[::-1], rtol=1e-12)
    weighted = np.sqrt(proof.q)[:, None] * factors.representation * np.sqrt(proof.p)
    norm = np.linalg.norm(weighted, "nuc")
    proven = {
        programs.optimum: norm**2 / (proof.p.sum() * proof.q.sum()),
        programs.hybrid: 2 * norm,
        programs.least_total_error: 0.6 * norm**2 / proof.p.sum(),
    }
    assert found.lower == pytest.approx(proven[maximise], rel=1e-9)
    assert found.lower <= found.upper <= found.lower * (1 + 1e-5)
