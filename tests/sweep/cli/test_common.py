"""The end of a command, whatever remains of what it has started."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
import typer
from distributed import LocalCluster
from processes import local, until
from programs import ran

from sweep.cli import common
from sweep.cluster import clusters, signals

COMMAND = """
import atexit, sys, time
from sweep.cli import common, main
{left}
sys.argv = ["sweep", "--version"]
main()
"""


def command_with(left):
    """A command that has ended and left something behind in its process."""
    return ran(sys.executable, "-c", COMMAND.format(left=left))


@pytest.mark.parametrize(
    "left",
    [
        "atexit.register(time.sleep, 600)",
        "import threading; threading.Thread(target=time.sleep, args=(600,), name='late').start()",
    ],
)
def test_a_command_that_is_over_ends(left):
    done = command_with(f"common.END_SECONDS = 0.3\n{left}")
    assert (done.returncode, done.stdout[:13]) == (0, "fitness-sweep")
    assert "the command is over, but its process did not end within 0.3 s" in done.stderr
    assert "Traceback" not in done.stderr


INTERRUPTED = """
import signal
signal.signal(signal.{0}, signal.default_int_handler)
atexit.register(signal.raise_signal, signal.{0})
"""


@pytest.mark.parametrize("left", ["", *map(INTERRUPTED.format, ("SIGINT", "SIGTERM"))])
def test_a_command_that_ends_by_itself_says_nothing_even_if_it_is_interrupted_then(left):
    done = command_with(left)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "error",
    [
        ImportError("_ufuncs.so: failed to map segment\nof a shared object"),  # by ulimit -v
        MemoryError("Unable to allocate 8 GiB"),
    ],
)
def test_too_little_memory_is_one_sentence_and_no_bug(capsys, error):
    with pytest.raises(typer.Exit) as ended, common.handle_errors("run"):
        raise error
    assert ended.value.exit_code == common.TROUBLED
    said = capsys.readouterr().err
    assert said.startswith(f"error: {type(error).__name__}: {str(error).splitlines()[0]}; give it")
    assert "'ulimit -v' shows its limit" in said


def test_processes_that_begin_during_the_last_dataset_heed_sigterm():
    with signals.ignored_interrupt():
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        os.kill(os.getpid(), signal.SIGTERM)
    process.terminate()
    assert process.wait(timeout=300) == -signal.SIGTERM


def none_is_left():
    """The processes that were started; no further ones appear."""
    until(lambda: not multiprocessing.active_children())
    for _ in range(4):
        time.sleep(0.5)
        assert multiprocessing.active_children() == []


@pytest.mark.slow
@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize("seconds", [0.01, 1.0])
def test_no_worker_is_left_when_its_cluster_does_not_close_in_time(monkeypatch, seconds):
    monkeypatch.setattr(clusters, "CLOSE_SECONDS", seconds)
    with clusters.connected(local(n_workers=2)) as client:
        client.wait_for_workers(2)
        working = client.submit(time.sleep, 600)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGSTOP)
        assert working.status == "pending"
    none_is_left()


@pytest.mark.slow
@pytest.mark.usefixtures("as_in_a_terminal", "no_children")
def test_no_stopped_worker_is_left_when_a_second_interrupt_hurries_the_end(monkeypatch):
    """Python would wait without end, because a stopped process does not obey SIGTERM."""

    def interrupted(cluster, timeout):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)

    monkeypatch.setattr(LocalCluster, "close", interrupted)

    def sweep():
        with clusters.connected(local(n_workers=2)) as client:
            client.wait_for_workers(2)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGSTOP)

    with pytest.raises(KeyboardInterrupt):
        sweep()
    none_is_left()
