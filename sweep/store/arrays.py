"""The arrays behind the numbers, kept on request: a small zarr group for each solve."""

import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import StoreError
from sweep.store import disk
from sweep.store.folder import refuse_address

_DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "query_variances": ("query",),
    "privacy_profile": ("domain_cell",),
    "covariance": ("basis_row", "basis_column"),
    "noise_matrix": ("answer", "output"),
    "prior": ("answer",),
    "trace_objective": ("iteration",),
    "trace_lower_bound": ("iteration",),
    "trace_gradient_norm": ("iteration",),
}
_PARTS: Mapping[str, tuple[str, ...]] = {
    "trace": ("trace_objective", "trace_lower_bound", "trace_gradient_norm"),
}
"""Names of ``keep`` that stand for several arrays."""
_MEANINGS: Mapping[str, str] = {
    "query_variances": "variance of every query when the targets are just met",
    "privacy_profile": "squared personal privacy cost of every domain cell",
    "covariance": "covariance of the noise on the basis queries",
    "noise_matrix": "probability of every output for every answer of a query graph",
    "prior": "probability of every answer of a query graph",
    "trace_objective": "the mechanism's own objective at every iteration, 0 the start",
    "trace_lower_bound": "best certified lower bound on that objective so far",
    "trace_gradient_norm": "norm of the objective's gradient along its free variables",
}


def folder(store: Path, solve: str) -> Path:
    """The zarr group with the arrays of a solve."""
    return store / "arrays" / f"{solve}.zarr"


def write(store: Path, solve: str, arrays: Mapping[str, Any], keep: Iterable[str]) -> None:
    """Write the arrays of one solve, whole or not at all.

    Parameters
    ----------
    store : Path
        The store's folder.
    solve : str
        The solve's key.
    arrays : Mapping of str to numpy.ndarray
        All arrays of the solution, by name.
    keep : iterable of str
        The names of those to write.

    Raises
    ------
    OSError
        If they cannot be written.
    """
    import xarray as xr

    dataset = xr.Dataset(
        {
            name: xr.DataArray(
                arrays[name],
                dims=_DIMENSIONS.get(name, tuple(f"{name}_{i}" for i in range(arrays[name].ndim))),
                attrs={"long_name": _MEANINGS.get(name, name.replace("_", " ")), "units": "1"},
            )
            for kept in keep
            for name in _PARTS.get(kept, (kept,))
            if name in arrays
        },
        attrs={"solve": solve},
    )
    if "iteration" in dataset.dims:
        dataset = dataset.assign_coords(iteration=np.arange(dataset.sizes["iteration"]))
    final = folder(store, solve)
    partial = final.with_name(f".{solve}-{uuid.uuid4().hex}.partial")
    try:
        dataset.to_zarr(partial, mode="w", consolidated=True, zarr_format=2)
        shutil.rmtree(final, ignore_errors=True)
        disk.rename(partial, final)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def arrays(store: str | Path, solve: str) -> Any:
    """The arrays that were kept of one solve, opened lazily.

    Parameters
    ----------
    store : str or Path
        The store's folder.
    solve : str
        The solve's key: the variable ``solve`` of the dataset at the cell.

    Returns
    -------
    xarray.Dataset
        Those that the experiment's ``keep`` names; ``trace`` is three along ``iteration``.

    Raises
    ------
    StoreError
        If none were kept of that solve, or the store is not a folder.
    """
    import xarray as xr

    refuse_address(store)
    path = folder(Path(store), str(solve))
    if not path.exists():
        raise StoreError(
            f"store {str(store)!r} has no arrays of solve {str(solve)!r}; name them under "
            "'keep' in the experiment before the run, and take the key from the dataset's "
            "variable 'solve'"
        )
    return xr.open_zarr(path, chunks=None)
