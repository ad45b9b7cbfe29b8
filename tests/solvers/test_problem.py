"""A problem is what was asked when it was made, whatever becomes of the caller's arrays."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
import workloads


@pytest.mark.parametrize(
    "form", [np.array, sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array]
)
@pytest.mark.parametrize("method", ["IP", "GM", "optimal", "CA"])
def test_what_is_done_to_the_callers_arrays_later_changes_nothing(form, method):
    matrix, targets = form(np.tri(6)), np.arange(1.0, 7.0)
    solution = solvers.solve(method, matrix, targets)
    untouched = solvers.solve(method, np.tri(6), np.arange(1.0, 7.0))
    (matrix if isinstance(matrix, np.ndarray) else matrix.data)[...] *= 100
    targets *= 1e-3
    np.testing.assert_allclose(solution.problem.workload.dense, np.tri(6))
    np.testing.assert_allclose(solution.problem.targets, np.arange(1.0, 7.0))
    assert solution.lower_bound == pytest.approx(untouched.lower_bound, rel=1e-9)
    assert solution.gap == pytest.approx(untouched.gap, abs=1e-9)
    queries = solution.representation @ solution.basis
    np.testing.assert_allclose(queries, np.tri(6), atol=1e-9)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_a_workload_and_its_targets_are_read_only(form):
    problem = solvers.solve("IP", form(np.tri(3))).problem
    held = problem.workload.matrix
    with pytest.raises(ValueError, match="read-only"):
        (held.data if sp.issparse(held) else held)[0] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        problem.targets[0] = 5.0


def test_the_callers_own_arrays_stay_writable():
    matrix, targets = np.tri(3), np.ones(3)
    duplicates = sp.csr_array((np.ones(2), np.zeros(2, int), np.array([0, 2])), shape=(1, 1))
    workloads.from_matrix(duplicates)
    solvers.solve("IP", matrix, targets)
    matrix[0, 0] = targets[0] = 2.0
    assert duplicates.nnz == 2
