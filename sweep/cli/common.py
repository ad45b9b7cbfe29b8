"""Shared by the commands: options, exit codes, and a sentence for every error."""

import errno
import inspect
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sweep.cluster.specification import ClusterSpec

OK, TROUBLED, BAD_INPUT, BUG, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 70, 130, 141
END_SECONDS = 20.0
"""Longest time for a finished command to end its threads and processes."""
_CONTINUING = ("run", "rerun", "scorecard", "merge", "forget", "compact", "pack")
"""Commands that change a store; when interrupted, they say whether anything is lost."""
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""errno values that mean standard output cannot be written because of its disk."""
debug_mode = {"on": False}


def complete_experiment(incomplete: str) -> list[str]:
    """The shipped experiments with this prefix, for shell completion."""
    from sweep.experiment.loading import experiments

    return [name for name in experiments() if name.startswith(incomplete)]


_ENTRY = re.compile(
    r"^(\w+) : (argument )?(.*?)(?:, default: (.*))?\n((?: {4}.*\n?)+)", re.MULTILINE
)


def documented(command: Callable[..., None]) -> str:
    """Take the help of a command's parameters from its docstring, and return the rest.

    An entry of the section Parameters begins like ``value : VARIABLE``, ``kind : argument KIND``
    or ``claims : flag``. A default that is not a value follows in words: ``, default: all of
    them``.
    """
    text, _, entries = inspect.cleandoc(command.__doc__ or "").partition("\n\nParameters\n---")
    for name, positional, metavar, default, described in _ENTRY.findall(entries):
        long, help = f"--{name.strip('_').replace('_', '-')}", " ".join(described.split())
        if positional:
            made = argument(metavar, help, default or True)
        elif metavar == "flag":
            made = typer.Option(long, help=help)
        else:
            made = option(metavar, help, default or True, long)
        command.__annotations__[name] = Annotated[command.__annotations__[name], made]
    return text


def argument(metavar: str, help: str, default: str | bool = True, **more: Any) -> Any:
    """An argument of a command; ``default`` describes the effect of omitting it."""
    return typer.Argument(
        metavar=metavar, help=_described(help, default), show_default=default is True, **more
    )


def option(metavar: str, help: str, default: str | bool = True, *names: str, **more: Any) -> Any:
    """An option with a value; ``default`` describes the effect of omitting it."""
    return typer.Option(
        *names,
        metavar=metavar,
        help=_described(help, default),
        show_default=default is True,
        **more,
    )


def _described(help: str, default: str | bool) -> str:
    """Help that ends with the default; Click would put a textual default in parentheses."""
    return help if isinstance(default, bool) else f"{help}  [default: {default}]"


_FILE = "A shipped experiment, or the path of a YAML file."
ExperimentName = Annotated[str, argument("EXPERIMENT", _FILE, autocompletion=complete_experiment)]
StoreFolder = Annotated[str, argument("STORE", "The store of a 'sweep run'.")]
_FOLDER = "Folder for the results, or s3://BUCKET/PREFIX, gs://..., az://..."
StoreOption = Annotated[str | None, option("STORE", _FOLDER, "results/EXPERIMENT")]
_LOCAL = "one process per processor of this machine"
ClusterOption = Annotated[Path | None, option("FILE", "A cluster.yaml in dask-ctl's form.", _LOCAL)]
_PATIENCE = "How long to wait for workers, or for a scheduler that does not answer."
PatienceOption = Annotated[float | None, option("SECONDS", _PATIENCE, "600", min=0.0)]
_SET = "Override a value of the experiment, as in --set d=64,128. May be repeated."
SetOption = Annotated[list[str] | None, option("KEY=VALUE", _SET, True, "--set")]
_CODE = "Allow calls of functions that the experiment names (workload 'entry-point')."
AllowCode = Annotated[bool, typer.Option("--allow-code", help=_CODE)]
_MIXED = "Allow workers with other versions of Python and libraries than this command."
AllowMixed = Annotated[bool, typer.Option("--allow-mixed", help=_MIXED)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
_WHERE = "Only cells that meet this condition on coordinates, status and variables."
WhereOption = Annotated[str | None, option("CONDITION", _WHERE)]


def cluster_of(path: Path | None, *, allow_code: bool) -> "ClusterSpec | None":
    """The cluster of a ``--cluster`` file; None if there is none.

    With a file, or with ``--allow-code``, modules in the current folder can be imported, since
    either may name one.
    """
    if path is not None or allow_code:
        with suppress(FileNotFoundError):  # the folder has been removed
            if (here := os.getcwd()) not in sys.path:
                sys.path.append(here)
    if path is None:
        return None
    from sweep.cluster import specification

    return specification.load(path)


def default_store(name: str) -> str:
    """The default store of an experiment."""
    return f"results/{name}"


def check_choice(option: str, given: str, choices: Sequence[str]) -> None:
    """Refuse a value of an option that is not one of its choices.

    Raises
    ------
    SweepError
        If it is not; the message has the nearest choice, or all of them.
    """
    from sweep.errors import SweepError
    from workloads.parameters import nearest

    if given not in choices:
        raise SweepError(f"{option} {given!r}: there is none; {nearest(given, list(choices))}")


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
        if isinstance(error, _expected()):
            print_error(f"error: {error}")
            troubled = isinstance(error, NoWorkersError | SchedulerLostError)
            raise typer.Exit(TROUBLED if troubled else BAD_INPUT) from None
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            print_error(f"error: the output cannot be written: {error.strerror}")
            raise typer.Exit(TROUBLED) from None
        print_error(f"internal error: {type(error).__name__}: {error}; --debug shows where")
        raise typer.Exit(BUG) from None


def _expected() -> tuple[type[Exception], ...]:
    """The errors of bad input; imported when one is raised, because that takes half a second."""
    from sweep.errors import SweepError

    try:
        from solvers.errors import SolverError
        from workloads import TargetsError, WorkloadError
    except Exception:  # a library cannot be imported, which is the error
        return (SweepError,)
    return SweepError, WorkloadError, TargetsError, SolverError


def print_error(text: str) -> None:
    """Print to standard error, with the current traceback for ``--debug``."""
    from sweep.report import consoles

    with suppress(OSError):  # the exit code remains
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
