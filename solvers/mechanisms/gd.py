"""GD: plain gradient descent on Problem 4, the baseline of Table 3 (arXiv v1, section 7.1.2).

This is Algorithm 1 with minus the gradient (equation (13)) in place of Algorithm 2's direction.
The paper gives no further details. The choices that it leaves open are made as follows:

- **step**: the backtracking of Algorithm 3 with its constants, starting at a step of 1 every time.
- **stopping**: Algorithm 1's rules with s = -gradient. A level, the descent at one sharpness t,
  ends once the squared norm of the gradient is less than NTTOL; the last level is the first with
  (d + m)/t less than TOL. These rules prove nothing. With ``tol`` > 0 the descent goes on to
  sharper levels until Δ² is within ``tol`` of a lower bound, which `solvers.dual` computes
  beforehand. (The soft-max weights at the end of a level prove a bound that is 0.3 to 0.6 % lower.)
  Only then is the solution reported as converged. With the rules alone (``tol=0``, the preset
  ``published``) it is reported as not converged, with its gap.
- **units**: the effect of a step of length 1, of NTTOL and of a first t of 1 depends on the unit of
  Δ². The unit here makes Δ² about 16 at the optimum, where an NTTOL of 1e-3 ends a level close
  enough to its minimum for a gap of 1e-3. (Without scaling, the paper's prefix workloads have a Δ²
  of 1.3 to 2.9; random queries need a larger value.) The largest entry of the basis is 1, so the
  units of W and of the targets do not change the answer.
- **basis**: as for SM-II, the identity I or the triangular U of ones, whichever makes L sparser.
  Unlike Newton's directions, the gradient depends on the basis.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from solvers.dual import programs
from solvers.dual.iteration import Stop, Stopping, traced
from solvers.dual.programs import Weights
from solvers.mechanism import Iterative, ProblemSize, Work
from solvers.problem import Problem
from solvers.soft_max import basis as bases
from solvers.soft_max.newton_cg import line_search
from solvers.soft_max.objective import Model, SoftMax
from solvers.solution import Solution
from solvers.strategy import from_covariance
from workloads.operators.blas import inner
from workloads.parameters import Bounds, Count, NotNegative, Positive, Share

_OPTIMUM = 16.0
"""Δ² at the optimum in the units of the descent.

Prefixes over 32 cells converge to a gap of 1e-3 with 16, and end above it with 1, 4 or 64.
"""

_ASIDE = 1e-4
"""Relative gap to which the dual is solved for the lower bound if ``tol`` is 0.

It is a tenth of the gap that the descent can reach, so that the bound does not hide it.
"""
_SHARPEST = 1e100
"""Largest sharpness at which another level begins.

From about 1e20 on, soft maxima equal maxima in double precision. Without this limit, a descent that
does not converge raises t until its product with a ratio overflows.
"""


def _compute_cost(iterate: bases.FixedIterate) -> float:
    """Return Δ² of the covariance when the targets are just met, in the units of the descent."""
    return float(iterate.profile.max() * iterate.ratios.max())


@dataclass(frozen=True)
class GD(Iterative):
    """Gradient descent on the soft maxima of privacy cost and of variance ratios.

    The solve stops at a certified relative gap of Δ²; with a ``tol`` of 0, only Algorithm 1's rules
    are used.

    Attributes
    ----------
    mu : float
        MU: the factor by which the sharpness t grows.
    nttol : float
        NTTOL: a level ends once the squared norm of the gradient is less than NTTOL.
    softmax_tol : float
        TOL: if ``tol`` is 0, the last level is the first with ``(d + m) / t`` below TOL.
    sigma, beta : float
        Constant of the sufficient decrease, and shrinking factor, of the line search.
    basis : str
        The name of the basis B in `solvers.soft_max.basis`.
    """

    name = "GD"
    source = "arXiv v1, section 7.1.2, Table 3, on its Problem 4"
    presets: ClassVar = {"published": {"tol": 0.0}}

    tol: NotNegative = 1e-3
    max_iterations: Count = 100_000
    mu: Annotated[float, Bounds(gt=1, lt=math.inf)] = 2.0
    nttol: Positive = 1e-3
    softmax_tol: NotNegative = 1e-3
    sigma: Share = 0.01
    beta: Share = 0.5
    basis: str = "paper"

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the best covariance of the descent; the notes give the basis and the last t.

        Raises
        ------
        OptionError
            If there is no such basis.
        """
        stopping = self.stopping()
        stop: Stop | None = None
        chosen = bases.factor(problem, self.basis)
        aside = Stopping(self.tol / 2 or _ASIDE, deadline=stopping.deadline)
        proof = programs.optimum(problem.factors, aside)
        unit = proof.lower / _OPTIMUM
        objective = SoftMax(np.zeros(problem.workload.m))
        # the workload divided by the square root of the unit, in a basis whose largest entry is 1
        largest = float(np.abs(chosen.basis).max())
        shrunk = chosen.representation * (largest / np.sqrt(unit))
        scaled = chosen._replace(basis=chosen.basis / largest, representation=shrunk)
        iterate = bases.first_in_basis(problem, scaled, np.eye(len(chosen.basis)))
        best, costs = iterate, [_compute_cost(iterate)]
        settled, ended = False, False
        while not ended and (stop := stopping.spent(len(costs) - 1)) is None:
            if settled:  # the level has ended: Algorithm 1 raises the sharpness
                if objective.t1 > _SHARPEST:
                    break
                objective = objective.sharpened(self.mu * objective.t1, self.mu * objective.t2)
            model = Model(objective, iterate)
            slope = -inner(model.gradient, model.gradient)
            settled = -slope < self.nttol
            if not settled:  # Algorithm 3 along minus the gradient (13)
                down = -model.gradient
                moved = line_search(objective, model, down, slope, self.sigma, self.beta)
                if moved is None:
                    break
                iterate = moved
            costs.append(_compute_cost(iterate))
            best = iterate if costs[-1] < _compute_cost(best) else best
            ended = _compute_cost(best) <= (1 + self.tol) * _OPTIMUM
            ended |= (
                self.tol == 0
                and settled
                and sum(problem.workload.shape) / objective.t1 < self.softmax_tol
            )
        solution = from_covariance(
            self.name, problem, chosen.basis, chosen.representation, best.covariance
        )
        return replace(
            solution,
            converged=solution.squared_privacy_cost <= (1 + self.tol) * proof.lower,
            known_lower_bound=proof.lower,
            weights=Weights(proof.proof.p, proof.proof.q),
            iterations=len(costs) - 1,
            timed_out=stop is Stop.TIMED_OUT,
            notes={"basis": chosen.kind, "t": objective.t1},
            trace=traced([c * unit for c in costs], [proof.lower] * len(costs)),
        )

    def work(self, size: ProblemSize) -> Work:
        """A thousand gradients, each with a few trial steps."""
        m, d = size.m, size.d
        step = 4.0 * d**3 + 2.0 * m * d**2
        return Work(flops=1000 * step, bytes=8.0 * (10 * d**2 + 3 * m * d))
