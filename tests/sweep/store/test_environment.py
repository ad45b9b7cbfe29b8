"""Workers with other versions of libraries: refused, or let in and visible per cell."""

import numpy as np
import pytest
import scipy
from distributed import Client
from faults import Fault, preloaded
from processes import ended, until
from programs import installed
from written import replicated

import sweep
from sweep.store import environment
from sweep.store.records import Status

NUMERIC = environment.list_versions(environment.NUMERIC)


def test_the_versions_are_those_of_what_is_imported():
    assert f"numpy {np.__version__}, scipy {scipy.__version__}" in environment.list_versions()
    assert environment.list_versions().startswith(NUMERIC)


@pytest.fixture
def another_numpy(tmp_path):
    """A folder in which Python finds another version of numpy; the code is ours."""
    return installed(tmp_path / "path", "numpy", "99.0").parent


@pytest.mark.slow
def test_a_mixture_is_refused_or_visible_in_every_cell(processes, tmp_path, another_numpy, records):
    begun, gate = tmp_path / "fault-0", tmp_path / "gate"
    preload = preloaded(tmp_path, Fault("wait", "IP", until=str(gate)))
    address = processes.scheduler()
    processes.worker(address, "--preload", preload)
    processes.worker(address, "--preload", preload, path=another_numpy)
    with Client(address) as client:
        client.wait_for_workers(2, timeout=300)
        client.run(exec, "import sweep.worker.checks")  # to answer the command in time
    theirs = NUMERIC.replace(f"numpy {np.__version__}", "numpy 99.0")

    said = ended(processes.run(replicated(60)), 2)
    assert f"has other versions ({theirs}" in said
    assert "or give --allow-mixed" in said
    assert not records(tmp_path / "s")
    assert not begun.exists()

    running = processes.run(replicated(60), "--allow-mixed")
    until(lambda: begun.exists() and begun.stat().st_size == 2, running)
    gate.touch()
    ended(running)
    dataset = sweep.open(tmp_path / "s")
    assert (dataset.status == Status.OK).all()
    assert set(dataset.versions.values.ravel()) == {theirs, NUMERIC}
