"""Clusters that need keys: machines reached by SSH, and a scheduler and workers started by hand."""

import os
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import recipes
import ssh
from processes import refused

import sweep
from sweep.cluster import specification
from sweep.store.records import Status

pytestmark = pytest.mark.slow
PAGE = "docs/how-to/ssh.md"
SECONDS = 300.0


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
    end = time.monotonic() + SECONDS
    while (left := ours("distributed.cli.dask_spec") - before) and time.monotonic() < end:
        time.sleep(0.5)
    assert not left


def test_a_scheduler_and_workers_started_by_hand(keys, small, tmp_path):
    scheduler, worker = recipes.commands(PAGE)[3:]
    scheduler = scheduler.replace("--host node1", "--host 127.0.0.1 --port 0 --no-dashboard")
    scheduler += f" --scheduler-file {tmp_path}/where.json"
    worker = worker.replace("tls://node1:8786", f"--scheduler-file {tmp_path}/where.json")
    with ExitStack() as stack:
        for line in (scheduler, worker.replace("--nworkers 8", "--nworkers 2")):
            command = [sys.executable, "-m", "distributed.cli.dask_" + line.split()[1]]
            process = subprocess.Popen(
                [*command, *shlex.split(line)[2:]],
                env={**os.environ, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"},
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        address = recipes.scheduler_address(tmp_path / "where.json", SECONDS)
        recipe = recipes.printed(PAGE, "address: tls").replace("tls://node1:8786", address)
        (tmp_path / "cluster.yaml").write_text(recipe)
        spec = specification.load(tmp_path / "cluster.yaml")
        dataset = sweep.run(small(), tmp_path / "s", cluster=spec, patience=SECONDS)
        refused(specification.ClusterSpec(address=address, patience=5), "cannot be reached")
    assert (dataset.status == Status.OK).all()
