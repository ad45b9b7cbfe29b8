"""Random connected query graphs, and the definition of an ε-private noise matrix."""

import itertools

import numpy as np
from hypothesis import strategies as st

from workloads.graphs import from_edges


@st.composite
def connected_graphs(draw, most=7):
    """A random tree with random further edges."""
    n = draw(st.integers(2, most))
    tree = [(draw(st.integers(0, node - 1)), node) for node in range(1, n)]
    others = [pair for pair in itertools.combinations(range(n), 2) if pair not in tree]
    more = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    return from_edges(tree + more)


@st.composite
def distributions(draw, n):
    """Any prior on n answers, zeros included."""
    raw = np.array(draw(st.lists(st.integers(0, 20), min_size=n, max_size=n).filter(any)), float)
    return raw / raw.sum()


def least_privacy(graph, noise):
    """The least ε for which the matrix is ε-private: over edges and outputs, log of a ratio."""
    relation = graph.adjacency.toarray()
    worst = 0.0
    for i, h in zip(*np.nonzero(relation), strict=True):
        for here, there in zip(noise[i], noise[h], strict=True):
            if here > 0:
                worst = max(worst, np.log(here / there) if there > 0 else np.inf)
    return worst


def best_guess(noise, prior):
    """The utility by the definition: the best of all guesses for every output."""
    return sum(max(p * x for p, x in zip(prior, column, strict=True)) for column in noise.T)
