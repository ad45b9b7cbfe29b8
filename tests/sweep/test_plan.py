import pytest

import sweep
from sweep.errors import StoreError
from sweep.plan.dry_run import plan, seconds_per_flop


def test_a_plan_counts_what_is_to_be_done(small):
    found = plan(small("[4, 64]", "[IP, CA, wCA-I, GM]"))
    assert found.cells == 8
    assert found.solves == 6  # with equal targets wCA-I is CA
    assert found.bounds == 2
    assert found.groups == {"prefix": {"d": 2, "mechanism": 4}}
    assert found.statuses == {"pending": 8}
    assert found.largest == "prefix(d=64)"
    assert found.largest_shape == (64, 64)
    assert found.worker_bytes > 8 * 64 * 64
    assert found.seconds > 0


def test_a_plan_knows_what_is_there_and_touches_nothing(client, small, tmp_path):
    assert plan(small(), tmp_path / "s").solves == 4
    assert not (tmp_path / "s").exists()
    sweep.run(small(), tmp_path / "s", client)
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*"))
    again = plan(small(), tmp_path / "s")
    assert (again.solves, again.bounds, again.tasks, again.seconds) == (0, 0, 0, 0.0)
    assert again.statuses == {"ok": 4}
    assert plan(small("[2, 4, 8]"), tmp_path / "s").solves == 2
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*")) == before


def test_a_matrix_that_cannot_be_written_out_is_said_to_be_so():
    from sweep.experiment.loading import parse_experiment

    huge = parse_experiment(
        "reference: IP\nblocks:\n  - workload: {name: marginals, attributes: 30, values: 10}\n"
        "    mechanism: IP\n",
        "huge.yaml",
    )
    found = plan(huge)
    assert not found.built
    assert found.largest_shape[1] == 10**30


def test_a_plan_of_a_folder_that_is_no_store(small, tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StoreError, match="is not a store"):
        plan(small(), tmp_path)


def test_the_calibration_is_a_speed_that_computers_have():
    assert 1e-13 < seconds_per_flop() < 1e-7
