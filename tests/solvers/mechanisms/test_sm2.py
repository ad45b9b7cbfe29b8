"""SM-II: the literal algorithms, check values, certificates, invariances, hard inputs."""

import numpy as np
import pytest
import sm2_reference as reference
from hypothesis import given
from hypothesis import strategies as st
from oracles import check_written_out, hybrid, random_problem

import solvers
import workloads
from solvers.dual.iteration import NEVER
from solvers.mechanisms import sm2
from solvers.problem import as_problem
from solvers.soft_max import basis, newton_cg
from solvers.soft_max.objective import Model, SoftMax

TOL = 1e-3


# The literal algorithms


def check_literal(solution, matrix, targets, kind, start=None, **constants):
    """It is that of algorithms 1 to 3, scaled so that the targets are just met."""
    factored = basis.factor(as_problem(matrix, targets), kind)
    left = factored.representation
    left = left.toarray() if hasattr(left, "toarray") else left
    weight = constants.pop("total_error_weight", 0.0)
    inputs = reference.Inputs(factored.basis, left, targets, weight)
    first = np.eye(len(factored.basis)) if start is None else start(factored.basis)
    first = 0.99 / reference.ratios(inputs, first).max() * first
    covariance, iterations = reference.optimize(inputs, first, reference.Constants(**constants))
    assert solution.iterations == iterations
    scaled = covariance / reference.ratios(inputs, covariance).max()
    np.testing.assert_allclose(solution.covariance, scaled, rtol=0, atol=1e-8)


LOWER = np.tril(np.ones((6, 6)))
SIGNS = workloads.make("random", d=6, seed=1).dense


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (SIGNS, "identity"),
        (LOWER.T, "upper-triangular"),
        (LOWER, "paper"),
        (workloads.make("all-range", d=4).dense, "factor"),
        (SIGNS, "workload"),
        (np.hstack([np.eye(4)[:, :2], np.eye(4)]), "row-space"),
    ],
)
def test_published_is_the_literal_algorithm(matrix, kind):
    """In well-conditioned bases; in others both amplify a change of 1e-15 of W beyond 1e-8."""
    targets = np.random.default_rng(7).uniform(1, 3, len(matrix))
    solution = solvers.solve("SM-II", matrix, targets, preset="published", basis=kind)
    check_literal(solution, matrix, targets, kind)


@pytest.mark.parametrize(
    ("options", "constants"),
    [
        ({"mu": 5.0, "max_cg": 3}, {"MU": 5.0, "MAXCG": 3}),
        ({"nttol": 1e-5, "softmax_tol": 1e-2}, {"NTTOL": 1e-5, "TOL": 1e-2}),
        ({"tol2": 1e-3}, {"TOL2": 1e-3}),
        ({"sigma": 0.3, "beta": 0.7}, {"sigma": 0.3, "beta": 0.7}),
        ({"t2_rule": "code"}, {"t2_factor": 2.0}),
        ({"total_error_weight": 0.2}, {"total_error_weight": 0.2}),
        ({"max_iterations": 9}, {"MAXITER": 9}),
    ],
)
def test_every_option_of_the_papers(options, constants):
    matrix, targets = workloads.make("prefix", d=7).dense, np.linspace(1, 2, 7)
    solution = solvers.solve(
        "SM-II", matrix, targets, preset="published", basis="lower-triangular", **options
    )
    check_literal(solution, matrix, targets, "lower-triangular", **constants)


def test_initial_queries():
    matrix, targets = workloads.make("prefix", d=5).dense, np.ones(5)
    queries = np.vstack([np.eye(5), np.ones(5)])
    spread = np.linalg.pinv(queries)

    def start(rows):
        return rows @ spread @ spread.T @ rows.T

    solution = solvers.solve(
        "SM-II", matrix, preset="published", basis="lower-triangular", initial=queries
    )
    check_literal(solution, matrix, targets, "lower-triangular", start=start)


def test_the_published_constants_certify_nothing_and_claim_nothing():
    """The bound is computed outside the solve, and an uncertified answer has not converged."""
    solution = solvers.solve("SM-II", workloads.make("prefix", d=32), preset="published")
    assert solution.known_lower_bound is None
    assert not solution.converged
    assert not solution.timed_out
    assert solution.gap > TOL
    assert not sm2.SMII.make("published", {}).certifies
    assert sm2.SMII().certifies


# The authors' program


def reference_of_program(matrix, targets, kind, first, cg_steps):
    """The variances of the queries, and the number of steps."""
    factored = basis.KINDS[kind](as_problem(matrix, targets))
    inputs = reference.Inputs(factored.basis, np.asarray(factored.representation), targets)
    constants = reference.Constants(MAXCG=cg_steps, TOL=0.5)
    covariance, iterations = reference.program(inputs, first(inputs), constants)
    ratios = reference.ratios(inputs, covariance)
    return targets * ratios / ratios.max(), iterations


@pytest.mark.parametrize(
    ("matrix", "kind", "options"),
    [
        (LOWER.T, "upper-triangular", {"scale": 1.0}),
        (LOWER.T, "upper-triangular", {}),
        (SIGNS[:7], "identity", {"cg_steps": 3}),
    ],
)
def test_published_sm2_is_the_literal_program(matrix, kind, options):
    """To t1 = 32, before the program amplifies rounding errors too far."""
    targets = np.random.default_rng(3).integers(1, 4, len(matrix)).astype(float)

    def first(inputs):
        unit = np.eye(len(inputs.B))
        return unit * (options.get("scale") or 6 / reference.ratios(inputs, unit).max())

    found = solvers.solve("published-SM-II", matrix, targets, basis=kind, smoothing=0.5, **options)
    expected, iterations = reference_of_program(
        matrix, targets, kind, first, options.get("cg_steps", 5)
    )
    assert found.iterations == iterations
    np.testing.assert_allclose(found.query_variances, expected, rtol=1e-4)


def test_equation_14_is_not_the_hessian():
    """It has two terms too many: t1 at the second derivatives, and Kronecker products of means."""
    generator = np.random.default_rng(5)
    inputs = reference.Inputs(*generator.normal(size=(2, 3, 3)), np.array([1.0, 2.0, 3.0]))
    cov, P = (root @ root.T + np.eye(3) for root in generator.normal(size=(2, 3, 3)))
    t1, t2, step = 4.0, 4.0, 1e-5
    ends = (reference.gradient(inputs, cov + side * step * P, t1, t2) for side in (1, -1))
    hessian = np.subtract(*ends) / (2 * step)
    np.testing.assert_allclose(
        reference.hess_times_vec(inputs, cov, t1, t2, P), hessian, atol=1e-6 * np.abs(hessian).max()
    )
    printed = (sum(reference.equation_14(inputs, cov, t1, t2)) @ P.ravel()).reshape(3, 3)
    assert np.abs(printed - hessian).max() > np.abs(hessian).max()
    inverse = np.linalg.inv(cov)
    X, V = inverse @ inputs.B, inputs.L / np.sqrt(inputs.c)[:, None]
    mean_g = -X @ np.diag(reference.softmax(t1 * reference.privacy(inputs, cov))) @ X.T
    mean_h = V.T @ np.diag(reference.softmax(t2 * reference.ratios(inputs, cov))) @ V
    second = -inverse @ P @ mean_g - mean_g @ P @ inverse
    outer = [mean @ P @ mean - np.sum(mean * P) * mean for mean in (mean_g, mean_h)]
    np.testing.assert_allclose(
        printed - (t1 - 1) * second + t1 * outer[0] + t2 * outer[1],
        hessian,
        atol=1e-6 * np.abs(hessian).max(),
    )


@pytest.mark.parametrize(
    ("family", "params", "options", "printed"),
    [
        pytest.param("published-range", {"d": 64}, {"scale": 1.0}, 10.63, marks=pytest.mark.slow),
        pytest.param(
            "published-random", {"d": 64}, {"basis": "identity"}, 2.58, marks=pytest.mark.slow
        ),
        (
            "marginals",
            {"attributes": 3, "orders": [1, 2], "values": 2},
            {"basis": "identity"},
            1.82,
        ),
    ],
)
def test_published_sm2_costs_what_the_tables_print(family, params, options, printed):
    """The printed ratio of IP, which is a closed form, gives the cost of their reference.

    On marginals, W has a lower rank than the basis.
    """
    workload = workloads.make(family, **params)
    targets = workload.stated.targets if workload.stated else None
    costs = [
        solvers.solve(name, workload, targets, **given).squared_privacy_cost
        for name, given in (("IP", {}), ("published-SM-II", options))
    ]
    assert costs[0] / costs[1] == pytest.approx(printed, abs=0.005)


# Check values and certificates


@pytest.mark.parametrize(
    ("workload", "of_groups"),
    [
        (workloads.make("identity-sum", d=64), [1.0, 5.0]),
        (workloads.make("pl94"), [1.0, 1.0, 1.0, 2.0, 4.0]),
        (workloads.make("age", voting_age=False), [1.0, 10.0]),
        (workloads.make("range", d=64, seed=0), None),
    ],
)
def test_the_default_is_certified(workload, of_groups):
    targets = None if of_groups is None else np.array(of_groups)[workload.groups]
    solution = solvers.solve("SM-II", workload, targets)
    assert solution.converged
    assert solution.known_lower_bound is not None
    assert solution.gap <= TOL
    certified = solvers.solve("optimal", workload, targets, tol=1e-4)
    assert solution.squared_privacy_cost >= certified.lower_bound * (1 - 1e-9)
    assert solution.lower_bound <= certified.squared_privacy_cost * (1 + 1e-9)


@given(st.integers(0, 10_000), st.sampled_from([1e-2, 1e-3, 1e-5]))
def test_within_its_tolerance_of_the_optimum(seed, tol):
    matrix, targets = random_problem(seed)
    solution = solvers.solve("SM-II", matrix, targets, tol=tol)
    best = solvers.solve("optimal", matrix, targets, tol=1e-8).squared_privacy_cost
    assert solution.converged
    assert best * (1 - 1e-7) <= solution.squared_privacy_cost <= best * (1 + tol)
    assert solution.lower_bound <= best * (1 + 1e-9)
    check_written_out(solution)


# Invariances


@pytest.mark.parametrize("kind", basis.KINDS)
def test_every_basis_ends_at_the_optimum(kind):
    """Theorem 2 of PVLDB 14(10); in all bases, conjugate gradients until they converge."""
    workload = workloads.make("all-range", d=10)
    best = solvers.solve("optimal", workload).squared_privacy_cost
    found = solvers.solve("SM-II", workload, basis=kind)
    assert found.converged
    assert best * (1 - 1e-6) <= found.squared_privacy_cost <= best * (1 + TOL)
    check_written_out(found)


# The hybrid with total error


@pytest.mark.parametrize("weight", [1e-3, 1e-2, 1e-1, 1.0])
def test_hybrid_is_within_its_tolerance(weight):
    workload = workloads.make("all-range", d=12)
    targets = np.linspace(1, 4, workload.m)
    found = solvers.solve("SM-II", workload, targets, total_error_weight=weight)
    best = solvers.solve("optimal", workload, targets, total_error_weight=weight, tol=1e-7)
    least = hybrid(best, weight)
    assert least * (1 - 1e-6) <= hybrid(found, weight) <= least * (1 + TOL)


def test_a_hybrid_on_orbits_that_certifies_nothing_has_no_gap():
    workload = workloads.make("marginals", values=[2, 3, 2])
    options = {"total_error_weight": 0.1, "tol": 0.0, "softmax_tol": 1e-2}
    found = solvers.solve("SM-II", workload, **options)
    best = solvers.solve("optimal", workload, total_error_weight=0.1)
    assert "objective_gap" not in found.notes
    assert found.notes["objective"] == pytest.approx(best.notes["objective"], rel=1e-2)


# The start of a level


def test_a_level_starts_near_its_minimiser_up_to_the_second_order_of_the_change_of_t():
    """With t raised by 1 %, 1 % of the gradient's rise remains, not the 10 % of a wrong tangent."""
    problem = as_problem(np.tri(6), np.arange(1.0, 7.0))
    settings = newton_cg.Settings(tol=0.0, nttol=1e-20, softmax_tol=1e9, max_cg=200, mu=1.01)
    start = sm2.find_first_iterate(problem, None, None)
    first = settings.first_level(SoftMax(np.zeros(6)), start)
    level = newton_cg.minimise(first, start, settings, NEVER, None)
    at, sharper = level.iterate, settings.sharpened(level.objective)
    moved, _ = newton_cg.extrapolate(sharper, Model(level.objective, at), settings)
    before, after = (np.linalg.norm(Model(sharper, one).gradient) for one in (at, moved))
    assert 0 < after < 0.03 * before


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (np.tril(np.ones((5, 5))), "lower-triangular"),
        (np.triu(np.ones((5, 5))), "upper-triangular"),
        (np.eye(5), "identity"),
        (workloads.make("age").dense, "lower-triangular"),
        (workloads.make("random", d=32).dense, "identity"),
        (workloads.make("pl94"), "identity"),
    ],
)
def test_the_choice_of_the_papers(matrix, kind):
    assert basis.factor(as_problem(matrix), "paper").kind == kind
