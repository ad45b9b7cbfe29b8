"""The program in subset variables that Problem 1 is on marginals.

Targets constant within each marginal leave Problem 1 unchanged when the values of an
attribute are relabelled, so averaging Σ over all relabellings loses nothing: Σ is the sum
of s_S/d P_S over subsets S (`solvers.marginals.closure`), with

    every profile entry = sum_S w_S / s_S,
    variance of every query of marginal T = sum_{S within T} w_S s_S / N_T²,

N_T being the number of queries of T. With the variables v_S = s_S / w_S and the matrix
A_TS = (w_S / N_T)² / c_T for S within T, Problem 1 and its hybrid with total error are

    minimise sum(1 / v) * (max(A v) + omega . A v).

For weights q on the marginals, of sum one, ``sum(sqrt(A.T @ (q + omega)))**2`` is a lower bound
(Cauchy-Schwarz), reached at v = (A.T @ (q + omega))**-0.5. Every entry of A is at most 1/c_T, so
nothing overflows whatever the domain.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solvers.marginals.closure import Closure
from solvers.optimiser import ScalarBlocks
from workloads.operators import Array

_SMALLEST_LOG = -650.0


@dataclass(frozen=True, eq=False)
class Program(ScalarBlocks):
    """Minimise ``sum(1 / v) * (max(A v) + omega . A v)`` over v > 0; ``offset`` is omega.

    Attributes
    ----------
    log_counts : numpy.ndarray, shape (constraints,)
        Logarithm of the number of queries that each constraint stands for.
    """

    log_counts: Array


def program(closure: Closure, targets: Array, total_error_weight: float = 0.0) -> Program:
    """The program of some marginals.

    Parameters
    ----------
    closure : Closure
        Of the marginals.
    targets : numpy.ndarray, shape (number of marginals,)
        The variance bound c_T of each.
    total_error_weight : float
        Weight of the sum of all query variances beside the largest ratio.

    Returns
    -------
    Program
    """
    incidence = closure.incidence
    scale = np.log(targets) + 2 * closure.log_sizes
    entries = 2 * closure.log_ranks[incidence.indices] - np.repeat(scale, np.diff(incidence.indptr))
    data = np.exp(np.maximum(entries, _SMALLEST_LOG))
    matrix = sp.csr_array((data, incidence.indices, incidence.indptr), shape=incidence.shape)
    omega = total_error_weight * targets * np.exp(closure.log_sizes)
    return Program(matrix, omega, closure.log_sizes)
