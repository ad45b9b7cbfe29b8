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
from processes import until

from sweep.cli import common
from sweep.cluster import clusters, signals, specification

COMMAND = """
import atexit, sys, time
from sweep.cli import common, main
{left}
sys.argv = ["sweep", "--version"]
main()
"""


@pytest.mark.parametrize(
    "left",
    [
        "atexit.register(time.sleep, 600)",
        "import threading; threading.Thread(target=time.sleep, args=(600,), name='late').start()",
    ],
)
def test_a_command_that_is_over_ends(left):
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(left=f"common.END_SECONDS = 0.3\n{left}")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout[:13]) == (0, "fitness-sweep")
    assert "the command is over, but its process did not end within 0.3 s" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_that_ends_by_itself_says_nothing():
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(left="")], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_of_a_command_that_is_over_changes_nothing(name):
    left = (
        "import signal\n"
        f"signal.signal(signal.{name}, signal.default_int_handler)\n"
        f"atexit.register(signal.raise_signal, signal.{name})"
    )
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(left=left)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_library_that_cannot_be_imported_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "solvers.errors", None)
    with pytest.raises(typer.Exit) as ended, common.error_handling(None):
        raise ImportError("no libopenblas")
    assert ended.value.exit_code == common.BUG
    assert capsys.readouterr().err.startswith("internal error: ImportError: no libopenblas")


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
    monkeypatch.setattr(clusters, "_CLOSE_SECONDS", seconds)
    two = {**specification.LOCAL.kwargs, "n_workers": 2}
    with clusters.connected(specification.LOCAL.model_copy(update={"kwargs": two})) as client:
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
    two = {**specification.LOCAL.kwargs, "n_workers": 2}

    def sweep():
        with clusters.connected(specification.LOCAL.model_copy(update={"kwargs": two})) as client:
            client.wait_for_workers(2)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGSTOP)

    with pytest.raises(KeyboardInterrupt):
        sweep()
    none_is_left()
