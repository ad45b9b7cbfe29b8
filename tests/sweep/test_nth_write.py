"""Every write of merging and of compacting fails once: nothing is lost, and a sentence tells it."""

import errno
import io
import os
import shutil
from itertools import count

import pytest

from sweep.errors import StoreError
from sweep.runner import maintenance
from sweep.runner.publication import Publication
from sweep.store.journal import Journal

WRITES = ("fsync", "replace", "link", "mkdir", "unlink")


class Disk:
    """Has the nth write and, if it is then read-only, all later ones fail."""

    def __init__(self, monkeypatch):
        self.written = 0
        self._fails = range(0)
        for name in WRITES:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))
        real = io.open

        def opened(file, mode="r", *more, **options):
            how = real if mode in ("r", "rb") else self._counted(real)
            return how(file, mode, *more, **options)

        monkeypatch.setattr(io, "open", opened)

    def fails(self, which):
        self.written, self._fails = 0, which

    def _counted(self, real):
        def write(*words, **options):
            self.written += 1
            if self.written in self._fails:
                raise OSError(errno.EROFS, "Read-only file system")
            return real(*words, **options)

        return write


def held(store):
    return (
        dict(Journal(store / "journal").refresh().cells) if (store / "store.json").exists() else {}
    )


def merge(folder):
    maintenance.merge([folder / "a"], folder / "c")


def compact(folder):
    maintenance.compact(folder / "a")


@pytest.mark.parametrize("last", [1, 10**9], ids=["one", "all"])
@pytest.mark.parametrize(("command", "changed"), [(merge, "c"), (compact, "a")])
def test_a_write_that_fails_loses_nothing(swept, tmp_path, monkeypatch, command, changed, last):
    swept(tmp_path / "whole" / "a", "[2]")
    monkeypatch.setattr(Publication, "follow", lambda *following: None)
    whole, disk, ends = held(tmp_path / "whole" / "a"), Disk(monkeypatch), set()
    for nth in count(1):
        tried = tmp_path / str(nth)
        shutil.copytree(tmp_path / "whole", tried, symlinks=True)
        disk.fails(range(nth, nth + last))
        try:
            command(tried)
            ends.add("well")
        except StoreError as error:
            ends.add(str(error).partition(": ")[2].partition(";")[0])
        reached = disk.written >= nth
        disk.fails(range(0))
        assert held(tried / "a") == whole
        assert held(tried / changed) in ({}, whole)
        (tried / changed / "lease").unlink(missing_ok=True)  # as if this process had ended
        command(tried)
        assert held(tried / changed) == whole
        if not reached:
            break
    assert nth > 10
    assert ends == {"well", "the file system is read-only"}
