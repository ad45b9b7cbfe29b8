"""Shared by the commands: options, exit codes, and a sentence for every error.

Parameters
----------
experiment : argument EXPERIMENT
    A shipped experiment, or the path of a YAML file.
store : argument STORE
    The store of a 'sweep run'.
cluster : FILE, default: one process per processor of this machine
    A cluster.yaml in dask-ctl's form.
patience : SECONDS, from 0.0, default: 600
    How long to wait for workers, or for a scheduler that does not answer.
set_ : KEY=VALUE
    Override a value of the experiment, as in --set d=64,128. May be repeated.
allow_code : flag
    Allow calls of functions that the experiment names (workload 'entry-point').
allow_mixed : flag
    Allow workers with other versions of Python and libraries than this command.
json_ : flag
    Print JSON for other programs.
where : CONDITION
    Only cells that meet this condition on coordinates, status and variables.
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
"""Commands that change a store; when interrupted, they say whether anything is lost."""
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""errno values which mean that standard output is a file whose disk cannot be written."""
_OURS = ("sweep.errors", "solvers.errors", "workloads.errors")
"""The modules of the errors that bad input raises; importing them takes a fifth of a second."""
debug_mode = {"on": False}


def complete_experiment(incomplete: str) -> list[str]:
    """The shipped experiments with this prefix, for shell completion."""
    from sweep.experiment.files import experiments

    return [name for name in experiments() if name.startswith(incomplete)]


_SECTION = "\n\nParameters\n----------\n"
_ENTRY = re.compile(
    r"^(\w+) : (argument )?(.*?)(?:, from (\S+?)(?: to (\S+))?)?(?:, default: (.*))?\n"
    r"((?: {4}.*\n?)+)",
    re.MULTILINE,
)


def documented(command: Callable[..., None]) -> str:
    """Add help texts to a command's parameters; returns its docstring without the parameters.

    A help text is an entry of the docstring's section Parameters, or else of the same section in
    the docstring of this module. It begins like ``value : VARIABLE``, ``kind : argument KIND`` or
    ``claims : flag``. A range follows as in ``, from 1 to 15``, and so does a default that is
    described in words: ``, default: all of them``.
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
    """The cluster that a ``--cluster`` file specifies; None without a file.

    With a file, or with ``--allow-code``, modules in the current folder can be imported, since
    the file or the experiment may name one.
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
    from sweep.errors import NoWorkersError, SchedulerLostError

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
        print_error(f"internal error: {type(error).__name__}: {error}; --debug shows where")
        raise typer.Exit(BUG) from None


def print_error(text: str) -> None:
    """Print an error to standard error; with ``--debug``, after its traceback."""
    from sweep.report import consoles

    with suppress(OSError):  # the exit code still reports the error
        if debug_mode["on"]:
            typer.echo(consoles.escaped(traceback.format_exc()), err=True)
        typer.echo(consoles.sentence(text), err=True)


def limit_exit_time(code: str | int | None) -> None:
    """End this process soon with the code of a SystemExit, even if threads or processes remain.

    At exit Python waits without limit for threads, and for processes that it has asked to end.
    Signals are ignored from here on, since all work is done.
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
