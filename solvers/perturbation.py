"""Where independent noise is added: to the answers, or to the data vector."""

import scipy.sparse as sp

from solvers.errors import OptionError
from solvers.independent import IndependentNoise, calibrated
from solvers.moves import moves, one_column
from solvers.noise import Noise
from solvers.problem import Problem
from workloads.operators import Matrix

QUERIES, DATA = PLACES = ("queries", "data")


def check_place(mechanism: str, on: str) -> None:
    """Refuse a place that there is not.

    Raises
    ------
    OptionError
        If it is none of `PLACES`.
    """
    if on not in PLACES:
        raise OptionError(
            f"{mechanism}: option 'on' is {on!r}; expected one of {', '.join(PLACES)}"
        )


def perturbed(mechanism: str, problem: Problem, noise: Noise, on: str) -> IndependentNoise:
    """Independent noise of one distribution on every query, or on every cell of x.

    The 1-norm sensitivity is the largest 1-norm of a column of W for the queries, 1 for the
    data: neighbours differ by one record, that is by 1 in one cell.

    Parameters
    ----------
    mechanism : {"geometric", "laplace"}
        The mechanism's name, which is that of its noise.
    problem : Problem
        The workload and its targets.
    noise : Noise
        On one number that moves by one step.
    on : {"queries", "data"}
        Where it is added.

    Returns
    -------
    IndependentNoise
        Unbiased if the noise is.

    Raises
    ------
    OptionError
        If ``on`` is no such place.
    """
    check_place(mechanism, on)
    matrix = problem.workload.matrix
    if on == DATA:
        return calibrated(problem, noise, 1.0, matrix, one_column(mechanism, 1))
    identity = sp.csr_array(sp.eye_array(problem.workload.m))
    return calibrated(
        problem, noise, one_norm_sensitivity(matrix), identity, moves(mechanism, matrix)
    )


def one_norm_sensitivity(matrix: Matrix) -> float:
    """The largest 1-norm of a column: how far one record moves all answers together."""
    magnitudes = matrix if sp.issparse(matrix) else sp.csr_array(matrix)
    return float(abs(magnitudes).sum(axis=0).max())
