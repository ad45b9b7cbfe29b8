"""Watching a sweep: its figures, the store's log, `status --watch` and `logs`."""

import json
import re
import time
from collections import Counter
from importlib.util import find_spec
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from faults import Fault, injected
from processes import ended as finished
from processes import local_cluster, until
from written import SMALL, replicated

import sweep
from sweep import events
from sweep.cli import stores
from sweep.cluster import specification
from sweep.errors import ClusterError, StoreError
from sweep.experiment.canonical import Spec
from sweep.plan.tasks import CellTask, Cost, Solve, Task
from sweep.report import messages
from sweep.runner import log, progress
from sweep.runner.log import Log
from sweep.runner.progress import ProgressMeter
from sweep.runner.status import Trouble
from sweep.store.folder import create
from sweep.store.records import CellRecord, Status

PREFIX, UNIFORM = Spec("prefix", {"d": 2}), Spec("uniform")


@pytest.fixture
def clock(clock, monkeypatch):
    clock.now = 1000.0
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(log, "time", clock)
    return clock


def solve(number, seconds):
    cells = (CellTask(f"c-{number}"),)
    one = Solve(f"s-{number}", "p", "w", PREFIX, UNIFORM, cells=cells, cost=Cost(seconds))
    return Task(f"t-{number}", (one,))


def ended(task, seconds, status=Status.OK, error=""):
    (item,) = task.solves
    return [CellRecord(item.cells[0].id, item.key, "p", status, runtime_s=seconds, error=error)]


def metered(planned, heard):
    seconds, began = sum(task.seconds for task in planned), progress.time.monotonic()
    return ProgressMeter(seconds, len(planned), "named {}".format, began, heard.append)


def simulated(clock, planned, took, threads):
    """The figures of a run on some threads, in mid-run and at the end."""
    heard = []
    measured = metered(planned, heard)
    measured.look([1] * threads, len(planned))
    queue = list(zip(planned, took, strict=True))
    running = []
    while queue or running:
        while queue and len(running) < threads:
            task, seconds = queue.pop(0)
            running.append((clock.now + seconds, task, seconds))
        running.sort(key=lambda one: one[0])
        end, task, seconds = running.pop(0)
        while clock.now + 1.0 < end:
            clock.now += 1.0
            measured.look([1] * threads, len(queue) + len(running) + 1)
        clock.now = end
        measured.take(task, ended(task, seconds), seconds)
    measured.look([1] * threads, 0)
    measured.report()
    return heard


def test_the_time_left_corrects_itself_by_what_was_measured(clock):
    planned = [solve(number, 0.02 * (60 - number)) for number in range(40)]
    began = clock.now
    heard = simulated(clock, planned, [100 * task.seconds for task in planned], threads=4)
    duration = clock.now - began
    assert heard[0].left_s is None, "no task has ended"
    for event in heard:
        if 0.2 * duration < event.seconds < 0.95 * duration:
            expected, least, most = event.left_s
            assert expected == pytest.approx(duration - event.seconds, rel=0.1, abs=10.0)
            assert least < expected < most
    assert heard[-1].left_s == (0.0, 0.0, 0.0)
    assert heard[-1].share == 1.0
    assert heard[-1].core_s == pytest.approx(sum(100 * task.seconds for task in planned))
    shares = [event.share for event in heard if event.seconds > 0.2 * duration]
    assert all(later > earlier - 0.01 for earlier, later in pairwise(shares))


def test_a_long_task_is_not_taken_for_a_short_one_when_the_others_end_before_it(clock):
    planned = [solve(0, 20.0), *(solve(number, 1e-4) for number in range(1, 10))]
    heard = simulated(clock, planned, [task.seconds for task in planned], threads=2)
    assert len(heard) > 15
    assert max(event.left_s[0] for event in heard if event.left_s) < 40.0


def test_a_task_that_takes_long_does_not_use_up_the_time_of_the_others(clock):
    planned = [solve(number, 1.0) for number in range(20)]
    heard = simulated(clock, planned, [1.0] * 10 + [200.0] + [1.0] * 9, threads=1)
    during = [event.left_s[0] for event in heard if 12 < event.seconds < 208]
    assert len(during) > 100
    assert during == pytest.approx([9.0] * len(during))
    alone = simulated(clock, planned[:2], [1.0, 200.0], threads=1)
    assert all(event.left_s[0] > 0.0 for event in alone if 2 < event.seconds < 200)


def test_a_run_of_which_no_task_has_ended_is_not_nearly_done(clock):
    planned = [solve(number, 0.5) for number in range(2)]
    heard = simulated(clock, planned, [20.0, 20.0], threads=2)
    assert len(heard) > 15
    assert all(event.share < 0.6 for event in heard if not event.statuses)


def test_figures_say_what_failed_and_what_is_slow(clock):
    planned = [solve(number, 1.0) for number in range(8)]
    heard = []
    measured = metered(planned, heard)
    clock.now += 7.0
    measured.report()
    assert heard.pop().seconds == 7.0, "a cluster's start is part of the run"
    clock.now += 1.0
    assert heard == []
    measured.look([], 8)
    assert heard[-1].left_s is None
    measured.look([2, 1], 8)
    for number, task in enumerate(planned[:7]):
        clock.now += 10.0
        status, error = (Status.FAILED, "no luck") if number % 3 == 0 else (Status.OK, "")
        records = ended(task, float(number), status, error)
        measured.take(task, records, float(number))
    measured.look([2, 1], 1)
    last = heard[-1]
    assert (last.workers, last.threads, last.running, last.cells) == (2, 3, 1, 8)
    assert last.statuses == {"ok": 4, "failed": 3}
    assert last.failures == {"failed: no luck": 3}
    assert last.slowest[0] == ("named c-6", 6.0)
    assert len(last.slowest) == 5
    assert last.rate == pytest.approx(0.1)
    assert last.core_s == sum(range(7))


def test_every_rare_event_comes_back_from_the_log_with_its_time(tmp_path, clock):
    store = create(tmp_path / "s", "x").path
    hear = Log(store)
    told = [
        events.RunStarted("x", "s", 3, 2, 0, 2, 0),
        events.WorkerLeft("tcp://127.0.0.1:1", 1),
        events.TaskRetried(2),
        events.RunEnded({"ok": 3}, 1.5, False),
    ]
    frequent = [events.CellsDone({"ok": 1}, "t-1"), events.DatasetWritten("s", 0.1)]
    for event in [*frequent, *told]:
        hear(event)
    (store / "runs.jsonl").open("a").write('{"torn')
    (store / "runs.jsonl").open("a").write('\n{"event": "OfAnotherVersion", "time": 1.0}\n')
    *lines, other = log.read_lines(store)
    assert [line.event for line in lines] == told
    assert {line.time for line in lines} == {clock.now}
    assert all(messages.describe(event) for event in [*frequent, *told])
    assert (other.time, other.event) == (1.0, None)


def test_a_log_that_cannot_be_written_ends_no_run(client, small, tmp_path):
    store = create(tmp_path / "s", "small").path
    for name in (log.NAME, log.PROGRESS):
        (store / name).mkdir()
    found = sweep.run(small(), store, client)
    assert (found.status == Status.OK).all()
    with pytest.raises(StoreError, match=r"runs\.jsonl' cannot be read \(Is a directory\)"):
        list(log.read_lines(store))
    assert log.read_progress(store) is None


def test_a_run_leaves_its_log_and_its_figures(client, small, tmp_path):
    sweep.run(small(), tmp_path / "s", client)
    told = Counter(line.content["event"] for line in log.read_lines(tmp_path / "s"))
    assert told["RunStarted"] == told["RunEnded"] == told["ClusterReady"] == 1
    progress = log.read_progress(tmp_path / "s")
    *_, ended = log.read_lines(tmp_path / "s")
    assert progress.seconds == ended.event.seconds, (
        "status and logs tell the same length of the run"
    )
    assert progress.statuses == {"ok": 4}
    assert progress.share == 1.0
    assert progress.core_s > 0.0
    assert {cell.partition("=")[0] for cell, _ in progress.slowest} == {"d"}


def test_a_run_that_is_killed_while_its_cluster_starts_has_figures(small, tmp_path):
    store, seen = tmp_path / "s", []

    def note(event):
        seen.append(log.read_progress(store))

    nothing = specification.ClusterSpec(module="os", **{"class": "getcwd"})
    with pytest.raises(ClusterError, match="cannot be started"):
        sweep.run(small(), store, cluster=nothing, listen=note)
    first = next(figures for figures in seen if figures)
    assert (first.cells, first.statuses, first.workers) == (4, {}, 0)
    assert time.time() - 600 < first.began < time.time()


def test_a_failed_cell_is_in_the_exit_code_the_status_and_the_logs(
    command, client, on_the_test_cluster, here
):
    (here / "x.yaml").write_text(SMALL)
    with injected(client, here, Fault("raise", "GM", times=1)):
        ran = command("run", "x.yaml", "--store", "s")
    assert ran.exit_code == 1
    assert "3 ok, 1 failed" in ran.output
    assert "sweep status s --errors" in ran.output
    short = command("status", "s")
    assert short.exit_code == 1
    assert re.search(r"done +3 of 4 cells, 1 failed", short.output)
    assert "1 failed: ValueError: broken on purpose" in short.output
    assert "Traceback" not in short.output
    assert "Traceback" in command("status", "s", "--errors").output
    assert command("rerun", "s").exit_code == 0
    assert command("status", "s").exit_code == 0

    told = command("logs", "s").output
    assert "x: 4 cells, 4 to do" in told
    assert re.findall(r"run ended after [\d.]+ m?s: (.*)", told) == ["3 ok, 1 failed", "4 ok"]

    lines = command("logs", "s", "--where", "attempt == 2").output
    assert "attempt 1" in lines
    assert 'raise ValueError("broken on purpose")' in lines
    assert "attempt 2" in lines

    (story,) = json.loads(command("logs", "s", "--where", "attempt == 2", "--json").output)
    assert [one["status"] for one in story["records"]] == ["failed", "ok"]
    beginning = story["cell"][:12]
    again = json.loads(command("logs", "s", beginning, "--json").output)
    assert again == [story]


def test_errors_that_differ_in_numbers_alone_are_one_group():
    errors = [f"ValueError: singular after {seconds:g} s" for seconds in np.arange(0, 40, 0.25)]
    found = [
        Trouble("", {}, CellRecord(f"c-{at}", "s", "p", Status.FAILED, error=error))
        for at, error in enumerate(["OSError: full", *errors])
    ]
    assert [len(group) for group in messages.group_alike(found)] == [160, 1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("logs", "s", "zzz"), "has an id that begins with 'zzz'"),
        (("logs", "s", "a", "--where", "d == 2"), "give either CELL or --where, not both"),
        (("logs", "s", "--where", ""), "condition '' cannot be read"),
        (("show", "s", "--rows", "d,"), "there is no coordinate ''"),
    ],
)
def test_missing_cells_and_coordinates_are_sentences(swept, refusal, tmp_path, words, said):
    swept(tmp_path / "s")
    assert said in refusal(words[0], tmp_path / words[1], *words[2:])


@pytest.mark.slow
def test_a_run_is_watched_from_another_process_until_it_ends(
    tmp_path, command, processes, monkeypatch
):
    gate = tmp_path / "gate"
    local_cluster(tmp_path, Fault("wait", "IP", until=str(gate)), workers=1)
    process = processes.run(replicated(3))
    shown = tmp_path / "s" / log.PROGRESS
    until(lambda: shown.exists() and log.read_progress(tmp_path / "s").workers, process)
    open_and_sleep = SimpleNamespace(
        monotonic=time.monotonic, sleep=lambda seconds: gate.touch() or time.sleep(seconds)
    )
    monkeypatch.setattr(stores, "time", open_and_sleep)
    watched = command("status", tmp_path / "s", "--watch", "--json")
    has_pages = find_spec("bokeh") is not None
    assert ("dashboard: http://127.0.0.1:" in finished(process)) == has_pages
    assert watched.exit_code == 0
    first, *_, last = map(json.loads, watched.output.splitlines())
    assert first["running"].startswith("process ")
    assert first["progress"]["workers"] == 1
    assert first["statuses"] == {"pending": 3}
    assert (last["running"], last["statuses"]) == (None, {"ok": 3})


def test_a_suggested_command_quotes_the_store_and_gives_more_time_after_a_time_limit():
    ended = events.RunEnded({"timeout": 1}, seconds=1.0, interrupted=False)
    (sentence,) = messages.describe_remaining(ended, "my results/s")
    assert "`sweep rerun 'my results/s' --time-limit SECONDS`" in sentence
