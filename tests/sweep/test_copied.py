"""A store that was copied, with or without following its links, is a store."""

import os
import shutil

import pytest

import sweep
from sweep.store.records import Status


@pytest.mark.parametrize("follow", [False, True], ids=["links kept", "links followed"])
def test_a_copy_is_read_and_grows(swept, client, small, tmp_path, records, follow):
    before = swept(tmp_path / "s", "[2]").load()
    shutil.copytree(tmp_path / "s", tmp_path / "copy", symlinks=not follow)
    shutil.rmtree(tmp_path / "s")
    assert os.path.islink(tmp_path / "copy" / "results.zarr") is not follow
    assert sweep.open(tmp_path / "copy").load().equals(before)
    grown = sweep.run(small("[2, 4]"), tmp_path / "copy", client)
    assert (grown.status == Status.OK).all()
    assert grown.status.size == 4 == len(records(tmp_path / "copy"))
