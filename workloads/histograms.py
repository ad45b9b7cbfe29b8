"""Generated histograms, for mechanisms whose error depends on the data.

The data sets of KDD 2016 (Search Log, Net Trace, Social Network, UCI Adult) are not included. The
histograms with these names are synthetic: each imitates the features that make the real data set
easy or hard to summarise, but contains none of its counts. Only ``random-uniform`` is defined as in
the paper.
"""

import math

import numpy as np

from workloads.errors import WorkloadError
from workloads.operators import Array
from workloads.parameters import check_size, nearest

_STREAM = 0x815706
"""Makes the random numbers independent of those that a workload draws with the same seed."""


def make(name: str, d: int, seed: int = 0) -> Array:
    """Make the named histogram over d domain cells.

    Returns
    -------
    numpy.ndarray, shape (d,)
        One number for each domain cell.

    Raises
    ------
    WorkloadError
        If the name is unknown, or the seed is negative.
    """
    if name not in _BUILD:
        raise WorkloadError(f"no histogram is called {name!r}; {nearest(name, _BUILD)}")
    check_size(f"histogram {name!r}: seed", seed, 0, math.inf)
    return _BUILD[name](np.random.default_rng([seed, _STREAM]), d)


def _random_uniform(rng: np.random.Generator, d: int) -> Array:
    """Independent uniform numbers of mean 0 and variance 10 (KDD 2016)."""
    half = np.sqrt(30.0)
    return np.asarray(rng.uniform(-half, half, d), dtype=np.float64)


def _counts(rng: np.random.Generator, shape: Array, records: int) -> Array:
    drawn = rng.poisson(records * shape / shape.sum())
    return np.asarray(drawn, dtype=np.float64)


def _power_law(d: int, exponent: float) -> Array:
    return np.asarray(np.arange(1.0, d + 1) ** -exponent, dtype=np.float64)


def _search_log(rng: np.random.Generator, d: int) -> Array:
    """About 300 000 records: periodic waves with six bursts at random places."""
    place = np.arange(d) / d
    shape: Array = 1.2 + np.sin(2 * np.pi * 16 * place)
    for centre, height in zip(rng.random(6), rng.exponential(8.0, 6), strict=True):
        shape += height * np.exp(-40 * np.abs(place - centre))
    return _counts(rng, shape, 300_000)


def _net_trace(rng: np.random.Generator, d: int) -> Array:
    """About 25 000 records: a few large counts at random places, and mostly empty cells."""
    return _counts(rng, rng.permutation(_power_law(d, 1.5)), 25_000)


def _social_network(rng: np.random.Generator, d: int) -> Array:
    """About 11 000 records: a decreasing power law, so that neighbouring counts are similar."""
    return _counts(rng, _power_law(d, 1.2), 11_000)


def _adult(rng: np.random.Generator, d: int) -> Array:
    """About 32 000 records: a skewed hump with regularly spaced spikes."""
    place = np.arange(d) / d
    shape = place * np.exp(-8 * place)
    shape[:: max(d // 16, 1)] *= 6
    return _counts(rng, shape + 1e-6, 32_000)


_BUILD = {
    "random-uniform": _random_uniform,
    "search-log": _search_log,
    "net-trace": _net_trace,
    "social-network": _social_network,
    "adult": _adult,
}
RULES = {name: str(build.__doc__).removesuffix(".") for name, build in _BUILD.items()}
"""A description of each histogram, by name."""
