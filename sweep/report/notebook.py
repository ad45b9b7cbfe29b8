"""Results in Python: the accessor ``dataset.sweep``, and `sweep.run` with a progress bar.

The accessor is registered when `sweep.open`, `sweep.run`, `sweep.rerun` or `sweep.to_frame` is
first used.
"""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import ParamSpec

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console

from sweep.dataset import frames, reading
from sweep.dataset.reading import Results, open_dataset
from sweep.errors import SweepError
from sweep.report import figures, output, tables
from sweep.report.drawing import Picture
from sweep.report.messages import ProgressBar
from sweep.report.tables import Spread, Wanted
from sweep.runner import commands
from sweep.store.folder import Store
from sweep.store.paths import locate
from sweep.store.records import TROUBLED


class Plots:
    """The figures of a dataset: ``dataset.sweep.plot.ratio()``, or ``.plot("ratio")``."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def __call__(
        self, figure: str | None = None, *, store: str | Path | None = None, **changes: object
    ) -> Picture:
        """Draw a figure, which a notebook displays.

        Parameters
        ----------
        figure : str, optional
            The name of a figure that the experiment declares, or of a standard figure. By default,
            the first figure that the experiment declares; if there is none, a standard figure.
        store : str or Path, optional
            The store's folder, needed for figures of stored arrays.
        **changes
            New values for ``variable``, ``x``, ``hue``, ``panels``, ``log``, ``where``, ``group``,
            ``title``, ``size`` or ``digits``.

        Raises
        ------
        SweepError
            If the figure cannot be drawn, or if several groups have the figure and ``group`` is
            missing.
        """
        experiment = reading.experiment_of(self._results)
        name = figure or figures.choose_default(self._results, experiment)[0]
        folder = None if store is None else locate(store)
        pictures = figures.draw(self._results, experiment, name, changes, folder)
        if len(pictures) > 1:
            listed = ", ".join(reading.split_groups(self._results))
            raise SweepError(
                f"{len(pictures)} groups have figure {name!r}; name one of {listed} as group"
            )
        return pictures[0]

    def __getattr__(self, name: str) -> Callable[..., Picture]:
        if name.startswith("_") or name not in dir(self):
            raise AttributeError(f"there is no figure {name!r}; there are: {', '.join(dir(self))}")
        return lambda **changes: self(name, **changes)

    def __dir__(self) -> list[str]:
        return figures.list_names(reading.experiment_of(self._results))


class SweepAccessor:
    """The accessor ``.sweep``: tables, figures and failed cells of results from `sweep.open`."""

    def __init__(self, results: Results) -> None:
        self._results = results

    @property
    def plot(self) -> Plots:
        """The figures; each is a method of the returned `Plots`."""
        return Plots(self._results)

    def table(
        self,
        value: str = "variance_ratio",
        rows: str | tuple[str, ...] = (),
        columns: str = "mechanism",
        where: str | None = None,
        spread: Spread = "error",
        group: str | None = None,
    ) -> pd.DataFrame:
        """Return one variable as a table of texts, with spreads and the states of unsolved cells.

        Parameters
        ----------
        value, rows, columns, where, spread, group
            The options ``--value``, ``--rows`` and so on of ``sweep show``.

        Returns
        -------
        pandas.DataFrame
            The tables of all groups, or of ``group``, one below another; `frame` returns the
            numbers themselves.

        Raises
        ------
        SweepError
            If there is no such variable, coordinate, cell or group.
        """
        listed = (rows,) if isinstance(rows, str) else tuple(rows)
        made = tables.make_number_tables(
            self._results,
            reading.experiment_of(self._results),
            Wanted(value, listed, columns, where, spread, group=group),
        )
        if len(made) == 1:
            return made[0].shown
        groups = [table.title.partition(":")[0] for table in made]
        return pd.concat([table.shown for table in made], keys=groups, names=["group"])

    def frame(self) -> pd.DataFrame:
        """Return all cells as one tidy table; see `sweep.to_frame`."""
        return frames.to_frame(self._results)

    @property
    def status(self) -> xr.DataArray:
        """The status of every cell as text, for conditions such as ``ds.sweep.status == "ok"``.

        Raises
        ------
        SweepError
            If there are several groups.
        """
        (data, *others) = reading.split_groups(self._results).values()
        if others:
            names = ", ".join(reading.split_groups(self._results))
            raise SweepError(
                f"there is a status for each of several groups; take one of them: {names}"
            )
        words = np.array(list(frames.STATES.values()))
        return data["status"].copy(data=words[data["status"].to_numpy()])

    def failed(self) -> pd.DataFrame:
        """Return the cells that failed, timed out or were lost, with their errors."""
        cells = self.frame()
        troubled = cells[cells["status"].isin([status.label for status in TROUBLED])]
        groups = reading.split_groups(self._results).values()
        axes = dict.fromkeys(str(dim) for data in groups for dim in data["status"].dims)
        kept = ["group", *axes, "status", "error", "host", "cell"]
        return troubled[[name for name in kept if name in troubled]].reset_index(drop=True)

    def __repr__(self) -> str:
        title = self._results.attrs.get("title", "results")
        return f"{title}: {frames.describe_state(self._results)}"

    def _repr_html_(self) -> str:
        listed = tables.make_tables(self._results, reading.experiment_of(self._results))
        return output.render("notebook.html", title=repr(self), tables=listed)


def register() -> None:
    """Register the accessor ``.sweep`` of xarray's datasets and trees, if not yet registered."""
    if not hasattr(xr.Dataset, "sweep"):
        xr.register_dataset_accessor("sweep")(SweepAccessor)
        xr.register_datatree_accessor("sweep")(SweepAccessor)


P = ParamSpec("P")


def watch(work: Callable[P, Store]) -> Callable[P, xr.Dataset | xr.DataTree]:
    """Wrap a function that returns a store, so that it returns the store's dataset.

    The wrapped function shows a progress bar in notebooks and on terminals, unless it is called
    with ``listen``.
    """

    @wraps(work)
    def shown(*args: P.args, **kwargs: P.kwargs) -> xr.Dataset | xr.DataTree:
        console = Console(stderr=True, highlight=False)
        if "listen" in kwargs or not (console.is_jupyter or console.is_terminal):
            return open_dataset(work(*args, **kwargs).path)
        if console.is_jupyter and find_spec("ipywidgets") is None:  # rich needs it for a bar
            console = Console(force_jupyter=False, force_terminal=False, width=100, highlight=False)
        with ProgressBar(console) as bar:
            kwargs["listen"] = bar
            return open_dataset(work(*args, **kwargs).path)

    return shown


run = watch(commands.run)
rerun = watch(commands.rerun)
