"""A problem does not change when the caller's arrays do."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
import workloads


@pytest.mark.parametrize(
    "form", [np.array, sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array]
)
@pytest.mark.parametrize("mechanism", ["IP", "GM", "optimal", "CA"])
def test_what_is_done_to_the_callers_arrays_later_changes_nothing(form, mechanism):
    matrix, targets = form(np.tri(6)), np.arange(1.0, 7.0)
    solution = solvers.solve(mechanism, matrix, targets)
    untouched = solvers.solve(mechanism, np.tri(6), np.arange(1.0, 7.0))
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


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, bool])
@pytest.mark.parametrize("form", [sp.coo_array, sp.coo_matrix, sp.csr_array, sp.csc_array])
def test_duplicate_entries_of_small_integers_add_up_as_floats(form, dtype):
    entries = np.array([100, 100, 100, 1]).astype(dtype)
    compressed = np.array([0, 0, 0, 1]), np.array([0, 3, 4])
    coordinates = (np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1]))
    places = (coordinates,) if form in (sp.coo_array, sp.coo_matrix) else compressed
    workload = workloads.from_matrix(form((entries, *places), (2, 2)))
    np.testing.assert_array_equal(workload.dense, np.diag([3.0 * float(entries[0]), 1.0]))


MASKED = np.ma.masked_array(np.tril(np.ones((3, 3))), mask=np.eye(3))
COUNTING = workloads.make("counting", n=3)


@pytest.mark.parametrize(
    ("mechanism", "queries", "targets", "error"),
    [
        ("GM", MASKED, None, r"3 entries are masked.*fill them"),
        ("GM", [[1, 0], [1, np.ma.masked]], None, r"1 entries are masked.*fill them"),
        ("GM", np.eye(3), np.ma.masked_array(np.ones(3), [0, 1, 0]), "1 targets for .* are masked"),
        ("GM", np.eye(3), [1.0, np.ma.masked, 3.0], "1 targets for workload 'matrix' are masked"),
        ("optimal", np.eye(2), [1, 10**400], r"expected|not real numbers"),
        ("optimal", np.tri(3), [1, 1 + 5j, 2], "not real numbers: some are complex"),
        ("optimal", np.tri(3), np.array([1, 1 + 5j, 2]), "not real numbers: some are complex"),
        ("geometric", COUNTING, np.complex128(2), "not real numbers: some are complex"),
        ("geometric", COUNTING, np.ma.masked_array([2.0], [True]), "1 targets for workload"),
    ],
)
def test_what_is_masked_complex_or_beyond_floats_is_refused(mechanism, queries, targets, error):
    kind = workloads.WorkloadError if targets is None else workloads.TargetsError
    with pytest.raises(kind, match=error):
        solvers.solve(mechanism, queries, targets)
