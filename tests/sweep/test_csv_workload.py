"""An experiment on a user's own queries: their names, their targets, their files' content."""

import pytest

import sweep
from sweep.errors import ExperimentError
from sweep.experiment.loading import parse_experiment
from sweep.grid.expansion import expand
from sweep.worker import solve
from workloads import WorkloadError

TEXT = """\
keep: [query_variances]
blocks:
  - workload: {name: csv, queries: mine.csv, domain: domain.yaml}
    targets: stated
    mechanism: [IP, optimal]
"""


def write_files(folder):
    (folder / "mine.csv").write_text("label,age,variance\nall,,3\neach,*,2\n")
    (folder / "domain.yaml").write_text("age: 0..3\n")


@pytest.fixture
def files(here):
    """The user's files in the folder of the command; the workers are elsewhere."""
    write_files(here)
    return here


def test_names_and_targets_come_with_the_queries(files, client):
    data = sweep.run(parse_experiment(TEXT, "mine.yaml"), "s", client)
    assert (data.status == 2).all(), data.error.values
    assert data.squared_privacy_cost.sel(mechanism="IP").values == pytest.approx(4 / 3)
    kept = sweep.arrays("s", str(data.solve.sel(mechanism="optimal").values))
    assert kept["query"].values.tolist() == ["all", *(f"each: age={n}" for n in range(4))]
    assert float(kept.query_variances.sel(query="all")) <= 3 * (1 + 1e-9)


def test_workers_that_have_the_files_in_a_folder_of_their_own_read_those(
    files, monkeypatch, tmp_path_factory
):
    grids = expand(parse_experiment(TEXT, "mine.yaml"))
    (cell, *_) = (cell for grid in grids for cell in grid.cells)
    for name in ("mine.csv", "domain.yaml"):
        (files / name).unlink()
    with pytest.raises(WorkloadError, match=r"cannot be read \(No such file"):
        solve.build(cell.workload)
    other = tmp_path_factory.mktemp("other")
    write_files(other)
    monkeypatch.chdir(other)
    assert solve.build(cell.workload).m == 5
    (other / "mine.csv").write_text("label,age,variance\nall,,4\n")
    with pytest.raises(WorkloadError, match="has changed since the sweep began"):
        solve.build(cell.workload)


def test_a_mistake_in_the_queries_is_one_of_the_experiment(files):
    (files / "mine.csv").write_text("label,age,variance\nall,7,4\n")
    with pytest.raises(ExperimentError, match=r"mine.yaml, line 3.*mine.csv, line 2, column 'age'"):
        expand(parse_experiment(TEXT, "mine.yaml"))
