import shutil

import pytest

import sweep
from sweep import events
from sweep.errors import SweepError
from sweep.runner import log
from sweep.runner.session import Session
from sweep.state.stored import load_stored


def test_a_rerun_that_is_refused_is_no_run_in_the_log(swept, tmp_path):
    swept(tmp_path / "s")
    before = list(log.read_lines(tmp_path / "s"))
    assert isinstance(before[-1].event, events.RunEnded)
    with pytest.raises(SweepError, match="holds for no cell"):
        sweep.rerun(tmp_path / "s", "mechanism == 'CA'")
    assert list(log.read_lines(tmp_path / "s")) == before


def test_a_session_reads_and_changes_nothing_before_it_is_prepared(swept, tmp_path):
    swept(tmp_path / "s")
    stored = load_stored(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    Session(stored, [].append, lambda: None)
    assert not (tmp_path / "s").exists()
