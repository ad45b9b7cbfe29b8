"""The journal as an xarray dataset in zarr, derived and written as a whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask
import numpy as np
import xarray as xr
from numpy.typing import DTypeLike, NDArray

from sweep.dataset import derivation, lazy, provenance
from sweep.dataset.derivation import Make
from sweep.dataset.positions import Column, Positions
from sweep.experiment.meanings import described
from sweep.grid.grids import Grid
from sweep.store import disk
from sweep.store.ledger import Ledger
from sweep.store.location import Location
from sweep.store.records import Status

_LARGEST_CHUNK_BYTES = 2**23
_SPELLED_AT_ONCE_BYTES = 2**22
_TIME_ENCODING = {
    "units": "milliseconds since 1970-01-01",
    "dtype": "int64",
    "_FillValue": np.iinfo(np.int64).min,
}
_KEY_WIDTH = 20
_HOST_WIDTH = 64
_ERROR_WIDTH = 200
_VERSIONS_WIDTH = 64

Spell = Callable[[NDArray[Any]], NDArray[Any]]
"""Gives the texts that some numbers stand for."""


@dataclass(frozen=True)
class Terms:
    """The settings of an experiment that the derivation of its dataset depends on.

    Attributes
    ----------
    reference : str
        The label of the mechanism that the variance ratios refer to.
    attributes : Mapping[str, str]
        Attributes of the dataset that come from the experiment, such as its title.
    """

    epsilon: tuple[float, ...] = ()
    delta: tuple[float, ...] = ()
    reference: str = "optimal"
    attributes: Mapping[str, str] | None = None


class Derivation:
    """Derives the dataset of some grids, again and again, from a growing ledger.

    Parameters
    ----------
    grids : sequence of Grid
        The grids, one for each group.
    terms : Terms
        Budgets, reference and attributes.
    """

    def __init__(self, grids: Sequence[Grid], terms: Terms) -> None:
        self.terms = terms
        self.positions = tuple(Positions(grid, terms.reference) for grid in grids)

    def dataset(self, ledger: Ledger) -> xr.Dataset | xr.DataTree:
        """The dataset; a tree with one node for each group if there are several."""
        made = {
            positions.grid.group: assemble(positions, ledger, self.terms)
            for positions in self.positions
        }
        if len(made) == 1:
            return next(iter(made.values()))
        relations = "; ".join(dict.fromkeys(data.attrs["neighbours"] for data in made.values()))
        first = next(iter(made.values())).attrs
        root = xr.Dataset(attrs={**first, "neighbours": relations})
        return xr.DataTree.from_dict({"/": root, **made})


def assemble(positions: Positions, ledger: Ledger, terms: Terms) -> xr.Dataset:
    """The dataset of one grid, its variables made when they are read, one at a time.

    Parameters
    ----------
    positions : Positions
        The grid, and the place of every cell in it.
    ledger : Ledger
        The current record of every cell.
    terms : Terms
        Budgets, reference and attributes.

    Returns
    -------
    xarray.Dataset
        With the long name and the units of every variable.
    """
    dims, numbers = positions.dimensions, derivation.columns(positions, ledger)
    coords: dict[str, Any] = dict(positions.coordinates)

    def lazily(
        make: Make, over: tuple[str, ...] = (), fill: Any = np.nan, kind: DTypeLike = np.float64
    ) -> tuple[tuple[str, ...], Any]:
        shape = (*positions.shape, *(len(coords[name][1]) for name in over))
        return (*dims, *over), lazy.array(shape, kind, lambda: positions.scattered(make(), fill))

    data: dict[str, Any] = {name: lazily(make) for name, make in numbers.items()}
    cost = numbers.get("squared_privacy_cost")
    if cost is not None and terms.delta and "delta" not in positions.names:
        curves = derivation.curves(positions, ledger)
        coords["delta"] = (("delta",), np.array(terms.delta))
        data["epsilon_at_targets"] = lazily(
            lambda: derivation.epsilon_at_targets(cost(), terms.delta, curves), ("delta",)
        )
        if terms.epsilon and "epsilon" not in positions.names:
            coords["epsilon"] = (("epsilon",), np.array(terms.epsilon))

            def ratio() -> Column:
                return derivation.variance_ratio_at_budget(
                    cost(), terms.epsilon, terms.delta, curves
                )

            data["delta_at_targets"] = lazily(
                lambda: derivation.delta_at_targets(cost(), terms.epsilon), ("epsilon",)
            )
            data["variance_ratio_at_budget"] = lazily(ratio, ("epsilon", "delta"))
            data["average_squared_error_at_budget"] = lazily(
                lambda: derivation.average_squared_error_at_budget(positions, ledger, ratio()),
                ("epsilon", "delta"),
            )
            if curves:
                data["variance_ratio_at_pure_budget"] = lazily(
                    lambda: derivation.variance_ratio_at_pure_budget(
                        positions, terms.epsilon, curves
                    ),
                    ("epsilon",),
                )
    for name, make, fill in _facts(positions, ledger):
        data[name] = lazily(make, (), fill, np.asarray(fill).dtype)
    for name, width, places, spell in _texts(positions, ledger):
        data[name] = (dims, _spelled(width, positions.scattered(places, -1), spell))
    relation = {"neighbours": positions.grid.relations}
    attributes = {**(terms.attributes or {}), **relation, **provenance.describe()}
    made = xr.Dataset(data, coords, attrs=attributes)
    made["started"].encoding = dict(_TIME_ENCODING)
    for variable in made.variables:
        made[variable].attrs.update(described(str(variable)))
    made["status"].attrs["flag_values"] = [int(status) for status in Status]
    made["status"].attrs["flag_meanings"] = " ".join(status.label for status in Status)
    return made


def write(dataset: xr.Dataset | xr.DataTree, path: Location) -> None:
    """Write a dataset as zarr, each variable in as few chunks as fit, with consolidated metadata.

    In zarr's format 2: texts of fixed length have no stable form in format 3, and xarray's
    ``where`` refuses texts of variable length.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    to = disk.zarr_store(path)
    with dask.config.set(scheduler="synchronous"):
        _write(dataset, to)


def _write(dataset: xr.Dataset | xr.DataTree, to: Any) -> None:
    if isinstance(dataset, xr.DataTree):
        encoding = {node.path: _encoding(node.dataset) for node in dataset.subtree}
        dataset.to_zarr(to, mode="w", encoding=encoding, consolidated=True, zarr_format=2)
    else:
        encoding = _encoding(dataset)
        dataset.to_zarr(to, mode="w", encoding=encoding, consolidated=True, zarr_format=2)


def columns(positions: Positions, ledger: Ledger) -> dict[str, Column]:
    """Every variable that has one value for each cell, in the order of the grid's cells."""
    numbers = derivation.columns(positions, ledger)
    facts = {name: make for name, make, _ in _facts(positions, ledger)}
    texts = {
        name: _spelled(width, places, spell)
        for name, width, places, spell in _texts(positions, ledger)
    }
    return {name: make() for name, make in (numbers | facts).items()} | texts


def _facts(positions: Positions, ledger: Ledger) -> list[tuple[str, Make, Any]]:
    """Variables that are not results: state and origin of cells; with fill values."""
    rows = ledger.rows(positions.ids)

    def started() -> Column:
        return (ledger.numbers("started", rows) * 1e3).astype("datetime64[ms]")

    return [
        ("status", partial(ledger.statuses, rows), np.int8(Status.ABSENT)),
        ("started", started, np.datetime64("NaT", "ms")),
        ("attempt", partial(ledger.tried, rows), np.int32(0)),
    ]


def _texts(positions: Positions, ledger: Ledger) -> list[tuple[str, int, NDArray[Any], Spell]]:
    """Variables that are texts: the width of each, a number for every cell, and what it stands for.

    The width is the same in every version of the dataset: a reader may have opened one version and
    read a chunk of the next, so their types must agree.
    """
    rows, cells = ledger.rows(positions.ids), positions.grid.cells
    widths = {
        "host": _HOST_WIDTH,
        "error": _ERROR_WIDTH,
        "code": _KEY_WIDTH,
        "versions": _VERSIONS_WIDTH,
    }
    found = [(name, width, *ledger.texts(name, rows)) for name, width in widths.items()]
    numbers = np.arange(len(rows), dtype=np.int32)
    keys: dict[str, Spell] = {
        "cell": cells.ids.__getitem__,
        "solve": lambda numbers: cells.take(numbers).solve_keys,
    }
    return [
        *((name, width, places, _listed(values)) for name, width, places, values in found),
        *((name, _KEY_WIDTH, numbers, spell) for name, spell in keys.items()),
    ]


def _spelled(width: int, numbers: NDArray[Any], spell: Spell) -> Any:
    """The texts of these numbers, "" for -1; those of a large dataset when they are written."""
    kind = np.dtype(f"<U{width}")

    def part(some: NDArray[Any]) -> NDArray[Any]:
        distinct, at = np.unique(some, return_inverse=True)
        spelled = _cut(spell(distinct[distinct >= 0]), width).astype(kind)
        return np.append(np.zeros(len(distinct) - len(spelled), kind), spelled)[
            at.reshape(some.shape)
        ]

    if numbers.size * kind.itemsize <= _SPELLED_AT_ONCE_BYTES:
        return part(numbers)
    import dask.array as da

    limit = _LARGEST_CHUNK_BYTES * numbers.itemsize // kind.itemsize
    with dask.config.set({"array.chunk-size": limit}):
        places: Any = da.asarray(numbers)  # type: ignore[no-untyped-call]
    return places.map_blocks(part, dtype=kind)


def _cut(texts: NDArray[Any], width: int) -> NDArray[Any]:
    """The texts with an ellipsis where they are too long: the whole ones are in the journal."""
    if texts.dtype.itemsize <= np.dtype(f"<U{width}").itemsize:
        return texts
    kept = np.char.add(texts.astype(f"<U{width - 1}"), "…")
    return np.where(np.char.str_len(texts) > width, kept, texts)


def _listed(values: Sequence[str]) -> Spell:
    """The texts at some places of a list."""
    return lambda places: np.array([values[at] for at in places.tolist()], dtype=np.str_)


def _encoding(dataset: Any) -> dict[str, dict[str, Any]]:
    return {
        str(name): {**variable.encoding, "chunks": variable.shape}
        for name, variable in dataset.variables.items()
        if variable.size and variable.nbytes <= _LARGEST_CHUNK_BYTES and variable.ndim
    }
