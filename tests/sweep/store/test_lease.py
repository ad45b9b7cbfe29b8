"""One driver at a time, whatever locks the file system has."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from unittest.mock import Mock

import pytest
from ledgers import check_in_use
from processes import until

import sweep
from sweep.errors import StoreError
from sweep.events import ClusterReady
from sweep.store import lease as leases
from sweep.store.lease import LEASE
from sweep.store.paths import DiskPath

FIRST, SECOND = f"{LEASE}000001", f"{LEASE}000002"


HOLDS = """
import sys, time
from sweep.store import lease, paths
with lease.held(paths.locate(sys.argv[1])):
    print("in", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(fresh):
    """Another process that holds the lease."""
    command = [sys.executable, "-c", HOLDS, str(fresh.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as started:
        assert started.stdout.readline() == b"in\n"
        yield started
        started.kill()


def aged(path, seconds):
    os.utime(path, (time.time() - seconds,) * 2)


def test_two_drivers_do_not_share_a_store(fresh):
    with fresh.locked():
        assert fresh.user.startswith(f"process {os.getpid()} on ")
        check_in_use(fresh, f"process {os.getpid()} on")
    assert fresh.user is None
    with fresh.locked():
        pass
    assert not any(name.startswith(LEASE) for name in os.listdir(fresh.path))


def test_another_process_is_kept_out_until_it_is_killed(fresh, other):
    check_in_use(fresh, f"process {other.pid} on")
    other.kill()
    until(lambda: fresh.user is None)  # though nobody has reaped the process yet
    assert other.returncode is None
    with fresh.locked():
        assert fresh.user.startswith(f"process {os.getpid()} on ")


@pytest.mark.parametrize("machine", ["this", "far"])
def test_a_lease_counts_until_it_is_not_renewed_for_two_minutes(fresh, other, machine):
    other.send_signal(signal.SIGSTOP)
    lease = fresh.path / FIRST
    if machine == "far":
        lease.write_text(json.dumps({**json.loads(lease.read_text()), "machine": machine}))
    aged(lease, 60)
    check_in_use(fresh, f"process {other.pid} on {machine if machine == 'far' else ''}")
    aged(lease, 200)
    with fresh.locked():
        assert fresh.user.startswith(f"process {os.getpid()} on ")


def test_the_process_of_another_user_has_not_ended(fresh, other, monkeypatch):
    refused = Mock(side_effect=PermissionError(errno.EPERM, "Operation not permitted"))
    monkeypatch.setattr(os, "kill", refused)
    check_in_use(fresh, f"process {other.pid} on")


def test_a_lease_is_kept_alive(fresh):
    with leases.held(fresh.path, beat_seconds=0.05):
        aged(fresh.path / FIRST, 200)
        before = (fresh.path / FIRST).stat().st_mtime
        until(lambda: (fresh.path / FIRST).stat().st_mtime > before)


OTHER = {"machine": "far", "process": 1, "nonce": "n"}


@pytest.mark.parametrize(
    ("content", "user"),
    [(json.dumps(OTHER).encode(), "process 1 on far"), (b"\xff", "another run"), (None, "another")],
)
@pytest.mark.parametrize("name", [SECOND, FIRST])  # numbers start again once all are removed
def test_a_lost_lease_is_reported(fresh, content, user, name):
    """Also if another run has taken it over during a long silence, and has since ended."""
    with leases.held(fresh.path, beat_seconds=0.01) as check:
        time.sleep(0.05)
        check()
        if content is None:
            (fresh.path / FIRST).unlink()
        else:
            (fresh.path / name).write_bytes(content)
        with pytest.raises(StoreError, match=f"was taken over by {user}"):
            until(check)
    found = fresh.path / name
    assert (found.read_bytes() if found.exists() else None) == content


def test_a_folder_that_cannot_be_read_for_a_while_is_not_lost(fresh, monkeypatch):
    seen, names = [], DiskPath.names

    def failing(folder):
        seen.append(folder)
        if len(seen) < 4:
            raise OSError(errno.ESTALE, "Stale file handle")
        return names(folder)

    with leases.held(fresh.path, beat_seconds=0.01) as check:
        monkeypatch.setattr(DiskPath, "names", failing)
        until(lambda: check() or len(seen) > 6)


def test_a_run_whose_store_was_taken_over_ends(client, small, tmp_path, monkeypatch):
    """It does not touch the dataset, which now belongs to another run."""
    store, taken = tmp_path / "s", []

    @contextmanager
    def lost(folder):
        def check():
            if taken:
                raise StoreError("taken over")

        yield check

    monkeypatch.setattr("sweep.runner.session.FLUSH_SECONDS", 0.0)

    def take_over(event):
        if isinstance(event, ClusterReady):
            taken.append((store / "results.zarr").readlink())

    sweep.run(small(), store, client)
    monkeypatch.setattr("sweep.store.folder.lease.held", lost)
    with pytest.raises(StoreError, match="taken over"):
        sweep.rerun(store, where="status == 'ok'", client=client, listen=take_over)
    assert (store / "results.zarr").readlink() == taken[0]


def test_of_two_runs_that_find_a_dead_lease_one_gets_the_store(fresh, monkeypatch):
    (fresh.path / FIRST).write_text(json.dumps(OTHER))
    aged(fresh.path / FIRST, 200)
    quicker, create = json.dumps(vars(leases.ourselves())).encode(), DiskPath.create

    def create_second(file, content):
        with suppress(FileExistsError):
            create(file, quicker)
        create(file, content)

    monkeypatch.setattr(DiskPath, "create", create_second)
    check_in_use(fresh, f"process {os.getpid()} on")
    assert (fresh.path / SECOND).read_bytes() == quicker


def test_other_errors_of_the_disk_are_sentences(fresh, monkeypatch):
    broken = Mock(side_effect=OSError(errno.EIO, "Input/output error"))
    with monkeypatch.context() as patched:
        patched.setattr("sweep.store.paths.os.fsync", broken)
        with pytest.raises(StoreError, match="Input/output error"), fresh.locked():
            pass
    with fresh.locked():
        pass
