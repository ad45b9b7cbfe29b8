"""How a command ends: its exit code, and a sentence for every error."""

import errno
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

OK, TROUBLED, BAD_INPUT, BUG, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 70, 130, 141
RESUME = "interrupted; the same command continues where it stopped"
AGAIN = "interrupted; nothing is lost, give the same command again"
END_SECONDS = 20.0
"""How long a command that is over may take to end its threads and processes."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What the file says that the output goes to; stores have sentences of their own."""
debug_mode = {"on": False}


@contextmanager
def error_handling(on_interrupt: str = "interrupted") -> Iterator[None]:
    """Turn errors into a sentence and an exit code, with tracebacks only for ``--debug``."""
    from sweep.errors import NoWorkersError, SchedulerLostError

    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        print_error(on_interrupt)
        raise typer.Exit(INTERRUPTED) from None
    except (NoWorkersError, SchedulerLostError) as error:
        print_error(f"error: {error}")
        raise typer.Exit(TROUBLED) from None
    except _expected() as error:
        print_error(f"error: {error}")
        raise typer.Exit(BAD_INPUT) from None
    except BrokenPipeError:
        raise typer.Exit(BROKEN_PIPE) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            print_error(f"error: the output cannot be written: {error.strerror}")
            raise typer.Exit(TROUBLED) from None
        print_error(f"internal error: {type(error).__name__}: {error}; --debug shows where")
        raise typer.Exit(BUG) from None


def _expected() -> tuple[type[Exception], ...]:
    """What tells of bad input; imported when something is raised, as it takes half a second."""
    from sweep.errors import SweepError

    try:
        from solvers.errors import SolverError
        from workloads import TargetsError, WorkloadError
    except Exception:  # a library cannot be imported, which is what was raised
        return (SweepError,)
    return SweepError, WorkloadError, TargetsError, SolverError


def print_error(text: str) -> None:
    """Print to standard error, with the current traceback for ``--debug``."""
    from sweep.report import consoles

    with suppress(OSError):  # the exit code tells, too
        if debug_mode["on"]:
            typer.echo(consoles.escaped(traceback.format_exc()), err=True)
        typer.echo(consoles.sentence(text), err=True)


def limit_exit_time(code: str | int | None) -> None:
    """End this process soon with the code of a SystemExit, even if threads or processes are left.

    Python waits at its end, without limit, for threads and for processes that it has asked to end.
    Nothing is left to interrupt meanwhile.
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
