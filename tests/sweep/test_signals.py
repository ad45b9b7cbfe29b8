"""What becomes of Ctrl-C and SIGTERM while a sweep runs."""

import signal

import pytest

from sweep.cluster import signals


@pytest.fixture(autouse=True)
def as_in_a_terminal():
    """The handler that Python starts with, whatever other tests have imported."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def test_sigterm_is_acted_upon_when_the_cluster_is_there():
    steps = []

    def start():
        with signals.termination_postponed():
            signal.raise_signal(signal.SIGTERM)
            steps.append("the cluster is there")

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert steps == ["the cluster is there"]


def test_a_second_sigterm_ends_a_start_that_does_not_end():
    def start():
        with signals.termination_postponed():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("it goes on")

    with pytest.raises(KeyboardInterrupt):
        start()
