"""A time limit counts from the start of a solve, and every stage obeys it."""

import numpy as np
import pytest

import solvers
import workloads
from solvers.dual import iteration, matrix_blocks
from solvers.dual.iteration import Deadline, Stopping
from solvers.forms import kronecker
from solvers.forms.orbits import ProductOrbits, orbit_problem
from solvers.forms.solving import lower_bound
from solvers.problem import as_problem, problem
from solvers.soft_max.objective import Model

LIMIT = 50.0


class Clock:
    """Seconds that pass only in the named stages."""

    now = 0.0
    calls = 0

    def slow(self, monkeypatch, owner, name, seconds):
        """Let every call of one function take this long."""
        quick = getattr(owner, name)

        def called(*args, **options):
            self.now += seconds
            self.calls += 1
            return quick(*args, **options)

        monkeypatch.setattr(owner, name, called)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(iteration.time, "perf_counter", lambda: made.now)
    return made


def tables():
    """Ranges of an ordered attribute in tables of others, with different targets."""
    workload = workloads.make(
        "census", attributes={"age": 4, "sex": 2, "race": 3}, tables=[["age"], ["age", "sex"]],
        ranges=["age"],
    )  # fmt: skip
    return workload, 1 + np.random.default_rng(0).random(workload.m)


@pytest.mark.parametrize("name", ["optimal", "CA", "SM-II"])
@pytest.mark.parametrize(
    ("module", "function", "queries"),
    [
        (problem, "factorise", (np.tri(12),)),
        (orbit_problem, "orbit_problem", tables()),
        (orbit_problem, "components", tables()),
    ],
)
def test_what_precedes_the_first_step_takes_of_the_time(
    clock, monkeypatch, name, module, function, queries
):
    clock.slow(monkeypatch, module, function, 2 * LIMIT)
    found = solvers.solve(name, *queries, time_limit=LIMIT)
    assert (found.timed_out, found.iterations) == (True, 0)


def test_a_spectrum_that_outlasts_the_time_is_the_only_one(clock, monkeypatch):
    """On a large problem one spectrum takes a minute; the answer is computed from that one."""
    clock.slow(monkeypatch, matrix_blocks, "spectrum", 2 * LIMIT)
    of_low_rank = np.random.default_rng(0).standard_normal((4, 9))
    found = solvers.solve("optimal", of_low_rank, time_limit=LIMIT)
    assert (found.timed_out, found.iterations, clock.calls) == (True, 0, 1)
    assert found.lower_bound <= found.squared_privacy_cost < np.inf


@pytest.mark.parametrize("certificate", [True, False])
def test_no_first_step_is_taken_when_time_is_over(clock, monkeypatch, certificate):
    """An answer takes at least one spectrum of each block."""
    clock.slow(monkeypatch, orbit_problem, "orbit_problem", 2 * LIMIT)
    clock.slow(monkeypatch, matrix_blocks, "spectrum", 0.0)
    workload, targets = tables()
    if certificate:
        stopping = Stopping(1e-9, deadline=Deadline.after(LIMIT))
        assert lower_bound(as_problem(workload, targets), stopping) > 0
    else:
        assert solvers.solve("optimal", workload, targets, time_limit=LIMIT).iterations == 0
    assert clock.calls == len(ProductOrbits.of(as_problem(workload, targets)).parts) + 1


@pytest.mark.parametrize("basis", ["adapted", "identity"])
def test_conjugate_gradients_of_algorithm_2_hear_the_deadline(clock, monkeypatch, basis):
    clock.slow(monkeypatch, Model, "product", 1.0)
    matrix = workloads.make("prefix", d=24).dense
    found = solvers.solve("SM-II", matrix, np.logspace(0, 3, 24), basis=basis, time_limit=7.5)
    assert found.timed_out
    assert not found.converged
    assert clock.now <= 8.0


def test_the_factors_of_a_product_share_what_looking_at_it_has_left(clock, monkeypatch):
    clock.slow(monkeypatch, kronecker, "as_problem", 0.75 * LIMIT)
    product = workloads.make("kronecker", terms=[["prefix:5", "all-range:4"]])
    found = solvers.solve("optimal", product, time_limit=LIMIT)
    assert found.timed_out


def test_no_step_begins_that_would_end_with_its_answer_after_the_limit(clock, monkeypatch):
    clock.slow(monkeypatch, matrix_blocks, "spectrum", 10.0)
    found = solvers.solve("optimal", np.tri(12), range(1, 13), time_limit=LIMIT)
    assert (found.timed_out, found.converged, found.iterations) == (True, False, 2)
    assert clock.now == 3 * 10.0  # a third step, and as long for the factors, would end at 50
