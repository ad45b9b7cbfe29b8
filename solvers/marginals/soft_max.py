"""Problem 4 on marginals, in subset variables.

All cells have one profile entry, whose soft maximum is itself and a constant, and a ratio
stands for the N_T queries of its marginal (of all marginals of its class):

    F(v) = sum(1 / v) + 1/t log sum_T N_T exp(t (A v)_T) + omega . A v.

A step is relative to v, as it is relative to Σ in `solvers.adapted_basis`: the curvature of
the profile is then the diagonal 2/v, and Algorithms 1 to 3 are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers import newton_cg
from solvers.dual import Weights
from solvers.marginals.optimum import Optimum
from solvers.marginals.program import Program
from solvers.newton_cg import Settings
from solvers.softmax import ChartModel, SoftMax
from solvers.stopping import Deadline
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class Iterate:
    """The variables of a program.

    Attributes
    ----------
    program : Program
        What is minimised.
    v : numpy.ndarray, shape (variables,)
        Positive.
    """

    program: Program
    v: Array

    @cached_property
    def profile(self) -> Array:
        """The one entry that all cells have, shape (1,)."""
        return np.array([(1 / self.v).sum()])

    @cached_property
    def ratios(self) -> Array:
        """Of every constraint."""
        return self.program.ratios(self.v)

    def model(self, objective: SoftMax) -> ChartModel:
        """F to second order about these variables."""
        return ChartModel(objective, self, objective.weights(self), _Chart(self))


def first(program: Program) -> Iterate:
    """The optimum at equal dual weights, its profile and its largest ratio made equal."""
    shares = program.log_counts - np.logaddexp.reduce(program.log_counts)
    v = program.inner(np.exp(shares))
    scale = float(np.sqrt((1 / v).sum() / program.ratios(v).max()))
    return Iterate(program, scale * v)


def minimise(program: Program, settings: Settings, deadline: Deadline) -> tuple[Optimum, float]:
    """Solve a program by Algorithms 1 to 3.

    Parameters
    ----------
    program : Program
        What is minimised.
    settings : Settings
        MU, NTTOL, ….
    deadline : Deadline
        When to stop.

    Returns
    -------
    Optimum
    float
        The last t.
    """
    start = first(program)
    t = 1 / max(float(start.profile.max()), float(start.ratios.max()))
    objective = SoftMax(program.offset, program.log_counts, t, t)

    def bound(found: Weights) -> float:
        return program.lower_bound(found.q)

    found = newton_cg.minimise(objective, start, settings, deadline, bound)
    proof, end = found.proof, cast(Iterate, found.iterate)
    q = (proof.weights or found.objective.weights(end)).q
    optimum = Optimum(
        end.v,
        q,
        lower=proof.lower,
        upper=proof.upper,
        iterations=found.iterations,
        converged=found.converged,
        timed_out=found.timed_out,
        trace=found.trace,
    )
    return optimum, found.objective.t1


class _Chart:
    """Steps relative to v."""

    def __init__(self, at: Iterate) -> None:
        self._at = at
        self._matrix = sp.csr_array(at.program.matrix @ sp.diags_array(at.v))
        self.curvature: Array = 2 / at.v

    def damping(self, gradient: Array) -> Array:
        return 2 * np.maximum(gradient, 0.0)

    def forms(self, along: Array) -> tuple[Array, Array]:
        of_profile = np.array([float((along / self._at.v).sum())])
        return of_profile, np.asarray(self._matrix @ along)

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        return np.asarray(of_profile / self._at.v + self._matrix.T @ of_ratios)

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        def moved(length: float) -> Iterate:
            v = self._at.v * (1 + length * along)
            if not v.min() > 0:
                raise sla.LinAlgError("a variance is not positive")
            return Iterate(self._at.program, v)

        return moved
