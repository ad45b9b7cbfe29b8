"""Builds the xarray dataset from the ledger, and writes it as zarr."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import dask
import numpy as np
import xarray as xr
import zarr
from numpy.typing import DTypeLike, NDArray

from sweep.dataset.derivation import Column, Make, Table
from sweep.experiment.canonical import Scalar
from sweep.experiment.schema import Experiment
from sweep.experiment.variables import BUDGETS, described
from sweep.grid.grids import Grid, positions_of
from sweep.store import code
from sweep.store.ledger import Ledger
from sweep.store.places import Location
from sweep.store.records import Status

_LARGEST_CHUNK_BYTES = 2**23
_AT_ONCE_BYTES = 2**22
"""Largest array, in bytes, that is computed at once; larger ones are computed when written."""
_IN_MEMORY_BYTES = 2**22
_TIME_ENCODING = {
    "units": "milliseconds since 1970-01-01",
    "dtype": "int64",
    "_FillValue": np.iinfo(np.int64).min,
}
_KEY_WIDTH = 20
_WIDTHS = {"host": 64, "error": 200, "code": _KEY_WIDTH, "versions": 64}
"""Widths of texts, the same in all versions of a dataset.

They must not change, because a reader that has opened one version may read a chunk of the next.
"""

Spell = Callable[[NDArray[Any]], NDArray[Any]]
"""A function that returns the texts of some cells, given the cells' numbers."""


def derived(
    experiment: Experiment, grids: Sequence[Grid], ledger: Ledger
) -> xr.Dataset | xr.DataTree:
    """The dataset of a single grid; for several grids, a tree with a node for each group."""
    parts = {grid.group: assembled(Table(grid, ledger, experiment)) for grid in grids}
    if len(parts) == 1:
        return next(iter(parts.values()))
    relations = "; ".join(dict.fromkeys(data.attrs["neighbours"] for data in parts.values()))
    first = next(iter(parts.values())).attrs
    root = xr.Dataset(attrs={**first, "neighbours": relations})
    return xr.DataTree.from_dict({"/": root, **parts})


def assembled(table: Table) -> xr.Dataset:
    """The dataset of one grid; large variables are computed when they are written."""
    axes, numbers, experiment = table.grid.axes, table.numbers(), table.experiment
    dims, axis_lengths = tuple(axis.name for axis in axes), tuple(len(axis.values) for axis in axes)
    places = positions_of(table.grid.cells, axes)
    complete = np.array_equal(places, np.arange(math.prod(axis_lengths)))
    coords, data = _coordinates(table.grid), dict[str, Any]()

    def on_axes(column: Column, fill: Any) -> Column:
        """The column reshaped to the grid's axes, with ``fill`` at points that are not cells."""
        shape = (*axis_lengths, *column.shape[1:])
        if complete:
            return column.reshape(shape)
        laid = np.full((math.prod(axis_lengths), *column.shape[1:]), fill, dtype=column.dtype)
        laid[places] = column
        return laid.reshape(shape)

    def add(name: str, make: Make, over: tuple[str, ...] = (), fill: Any = np.nan) -> None:
        shape = (*axis_lengths, *(len(coords[name][1]) for name in over))
        kind = np.asarray(fill).dtype
        data[name] = ((*dims, *over), _lazy(shape, kind, lambda: on_axes(make(), fill)))

    for name, make in numbers.items():
        add(name, make)
    if "squared_privacy_cost" in numbers:
        budgets = set[str]()
        for name, values in (("delta", experiment.delta), ("epsilon", experiment.epsilon)):
            if not values or name in coords:  # an axis of the grid, or epsilon without delta
                break
            coords[name] = ((name,), np.array(values))
            budgets.add(name)
        for name, make in table.over_budgets().items():
            if budgets >= set(BUDGETS[name]):
                add(name, make, BUDGETS[name])
    ledger, rows = table.ledger, table.rows

    def started() -> Column:
        seconds = ledger.numbers("started", rows)  # 0 if unknown
        return np.where(seconds > 0, seconds * 1e3, np.nan).astype("datetime64[ms]")

    add("status", lambda: ledger.statuses(rows), fill=np.int8(Status.ABSENT))
    add("started", started, fill=np.datetime64("NaT", "ms"))
    add("attempt", lambda: ledger.numbers("attempt", rows), fill=np.int32(0))

    def recorded(name: str, numbers: NDArray[Any]) -> NDArray[Any]:
        places, values = ledger.texts(name, rows[numbers])
        distinct, at = np.unique(places, return_inverse=True)
        return np.array([values[place] for place in distinct.tolist()], dtype=np.str_)[at]

    def solve_keys(numbers: NDArray[Any]) -> NDArray[Any]:
        return table.grid.cells.take(numbers).keys("solve")

    cells = on_axes(np.arange(len(rows), dtype=np.int32), -1)
    for name, width in _WIDTHS.items():
        data[name] = (dims, _spelled(width, cells, partial(recorded, name)))
    data["cell"] = (dims, _spelled(_KEY_WIDTH, cells, table.grid.cells.ids.__getitem__))
    data["solve"] = (dims, _spelled(_KEY_WIDTH, cells, solve_keys))
    attributes = {
        "title": experiment.title or experiment.name,
        "source": experiment.source,
        "experiment": experiment.name,
        "experiment_text": experiment.text,
        "experiment_digest": experiment.digest,
        "reference": experiment.reference,
        "neighbours": table.grid.relations,
        **code.describe(),
    }
    dataset = xr.Dataset(data, coords, attrs=attributes)
    dataset["started"].encoding = dict(_TIME_ENCODING)
    for variable in dataset.variables:
        dataset[variable].attrs.update(described(str(variable)))
    dataset["status"].attrs["flag_values"] = list(map(int, Status))
    dataset["status"].attrs["flag_meanings"] = " ".join(Status.__members__).lower()
    return dataset


def _coordinates(grid: Grid) -> dict[str, tuple[tuple[str, ...], Column]]:
    """The dimensions and the values of every coordinate."""
    coords: dict[str, tuple[tuple[str, ...], Column]] = {}
    for axis in grid.axes:
        for name, values in ((axis.name, axis.values), *axis.companions.items()):
            coords[name] = ((axis.name,), _labels(values))
    for name, value in grid.scalars.items():
        coords[name] = ((), _labels([value]).reshape(()))
    return coords


def _labels(values: Sequence[Scalar]) -> Column:
    """The values as a coordinate: numbers of one type, or texts."""
    if isinstance(values, range):
        return np.arange(values.start, values.stop)
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds == {bool}:
        labels = np.array(values)
        if labels.dtype != object:
            return labels
    return np.array([str(value) for value in values], dtype=np.str_)


def write(dataset: xr.Dataset | xr.DataTree, path: Location) -> None:
    """Write a dataset as zarr, in large chunks, with consolidated metadata.

    The files have zarr's format 2: format 3 has no stable type for strings of fixed length, and
    xarray's ``where`` rejects strings of variable length.

    Raises
    ------
    OSError
        If the dataset cannot be written.
    """
    with dask.config.set(scheduler="synchronous"):
        if dataset.nbytes > _IN_MEMORY_BYTES:
            _write(dataset, path.zarr())
            return
        files: dict[str, Any] = {}  # takes half the time of zarr on a disk
        _write(dataset, zarr.storage.MemoryStore(files))
        path.write_files({name: content.to_bytes() for name, content in files.items()})


def _write(dataset: xr.Dataset | xr.DataTree, to: Any) -> None:
    encoding: Any = _encoding(dataset)
    if isinstance(dataset, xr.DataTree):
        encoding = {node.path: _encoding(node.dataset) for node in dataset.subtree}
    dataset.to_zarr(to, mode="w", encoding=encoding, consolidated=True, zarr_format=2)


def _spelled(width: int, numbers: NDArray[Any], spell: Spell) -> Any:
    """A text for each cell number, "" for -1; a large array is computed when it is written."""
    kind = np.dtype(f"<U{width}")

    def part(some: NDArray[Any]) -> NDArray[Any]:
        texts, is_cell = np.zeros(some.shape, kind), some >= 0
        texts[is_cell] = _cut(spell(some[is_cell]), width)
        return texts

    if numbers.size * kind.itemsize <= _AT_ONCE_BYTES:
        return part(numbers)
    import dask.array as da

    untyped: Any = da

    def block(block_info: Mapping[None, Any]) -> NDArray[Any]:
        return part(numbers[tuple(slice(*ends) for ends in block_info[None]["array-location"])])

    limit = _AT_ONCE_BYTES
    chunks = untyped.core.normalize_chunks("auto", numbers.shape, limit=limit, dtype=kind)
    return untyped.map_blocks(block, chunks=chunks, dtype=kind, meta=np.empty(0, kind))


def _lazy(shape: tuple[int, ...], kind: DTypeLike, make: Make) -> Any:
    """The array that ``make`` returns; a large one is computed when it is written."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    if size <= _AT_ONCE_BYTES:
        return make().astype(kind, copy=False)
    import dask.array as da
    from dask.delayed import delayed

    untyped: Any = da
    whole = untyped.from_delayed(delayed(make, traverse=False)(), shape, kind)
    return whole.rechunk("auto", block_size_limit=_LARGEST_CHUNK_BYTES)


def _cut(texts: NDArray[Any], width: int) -> NDArray[Any]:
    """The texts, with an ellipsis in the middle of long ones; the journal has the full text.

    A message often begins with a path and ends with the fault, so the end gets most of the width.
    """
    kind = np.dtype(f"<U{width}")
    if texts.dtype.itemsize <= kind.itemsize:
        return texts
    start, end = width // 4, width // 4 + 1 - width
    kept = [t if len(t) <= width else f"{t[:start]}…{t[end:]}" for t in texts.tolist()]
    return np.array(kept, kind)


def _encoding(dataset: Any) -> dict[str, dict[str, Any]]:
    return {
        str(name): {**variable.encoding, "chunks": variable.shape}
        for name, variable in dataset.variables.items()
        if variable.size and variable.ndim
        if variable.chunks is None and variable.nbytes <= _LARGEST_CHUNK_BYTES
    }
