"""Selecting by method: ``ds.sel(method="CA", d=256)``.

The axis of mechanisms is called ``method``, as in the papers, and so is an argument of
`xarray.Dataset.sel`: how inexact labels are filled in. Left alone, ``ds.sel(method="CA")`` selects
nothing and says nothing. Importing `sweep` lets ``method=`` mean the axis wherever a dataset
has one and the value is no way to fill; `xarray.DataArray.sel` and `xarray.DataTree.sel` follow.
Without `sweep`, write ``ds.sel({"method": "CA", "d": 256})``.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import xarray as xr

_SELECT = "sel"
_FILLS = ("nearest", "pad", "ffill", "backfill", "bfill")


def _by_method(sel: Callable[..., xr.Dataset]) -> Callable[..., xr.Dataset]:
    @wraps(sel)
    def selected(
        self: xr.Dataset,
        indexers: Any = None,
        method: Any = None,
        tolerance: Any = None,
        drop: bool = False,
        **labels: Any,
    ) -> xr.Dataset:
        if method is None or "method" not in self.dims or _fills(method):
            return sel(self, indexers, method, tolerance, drop, **labels)
        return sel(self, {**(indexers or {}), **labels, "method": method}, None, tolerance, drop)

    return selected


def _fills(method: Any) -> bool:
    return isinstance(method, str) and method in _FILLS


def install() -> None:
    """Make ``sel(method=...)`` select along an axis of that name; once is enough."""
    if not hasattr(xr.Dataset.sel, "__wrapped__"):
        setattr(xr.Dataset, _SELECT, _by_method(xr.Dataset.sel))


class NoChunkManager:
    """What the entry point in xarray's group ``xarray.chunkmanagers`` names: never available.

    xarray imports the entry points of that group in ``open_zarr``, those of its engines not.
    """

    available = False


install()
