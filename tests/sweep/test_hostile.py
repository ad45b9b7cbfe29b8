"""Accidents that users cause in a sweep: each is one sentence, or simply works."""

import sys

import numpy as np
import pytest
from written import block, experiment, prefix

import sweep
import workloads
from sweep.errors import ExperimentError, StoreError
from sweep.grid.expansion import expand
from sweep.plan import dry_run
from sweep.plan.stored import of_store
from sweep.runner import status
from sweep.runner.selection import selected
from sweep.store.journal import Journal
from sweep.store.records import Status
from workloads import WorkloadError


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
    found = of_store(tmp_path / "s")
    ledger = Journal(found.store.journal).refresh()
    chosen = selected(found, ledger, "mechanism == 'GM' and d > 2")
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


def test_a_plan_refuses_what_a_run_would(swept, small, tmp_path):
    swept(tmp_path / "s", "[2, 4]")
    with pytest.raises(StoreError, match="none of which experiment 'small' still has"):
        dry_run.plan(small("[8]"), tmp_path / "s")
    with pytest.raises(StoreError, match="was made by experiment 'small'"):
        dry_run.plan(experiment(prefix(2, ["IP"])), tmp_path / "s")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"/file' cannot be read \(Not a directory\)"):
        dry_run.plan(small("[8]"), tmp_path / "file")


def test_groups_that_are_no_folders():
    unfit = (".", "..", ".zattrs", "g" * 201, "\u00e4" * 101)
    refused = [((name,), "cannot name a folder") for name in unfit]
    for names, said in ((("foo", "Foo"), "differ only in case"), *refused):
        blocks = (prefix(2 * at, ["IP"], group=name) for at, name in enumerate(names, 1))
        with pytest.raises(ExperimentError, match=said):
            expand(experiment(*blocks))


MODULE = """
import numpy as np
def ok(): return np.eye({size})
def broken(): raise RuntimeError("out of cheese")
def leaves(): raise SystemExit(0)
"""


def test_a_function_of_the_users(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "users_own", raising=False)
    module = tmp_path / "users_own.py"

    def the_id():
        asked = experiment(block({"name": "entry-point", "function": "users_own:ok"}, ["IP"]))
        ((cell,),) = (grid.cells for grid in expand(asked, allow_code=True))
        return cell.id

    module.write_text(MODULE.format(size=2))
    before = the_id()
    for name, said in (("broken", "out of cheese"), ("leaves", "SystemExit")):
        with pytest.raises(WorkloadError, match=said):
            workloads.make("entry-point", function=f"users_own:{name}")
    module.write_text(MODULE.format(size=2) + "# another version\n")
    assert the_id() != before
