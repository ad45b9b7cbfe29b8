"""Workers on machines of their own: one cut off and back, some without the shared disk."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager

import machines
import pytest
import recipes
from distributed import Security
from faults import Fault, preloaded, search_path
from processes import until

import sweep
from sweep.cluster import clusters, specification
from sweep.store.records import Status

MISSING = machines.missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
SECONDS = 300.0
CELLS, FIRST = 240, 40
"""How many there are, and how many of them each machine solves before it waits for the gate."""
QUICK = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical",
}


@contextmanager
def scheduler(folder):
    """The options with which workers find a scheduler that only they and we can use."""
    with ExitStack() as stack:
        made = Security.temporary()
        files = {"ca": folder / "cert.pem", "cert": folder / "cert.pem", "key": folder / "key.pem"}
        files["cert"].write_text(made.tls_ca_file)
        files["key"].write_text(made.tls_client_key)
        tls = " ".join(
            f"--tls-{name} {files[key]}"
            for name, key in (("ca-file", "ca"), ("cert", "cert"), ("key", "key"))
        )
        place = folder / "scheduler.json"
        options = f"--protocol tls --no-dashboard --scheduler-file {place} {tls}"
        started(
            stack,
            f"{sys.executable} -m distributed.cli.dask_scheduler "
            f"--host {machines.HOST} --port 0 {options}".split(),
        )
        address = recipes.scheduler_address(place, SECONDS)
        named = ", ".join(f"{name}: {path}" for name, path in files.items())
        (folder / "cluster.yaml").write_text(f"address: {address}\nsecurity: {{{named}}}\n")
        yield stack, f"{address} --nthreads 1 --no-dashboard --death-timeout 300 {tls}"


def started(stack, command):
    process = subprocess.Popen(
        command,
        env={**os.environ, **QUICK, "PYTHONPATH": search_path()},
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)


def worker(options, before="true"):
    return f"{before} && exec {sys.executable} -m distributed.cli.dask_worker {options}"


def experiment(folder, replicates):
    """Its file, in that folder."""
    (folder / "x.yaml").write_text(
        "reference: IP\nblocks:\n  - {workload: {name: prefix, d: 4}, mechanism: IP, replicates: "
        f"{replicates}}}\n"
    )
    return folder / "x.yaml"


def begun(folder, replicates):
    """The command, in that folder."""
    experiment(folder, replicates)
    words = ["run", "x.yaml", "--store", "disk/s", "--cluster", "cluster.yaml"]
    command = [sys.executable, "-m", "sweep.cli", *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(command):
    try:
        output, errors = command.communicate(timeout=SECONDS)
    finally:
        command.kill()
    assert (command.returncode, errors) == (0, ""), output + errors
    return output


def counted(records, store):
    return Counter(record.cell for record in records(store) if record.status is Status.OK)


def test_a_machine_that_is_cut_off_and_comes_back(tmp_path, records):
    """Dask ends a worker that has lost its scheduler, so it takes another one."""
    with machines.joined(2) as names, scheduler(tmp_path) as (stack, options):

        def start_worker(name):
            started(stack, machines.on(name, worker(f"{options} --preload {preloads[name]}")))

        preloads = {name: waiting_in(tmp_path / name) for name in names}
        solves = {name: tmp_path / name / "fault-0" for name in names}
        for name in names:
            start_worker(name)
        client = stack.enter_context(
            clusters.connected(specification.load(tmp_path / "cluster.yaml"))
        )
        until(lambda: len(client.nthreads()) == 2)
        command = begun(tmp_path, CELLS)
        stack.callback(command.kill)
        until(lambda: all(map(begins_to_wait, solves.values())), command)
        machines.cut(names[1])
        until(lambda: len(client.nthreads()) == 1, command)
        before = solves[names[1]].stat().st_size
        machines.join(names[1])
        start_worker(names[1])
        until(lambda: solves[names[1]].stat().st_size > before, command)
        (tmp_path / "gate").touch()
        ended(command)
    assert len(counted(records, tmp_path / "disk" / "s")) == CELLS
    assert (sweep.open(tmp_path / "disk" / "s").status == Status.OK).all()


def waiting_in(folder):
    """What a machine's workers preload; they count in that folder."""
    folder.mkdir()
    gate = folder.parent / "gate"
    return preloaded(folder, Fault("wait", "IP", first=FIRST, until=str(gate)))


def begins_to_wait(begun):
    return begun.exists() and begun.stat().st_size > FIRST


@pytest.mark.parametrize("copied", [False, True], ids=["no-store", "a-copy-of-the-store"])
def test_machines_without_the_shared_disk(client, tmp_path, records, copied):
    disk = tmp_path / "disk"
    disk.mkdir()
    sweep.run(experiment(tmp_path, 5), disk / "s", client)
    fill = f"cp -r {disk} {tmp_path}/copy && mount -t tmpfs none {disk}"
    if copied:
        fill += f" && cp -r {tmp_path}/copy/s {disk}"
    with machines.joined(1) as (one,), scheduler(tmp_path) as (stack, options):
        started(stack, machines.on(one, worker(options, before=fill)))
        output = ended(begun(tmp_path, 40))
    assert output.count("does not share the disk of store") == 1
    assert set(counted(records, disk / "s").values()) == {1}
    assert len(counted(records, disk / "s")) == 40
    assert (sweep.open(disk / "s").status == Status.OK).all()
