"""A dataset that was damaged is noticed, and derived again from the journal."""

from pathlib import Path

import pytest
import xarray as xr

import sweep
from sweep.errors import StoreError
from sweep.runner import status


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    held = bytearray(path.read_bytes())
    held[-1] ^= 1
    path.write_bytes(held)


DAMAGES = [
    (lambda path: path.unlink(), "cannot be read"),
    (cut, "has changed since it was written"),
    (flip, "has changed since it was written"),
]


@pytest.mark.parametrize(("harm", "said"), DAMAGES)
def test_a_damaged_chunk(client, small, tmp_path, command, harm, said):
    asked = small()
    store = tmp_path / "s"
    before = sweep.run(asked, store, client)
    chunk = next((store / "results.zarr" / "squared_privacy_cost").glob("0*"))
    harm(chunk)
    assert said in status.status(store).damage
    shown = command("status", store)
    assert shown.exit_code == 1
    assert "'sweep run' derives the dataset again" in shown.output
    with pytest.raises(StoreError, match="damaged: file 'squared_privacy_cost/"):
        sweep.open(store)
    assert command("show", store).exit_code == 2
    after = sweep.run(asked, store, "no client is needed")
    xr.testing.assert_identical(after, before)
    assert status.status(store).damage is None


def test_a_dataset_without_a_list_of_its_files_is_taken_as_it_is(swept, tmp_path):
    before = swept(tmp_path / "s")
    for path in (tmp_path / "s" / ".results").glob("*.json"):
        path.unlink()
    xr.testing.assert_identical(sweep.open(tmp_path / "s"), before)
    assert status.status(tmp_path / "s").damage is None


def test_a_dataset_that_may_not_be_read_is_a_sentence(swept, tmp_path, command, monkeypatch):
    store = tmp_path / "s"
    swept(store, "[2]")
    exists = Path.exists

    def refused(path, **more):
        if path.name == "results.zarr":
            raise PermissionError(13, "Permission denied")
        return exists(path, **more)

    monkeypatch.setattr(Path, "exists", refused)
    for words in (("status", store), ("show", store), ("rerun", store)):
        found = command(*words)
        assert found.exit_code == 2
        assert "results.zarr' cannot be read: access is not permitted" in found.stderr
