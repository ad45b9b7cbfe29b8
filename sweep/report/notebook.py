"""`sweep.run` and `sweep.rerun` as Python calls them: they return the dataset.

In a notebook with a progress bar to look at.
"""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import ParamSpec

import xarray as xr
from rich.console import Console

from sweep.dataset.reading import open_dataset
from sweep.report.terminal.progress import ProgressBar
from sweep.runner import commands
from sweep.store.folder import Store

P = ParamSpec("P")


def watched(work: Callable[P, Store]) -> Callable[P, xr.Dataset | xr.DataTree]:
    """The function with the dataset as its result and a progress bar in notebooks.

    Only if no other listener is given.
    """

    @wraps(work)
    def shown(*args: P.args, **kwargs: P.kwargs) -> xr.Dataset | xr.DataTree:
        if "listen" in kwargs or not in_notebook():
            return open_dataset(work(*args, **kwargs).path)
        with ProgressBar(_console()) as bar:
            kwargs["listen"] = bar
            return open_dataset(work(*args, **kwargs).path)

    return shown


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return Console().is_jupyter


def _console() -> Console:
    """A bar where Jupyter has widgets, which rich needs for one, and plain lines elsewhere."""
    if find_spec("ipywidgets") is not None:
        return Console()
    return Console(force_jupyter=False, force_terminal=False, width=100, highlight=False)


run = watched(commands.run)
rerun = watched(commands.rerun)
