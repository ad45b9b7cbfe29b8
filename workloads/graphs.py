"""The query graph: the finitely many answers of a query, and which of them are adjacent."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from workloads.errors import WorkloadError
from workloads.operators import Array, refuse_above_limit
from workloads.parameters import readable

Relation = NDArray[np.bool_]
"""Adjacency matrix of n answers, shape (n, n)."""
Ends = NDArray[np.integer]
"""Indices of answers, counted from 0."""


@dataclass(frozen=True, eq=False)
class QueryGraph:
    """The graph of a query: its nodes are the answers, and edges join adjacent answers.

    Two answers are adjacent if changing the data of one individual can turn one answer into the
    other (Definition 3 of POST 2013). The graph must be undirected, connected and without loops, as
    is the graph of any query on databases of a fixed number of individuals.

    Attributes
    ----------
    name : str
        The family's name, for instance ``"counting"``.
    adjacency : scipy.sparse.csr_array of bool, shape (n, n)
        Which answers are adjacent: a symmetric matrix with an empty diagonal.
    labels : tuple of str
        The n answers as texts.
    grid : tuple of int, optional
        The number of values of each coordinate, if the answers are the integer points of a box
        whose coordinates start at 0; the last coordinate varies fastest in the order of the
        answers. None for any other query graph.
    """

    name: str
    adjacency: "scipy.sparse.csr_array"
    labels: tuple[str, ...]
    grid: tuple[int, ...] | None = None
    params: Mapping[str, object] = field(default_factory=dict)

    target_count: ClassVar[int] = 1
    """Number of targets: a single target bounds the largest variance of any answer."""

    def __post_init__(self) -> None:
        n, adjacency = len(self.labels), self.adjacency
        sound = n > 1 and adjacency.shape == (n, n) and not adjacency.diagonal().any()
        if not sound or (adjacency.astype(np.int8) - adjacency.T.astype(np.int8)).count_nonzero():
            raise WorkloadError(
                f"workload {self.name!r}: {n} answers and an adjacency of shape {adjacency.shape}; "
                "expected at least two answers, a row and a column for each, no loops, and a "
                "symmetric matrix"
            )
        parts, part = scipy.sparse.csgraph.connected_components(adjacency, directed=False)
        if parts > 1:
            raise WorkloadError(
                f"workload {self.name!r}: no path leads from answer {self.labels[0]!r} to "
                f"{self.labels[int(np.argmax(part != part[0]))]!r}; the graph of a query is "
                "connected; add the missing edges"
            )

    @property
    def n(self) -> int:
        """Number of answers."""
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, n) of a noise matrix, with a row and a column for each answer."""
        return (self.n, self.n)

    @cached_property
    def edges(self) -> tuple[Ends, Ends]:
        """The two ends of every edge, as two arrays of indices; every edge is listed once."""
        first, second = self.adjacency.nonzero()
        once = first < second
        return first[once], second[once]

    @cached_property
    def distances(self) -> Array:
        """The graph distance (least number of edges) between any two answers, shape (n, n).

        Raises
        ------
        WorkloadError
            If the matrix would take more than 8 GiB.
        """
        refuse_many_answers(self.name, self.n, "ask for fewer answers")
        shortest_path = scipy.sparse.csgraph.shortest_path
        return np.asarray(shortest_path(self.adjacency, directed=False, unweighted=True))

    @cached_property
    def coordinates(self) -> Array | None:
        """The answers as points with k coordinates, shape (n, k); None if ``grid`` is None."""
        if self.grid is None:
            return None
        return np.stack(np.unravel_index(np.arange(self.n), self.grid), axis=1).astype(np.float64)


def refuse_many_answers(name: str, answers: int, advice: str) -> None:
    """Raise WorkloadError if the matrix of distances between answers would exceed 8 GiB."""
    count = readable(answers)
    refuse_above_limit(answers * answers, f"workload {name!r}: {count} x {count}", advice)


def power(base: int, exponent: int) -> int:
    """Return ``base ** exponent``, but at most 10^300, so that no huge power is computed."""
    return base**exponent if exponent * math.log10(base) < 300 else 10**300


def from_relation(
    name: str,
    relation: Relation,
    labels: Iterable[object],
    grid: tuple[int, ...] | None = None,
) -> QueryGraph:
    """Make a query graph from its adjacency matrix.

    Parameters
    ----------
    relation : numpy.ndarray of bool, shape (n, n)
        Which answers are adjacent; the diagonal is ignored.
    labels : iterable of n objects
        The answers, whose labels are ``str(answer)``.
    grid : tuple of int, optional
        The number of values of each coordinate, if the answers are the integer points of a box; see
        `QueryGraph`.

    Raises
    ------
    WorkloadError
        If there are fewer than two answers, or the graph is not undirected and connected.
    """
    adjacency = scipy.sparse.csr_array(relation & ~np.eye(len(relation), dtype=bool))
    return QueryGraph(name, adjacency, tuple(map(str, labels)), grid=grid)


def from_edges(edges: Iterable[Sequence[object]], name: str = "edge-list") -> QueryGraph:
    """Make a query graph from pairs of adjacent answers.

    Parameters
    ----------
    edges : iterable of pairs
        Pairs of adjacent answers, whose labels are ``str(answer)``; a pair may be repeated.

    Returns
    -------
    QueryGraph
        The graph. Its answers are in numerical order if all of them are whole numbers, and in order
        of first appearance otherwise.

    Raises
    ------
    WorkloadError
        If an edge is not a pair or joins an answer to itself, there are too many answers, or the
        graph is not connected.
    """
    pairs: list[tuple[str, str]] = []
    for position, edge in enumerate(edges):
        ends = tuple(map(str, edge))
        if len(ends) != 2 or ends[0] == ends[1]:
            raise WorkloadError(
                f"workload {name!r}: edge {position} (counted from 0) is {list(edge)}; expected "
                "two different answers"
            )
        pairs.append((ends[0], ends[1]))
    labels = list(dict.fromkeys(label for pair in pairs for label in pair))
    if all(label.lstrip("-").isdecimal() for label in labels):
        labels.sort(key=int)
    number = {label: at for at, label in enumerate(labels)}
    refuse_many_answers(name, len(labels), "give fewer answers")
    relation = np.zeros((len(labels), len(labels)), dtype=bool)
    for first, second in pairs:
        relation[number[first], number[second]] = relation[number[second], number[first]] = True
    return from_relation(name, relation, labels)
