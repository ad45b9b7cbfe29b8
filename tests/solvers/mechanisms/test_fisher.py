"""Least Fisher information: Corollary 6, Theorem 4, Example 4 of Farokhi and Sandberg."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads


def queries_of(seed, shape=(4, 6)):
    return np.random.default_rng(seed).normal(size=shape)


def answer_covariance(solution):
    left = solution.representation
    return left @ solution.covariance @ left.T


@given(st.integers(0, 10**6))
def test_no_noise_of_its_total_variance_tells_less(seed):
    """Corollary 6: the trace of the information times that of the covariance is least."""
    queries = queries_of(seed)
    record = solvers.solve("fisher", queries).record()
    least = record["fisher_information"] * record["total_variance"]
    nuclear = np.linalg.svd(queries, compute_uv=False).sum()
    assert least == pytest.approx(nuclear**2)
    other = queries_of(seed + 7, (4, 4))
    covariance = other @ other.T + 0.01 * np.eye(4)
    information = np.trace(queries.T @ np.linalg.inv(covariance) @ queries)
    assert information * np.trace(covariance) >= least * (1 - 1e-9)


SYSTEM = {"A": [[1.0, 1.0], [0.0, 1.0]], "C": [[1.0, 0.0]]}


def example_4(T):
    """Q sqrt(ϱ) and E sqrt(ϱ) as Example 4 prints them."""
    root = np.sqrt(4 * T**4 + 4 * T**3 + 13 * T**2 - 12 * T + 36)
    parts = np.sqrt((T + 1) * (2 * T**2 + T + 6 + np.array([-root, root])))
    return parts.sum() / np.sqrt(3), 4 * np.sqrt(3) * (1 / parts).sum()


@pytest.mark.parametrize("T", [1, 2, 5, 30])
def test_example_4_up_to_the_factor_of_its_theorem(T):
    """The scale-free ratio E/Q is the paper's; each alone is twice what Problem 3 gives."""
    record = solvers.solve("fisher", workloads.make("dynamics", T=T, **SYSTEM)).record()
    quality, privacy = example_4(T)
    found = record["cramer_rao_bound"] / record["total_variance"]
    assert found == pytest.approx(privacy / quality)
    assert record["cramer_rao_ratio"] == pytest.approx(found)
    gram = np.array([[T + 1, T * (T + 1) / 2], [T * (T + 1) / 2, T * (T + 1) * (2 * T + 1) / 6]])
    roots = np.sqrt(np.linalg.eigvalsh(gram))
    assert quality == pytest.approx(2 * roots.sum())
    assert privacy == pytest.approx(2 * (1 / roots).sum())


def test_section_4_counts_the_unknowns_once():
    """Tr(I⁻¹) Tr(I) is at least n² = 4, and below the (T+1)² n² that section 4 prints."""
    workload = workloads.make("dynamics", T=9, **SYSTEM)
    record = solvers.solve("fisher", workload).record()
    assert 4 <= record["cramer_rao_bound"] * record["fisher_information"] < 10**2 * 4


@given(st.integers(0, 10**6), st.sampled_from([2, 5]))
def test_the_covariance_is_the_root_of_the_gram_matrix_and_lives_on_its_range(seed, rank):
    queries = queries_of(seed, (7, rank)) @ queries_of(seed + 1, (rank, 5))
    solution = solvers.solve("fisher", queries)
    covariance = answer_covariance(solution)
    left, singular, _ = np.linalg.svd(queries)
    root = left[:, :rank] * singular[:rank] @ left[:, :rank].T
    np.testing.assert_allclose(covariance / np.trace(covariance), root / np.trace(root), atol=1e-8)
    information = solution.noise.right.T @ solution.noise.right
    bound = np.trace(np.linalg.pinv(information, rcond=1e-9))
    assert solution.measures["cramer_rao_bound"] == pytest.approx(bound, rel=1e-6)
