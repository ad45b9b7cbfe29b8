"""What every noise matrix must pass before it is returned."""

import numpy as np

from solvers.errors import SolveFailedError
from workloads import QueryGraph
from workloads.operators import Array

ROUNDING = 1e-11
"""Relative: what exponentials and products of probabilities may be off by."""

_LEAST = 1e-290


def slack(noise: Array, phi: Array) -> Array:
    """``1 - Φ diag(X)``, shape (n,): zero exactly for tight-constraints mechanisms (Lemma 3).

    Row i is also the sum of ``X[i, k] - Φ[i, k] X[k, k]``, each term non-negative in an
    ε-differentially private X: so it bounds how far X is from a tight-constraints mechanism.
    """
    return 1.0 - phi @ noise.diagonal()


def check_noise(
    mechanism: str, noise: Array, graph: QueryGraph, epsilon: float, phi: Array
) -> None:
    """Check row sums, Lemma 1 along every edge and Lemma 3.

    Parameters
    ----------
    noise : numpy.ndarray, shape (n, n)
        X: row i is the distribution of the output when i is the answer.
    phi : numpy.ndarray, shape (n, n)
        Of `workloads.priors.constraints`.

    Raises
    ------
    SolveFailedError
        If a row is no distribution, ``X[i, o] > exp(ε) X[h, o]`` for adjacent i and h, or the
        slack and the distance from a tight-constraints mechanism disagree.
    """
    off = float(np.abs(noise.sum(axis=1) - 1).max())
    if not (np.all(np.isfinite(noise)) and noise.min() >= 0 and off <= ROUNDING * graph.n):
        raise SolveFailedError(
            f"{mechanism}: a row of the noise matrix is not a distribution (sum off by {off:.3g}, "
            f"least entry {noise.min():.3g})"
        )
    shrunk = np.exp(-epsilon) * (1 - ROUNDING)
    for ends in (graph.edges, graph.edges[::-1]):
        for here, there in zip(*(np.array_split(end, 64) for end in ends), strict=True):
            broken = shrunk * noise[here] > noise[there] + _LEAST
            if broken.any():
                edge, output = np.argwhere(broken)[0]
                raise SolveFailedError(
                    f"{mechanism}: not {epsilon:g}-differentially private: answers "
                    f"{graph.labels[here[edge]]!r} and {graph.labels[there[edge]]!r} give output "
                    f"{graph.labels[output]!r} with probabilities {noise[here[edge], output]:.9g} "
                    f"and {noise[there[edge], output]:.9g}"
                )
    distance = (noise - phi * noise.diagonal()).sum(axis=1)
    left = slack(noise, phi)
    if left.min() < -ROUNDING * graph.n or np.abs(distance - left).max() > ROUNDING * graph.n:
        raise SolveFailedError(f"{mechanism}: Lemma 3 fails: slacks from {left.min():.3g}")
