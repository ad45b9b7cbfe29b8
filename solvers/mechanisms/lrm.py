"""Low-rank mechanism: W = B L, where B adds little noise and L has short columns.

KDD'16, eq. (4), after Yuan et al. (PVLDB 5(11), 2012; TODS 40(2), 2015):

    minimise tr(BᵀB)   subject to   W = B L,   every column of L of norm at most 1,

over B (m x r) and L (r x d), by the first-order augmented Lagrangian that KDD'16, section 2,
describes, with the penalty β and the multipliers π. A round updates B in closed form,
B <- (βW + π) Lᵀ (β L Lᵀ + I)⁻¹, and L by accelerated projected gradient steps, then sets
π <- π + β (W - B L); β is doubled every ten rounds. The program is not convex, so there is no
certificate; `CA` computes the optimum that LRM seeks.

Where the papers leave a choice open:

- **W is never quite B L.** The papers answer with B(Lx + noise), which is biased by the residual.
  Here the answer is Wx + B noise, the nearest unbiased mechanism: its privacy profile
  diag(Wᵀ (BBᵀ)⁺ W) tends to the squared column norms of L. The best of all rounds is kept.
- **rank**: r = 1.2 times the rank of W, as in the authors' code; ``rank_ratio`` changes it, which
  matters only with a random start.
- **start**: the singular value decomposition, as in the authors' code; with a ``seed``, a random L,
  as in KDD'16, section 5.
- **stopping**: ``||W - BL||_F <= tol ||W||_F`` with tol = 1e-4 (the authors' code has an absolute
  0.01), and no entry of the privacy profile exceeds 1 by more than 1e-3. The norm alone overlooks
  singular vectors with small singular values, which B may miss completely: on WDiscrete with
  m = d = 256 the total error is then ten times as large.
- **size**: B and L are computed for diag(s) P instead of W, where s are the singular values of W
  and the rows of P its right singular vectors. This is the same program at a cost that does not
  depend on m.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy

from solvers.dual.iteration import Stop, traced
from solvers.errors import SolveFailedError
from solvers.mechanism import Iterative, ProblemSize, Work
from solvers.problem import Problem
from solvers.problem.row_space import singular_rows
from solvers.solution import Solution
from solvers.strategy import from_root
from workloads.operators import Array
from workloads.parameters import Bounds, Count, NotNegative, Seed

_ALTERNATIONS = 5
"""Number of updates of B and L in a round.

1 takes a third more rounds in half the time, and 20 a fifth fewer in three times the time, for a
total error that differs by less than 0.05 %.
"""

_GRADIENT_STEPS = 5
"""Number of gradient steps in an update of L; 1 takes a third more rounds, 20 hardly fewer."""

_ROUNDS_BEFORE_DOUBLING = 10
"""Number of rounds after which β is doubled, as in KDD'16; 3 takes a third to a half fewer."""

_NEARLY_ZERO = 1e-8
"""Entries of the strategy queries beyond the rank of W at the start, from which they may grow.

They stay as small on prefixes, ranges and random signs, where 0 and 1e-3 give the same answers.
"""

_LARGEST_BIAS = 1e-3
"""Largest bias of a converged solve; 1e-5 takes a third more rounds, for 0.03 % less error."""


def iterate_rounds(rows: Array, B: Array, L: Array) -> Iterator[tuple[Array, float]]:
    """Yield B and the relative residual after every round of the augmented Lagrangian, for ever."""
    multipliers, penalty, norm = np.zeros_like(rows), 1.0, float(np.linalg.norm(rows))
    for count in itertools.count(1):
        # the augmented Lagrangian tr(BᵀB)/2 + <π, W - BL> + β/2 ||W - BL||², by turns in L and in B
        pull = penalty * rows + multipliers
        for _ in range(_ALTERNATIONS):
            L = _shorten_columns(penalty * (B.T @ B), B.T @ pull, L)
            # B = (βW + π) Lᵀ (β L Lᵀ + I)⁻¹
            system = penalty * (L @ L.T) + np.eye(len(L))
            B = scipy.linalg.solve(system, L @ pull.T, assume_a="pos", check_finite=False).T
        missing = rows - B @ L
        yield B, float(np.linalg.norm(missing)) / norm
        multipliers = multipliers + penalty * missing
        if count % _ROUNDS_BEFORE_DOUBLING == 0:
            penalty *= 2


def compute_total_error(rows: Array, B: Array) -> float:
    """Total error at Δ² = 1 of the unbiased mechanism with noise of covariance BBᵀ.

    Infinite if BBᵀ is singular.
    """
    covariance = B @ B.T
    try:
        factor = scipy.linalg.cholesky(covariance, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return np.inf
    whitened = scipy.linalg.solve_triangular(factor, rows, lower=True, check_finite=False)
    return float(np.trace(covariance) * np.einsum("ij,ij->j", whitened, whitened).max())


def _shorten_columns(hessian: Array, linear: Array, L: Array) -> Array:
    """L after Nesterov's projected gradient steps on ½ tr(Lᵀ hessian L) - tr(linearᵀ L).

    The projection shortens columns of L that are longer than 1.
    """
    steepest = scipy.linalg.eigvalsh(hessian, driver="evd", check_finite=False)[-1]
    ahead, momentum = L, 1.0
    for _ in range(_GRADIENT_STEPS):
        moved = ahead - (hessian @ ahead - linear) / steepest
        moved /= np.maximum(np.linalg.norm(moved, axis=0), 1.0)
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = moved + (momentum - 1) / following * (moved - L)
        L, momentum = moved, following
    return L


@dataclass(frozen=True)
class LRM(Iterative):
    """Low-rank mechanism: W = B L with short columns of L, by an augmented Lagrangian.

    The targets only scale the noise. The solve stops at a relative residual of W = B L of ``tol``,
    if ``bias`` (below) is then at most 1e-3, or after ``max_iterations`` rounds.

    Attributes
    ----------
    rank_ratio : float
        The number r of strategy queries divided by the rank of W; at least 1. Without a ``seed``
        it hardly changes the answer, as the queries beyond the rank start, and stay, close to zero:
        Δ² by less than 1e-4 of itself on prefixes and ranges.
    seed : int, optional
        Seed of a random start; if not given, the start is the singular value decomposition.
    """

    name = "LRM"
    source = "Yuan et al., PVLDB 5(11), 2012; KDD'16, eq. (4) and section 2"

    tol: NotNegative = 1e-4
    max_iterations: Count = 200
    rank_ratio: Annotated[float, Bounds(ge=1, lt=math.inf)] = 1.2
    seed: Seed | None = None

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the best mechanism of all rounds.

        Its ``notes`` give the relative residual of the last round, and ``bias``: the amount by
        which the largest entry of that round's privacy profile exceeds 1, the limit of the squared
        column norms of L.

        Raises
        ------
        SolveFailedError
            If B has a lower rank than W after every round; such a B gives no unbiased mechanism.
        """
        stopping = self.stopping()
        stop: Stop | None = None
        singular, vectors = singular_rows(problem.workload.matrix)
        rows = singular[:, None] * vectors
        (k, d), size = rows.shape, int(np.ceil(self.rank_ratio * len(rows)))
        if self.seed is None:  # the strategy queries beyond the rank are almost zero
            B, L = np.full((k, size), _NEARLY_ZERO), np.full((size, d), _NEARLY_ZERO)
            B[:, :k], L[:k] = np.diag(singular), vectors
            B, L = B * size**0.5, L / size**0.5
        else:
            L = np.random.default_rng(self.seed).normal(size=(size, d))
            L /= np.linalg.norm(L, axis=0)
            B = rows @ np.linalg.pinv(L)
        visits = iterate_rounds(rows, B, L)
        best, least = B, compute_total_error(rows, B)
        residual, bias, iterations, converged = np.inf, np.inf, 0, False
        errors = [least]
        while not converged and (stop := stopping.spent(iterations)) is None:
            B, residual = next(visits)
            iterations += 1
            error = compute_total_error(rows, B)
            errors.append(error)
            bias = error / float(np.sum(B**2)) - 1
            converged = residual <= self.tol and bias <= _LARGEST_BIAS
            if error < least:
                best, least = B, error
        if not np.isfinite(least):
            raise SolveFailedError(
                f"LRM: none of {iterations} rounds on workload {problem.workload.name!r} "
                f"kept its rank {len(singular)}; try another seed or a larger rank_ratio"
            )
        (triangle,) = scipy.linalg.qr(best.T, mode="r", check_finite=False)
        basis, queries = problem.basis, problem.representation
        if len(basis) != len(rows):  # the ranks can differ if the norms of rows span many decades
            basis, queries = rows, problem.workload.dense @ vectors.T / singular
        root = basis @ vectors.T / singular @ triangle[: len(rows)].T
        return replace(
            from_root(self.name, problem, basis, queries, root),
            iterations=iterations,
            converged=converged,
            timed_out=stop is Stop.TIMED_OUT,
            notes={"residual": residual, "bias": bias},
            trace=traced(errors),
        )

    def work(self, size: ProblemSize) -> Work:
        """One decomposition of W and about 25 rounds with 1.2 d strategy queries."""
        m, d = size.m, size.d
        strategy_queries = 1.2 * d
        alternation = (
            2 * _GRADIENT_STEPS * strategy_queries**2 * d
            + 6 * strategy_queries**2 * d
            + 4 * strategy_queries * d**2
        )
        flops = 6.0 * m * d**2 + 25 * _ALTERNATIONS * alternation
        return Work(flops=flops, bytes=8.0 * (16 * d**2 + 3 * m * d))
