"""A cluster of two processes for all tests of the sweep, and small experiments."""

import dask
import pytest
from distributed import Client, LocalCluster

from sweep import cluster, journal
from sweep.experiment import parse_experiment
from sweep.outcome import CellRecord


@pytest.fixture(scope="session")
def client():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": cluster._LOST_AFTER}),
        LocalCluster(**{**cluster.LOCAL.kwargs, "n_workers": 2}) as two,
        Client(two) as connected,
    ):
        yield connected


@pytest.fixture
def small():
    """IP and GM on prefix workloads: 4 cells, certified optima unknown to the methods."""

    def make(d="[2, 4]", method="[IP, GM]", more=""):
        return parse_experiment(
            "title: small\nreference: IP\ndelta: [1.0e-5]\nepsilon: [1.0]\n"
            f"{more}\nblocks:\n  - workload: {{name: prefix, d: {d}}}\n    method: {method}\n",
            "small.yaml",
        )

    return make


@pytest.fixture
def records():
    """All cell records of a store's journal, repeated ones too."""

    def read(store):
        found = []
        for path in sorted((store / "journal").glob("*.jsonl")):
            found += [r for r in journal.read_segment(path) if isinstance(r, CellRecord)]
        return found

    return read
