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
from workloads.operators import Array

_SMALLEST_LOG = -650.0


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise ``sum(1 / v) * (max(A v) + omega . A v)`` over v > 0.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array, shape (constraints, variables)
        A, non-negative, no row and no column zero.
    omega : numpy.ndarray, shape (constraints,)
        Weight of each ratio in the total error; all zero for Problem 1.
    log_counts : numpy.ndarray, shape (constraints,)
        Logarithm of the number of queries that each constraint stands for.
    """

    matrix: sp.csr_array
    omega: Array
    log_counts: Array

    def ratios(self, v: Array) -> Array:
        """``A v``: variance over target of each constraint."""
        return np.asarray(self.matrix @ v)

    def inner(self, q: Array) -> Array:
        """The v of least ``sum(1/v) * (q + omega) . A v``."""
        return np.asarray((self.matrix.T @ (q + self.omega)) ** -0.5)

    def norm(self, q: Array) -> float:
        """``sum(sqrt(A.T (q + omega)))``: what the dual maximises over the simplex."""
        return float(np.sqrt(self.matrix.T @ (q + self.omega)).sum())

    def lower_bound(self, q: Array) -> float:
        """Certified by weights q >= 0, whatever they are."""
        return self.norm(q / q.sum()) ** 2

    def value(self, v: Array) -> float:
        """The objective."""
        ratios = self.ratios(v)
        return float((1 / v).sum() * (ratios.max() + self.omega @ ratios))


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
    held = closure.incidence
    scale = np.log(targets) + 2 * closure.log_sizes
    entries = 2 * closure.log_ranks[held.indices] - np.repeat(scale, np.diff(held.indptr))
    data = np.exp(np.maximum(entries, _SMALLEST_LOG))
    matrix = sp.csr_array((data, held.indices, held.indptr), shape=held.shape)
    omega = total_error_weight * targets * np.exp(closure.log_sizes)
    return Program(matrix, omega, closure.log_sizes)
