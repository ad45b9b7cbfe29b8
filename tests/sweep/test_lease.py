"""One driver at a time, whatever locks the file system has."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from processes import until

import sweep
from sweep.errors import StoreError
from sweep.events import ClusterReady
from sweep.store import folder
from sweep.store import lease as leases
from sweep.store.lease import LEASE
from sweep.store.places import ChangedError, DiskPath


@pytest.fixture
def fresh(tmp_path):
    return folder.create(tmp_path / "s", "mine")


HOLDS = """
import sys, time
from sweep.store import lease, places
with lease.held(places.location(sys.argv[1])):
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


def elsewhere(path):
    """Give the lease to a process of another machine."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "m", "host": "far"}))


def test_two_drivers_do_not_share_a_store(fresh):
    with fresh.locked():
        assert fresh.user.startswith(f"process {os.getpid()} on ")
        with pytest.raises(StoreError, match=r"is in use by process \d+ on"), fresh.locked():
            pass
    assert fresh.user is None
    with fresh.locked():
        pass
    assert not (fresh.path / LEASE).exists()


def test_another_process_is_kept_out_until_it_is_killed(fresh, other):
    with pytest.raises(StoreError, match=f"in use by process {other.pid} on"), fresh.locked():
        pass
    other.send_signal(signal.SIGKILL)
    until(lambda: fresh.user is None)
    with fresh.locked():
        assert fresh.user.startswith(f"process {os.getpid()} on ")


def test_a_stopped_process_keeps_its_store(fresh, other):
    other.send_signal(signal.SIGSTOP)
    aged(fresh.path / LEASE, 200)
    with pytest.raises(StoreError, match=f"in use by process {other.pid} on"), fresh.locked():
        pass


def test_a_process_that_cannot_be_looked_at_counts_while_it_gives_signs(fresh, other, monkeypatch):
    """Processes of other users cannot be inspected on a machine that hides them."""
    other.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(leases, "_began", lambda process: leases._UNKNOWN)
    with pytest.raises(StoreError, match=f"in use by process {other.pid} on"), fresh.locked():
        pass
    aged(fresh.path / LEASE, 200)
    with fresh.locked():
        pass


def test_a_copy_of_a_store_in_use_is_free_once_nobody_touches_it(fresh, other, tmp_path):
    other.send_signal(signal.SIGSTOP)
    copy = folder.open_(shutil.copytree(fresh.path, tmp_path / "copy"))
    with pytest.raises(StoreError, match=f"in use by process {other.pid} on"), copy.locked():
        pass
    for place in (fresh, copy):
        aged(place.path / LEASE, 200)
    with copy.locked():
        assert copy.user.startswith(f"process {os.getpid()} on ")
    assert fresh.user.startswith(f"process {other.pid} on ")


@pytest.mark.parametrize(("seconds", "free"), [(60, False), (200, True)])
def test_a_lease_from_another_machine_counts_while_it_is_renewed(fresh, other, seconds, free):
    elsewhere(fresh.path / LEASE)
    aged(fresh.path / LEASE, seconds)
    if free:
        with fresh.locked():
            assert fresh.user.startswith(f"process {os.getpid()} on ")
    else:
        with (
            pytest.raises(
                StoreError,
                match=r"in use by process \d+ on far \(silent for 6\d s; its lease ends at 120 s\)",
            ),
            fresh.locked(),
        ):
            pass


def test_a_lease_is_kept_alive(fresh):
    with leases.held(fresh.path, beat_seconds=0.05):
        aged(fresh.path / LEASE, 200)
        before = (fresh.path / LEASE).stat().st_mtime
        until(lambda: (fresh.path / LEASE).stat().st_mtime > before)


def test_a_lost_lease_is_reported(fresh):
    other = {"machine": "m", "process": 1, "began": "", "host": "far", "folder": "", "nonce": "n"}
    with leases.held(fresh.path, beat_seconds=0.05) as check:
        check()
        (fresh.path / LEASE).write_text(json.dumps(other))
        with pytest.raises(StoreError, match="was taken over by process 1 on far"):
            until(check)
    assert "far" in (fresh.path / LEASE).read_text()


def test_a_lease_that_cannot_be_read_for_a_while_is_not_taken_over(fresh, monkeypatch):
    seen, read = [], DiskPath.read_bytes

    def failing(file):
        if file.name == LEASE and len(seen) < 3:
            seen.append(file)
            raise OSError(errno.ESTALE, "Stale file handle")
        return read(file)

    with leases.held(fresh.path, beat_seconds=0.01) as check:
        monkeypatch.setattr(DiskPath, "read_bytes", failing)
        until(lambda: check() or len(seen) == 3)


def test_a_lease_that_is_removed_by_hand_is_no_silence(fresh, monkeypatch):
    looks = []

    def later():
        looks.append("now")
        return 0.4 * leases.STALE_SECONDS * len(looks)

    monkeypatch.setattr(leases, "_now", later)
    with leases.held(fresh.path, beat_seconds=0.01) as check:
        (fresh.path / LEASE).unlink()
        until(lambda: check() or len(looks) > 10)


def test_a_run_that_was_silent_for_long_and_finds_no_lease_has_lost_the_store(fresh, monkeypatch):
    """Another run has taken it over and has since ended."""
    with leases.held(fresh.path, beat_seconds=0.01) as check:
        lease = fresh.path / LEASE
        lease.unlink()
        time.sleep(0.1)
        check()
        monkeypatch.setattr(leases, "STALE_SECONDS", 0.0)
        with pytest.raises(StoreError, match="was taken over by another run"):
            until(check)


def test_a_lease_that_holds_no_text_is_of_somebody_else(fresh):
    with leases.held(fresh.path, beat_seconds=0.01) as check:
        (fresh.path / LEASE).write_bytes(b"\xff")
        with pytest.raises(StoreError, match="was taken over by another run"):
            until(check)


def test_a_run_whose_store_was_taken_over_ends(client, small, tmp_path, monkeypatch):
    """It does not touch the dataset, which now belongs to another run."""
    store, taken = tmp_path / "s", []

    @contextmanager
    def lost(folder):
        def check():
            if taken:
                raise StoreError("taken over")

        yield check

    monkeypatch.setattr("sweep.store.folder.lease.held", lost)
    monkeypatch.setattr("sweep.runner.session._FLUSH_SECONDS", 0.0)

    def take_over(event):
        if isinstance(event, ClusterReady):
            taken.append(event)

    with pytest.raises(StoreError, match="taken over"):
        sweep.run(small(), store, client, listen=take_over)
    assert (sweep.open(store).status == 1).all()  # pending, as before the workers came


def test_a_lease_that_somebody_quicker_took_stays(fresh):
    quicker = leases.ourselves(fresh.path)
    (fresh.path / LEASE).create(json.dumps(vars(quicker)).encode())
    with pytest.raises(ChangedError):
        (fresh.path / LEASE).replace_content(b"ours", b"that of somebody dead")
    assert leases.user(fresh.path) == str(quicker)


def test_other_errors_of_the_disk_are_sentences(fresh, monkeypatch):
    def broken(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("sweep.store.places.os.fsync", broken)
        with pytest.raises(StoreError, match="Input/output error"), fresh.locked():
            pass
    with fresh.locked():
        pass
