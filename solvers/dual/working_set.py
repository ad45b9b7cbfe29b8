"""Working sets: the few pairs of neighbouring cells that a round of the dual is solved for."""

import numpy as np

from solvers.dual.programs import Weights
from solvers.neighbours import Pairs
from solvers.optimiser import BlocksPoint, Progress

_LEAST_WEIGHT = 1e-8
_NEW_SHARE = 0.05


def joined(pairs: Pairs, more: Pairs) -> Pairs:
    """The pairs, and those of the others that are not among them, behind them."""
    ordered = np.sort(more, axis=1)
    ordered = ordered[ordered[:, 0] < ordered[:, 1]]
    known = set(map(tuple, pairs.tolist()))
    fresh = [pair for pair in dict.fromkeys(map(tuple, ordered.tolist())) if pair not in known]
    return np.concatenate([pairs, np.array(fresh, dtype=np.intp).reshape(-1, 2)])


def following(
    pairs: Pairs, found: Pairs, kept: Pairs, result: Progress[BlocksPoint]
) -> tuple[Pairs, Weights | None]:
    """The next working set, without pairs of no weight, and the weights to begin with."""
    p = result.best.p / result.best.p.sum()
    needed = p > _LEAST_WEIGHT / len(pairs)
    needed[: len(kept)] = True
    old, new = pairs[needed], found[len(pairs) :]
    weights = np.concatenate([p[needed], np.full(len(new), _NEW_SHARE / max(len(new), 1))])
    return np.concatenate([old, new]), Weights(weights, result.best.q)
