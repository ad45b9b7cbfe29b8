"""Ctrl-C and SIGTERM while a sweep runs."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from processes import until

from sweep.cluster import signals

pytestmark = pytest.mark.usefixtures("as_in_a_terminal")


class Finalised:
    """An object during whose finaliser the user interrupts, where Python drops exceptions."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_strikes_in_a_finaliser_is_not_lost():
    with signals.deferred_interrupt() as check:
        check()
        Finalised()
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_users_own_handler_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with signals.deferred_interrupt() as check:
            signal.raise_signal(signal.SIGINT)
            check()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


@pytest.fixture
def sigterm_interrupts():
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("sigterm_interrupts")
@pytest.mark.parametrize(
    "numbers", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT]]
)
def test_a_signal_during_the_start_of_a_cluster_is_handled_once_it_runs_and_a_second_now(numbers):
    ended = threading.Event()

    def start():
        for number in numbers:
            os.kill(os.getpid(), number)
            until(lambda: heard.list)
        if len(numbers) > 1:  # a start that does not end
            ended.wait(600)
        return "the cluster"

    def start_and_check():
        with signals.deferred_interrupt(signals.WHILE_STARTING) as check:
            assert signals.without_interrupts(start) == "the cluster"
            check()

    with (
        pytest.warns(UserWarning, match="closed once") as heard,
        pytest.raises(KeyboardInterrupt),
    ):
        start_and_check()
    ended.set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_processes_that_are_started_then_ignore_ctrl_c():
    look = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    command = [sys.executable, "-c", look]
    done = signals.without_interrupts(lambda: subprocess.check_output(command, text=True))
    assert done == "True\n"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
