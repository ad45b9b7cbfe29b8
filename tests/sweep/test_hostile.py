"""Accidents that users cause in a sweep: each is one sentence, or simply works."""

from functools import partial

import numpy as np
import pytest
from written import block, experiment, prefix

import sweep
from sweep.errors import ExperimentError, StoreError
from sweep.grid.expansion import expand
from sweep.plan import dry_run
from sweep.runner import status
from sweep.runner.selection import select_cells
from sweep.state.stored import load_stored
from sweep.store.journal import Journal
from sweep.store.records import Status


def test_a_reference_that_timed_out_is_no_measure(client, tmp_path):
    slow = [{"name": "CA", "time_limit": 0.0}, {"name": "SM-II", "time_limit": 0.0}, "IP"]
    data = sweep.run(experiment(prefix(16, slow), reference="SM-II"), tmp_path / "s", client)
    assert int(data.status.sel(mechanism="SM-II")) == Status.TIMEOUT
    assert int(data.status.sel(mechanism="IP")) == Status.OK
    assert np.isnan(data.variance_ratio).all()
    assert np.isnan(data.total_variance_ratio).all()
    assert float(data.squared_privacy_cost.sel(mechanism="IP")) == pytest.approx(16)


def test_warm_starts_leave_out_what_cannot_take_them(client, tmp_path):
    mechanisms = [{"name": "SM-II", "preset": "published"}, "SM-II", "optimal", "IP"]
    asked = experiment(prefix([4, 8], mechanisms), warm_start="d")
    assert (sweep.run(asked, tmp_path / "s", client).status == Status.OK).all()


def test_a_condition_is_false_where_a_group_lacks_its_coordinate(client, tmp_path):
    blocks = (
        prefix([2, 4], ["IP", "GM"]),
        block({"name": "marginals", "attributes": 2, "values": 2}, ["IP", "GM"]),
    )
    sweep.run(experiment(*blocks), tmp_path / "s", client)
    found = load_stored(tmp_path / "s")
    ledger = Journal(found.store.journal).refresh()
    chosen = select_cells(found, ledger, "mechanism == 'GM' and d > 2")
    assert [(cell.group, cell.coords["d"]) for cell in chosen] == [("prefix", 4)]


def test_status_works_where_the_files_of_an_experiment_are_missing(client, tmp_path):
    path = tmp_path / "w.npy"
    np.save(path, np.eye(3))
    asked = experiment(block({"name": "file", "path": str(path)}, ["IP", "GM"]))
    sweep.run(asked, tmp_path / "s", client)
    path.unlink()
    found = status.status(tmp_path / "s")
    assert found.statuses == {"ok": 2}
    assert "cannot be read" in found.obstacle


@pytest.mark.parametrize("ask", [dry_run.plan, partial(sweep.run, client="never touched")])
def test_what_does_not_belong_to_a_store_is_refused_and_leaves_it_as_it_was(
    swept, small, tmp_path, ask
):
    swept(tmp_path / "s", "[2, 4]")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").rglob("*")}
    for strange in (small("[8]"), experiment(prefix(8, ["IP"]))):
        said = f"holds 4 cells of experiment 'small', none of which experiment '{strange.name}' has"
        with pytest.raises(StoreError, match=said):
            ask(strange, tmp_path / "s")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s").rglob("*")} == before


def test_a_plan_on_a_file_is_refused(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"/file' cannot be read \(Not a directory\)"):
        dry_run.plan(small("[8]"), tmp_path / "file")


def test_groups_that_are_no_folders():
    unfit = (".", "..", ".zattrs", "g" * 201, "\u00e4" * 101)
    refused = [((name,), r"blocks\[0\]\.group: ") for name in unfit]
    for names, said in ((("foo", "Foo"), "differ only in case"), *refused):
        blocks = (prefix(2 * at, ["IP"], group=name) for at, name in enumerate(names, 1))
        with pytest.raises(ExperimentError, match=said):
            expand(experiment(*blocks))


def test_a_function_of_the_users_is_identified_by_its_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    asked = experiment(block({"name": "entry-point", "function": "users_own:ok"}, ["IP"]))
    ids = set()
    for remark in ("", "# another version\n"):
        text = f"import numpy as np\ndef ok():\n    return np.eye(2)\n{remark}"
        (tmp_path / "users_own.py").write_text(text)
        ((cell,),) = (grid.cells for grid in expand(asked, allow_code=True))
        ids.add(cell.id)
    assert len(ids) == 2
