"""Drawing the errors of all queries, without the domain.

For each subset S a normal table over the cells of its marginal, made to sum to zero along
each block, has variance w_S / N_S in every cell; a marginal T gets the tables of the subsets
within it, spread over its other attributes and scaled by sqrt(s_S N_S) / N_T. Floating-point
draws are for experiments: a production release needs an exact sampler.
"""

from math import prod

import numpy as np

from solvers.marginals.structure import Structure
from workloads.operators import Array


def draw_errors(
    structure: Structure, subset_variances: Array, n: int, rng: np.random.Generator
) -> Array:
    """Draw n vectors of the errors of all queries.

    Parameters
    ----------
    structure : Structure
        The marginals, listed.
    subset_variances : numpy.ndarray, shape (number of subsets,)
        s_S.
    n : int
        How many.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    numpy.ndarray, shape (n, m)
    """
    closure, operator = structure.closure, structure.operator
    errors = [
        np.zeros((n, *(operator.sizes[i] for i in marginal))) for marginal in operator.subsets
    ]
    by_subset = closure.incidence.tocsc()
    for subset, variance in enumerate(subset_variances):
        blocks = [closure.blocks[b] for b in closure.subset(subset)]
        attributes = sorted(i for block in blocks for i in block)
        table = rng.standard_normal((n, *(operator.sizes[i] for i in attributes)))
        for block in blocks:
            axes = tuple(1 + attributes.index(i) for i in block)
            table -= table.mean(axis=axes, keepdims=True)
        table *= np.sqrt(variance * prod(operator.sizes[i] for i in attributes))
        for at in by_subset.indices[by_subset.indptr[subset] : by_subset.indptr[subset + 1]]:
            marginal = operator.subsets[at]
            spread = [operator.sizes[i] if i in attributes else 1 for i in marginal]
            errors[at] += table.reshape(n, *spread) / operator.marginal_sizes[at]
    return np.concatenate([table.reshape(n, -1) for table in errors], axis=1)
