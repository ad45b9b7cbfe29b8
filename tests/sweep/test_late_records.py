"""Tasks are told of what other runs record meanwhile, whatever hinders the command for a while."""

import json
from types import SimpleNamespace

import pytest

from sweep.plan.items import Bound
from sweep.plan.tasks import Task
from sweep.runner import late_records
from sweep.runner.late_records import LateRecords
from sweep.store import disk, segments
from sweep.store.records import BoundRecord
from sweep.store.view import StoreView

TASK = Task("r2-000000", (Bound("p", "key", None, None),))


@pytest.fixture
def view(tmp_path):
    view = StoreView(str(tmp_path), "")
    view.journal.mkdir()
    return view


@pytest.fixture
def clock(monkeypatch):
    """What stands for the time, in seconds."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(late_records, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_what_a_full_disk_kept_from_a_task_is_told_as_soon_as_there_is_room(view):
    late = LateRecords(view, (), "r2")
    segments.write_segment(view.journal, "r1-000000", [BoundRecord("p", 1.0)])
    view.late.mkdir()  # in the place of the file
    late.tell([TASK])
    view.late.rmdir()
    late.tell([TASK])
    assert json.loads(view.late.read_text()) == {TASK.name: ["r1-000000"]}


def test_a_command_that_is_stopped_while_it_looks_soon_looks_again(view, clock, monkeypatch):
    late, names = LateRecords(view, (), "r2"), disk.names

    def stopped(*asked):
        clock.now += 8.0
        return names(*asked)

    with monkeypatch.context() as patched:
        patched.setattr(disk, "names", stopped)
        assert late.with_late_segments(TASK) is TASK
    segments.write_segment(view.journal, "r1-000000", [BoundRecord("p", 1.0)])
    clock.now += 3.0
    assert late.with_late_segments(TASK).earlier == ("r1-000000",)


def test_where_every_look_takes_long_they_are_far_apart(view, clock, monkeypatch):
    late, names, looks = LateRecords(view, (), "r2"), disk.names, []

    def slowly(*asked):
        clock.now += 1.0
        looks.append(clock.now)
        return names(*asked)

    monkeypatch.setattr(disk, "names", slowly)
    for _ in range(200):
        clock.now += 1.0
        late.with_late_segments(TASK)
    assert 2 <= len(looks) <= 200 / late_records._SHARE + 2


def test_a_segment_that_cannot_be_read_at_first_is_read_at_the_next_look(view, clock, monkeypatch):
    late = LateRecords(view, (), "r2")
    segments.write_segment(view.journal, "r1-000000", [BoundRecord("p", 1.0)])
    with monkeypatch.context() as patched:
        patched.setattr(disk, "content", refused)
        assert late.with_late_segments(TASK) is TASK
    clock.now += 3.0
    assert late.with_late_segments(TASK).earlier == ("r1-000000",)


def refused(file):
    raise OSError(24, "Too many open files", str(file))
