"""Independent noise of any distribution, added to the answers, to the data, or through a matrix.

The answers are ``W x + L z``, where W is the query matrix, x the data vector, and z has independent
entries of a known distribution. Pure ε-private mechanisms on a query matrix use such noise, and so
does noise of least Fisher information on a box. Such noise has no privacy cost Δ: its accuracy at a
budget follows from its `solvers.privacy.budget.BudgetCurve`.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
import scipy

from solvers.noise.information import CosineSquared
from solvers.noise.noise import Noise
from solvers.privacy.budget import BudgetCurve, LossBudget, PureBudget
from solvers.privacy.distributions import Distribution, Geometric, Laplace
from solvers.privacy.privacy_loss import Moves, find_moves, one_column
from solvers.problem import Problem
from workloads.operators import Array, Explicit, Matrix
from workloads.operators.combined import scaled_rows


@dataclass(frozen=True)
class AtEpsilon:
    """The noise on one number for a fixed ε.

    Attributes
    ----------
    epsilon : float
        The privacy cost ε if the number moves by one step between neighbours.
    """

    distribution: Distribution
    epsilon: float

    @property
    def variance(self) -> float:
        """Variance of the noise on one number."""
        return float(self.distribution.variance(self.epsilon))

    @property
    def moments(self) -> tuple[float, float, float]:
        """Standardised third, fourth and sixth moments of the noise on one number."""
        return self.distribution.moments(self.epsilon)

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw an array of noise."""
        return self.distribution.sample(self.epsilon, shape, rng)


@dataclass(frozen=True, eq=False)
class IndependentNoise(Noise):
    """The noise L z of the answers ``W x + L z``, with independent entries of z.

    Attributes
    ----------
    decoder : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        L.
    source : AtEpsilon or CosineSquared
        The distribution of every entry of z.
    curve : BudgetCurve
        The variance ratio at any budget, and the least ε that meets the targets.
    """

    decoder: Matrix
    source: AtEpsilon | CosineSquared
    curve: BudgetCurve

    @cached_property
    def query_variances(self) -> Array:
        """Variance of every query's answer, shape (m,)."""
        return np.asarray(self.source.variance * Explicit(self.decoder).squared_row_norms())

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Standardised fourth and sixth moments of every error, computed from cumulants.

        An error that is always 0 has the moments 3 and 15 of normal noise.
        """
        third, fourth, sixth = self.source.moments
        norms = np.sqrt(Explicit(self.decoder).squared_row_norms())
        unit = scaled_rows(self.decoder, np.divide(1.0, norms, out=norms * 0, where=norms > 0))
        cubes, fourths, sixths = (np.asarray((unit**k).sum(axis=1)).ravel() for k in (3, 4, 6))
        peak, skew = (fourth - 3) * fourths, 10 * third**2
        last = (sixth - 15 * fourth + 30 - skew) * sixths
        return 3 + peak, 15 + 15 * peak + skew * np.square(cubes) + last

    @property
    def epsilon(self) -> float:
        """Least ε at which all targets are met with δ = 0; infinite if no finite ε is enough."""
        return float(self.curve.epsilon_at_targets(0.0))

    def arrays(self) -> dict[str, Array]:
        """Return the variances and, on an interval, the density at equally spaced points."""
        arrays = super().arrays()
        if isinstance(self.source, CosineSquared):
            places = np.linspace(self.source.lower, self.source.upper, 101)
            arrays["density"] = self.source.density(places)
        return arrays

    def at_budget(self, epsilon: float, delta: float) -> Noise:
        """Return the noise of the same distribution that is (ε, δ)-private.

        Raises
        ------
        NotApplicableError
            If the noise is on an interval: it is (ε, δ)-private on no scale.
        """
        if not isinstance(self.source, AtEpsilon) or not isinstance(
            self.curve, PureBudget | LossBudget
        ):
            return super().at_budget(epsilon, delta)
        step = self.curve.step(epsilon, delta)
        source = replace(self.source, epsilon=step)
        return replace(self, source=source, curve=self.curve.rescaled(step))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors, shape (n, m), scaled to just meet the targets."""
        numbers = self.source.sample((n, self.decoder.shape[1]), rng)
        return np.asarray((self.decoder @ numbers.T).T)

    def record(self) -> dict[str, object]:
        """Total variance, ``pure_epsilon`` if it is finite, and the fields of the ``curve``."""
        pure = {"pure_epsilon": self.epsilon} if np.isfinite(self.epsilon) else {}
        return super().record() | pure


def calibrate(
    problem: Problem,
    distribution: Distribution,
    sensitivity: float,
    decoder: Matrix,
    moves: Moves | None,
) -> IndependentNoise:
    """Return independent ε-private noise L z at the least ε that meets all targets.

    Parameters
    ----------
    distribution : Distribution
        The distribution of every entry of z.
    sensitivity : float
        The mechanism's ε divided by the ε of one step.
    decoder : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        L.
    moves : Moves or None
        How far neighbours move the numbers that get noise; None to use plain composition.
    """
    squares = Explicit(decoder).squared_row_norms()
    pure = PureBudget(distribution, sensitivity, factor=float(np.max(squares / problem.targets)))
    curve = pure if moves is None else LossBudget(pure, moves)
    return IndependentNoise(decoder, AtEpsilon(distribution, pure.epsilon / sensitivity), curve)


_LARGEST_ENTRIES = 2**26
"""Most entries of the differences of all neighbours for a privacy loss distribution: 512 MiB."""

Place = Literal["queries", "data"]
"""Where independent noise is added: to the answers to the queries, or to the cells of x."""


def perturb(problem: Problem, noise: Geometric | Laplace, on: Place) -> IndependentNoise:
    """Return independent noise on every query's answer, or on every cell of x.

    Under add-remove, neighbours differ by 1 in one cell. The 1-norm sensitivity of the queries is
    then the largest 1-norm of a column of W, and that of the data is 1. Under replace-one, the
    sensitivity of the queries is the largest 1-norm of the difference of the columns of two
    neighbouring cells, and that of the data is 2.

    Parameters
    ----------
    noise : Geometric or Laplace
        The distribution of the noise on one number.
    """
    matrix, neighbours = problem.workload.matrix, problem.neighbours
    if on == "data":
        cells = 1 if neighbours.add_remove else 2
        return calibrate(problem, noise, float(cells), matrix, one_column(noise.name, cells))
    identity = scipy.sparse.csr_array(scipy.sparse.eye_array(problem.workload.m))
    if neighbours.add_remove:
        sensitivity = float(abs(scipy.sparse.csr_array(matrix)).sum(axis=0).max())
        moved = find_moves(noise.name, matrix)
    else:
        differences = partial(neighbours.differences, problem.workload.dense)
        sensitivity = max(float(np.abs(part).sum(axis=0).max()) for part in differences())
        few = problem.workload.m * neighbours.count(problem.workload.d) <= _LARGEST_ENTRIES
        moved = find_moves(noise.name, np.concatenate(list(differences()), axis=1)) if few else None
    return calibrate(problem, noise, sensitivity, identity, moved)
