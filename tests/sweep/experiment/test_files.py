"""Cells whose workload, targets or prior is in a file: its content identifies them."""

import numpy as np
import pytest
import written

import sweep
from sweep.errors import StoreError
from sweep.grid.expansion import expand
from sweep.state.stored import load_stored
from sweep.store.records import Status


def experiment(workload, mechanism="IP", **others):
    return written.experiment(written.block(workload, mechanism, **others), reference=mechanism)


def matrix(path):
    return experiment({"name": "file", "path": str(path)})


def targets(path):
    return experiment({"name": "prefix", "d": 3}, targets={"name": "file", "path": str(path)})


def prior(path):
    return experiment(
        {"name": "counting", "n": 2},
        options={"epsilon": 1.0, "prior": f"file:{path}"},
        mechanism="geometric",
    )


def edges(path):
    return experiment({"name": "edge-list", "path": str(path)}, mechanism="geometric")


def the_id(of):
    ((cell,),) = (grid.cells for grid in expand(of))
    return cell.id


CASES = [
    (matrix, np.diag([1.0, 7.0, 3.0]), np.tri(3)),  # workers may still hold other tests' matrices
    (targets, np.ones(3), np.array([1.0, 2.0, 3.0])),
    (prior, np.full(3, 1 / 3), np.array([0.5, 0.25, 0.25])),
]


@pytest.mark.parametrize(("made", "first", "second"), CASES)
def test_the_content_is_the_identity_and_not_the_path(tmp_path, made, first, second):
    for name, content in (("a.npy", first), ("b.npy", second), ("moved.npy", first)):
        np.save(tmp_path / name, content)
    a, b, moved = (the_id(made(tmp_path / name)) for name in ("a.npy", "b.npy", "moved.npy"))
    assert a == moved != b


def test_an_edge_list_too(tmp_path):
    (tmp_path / "line.txt").write_text("0 1\n1 2\n")
    (tmp_path / "triangle.txt").write_text("0 1\n1 2\n2 0\n")
    assert the_id(edges(tmp_path / "line.txt")) != the_id(edges(tmp_path / "triangle.txt"))


@pytest.mark.parametrize(("made", "first", "second"), CASES)
def test_a_file_that_changes_under_way_fails_its_cells(
    tmp_path, client, monkeypatch, made, first, second
):
    path = tmp_path / "given.npy"
    np.save(path, first)
    asked = made(path)
    grids = expand(asked)
    np.save(path, second)
    monkeypatch.setattr("sweep.runner.commands.expand", lambda experiment, **_: grids)
    dataset = sweep.run(asked, tmp_path / "s", client)
    assert (dataset.status == Status.FAILED).all()
    assert "has changed since the sweep began" in str(dataset.error.values.ravel())


def test_a_store_of_other_content_is_refused(tmp_path, client):
    path = tmp_path / "w.npy"
    np.save(path, np.eye(3))
    found = sweep.run(matrix(path), tmp_path / "s", client)
    assert (found.squared_privacy_cost == 1).all()
    np.save(path, np.tri(3))
    with pytest.raises(StoreError, match="a file that it names has changed"):
        sweep.run(matrix(path), tmp_path / "s", client)
    with pytest.raises(StoreError, match="a file that it names has changed"):
        load_stored(tmp_path / "s")
