"""Ctrl-C and SIGTERM: kept from others' handlers, from workers, and from the last dataset."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Keep the signal handlers: some cluster modules replace them when they are imported."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Block Ctrl-C, and leave it blocked in every thread and process started meanwhile.

    The terminal sends it to all processes, but only the driver should act on it: the driver ends
    the workers.
    """
    resource_tracker.ensure_running()  # it unblocks the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def termination_postponed() -> Iterator[None]:
    """Act on a first SIGTERM at the end only: in a cluster's start nothing could close it.

    It is not blocked as Ctrl-C is, since the processes started meanwhile have to heed it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt  # the start may never end

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
        if len(came) == 1:
            signal.raise_signal(signal.SIGTERM)


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

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is signal.default_int_handler
    ]
    for number in numbers:
        signal.signal(number, note)
    try:
        yield check
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C: it would strike in the midst of the last dataset's threads.

    By a handler that does nothing: processes inherit SIG_IGN, and would not heed SIGTERM either.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
