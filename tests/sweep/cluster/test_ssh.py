"""Clusters that need keys: machines reached by SSH, and a scheduler and workers started by hand."""

import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import recipes
import ssh
from processes import refused, until

import sweep
from sweep.cluster import specification
from sweep.store.records import Status

pytestmark = pytest.mark.slow
PAGE = "docs/how-to/ssh.md"


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """A folder with the keys that the page's commands make."""
    monkeypatch.chdir(tmp_path)
    for line in recipes.commands(PAGE)[:3]:
        subprocess.run(shlex.split(line), check=True, capture_output=True)


def ours(word):
    """Processes with this text in their command line."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word in path.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                found.add(path.parent.name)
    return found


@pytest.mark.skipif(bool(ssh.missing()), reason=ssh.missing())
def test_machines_reached_by_ssh(keys, small, tmp_path):
    pytest.importorskip("asyncssh", reason="no asyncssh (the extra ssh)")
    before = ours("distributed.cli.dask_spec")
    with ssh.running(tmp_path / "ssh") as options:
        recipe = recipes.with_kwargs(
            recipes.printed(PAGE, "SSHCluster"),
            tmp_path / "cluster.yaml",
            hosts=["127.0.0.1", "127.0.0.1", "127.0.0.1"],
            worker_options={"n_workers": 1, "nthreads": 1, "death_timeout": 300},
            connect_options=options,
            remote_python=shlex.quote(sys.executable),  # Dask puts it into a shell's line as it is
        )
        heard = []
        dataset = sweep.run(
            small(), tmp_path / "s", cluster=specification.load(recipe), listen=heard.append
        )
    assert (dataset.status == Status.OK).all()
    assert not [event for event in heard if type(event).__name__ == "Warned"]
    until(lambda: not ours("distributed.cli.dask_spec") - before)


def test_a_scheduler_and_workers_started_by_hand(keys, small, tmp_path, processes):
    scheduler, worker = recipes.commands(PAGE)[3:]
    address = processes.scheduler(*scheduler.removeprefix("dask scheduler --host node1 ").split())
    worker = worker.replace("tls://node1:8786", address).replace("--nworkers 8", "--nworkers 2")
    processes.worker(*worker.split()[2:])
    recipe = recipes.printed(PAGE, "address: tls").replace("tls://node1:8786", address)
    (tmp_path / "cluster.yaml").write_text(recipe)
    spec = specification.load(tmp_path / "cluster.yaml")
    dataset = sweep.run(small(), tmp_path / "s", cluster=spec, patience=300.0)
    refused(specification.ClusterSpec(address=address, patience=5), "cannot be reached")
    assert (dataset.status == Status.OK).all()
