"""The covariance at which SM-II begins (PVLDB 14(10), section 6.3)."""

import numpy as np
import scipy.linalg as sla

from solvers.errors import OptionError, SolveFailedError
from solvers.problem import Problem
from solvers.soft_max import adapted_basis, fixed_basis
from solvers.soft_max import basis as bases
from solvers.soft_max.objective import Iterate
from workloads.operators import Array


def initial_iterate(
    problem: Problem, factored: bases.Factored | None, initial: Array | None
) -> Iterate:
    """The first iterate of Algorithm 1.

    Parameters
    ----------
    factored : Factored, optional
        The basis that stays; None for one that follows the covariance.
    initial : array_like, shape (r, d), optional
        Q, whose answers get independent noise (section 6.3); by default the covariance at equal
        dual weights, or in a basis that stays I.

    Raises
    ------
    OptionError
        If ``initial`` does not determine the workload.
    SolveFailedError
        If the problem is too ill-conditioned for double precision.
    """
    basis = problem.basis if factored is None else factored.basis
    try:
        if factored is not None:
            covariance = np.eye(len(basis)) if initial is None else _spread(basis, initial)
            return fixed_basis.first(problem, factored, covariance)
        if initial is None:
            return adapted_basis.first(problem.factors, bases.equal_weights_covariance(problem))
        return adapted_basis.first(problem.factors, _spread(basis, initial))
    except sla.LinAlgError as error:
        if initial is None:
            raise SolveFailedError(
                f"SM-II: the first covariance is not positive definite ({error}): too "
                "ill-conditioned for double precision; bring the targets closer together"
            ) from error
        raise OptionError(
            "SM-II: initial does not determine the workload: some query is no combination of "
            "its queries; add the missing ones"
        ) from error


def _spread(basis: Array, initial: Array) -> Array:
    """Section 6.3: what independent noise on Qx means for Bx.

    The text sets Σ = Q⁺ (Q⁺)ᵀ in any basis; the noise on Bx is B times that times Bᵀ.
    """
    d = basis.shape[1]
    queries = np.asarray(initial, dtype=np.float64)
    if queries.ndim != 2 or queries.shape[1] != d:
        raise OptionError(
            f"SM-II: initial has shape {queries.shape}; expected queries over the {d} cells "
            f"of the workload, shape (r, {d})"
        )
    spread = basis @ np.linalg.pinv(queries)
    return np.asarray(spread @ spread.T)
