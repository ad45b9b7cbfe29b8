"""``sel(method=...)`` means the axis of mechanisms wherever there is one."""

import numpy as np
import pytest
import xarray as xr

from sweep import selection


@pytest.fixture
def ds():
    selection.install()
    return xr.Dataset(
        {"cost": (("d", "method"), np.arange(6.0).reshape(2, 3))},
        {"d": [64, 256], "method": ["CA", "IP", "SM-II (published)"]},
    )


def test_a_method_and_another_axis(ds):
    assert ds.sel(method="CA", d=256).cost.item() == 3
    assert ds.cost.sel(method="SM-II (published)", d=64).item() == 2
    assert ds.sel({"method": "IP"}).cost.values.tolist() == [1, 4]


def test_a_method_alone_is_not_ignored(ds):
    assert ds.sel(method="IP").cost.values.tolist() == [1, 4]
    assert ds.sel(method=["CA", "IP"]).sizes["method"] == 2
    with pytest.raises(KeyError, match="method"):
        ds.sel(method="wCA")


def test_every_group_of_a_tree(ds):
    tree = xr.DataTree.from_dict({"a": ds, "b": ds.isel(d=[0])})
    found = tree.sel(method="IP")
    assert found["a"].ds.cost.values.tolist() == [1, 4]
    assert found["b"].ds.cost.values.tolist() == [1]


def test_inexact_labels_are_filled_in_as_ever(ds):
    assert ds.sel(d=250, method="nearest").d.item() == 256
    plain = ds.rename(method="mechanism")
    assert plain.sel(d=100, method="ffill").d.item() == 64
    with pytest.raises(ValueError, match="fill"):
        plain.sel(d=64, method="CA")
