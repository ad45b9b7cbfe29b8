"""What becomes of Ctrl-C and SIGTERM while a sweep runs."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from processes import until

from sweep.cluster import signals

pytestmark = pytest.mark.usefixtures("as_in_a_terminal")


class Finalised:
    """Something during whose finaliser the user interrupts, where Python drops exceptions."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_strikes_in_a_finaliser_is_not_lost():
    with signals.noted() as check:
        check()
        Finalised()
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_strikes_at_once():
    with signals.noted():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_users_own_handler_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with signals.noted() as check:
            signal.raise_signal(signal.SIGINT)
            check()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_comes_while_a_cluster_starts_is_acted_upon_when_it_is_there(number):
    steps = []

    def start():
        with signals.postponed():
            os.kill(os.getpid(), number)
            time.sleep(0.2)
            steps.append("the cluster is there")

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            pytest.warns(UserWarning, match="it is closed as soon as it is there"),
            pytest.raises(KeyboardInterrupt),
        ):
            start()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert steps == ["the cluster is there"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_ends_a_start_that_does_not_end(number):
    before = signal.getsignal(number), signal.getsignal(signal.SIGUSR2)

    def strike():
        os.kill(os.getpid(), number)
        until(lambda: heard.list)
        os.kill(os.getpid(), number)

    def start():
        with signals.postponed():
            threading.Thread(target=strike).start()
            time.sleep(600)

    began = time.monotonic()
    with (
        pytest.warns(UserWarning, match="it is closed as") as heard,
        pytest.raises(KeyboardInterrupt),
    ):
        start()
    assert time.monotonic() - began < 300
    assert (signal.getsignal(number), signal.getsignal(signal.SIGUSR2)) == before
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


KILLED = """
import multiprocessing, os, signal
from sweep.cluster import signals

with signals.postponed():
    kept = multiprocessing.get_context("spawn").Semaphore()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_written_after_a_command_was_killed():
    command = [sys.executable, "-c", KILLED]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stdout + ended.stderr) == (-signal.SIGKILL, "")
