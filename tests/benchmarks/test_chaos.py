"""A small chaos run; and every check of what is left after one can fail."""

import json

import numpy as np
import pytest
import xarray as xr

from benchmarks.chaos import judge
from benchmarks.chaos.judge import Begun, Written
from benchmarks.chaos.run import chaos
from sweep.store import segments
from sweep.store.records import BoundRecord, CellRecord, Status


@pytest.mark.slow
def test_nothing_is_lost_in_a_small_chaos(tmp_path):
    said = []
    folder = tmp_path / "chaos"
    folder.mkdir()
    figures = chaos(cells=60, faults=8, seed=1, folder=folder, say=said.append)
    assert figures.findings == [], "\n".join(said)
    assert figures.struck.total() == 8


def test_what_was_recorded_and_begun_again_is_found():
    known = [Written("a", 10.0, np.inf), Written("b", 10.0, 20.0)]
    fine = [Begun("a", 5.0), Begun("b", 5.0), Begun("b", 25.0), Begun("c", 15.0)]
    assert judge.computed_twice(fine, known) == []
    wrong = [Begun("a", 15.0), Begun("b", 15.0)]
    assert judge.computed_twice([*fine, *wrong], known) == wrong


def test_what_counts_as_recorded(tmp_path):
    folder, sound = tmp_path / "journal", tmp_path / "sound"
    folder.mkdir()
    sound.mkdir()
    ok, failed = (
        CellRecord("c", key, "p", state) for key, state in (("s", Status.OK), ("t", Status.FAILED))
    )
    segments.write_segment(folder, "r1", [ok, failed, BoundRecord("p", 1.0), BoundRecord("q")])
    segments.write_segment(folder, "r2", [ok])
    segments.write_segment(sound, "r2", [ok])
    (folder / "r2.jsonl").write_text("{")
    found = judge.written(folder, sound, {"r2.jsonl": 9.0})
    assert [(one.about, one.until) for one in found] == [
        ("s", np.inf),
        ("bound p", np.inf),
        ("s", 9.0),
    ]
    assert judge.recorded(folder) == {"c": 1}


def test_one_bit_is_a_difference():
    one = xr.Dataset({"x": ("d", [1.0, np.nan]), "runtime_s": ("d", [1.0, 2.0])})
    other = one.assign(runtime_s=("d", [3.0, 4.0]))
    same = judge.differences(xr.DataTree(one), xr.DataTree(other))
    assert same == []
    moved = other.assign(x=("d", [np.nextafter(1.0, 2.0), np.nan]))
    assert judge.differences(xr.DataTree(one), xr.DataTree(moved)) == ["//x"]
    assert judge.differences(xr.DataTree(one), xr.DataTree(other.drop_vars("x"))) == ["//x"]


def test_what_workers_begin_is_read_back(tmp_path):
    line = {"about": "s", "time": 3.0, "process": 1}
    (tmp_path / "begun.jsonl").write_text(json.dumps(line) + "\n")
    assert judge.begun(tmp_path / "begun.jsonl") == [Begun("s", 3.0)]
