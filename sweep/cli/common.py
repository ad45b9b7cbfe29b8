"""What the commands share: options, exit codes, and a sentence for every error.

Parameters
----------
experiment : argument EXPERIMENT
    A shipped experiment, or the path of a YAML file.
store : argument STORE
    A store that 'sweep run' has created.
cluster : FILE, default: one process per processor of this machine
    A cluster.yaml in dask-ctl's format.
patience : SECONDS, from 0.0, default: 600
    How long to wait for workers, or for a scheduler that does not respond.
set_ : KEY=VALUE
    Override a value of the experiment, as in --set d=64,128. May be repeated.
allow_code : flag
    Allow the experiment to call functions that it names under 'entry-point'.
allow_mixed : flag
    Allow workers whose versions of Python and libraries differ from those that this command uses.
json_ : flag
    Print JSON for other programs.
where : CONDITION
    Select cells by a condition on coordinates (workload, mechanism, ...), status, code (current,
    edited, other) and other variables, as in "d > 64 and mechanism == 'CA'".
digits : N, from 1 to 15
    Significant digits of numbers.
"""

import errno
import inspect
import json
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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


def complete_experiment(incomplete: str) -> list[str]:
    """Return the shipped experiments whose names have this prefix, for shell completion."""
    from sweep.experiment.files import experiments

    return [name for name in experiments() if name.startswith(incomplete)]


_SECTION = "\n\nParameters\n----------\n"
_ENTRY = re.compile(
    r"^(\w+) : (argument )?(.*?)(?:, from (\S+?)(?: to (\S+))?)?(?:, default: (.*))?\n"
    r"((?: {4}.*\n?)+)",
    re.MULTILINE,
)


def documented(command: Callable[..., None]) -> str:
    """Add help texts to a command's parameters; return its docstring without the parameters.

    The help text of a parameter is its entry in the section Parameters of the command's docstring
    or, if that has no such entry, of this module's docstring. The first line of an entry is, for
    example, ``value : VARIABLE``, ``kind : argument KIND`` or ``claims : flag``. A range may follow
    (``, from 1 to 15``), and then a default in words (``, default: all of them``).
    """
    text, _, own = inspect.cleandoc(command.__doc__ or "").partition(_SECTION)
    shared = (__doc__ or "").partition(_SECTION)[2]
    entries = {entry[0]: entry[1:] for part in (shared, own) for entry in _ENTRY.findall(part)}
    for name in inspect.signature(command).parameters:
        positional, metavar, least, most, default, described = entries[name]
        help, long = " ".join(described.split()), f"--{name.strip('_').replace('_', '-')}"
        options: dict[str, Any] = {
            # Click would put a default in words in parentheses
            "help": f"{help}  [default: {default}]" if default else help,
            "show_default": not default,
            "metavar": None if metavar == "flag" else metavar,
            "min": json.loads(least) if least else None,
            "max": json.loads(most) if most else None,
            "autocompletion": complete_experiment if metavar == "EXPERIMENT" else None,
        }
        made = typer.Argument(**options) if positional else typer.Option(long, **options)
        command.__annotations__[name] = Annotated[command.__annotations__[name], made]
    return text


def cluster_of(path: Path | None, *, allow_code: bool) -> "ClusterSpec | None":
    """Return the cluster that a ``--cluster`` file specifies; None without a file.

    With a file, or with ``--allow-code``, the current folder becomes part of Python's module path,
    because the file or the experiment may name a module in this folder.
    """
    if path is not None or allow_code:
        with suppress(FileNotFoundError):  # the folder has been removed
            if (here := os.getcwd()) not in sys.path:
                sys.path.append(here)
    if path is None:
        return None
    from sweep.cluster import specification

    return specification.load(path)


@contextmanager
def error_handling(ctx: Any) -> Iterator[None]:
    """Turn errors into a sentence and an exit code, with tracebacks only for ``--debug``."""
    from sweep.errors import NoWorkersError, SchedulerLostError, first_line

    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        continues = "; nothing is lost: the same command continues where it stopped"
        print_error(f"interrupted{continues if ctx.invoked_subcommand in _CONTINUING else ''}")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise typer.Exit(BROKEN_PIPE) from None
    except Exception as error:
        if type(error).__module__.startswith(("click", "typer")):
            raise  # invalid command line, with typer's own message
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
            typer.echo(consoles.escaped(traceback.format_exc()), err=True)
        typer.echo(consoles.sentence(text), err=True)


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
