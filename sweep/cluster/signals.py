"""Ctrl-C and SIGTERM: kept from others' handlers, from workers, and from the last dataset."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

_WAKING = signal.SIGUSR2
_UNTRACKED = "ignore:resource_tracker"
_WAITS = (
    "interrupted while the cluster starts: it is closed as soon as it is there; a second Ctrl-C "
    "ends the command at once, and may leave workers behind"
)


@contextmanager
def handlers_kept() -> Iterator[tuple[int, ...]]:
    """Restore the signal handlers at the end: some cluster modules replace them when imported.

    Gives the signals whose handlers may be changed meanwhile: none outside the main thread.
    """
    in_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if in_main else ()
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield numbers
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def postponed() -> Iterator[None]:
    """Act on a first Ctrl-C or SIGTERM at the end: in a cluster's start nothing could close it.

    A second one ends it at once, since the start may never end. Ctrl-C stays blocked in every
    thread and process started meanwhile: the terminal sends it to all processes, but only the
    driver should act on it, which ends the workers. SIGTERM is not blocked: workers must heed it.
    """
    _start_tracker()  # it unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        if threading.current_thread() is threading.main_thread():
            with _first_noted():
                yield
        else:
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_tracker() -> None:
    """Start Python's process that frees what others leave behind, without its warnings.

    It outlives a command that is killed, and would still write on its screen.
    """
    sys.warnoptions.append(_UNTRACKED)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(_UNTRACKED)


@contextmanager
def _first_noted() -> Iterator[None]:
    """Raise a signal that came once again at the end; KeyboardInterrupt if one came twice.

    This thread may be waiting in C code, with Ctrl-C blocked, so that any other thread may be the
    one to receive it. Python then writes to the wake-up descriptor; the thread that reads it
    interrupts the wait with a signal of its own.
    """
    came: list[int] = []
    main = threading.get_ident()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt
        warnings.warn(_WAITS, stacklevel=2)

    def wake() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while number := os.read(reading, 1):
            if number[0] == signal.SIGINT:
                signal.pthread_kill(main, _WAKING)

    handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers[_WAKING] = signal.signal(_WAKING, lambda *_: None)
    descriptor = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    waking = threading.Thread(target=wake, daemon=True)
    waking.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        os.close(writing)
        waking.join()
        os.close(reading)
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if len(came) == 1:
            signal.raise_signal(came[0])


@contextmanager
def noted() -> Iterator[Callable[[], None]]:
    """Only note a first Ctrl-C; the function that this gives raises KeyboardInterrupt for it.

    Raised wherever Python happens to be, it can strike in a finaliser, which drops it: the run
    would go on. A second one is raised at once. A user's own handlers are left alone.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            signal.default_int_handler(number, frame)

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    with handlers_kept() as numbers:
        for number in numbers:
            if signal.getsignal(number) is signal.default_int_handler:
                signal.signal(number, note)
        yield check


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C, which would interrupt the threads that write the last dataset.

    The handler does nothing: SIG_IGN would be inherited by processes, which would ignore SIGTERM.
    """
    with handlers_kept() as numbers:
        for number in numbers:
            signal.signal(number, lambda *_: None)
        yield
