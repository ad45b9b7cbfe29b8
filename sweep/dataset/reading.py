"""Reads the newest dataset of a store completely into memory, and splits it by group."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import xarray as xr
import zarr
from zarr.core.buffer.cpu import Buffer

from sweep.errors import StoreError, SweepError
from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Experiment
from sweep.state.stored import list_code_states, load_stored
from sweep.store.folder import open_
from sweep.store.journal import Journal
from sweep.store.paths import Location
from workloads import conditions
from workloads.parameters import nearest

Results = xr.Dataset | xr.DataTree

LARGE_TEXTS = ("host", "error", "code", "versions", "cell", "solve")
"""Text variables that take most of a large dataset's memory and that few readers need."""


def open_dataset(store: str | Path | Location, without: Collection[str] = ()) -> Results:
    """Read the current dataset of a store into memory.

    Versions that a run writes later, perhaps with other dimensions, do not affect the result.

    Parameters
    ----------
    store : str or Path
        The store's folder, or its address in an object store.
    without : collection of str
        Variables to leave out.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The dataset, or a tree with one node for each group if the store has several groups.

    Raises
    ------
    StoreError
        If the folder is not a store, or the store's dataset is damaged or not written yet.
    """
    dataset = open_(store).dataset
    if not dataset.exists:
        raise StoreError(f"store {str(store)!r} has no dataset yet; 'sweep run' writes one")
    files, damage = dataset.files()
    if damage is not None:
        raise StoreError(
            f"the dataset of store {str(store)!r} is damaged: {damage}; the journal is not: "
            "'sweep run' derives the dataset from it again"
        )
    return read(files, without)


def read(files: Mapping[str, bytes], without: Collection[str] = ()) -> Results:
    """Read a dataset from its zarr files into memory, without the variables ``without``."""
    store: Any = zarr.storage.MemoryStore({name: Buffer.from_bytes(files[name]) for name in files})
    with xr.open_datatree(
        store, engine="zarr", zarr_format=2, chunks=None, drop_variables=list(without)
    ) as tree:
        return tree.load() if tree.children else tree.to_dataset().load()


def add_code_states(
    results: Results, store: str | Path | Location, condition: str | None
) -> Results:
    """Return the results of a store with the variable ``code`` as a condition uses it.

    The variable then says whether a cell was solved by ``current``, ``edited`` or ``other`` code;
    in the dataset itself, it identifies the code. If the condition uses ``code``, the results must
    have the variable ``cell``; otherwise, they are returned unchanged.

    Raises
    ------
    SweepError
        If the condition cannot be read.
    StoreError
        If the experiment cannot be laid out here, so that the present code is not known.
    """
    if condition is None or "code" not in conditions.parse(condition).names:
        return results
    stored = load_stored(store)
    states = list_code_states(stored.cells, Journal(stored.store.journal).refresh())

    def replace_code(data: xr.Dataset) -> xr.Dataset:
        if "cell" not in data:  # the root of a tree
            return data
        cells = data["cell"]
        positions = stored.cells.index.positions(cells.to_numpy().ravel())
        return data.assign(code=cells.copy(data=states[positions].reshape(cells.shape)))

    if isinstance(results, xr.DataTree):
        return results.map_over_datasets(replace_code)
    return replace_code(results)


def split_groups(results: Results, only: str | None = None) -> dict[str, xr.Dataset]:
    """Return the dataset of every group, or of the group ``only``, by the group's name.

    A single dataset gets the name of the experiment's first group, or the name ``results`` if the
    dataset's attributes do not contain the experiment.

    Raises
    ------
    SweepError
        If there is no group of that name, or a dataset has no variable ``status``.
    """
    if isinstance(results, xr.DataTree):
        nodes = results.children or {results.name or "results": results}
        by_group = {str(name): node.to_dataset() for name, node in nodes.items()}
    elif "experiment_text" in results.attrs:
        by_group = {experiment_of(results).blocks[0].group: results}
    else:
        by_group = {"results": results}
    if any("status" not in data for data in by_group.values()):
        raise SweepError(
            "the dataset has no variable 'status', the state of every cell; keep it when you "
            "select variables"
        )
    if only not in (None, *by_group):
        raise SweepError(f"there is no group {only!r}; {nearest(only, list(by_group))}")
    return {name: data for name, data in by_group.items() if only in (None, name)}


def experiment_of(results: Results) -> Experiment:
    """Return the experiment that is stored in the attributes of the results.

    Raises
    ------
    SweepError
        If the attributes are missing.
    """
    try:
        text, name = results.attrs["experiment_text"], results.attrs["experiment"]
    except KeyError as error:
        raise SweepError(
            f"the dataset has no attribute {error}, so its experiment is not known; take a dataset "
            "that sweep.open or sweep.run returned, and keep its attributes (keep_attrs=True)"
        ) from None
    return _parsed(text, f"{name}.yaml")


_parsed = lru_cache(maxsize=1)(parse_experiment)
"""`parse_experiment` with its last result cached: `split_groups` parses the same text again."""
