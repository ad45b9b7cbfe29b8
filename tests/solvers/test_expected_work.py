"""The expected work of a solve, and how much memory a process may take."""

import tracemalloc

import numpy as np
import pytest

import solvers
import workloads
from solvers.mechanism import ProblemSize
from solvers.problem import memory


@pytest.mark.parametrize("name", solvers.all_mechanisms())
def test_more_queries_over_more_cells_take_no_less(name):
    mechanism = solvers.all_mechanisms()[name]
    small, large = (mechanism().work(ProblemSize(n, n)) for n in (64, 512))
    assert 0 < small.flops <= large.flops
    assert 0 < small.bytes <= large.bytes


def test_planning_prefixes_of_many_ages_builds_none_of_them():
    tracemalloc.start()
    workload = workloads.make(
        "census",
        attributes={"age": 3000, "sex": 2, "race": 7},
        tables=[["age"], ["age", "sex"], ["age", "sex", "race"]],
        prefixes=["age"],
    )
    planned = solvers.expected_work("optimal", workload)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 3000**2 / 2
    assert planned.bytes > 8 * 3000**2
    np.testing.assert_array_equal(workload.operator.terms[0][0], np.tri(3000))


@pytest.mark.parametrize("family", ["prefix", "range", "random", "wrelated", "identity-sum"])
def test_a_dense_optimum_takes_no_more_memory_than_planned(family):
    workload = workloads.from_matrix(workloads.make(family, d=256).dense)
    targets = np.random.default_rng(0).integers(1, 11, workload.m)
    tracemalloc.start()
    assert solvers.solve("optimal", workload, targets, tol=1e-3).converged
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < solvers.expected_work("optimal", workload).bytes


VERSION_1 = "9:name=systemd:/\n4:cpuacct,memory:/jobs/7\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "least"),
    [
        ("0::/jobs/7", {"jobs/7/memory.max": "max", "jobs/memory.max": "4096"}, 4096.0),
        ("0::/jobs/7", {"jobs/7/memory.max": "512", "jobs/memory.max": "4096"}, 512.0),
        (VERSION_1, {"memory/jobs/7/memory.limit_in_bytes": "1024"}, 1024.0),
        (VERSION_1, {"memory/memory.limit_in_bytes": "9223372036854771712"}, 9223372036854771712.0),
        ("0::/", {}, None),
    ],
)
def test_limits_of_containers_and_batch_jobs_count(tmp_path, groups, files, least):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert min(memory.limits_of_groups(groups, tmp_path), default=None) == least
