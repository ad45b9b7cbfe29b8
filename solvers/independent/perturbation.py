"""Where independent noise is added: to the answers, or to the data vector."""

import numpy as np
import scipy.sparse as sp

from solvers.accounting.distributions import Noise
from solvers.accounting.moves import moves, one_column
from solvers.errors import OptionError
from solvers.independent.noise import IndependentNoise, calibrated
from solvers.problem import Problem
from workloads.operators import Array, Matrix

_LARGEST_ENTRIES = 2**26

QUERIES, DATA = PLACES = ("queries", "data")


def check_place(mechanism: str, on: str) -> None:
    """Raise OptionError for a place that is none of `PLACES`."""
    if on not in PLACES:
        raise OptionError(
            f"{mechanism}: option 'on' is {on!r}; expected one of {', '.join(PLACES)}"
        )


def perturbed(mechanism: str, problem: Problem, noise: Noise, on: str) -> IndependentNoise:
    """Independent noise of one distribution on every query, or on every cell of x.

    The 1-norm sensitivity is the largest 1-norm of a column of W for the queries, 1 for the
    data: neighbours differ by 1 in one cell. Under replace-one it is the largest 1-norm of a
    difference of two columns, and 2 for the data.

    Parameters
    ----------
    mechanism : {"geometric", "laplace"}
        The mechanism's name, which is that of its noise.
    noise : Noise
        On one number that moves by one step.

    Raises
    ------
    OptionError
        If ``on`` is no such place.
    """
    check_place(mechanism, on)
    matrix, neighbours = problem.workload.matrix, problem.neighbours
    if on == DATA:
        cells = 1 if neighbours.add_remove else 2
        return calibrated(problem, noise, float(cells), matrix, one_column(mechanism, cells))
    identity = sp.csr_array(sp.eye_array(problem.workload.m))
    if neighbours.add_remove:
        sensitivity, moved = one_norm_sensitivity(matrix), moves(mechanism, matrix)
    else:
        sensitivity = one_norm_sensitivity_of_differences(problem)
        listed = listed_differences(problem)
        moved = None if listed is None else moves(mechanism, listed)
    return calibrated(problem, noise, sensitivity, identity, moved)


def listed_differences(problem: Problem) -> Array | None:
    """The differences of W's columns over all neighbours; None if they are too many."""
    m, d = problem.workload.shape
    if m * problem.neighbours.count(d) > _LARGEST_ENTRIES:
        return None
    return np.concatenate(list(problem.neighbours.differences(problem.workload.dense)), axis=1)


def one_norm_sensitivity_of_differences(problem: Problem) -> float:
    """The largest 1-norm of a difference of two columns of neighbouring cells."""
    moved = problem.neighbours.differences(problem.workload.dense)
    return max(float(np.abs(part).sum(axis=0).max()) for part in moved)


def one_norm_sensitivity(matrix: Matrix) -> float:
    """The largest 1-norm of a column: how far one record moves all answers together."""
    magnitudes = matrix if sp.issparse(matrix) else sp.csr_array(matrix)
    return float(abs(magnitudes).sum(axis=0).max())
