"""GD: plain gradient descent on Problem 4, the baseline of Table 3 (arXiv v1, section 7.1.2).

Algorithm 1 with the direction of Algorithm 2 replaced by minus the gradient (equation (13)).
The paper says no more of it; where it leaves a choice open:

- **step**: the backtracking of Algorithm 3 with its constants, from a step of 1 every time.
- **stopping**: Algorithm 1's rules with s = -gradient: a level ends once the squared norm of
  the gradient is less than NTTOL, and the last level is the first with (d + m)/t less than
  TOL. They are no certificate: on prefix d = 16 they end 1 % above the optimum. So a level
  also ends the run where the soft-max weights, as a point of the dual (docs/optimal.md),
  certify a relative gap of ``tol``.
- **basis**: as for SM-II, I or U, whichever gives the sparser L. Unlike Newton's directions
  the gradient depends on it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solvers import basis as bases
from solvers import fixed_basis
from solvers.dual import Weights
from solvers.errors import OptionError
from solvers.mechanism import Mechanism, Work
from solvers.newton_cg import line_search
from solvers.optimiser.spectrum import spectrum
from solvers.problem import Problem
from solvers.softmax import SoftMax, plain
from solvers.solution import Solution, from_covariance
from solvers.stopping import Deadline, Stop, Stopping
from workloads.operators.blas import inner


class Steps(NamedTuple):
    """MU, NTTOL and the constants of Algorithm 3."""

    mu: float
    nttol: float
    sigma: float
    beta: float


@dataclass(frozen=True, eq=False)
class Visited:
    """A covariance on the way down.

    Attributes
    ----------
    objective : SoftMax
        Problem 4 at the present t.
    iterate : Iterate
        The covariance.
    settled : bool
        Whether it ends the level: the gradient is small enough for the next t.
    """

    objective: SoftMax
    iterate: fixed_basis.Iterate
    settled: bool

    @property
    def cost(self) -> float:
        """Δ² of the covariance scaled so that the targets are just met."""
        return float(self.iterate.profile.max() * self.iterate.ratios.max())


def solve(
    problem: Problem,
    *,
    tol: float = 1e-3,
    mu: float = 2.0,
    nttol: float = 1e-3,
    softmax_tol: float = 1e-3,
    sigma: float = 0.01,
    beta: float = 0.5,
    basis: str = "paper",
    max_iterations: int = 100_000,
    time_limit: float | None = None,
) -> Solution:
    """Gradient descent on the soft maxima, at rising sharpness.

    Parameters
    ----------
    problem : Problem
        The workload and its targets.
    tol : float
        Certified relative gap at the end of a level at which to stop; 0 for Algorithm 1's
        rules alone.
    mu : float
        MU: the factor by which the sharpness t grows.
    nttol : float
        NTTOL: squared norm of the gradient at which a level ends.
    softmax_tol : float
        TOL: the last level is the first with ``(d + m) / t`` below it.
    sigma, beta : float
        Sufficient decrease and shrinking factor of the line search.
    basis : str
        B: a name of `solvers.basis`.
    max_iterations : int
        Gradients at most.
    time_limit : float, optional
        In seconds; on expiry the best mechanism so far is returned.

    Returns
    -------
    Solution
        Its ``notes`` give the basis and the last t.

    Raises
    ------
    OptionError
        If an option is out of its range.
    """
    if not mu > 1:
        raise OptionError(f"GD: mu is {mu}; the sharpness must grow, give a number above 1")
    stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
    stop: Stop | None = None
    steps = Steps(mu, nttol, sigma, beta)
    chosen = bases.factor(problem, basis)
    size = sum(problem.workload.shape)
    finished, iterations = False, 0
    certified: float | None = None
    proof: Weights | None = None
    objective = plain(np.zeros(problem.workload.m))
    visits = descend(objective, first_iterate(problem, chosen), steps)
    best = last = next(visits)
    while not finished and (stop := stopping.spent(iterations)) is None:
        visited = next(visits, None)
        if visited is None:
            break
        last, iterations = visited, iterations + 1
        best = min(best, last, key=lambda visited: visited.cost)
        if last.settled:
            found = last.objective.weights(last.iterate)
            bound = _lower_bound(problem, found)
            if best.cost <= (1 + tol) * bound:
                certified, proof = bound, found
            finished = certified is not None or size / last.objective.t1 < softmax_tol
    return from_covariance(
        "GD",
        problem,
        chosen.basis,
        chosen.representation,
        best.iterate.covariance,
        known_lower_bound=certified,
        weights=proof,
        iterations=iterations,
        converged=finished,
        timed_out=stop is Stop.TIMED_OUT,
        notes={"basis": chosen.kind, "t": last.objective.t1},
    )


def descend(objective: SoftMax, at: fixed_basis.Iterate, steps: Steps) -> Iterator[Visited]:
    """The covariances of gradient descent, the first one included, one gradient between two.

    Ends only where no step decreases the objective any more.
    """
    yield Visited(objective, at, False)
    while True:
        model = at.model(objective)
        slope = -inner(model.gradient, model.gradient)
        if -slope < steps.nttol:
            yield Visited(objective, at, True)
            objective = objective.sharpened(steps.mu * objective.t1, steps.mu * objective.t2)
            continue
        ray = model.ray(-model.gradient)
        moved = line_search(objective, at, ray, slope, sigma=steps.sigma, beta=steps.beta)
        if moved is None:
            return
        at = moved
        yield Visited(objective, at, False)


def first_iterate(problem: Problem, chosen: bases.Factored) -> fixed_basis.Iterate:
    """Equal noise on the basis inside the targets (section 6.3)."""
    return fixed_basis.first(problem, chosen, np.eye(len(chosen.basis)))


def _lower_bound(problem: Problem, at: Weights) -> float:
    return spectrum(problem.factors, at.p, at.q).nuclear_norm ** 2


def work(m: int, d: int) -> Work:
    """A thousand gradients, each with some steps tried on the way."""
    step = 4.0 * d**3 + 2.0 * m * d**2
    return Work(flops=1000 * step, bytes=8.0 * (10 * d**2 + 3 * m * d))


MECHANISMS = (
    Mechanism(
        "GD",
        "gradient descent on the soft maxima of privacy cost and of variance ratios",
        solve,
        source="arXiv v1, section 7.1.2, Table 3, on its Problem 4",
        presets={"published": {"tol": 0.0}},
        work=work,
    ),
)
