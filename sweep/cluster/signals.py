"""Obeys Ctrl-C, SIGTERM and SIGHUP only where a run can end cleanly; hides Ctrl-C from workers."""

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import TypeVar

_T = TypeVar("_T")
_Handler = Callable[[int, FrameType | None], object] | int | None
WHILE_STARTING = "the cluster is closed once it has started; Ctrl-C again may leave workers behind"


@contextmanager
def restored_handlers() -> Iterator[dict[signal.Signals, _Handler]]:
    """Restore the signal handlers at the end, since importing some cluster modules replaces them.

    Yields the current handlers by signal, or an empty dict outside the main thread. The caller may
    replace handlers until the end.
    """
    in_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if in_main else ()
    before = dict(zip(numbers, map(signal.getsignal, numbers), strict=True))
    try:
        yield before
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def deferred_interrupt(warning: str = "") -> Iterator[Callable[[], None]]:
    """Defer the first Ctrl-C: the yielded function raises KeyboardInterrupt at its next call.

    If KeyboardInterrupt were raised at an arbitrary point, it could hit a finaliser, which would
    swallow it, and the run would continue. A second Ctrl-C raises KeyboardInterrupt at once. The
    user's own signal handlers are not replaced.

    Parameters
    ----------
    warning : str
        Shown at the first Ctrl-C.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            signal.default_int_handler(number, frame)
        if warning:
            warnings.warn(warning, stacklevel=2)

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    with restored_handlers() as handlers:
        for number, handler in handlers.items():
            if handler is signal.default_int_handler:
                signal.signal(number, note)
        yield check


def without_interrupts(call: Callable[[], _T], seconds: float | None = None) -> _T:
    """Run ``call`` in a thread that blocks Ctrl-C, and return its result.

    Every thread and process that ``call`` starts blocks Ctrl-C, too: the terminal sends Ctrl-C to
    all processes, but only the driver should act on it and end the workers. SIGTERM is not blocked,
    because workers must obey it.

    Raises
    ------
    TimeoutError
        If the call takes longer than ``seconds``; it then continues in the background.
    """
    resource_tracker.ensure_running()  # a later start would unblock Ctrl-C
    future: Future[_T] = Future()

    def work() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True, name="without interrupts").start()
    if not wait([future], seconds).done:
        raise TimeoutError(f"it has not ended within {seconds:g} s")
    return future.result()


@contextmanager
def ignored_interrupt() -> Iterator[None]:
    """Ignore Ctrl-C, SIGTERM and SIGHUP while the last dataset is written or a cluster is closed.

    The handler does nothing; it is not SIG_IGN, because new processes would then ignore SIGTERM.
    """
    with restored_handlers() as numbers:
        for number in numbers:
            signal.signal(number, lambda *_: None)
        yield
