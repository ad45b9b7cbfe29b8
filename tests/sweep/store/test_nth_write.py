"""Every write of a command fails once: nothing is lost, a sentence says so, and a repeat works."""

import errno
import io
import os
import shutil
import tarfile
from itertools import count

import ledgers
import numpy as np
import pytest
import xarray as xr

from sweep.dataset import build
from sweep.errors import StoreError
from sweep.runner import maintenance
from sweep.runner.session import Session
from sweep.store import arrays
from sweep.store.folder import DatasetFolder
from sweep.store.journal import INDEX, Journal
from sweep.store.paths import locate, store_errors

WRITES = ("replace", "link", "symlink", "mkdir", "rmdir", "unlink")


class Disk:
    """Makes the nth write, or all from then on, fail with an error; never waits for the disk."""

    def __init__(self, monkeypatch):
        self.written = 0
        self._fails, self._error = range(0), 0
        monkeypatch.setattr(os, "fsync", self._counted(lambda file: None))
        for name in WRITES:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))
        real = io.open

        def opened(file, mode="r", *more, **options):
            how = real if mode in ("r", "rb") else self._counted(real)
            return how(file, mode, *more, **options)

        monkeypatch.setattr(io, "open", opened)

    def fails(self, which, error=0):
        self.written, self._fails, self._error = 0, which, error

    def _counted(self, real):
        def write(*words, **options):
            self.written += 1
            if self.written in self._fails:
                raise OSError(self._error, os.strerror(self._error))
            return real(*words, **options)

        return write


def merge(folder):
    maintenance.merge([folder / "a"], folder / "c")


def compact(folder):
    maintenance.compact(folder / "a")


def forget(folder):
    maintenance.forget(folder / "a", "mechanism == 'IP'")


def pack(folder):
    if not (folder / "a.tar").exists():
        maintenance.pack(folder / "a", folder / "a.tar")


def publish(folder):
    dataset = xr.Dataset({"new": ("x", np.ones(2))}, attrs={"journal_state": "new"})
    DatasetFolder(locate(folder / "a")).publish(build.make_files(dataset))


def keep(folder):
    place = locate(folder / "a")
    with store_errors(place):
        solve = arrays.list_solves(place)[0]
        arrays.write(place, solve, {"query_variances": np.zeros(2)}, ["query_variances"])


def write_index(folder):
    journal = Journal(folder / "a" / "journal")
    journal.refresh()
    with store_errors(folder / "a"):
        journal.write_index()


def held(folder):
    """The cells of each of its stores, the state of its dataset, and the packed file."""
    found = {}
    for store in map(locate, (folder / "a", folder / "c")):
        dataset, kept = DatasetFolder(store), arrays.list_solves(store)
        for cell, record in records(store).items():
            found[store.name, cell] = record
            if record.solve in kept:
                numbers = arrays.arrays(store, record.solve).query_variances
                found[store.name, "arrays of", cell] = numbers.values.tolist()
        assert dataset.damage is None
        found[store.name] = dataset.state
    if (folder / "a.tar").exists():
        with tarfile.open(folder / "a.tar") as archive:
            found["packed"] = [(member.name, member.size) for member in archive]
    return found


def records(store):
    about = store / "store.json"
    return ledgers.cells(Journal(store / "journal").refresh()) if about.exists() else {}


def complete(folder):
    """Its content after a command, and whether the journal has its index."""
    return held(folder), (folder / "a" / INDEX).exists()


@pytest.fixture(params=[merge, compact, forget, pack, publish, keep, write_index])
def command(request):
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "error"), [(1, errno.ENOSPC), (10**9, errno.EROFS)], ids=["one", "all"]
)
def test_a_write_that_fails_loses_nothing(swept, tmp_path, monkeypatch, command, last, error):
    swept(tmp_path / "whole" / "a", "[2]", more="keep: [query_variances]")
    (tmp_path / "whole" / "a" / INDEX).unlink()
    monkeypatch.setattr(Session, "publish", lambda session: None)
    shutil.copytree(tmp_path / "whole", tmp_path / "done", symlinks=True)
    command(tmp_path / "done")
    before, after = held(tmp_path / "whole"), held(tmp_path / "done")
    why = os.strerror(error)
    disk, ends = Disk(monkeypatch), set()
    for nth in count(1):
        tried = tmp_path / str(nth)
        shutil.copytree(tmp_path / "whole", tried, symlinks=True)
        disk.fails(range(nth, nth + last), error)
        try:
            command(tried)
            ends.add("well")
        except StoreError as failure:
            said = str(failure)
            told = why in said and "correct this" in said and "--store" not in said
            own_lease_stays = f"is in use by process {os.getpid()} " in said
            ends.add("told" if told or own_lease_stays else said)
        reached = disk.written >= nth
        disk.fails(range(0))
        now = held(tried)
        for what in now.keys() | before.keys() | after.keys():
            assert now.get(what) in (before.get(what), after.get(what)), what
        for store in ("a", "c"):
            for left in (tried / store).glob("lease-*"):  # as if this process had ended
                left.unlink()
        command(tried)
        assert complete(tried) == complete(tmp_path / "done")
        if not reached:
            break
    assert nth > 4
    assert ends == {"well", "told"}
