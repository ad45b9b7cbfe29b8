"""Priors on the answers of a query graph, and the test for ε-regular priors (POST 2013).

Φ is the matrix of exp(-ε distance) over all pairs of answers; see `constraints`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from workloads.errors import WorkloadError
from workloads.given import load
from workloads.graphs import Ends, QueryGraph
from workloads.operators import Array
from workloads.parameters import PriorText, nearest

_EQUAL = 1e-10
"""Relative difference up to which two sums are treated as equal.

A sum of a million terms has a rounding error of at most 1e-10; sums that differ by less are merged,
and `weights` is then off by as little.
"""


@dataclass(frozen=True, eq=False)
class Classes:
    """An equitable partition of n answers into k classes.

    The rows of Φ for two answers of the same class have equal sums over every class. If the prior
    is constant on every class and ``y @ Φ = prior`` has a solution y, there is therefore a solution
    of the same total that is constant on every class, and k unknowns suffice.

    Attributes
    ----------
    of : numpy.ndarray of int, shape (n,)
        The index of each answer's class.
    """

    of: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of answers in each class, shape (k,)."""
        return np.bincount(self.of)

    @property
    def first(self) -> NDArray[np.int64]:
        """The index of the first answer of each class, shape (k,)."""
        return np.unique(self.of, return_index=True)[1]

    def sums(self, rows: Array) -> Array:
        """Return the sums of each row's entries over every class, shape (len(rows), k)."""
        order = np.argsort(self.of, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        return np.asarray(np.add.reduceat(rows[:, order], starts, axis=1))

    def reduced(self, phi: Array) -> Array:
        """Φ reduced to the classes, shape (k, k): one row per class, summed over every class."""
        return self.sums(phi[self.first])


def classes(phi: Array, prior: Array) -> Classes:
    """Return the coarsest equitable partition with a constant prior on each class.

    Colour refinement finds the partition; each round takes O(n²). If rounding errors make the sums
    ambiguous, every answer becomes a class of its own.

    Parameters
    ----------
    phi : numpy.ndarray, shape (n, n)
        The matrix Φ, symmetric and non-negative.
    prior : numpy.ndarray, shape (n,)
        The prior, non-negative.
    """
    partition = Classes(_split(np.zeros(len(prior), dtype=np.int64), prior))
    random = np.random.default_rng(0)
    while True:
        # split classes whose answers have different sums over some class; one random combination
        # of the k sums tells them apart with probability 1
        sums = partition.sums(phi)
        finer = Classes(_split(partition.of, sums @ random.random(sums.shape[1])))
        if finer.of.max() == partition.of.max():
            # stable: within each class, the sums over every class must be equal, up to rounding
            spread = np.abs(sums - sums[partition.first][partition.of]).max()
            alone = Classes(np.arange(len(prior), dtype=np.int64))
            return partition if spread <= 10 * _EQUAL * sums.max() else alone
        partition = finer


def _split(of: NDArray[np.int64], values: Array) -> NDArray[np.int64]:
    """Split every class where its sorted values jump, and return each answer's new class."""
    order = np.lexsort((values, of))
    apart = np.diff(values[order]) > _EQUAL * np.abs(values).max()
    new = (np.diff(of[order]) > 0) | apart
    parted = np.empty_like(of)
    parted[order] = np.concatenate([[0], np.cumsum(new)])
    return parted


UNIFORM = PriorText("uniform")

_SUM = 1e-9
"""Largest deviation from 1 of a prior's sum: probabilities written with nine decimals pass."""
_SUPPORT = 1e-9
"""Least entry, relative to the prior, of a linear program's solution that is not rounding.

The tolerances of scipy's solver are 1e-7; what it sets to zero is exactly zero at a vertex.
"""
_RESIDUAL = 1e-10
"""Largest residual of a refined solution, relative to the prior; beyond it, there is none."""
_SINGULAR = 1e-11
"""Reciprocal condition number below which Φ is singular.

Above it, the solution has at least four correct digits in double precision.
"""
_STREAM = 0x9210125
"""Makes the random numbers independent of those that others draw with the same seed."""


def constraints(graph: QueryGraph, epsilon: float) -> Array:
    """Return the matrix Φ with entries ``exp(-epsilon * distance)``, shape (n, n) (Definition 4).

    Raises
    ------
    WorkloadError
        If ε is not positive and finite.
    """
    if not 0 < epsilon < math.inf:
        raise WorkloadError(f"epsilon is {epsilon}; expected a positive finite number")
    return np.exp(-epsilon * graph.distances)


def weights(phi: Array, prior: Array, alike: Classes | None = None) -> Array | None:
    """Return a solution y of ``y @ phi = prior``, non-negative if that is possible.

    Parameters
    ----------
    phi : numpy.ndarray, shape (n, n)
        The symmetric matrix Φ of `constraints`.
    prior : numpy.ndarray, shape (n,)
        The prior, or any other non-negative vector.
    alike : Classes, optional
        An equitable partition with a constant prior on each class; `classes` finds it by default.

    Returns
    -------
    numpy.ndarray, shape (n,), or None
        The unique y if Φ is invertible. If Φ is singular, a non-negative y of least sum, found by
        linear programming and refined by least squares, or None if there is no such y.
    """
    partition = classes(phi, prior) if alike is None else alike
    solution = solved(partition.reduced(phi), prior[partition.first], partition.sizes)
    return None if solution is None else solution[partition.of]


def solved(matrix: Array, vector: Array, sizes: Ends) -> Array | None:
    """Solve ``matrix @ y = vector``: the equation of `weights` with one unknown for each class.

    Parameters
    ----------
    matrix : numpy.ndarray, shape (k, k)
        Φ reduced to the classes.
    vector : numpy.ndarray, shape (k,)
        The prior at one answer of each class.
    sizes : numpy.ndarray of int, shape (k,)
        Number of answers in each class.

    Returns
    -------
    numpy.ndarray, shape (k,), or None
        The value of y on each class, unique or of least sum as in `weights`; None if the matrix is
        singular and there is no non-negative y.
    """
    # 1. If Φ is regular, its LU factors give the unique solution.
    lower_upper, pivots, _ = scipy.linalg.lapack.dgetrf(matrix)
    reciprocal, _ = scipy.linalg.lapack.dgecon(lower_upper, float(np.abs(matrix).sum(axis=0).max()))
    if reciprocal > _SINGULAR:
        unique, _ = scipy.linalg.lapack.dgetrs(lower_upper, pivots, vector)
        # the relative error of a solution is a small multiple of eps times the condition number
        return _cleaned(unique, 16 * np.finfo(float).eps / reciprocal)
    # 2. Otherwise, a linear program finds the solution y >= 0 of least sum.
    scale = float(vector.max())
    result = scipy.optimize.linprog(sizes, A_eq=matrix, b_eq=vector / scale)
    if result.x is None or result.status != 0:
        return None
    # 3. It says which entries are positive; least squares on these is exact to rounding.
    support = np.flatnonzero(result.x > _SUPPORT)
    on_support = np.zeros(len(vector))
    on_support[support] = np.linalg.lstsq(matrix[:, support], vector, rcond=None)[0]
    cleaned = _cleaned(on_support, _SUPPORT)
    residual = float(np.abs(matrix @ cleaned - vector).max())
    return cleaned if residual <= _RESIDUAL * scale and bool(cleaned.min() >= 0) else None


def _cleaned(y: Array, accuracy: float) -> Array:
    """Return the vector y, in which 0 replaces every entry that is negative only by rounding."""
    rounding = (y < 0) & (y > -accuracy * np.abs(y).max())
    return np.asarray(np.where(rounding, 0.0, y))


def is_regular(prior: ArrayLike, graph: QueryGraph, epsilon: float) -> bool:
    """Return whether a prior is ε-regular: equal to ``y @ Φ`` for some y >= 0 (Definition 5).

    Raises
    ------
    WorkloadError
        If ε is not positive and finite, or the prior is not a distribution on the answers.
    """
    y = weights(constraints(graph, epsilon), make(prior, graph, epsilon))
    return y is not None and bool(y.min() >= 0)


def uniform(graph: QueryGraph) -> Array:
    """Return the uniform prior: all answers are equally likely."""
    return np.full(graph.n, 1.0 / graph.n)


def corner(graph: QueryGraph, epsilon: float, answer: int) -> Array:
    """Return the corner prior of an answer: its row of Φ over the row's sum (Definition 6)."""
    if not 0 <= answer < graph.n:
        raise WorkloadError(
            f"prior 'corner:{answer}': workload {graph.name!r} has answers 0 to {graph.n - 1}"
        )
    row: Array = constraints(graph, epsilon)[answer]
    return row / float(row.sum())


def regular_share(graph: QueryGraph, epsilon: float) -> float:
    """Return the volume of the ε-regular priors as a fraction of the volume of all priors.

    The fraction is ``|det(Φ)|`` divided by the product of the row sums of Φ, since the ε-regular
    priors are the simplex of the corner priors (Proposition 4). A fraction of 0 means that this
    simplex has a lower dimension.
    """
    phi = constraints(graph, epsilon)
    sign, log_volume = np.linalg.slogdet(phi)
    return float(abs(sign) * np.exp(log_volume - np.log(phi.sum(axis=1)).sum()))


def random_regular(graph: QueryGraph, epsilon: float, seed: int = 0) -> Array:
    """Return a convex combination of the corner priors, drawn uniformly from their simplex."""
    phi = constraints(graph, epsilon)
    mixed = np.random.default_rng([seed, _STREAM]).dirichlet(np.ones(graph.n))
    prior: Array = (mixed / phi.sum(axis=1)) @ phi
    return prior / float(prior.sum())


def make(prior: ArrayLike, graph: QueryGraph, epsilon: float) -> Array:
    """Make a prior on the answers of a graph from the prior's name or its probabilities.

    Parameters
    ----------
    prior : str or array_like, shape (n,)
        Either the probabilities, or a key of `RULES`, with a colon and an argument if the rule
        needs one ("corner:3").
    epsilon : float
        The ε of corner and random priors; other priors do not depend on it.

    Returns
    -------
    numpy.ndarray, shape (n,)
        The probabilities, non-negative, with sum 1.

    Raises
    ------
    WorkloadError
        If the name or its argument is not valid, or the probabilities are not n
        non-negative numbers with sum 1.
    """
    written = prior if isinstance(prior, str) else "given"
    name, _, rest = written.partition(":")
    if name not in RULES:
        raise WorkloadError(f"no prior is called {name!r}; {nearest(name, RULES)}")
    try:
        if isinstance(prior, str):
            values = _BUILD[name](graph, epsilon, rest.strip())
        else:
            values = np.asarray(prior, dtype=np.float64)
    except WorkloadError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise WorkloadError(f"prior {written!r} cannot be read ({error}); {RULES[name]}") from None
    if values.shape != (graph.n,):
        raise WorkloadError(
            f"prior {written!r} has shape {values.shape}; workload {graph.name!r} needs one "
            f"probability for each of its {graph.n} answers"
        )
    total = float(values.sum())
    if not (np.all(values >= 0) and abs(total - 1) <= _SUM):
        raise WorkloadError(
            f"prior {written!r} has entries from {values.min():g} to {values.max():g} and sum "
            f"{total:g}; expected non-negative probabilities of sum 1"
        )
    return values / total


def path_of(prior: str) -> str | None:
    """Return the path of the file from which a prior is read; None if the prior needs no file."""
    name, _, rest = prior.partition(":")
    return rest.strip() if name == "file" else None


def _numbers(text: str) -> Array:
    return np.array([float(number) for number in text.split(",")])


def _product(graph: QueryGraph, epsilon: float, text: str) -> Array:
    product = factor = _numbers(text)
    while 1 < len(product) < graph.n:
        product = np.outer(product, factor).ravel()
    return product


RULES: Mapping[str, str] = {
    "uniform": "'uniform': all answers equally likely",
    "corner": "'corner:3': the corner prior of answer 3 (counted from 0)",
    "random": "'random:7': a random ε-regular prior, seed 7",
    "given": "'given:0.5,0.25,0.25': one probability for each answer",
    "product": "'product:0.3,0.7': independent individuals with these probabilities each, "
    "for answers that are all databases",
    "file": "'file:prior.npy': one probability for each answer, from a .npy file",
}
"""For each name of a prior, an example of how to write it and what the example means."""

_BUILD: Mapping[str, Callable[[QueryGraph, float, str], Array]] = {
    "uniform": lambda graph, epsilon, text: uniform(graph),
    "corner": lambda graph, epsilon, text: corner(graph, epsilon, int(text or 0)),
    "random": lambda graph, epsilon, text: random_regular(graph, epsilon, int(text or 0)),
    "given": lambda graph, epsilon, text: _numbers(text),
    "product": _product,
    "file": lambda graph, epsilon, text: np.asarray(load(text), dtype=np.float64),
}
