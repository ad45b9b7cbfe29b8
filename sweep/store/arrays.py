"""Writes and reads the arrays named under an experiment's ``keep``: one file for each solve."""

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike

from sweep.errors import StoreError
from sweep.store.paths import Location, locate, reason

if TYPE_CHECKING:
    import xarray as xr

_ARRAYS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "query_variances": (("query",), "variance of every query when the targets are just met"),
    "privacy_profile": (("domain_cell",), "squared personal privacy cost of every domain cell"),
    "covariance": (("basis_row", "basis_column"), "covariance of the noise on the basis queries"),
    "noise_matrix": (
        ("answer", "output"),
        "probability of every output for every answer of a query graph",
    ),
    "density": (
        ("place",),
        "density of noise on a box, from end to end, in units of its width",
    ),
    "prior": (("answer",), "probability of every answer of a query graph"),
    "trace_objective": (
        ("iteration",),
        "the mechanism's own objective at every iteration, 0 the start",
    ),
    "trace_lower_bound": (("iteration",), "best certified lower bound on that objective so far"),
    "trace_gradient_norm": (
        ("iteration",),
        "norm of the objective's gradient along its free variables",
    ),
}
"""The dimensions and the description of every array that a store can contain, by name.

The name ``trace`` in an experiment's ``keep`` selects all arrays ``trace_...``.
"""
_SUFFIX = ".npz"


def list_solves(store: Location) -> list[str]:
    """Return the keys of the solves whose arrays are in a store."""
    try:
        files = (store / "arrays").names()
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)]


def locate_file(store: Location, solve: str) -> Location:
    """Return the path of the file with the arrays of a solve."""
    return store / "arrays" / f"{solve}{_SUFFIX}"


def write(
    store: Location,
    solve: str,
    arrays: Mapping[str, ArrayLike],
    keep: Iterable[str],
    labels: Sequence[str] = (),
) -> None:
    """Write the selected arrays of one solve into its file, completely or not at all.

    Parameters
    ----------
    store : Path or ObjectPath
        The store's folder.
    solve : str
        The solve's key.
    arrays : Mapping of str to numpy.ndarray
        All arrays of the solution, by name.
    keep : iterable of str
        The names of the arrays to write; ``trace`` selects all arrays ``trace_...``.
    labels : sequence of str
        The name of every query, stored as the coordinate ``query``; empty if there are no names.

    Raises
    ------
    OSError
        If the arrays cannot be written.
    """
    kept = {*keep}
    chosen = [name for name in _ARRAYS if not kept.isdisjoint((name, name.partition("_")[0]))]
    held = {name: arrays[name] for name in chosen if name in arrays}
    if labels:
        held["query"] = np.array(labels, dtype=np.str_)
    with locate_file(store, solve).writing() as stream:
        np.savez(stream, allow_pickle=False, **held)


def arrays(store: str | Path | Location, solve: str) -> "xr.Dataset":
    """Return the stored arrays of one solve.

    Parameters
    ----------
    store : str or Path
        The store's folder, or its address in an object store.
    solve : str
        The solve's key: a value of the dataset's variable ``solve``.

    Returns
    -------
    xarray.Dataset
        The arrays that the experiment's ``keep`` selects. Arrays ``trace_...`` have the dimension
        ``iteration``. If the queries have names, the coordinate ``query`` contains these names.

    Raises
    ------
    StoreError
        If the store has no arrays of that solve, or the arrays cannot be read.
    """
    import xarray as xr

    path = locate_file(locate(store), str(solve))
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            held = dict(archive)
    except FileNotFoundError:
        raise StoreError(
            f"store {str(store)!r} has no arrays of solve {str(solve)!r}; name them under "
            "'keep' in the experiment before the run, and take the key from the dataset's "
            "variable 'solve'"
        ) from None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        cause = reason(error) if isinstance(error, OSError) else "it is damaged"
        raise StoreError(
            f"{str(path)!r} cannot be read ({cause}); 'sweep rerun' of that store with "
            f"--where \"solve == '{solve}'\" writes it anew"
        ) from None
    labels = held.pop("query", None)
    attributes = {name: {"long_name": _ARRAYS[name][1], "units": ""} for name in held}
    dataset = xr.Dataset(
        {name: (_ARRAYS[name][0], array, attributes[name]) for name, array in held.items()},
        attrs={"solve": str(solve)},
    )
    if "iteration" in dataset.dims:
        dataset = dataset.assign_coords(iteration=np.arange(dataset.sizes["iteration"]))
    if labels is not None and dataset.sizes.get("query") == len(labels):
        dataset = dataset.assign_coords(query=labels)
    return dataset
