"""Builds the xarray dataset from the ledger, and the zarr files of the dataset."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dask
import numpy as np
import xarray as xr
import zarr
from numpy.typing import ArrayLike

from sweep.dataset.derivation import Derivation, Values
from sweep.experiment.canonical import Scalar
from sweep.experiment.schema import Experiment
from sweep.experiment.variables import BUDGETS, describe
from sweep.grid.grids import Grid, locate_cells
from sweep.store import environment
from sweep.store.keys import Column, Rows
from sweep.store.ledger import Ledger
from sweep.store.records import Status

AT_ONCE_BYTES = 2**22
"""Largest array, in bytes, that is computed in one piece; larger ones are computed in chunks.

The errors of a million cells would take 800 MB in one piece, more than all else in the run.
"""
_TIME_ENCODING = {
    "units": "milliseconds since 1970-01-01",
    "dtype": "int64",
    "_FillValue": np.iinfo(np.int64).min,
}
_KEY = "<U20"
_WIDTHS = {"host": 64, "error": 200, "code": 20, "versions": 64}
"""The width of text variables, in characters; longer texts are shortened.

The widths are the same in all versions of a dataset, because a reader that has opened one version
may read a chunk of the next version.
"""


def build_dataset(
    experiment: Experiment, grids: Sequence[Grid], ledger: Ledger
) -> xr.Dataset | xr.DataTree:
    """Return the dataset of a single grid; for several grids, a tree with a node per group."""
    parts = {grid.group: build_group(grid, ledger, experiment) for grid in grids}
    if len(parts) == 1:
        return next(iter(parts.values()))
    relations = "; ".join(dict.fromkeys(data.attrs["neighbours"] for data in parts.values()))
    first = next(iter(parts.values())).attrs
    root = xr.Dataset(attrs={**first, "neighbours": relations})
    return xr.DataTree.from_dict({"/": root, **parts})


def build_group(grid: Grid, ledger: Ledger, experiment: Experiment) -> xr.Dataset:
    """Build the dataset of one grid; large variables are computed when `make_files` writes them."""
    table = Derivation(grid, ledger, experiment)
    compared, recorded_names = table.numbers()
    dims = tuple(axis.name for axis in grid.axes)
    cells = np.full([len(axis.values) for axis in grid.axes], -1, dtype=np.int32)
    cells.flat[locate_cells(grid.cells, grid.axes)] = np.arange(len(table.rows))
    rows = np.append(table.rows, np.int32(-1))[cells]
    coords = dict[str, tuple[tuple[str, ...], Column]]()
    data = dict[str, tuple[tuple[str, ...], object]]()
    for axis in grid.axes:
        for name, labels in ((axis.name, axis.values), *axis.companions.items()):
            coords[name] = ((axis.name,), _make_labels(labels))
    for name, value in grid.scalars.items():
        coords[name] = ((), _make_labels([value])[0])

    def add(
        name: str,
        values: Values,
        of: Rows,
        fill: ArrayLike = np.nan,
        over: tuple[str, ...] = (),
    ) -> None:
        more = tuple(coords[axis][1].size for axis in over)
        data[name] = ((*dims, *over), _lay_out(of, values, np.asarray(fill), more))

    for name, values in compared.items():
        add(name, values, cells)
    for name in recorded_names:
        add(name, partial(ledger.numbers, name), rows)
    if "squared_privacy_cost" in compared:
        budgets = set[str]()
        for name, chosen in (("delta", experiment.delta), ("epsilon", experiment.epsilon)):
            if not chosen or name in coords:  # an axis of the grid, or epsilon without delta
                break
            coords[name] = ((name,), np.array(chosen))
            budgets.add(name)
        for name, values in table.over_budgets().items():
            if budgets >= set(BUDGETS[name]):
                add(name, values, cells, over=BUDGETS[name])

    def read_started(some: Rows) -> Column:
        seconds = ledger.numbers("started", some)  # 0 if unknown
        return np.where(seconds > 0, seconds * 1e3, np.nan).astype("datetime64[ms]")

    def read_texts(name: str, width: int, some: Rows) -> Column:
        numbers, known_texts = ledger.texts(name, some)
        distinct, inverse = np.unique(numbers, return_inverse=True)
        cut = [known_texts[number] for number in distinct.tolist()]
        for number, text in enumerate(cut):
            # a message often begins with a path and ends with the cause, which gets more room
            if len(text) > width:
                cut[number] = f"{text[: width // 4]}…{text[width // 4 + 1 - width :]}"
        return np.array(cut, np.str_)[inverse]

    add("status", ledger.statuses, rows, np.int8(Status.ABSENT))
    add("started", read_started, rows, np.datetime64("NaT", "ms"))
    add("attempt", partial(ledger.numbers, "attempt"), rows, np.int32(0))
    for name, width in _WIDTHS.items():
        add(name, partial(read_texts, name, width), rows, np.zeros((), f"<U{width}"))
    key = np.zeros((), _KEY)
    add("cell", lambda some: grid.cells.ids[some].astype(_KEY), cells, key)
    add("solve", lambda some: grid.cells.take(some).keys("solve").astype(_KEY), cells, key)
    attributes = {
        "title": experiment.title or experiment.name,
        "source": experiment.source,
        "experiment": experiment.name,
        "experiment_text": experiment.text,
        "experiment_digest": experiment.digest,
        "reference": experiment.reference,
        "neighbours": grid.relations,
        **environment.describe(),
    }
    dataset = xr.Dataset(data, coords, attrs=attributes)
    dataset["started"].encoding = dict(_TIME_ENCODING)
    for variable in dataset.variables:
        dataset[variable].attrs.update(describe(str(variable)))
    dataset["status"].attrs["flag_values"] = list(map(int, Status))
    dataset["status"].attrs["flag_meanings"] = " ".join(Status.__members__).lower()
    return dataset


def _make_labels(values: Sequence[Scalar]) -> Column:
    """Return an array for a coordinate: of numbers, of booleans or, for other values, of texts."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds == {bool}:
        labels = np.array(values)
        if labels.dtype != object:
            return labels
    return np.array([str(value) for value in values], dtype=np.str_)


def make_files(dataset: xr.Dataset | xr.DataTree) -> dict[str, bytes]:
    """Return the content of a dataset's zarr files, by relative path.

    Chunks are large, and the metadata are consolidated. The files have zarr's format 2: format 3
    has no stable type for strings of fixed length, and xarray's ``where`` rejects strings of
    variable length.
    """
    tree = dataset if isinstance(dataset, xr.DataTree) else xr.DataTree(dataset)
    encoding = {
        node.path: {
            str(name): {**variable.encoding, "chunks": variable.shape}
            for name, variable in node.dataset.variables.items()
            if variable.size and variable.ndim and variable.chunks is None
        }
        for node in tree.subtree
    }
    made: dict[str, Any] = {}
    with dask.config.set(scheduler="synchronous"):
        store = zarr.storage.MemoryStore(made)
        tree.to_zarr(store, mode="w", encoding=encoding, zarr_format=2)
    return {name: content.as_buffer_like() for name, content in made.items()}


def _lay_out(numbers: Rows, values: Values, fill: Column, more: tuple[int, ...]) -> object:
    """Return a variable's array over all points of a grid; a large array is lazy (dask).

    Parameters
    ----------
    numbers : numpy.ndarray
        The number of the cell at every point, or its row in the ledger; -1 if the point has no
        cell.
    values : callable
        Returns the values of some cells, given these numbers.
    fill : numpy.ndarray
        The value at points that have no cell; the result has its data type.
    more : tuple of int
        The shape of one cell's value; empty for a single number or text.
    """

    def part(some: Rows) -> Column:
        laid = np.full((*some.shape, *more), fill, fill.dtype)
        laid[some >= 0] = values(some[some >= 0])
        return laid

    shape = (*numbers.shape, *more)
    if math.prod(shape) * fill.itemsize <= AT_ONCE_BYTES:
        return part(numbers)
    import dask.array as da

    def block(block_info: Mapping[None, Mapping[str, Sequence[tuple[int, int]]]]) -> Column:
        ends = block_info[None]["array-location"][: numbers.ndim]
        return part(numbers[tuple(slice(*end) for end in ends)])

    split = ("auto",) * numbers.ndim + (-1,) * len(more)
    chunks = da.core.normalize_chunks(split, shape, limit=AT_ONCE_BYTES, dtype=fill.dtype)
    return da.map_blocks(block, chunks=chunks, dtype=fill.dtype, meta=np.empty(0, fill.dtype))
