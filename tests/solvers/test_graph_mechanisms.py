"""Mechanisms on query graphs: identities, closed forms and the papers' theorems."""

import math

import numpy as np
import pytest
from graph_examples import best_guess, connected_graphs, distributions, least_privacy
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads
from solvers.errors import NotApplicableError, SolveFailedError
from solvers.mechanisms.geometric import build_truncated_geometric
from solvers.mechanisms.tight_constraints import find_existence
from solvers.noise.noise_matrix import check_noise
from workloads import priors
from workloads.graphs import from_edges, from_relation

EVERYWHERE = ("lp-optimal", "randomised-response")


def exists(graph, epsilon):
    return any(least + 1e-6 <= epsilon <= most - 1e-6 for least, most in find_existence(graph))


def largest_slack(solution):
    """Of 1 - Φ diag(X), which is zero for tight-constraints mechanisms (Lemma 3)."""
    phi = np.exp(-solution.noise.epsilon * solution.problem.graph.distances)
    return np.abs(1 - phi @ solution.noise.matrix.diagonal()).max()


def counting(n):
    return workloads.make("counting", n=n)


@given(st.integers(1, 40), st.floats(0.05, 5.0))
def test_geometric_on_a_line_is_the_tight_constraints_mechanism(n, epsilon):
    one = solvers.solve("geometric", counting(n), epsilon=epsilon)
    other = solvers.solve("tight-constraints", counting(n), epsilon=epsilon)
    assert np.abs(one.noise.matrix - other.noise.matrix).max() < 1e-12
    assert largest_slack(one) < 1e-12


def test_tight_constraints_where_phi_is_singular():
    """Appendix B's cube with its long diagonals at exp(-ε) = 1/3: rows of Φ sum to 8/3."""
    number = np.arange(8)
    differing = np.bitwise_count(number[:, None] ^ number)
    cube = from_relation("cube", np.isin(differing, [1, 3]), number)
    found = solvers.solve("tight-constraints", cube, epsilon=math.log(3), prior="corner:2")
    assert largest_slack(found) < 1e-12
    assert found.noise.utility == pytest.approx(3 / 8)
    assert found.noise.utility_bound == pytest.approx(3 / 8)
    assert not priors.is_regular(np.eye(8)[0], cube, math.log(3))


SEVEN = [(0, 1), (0, 2), (0, 3), (0, 5), (1, 3), (1, 4), (1, 5), (2, 4), (2, 6), (3, 4), (3, 6)]
SEVEN += [(4, 5), (4, 6), (5, 6)]


def test_existence_is_not_monotone_in_epsilon():
    """Section 6: both ends are confirmed by solving Φz = 1 on either side."""
    graph = from_edges(SEVEN)
    (least, most), (again, forever) = find_existence(graph)
    assert (least, forever) == (0, math.inf)
    for nudge, positive in ((-1e-6, True), (1e-6, False)):
        for epsilon in (most + nudge, again - nudge):
            z = np.linalg.solve(np.exp(-epsilon * graph.distances), np.ones(7))
            assert (z.min() >= 0) is np.bool_(positive)
    with pytest.raises(NotApplicableError, match=r"from 0\.000000 to 0\.2.* and from 0\.7.* on"):
        solvers.solve("tight-constraints", graph, epsilon=0.5)


@pytest.mark.parametrize(
    ("name", "params", "least", "published"),
    [
        ("sum", {"u": 150, "v": 5}, 0.968, 0.8),
        ("k-count", {"u": 30}, 1.136, 0.9),
    ],
)
def test_least_epsilon_of_the_case_study(name, params, least, published):
    """Φz = 1, z >= 0 gives these; section 6 states what is published."""
    found = find_existence(workloads.make(name, **params))[0][0]
    assert found == pytest.approx(least, abs=5e-4)
    assert found > published + 0.1


@given(st.data(), connected_graphs(), st.floats(0.1, 3.0))
def test_every_mechanism_is_private_and_none_beats_the_bounds(data, graph, epsilon):
    prior = data.draw(distributions(graph.n))
    solutions = [solvers.solve(m, graph, epsilon=epsilon, prior=prior) for m in EVERYWHERE]
    if exists(graph, epsilon):
        solutions.append(solvers.solve("tight-constraints", graph, epsilon=epsilon, prior=prior))
    best = solutions[0]
    for one in solutions:
        assert one.noise.matrix.sum(axis=1) == pytest.approx(np.ones(graph.n))
        assert least_privacy(graph, one.noise.matrix) <= epsilon + 1e-9
        reach = np.exp(epsilon * graph.distances)
        assert (
            one.noise.matrix[:, None] <= reach[:, :, None] * one.noise.matrix[None] + 1e-12
        ).all()  # Prop. 1
        assert one.noise.utility == pytest.approx(best_guess(one.noise.matrix, prior))
        assert prior.max() - 1e-12 <= one.noise.utility <= best.noise.utility + 1e-8
        assert one.noise.utility <= one.noise.utility_bound + 1e-9
        assert one.noise.min_entropy_leakage <= one.noise.leakage_bound + 1e-9
        assert one.noise.min_entropy_leakage <= one.noise.leakage_bound_any_prior + 1e-9


@given(connected_graphs(), st.floats(0.2, 3.0), st.integers(0, 10**6))
def test_tight_constraints_are_optimal_for_regular_priors(graph, epsilon, seed):
    """Theorem 3, against the linear program; and Lemma 3."""
    prior = f"random:{seed}"
    best = solvers.solve("lp-optimal", graph, epsilon=epsilon, prior=prior)
    assert best.noise.prior_is_regular
    if not exists(graph, epsilon):
        return
    tight = solvers.solve("tight-constraints", graph, epsilon=epsilon, prior=prior)
    phi = np.exp(-epsilon * graph.distances)
    assert tight.noise.matrix == pytest.approx(phi * tight.noise.matrix.diagonal(), abs=1e-12)
    assert phi @ tight.noise.matrix.diagonal() == pytest.approx(np.ones(graph.n))
    assert tight.noise.utility == pytest.approx(best.noise.utility, abs=1e-8)
    assert tight.noise.utility == pytest.approx(tight.noise.utility_bound, abs=1e-9)
    assert tight.noise.min_entropy_leakage == pytest.approx(tight.noise.leakage_bound, abs=1e-8)


def test_randomised_response_by_hand():
    found = solvers.solve("randomised-response", counting(3), epsilon=math.log(2), prior="uniform")
    assert found.noise.matrix == pytest.approx(np.full((4, 4), 0.2) + np.diag([0.2] * 4))
    assert found.noise.utility == pytest.approx(0.4)
    assert found.noise.min_entropy_leakage == pytest.approx(math.log2(1.6))
    assert least_privacy(counting(3), found.noise.matrix) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("spend", "spent"), [("even", [0.5, 0.5]), ("0.25, 0.75", [0.25, 0.75]), (0.3, [0.3, 0.3])]
)
def test_geometric_on_two_counts(spend, spent):
    """Independent coordinates: X is a Kronecker product, and the utility a product."""
    graph = workloads.make("k-count", u=3)
    found = solvers.solve("geometric", graph, epsilon=2.0, spend=spend)
    parts = [build_truncated_geometric(4, 2.0 * share) for share in spent]
    assert found.noise.matrix == pytest.approx(np.kron(*parts))
    assert found.notes["epsilon_of_coordinate"] == pytest.approx([2.0 * s for s in spent])
    assert least_privacy(graph, found.noise.matrix) == pytest.approx(2.0 * sum(spent))
    assert found.noise.utility == pytest.approx(
        math.prod(best_guess(part, np.full(4, 0.25)) for part in parts)
    )


def test_lp_optimal_out_of_time_is_the_best_closed_form():
    graph = workloads.make("sum", u=10, v=3)
    found = solvers.solve("lp-optimal", graph, time_limit=1e-9)
    assert found.timed_out
    assert not found.converged
    floor = solvers.solve("randomised-response", graph)
    assert found.noise.utility >= floor.noise.utility
    assert found.notes["taken_from"] != "linear program"


@pytest.mark.parametrize("epsilon", [0.1, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 36.0, 100.0, 800.0])
@pytest.mark.parametrize(
    "graph",
    [
        counting(5),
        counting(20),
        workloads.make("cycle", n=6),
        workloads.make("sum", u=3, v=3),
        workloads.make("k-count", u=3, k=2),
    ],
    ids=lambda graph: f"{graph.name}-{graph.n}",
)
def test_lp_optimal_loses_least_at_any_epsilon(graph, epsilon):
    """Against closed forms, and against the optimum if it is known: y = Φ⁻¹ 1."""

    def loss(noise):
        return (noise - np.diag(np.diag(noise))).sum() / graph.n

    best = solvers.solve("lp-optimal", graph, epsilon=epsilon)
    assert best.converged
    assert "highs" not in best.notes
    least = loss(best.noise.matrix)
    floor = solvers.solve("randomised-response", graph, epsilon=epsilon)
    assert least <= loss(floor.noise.matrix)
    if exists(graph, epsilon):
        phi = np.exp(-epsilon * graph.distances)
        tight = phi * np.linalg.solve(phi, np.ones(graph.n))
        assert least == pytest.approx(loss(tight), rel=1e-8, abs=1e-300)
    if epsilon < 600:
        here, there = np.hstack([graph.edges, graph.edges[::-1]])
        worst = best.noise.matrix[here] - np.exp(epsilon) * best.noise.matrix[there]
        assert worst.max() <= 1e-10


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda x: x * 1.001, "is not a distribution"),
        (lambda x: x - np.eye(4) * 2, "is not a distribution"),
        (lambda x: np.eye(4), "not 1-differentially private: answers '0' and '1'"),
        (lambda x: build_truncated_geometric(4, 1.0 + 1e-6), "not 1-differentially private"),
        (lambda x: np.full((4, 4), np.nan), "is not a distribution"),
    ],
)
def test_a_wrong_noise_matrix_fails(change, sentence):
    graph = counting(3)
    right = build_truncated_geometric(4, 1.0)
    check_noise("right", right, graph, 1.0)
    with pytest.raises(SolveFailedError, match=sentence):
        check_noise("wrong", change(right), graph, 1.0)


@pytest.mark.parametrize(("u", "values", "epsilon"), [(1, 2, 0.3), (3, 3, 1.0), (4, 2, 2.0)])
def test_tight_constraints_on_databases(u, values, epsilon):
    """Section 4.3: y is (e^ε / (|V| (|V| - 1 + e^ε)))^u, and Theorem 2 is met."""
    graph = workloads.make("hamming", u=u, values=values)
    found = solvers.solve("tight-constraints", graph, epsilon=epsilon)
    grown = math.exp(epsilon)
    assert found.noise.matrix.diagonal() == pytest.approx((grown / (values - 1 + grown)) ** u)
    bound = u * math.log2(values * grown / (values - 1 + grown))
    assert found.noise.leakage_bound_any_prior == pytest.approx(bound)
    assert found.noise.min_entropy_leakage == pytest.approx(bound)


def bipartite(a, b):
    return from_edges((i, a + k) for i in range(a) for k in range(b))


def test_least_epsilon_of_a_complete_bipartite_graph():
    """K(2,3): z solves 2 x 2 equations; it is non-negative iff 1 - 3 a + 2 a² >= 0: a <= 1/2."""
    assert find_existence(bipartite(2, 3))[0][0] == pytest.approx(math.log(2), abs=1e-6)
    sentence = r"at epsilon 0\.6, where .*; it exists for epsilon from 0\.69314[78] on"
    with pytest.raises(NotApplicableError, match=sentence):
        solvers.solve("tight-constraints", bipartite(2, 3), epsilon=0.6)
    found = solvers.solve(
        "tight-constraints", bipartite(2, 3), epsilon=0.7, find_least_epsilon=True
    )
    assert found.record()["least_epsilon"] == pytest.approx(math.log(2), abs=1e-6)
