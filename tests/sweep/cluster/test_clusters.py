import asyncio
import gc
import logging
import multiprocessing
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from distributed.client import AllExit
from distributed.utils import LoopRunner
from faults import UnprintableError
from processes import local, refused, until
from programs import ran

from sweep.cluster import clusters, specification
from sweep.errors import ClusterError, NoWorkersError

pytestmark = pytest.mark.usefixtures("nothing_left")
ROOT = Path(__file__).resolve().parents[3]


class Pretended:
    """A foreign cluster class."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"queue {kwargs['queue']!r} does not exist")


class Bad:
    """A cluster class that misbehaves at its start or at its end."""

    scheduler_address = "tcp://127.0.0.1:9"

    def __init__(self, *, at, error, wait):
        self.at, self.error, self.wait = at, error, wait
        self.act("start")

    def close(self, timeout):
        self.act("end")

    def act(self, now):
        if now == self.at:
            self.wait()
            if self.error is not None:
                raise self.error


def written(tmp_path, text):
    (path := tmp_path / "cluster.yaml").write_text(text)
    return path


def test_the_file_at_the_root_is_the_default():
    assert specification.load(ROOT / "cluster.yaml") == specification.LOCAL


def test_a_run_takes_the_path_of_the_file(tmp_path):
    path = written(tmp_path, "address: tls://a:1\npatience: 7\n")
    for given in (path, str(path)):
        spec = specification.requested(given, None, allow_mixed=False)
        assert (spec.address, spec.patience) == ("tls://a:1", 7)
    assert specification.requested(path, 9, allow_mixed=False).patience == 9
    with pytest.raises(ClusterError, match="expected the path of a cluster"):
        specification.requested({"address": "tls://a:1"}, None, allow_mixed=False)
    with pytest.raises(ClusterError, match="with the line 'address: ADDRESS'"):
        specification.requested("tls://a:8786", None, allow_mixed=False)


def test_any_class_can_be_named(tmp_path):
    text = "version: 1\nmodule: test_clusters\nclass: Pretended\nargs: [1]\nkwargs: {queue: q}\n"
    spec = specification.load(written(tmp_path, text))
    assert spec.args == (1,)
    refused(spec, r"test_clusters\.Pretended cannot be started: queue 'q'")


@pytest.mark.parametrize(
    ("module", "cls", "content"),
    [
        ("dask_jobqueue_of_nobody", "SLURMCluster", None),
        ("dask", "NoSuchCluster", None),
        ("exits_at_import", "X", "import sys; sys.exit(5)"),
        ("breaks_at_import", "X", "def ("),
    ],
)
def test_a_class_that_is_not_there_is_one_sentence(tmp_path, monkeypatch, module, cls, content):
    if content is not None:
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / f"{module}.py").write_text(content)
    spec = specification.load(written(tmp_path, f"module: {module}\nclass: {cls}\n"))
    refused(spec, f"cluster {module}.{cls} cannot be started: .*installed")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 2\nmodule: a\nclass: b\n", "line 1, version: "),
        ("module: dask.distributed\n", "either 'module' and 'class', or 'address'"),
        ("address: tcp://a:1\nmodule: a\nclass: b\n", "either 'module' and 'class'"),
        ("address: tcp://a:1\nscale: 0\n", "or 'address' alone"),
        ("module: a\nclass: b\nscale: 1\nadapt: {maximum: 1}\n", "either 'scale' or 'adapt'"),
        ("module: a\nclass: b\nadapt: {max: 2}\n", "line 3, adapt.max: no such key; .* 'maximum'"),
        ("module: [\n", "line 2: not valid YAML"),
    ],
)
def test_a_file_that_is_wrong_is_one_sentence(tmp_path, text, said):
    with pytest.raises(ClusterError, match=said) as caught:
        specification.load(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_class_that_makes_no_cluster_is_one_sentence(capfd):
    spec = specification.ClusterSpec(module="os", **{"class": "getcwd"})
    refused(spec, "'str' object has no attribute 'scheduler_address'")
    assert "Traceback" not in capfd.readouterr().err


def bad(at, error=None, wait=lambda: None):
    kwargs = {"at": at, "error": error, "wait": wait}
    return specification.ClusterSpec.model_validate(
        {"module": "test_clusters", "class": "Bad", "kwargs": kwargs}
    )


def clumsy(suppressed):
    """An error whose first cause says most; ``suppressed`` as by ``from None``."""
    error = RuntimeError("it did not start")
    error.__context__ = OSError(24, "Too many open files")
    error.__context__.__context__ = asyncio.CancelledError()
    error.__suppress_context__ = suppressed
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit("bye"), "SystemExit: bye"),
        (UnprintableError(), "UnprintableError"),
        (clumsy(suppressed=False), r".* Too many open files"),
        (clumsy(suppressed=True), "it did not start"),
    ],
)
def test_a_class_cannot_end_the_command(error, said):
    refused(bad("start", error), f"Bad cannot be started: {said}; check cluster.yaml")


@pytest.mark.parametrize(
    ("error", "late", "said"),
    [(SystemExit(3), 300.0, "SystemExit: 3"), (None, 0.1, "it has not ended within 0.2 s")],
)
def test_a_cluster_that_does_not_close_is_reported_and_abandoned(monkeypatch, error, late, said):
    monkeypatch.setattr(clusters, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(clusters, "LATE_SECONDS", late)
    left = threading.Event()
    with (
        pytest.warns(UserWarning, match=f"may have left workers behind; check for them: {said}"),
        ExitStack() as stack,
    ):
        clusters.start_cluster(bad("end", error, lambda: error or left.wait(600)), stack)
    left.set()


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:9",
        "tcp://[::::]:1",
        "foo://127.0.0.1:1",
        "tls://127.0.0.1:1",  # without keys
        "tcp://127.0.0.1:{mute}",
    ],
)
def test_a_scheduler_that_does_not_answer_is_left_when_patience_is_over(address, monkeypatch):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 3600.0)
    monkeypatch.setattr(clusters, "LEAST_CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(clusters, "LATE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = address.format(mute=mute.getsockname()[1])
        refused(specification.ClusterSpec(address=address, patience=1.0), "cannot be reached")
    collect_garbage_while_another_client_starts()


def collect_garbage_while_another_client_starts():
    """Python may collect garbage at any time, also where Dask has locked its event loops."""

    def collect():
        with LoopRunner._lock:
            gc.collect()

    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    collecting.join(60)
    assert not collecting.is_alive()


def test_a_scheduler_that_runs_is_used_and_left_running(client):
    spec = specification.ClusterSpec(address=client.scheduler.address)
    with clusters.connected(spec) as other:
        assert len(other.nthreads()) == 2
    assert client.submit(sum, [1, 2]).result() == 3


KILLED_AT_START = """
import os
import signal
import sys
from pathlib import Path
starts = Path(__file__).with_name("starts")
if "spawn_main" in str(sys.orig_argv):
    with starts.open("a") as file:
        file.write("x")
    if starts.stat().st_size <= {killed}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed_at_start(tmp_path, monkeypatch):
    """Lets the first workers be killed while Python starts in them."""

    def kill(workers):
        (tmp_path / "sitecustomize.py").write_text(KILLED_AT_START.format(killed=workers))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return kill


@pytest.mark.slow
def test_a_cluster_whose_worker_is_killed_as_it_starts_is_started_again(killed_at_start):
    killed_at_start(1)
    with clusters.connected(local(n_workers=1)) as client:
        assert client.submit(sum, [1, 2]).result() == 3


@pytest.mark.slow
def test_without_a_cluster_file_the_hint_is_not_to_check_it(killed_at_start):
    """Which makes the exit code 1: the experiment and its options are right."""
    killed_at_start(99)
    with pytest.raises(NoWorkersError, match=r"LocalCluster cannot be started: .*run again") as it:
        clusters.start_cluster(specification.LOCAL, ExitStack())
    assert "cluster.yaml" not in str(it.value)


def test_a_cluster_that_does_not_start_in_time_is_a_sentence(monkeypatch):
    monkeypatch.setattr(clusters, "START_SECONDS", 0.1)
    left = threading.Event()
    refused(bad("start", None, lambda: left.wait(600)), "cannot be started: it has not ended")
    left.set()


SLOW_TO_START = """
import sys
import threading
import time
from pathlib import Path
if "spawn_main" in str(sys.orig_argv) and Path(__file__).with_name("slow").exists():
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("no_children")
def test_no_worker_goes_on_starting_when_its_cluster_is_closed(tmp_path, monkeypatch, capfd):
    """It would find its inheritance gone, and print a traceback."""
    (tmp_path / "sitecustomize.py").write_text(SLOW_TO_START)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with clusters.connected(local(n_workers=1)):
        (tmp_path / "slow").touch()
        (worker,) = multiprocessing.active_children()
        worker.kill()
        until(lambda: set(multiprocessing.active_children()) - {worker})
    # its nanny may be the one that hears of the end
    until(lambda: not multiprocessing.active_children())
    assert "Traceback" not in capfd.readouterr().err


def test_a_dashboard_whose_port_is_taken_gets_another_without_a_word(recwarn):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with clusters.connected(local(n_workers=0, dashboard_address=address)) as client:
            assert address not in client.dashboard_link
    assert not [one for one in recwarn if "already in use" in str(one.message)]


async def fail_unheard():
    """Start a task that fails, and that only the garbage collector finds afterwards."""

    async def fail():
        raise AllExit(asyncio.current_task())

    asyncio.create_task(fail())  # noqa: RUF006 - nobody awaits it
    await asyncio.sleep(0)


def test_errors_that_nobody_awaits_in_dask_are_not_shown(monkeypatch):
    shown = []
    monkeypatch.setattr(logging.getLogger("asyncio"), "filters", [shown.append])
    with clusters.connected(local(n_workers=0)) as client:
        client.sync(fail_unheard)
    gc.collect()
    assert shown == []


@pytest.mark.slow
def test_a_script_without_a_main_guard_gets_the_line_to_add(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sweep\n"
        "experiment = sweep.load_experiment('vldb-table2', {'d': 2, 'mechanism': 'IP'})\n"
        f"sweep.run(experiment, {str(tmp_path / 'store')!r})\n"
    )
    done = ran(sys.executable, script)
    assert done.returncode != 0
    assert "under if __name__ == '__main__':" in done.stderr.strip().splitlines()[-1]
