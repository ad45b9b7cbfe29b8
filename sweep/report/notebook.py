"""`sweep.run` and `sweep.rerun` as notebooks call them: with a progress bar to look at."""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

from rich.console import Console

from sweep.report.terminal.progress import ProgressBar
from sweep.runner import commands

P = ParamSpec("P")
R = TypeVar("R")


def watched(work: Callable[P, R]) -> Callable[P, R]:
    """The function, which shows its progress in a notebook unless somebody else listens."""

    @wraps(work)
    def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        if "listen" in kwargs or not in_notebook():
            return work(*args, **kwargs)
        with ProgressBar(_console()) as bar:
            kwargs["listen"] = bar
            return work(*args, **kwargs)

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
