"""``engine="sweep"`` opens a store's newest dataset, and leaves xarray as it is."""

import pytest
import xarray as xr
from written import block, experiment, prefix

import sweep
from sweep.errors import StoreError


@pytest.fixture
def one(swept, tmp_path):
    swept(tmp_path / "one")
    return tmp_path / "one"


@pytest.fixture
def several(client, tmp_path):
    sums = block({"name": "identity-sum", "d": 4}, ["IP", "GM"])
    sweep.run(experiment(prefix(4, ["IP", "GM"]), sums), tmp_path / "several", client)
    return tmp_path / "several"


def test_a_store_of_one_group_is_a_dataset(one):
    found = xr.open_dataset(one, engine="sweep")
    xr.testing.assert_identical(found, sweep.open(one))
    # prefix over d cells: IP's cost is that of the longest query, d
    assert found.squared_privacy_cost.sel(mechanism="IP", d=4) == pytest.approx(4)
    xr.testing.assert_identical(xr.open_dataset(one), found)
    assert found.sweep is not None
    assert "host" not in xr.open_dataset(one, engine="sweep", drop_variables="host")
    xr.testing.assert_identical(xr.open_datatree(one, engine="sweep").to_dataset(), found)


def test_several_groups_are_a_tree_or_one_by_name(several):
    tree = xr.open_datatree(several, engine="sweep")
    assert set(tree.children) == {"prefix", "identity-sum"}
    single = xr.open_dataset(several, engine="sweep", group="prefix")
    xr.testing.assert_identical(single, tree["prefix"].to_dataset())
    with pytest.raises(StoreError, match=r"no group ''.*'prefix'.*open_datatree"):
        xr.open_dataset(several, engine="sweep")
    with pytest.raises(StoreError, match=r"no group 'age'; expected one of: "):
        xr.open_dataset(several, engine="sweep", group="age")


def test_a_folder_without_a_store_is_refused_in_a_sentence(one, tmp_path):
    with pytest.raises(StoreError, match=r"store\.json"):
        xr.open_dataset(tmp_path / "none", engine="sweep")
    with pytest.raises(StoreError, match=r"no group 'prefix'; expected one of: '' as"):
        xr.open_dataset(one, engine="sweep", group="prefix")
