"""How useful and how private a noise matrix is (POST 2013, sections 2 and 4)."""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from workloads import QueryGraph
from workloads.operators import Array
from workloads.priors import weights
from workloads.symmetry import classes

MOST_CLASSES = 400
"""Unknowns of the linear program for priors that are not ε-regular: a second's work."""


def utility(noise: Array, prior: Array) -> float:
    """The probability that the best guess from the output is the true answer.

    Equation (2): binary gain and the optimal remap, ``sum_o max_i prior[i] * noise[i, o]``.
    """
    return float((prior[:, None] * noise).max(axis=0).sum())


def leakage(guessed: float, prior: Array) -> float:
    """Min-entropy leakage in bits, from the utility or a bound on it (Propositions 5 and 6)."""
    return max(math.log2(guessed / float(prior.max())), 0.0)


@dataclass(frozen=True)
class Bound:
    """An upper bound on the utility for a prior.

    Attributes
    ----------
    utility : float
        The bound, at most 1.
    regular : bool
        Whether the prior is ε-regular, so that the bound is Theorem 1's.
    """

    utility: float
    regular: bool


def utility_bound(phi: Array, prior: Array) -> Bound:
    """An upper bound on the utility of every ε-differentially private mechanism.

    Theorem 1 where the prior is ε-regular. For other priors the least ``sum(y)`` with
    ``y @ phi >= prior`` and ``y >= 0``: by Equation (3) ``phi @ diag(XR) <= 1``, so utility is
    ``prior @ diag(XR) <= y @ phi @ diag(XR) <= sum(y)``. A linear program in as many unknowns
    as Φ and the prior tell answers apart; above `MOST_CLASSES` of them ``sum(max(y, 0))`` of
    Theorem 1's y, which is one of its candidates. Never above 1.

    Parameters
    ----------
    phi : numpy.ndarray, shape (n, n)
        Of `workloads.priors.constraints`.
    prior : numpy.ndarray, shape (n,)
        Probabilities.
    """
    alike = classes(phi, prior)
    y = weights(phi, prior, alike)
    if y is not None and bool(y.min() >= 0):
        return Bound(min(float(y.sum()), 1.0), regular=True)
    simple = 1.0 if y is None else float(np.maximum(y, 0).sum())
    if len(alike.sizes) > MOST_CLASSES:
        return Bound(min(simple, 1.0), regular=False)
    scale = float(prior.max())
    matrix, least = alike.reduced(phi), prior[alike.first] / scale
    result = scipy.optimize.linprog(alike.sizes, A_ub=-matrix, b_ub=-least)
    if result.x is None:
        return Bound(min(simple, 1.0), regular=False)
    covered = result.x * max(float((least / (matrix @ result.x)).max()), 1.0)
    return Bound(min(float(alike.sizes @ covered) * scale, simple, 1.0), regular=False)


def expected_squared_error(noise: Array, prior: Array, graph: QueryGraph) -> float:
    """Mean squared distance of the reported from the true answer, without a remap.

    Euclidean where answers are numbers, summed over coordinates; squared graph distance
    elsewhere.
    """
    return float(prior @ (noise * _squared_distances(graph)).sum(axis=1))


def variances(noise: Array, graph: QueryGraph) -> Array:
    """The variance of the reported answer at every true one, shape (n, coordinates).

    Where answers are no numbers it is Fréchet's variance, the least mean squared graph distance
    to one answer, shape (n, 1).
    """
    points = graph.coordinates
    if points is None:
        frechet: Array = (noise @ graph.distances**2).min(axis=1)
        return frechet[:, None]
    mean = noise @ points
    return np.stack(
        [
            np.einsum("io,io->i", noise, (column - centre[:, None]) ** 2)
            for column, centre in zip(points.T, mean.T, strict=True)
        ],
        axis=1,
    )


def _squared_distances(graph: QueryGraph) -> Array:
    points = graph.coordinates
    if points is None:
        return graph.distances**2
    squared = np.zeros(graph.shape)
    for column in points.T:
        squared += (column[:, None] - column) ** 2
    return squared
