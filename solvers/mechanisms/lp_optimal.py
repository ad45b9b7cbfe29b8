"""The mechanism of greatest utility for a prior, by linear programming.

X[i, o] is the probability of output o if the true answer is i. Greatest utility is least loss,
``sum_i prior[i] (1 - X[i, i])``. The loss falls as exp(-ε), but HiGHS leaves constraint violations
of 1e-10 at any ε. So the unknowns of the program are

    L[i] = exp(ε) (1 - X[i, i]),   Y[i, o] = exp(ε d(i, o)) X[i, o],

where d is the distance of two answers in the graph; L and Y are about 1 at every ε. For adjacent
answers at different distances from the output o, privacy requires
``Y[nearer, o] <= Y[further, o]``.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from solvers.errors import NotApplicableError, SolverError
from solvers.mechanism import Mechanism, ProblemSize, Work
from solvers.mechanisms.geometric import Geometric
from solvers.mechanisms.randomised_response import RandomisedResponse
from solvers.mechanisms.tight_constraints import TightConstraints
from solvers.noise.noise_matrix import NoiseMatrix, from_noise_matrix, read_prior
from solvers.problem import GraphProblem
from solvers.solution import Solution
from workloads import QueryGraph
from workloads.operators import Array
from workloads.parameters import Positive, PriorText, Seconds
from workloads.priors import UNIFORM, constraints

LARGEST = 100
"""Largest number n of answers; the program has n² + n variables and 2n constraints per edge.

With a prior that is not uniform, 49 answers (pairs of seven values) take 10 s of CPU, and 100
answers more than two minutes.
"""

_TIME_LIMIT_REACHED = 1
_TOLERANCE = 1e-10
"""Feasibility tolerance given to HiGHS: the smallest that it accepts."""

_OVERLOOKED = 1e-9
"""Magnitude below which HiGHS treats coefficients as zero."""

_CONVERGED = 1e-6
"""Largest relative amount by which a converged solve's loss may exceed the linear program's."""

_NEGLIGIBLE_LOSS = 1e-15
"""Absolute part of the same limit, for losses near the rounding error of a probability."""

_TIED = 1e-9
"""Relative difference of losses within which the program's own matrix is preferred.

It is ten times the constraint violation that HiGHS leaves (`_TOLERANCE`).
"""

_OWN = "linear program"


def _solve_closed_forms(problem: GraphProblem, epsilon: float) -> dict[str, Array]:
    """Return the noise matrices of the mechanisms in closed form that apply, by mechanism name."""
    others = {}
    for closed in (
        RandomisedResponse(epsilon=epsilon),
        Geometric(epsilon=epsilon),
        TightConstraints(epsilon=epsilon),
    ):
        with suppress(SolverError):
            solution = closed.on_graph(problem)
            assert isinstance(solution.noise, NoiseMatrix)
            others[solution.mechanism] = solution.noise.matrix
    return others


def _solve_program(
    graph: QueryGraph, epsilon: float, probabilities: Array, seconds: float
) -> "scipy.optimize.OptimizeResult":
    """HiGHS's result for the linear program in L and Y, whose rows of X each sum to 1.

    Every edge satisfies Lemma 1.
    """
    n, distances = graph.n, graph.distances
    first, second = np.hstack([graph.edges, graph.edges[::-1]])
    edge, seen = np.nonzero(np.isfinite(distances[first]))
    here, there, rows = first[edge], second[edge], np.arange(len(edge))
    steep = np.exp(-epsilon * (1 + distances[here, seen] - distances[there, seen]))
    values = np.concatenate([steep, np.full(len(edge), -1.0)])
    columns = n + n * np.concatenate([here, there]) + np.tile(seen, 2)
    wrong = np.exp(-epsilon * np.maximum(distances - 1, 0))
    np.fill_diagonal(wrong, 0.0)
    losses = scipy.sparse.eye_array(n)
    diagonal = scipy.sparse.eye_array(n**2, format="csr")[:: n + 1]
    sums = scipy.sparse.block_diag([row[None, :] for row in wrong])
    constraints: dict[str, Any] = {  # scipy takes sparse matrices, but its types do not
        "A_ub": scipy.sparse.csr_array(
            (values, (np.tile(rows, 2), columns)), shape=(len(edge), n + n**2)
        ),
        "A_eq": scipy.sparse.block_array(
            [[-losses, sums], [np.exp(-epsilon) * losses, diagonal]], format="csr"
        ),
    }
    return scipy.optimize.linprog(
        np.concatenate([probabilities, np.zeros(n**2)]),
        b_ub=np.zeros(len(edge)),
        b_eq=np.concatenate([np.zeros(n), np.ones(n)]),
        options={
            "time_limit": seconds,
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
        },
        **constraints,
    )


def _repair(approximate: Array, graph: QueryGraph, epsilon: float) -> tuple[Array, float]:
    """Return a noise matrix that satisfies every constraint, and the weight of its uniform part.

    The matrix is HiGHS's solution with small entries raised, mixed with the uniform distribution.
    """
    distances = graph.distances
    noise = np.maximum(approximate, 0)
    noise[np.exp(-epsilon * np.maximum(distances - 1, 0)) < _OVERLOOKED] = 0.0
    phi = np.exp(-epsilon * distances)
    # raise each entry to at least exp(-ε distance) times every other entry of its column
    noise = np.stack([(phi * column).max(axis=1) for column in noise.T], axis=1)
    noise /= noise.sum(axis=1, keepdims=True)
    first, second = graph.edges
    shrunk = np.exp(-epsilon)
    excess = np.maximum(
        shrunk * noise[first] - noise[second], shrunk * noise[second] - noise[first]
    )
    needed = max(float(excess.max(initial=0.0)), 0.0) * graph.n / -np.expm1(-epsilon)
    weight = float(needed / (1 + needed))
    return (1 - weight) * noise + weight / graph.n, weight


@dataclass(frozen=True)
class LPOptimal(Mechanism):
    """Greatest utility for a prior on a query graph, by linear programming.

    HiGHS maximises ``sum_i prior[i] X[i, i]`` over all ε-differentially private X. The outputs are
    answers and need no remap, since any remap of an ε-private mechanism is ε-private (POST 2013,
    section 4.1). Constraint violations that HiGHS leaves are removed: entries that are too small
    relative to the entries of adjacent answers are raised, rows are divided by their sums, and the
    result is mixed with the uniform distribution. X is then ε-differentially private up to
    rounding. If a mechanism in closed form is better than X, or HiGHS finds no X, the best
    mechanism in closed form is the answer.

    Attributes
    ----------
    epsilon : float
        The ε of the release.
    prior : str or list of float, shape (n,)
        The prior for which X is optimal and which the measures assume; see `workloads.priors`.
    time_limit : float, optional
        Seconds after which the answer is the best mechanism in closed form.
    """

    name = "lp-optimal"
    source = "POST 2013, section 2.2; Ghosh, Roughgarden, Sundararajan"

    epsilon: Positive = 1.0
    prior: PriorText | list[float] = UNIFORM
    time_limit: Seconds | None = None

    def on_graph(self, problem: GraphProblem) -> Solution:
        """Return the mechanism of least loss for the prior.

        It is converged if its loss is at most ``1 + 1e-6`` times the loss of the linear program.
        ``notes["mixed_in"]`` is the weight of the uniform distribution, ``notes["taken_from"]`` the
        mechanism that gave X, and ``notes["highs"]`` the message of HiGHS if it fails.

        Raises
        ------
        NotApplicableError
            If there are more than `LARGEST` answers.
        """
        graph = problem.graph
        if graph.n > LARGEST:
            raise NotApplicableError(
                f"lp-optimal: workload {graph.name!r} has {graph.n} answers and its linear program "
                f"{graph.n**2 + graph.n} variables; expected at most {LARGEST} answers"
            )
        phi = constraints(graph, self.epsilon)
        probabilities = read_prior(problem, self.epsilon, self.prior)
        seconds = self.deadline.remaining
        result = _solve_program(graph, self.epsilon, probabilities, seconds)
        # the repaired answer of the program competes with the closed forms, whose loss is exact
        candidates = _solve_closed_forms(problem, self.epsilon)
        notes: dict[str, float | str] = {}
        least = -np.inf
        if result.x is not None and result.fun is not None and result.status == 0:
            least = float(result.fun) * np.exp(-self.epsilon)  # L is exp(ε) times the loss
            candidates[_OWN], notes["mixed_in"] = _repair(
                result.x[graph.n :].reshape(graph.shape) * phi, graph, self.epsilon
            )
        elif result.status != _TIME_LIMIT_REACHED:
            notes["highs"] = str(result.message)
        losses = {}  # probabilities of a wrong answer, without cancellation
        for name, noise in candidates.items():
            losses[name] = float(probabilities @ (noise - np.diag(noise.diagonal())).sum(axis=1))
        taken = min(losses, key=lambda name: losses[name])
        if losses.get(_OWN, np.inf) <= losses[taken] * (1 + _TIED):
            taken = _OWN
        noise = candidates[taken]
        return replace(
            from_noise_matrix(self.name, problem, self.epsilon, self.prior, noise),
            iterations=int(result.nit or 0),
            converged=bool(losses[taken] <= least * (1 + _CONVERGED) + _NEGLIGIBLE_LOSS),
            timed_out=result.status == _TIME_LIMIT_REACHED,
            notes={**notes, "taken_from": taken},
        )

    def work(self, size: ProblemSize) -> Work:
        """HiGHS on n² + n variables.

        The factor was measured on sums, grids and databases up to n = 50.
        """
        m, d = size.m, size.d
        return Work(flops=1.7e3 * float(m) ** 4, bytes=2e3 * m * d)
