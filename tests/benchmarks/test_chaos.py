"""A small chaos run; every check of its results can fail."""

import numpy as np
import pytest

from benchmarks.chaos import judge
from benchmarks.chaos.judge import Written
from benchmarks.chaos.run import Chaos
from sweep.store.journal import write_segment
from sweep.store.paths import DiskPath
from sweep.store.records import BoundRecord, CellRecord, Status


@pytest.mark.slow
def test_nothing_is_lost_in_a_small_chaos(tmp_path):
    said = []
    folder = tmp_path / "chaos"
    folder.mkdir()
    figures = Chaos(folder, cells=60, faults=8, seed=1, say=said.append).perform()
    assert figures.findings == [], "\n".join(said)
    assert figures.struck.total() == 8


def test_what_was_recorded_and_computed_again_is_found():
    first, second, third = (f"r{n}-store-{began:08x}0000" for n, began in ((1, 1), (2, 5), (3, 12)))
    fine = [
        Written("a", first, 9.0, 10.0, np.inf),
        Written("a", first, 11.0, 12.0, np.inf),  # it was in flight twice
        Written("a", second, 99.0, 99.0, np.inf),  # recorded after this run had begun
        Written("b", first, 9.0, 10.0, 20.0),
        Written("b", third, 21.0, 22.0, np.inf),  # begun after the other was damaged
    ]
    assert judge.computed_twice(fine) == []
    wrong = [Written(about, third, 15.0, 16.0, np.inf) for about in "ab"]
    assert judge.computed_twice([*fine, *wrong]) == wrong


def test_only_a_rerun_may_compute_again_what_has_failed():
    first, second = (f"r{n}-store-{n:08x}0000" for n in (1, 50))
    known = [
        Written("a", first, 9.0, 10.0, np.inf, renewable=True),
        Written("b", first, 9.0, 10.0, np.inf),
    ]
    again = [Written(about, second, 99.0, 99.0, np.inf) for about in "ab"]
    assert judge.computed_twice([*known, *again]) == again
    assert judge.computed_twice([*known, *again], {second}) == again[1:]


def test_what_counts_as_recorded(tmp_path):
    folder, sound = DiskPath(tmp_path, "journal"), DiskPath(tmp_path, "sound")
    folder.mkdir()
    sound.mkdir()
    states = Status.OK, Status.FAILED, Status.LOST
    ok, failed, lost = (CellRecord("c", s.label, "p", s, started=3.0) for s in states)
    stopped = BoundRecord("q", 1.0, error="stopped at its time limit")
    write_segment(folder, "r1", [ok, failed, lost, BoundRecord("p", 1.0), stopped])
    write_segment(folder, "r2", [ok])
    write_segment(sound, "r2", [ok])
    (folder / "r2.jsonl").write_text("{")
    found = judge.written(folder, sound, {"r2.jsonl": (8.0, 9.0)})
    here = (folder / "r1.jsonl").stat().st_ctime
    assert found == [
        Written("ok", "r1", 3.0, here, np.inf),
        Written("failed", "r1", 3.0, here, np.inf, renewable=True),
        Written("p", "r1", here, here, np.inf),
        Written("q", "r1", here, here, np.inf, renewable=True),
        Written("ok", "r2", 3.0, 8.0, 9.0),
    ]
