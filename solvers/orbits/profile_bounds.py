"""Personal privacy bounds, one for every cell, from the option ``profile_bounds``."""

from collections.abc import Sequence

import numpy as np

from solvers.errors import OptionError
from solvers.orbits import AnyOrbits
from solvers.problem import Problem
from solvers.reduction import Options
from workloads.arrays import masked_count
from workloads.operators import Array

_LARGEST = 1e60


def of_cells(problem: Problem, bounds: Sequence[float]) -> Array:
    """The bounds of all cells.

    Raises
    ------
    OptionError
        If they are not one positive number for each cell, or beyond double precision.
    """
    alpha = _unmasked(bounds)
    d = problem.workload.d
    if alpha.shape != (d,) or not np.all(np.isfinite(alpha) & (alpha > 0)):
        raise OptionError(
            f"optimal: profile_bounds of shape {alpha.shape}; expected {d} positive finite "
            "numbers, one for each cell of the domain"
        )
    return _in_range(alpha)


def _unmasked(bounds: Sequence[float]) -> Array:
    missing = masked_count(bounds)
    if missing:
        raise OptionError(
            f"optimal: {missing} of profile_bounds are masked; every cell needs a bound: fill them"
        )
    try:
        return np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"optimal: profile_bounds are not numbers: {error}") from error


def _in_range(alpha: Array) -> Array:
    bad = np.flatnonzero(~((alpha >= 1 / _LARGEST) & (alpha <= _LARGEST)))
    if bad.size:
        raise OptionError(
            f"optimal: profile_bounds[{bad[0]}] is {alpha[bad[0]]:g}; expected bounds between "
            f"{1 / _LARGEST:g} and {_LARGEST:g}: the squares of other columns of W are "
            "beyond double precision. Only the ratios of the bounds matter: scale them"
        )
    return alpha


def of_orbits(orbits: AnyOrbits, bounds: Sequence[float]) -> Array:
    """The bounds of all orbits, from one for each orbit or for each cell, equal within orbits.

    Raises
    ------
    OptionError
        As of `of_cells`.
    """
    given = _unmasked(bounds)
    if given.shape == (orbits.cells.size,):
        return _in_range(given)
    alpha = orbits.of_cells(of_cells(orbits.problem, bounds))
    assert alpha is not None
    return alpha


def uneven(orbits: AnyOrbits, options: Options) -> str:
    """Why personal bounds do not fit the orbits of cells; empty if they do."""
    bounds = options.get("profile_bounds")
    if bounds is None or np.size(bounds) == orbits.cells.size:
        return ""
    if orbits.of_cells(of_cells(orbits.problem, bounds)) is not None:
        return ""
    return (
        "profile_bounds differ between cells that the queries and their targets do not tell "
        f"apart; give one for each of the {orbits.cells.size} orbits of cells, or equal ones "
        "within each"
    )
