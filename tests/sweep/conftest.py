"""A cluster of two processes for all tests of the sweep, and small experiments."""

import multiprocessing
import os
import shutil
import signal
import threading
from contextlib import ExitStack, suppress

import dask
import distributed
import pytest
from distributed import Client, LocalCluster
from processes import Processes
from typer.testing import CliRunner

import sweep
from sweep.cli import app
from sweep.cluster import clusters, specification
from sweep.experiment.loading import parse_experiment
from sweep.runner import commands
from sweep.store import folder
from sweep.store.journal import read_segment
from sweep.store.paths import DiskPath
from sweep.store.records import CellRecord


class Pair:
    """A cluster of two processes, started anew if a test has left it with fewer.

    Dask does not replace a worker that dies while its nanny is still starting it.
    """

    def __init__(self):
        self._open = ExitStack()
        self._client = None

    def client(self):
        if self._client is None or not self._whole():
            self.close()
            two = LocalCluster(**{**specification.LOCAL.kwargs, "n_workers": 2})
            self._client = self._open.enter_context(Client(self._open.enter_context(two)))
        return self._client

    def close(self):
        self._client = None
        self._open.close()

    def _whole(self):
        """Whether both workers exist and answer: a killed worker may still be listed."""
        for _ in range(5):
            with suppress(TimeoutError, OSError):
                self._client.wait_for_workers(2, timeout=3)
                if len(self._client.run(os.getpid)) == 2:
                    return True
        return False


class Clock:
    """Time that passes as a test says."""

    now = 0.0

    def monotonic(self):
        return self.now

    time = monotonic


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def pair():
    two = Pair()
    with dask.config.set({"distributed.scheduler.allowed-failures": clusters.ALLOWED_FAILURES}):
        yield two
        two.close()


@pytest.fixture
def as_in_a_terminal():
    """Python's own handler of Ctrl-C, whatever other tests have imported."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def client(pair):
    return pair.client()


def event_loops():
    """The threads of all Dask clients and clusters of this process that are not closed."""
    return {thread for thread in threading.enumerate() if thread.name == "IO loop"}


def default_client():
    """The client that Dask uses where the user names none; None if there is none."""
    with suppress(ValueError):
        return distributed.default_client()


@pytest.fixture
def nothing_left(request):
    """No client or cluster that a test starts is alive at its end, nor is one the default."""
    if "no_children" not in request.fixturenames:
        request.getfixturevalue("client")  # that of all tests, which stays
    loops, client = event_loops(), default_client()
    yield
    assert event_loops() <= loops
    assert default_client() is client


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The test's folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_children(pair):
    """No worker of other tests is or becomes a child of this process."""
    pair.close()
    assert multiprocessing.active_children() == []


@pytest.fixture
def processes(tmp_path):
    """Starts processes in the test's folder."""
    made = Processes(tmp_path)
    yield made
    made.close()


@pytest.fixture
def command():
    """Calls the command line in this process."""
    return lambda *words: CliRunner().invoke(app, list(map(str, words)), prog_name="sweep")


@pytest.fixture
def refusal(command):
    """The one sentence with which the command line refuses words: exit code 2, no output.

    A mistake in the usage comes after the usage itself.
    """

    def sentence(*words):
        found = command(*words)
        assert (found.exit_code, found.stdout) == (2, "")
        usage, _, said = found.stderr.strip().rpartition("\n")
        assert said.startswith("Error: " if usage else "error: ")
        return said

    return sentence


@pytest.fixture
def on_the_test_cluster(client, monkeypatch):
    """Let runs that would start a cluster use that of the tests."""
    solve = commands.solve

    def solve_here(session, work, given, spec, mechanisms):
        solve(session, work, client, spec, mechanisms)

    monkeypatch.setattr(commands, "solve", solve_here)


@pytest.fixture
def small():
    """IP and GM on prefix workloads: 4 cells; the mechanisms do not know the certified optima."""

    def make(d="[2, 4]", mechanism="[IP, GM]", more=""):
        return parse_experiment(
            "title: small\nreference: IP\ndelta: [1.0e-5]\nepsilon: [1.0]\n"
            f"{more}\nblocks:\n  - workload: {{name: prefix, d: {d}}}\n    mechanism: "
            f"{mechanism}\n",
            "small.yaml",
        )

    return make


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """A folder for stores that are swept once for all tests, with their content."""
    return tmp_path_factory.mktemp("swept"), {}


@pytest.fixture
def swept(pair, small, originals):
    """A copy of a small experiment's store at a path, and its dataset."""
    place, made = originals

    def copied(path, *asked, **more):
        experiment = small(*asked, **more)
        if experiment.text not in made:
            store = place / str(len(made))
            sweep.run(experiment, store, pair.client())
            made[experiment.text] = store
        shutil.copytree(made[experiment.text], path, symlinks=True, dirs_exist_ok=True)
        return sweep.open(path)

    return copied


@pytest.fixture
def tmp_path(tmp_path):
    """A folder of the test's own, as stores see it."""
    return DiskPath(tmp_path)


@pytest.fixture
def fresh(tmp_path):
    """A new store."""
    return folder.create(tmp_path / "s", "mine")


@pytest.fixture
def records():
    """All cell records of a store's journal, including repeated ones."""

    def read(store):
        found = []
        for path in sorted((store / "journal").glob("*.jsonl")):
            found += [r for r in read_segment(DiskPath(path)) if isinstance(r, CellRecord)]
        return found

    return read
