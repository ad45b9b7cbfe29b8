"""What the commands share: options, exit codes, and a sentence for every error.

Parameters
----------
experiment
    A shipped experiment, or the path of a YAML file.
store
    A store that 'sweep run' has created.
cluster
    A cluster.yaml in dask-ctl's format; by default one process per processor of this machine.
patience
    How long to wait for workers, or for a scheduler that does not respond; by default 600.
set_
    Override a value of the experiment, as in --set d=64,128. May be repeated.
allow_code
    Allow the experiment to call functions that it names under 'entry-point'.
allow_mixed
    Allow workers whose versions of Python and libraries differ from those that this command uses.
json_
    Print JSON for other programs.
where
    Select cells by a condition on coordinates (workload, mechanism, ...), status, code (current,
    edited, other) and other variables, as in "d > 64 and mechanism == 'CA'".
group
    Show only this group; by default all groups.
digits
    Significant digits of numbers.
"""

import errno
import inspect
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from sweep.cli import complete

if TYPE_CHECKING:
    from sweep.cluster.specification import ClusterSpec

OK, TROUBLED, BAD_INPUT, BUG, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 70, 130, 141
END_SECONDS = 20.0
"""Longest time that a finished command waits for its threads and processes to end."""
_CONTINUING = ("run", "rerun", "scorecard", "merge", "forget", "compact", "pack")
"""Commands that continue when they are repeated; if interrupted, they say so."""
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""The errno values that occur if standard output is a file on a full or failing disk."""
_OURS = ("sweep.errors", "solvers.errors", "workloads.errors")
"""Names of the modules that define our errors; importing the modules takes a fifth of a second."""
debug_mode = {"on": False}


Text = str | None
Experiment = Annotated[str, Argument(metavar="EXPERIMENT", autocompletion=complete.experiments)]
Store = Annotated[str, Argument(metavar="STORE")]
NewStore = Annotated[Text, Option("--store", metavar="STORE")]
Cluster = Annotated[Path | None, Option(metavar="FILE")]
Patience = Annotated[float | None, Option(metavar="SECONDS", min=0.0)]
Settings = Annotated[
    list[str] | None, Option("--set", metavar="KEY=VALUE", autocompletion=complete.settings)
]
AllowCode = Annotated[bool, Option("--allow-code")]
AllowMixed = Annotated[bool, Option("--allow-mixed")]
AsJson = Annotated[bool, Option("--json")]
Where = Annotated[Text, Option(metavar="CONDITION")]
Digits = Annotated[int, Option(metavar="N", min=1, max=15)]
Group = Annotated[Text, Option(metavar="GROUP")]

_PARAMETERS = "\n\nParameters\n----------\n"
"""The heading of a docstring's section on parameters."""
_ENTRY = re.compile(r"^(\w+)\n((?: {4}.*\n?)+)", re.MULTILINE)
"""Matches a parameter's name and text in this section."""


def add_help(command: Callable[..., None]) -> str:
    """Give the options of a command the texts of its docstring's section Parameters as help.

    Texts on options that several commands share are in this module's docstring. Return the
    command's docstring without the section.
    """
    text, _, own_entries = inspect.cleandoc(command.__doc__ or "").partition(_PARAMETERS)
    shared = (__doc__ or "").partition(_PARAMETERS)[2]
    for name, described in _ENTRY.findall(f"{shared}\n{own_entries}"):
        if name in command.__annotations__:
            (option,) = command.__annotations__[name].__metadata__
            option.help = " ".join(described.split())
    return text


def load_cluster(
    path: Path | None,
    *,
    allow_code: bool,
    allow_mixed: bool = False,
    patience: float | None = None,
) -> "ClusterSpec":
    """Return the cluster that a ``--cluster`` file specifies, by default one on this machine.

    With a file, or with ``--allow-code``, the current folder becomes part of Python's module path,
    because the file or the experiment may name a module in this folder.
    """
    if path is not None or allow_code:
        with suppress(FileNotFoundError):  # the folder has been removed
            if (folder := os.getcwd()) not in sys.path:
                sys.path.append(folder)
    from sweep.cluster.specification import requested

    return requested(path, patience, allow_mixed=allow_mixed)


@contextmanager
def handle_errors(command: str) -> Iterator[None]:
    """Turn errors of a command into a sentence and an exit code; ``--debug`` adds tracebacks."""
    from sweep.errors import NoWorkersError, SchedulerLostError, first_line

    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        continues = "; nothing is lost: the same command continues where it stopped"
        print_error(f"interrupted{continues if command in _CONTINUING else ''}")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise typer.Exit(BROKEN_PIPE) from None
    except Exception as error:
        if any(kind.__module__.startswith(_OURS) for kind in type(error).__mro__):
            print_error(f"error: {error}")
            troubled = isinstance(error, NoWorkersError | SchedulerLostError)
            raise typer.Exit(TROUBLED if troubled else BAD_INPUT) from None
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            print_error(f"error: the output cannot be written: {error.strerror}")
            raise typer.Exit(TROUBLED) from None
        if isinstance(error, ImportError | MemoryError):
            print_error(
                f"error: {type(error).__name__}: {first_line(error)}; give it more memory "
                "('ulimit -v' shows its limit), or install the libraries again; --debug shows where"
            )
            raise typer.Exit(TROUBLED) from None
        print_error(f"internal error: {type(error).__name__}: {error}; --debug shows where")
        raise typer.Exit(BUG) from None


def print_error(text: str) -> None:
    """Print an error to standard error; with ``--debug``, print its traceback first."""
    from sweep.report import consoles

    with suppress(OSError):  # the exit code still reports the error
        if debug_mode["on"]:
            typer.echo(consoles.escape(traceback.format_exc()), err=True)
        typer.echo(consoles.shorten(text), err=True)


def limit_exit_time(code: str | int | None) -> None:
    """End this process within `END_SECONDS`, with the ``code`` of a SystemExit.

    Without this limit, Python waits at exit until all threads and child processes have ended.
    Signals are ignored from here on, because all work is done.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)

    def end() -> None:
        with suppress(Exception):
            kept = ", ".join(thread.name for thread in threading.enumerate())
            typer.echo(
                f"warning: the command is over, but its process did not end within {END_SECONDS:g} "
                f"s (threads: {kept}); it is ended now, and nothing is lost",
                err=True,
            )
        os._exit(code if isinstance(code, int) else int(code is not None))

    timer = threading.Timer(END_SECONDS, end)
    timer.daemon = True
    timer.start()
