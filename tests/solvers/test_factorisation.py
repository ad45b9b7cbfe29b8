"""Gaussian mechanisms as factorisations W = L B, on inputs on which a covariance would fail.

The expected numbers come from outside the solvers: exact products of the returned factors, and
the inner solution at the returned weights, both by mpmath with fifty digits.
"""

import mpmath
import numpy as np
import pytest
import scipy.linalg as sla
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from oracles import check_factors, check_written_out, proven_by, random_problem

import solvers
import workloads
from solvers import SolveFailedError
from solvers.dual import programs
from solvers.dual.iteration import Stopping
from solvers.noise.verification import LARGEST_RESIDUAL
from solvers.problem import as_problem
from solvers.strategy import from_covariance, from_root, inner_unscaled
from workloads import Workload, WorkloadError
from workloads.operators import Composed, Cumulative, Kronecker, cumulative, dense


def tall(seed):
    """At least as many queries as cells, with small integer targets."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 9))
    m = int(rng.integers(d, 2 * d + 4))
    return rng, rng.normal(size=(m, d)), rng.integers(1, 11, m).astype(float)


def dependent_columns(seed):
    """Two columns of the workload differ by 1e-8 of their size."""
    rng, matrix, targets = tall(seed)
    off = 1e-8 * rng.normal(size=len(matrix))
    matrix[:, rng.integers(1, matrix.shape[1])] = matrix[:, 0] + off
    return matrix, targets


def rows_far_apart(seed):
    """A square workload whose rows have norms over twelve decades."""
    rng = np.random.default_rng(1000 + seed)
    d = int(rng.integers(3, 9))
    return rng.normal(size=(d, d)) * 10.0 ** rng.uniform(-6, 6, (d, 1)), np.ones(d)


def targets_far_apart(seed):
    """Prefixes with targets over twelve decades."""
    rng = np.random.default_rng(2000 + seed)
    d = int(rng.integers(4, 17))
    return np.tri(d), 10.0 ** rng.uniform(-6, 6, d)


def columns_far_apart(seed):
    """A workload whose columns have norms over twelve decades."""
    rng, matrix, targets = tall(3000 + seed)
    return matrix * 10.0 ** rng.uniform(-6, 6, matrix.shape[1]), targets


FAMILIES = [
    *(("optimal", dependent_columns, seed) for seed in range(60)),
    *(("optimal", rows_far_apart, seed) for seed in range(20)),
    *(("optimal", columns_far_apart, seed) for seed in range(20)),
    *(("wCA-I", targets_far_apart, seed) for seed in range(32)),
]


def exact(values):
    return mpmath.matrix(np.asarray(values).tolist())


def in_units_of_the_noise(matrix, left, right):
    """The largest |W - L B|_ji / (|L_j| |B_i|), in fifty digits."""
    with mpmath.workdps(50):
        W, L, B = exact(matrix), exact(left), exact(right)
        product = L * B
        rows = [mpmath.norm(L[j, :]) for j in range(L.rows)]
        columns = [mpmath.norm(B[:, i]) for i in range(B.cols)]
        return max(
            abs(W[j, i] - product[j, i]) / (rows[j] * columns[i])
            for j in range(L.rows)
            for i in range(B.cols)
        )


@pytest.mark.parametrize(("mechanism", "family", "seed"), FAMILIES[::9])
def test_profile_and_variances_are_those_of_the_factors_in_fifty_digits(mechanism, family, seed):
    matrix, targets = family(seed)
    found = solvers.solve(mechanism, matrix, targets)
    left, right = found.noise.left, found.noise.right
    assert in_units_of_the_noise(matrix, left, right) <= LARGEST_RESIDUAL
    with mpmath.workdps(50):
        variances = [sum(mpmath.mpf(x) ** 2 for x in row) for row in left.tolist()]
        profile = [sum(mpmath.mpf(x) ** 2 for x in column) for column in right.T.tolist()]
    np.testing.assert_allclose(found.query_variances, [float(v) for v in variances], rtol=1e-13)
    np.testing.assert_allclose(found.privacy_profile, [float(v) for v in profile], rtol=1e-13)


def inner_solution(matrix, targets, p, q):
    """max profile * max ratio of the inner solution at weights, in eighty digits."""
    with mpmath.workdps(80):
        m, d = matrix.shape
        weights, columns = exact(q / targets), [mpmath.sqrt(mpmath.mpf(x)) for x in p.tolist()]
        half = mpmath.matrix(m, d)
        for j in range(m):
            for i in range(d):
                half[j, i] = mpmath.sqrt(weights[j]) * mpmath.mpf(float(matrix[j, i])) * columns[i]
        squares, Z = mpmath.eigsy(half.T * half)
        roots = [mpmath.sqrt(abs(square)) for square in squares]
        profile = [
            sum(roots[a] * Z[i, a] ** 2 for a in range(d)) / columns[i] ** 2 for i in range(d)
        ]
        moved = half * Z
        ratios = [
            sum(moved[j, a] ** 2 / roots[a] for a in range(d)) / mpmath.mpf(float(q[j]))
            for j in range(m)
        ]
        return float(max(profile) * max(ratios))


@pytest.mark.parametrize(
    ("mechanism", "family", "seed"), [*FAMILIES[:3], *FAMILIES[60:63], *FAMILIES[-3:]]
)
def test_the_cost_is_that_of_the_inner_solution_in_eighty_digits(mechanism, family, seed):
    matrix, targets = family(seed)
    problem = as_problem(matrix, targets)
    if mechanism == "optimal":
        point = programs.optimum(problem.factors, Stopping(1e-6)).best
    else:
        weights = 1 / problem.targets
        point = programs.least_total_error(problem.factors, weights, Stopping(1e-8)).best
    noise = inner_unscaled(mechanism, problem, point.p, point.spectrum).met(
        mechanism, problem.targets
    )
    expected = inner_solution(matrix, targets, point.p, point.q)
    assert noise.squared_privacy_cost == pytest.approx(expected, rel=1e-12)


MECHANISMS = ["optimal", "CA", "SM-II", "HM", "WM", "AM", "fisher", "GM", "IP"]


@given(seed=st.integers(0, 10_000), mechanism=st.sampled_from(MECHANISMS))
def test_every_gaussian_mechanism_factorises_its_workload(seed, mechanism):
    matrix, targets = random_problem(seed)
    found = solvers.solve(mechanism, matrix, targets)
    check_factors(matrix, found.noise)
    variances = np.square(dense(found.noise.left)).sum(axis=1)
    np.testing.assert_allclose(variances, found.query_variances, rtol=1e-12)
    check_written_out(found, 1e-7)


@given(
    seed=st.integers(0, 10_000), mechanism=st.sampled_from(["optimal", "CA", "fisher", "GM", "IP"])
)
def test_order_and_units_change_nothing(seed, mechanism):
    """Queries and cells in another order; a query and its target in other units."""
    (matrix, targets), rng = random_problem(seed), np.random.default_rng(seed)
    units = 10.0 ** rng.integers(-3, 4, len(targets))
    if mechanism in ("CA", "fisher", "GM"):
        units[:] = units[0]
    rows, columns = (rng.permutation(size) for size in matrix.shape)
    moved = (matrix * units[:, None])[rows][:, columns]
    first = solvers.solve(mechanism, matrix, targets)
    second = solvers.solve(mechanism, moved, (targets * units**2)[rows])
    assert second.squared_privacy_cost == pytest.approx(first.squared_privacy_cost, rel=3e-6)
    check_factors(moved, second.noise)


@pytest.mark.parametrize("mechanism", ["optimal", "CA", "fisher", "HM"])
def test_a_cell_that_no_query_sees_costs_nothing_and_a_query_of_nothing_has_no_error(mechanism):
    matrix = np.tri(5)
    matrix[:, 4] = 0.0
    matrix[2] = 0.0
    found = solvers.solve(mechanism, matrix)
    assert found.query_variances[2] == pytest.approx(0.0, abs=1e-25)
    if mechanism != "HM":
        assert found.privacy_profile[4] == 0.0
        seen = solvers.solve(mechanism, matrix[[0, 1, 3, 4], :4])
        assert found.squared_privacy_cost == pytest.approx(seen.squared_privacy_cost, rel=2e-6)
    check_factors(matrix, found.noise)


LONG, ONES = workloads.make("all-range", d=63).dense, np.ones((1, 5))
EQUAL = np.insert(LONG[:, [*range(21), *range(20, 31)]], 5, 0.0, axis=1)
EMPTY = workloads.make("all-range", d=5).dense * (np.arange(5) != 1)
DEFICIENT = {
    "equal cells and an empty one": Workload("ranges", cumulative(EQUAL)),
    "even lengths": Workload("ranges", cumulative(LONG[LONG.sum(axis=1) % 2 == 0])),
    "a union": workloads.from_factors([(EMPTY, EMPTY, ONES), (ONES, EMPTY, EMPTY)]),
}


@pytest.mark.parametrize("mechanism", ["optimal", "CA", "SM-II"])
@pytest.mark.parametrize("kind", DEFICIENT)
def test_a_structured_workload_of_less_than_full_rank_keeps_its_structure(mechanism, kind):
    workload = DEFICIENT[kind]
    targets = np.random.default_rng(0).integers(1, 11, workload.m).astype(float)
    assert as_problem(workload).factors.structured
    found = solvers.solve(mechanism, workload, targets)
    assert isinstance(found.noise.decoder, Composed)
    check_factors(workload.dense, found.noise)
    variances = np.square(np.asarray(found.noise.left)).sum(axis=1)
    np.testing.assert_allclose(variances, found.query_variances, rtol=1e-11)
    whole = solvers.solve(mechanism, workload.dense, targets)
    close = 2e-3 if mechanism == "SM-II" else 1e-5
    assert found.squared_privacy_cost == pytest.approx(whole.squared_privacy_cost, rel=close)
    np.testing.assert_array_equal(found.privacy_profile == 0, whole.privacy_profile == 0)
    assert found.lower_bound <= whole.squared_privacy_cost * (1 + 1e-12)


def test_a_failure_of_linear_algebra_is_reported_in_a_sentence(monkeypatch):
    def broken(*_arguments):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr("solvers.dual.matrix_blocks.spectrum", broken)
    with pytest.raises(SolveFailedError, match=r"fisher: too ill-conditioned .*did not converge"):
        solvers.solve("fisher", np.tri(3))


def test_factors_that_do_not_give_the_workload_are_refused():
    problem = as_problem(np.tri(3))
    with pytest.raises(SolveFailedError, match="differs from the workload by"):
        from_root("mine", problem, np.eye(3)[:2], np.tri(3)[:, :2], np.eye(2))


MARGINALS = ("marginals", {"attributes": 3, "values": 3, "orders": [1, 2]})
UNION = ("kronecker", {"terms": [["prefix:4", "total:3"], ["identity:4", "identity:3"]]})
PRODUCT = ("kronecker", {"terms": [["prefix:4", "prefix:3"]]})
PREFIX = ("prefix", {"d": 6})


@pytest.mark.parametrize(
    ("mechanism", "family", "params"),
    [
        *(("optimal", *workload) for workload in (MARGINALS, UNION, PRODUCT, PREFIX)),
        *(("SM-II", *workload) for workload in (MARGINALS, PREFIX)),
        ("interior-point", *PREFIX),
        ("GD", *PREFIX),
    ],
)
def test_the_weights_prove_the_lower_bound_whatever_the_road(mechanism, family, params):
    workload = workloads.make(family, **params)
    targets = np.full(workload.m, 1.0 if mechanism == "GD" else 3.0)
    if family == "marginals":
        targets = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], workload.group_sizes)
    found = solvers.solve(mechanism, workload, targets)
    proven = proven_by(found.weights, workload.dense, targets)
    assert proven == pytest.approx(found.known_lower_bound, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_noise_on_a_basis_of_low_rank_is_exact_and_shown_on_ten_lines(seed):
    workload = workloads.make("range", d=32, seed=seed)
    problem = as_problem(workload)
    size = problem.factors.rank
    root = np.random.default_rng(seed).normal(size=(size, size)) + 6 * np.eye(size)
    found = from_covariance("mine", problem, problem.basis, problem.queries, root @ root.T)
    assert np.all(found.privacy_profile[~workload.dense.any(axis=0)] == 0)
    check_factors(workload.dense, found.noise)
    shown = repr(found).splitlines()
    assert len(shown) <= 10
    assert max(map(len, shown)) <= 100
    assert shown[0] == "mine on 'range' (64 queries over 32 cells)"


TERMS = [["all-range:8", "prefix:4"], ["prefix:8", "all-range:4"], ["identity:8", "all-range:4"]]


class WithoutMatrix:
    """Refuses to write W out."""

    def matrix(self):
        raise WorkloadError("W was asked for")


class HiddenRanges(WithoutMatrix, Cumulative):
    """Ranges known by their structure alone."""


class HiddenProducts(WithoutMatrix, Kronecker):
    """Products known by their structure alone."""


RANGES = workloads.make("all-range", d=24)
PRODUCTS = workloads.make("kronecker", terms=TERMS)
HIDDEN = {
    "ranges": (RANGES, HiddenRanges(RANGES.operator.differences)),
    "union": (PRODUCTS, HiddenProducts(PRODUCTS.operator.terms)),
}


@pytest.mark.parametrize("mechanism", ["optimal", "CA", "wCA-I", "SM-II", "IP", "fisher"])
@pytest.mark.parametrize("kind", HIDDEN)
def test_the_query_matrix_gives_the_same_and_is_not_needed(kind, mechanism):
    workload, hidden = HIDDEN[kind]
    targets = np.random.default_rng(0).uniform(1, 10, workload.m)
    found = solvers.solve(mechanism, Workload(workload.name, hidden), targets)
    dense = solvers.solve(mechanism, workload.dense, targets)
    assert found.problem.factors.structured
    assert not dense.problem.factors.structured
    tolerance = 2e-3 if mechanism == "SM-II" else 2e-6
    assert found.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=tolerance)
    np.testing.assert_allclose(found.query_variances.max(), dense.query_variances.max(), rtol=1e-2)


def test_prefix_costs_the_first_column_over_the_least_target():
    solution = solvers.solve("GM", np.tril(np.ones((5, 5))), [2.0, 3.0, 4.0, 5.0, 6.0])
    assert solution.squared_privacy_cost == pytest.approx(5 / 2)
    np.testing.assert_allclose(solution.query_variances, 2.0)


def test_noise_divided_by_two_costs_four_times_among_the_same_neighbours():
    noise = solvers.solve("GM", np.eye(3), neighbours="replace-one").noise
    np.testing.assert_allclose(noise.privacy_profile, 2.0)
    np.testing.assert_allclose(noise.divided(2.0).privacy_profile, 8.0)
    np.testing.assert_allclose(noise.with_cells_scaled(np.full(3, 2.0)).privacy_profile, 8.0)


def test_a_great_many_queries_take_no_square_memory():
    queries = sp.random_array((60_000, 3), density=0.5, rng=np.random.default_rng(0), format="csr")
    solution = solvers.solve("GM", queries)
    assert solution.covariance.shape == (60_000, 60_000)
    first, last = np.lib.array_utils.byte_bounds(solution.covariance)
    assert last - first < 10**6
    assert solution.squared_privacy_cost == pytest.approx(queries.power(2).sum(axis=0).max())


COUNTS = np.array(
    [
        [1.0, 1.0, 1.0, 1.0, 2.2013256074739647],
        [0.0, 0.0, 0.0, 0.0, 3.2420361333110208e-13],
        [0.0, 0.0, 1.0, 0.0, 1.3112763199173341],
        [0.0, 0.0, 0.0, 0.0, 1.8513130534674606e-12],
        [0.0, 0.0, 1.0, 1.0, 1.7688050006947567],
    ]
)
DEPENDENT = np.array(
    [
        [-0.516579209603805, -0.516579209603805, -0.516579209603805, 0.09149593566788629],
        [-0.23346024028222861, -0.23346024028222861, -0.23346024028222861, 0.04130131623105887],
    ]
)
FAR_APART = np.array([2e5, 3.4e5, 3.3e-5, 1.2e3, 1.2e2])


ORBITS = workloads.make("kronecker", terms=[["total:4", "identity:3", "prefix:4"]])


@pytest.mark.parametrize(
    ("mechanism", "workload", "targets"),
    [
        ("AM", DEPENDENT, [7.0, 1.0]),
        ("ESM", COUNTS, FAR_APART),
        *(
            (mechanism, ORBITS, 10 ** np.random.default_rng(seed).uniform(-6, 6, ORBITS.m))
            for mechanism in ("optimal", "wCA-I")
            for seed in (0, 2)
        ),
    ],
)
def test_noise_is_read_as_it_is_if_directions_or_targets_are_far_apart(
    mechanism, workload, targets
):
    found = solvers.solve(mechanism, workload, targets)
    covariance, basis = found.covariance, found.basis
    representation = np.asarray(found.representation)
    units = np.sqrt(np.diag(covariance))[:, None]
    lower = sla.cholesky(covariance / units / units.T, lower=True)
    profile = np.square(sla.solve_triangular(lower, basis / units, lower=True)).sum(axis=0)
    variances = np.square(representation * units.T @ lower).sum(axis=1)
    assert np.abs(profile / found.squared_privacy_cost).max() == pytest.approx(1, rel=1e-9)
    np.testing.assert_allclose(variances, found.query_variances, rtol=1e-9)
    missing = np.abs(representation @ basis - found.problem.workload.dense)
    allowed = np.sqrt(np.outer(found.query_variances, found.privacy_profile))
    assert np.all(missing <= 1e-9 * allowed)
