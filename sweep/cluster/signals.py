"""Ctrl-C and SIGTERM: kept from others' handlers, from workers, and from the last dataset."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


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
def undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C: it would strike in the midst of the last dataset's threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
