"""A dataset that the disk does not take: said, and nothing else is lost."""

import errno
import os
import subprocess
import sys

import pytest

import sweep
from sweep import events
from sweep.dataset import build
from sweep.errors import DatasetError
from sweep.store.records import Status


def heard_of(heard, kind):
    return [event for event in heard if isinstance(event, kind)]


def test_solving_goes_on_and_the_next_run_derives_it(client, small, tmp_path, monkeypatch, records):
    def full(made, folder):
        folder.mkdir()
        raise OSError(errno.ENOSPC, "No space left on device")

    heard, store = [], tmp_path / "s"
    with monkeypatch.context() as patch:
        patch.setattr(build, "write", full)
        with pytest.raises(DatasetError, match=r"dataset .* cannot be written: the disk is full"):
            sweep.run(small(), store, client, listen=heard.append)
    (said,) = heard_of(heard, events.DatasetNotWritten)
    assert "the disk is full" in said.said
    assert heard[-1].statuses == {"ok": 4}
    assert {one.status for one in records(store)} == {Status.OK}
    assert not list((store / ".results").iterdir())
    assert not list(store.glob(".results.zarr-*"))

    after = sweep.run(small(), store, "no client is needed")
    assert (after.status == Status.OK).all()


def test_a_dataset_that_can_be_written_later_in_the_run_is(client, small, tmp_path, monkeypatch):
    write, times = build.write, []

    def full_at_first(made, folder):
        times.append(folder)
        if len(times) == 1:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        write(made, folder)

    heard = []
    monkeypatch.setattr(build, "write", full_at_first)
    dataset = sweep.run(small(), tmp_path / "s", client, listen=heard.append)
    assert (dataset.status == Status.OK).all()
    (said,) = heard_of(heard, events.DatasetNotWritten)
    assert "the disk quota is used up" in said.said


def test_an_error_of_the_run_is_not_hidden_behind_it(client, small, tmp_path, monkeypatch):
    def full(made, folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupt(event):
        if isinstance(event, events.RunStarted):
            raise KeyboardInterrupt

    monkeypatch.setattr(build, "write", full)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(small(), tmp_path / "s", client, listen=interrupt)


@pytest.mark.slow
def test_the_command_says_so_and_ends_with_1(tmp_path):
    (tmp_path / "x.yaml").write_text(
        "reference: IP\nblocks: [{workload: {name: prefix, d: 4}, mechanism: IP}]\n"
    )

    def command():
        return subprocess.run(
            [sys.executable, "-m", "sweep.cli", "run", "x.yaml", "--store", "s"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "COLUMNS": "300"},
        )

    from sweep.store import folder

    made = folder.create(tmp_path / "s", "x")
    (made.path / ".results").touch()
    ran = command()
    assert ran.returncode == 1, ran.stderr
    assert "1 ok" in ran.stdout
    sentence = (
        "warning: the dataset of store 's' cannot be written: a file of that name is in the way"
    )
    assert sentence in ran.stdout
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
    (made.path / ".results").unlink()
    again = command()
    assert again.returncode == 0, again.stderr
    assert "all 1 cells are in the store already" in again.stdout
